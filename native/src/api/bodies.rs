//! Bounds on requests that last: bodies on their way in, and streams of events.
//!
//! Both need the token, and both are fewer than connections, so that there is always one left to look at what
//! happens.

use super::ApiState;
use super::problem::Problem;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies that are read at a time; others wait. Our choice: each has a thread that writes it to the disk, and
/// more than some disks can take does not make them faster.
const BODIES: usize = 64;

/// How long a body waits for its turn. Our choice: a second or two is usual when many are small.
const TURN: Duration = Duration::from_secs(10);

/// Streams of events at a time. Our choice: a quarter of all connections, and each tab has one or two.
const STREAMS: usize = 128;

/// Places for requests that last.
pub(super) struct Lasting {
    bodies: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl Lasting {
    pub(super) fn new() -> Lasting {
        Lasting { bodies: Arc::new(Semaphore::new(BODIES)), streams: Arc::new(Semaphore::new(STREAMS)) }
    }

    /// A stream's place, given back when dropped.
    pub(super) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.streams.clone().try_acquire_owned().map_err(|_| {
            let detail = format!(
                "{STREAMS} streams of events are open, which is as many as this gateway has; close some, or ask \
                 for the state from time to time"
            );
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        })
    }
}

/// Lets a request with a body wait until few enough others are under way.
pub(super) async fn bound(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let empty = headers.get(header::CONTENT_LENGTH).is_some_and(|len| len == "0");
    if empty
        || !(headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING))
    {
        return next.run(request).await;
    }
    let turn = tokio::time::timeout(TURN, state.lasting.bodies.clone().acquire_owned()).await;
    let Ok(Ok(permit)) = turn else {
        let detail = format!(
            "{BODIES} uploads are under way, which is as many as this gateway takes; try again in a moment"
        );
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response();
    };
    let (parts, body) = request.into_parts();
    // The place is held for as long as the body may be read.
    let held = body.into_data_stream().map(move |piece| {
        let _ = &permit;
        piece
    });
    next.run(Request::from_parts(parts, Body::from_stream(held))).await
}
