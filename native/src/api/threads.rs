//! Jobs that are virtual computers: their threads, and partial results.

use super::ApiState;
use super::extract::{Limit, Path, Query};
use super::find::find_job;
use super::jobs::{RangeQuery, read};
use super::problem::Problem;
use super::time::rfc3339;
use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use node_core::JobId;
use node_core::work::view::{Partial, ThreadView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Threads in one answer.
const THREADS: Limit = Limit { usual: 100, most: 1000 };

/// A thread of a virtual computer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Thread {
    /// Its number, which is its unit's index.
    number: u32,
    /// `begun` until a node has it, `running`, `waiting` for other threads (`parked` if it takes no slot meanwhile),
    /// or `ended`.
    state: &'static str,
    /// The node that has it.
    node: Option<String>,
    /// What it waits for, or how it ended, in words.
    reason: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ThreadList {
    threads: Vec<Thread>,
    /// `from` of the next page, if there is one.
    next: Option<u32>,
}

/// A partial result.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PartialResult {
    /// Counted from 0, over all threads of the job.
    number: u64,
    thread: u32,
    /// RFC 3339, UTC.
    #[schema(format = DateTime)]
    at: String,
    /// The result as base64.
    base64: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PartialList {
    partials: Vec<PartialResult>,
    /// Number of the next one to come. The last 1,000 are kept, in 4 MiB, since the gateway began.
    next: u64,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PartialsQuery {
    /// The first number, usually 0.
    from: Option<u64>,
}

impl From<ThreadView> for Thread {
    fn from(view: ThreadView) -> Thread {
        let ThreadView { number, runner, end, waits, parked } = view;
        let (state, reason) = match (end, waits) {
            (Some(end), _) => ("ended", end),
            (None, Some(waits)) if parked => ("parked", format!("waits for {waits}")),
            (None, Some(waits)) if runner.is_some() => ("waiting", format!("waits for {waits}")),
            (None, _) if runner.is_some() => ("running", String::new()),
            (None, _) => ("begun", "no node has it yet".into()),
        };
        Thread { number, state, node: runner.map(|node| node.to_string()), reason }
    }
}

impl From<Partial> for PartialResult {
    fn from(partial: Partial) -> PartialResult {
        let Partial { number, thread, at_ms, result } = partial;
        PartialResult { number, thread, at: rfc3339(at_ms), base64: STANDARD.encode(result) }
    }
}

fn no_threads(job: JobId) -> Problem {
    Problem::not_found(format!("job {} has no threads: it was submitted without `threads`", job.short()))
}

/// List the threads of a job that is a virtual computer.
#[utoipa::path(
    get, operation_id = "listThreads", path = "/api/v1/jobs/{id}/threads", tag = "jobs", security(("token" = [])),
    params(("id" = String, Path, description = "The job's id, its short form, or 4 or more of its first digits"), RangeQuery),
    responses(
        (status = 200, body = ThreadList),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Query(range): Query<RangeQuery>,
) -> Result<Json<ThreadList>, Problem> {
    let limit = THREADS.of(range.limit)?;
    let from = range.from.unwrap_or(0);
    let job = find_job(&state, &id).await?;
    read(&state, job).await?;
    let threads = state.node.read(move |node, _| node.threads(job, from, limit)).await?;
    let threads = threads.ok_or_else(|| no_threads(job))?;
    let is_full = threads.len() == limit as usize;
    let next = threads.last().map(|last| last.number + 1).filter(|_| is_full);
    Ok(Json(ThreadList { threads: threads.into_iter().map(Thread::from).collect(), next }))
}

/// List partial results.
///
/// They come in order, each once. The job's events say when there may be more.
#[utoipa::path(
    get, operation_id = "listPartials", path = "/api/v1/jobs/{id}/partials", tag = "results", security(("token" = [])),
    params(("id" = String, Path, description = "The job's id, its short form, or 4 or more of its first digits"), PartialsQuery),
    responses(
        (status = 200, body = PartialList),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn partials(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Query(query): Query<PartialsQuery>,
) -> Result<Json<PartialList>, Problem> {
    let from = query.from.unwrap_or(0);
    let job = find_job(&state, &id).await?;
    read(&state, job).await?;
    let found = state.node.read(move |node, _| node.partials(job, from)).await?;
    let (next, partials) = found.ok_or_else(|| no_threads(job))?;
    Ok(Json(PartialList { partials: partials.into_iter().map(PartialResult::from).collect(), next }))
}
