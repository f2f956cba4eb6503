//! A disk: what is answered is synced, what is not answered is lost in a crash.

use bytes::Bytes;
use node_core::work::spec::UnitResult;
use node_core::{BlobId, JobId, StorageReply, StorageRequest, Table, Token, Write};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Disk {
    tables: BTreeMap<(Table, Vec<u8>), Bytes>,
    blobs: BTreeMap<BlobId, Bytes>,
    partial: BTreeMap<BlobId, Vec<u8>>,
    unsynced: BTreeMap<Token, Vec<Write>>,
    /// No writes any more.
    pub full: bool,
    pub commits: u64,
}

impl Disk {
    /// The answer to come, if there is one.
    pub(crate) fn take(&mut self, request: StorageRequest) -> Option<StorageReply> {
        let full = |token| Some(StorageReply::Failed { token, error: "no space left on device".into() });
        match request {
            StorageRequest::Commit { token, .. } if self.full => full(token),
            StorageRequest::PutBlob { token, .. } | StorageRequest::AppendBlob { token, .. } if self.full => {
                full(token)
            }
            StorageRequest::Commit { token, writes } => {
                self.commits += 1;
                self.unsynced.insert(token, writes);
                Some(StorageReply::Done { token })
            }
            StorageRequest::Scan { token, table, after, limit } => {
                let entries = self
                    .tables
                    .iter()
                    .filter(|((t, key), _)| *t == table && after.as_ref().is_none_or(|after| key > after))
                    .take(limit as usize)
                    .map(|((_, key), value)| (key.clone(), value.clone()))
                    .collect();
                Some(StorageReply::Entries { token, entries })
            }
            StorageRequest::PutBlob { token, id, bytes } => {
                assert_eq!(BlobId::of(&bytes), id, "a blob is named by its content");
                self.blobs.insert(id, bytes);
                Some(StorageReply::Done { token })
            }
            StorageRequest::AppendBlob { token, id, offset, bytes, last } => {
                let partial = self.partial.entry(id).or_default();
                if offset == 0 {
                    partial.clear();
                }
                assert_eq!(partial.len() as u64, offset, "pieces come in order");
                partial.extend_from_slice(&bytes);
                if last {
                    let whole = self.partial.remove(&id).unwrap_or_default();
                    assert_eq!(BlobId::of(&whole), id, "pieces make the blob");
                    self.blobs.insert(id, whole.into());
                }
                Some(StorageReply::Done { token })
            }
            StorageRequest::ReadBlob { token, id, offset, len } => Some(match self.blobs.get(&id) {
                Some(blob) => StorageReply::Blob {
                    token,
                    bytes: blob.slice(offset as usize..(offset + u64::from(len)) as usize),
                },
                None => StorageReply::Failed { token, error: "no such blob".into() },
            }),
            StorageRequest::DropBlob { id } => {
                self.blobs.remove(&id);
                None
            }
        }
    }

    /// The answer is about to be given: from now on it is true.
    pub(crate) fn sync(&mut self, reply: StorageReply) -> StorageReply {
        if let StorageReply::Done { token } = &reply {
            for write in self.unsynced.remove(token).into_iter().flatten() {
                match write.value {
                    Some(value) => self.tables.insert((write.table, write.key), value),
                    None => self.tables.remove(&(write.table, write.key)),
                };
            }
        }
        reply
    }

    pub(crate) fn forget_unsynced(&mut self) {
        self.unsynced.clear();
        self.partial.clear();
    }

    pub(crate) fn put_blob(&mut self, id: BlobId, bytes: Bytes) {
        self.blobs.insert(id, bytes);
    }

    pub(crate) fn blob(&self, id: BlobId) -> Option<&Bytes> {
        self.blobs.get(&id)
    }

    pub(crate) fn corrupt_blob(&mut self, id: BlobId) {
        if let Some(blob) = self.blobs.get_mut(&id) {
            let mut bytes = blob.to_vec();
            bytes[0] ^= 1;
            *blob = bytes.into();
        }
    }

    pub(crate) fn blobs(&self) -> impl Iterator<Item = (BlobId, u64)> + '_ {
        self.blobs.iter().map(|(id, bytes)| (*id, bytes.len() as u64))
    }

    pub(crate) fn results(&self, job: JobId) -> BTreeMap<u32, UnitResult> {
        let its = |(table, key): &(Table, Vec<u8>)| *table == Table::Results && key.starts_with(&job.0);
        self.tables
            .iter()
            .filter(|(key, _)| its(key))
            .map(|((_, key), value)| {
                let index = u32::from_be_bytes(key[16..].try_into().expect("an index"));
                (index, rmp_serde::from_slice(value).expect("a result"))
            })
            .collect()
    }
}
