//! A browser node's storage: blobs and rows in memory, bounded. Rows outlive the page, and the blobs that they name
//! with them ([`Changes`]): units that ran here, and jobs of its person with their results. When the page is loaded
//! again, its node takes them up.

use bytes::Bytes;
use node_core::content::BlobRef;
use node_core::disk::Failed;
use node_core::work::spec::UnitResult;
use node_core::work::{owner, runner};
use node_core::{BlobId, StorageReply, StorageRequest, Table, Write};
use std::collections::BTreeMap;

/// Bytes of all blobs together. Our choice: as much as one task may take by default; programs
/// of 30 MB, the largest seen, fit with room to spare.
pub const MAX_BYTES: u64 = 256 << 20;

/// Changes to write where they outlive the page, all or nothing. A key without a value is removed. A record's key is
/// that of its row behind the table's number.
#[derive(Debug, Default, PartialEq)]
pub struct Changes {
    pub records: Vec<(Vec<u8>, Option<Bytes>)>,
    pub blobs: Vec<(BlobId, Option<Bytes>)>,
}

/// Place of a row.
type Key = (Table, Vec<u8>);

/// Blobs that a row names.
fn named(table: Table, value: &[u8]) -> Vec<BlobId> {
    let blobs: Vec<BlobRef> = match table {
        Table::Left => runner::left::blobs_of(value),
        Table::Jobs => owner::blobs_of_job(value),
        Table::Results => sandbox::unpack::from_slice(value)
            .map(|result: UnitResult| result.blobs().collect())
            .unwrap_or_default(),
        _ => Vec::new(),
    };
    blobs.into_iter().map(|blob| blob.id).collect()
}

fn record_key((table, key): &Key) -> Vec<u8> {
    [&[*table as u8], &key[..]].concat()
}

fn key_of(record: &[u8]) -> Option<Key> {
    let (table, key) = record.split_first()?;
    Some((*Table::ALL.get(usize::from(*table))?, key.to_vec()))
}

pub struct Storage {
    whole: BTreeMap<BlobId, Bytes>,
    /// Blobs that arrive in pieces; no reader sees them.
    partial: BTreeMap<BlobId, Vec<u8>>,
    bytes: u64,
    max: u64,
    rows: BTreeMap<Key, Bytes>,
    /// Blobs that rows name, and how often.
    named: BTreeMap<BlobId, u32>,
    changes: Option<Changes>,
}

impl Storage {
    pub fn new(max: u64) -> Self {
        Storage {
            whole: BTreeMap::new(),
            partial: BTreeMap::new(),
            bytes: 0,
            max,
            rows: BTreeMap::new(),
            named: BTreeMap::new(),
            changes: None,
        }
    }

    /// Takes up the rows of these tables that the page left, with the blobs that they name, and says which blobs are
    /// here now. Other rows, and those that do not fit, stay where they are.
    pub fn restore(
        &mut self,
        tables: &[Table],
        records: Vec<(Vec<u8>, Bytes)>,
        blobs: Vec<(BlobId, Bytes)>,
    ) -> Vec<(BlobId, u64)> {
        let rows = records.into_iter().filter_map(|(key, value)| Some((key_of(&key)?, value)));
        let rows = rows.filter(|((table, _), _)| tables.contains(table));
        let writes = rows.map(|((table, key), value)| Write { table, key, value: Some(value) });
        writes.for_each(|write| drop(self.commit(vec![write])));
        self.changes = None;
        let fits = |(id, bytes): (BlobId, Bytes)| {
            self.named.get(&id)?;
            self.make_room(id, bytes.len()).ok()?;
            let len = bytes.len() as u64;
            self.whole.insert(id, bytes);
            Some((id, len))
        };
        blobs.into_iter().filter_map(fits).collect()
    }

    /// Changes since the last call; `None` if there are none.
    pub fn changes(&mut self) -> Option<Changes> {
        self.changes.take()
    }

    /// Does what the node asks, at once.
    pub fn handle(&mut self, request: StorageRequest) -> Option<StorageReply> {
        let (token, done) = match request {
            StorageRequest::Commit { token, writes } => (token, self.commit(writes)),
            StorageRequest::Scan { token, table, after, limit } => {
                let entries = self.rows(table, after.as_deref(), limit as usize);
                return Some(StorageReply::Entries { token, entries });
            }
            StorageRequest::PutBlob { token, id, bytes } => (token, self.put(id, bytes)),
            StorageRequest::AppendBlob { token, id, offset, bytes, last } => {
                (token, self.append(id, offset, &bytes, last))
            }
            StorageRequest::ReadBlob { token, id, offset, len } => {
                return Some(match self.read(id, offset, len) {
                    Ok(bytes) => StorageReply::Blob { token, bytes },
                    Err(error) => StorageReply::Failed { token, error: Failed(error) },
                });
            }
            StorageRequest::DropBlob { id } => {
                self.forget(id);
                return None;
            }
            StorageRequest::AbandonBlob { id } => {
                self.abandon(id);
                return None;
            }
        };
        Some(match done {
            Ok(()) => StorageReply::Done { token },
            Err(error) => StorageReply::Failed { token, error: Failed(error) },
        })
    }

    /// Rows of a table with keys above `after`, in their order.
    pub fn rows(&self, table: Table, after: Option<&[u8]>, limit: usize) -> Vec<(Vec<u8>, Bytes)> {
        let from = (table, after.unwrap_or_default().to_vec());
        let its = self.rows.range(from..).take_while(|((of, _), _)| *of == table);
        let its = its.filter(|((_, key), _)| after.is_none_or(|after| key[..] > *after));
        its.take(limit).map(|((_, key), value)| (key.clone(), value.clone())).collect()
    }

    pub fn blob(&self, id: &BlobId) -> Option<Bytes> {
        self.whole.get(id).cloned()
    }

    /// Bytes held, unfinished blobs included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes all rows, or none if they do not fit.
    fn commit(&mut self, writes: Vec<Write>) -> Result<(), String> {
        let size = |key: &[u8], value: &Bytes| (key.len() + value.len()) as u64;
        let more: u64 = writes.iter().filter_map(|it| Some(size(&it.key, it.value.as_ref()?))).sum();
        let has = |it: &Write| {
            let old = self.rows.get(&(it.table, it.key.clone()));
            old.map_or(0, |old| size(&it.key, old))
        };
        let less: u64 = writes.iter().map(has).sum();
        if self.bytes.saturating_add(more) > self.max.saturating_add(less) {
            return Err(format!(
                "{more} bytes of jobs and results do not fit: this tab keeps at most {} MiB, {} MiB are in use",
                self.max >> 20,
                self.bytes >> 20
            ));
        }
        let mut changes = self.changes.take().unwrap_or_default();
        for Write { table, key, value } in writes {
            let (len, key) = (key.len() as u64, (table, key));
            for id in value.iter().flat_map(|value| named(table, value)) {
                let times = self.named.entry(id).or_default();
                *times += 1;
                if let (1, Some(bytes)) = (*times, self.whole.get(&id)) {
                    changes.blobs.push((id, Some(bytes.clone())));
                }
            }
            changes.records.push((record_key(&key), value.clone()));
            self.bytes += value.as_ref().map_or(0, |value| size(&key.1, value));
            let old = match value {
                // A slice of a received message would keep the whole message alive.
                Some(value) => self.rows.insert(key, Bytes::copy_from_slice(&value)),
                None => self.rows.remove(&key),
            };
            let Some(old) = old else { continue };
            self.bytes -= len + old.len() as u64;
            for id in named(table, &old) {
                let times = self.named.entry(id).or_default();
                *times -= 1;
                if *times == 0 {
                    self.named.remove(&id);
                    changes.blobs.push((id, None));
                }
            }
        }
        self.changes = Some(changes);
        Ok(())
    }

    fn put(&mut self, id: BlobId, bytes: Bytes) -> Result<(), String> {
        if self.whole.contains_key(&id) {
            return Ok(());
        }
        self.abandon(id);
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

    /// The rest of it does not come.
    fn abandon(&mut self, id: BlobId) {
        self.bytes -= self.partial.remove(&id).map_or(0, |part| part.len()) as u64;
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
    use node_core::content::BlobRef;
    use node_core::progress::{Checkpoint, Made, Version};
    use node_core::work::proof::GrantProof;
    use node_core::{JobId, NodeId, SnapshotRef, Token, UnitId};

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
            Some(StorageReply::Failed { token: T, error }) => Err(error.0),
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

    fn record(unit: u32, blob: u8, base: Option<u8>) -> Write {
        let blob_of = |n: u8| BlobRef { id: BlobId([n; 32]), len: 3 };
        let snapshot = SnapshotRef { blob: blob_of(blob), base: base.map(blob_of), root: [0; 32], fuel: 1 };
        let unit = UnitId { job: JobId([1; 16]), index: unit };
        let checkpoint = Checkpoint { version: Version::default(), snapshot };
        let made = Made { unit, checkpoint, began: 0, kept: Vec::new(), marks: None };
        // As the runner writes it.
        let value = rmp_serde::to_vec(&(NodeId([2; 32]), 1u32, GrantProof::default(), 1u64, made))
            .expect("it encodes");
        Write { table: Table::Left, key: unit.index.to_be_bytes().to_vec(), value: Some(value.into()) }
    }

    fn blobs(changes: Changes) -> Vec<(u8, bool)> {
        changes.blobs.into_iter().map(|(id, bytes)| (id.0[0], bytes.is_some())).collect()
    }

    #[test]
    fn what_outlives_the_page_is_told_once_and_found_again() {
        let mut storage = Storage::new(1000);
        for n in 1..=3 {
            append(&mut storage, BlobId([n; 32]), 0, b"abc", true);
        }
        let commit = |storage: &mut Storage, write: Write| {
            let reply = storage.handle(StorageRequest::Commit { token: T, writes: vec![write] });
            assert!(matches!(reply, Some(StorageReply::Done { token: T })));
            storage.changes().expect("something changed")
        };
        let first = commit(&mut storage, record(7, 1, None));
        assert_eq!((first.records.len(), blobs(first)), (1, vec![(1, true)]));
        // Its base stays and is not written again; what it was relative to alone goes with it.
        assert_eq!(blobs(commit(&mut storage, record(7, 2, Some(1)))), [(2, true)]);
        assert_eq!(blobs(commit(&mut storage, record(7, 3, Some(1)))), [(3, true), (2, false)]);
        assert!(storage.changes().is_none());

        let kept = |n: u8| (BlobId([n; 32]), Bytes::from_static(b"abc"));
        let Write { key, value, .. } = record(7, 3, Some(1));
        let mut next = Storage::new(1000);
        let row = record_key(&(Table::Left, key.clone()));
        let here = next.restore(&[Table::Left], vec![(row, value.expect("a value"))], vec![kept(1), kept(3)]);
        assert_eq!(here, [(BlobId([1; 32]), 3), (BlobId([3; 32]), 3)]);
        assert!(next.changes().is_none(), "it is written already");
        let scan = |table, after| StorageRequest::Scan { token: T, table, after, limit: 10 };
        let found = |reply| match reply {
            Some(StorageReply::Entries { entries, .. }) => entries.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(found(next.handle(scan(Table::Left, None))), 1);
        assert_eq!(found(next.handle(scan(Table::Left, Some(key.clone())))), 0);
        assert_eq!(found(next.handle(scan(Table::Jobs, None))), 0);
        let gone = commit(&mut next, Write { table: Table::Left, key, value: None });
        assert_eq!(blobs(gone), [(3, false), (1, false)]);
    }

    #[test]
    fn rows_of_jobs_are_found_in_order_and_bounded_with_the_blobs() {
        let mut storage = Storage::new(40);
        let row = |key: u8, value: Option<&'static [u8]>| Write {
            table: Table::Results,
            key: vec![key],
            value: value.map(Bytes::from_static),
        };
        let commit =
            |storage: &mut Storage, writes| storage.handle(StorageRequest::Commit { token: T, writes });
        let keys = |storage: &Storage, after: Option<&[u8]>, limit| -> Vec<u8> {
            storage.rows(Table::Results, after, limit).into_iter().map(|(key, _)| key[0]).collect()
        };
        commit(&mut storage, vec![row(3, Some(b"c")), row(1, Some(b"a")), row(2, Some(b"b"))]);
        assert_eq!((keys(&storage, None, 2), keys(&storage, Some(&[1]), 9)), (vec![1, 2], vec![2, 3]));
        assert!(
            storage.rows(Table::Jobs, None, 9).is_empty() && storage.rows(Table::Deals, None, 9).is_empty()
        );
        assert_eq!(storage.bytes(), 6);
        // All of it or nothing.
        let long = commit(&mut storage, vec![row(4, Some(b"d")), row(5, Some(&[0; 40]))]);
        assert!(matches!(long, Some(StorageReply::Failed { .. })));
        assert_eq!((keys(&storage, None, 9), storage.bytes()), (vec![1, 2, 3], 6));
        commit(&mut storage, vec![row(1, None), row(2, Some(b"longer"))]);
        assert_eq!((keys(&storage, None, 9), storage.bytes()), (vec![2, 3], 9));
        let told = storage.changes().expect("rows outlive the page");
        let last = (record_key(&(Table::Results, vec![2])), Some(Bytes::from_static(b"longer")));
        assert_eq!((told.records.len(), told.records.last()), (5, Some(&last)));
    }

    #[test]
    fn a_result_and_what_it_printed_outlive_the_page_until_it_is_forgotten() {
        let mut storage = Storage::new(1000);
        let out = BlobId([9; 32]);
        append(&mut storage, out, 0, b"abc", true);
        let result = UnitResult {
            end: sandbox::End::Exited(0),
            stdout: node_core::content::Data::Blob(BlobRef { id: out, len: 3 }),
            stderr: node_core::content::Data::EMPTY,
            files: Vec::new(),
            cpu_us: 1,
            runner: NodeId([3; 32]),
            attempts: 1,
            fuel: 1,
            journey: None,
            paid: Default::default(),
        };
        let value = Bytes::from(rmp_serde::to_vec(&result).expect("it encodes"));
        let row = |key: u8, value| Write { table: Table::Results, key: vec![key], value };
        let mut told = |writes| {
            storage.handle(StorageRequest::Commit { token: T, writes });
            blobs(storage.changes().expect("something changed"))
        };
        // Two units that printed the same.
        assert_eq!(told(vec![row(1, Some(value.clone())), row(2, Some(value))]), [(9, true)]);
        assert_eq!(told(vec![row(1, None)]), []);
        assert_eq!(told(vec![row(2, None)]), [(9, false)]);
    }

    #[test]
    fn what_is_left_of_nobody_knows_what_harms_nothing() {
        let mut storage = Storage::new(100);
        let write = Write { table: Table::Left, key: vec![1], value: Some(Bytes::from_static(b"\xc1")) };
        let jobs = Write { table: Table::Jobs, key: vec![1], value: Some(Bytes::new()) };
        storage.handle(StorageRequest::Commit { token: T, writes: vec![write, jobs] });
        let changes = storage.changes().expect("something changed");
        assert_eq!((changes.records.len(), changes.blobs.len()), (2, 0));
        let strange = [(vec![], Bytes::new()), (vec![255, 1], Bytes::new())];
        assert_eq!(
            storage.restore(&Table::ALL, strange.to_vec(), vec![(BlobId([1; 32]), vec![0; 200].into())]),
            []
        );
    }
}
