//! Many small blobs in one request: a request and a wait for the disk each would take longer than
//! the bytes.

use super::ApiState;
use super::intake::take_in;
use super::model::{Blob, BlobList};
use super::problem::Problem;
use crate::storage::{Storage, StorageError, Upload};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use node_core::content::BlobRef;

/// Bytes of a batch. Our choice: some seconds of a home line; a client sends several.
const MAX_BATCH: u64 = 64 << 20;

/// Blobs in a batch. Our choice: their names fit a megabyte.
const MAX_BLOBS: usize = 10_000;

/// Blobs of a batch that are made durable together, and bytes of them.
const GROUP: usize = 64;
const GROUP_BYTES: u64 = 8 << 20;

/// Store many small blobs.
///
/// The request's body has for each blob its length, 8 bytes, big-endian, and then its bytes. All
/// of them are durable when this answers; if it fails, some may be. Storing them again is harmless.
#[utoipa::path(
    post, operation_id = "storeBlobs", path = "/api/v1/blobs/batch", tag = "blobs", security(("token" = [])),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = BlobList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "It ends within a blob, or has too many"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "Larger than this gateway takes"),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "They could not be stored"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn upload(State(state): State<ApiState>, request: Request) -> Result<Response, Problem> {
    let (storage, node) = (state.node.storage().clone(), state.node.clone());
    let stored = take_in(request, "the batch", state.max_upload.min(MAX_BATCH), move |mut intake| {
        let mut batch = Batch::new(storage, move |stored| node.blobs_stored(stored));
        let stored = match intake.pour(|bytes| batch.take(bytes)) {
            Ok(true) => batch.finish(),
            Ok(false) => return Ok(None),
            Err(fault) => Err(fault),
        };
        match stored {
            Ok(stored) => Ok(Some(Ok(stored))),
            Err(Fault::Sender(why)) => Ok(Some(Err(why))),
            Err(Fault::Disk(error)) => Err(error),
        }
    });
    let blobs = stored.await?.map_err(Problem::bad_request)?;
    let list = BlobList { blobs: blobs.into_iter().map(Blob::from).collect() };
    Ok((StatusCode::CREATED, Json(list)).into_response())
}

/// Why a batch was not stored.
enum Fault {
    /// The request is no valid batch; the text says what to send instead.
    Sender(String),
    Disk(StorageError),
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Fault {
        Fault::Disk(error)
    }
}

/// A batch on its way in.
struct Batch<T> {
    storage: Storage,
    /// Is told of what has become durable, also if the rest of the batch never comes.
    tell: T,
    /// The part of a length that has come.
    head: Vec<u8>,
    /// The blob that is coming, and the bytes of it that have not come.
    open: Option<(Upload, u64)>,
    /// Whole, and not durable yet.
    group: Vec<Upload>,
    group_bytes: u64,
    stored: Vec<BlobRef>,
}

impl<T: Fn(&[BlobRef])> Batch<T> {
    fn new(storage: Storage, tell: T) -> Batch<T> {
        let (head, group, stored) = Default::default();
        Batch { storage, tell, head, open: None, group, group_bytes: 0, stored }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            match &mut self.open {
                None => {
                    let (head, rest) = bytes.split_at(bytes.len().min(8 - self.head.len()));
                    self.head.extend_from_slice(head);
                    bytes = rest;
                    if let Ok(len) = <[u8; 8]>::try_from(&self.head[..]) {
                        self.head.clear();
                        self.begin(u64::from_be_bytes(len))?;
                    }
                }
                Some((upload, missing)) => {
                    let part = usize::try_from(*missing).unwrap_or(usize::MAX).min(bytes.len());
                    let (part, rest) = bytes.split_at(part);
                    upload.write(part)?;
                    *missing -= part.len() as u64;
                    bytes = rest;
                    if *missing == 0 {
                        self.end()?;
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, len: u64) -> Result<(), Fault> {
        if self.stored.len() + self.group.len() >= MAX_BLOBS {
            return Err(Fault::Sender(format!("a batch has at most {MAX_BLOBS} blobs; send several")));
        }
        self.open = Some((self.storage.upload()?, len));
        self.group_bytes += len.min(MAX_BATCH);
        if len == 0 { Ok(self.end()?) } else { Ok(()) }
    }

    fn end(&mut self) -> Result<(), StorageError> {
        self.group.extend(self.open.take().map(|(upload, _)| upload));
        if self.group.len() >= GROUP || self.group_bytes >= GROUP_BYTES { self.keep() } else { Ok(()) }
    }

    fn keep(&mut self) -> Result<(), StorageError> {
        self.group_bytes = 0;
        let before = self.stored.len();
        let mut failed = Ok(());
        for stored in self.storage.finish(std::mem::take(&mut self.group)) {
            match stored {
                Ok(stored) => self.stored.push(stored),
                Err(error) => failed = Err(error),
            }
        }
        (self.tell)(&self.stored[before..]);
        failed
    }

    fn finish(mut self) -> Result<Vec<BlobRef>, Fault> {
        if self.open.is_some() || !self.head.is_empty() {
            return Err(Fault::Sender(
                "the batch ends within a blob; send its length and all its bytes".into(),
            ));
        }
        self.keep()?;
        Ok(self.stored)
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
