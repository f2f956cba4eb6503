//! A browser node's storage: blobs in memory, bounded. Records are not kept: a page owns no
//! jobs, and what it computed is durable with the owner before it is forgotten here.

use bytes::Bytes;
use node_core::{BlobId, StorageReply, StorageRequest};
use std::collections::BTreeMap;

/// Bytes of all blobs together. Our choice: as much as one task may take by default; programs
/// of 30 MB, the largest seen, fit with room to spare.
pub const MAX_BYTES: u64 = 256 << 20;

pub struct Storage {
    whole: BTreeMap<BlobId, Bytes>,
    /// Blobs that arrive in pieces; no reader sees them.
    partial: BTreeMap<BlobId, Vec<u8>>,
    bytes: u64,
    max: u64,
}

impl Storage {
    pub fn new(max: u64) -> Self {
        Storage { whole: BTreeMap::new(), partial: BTreeMap::new(), bytes: 0, max }
    }

    /// Does what the node asks, at once.
    pub fn handle(&mut self, request: StorageRequest) -> Option<StorageReply> {
        let (token, done) = match request {
            StorageRequest::Commit { token, .. } => (token, Ok(())),
            StorageRequest::Scan { token, .. } => {
                return Some(StorageReply::Entries { token, entries: Vec::new() });
            }
            StorageRequest::PutBlob { token, id, bytes } => (token, self.put(id, bytes)),
            StorageRequest::AppendBlob { token, id, offset, bytes, last } => {
                (token, self.append(id, offset, &bytes, last))
            }
            StorageRequest::ReadBlob { token, id, offset, len } => {
                return Some(match self.read(id, offset, len) {
                    Ok(bytes) => StorageReply::Blob { token, bytes },
                    Err(error) => StorageReply::Failed { token, error },
                });
            }
            StorageRequest::DropBlob { id } => {
                self.forget(id);
                return None;
            }
        };
        Some(match done {
            Ok(()) => StorageReply::Done { token },
            Err(error) => StorageReply::Failed { token, error },
        })
    }

    pub fn blob(&self, id: &BlobId) -> Option<Bytes> {
        self.whole.get(id).cloned()
    }

    /// Bytes held, unfinished blobs included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn put(&mut self, id: BlobId, bytes: Bytes) -> Result<(), String> {
        if self.whole.contains_key(&id) {
            return Ok(());
        }
        self.make_room(id, bytes.len())?;
        // A slice of a received message would keep the whole message alive.
        self.whole.insert(id, Bytes::copy_from_slice(&bytes));
        Ok(())
    }

    fn append(&mut self, id: BlobId, offset: u64, bytes: &[u8], last: bool) -> Result<(), String> {
        if self.whole.contains_key(&id) {
            return Ok(());
        }
        if offset == 0 {
            self.forget(id);
        }
        let have = self.partial.get(&id).map_or(0, |part| part.len() as u64);
        if offset != have {
            self.forget(id);
            return Err(format!(
                "a piece of blob {} came for offset {offset}, but {have} bytes are here; start it again",
                id.short()
            ));
        }
        if let Err(full) = self.make_room(id, bytes.len()) {
            self.forget(id);
            return Err(full);
        }
        self.partial.entry(id).or_default().extend_from_slice(bytes);
        if last && let Some(part) = self.partial.remove(&id) {
            self.whole.insert(id, part.into());
        }
        Ok(())
    }

    fn read(&self, id: BlobId, offset: u64, len: u32) -> Result<Bytes, String> {
        let Some(bytes) = self.whole.get(&id) else {
            return Err(format!("blob {} is not on this node; ask another", id.short()));
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let to = from.saturating_add(len as usize).min(bytes.len());
        Ok(bytes.slice(from..to))
    }

    fn make_room(&mut self, id: BlobId, more: usize) -> Result<(), String> {
        let then = self.bytes.saturating_add(more as u64);
        if then > self.max {
            return Err(format!(
                "blob {} does not fit: this tab keeps at most {} MiB, {} MiB are in use",
                id.short(),
                self.max >> 20,
                self.bytes >> 20
            ));
        }
        self.bytes = then;
        Ok(())
    }

    fn forget(&mut self, id: BlobId) {
        let whole = self.whole.remove(&id).map_or(0, |bytes| bytes.len());
        let part = self.partial.remove(&id).map_or(0, |part| part.len());
        self.bytes -= (whole + part) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_core::{Table, Token};

    const T: Token = Token(7);

    fn append(
        storage: &mut Storage,
        id: BlobId,
        offset: u64,
        bytes: &'static [u8],
        last: bool,
    ) -> StorageReply {
        let bytes = Bytes::from_static(bytes);
        storage.handle(StorageRequest::AppendBlob { token: T, id, offset, bytes, last }).expect("answered")
    }

    fn read(storage: &mut Storage, id: BlobId, offset: u64, len: u32) -> Result<Bytes, String> {
        match storage.handle(StorageRequest::ReadBlob { token: T, id, offset, len }) {
            Some(StorageReply::Blob { token: T, bytes }) => Ok(bytes),
            Some(StorageReply::Failed { token: T, error }) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_blob_in_pieces_is_there_only_when_whole() {
        let mut storage = Storage::new(100);
        let id = BlobId([1; 32]);
        assert!(matches!(append(&mut storage, id, 0, b"hello ", false), StorageReply::Done { token: T }));
        assert!(storage.blob(&id).is_none());
        assert!(read(&mut storage, id, 0, 9).unwrap_err().contains("b-01010101"));
        assert!(matches!(append(&mut storage, id, 6, b"world", true), StorageReply::Done { .. }));
        assert_eq!(storage.blob(&id).unwrap(), &b"hello world"[..]);
        assert_eq!(read(&mut storage, id, 6, 99).unwrap(), &b"world"[..]);
        assert_eq!(read(&mut storage, id, 99, 9).unwrap(), &b""[..]);
        assert_eq!(storage.bytes(), 11);
    }

    #[test]
    fn a_piece_out_of_order_drops_the_blob_so_that_it_can_start_again() {
        let mut storage = Storage::new(100);
        let id = BlobId([2; 32]);
        append(&mut storage, id, 0, b"abc", false);
        assert!(matches!(append(&mut storage, id, 4, b"e", false), StorageReply::Failed { .. }));
        assert_eq!(storage.bytes(), 0);
        append(&mut storage, id, 0, b"abc", false);
        append(&mut storage, id, 0, b"xyz", true);
        assert_eq!(storage.blob(&id).unwrap(), &b"xyz"[..]);
        assert_eq!(storage.bytes(), 3);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_nothing_behind() {
        let mut storage = Storage::new(8);
        let put = |storage: &mut Storage, n: u8, bytes: &'static [u8]| {
            let (id, bytes) = (BlobId([n; 32]), Bytes::from_static(bytes));
            storage.handle(StorageRequest::PutBlob { token: T, id, bytes })
        };
        assert!(matches!(put(&mut storage, 1, b"12345"), Some(StorageReply::Done { .. })));
        assert!(matches!(put(&mut storage, 1, b"12345"), Some(StorageReply::Done { .. })));
        assert!(matches!(put(&mut storage, 2, b"1234"), Some(StorageReply::Failed { .. })));
        assert!(matches!(append(&mut storage, BlobId([3; 32]), 0, b"123", false), StorageReply::Done { .. }));
        assert!(matches!(append(&mut storage, BlobId([3; 32]), 3, b"4", true), StorageReply::Failed { .. }));
        assert_eq!(storage.bytes(), 5);
        assert!(storage.handle(StorageRequest::DropBlob { id: BlobId([1; 32]) }).is_none());
        assert_eq!(storage.bytes(), 0);
    }

    #[test]
    fn records_are_acknowledged_and_never_found() {
        let mut storage = Storage::new(8);
        let commit = storage.handle(StorageRequest::Commit { token: T, writes: Vec::new() });
        assert!(matches!(commit, Some(StorageReply::Done { token: T })));
        let scan =
            storage.handle(StorageRequest::Scan { token: T, table: Table::Jobs, after: None, limit: 10 });
        assert!(matches!(scan, Some(StorageReply::Entries { token: T, entries }) if entries.is_empty()));
    }
}
