//! Connections: accepted in bounds, given up when they stall, ended in order.

use super::{ApiOptions, ApiState, router};
use crate::driver::NodeHandle;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Open connections. Our choice: every person's few tabs and tools, and well below the number
/// of files that a process may have open.
const MAX_CONNECTIONS: usize = 512;

/// For a request's line and headers, and between requests. Our choice: hyper's default.
const HEADER_PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a request's line and headers. Our choice: eight times what browsers send.
const MAX_HEADERS: usize = 64 << 10;

/// For answers under way when the gateway stops. Our choice: a person waits this long.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// After accepting failed for want of files or memory: others have to end first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

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
    let service = TowerToHyperService::new(router(state));
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = async {
            // Never closed, so there is always a permit to come.
            let permit = free.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            (permit, accepted) = accepted => match accepted {
                Ok((stream, _)) => {
                    let connection = converse(stream, service.clone(), closed.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop(permit);
                    });
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
    service: TowerToHyperService<axum::Router>,
    mut closed: watch::Receiver<bool>,
) {
    // Small answers should not wait for each other.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let closing = async { drop(closed.wait_for(|closed| *closed).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection broke off");
    }
}

/// The peer went away before it was accepted: nothing is wrong here.
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
