//! Server-sent events: what changed, as it changes.
//!
//! A stream never queues: each looks at the node when it is told to look, and a reader too slow
//! for every change sees the newest state instead.

use super::ApiState;
use super::extract::Path;
use super::find::find_job;
use super::jobs::read;
use super::model::Job;
use super::problem::Problem;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt, stream};
use node_core::NodeEvent;
use node_core::ids::JobId;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// Between comments that show a silent stream is alive. Our choice: below what proxies allow.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Between hints of the same stream. Our choice: as often as a person sees a number change.
const HINT_PAUSE: Duration = Duration::from_millis(200);

/// Follow a job.
///
/// The event `job` carries the job as it stands: at once, then at its changes. The stream ends
/// after the one that shows the job is over.
#[utoipa::path(
    get, operation_id = "followJob", path = "/api/v1/jobs/{id}/events", tag = "events", security(("token" = [])),
    params(("id" = String, Path, description = "The job's id, its short form, or 4 or more of its first digits")),
    responses(
        (status = 200, body = Job, content_type = "text/event-stream", description = "`event: job`, `data:` the job"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn job(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let id = find_job(&state, &id).await?;
    let place = state.lasting.stream()?;
    // Subscribed before the first look: nothing falls in between.
    let events = state.node.events();
    let first = read(&state, id).await?;
    let ended = state.ended();
    let follow = Follow { state, id, events, next: Some(first) };
    Ok(sse(stream::unfold(follow, Follow::step).take_until(ended), place))
}

fn sse(
    stream: impl Stream<Item = Event> + Send + 'static,
    place: OwnedSemaphorePermit,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let held = stream.map(move |event| {
        let _ = &place;
        Ok(event)
    });
    Sse::new(held).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

struct Follow {
    state: ApiState,
    id: JobId,
    events: Receiver<NodeEvent>,
    /// Job to send next, if it is known already.
    next: Option<Job>,
}

impl Follow {
    async fn step(mut self) -> Option<(Event, Self)> {
        let job = match self.next.take() {
            Some(job) => job,
            None => self.wait().await?,
        };
        if job.state.is_over() {
            // The next wait finds a closed channel and ends the stream.
            self.events = tokio::sync::broadcast::channel(1).1;
        }
        let event = Event::default().event("job").json_data(&job).ok()?;
        Some((event, self))
    }

    /// The job after its next change; none when there will be no more.
    async fn wait(&mut self) -> Option<Job> {
        loop {
            match self.events.recv().await {
                Ok(NodeEvent::JobChanged { job } | NodeEvent::JobEnded { job }) if job == self.id => break,
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return None,
            }
        }
        read(&self.state, self.id).await.ok()
    }
}

/// Follow the gateway.
///
/// The events `nodes`, `jobs`, `market` and `wallet`, each with `{}` as data, say that what is got under that
/// name changed and is worth getting again. All come at once when the stream opens.
#[utoipa::path(
    get, operation_id = "follow", path = "/api/v1/events", tag = "events", security(("token" = [])),
    responses(
        (status = 200, body = Object, content_type = "text/event-stream", description = "`event: nodes`, `jobs`, `market` or `wallet`, `data: {}`"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn all(
    State(state): State<ApiState>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let place = state.lasting.stream()?;
    let watch = Watch { events: state.node.events(), stale: Stale::ALL };
    let hints = stream::unfold(watch, Watch::step).flat_map(stream::iter);
    Ok(sse(hints.take_until(state.ended()), place))
}

/// Which lists changed since the reader was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stale {
    nodes: bool,
    jobs: bool,
    market: bool,
    wallet: bool,
}

impl Stale {
    const ALL: Stale = Stale { nodes: true, jobs: true, market: true, wallet: true };

    fn note(&mut self, event: &NodeEvent) {
        match event {
            NodeEvent::NodesChanged => self.nodes = true,
            NodeEvent::MarketChanged => self.market = true,
            NodeEvent::CreditChanged => self.wallet = true,
            NodeEvent::Ready
            | NodeEvent::JobAccepted { .. }
            | NodeEvent::JobChanged { .. }
            | NodeEvent::JobEnded { .. } => {
                self.jobs = true;
            }
            _ => {}
        }
    }

    fn take(&mut self) -> Vec<Event> {
        let Stale { nodes, jobs, market, wallet } = std::mem::take(self);
        let hints = [(nodes, "nodes"), (jobs, "jobs"), (market, "market"), (wallet, "wallet")];
        let hints = hints.into_iter().filter(|(stale, _)| *stale);
        hints.map(|(_, name)| Event::default().event(name).data("{}")).collect()
    }
}

struct Watch {
    events: Receiver<NodeEvent>,
    stale: Stale,
}

impl Watch {
    async fn step(mut self) -> Option<(Vec<Event>, Self)> {
        if self.stale == Stale::default() {
            // After a hint, a pause: what comes meanwhile is told together.
            tokio::time::sleep(HINT_PAUSE).await;
        }
        loop {
            match self.events.try_recv() {
                Ok(event) => self.stale.note(&event),
                Err(TryRecvError::Lagged(_)) => self.stale = Stale::ALL,
                Err(TryRecvError::Closed) => return None,
                Err(TryRecvError::Empty) if self.stale != Stale::default() => {
                    return Some((self.stale.take(), self));
                }
                Err(TryRecvError::Empty) => match self.events.recv().await {
                    Ok(event) => self.stale.note(&event),
                    Err(RecvError::Lagged(_)) => self.stale = Stale::ALL,
                    Err(RecvError::Closed) => return None,
                },
            }
        }
    }
}
