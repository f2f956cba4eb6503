//! A disk: what is answered is synced, what is not answered is lost in a crash.

use bytes::Bytes;
use node_core::disk::Failed;
use node_core::ids::UnitId;
use node_core::progress::Checkpoint;
use node_core::work::spec::UnitResult;
use node_core::{BlobId, JobId, NodeId, StorageReply, StorageRequest, Table, Token, Write};
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

#[derive(Clone, Default)]
pub struct Disk {
    tables: BTreeMap<(Table, Vec<u8>), Bytes>,
    blobs: BTreeMap<BlobId, Bytes>,
    partial: BTreeMap<BlobId, Vec<u8>>,
    /// Asked for and not answered yet.
    unsynced: BTreeMap<Token, Unsynced>,
    /// No writes any more.
    pub full: bool,
    /// Each answer takes so much longer, microseconds.
    pub slow: u64,
    pub commits: u64,
}

#[derive(Clone)]
enum Unsynced {
    Rows(Vec<Write>),
    /// Readable already, but gone if the machine stops now.
    Blob(BlobId),
}

impl Disk {
    /// The answer to come, if there is one.
    pub fn take(&mut self, request: StorageRequest) -> Option<StorageReply> {
        let full =
            |token| Some(StorageReply::Failed { token, error: Failed("no space left on device".into()) });
        match request {
            StorageRequest::Commit { token, .. } if self.full => full(token),
            StorageRequest::PutBlob { token, .. } | StorageRequest::AppendBlob { token, .. } if self.full => {
                full(token)
            }
            StorageRequest::Commit { token, writes } => {
                self.commits += 1;
                self.unsynced.insert(token, Unsynced::Rows(writes));
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
                self.write_blob(token, id, bytes);
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
                    self.write_blob(token, id, whole.into());
                }
                Some(StorageReply::Done { token })
            }
            StorageRequest::ReadBlob { token, id, offset, len } => Some(match self.blobs.get(&id) {
                Some(blob) => StorageReply::Blob {
                    token,
                    bytes: blob.slice(offset as usize..(offset + u64::from(len)) as usize),
                },
                None => StorageReply::Failed { token, error: Failed("no such blob".into()) },
            }),
            StorageRequest::DropBlob { id } => {
                self.blobs.remove(&id);
                None
            }
            StorageRequest::AbandonBlob { id } => {
                self.partial.remove(&id);
                None
            }
        }
    }

    fn write_blob(&mut self, token: Token, id: BlobId, bytes: Bytes) {
        if self.blobs.insert(id, bytes).is_none() {
            self.unsynced.insert(token, Unsynced::Blob(id));
        }
    }

    /// The answer is about to be given: from now on it is true.
    pub fn sync(&mut self, reply: &StorageReply) {
        if let StorageReply::Done { token } = reply
            && let Some(Unsynced::Rows(writes)) = self.unsynced.remove(token)
        {
            self.apply(writes);
        }
    }

    fn apply(&mut self, writes: Vec<Write>) {
        for write in writes {
            match write.value {
                Some(value) => self.tables.insert((write.table, write.key), value),
                None => self.tables.remove(&(write.table, write.key)),
            };
        }
    }

    /// The machine stops: what was not answered is lost.
    pub fn forget_unsynced(&mut self) {
        for unsynced in std::mem::take(&mut self.unsynced).into_values() {
            if let Unsynced::Blob(id) = unsynced {
                self.blobs.remove(&id);
            }
        }
        self.partial.clear();
    }

    /// Only the process stops: the machine writes what it was given.
    pub fn flush(&mut self) {
        for unsynced in std::mem::take(&mut self.unsynced).into_values() {
            if let Unsynced::Rows(writes) = unsynced {
                self.apply(writes);
            }
        }
        self.partial.clear();
    }

    pub fn put_blob(&mut self, id: BlobId, bytes: Bytes) {
        self.blobs.insert(id, bytes);
    }

    pub fn blob(&self, id: BlobId) -> Option<&Bytes> {
        self.blobs.get(&id)
    }

    /// Flips a bit of a blob, as a disk that has gone bad.
    pub fn corrupt_blob(&mut self, id: BlobId) {
        if let Some(blob) = self.blobs.get_mut(&id)
            && !blob.is_empty()
        {
            let mut bytes = blob.to_vec();
            bytes[0] ^= 1;
            *blob = bytes.into();
        }
    }

    /// Forgets a blob that was safe, as a keeper that never had it.
    pub fn lose_blob(&mut self, id: BlobId) {
        self.blobs.remove(&id);
    }

    /// Bytes of blobs that are not whole.
    pub fn unfinished(&self) -> u64 {
        self.partial.values().map(|bytes| bytes.len() as u64).sum()
    }

    pub fn blobs(&self) -> impl Iterator<Item = (BlobId, u64)> + '_ {
        self.blobs.iter().map(|(id, bytes)| (*id, bytes.len() as u64))
    }

    pub fn keys(&self, table: Table) -> impl Iterator<Item = &[u8]> + '_ {
        self.tables.keys().filter(move |(of, _)| *of == table).map(|(_, key)| &key[..])
    }

    /// How many entries a table has.
    pub fn rows(&self, table: Table) -> usize {
        self.tables.keys().filter(|(of, _)| *of == table).count()
    }

    /// The newest checkpoint of a unit of the owner's, and who keeps it.
    pub fn newest(&self, unit: UnitId) -> Option<(Checkpoint, Vec<NodeId>)> {
        type Held = (Checkpoint, NodeId, Vec<NodeId>, u8, IgnoredAny);
        let key = [&unit.job.0[..], &unit.index.to_be_bytes()].concat();
        let row = self.tables.get(&(Table::Checkpoints, key))?;
        let (newest, ..): (Option<Held>, IgnoredAny, IgnoredAny, u32) =
            rmp_serde::from_slice(row).expect("a record");
        newest.map(|(checkpoint, _, keepers, ..)| (checkpoint, keepers))
    }

    pub fn results(&self, job: JobId) -> BTreeMap<u32, UnitResult> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(disk: &mut Disk, token: u64) -> StorageReply {
        let write =
            Write { table: Table::Jobs, key: vec![token as u8], value: Some(Bytes::from_static(b"x")) };
        disk.take(StorageRequest::Commit { token: Token(token), writes: vec![write] }).unwrap()
    }

    #[test]
    fn a_crash_loses_what_was_not_answered_and_the_end_of_a_process_does_not() {
        let mut disk = Disk::default();
        let first = commit(&mut disk, 1);
        disk.sync(&first);
        commit(&mut disk, 2);
        disk.forget_unsynced();
        assert_eq!(disk.tables.len(), 1);
        commit(&mut disk, 3);
        disk.flush();
        assert_eq!(disk.tables.len(), 2);
        let bytes = Bytes::from_static(b"new");
        let put = StorageRequest::PutBlob { token: Token(9), id: BlobId::of(&bytes), bytes };
        disk.take(put.clone());
        disk.forget_unsynced();
        assert_eq!(disk.blobs().count(), 0);
        let reply = disk.take(put).unwrap();
        disk.sync(&reply);
        disk.forget_unsynced();
        assert_eq!(disk.blobs().count(), 1);
    }
}
