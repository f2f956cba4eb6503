//! Stores and reads blobs for the node.

use super::blob_files::Partial;
use super::{Parts, Replies, StorageError, done};
use node_core::disk::Failed;
use node_core::ids::BlobId;
use node_core::{StorageReply, StorageRequest, Token};
use std::collections::HashMap;
use std::sync::mpsc::Receiver;

/// Blobs that are made durable together, and what they may weigh.
const MAX_GROUP: usize = 64;
const MAX_GROUP_BYTES: u64 = 32 << 20;

/// Blobs that arrive in pieces at the same time; of more, the one that has waited longest begins anew. Our choice:
/// one from each of 4,000 workers, and 8 MiB of hashes that are not finished.
const MAX_PARTIAL: usize = 4096;

/// Blobs that arrive in pieces whose files stay open between pieces. Our choice: as many as open files cost
/// little.
const MAX_OPEN: usize = 64;

/// The blobs on their way in.
#[derive(Default)]
struct Incoming {
    partial: HashMap<BlobId, (Partial, u64)>,
    /// Counts pieces, so that the blob that has waited longest is known.
    pieces: u64,
    /// Complete, to be made durable together.
    ready: Vec<(Token, Partial, BlobId)>,
    bytes: u64,
}

/// Stores blobs.
pub(super) fn write(queue: Receiver<StorageRequest>, parts: &Parts, replies: &Replies) {
    let mut incoming = Incoming::default();
    while let Ok(first) = queue.recv() {
        let mut next = Some(first);
        while let Some(request) = next.take() {
            incoming.take(request, parts, replies);
            if incoming.ready.len() < MAX_GROUP && incoming.bytes < MAX_GROUP_BYTES {
                next = queue.try_recv().ok();
            }
        }
        incoming.keep(parts, replies);
    }
}

impl Incoming {
    fn take(&mut self, request: StorageRequest, parts: &Parts, replies: &Replies) {
        let (token, failed) = match request {
            StorageRequest::PutBlob { token, id, bytes } => {
                let written = || {
                    let mut partial = parts.blobs.begin()?;
                    partial.write(&bytes)?;
                    Ok(partial)
                };
                match parts.blobs.staging().take(id).map_or_else(written, Ok) {
                    Ok(partial) => return self.ready(token, partial, id),
                    Err(e) => (token, e),
                }
            }
            StorageRequest::AppendBlob { token, id, offset, bytes, last } => {
                match self.append(parts, id, offset, &bytes, last) {
                    Ok(Some(partial)) => return self.ready(token, partial, id),
                    Ok(None) => return replies(StorageReply::Done { token }),
                    Err(e) => (token, e),
                }
            }
            StorageRequest::DropBlob { id } => {
                self.keep(parts, replies); // one that is to be dropped may be among them
                self.partial.remove(&id);
                return parts.blobs.remove(id);
            }
            StorageRequest::AbandonBlob { id } => return drop(self.partial.remove(&id)),
            // Not for this thread.
            _ => return,
        };
        tracing::warn!("{failed}");
        replies(done(token, Err(failed)));
    }

    fn ready(&mut self, token: Token, partial: Partial, id: BlobId) {
        self.bytes += partial.len();
        self.ready.push((token, partial, id));
    }

    /// Takes a piece; gives the blob when it was the last.
    fn append(
        &mut self,
        parts: &Parts,
        id: BlobId,
        offset: u64,
        bytes: &[u8],
        last: bool,
    ) -> Result<Option<Partial>, StorageError> {
        let mut partial = match self.partial.remove(&id) {
            _ if offset == 0 => parts.blobs.begin()?, // from the start, perhaps once more
            Some((partial, _)) if partial.len() == offset => partial,
            found => {
                let got = found.map_or(0, |(partial, _)| partial.len());
                return Err(StorageError(format!(
                    "a piece of blob {id} at {offset} came when {got} bytes were there; start it again"
                )));
            }
        };
        partial.write(bytes)?;
        if last {
            return Ok(Some(partial));
        }
        if self.partial.len() >= MAX_PARTIAL {
            let stalest = self.partial.iter().min_by_key(|(_, (_, piece))| *piece).map(|(id, _)| *id);
            stalest.map(|id| self.partial.remove(&id));
        }
        self.pieces += 1;
        self.partial.insert(id, (partial, self.pieces));
        if self.partial.len() > MAX_OPEN {
            let open = self.partial.values_mut().filter(|(partial, _)| partial.is_open());
            let open: Vec<&mut (Partial, u64)> = open.collect();
            if open.len() > MAX_OPEN {
                let stalest = open.into_iter().min_by_key(|(_, piece)| *piece);
                stalest.into_iter().for_each(|(partial, _)| partial.close());
            }
        }
        Ok(None)
    }

    fn keep(&mut self, parts: &Parts, replies: &Replies) {
        self.bytes = 0;
        let (tokens, blobs): (Vec<Token>, Vec<_>) =
            self.ready.drain(..).map(|(token, partial, id)| (token, (partial, id))).unzip();
        if blobs.is_empty() {
            return;
        }
        for (token, kept) in tokens.into_iter().zip(parts.blobs.keep(blobs)) {
            if let Err(e) = &kept {
                tracing::warn!("{e}");
            }
            replies(done(token, kept));
        }
    }
}

/// Reads blobs.
pub(super) fn read(queue: Receiver<StorageRequest>, parts: &Parts, replies: &Replies) {
    while let Ok(request) = queue.recv() {
        let StorageRequest::ReadBlob { token, id, offset, len } = request else { continue };
        replies(match parts.blobs.read(id, offset, len) {
            Ok(bytes) => StorageReply::Blob { token, bytes: bytes.into() },
            Err(e) => StorageReply::Failed { token, error: Failed(e.0) },
        });
    }
}
