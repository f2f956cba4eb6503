//! Connections: accepted in bounds, given up when they stall, ended in order.

use super::doors::{Full, Place};
use super::problem::Problem;
use super::stream::Watched;
use super::{ApiOptions, ApiState, router};
use crate::driver::NodeHandle;
use axum::http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// For a request's whole line and headers, however slowly they come, and between requests. Our choice: hyper's
/// default.
const HEADER_PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a request's line and headers. Our choice: eight times what browsers send.
const MAX_HEADERS: usize = 64 << 10;

/// For answers under way when the gateway stops. Our choice: a person waits this long.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// After accepting failed for want of files or memory: others have to end first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Refusals under way, and the time of one. Our choice: a short sentence to a few at a time, and nothing that
/// could be filled.
const REFUSALS: usize = 32;
const REFUSAL: Duration = Duration::from_secs(1);

/// Serves the API on `listener` until `shutdown` is ready and the last answers are out.
pub(crate) async fn serve(
    options: ApiOptions,
    node: NodeHandle,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (closing, closed) = watch::channel(false);
    let state = ApiState::new(options, node, listener.local_addr()?, closed.clone())
        .map_err(|message| io::Error::new(io::ErrorKind::InvalidInput, message))?;
    let doors = state.doors.clone();
    let watched = state.clone();
    let token = watched.token.follow();
    let service = TowerToHyperService::new(router(state));
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown, token);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            () = &mut token => {}
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => match doors.admit(from.ip()) {
                    Ok(place) => {
                        connections.spawn(converse(stream, place, service.clone(), closed.clone()));
                    }
                    Err(full) => refuse(stream, from, full, &refusals, &mut connections),
                }
                Err(error) if is_of_the_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "no new HTTP connection can be accepted; trying again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let _ = closing.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(LAST_WORDS, all).await.is_err() {
        tracing::debug!(open = connections.len(), "cutting HTTP connections that did not end");
    }
    Ok(())
}

async fn converse(
    stream: TcpStream,
    place: Place,
    router: TowerToHyperService<axum::Router>,
    mut closed: watch::Receiver<bool>,
) {
    let visit = place.visit().clone();
    let stream = Watched::new(stream, visit.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        visit.asks();
        request.extensions_mut().insert(visit.clone());
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let closing = async { drop(closed.wait_for(|closed| *closed).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = place.cut() => return tracing::debug!("an HTTP connection that stood still made room"),
        () = closing => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection broke off");
    }
}

/// Says why and closes. The answer is shorter than a request: nobody gains by asking for it in another's name.
fn refuse(
    mut stream: TcpStream,
    from: SocketAddr,
    full: Full,
    refusals: &Arc<Semaphore>,
    connections: &mut JoinSet<()>,
) {
    tracing::debug!(%from, "{}", full.detail());
    // Beyond so many at a time, connections are closed without a word.
    let Ok(permit) = refusals.clone().try_acquire_owned() else { return };
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, full.detail());
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 5\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connections.spawn(async move {
        let _permit = permit;
        let answered = async {
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await?;
            // A request that nobody has read would turn the end into a reset, which swallows the answer.
            let mut ignored = [0; 1024];
            for _ in 0..MAX_HEADERS / ignored.len() {
                if stream.read(&mut ignored).await? == 0 {
                    break;
                }
            }
            io::Result::Ok(())
        };
        // Nobody misses an answer to a client that does not take it.
        drop(tokio::time::timeout(REFUSAL, answered).await);
    });
}

/// The peer went away before it was accepted: nothing is wrong here.
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
