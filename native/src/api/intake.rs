//! A request's body on its way to the disk, piece by piece.

use super::extract::Pieces;
use super::problem::Problem;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use bytes::Bytes;
use std::fmt::Display;
use tokio::sync::mpsc;

/// Pieces between the connection and the disk. Our choice: some hundred kilobytes, so that neither
/// waits for the other at every piece.
pub(super) const PIECES_AHEAD: usize = 8;

/// Content on its way to a thread that may block. It ends with `None` when it is whole.
pub(super) struct Intake(mpsc::Receiver<Option<Bytes>>);

impl Intake {
    /// Gives on what comes; whether it came to its end.
    pub(super) fn pour<E>(&mut self, mut to: impl FnMut(&[u8]) -> Result<(), E>) -> Result<bool, E> {
        loop {
            match self.0.blocking_recv() {
                Some(Some(bytes)) => to(&bytes)?,
                Some(None) => return Ok(true),
                None => return Ok(false),
            }
        }
    }
}

/// Stores a request's body of at most `limit` bytes: `store` runs beside and says what it made of it, or
/// nothing of one that broke off, which should leave nothing behind.
pub(super) async fn take_in<T, E>(
    request: Request<Body>,
    what: &'static str,
    limit: u64,
    store: impl FnOnce(Intake) -> Result<Option<T>, E> + Send + 'static,
) -> Result<T, Problem>
where
    T: Send + 'static,
    E: Display + Send + 'static,
{
    let (parts, body) = request.into_parts();
    let mut pieces = Pieces::new(&parts.headers, body, what, limit)?;
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    let disk = tokio::task::spawn_blocking(move || store(Intake(receiver)));
    loop {
        let piece = pieces.next().await?;
        let last = piece.is_none();
        // It fails when the disk did, which then says why.
        if sender.send(piece).await.is_err() || last {
            break;
        }
    }
    drop(sender);
    match disk.await {
        Ok(Ok(Some(stored))) => Ok(stored),
        Ok(Err(error)) => {
            let detail = format!("{what} could not be stored: {error}");
            Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail))
        }
        Ok(Ok(None)) | Err(_) => Err(Problem::storage("an upload ended before its time")),
    }
}
