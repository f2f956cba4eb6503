//! Durable state: redb for records, files for blobs.
//!
//! ```text
//! lock         held while a process uses the folder; names it
//! state.redb   the tables of `node_core::Table`
//! blobs/ab/…   whole blobs, named by their hash
//! partial/     blobs on their way in, also those that others write (`staging`); emptied at each start
//! ```
//! Three threads work for the node: one commits records (all that wait, in one transaction),
//! one writes blobs, one reads them. The API's reads run on the caller's thread, beside them.
//!
//! Invariants:
//! - `Done` is said only when the change survives a power cut; of a blob in pieces, with the last one. A temporary
//!   folder survives none.
//! - A file in `blobs/` is whole: it was synced under another name first.
//! - After a failure (a full disk) nothing is changed, and the next request tries anew.

mod backend;
mod blob_files;
mod blob_threads;
mod folder;
mod record_thread;
mod records;
mod staging;
mod words;

use blob_files::{BlobFiles, Partial};
use folder::Folder;
use node_core::content::BlobRef;
use node_core::disk::Failed;
use node_core::ids::{BlobId, JobId};
use node_core::work::spec::UnitResult;
use node_core::{StorageReply, StorageRequest, Table, Token};
use records::Records;
pub(crate) use staging::{Draft, NoBlob, Staging};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

/// A handle to the data folder; clones share it. When the last is dropped, what was requested
/// is finished and the folder is free for others.
#[derive(Clone)]
pub(crate) struct Storage {
    parts: Arc<Parts>,
    threads: Arc<Threads>,
}

/// Why a data folder could not be used; says what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StorageError(pub(crate) String);

/// State that the threads share. Fields are declared in the order in which they are dropped: the lock comes
/// last.
struct Parts {
    records: Records,
    blobs: BlobFiles,
    folder: Folder,
}

type Replies = dyn Fn(StorageReply) + Send + Sync;

struct Threads {
    records: Option<Sender<StorageRequest>>,
    writes: Option<Sender<StorageRequest>>,
    reads: Option<Sender<StorageRequest>>,
    running: Vec<JoinHandle<()>>,
    replies: Arc<Replies>,
}

impl Storage {
    /// Opens or creates the folder. A second process on the same folder is refused by name.
    /// `replies` is called from a storage thread, in the order of completion.
    pub(crate) fn open(
        dir: &Path,
        replies: impl Fn(StorageReply) + Send + Sync + 'static,
    ) -> Result<Storage, StorageError> {
        Storage::start(Folder::open(dir)?, true, Arc::new(replies))
    }

    /// A folder of its own that goes with the last handle, without waiting for the disk: for
    /// swarms that live as long as one command.
    pub(crate) fn open_temporary(
        replies: impl Fn(StorageReply) + Send + Sync + 'static,
    ) -> Result<Storage, StorageError> {
        Storage::start(Folder::temporary()?, false, Arc::new(replies))
    }

    fn start(folder: Folder, durable: bool, replies: Arc<Replies>) -> Result<Storage, StorageError> {
        let records = Records::open(folder.database(), durable)?;
        let blobs = BlobFiles::new(folder.blobs(), folder.partial(), durable);
        let parts = Arc::new(Parts { records, blobs, folder });
        let mut threads = Threads {
            records: None,
            writes: None,
            reads: None,
            running: Vec::new(),
            replies: replies.clone(),
        };
        threads.records = Some(threads.spawn("storage-records", &parts, record_thread::run)?);
        threads.writes = Some(threads.spawn("storage-blobs-in", &parts, blob_threads::write)?);
        threads.reads = Some(threads.spawn("storage-blobs-out", &parts, blob_threads::read)?);
        Ok(Storage { parts, threads: Arc::new(threads) })
    }

    /// Queues a request of the node; never blocks. The queues need no bound of their own: the
    /// node bounds what it asks for.
    pub(crate) fn request(&self, request: StorageRequest) {
        let threads = &self.threads;
        let queue = match &request {
            StorageRequest::Commit { .. } | StorageRequest::Scan { .. } => &threads.records,
            StorageRequest::ReadBlob { .. } => &threads.reads,
            _ => &threads.writes,
        };
        let token = token(&request);
        let sent = queue.as_ref().is_some_and(|queue| queue.send(request).is_ok());
        if let (false, Some(token)) = (sent, token) {
            let error = Failed("a storage thread has crashed; restart the node and report this".into());
            (threads.replies)(StorageReply::Failed { token, error });
        }
    }

    /// Blobs found in the folder.
    pub(crate) fn blobs(&self) -> Vec<BlobRef> {
        self.parts.blobs.list()
    }

    /// Results of units `from..` in index order, at most `limit`, until they have `budget` bytes; one at
    /// least. The flag says whether there may be more.
    pub(crate) fn results(
        &self,
        job: JobId,
        from: u32,
        (limit, budget): (usize, usize),
    ) -> Result<(Vec<(u32, UnitResult)>, bool), StorageError> {
        let (first, last) = (result_key(job, from), result_key(job, u32::MAX));
        let entries = self.parts.records.range(Table::Results, &first, &last, (limit, budget))?;
        let bytes: usize = entries.iter().map(|(_, value)| value.len()).sum();
        let more = entries.len() >= limit || bytes >= budget;
        let results = entries.into_iter().map(|(key, value)| decode(job, &key, &value));
        Ok((results.collect::<Result<_, _>>()?, more))
    }

    pub(crate) fn result(&self, job: JobId, index: u32) -> Result<Option<UnitResult>, StorageError> {
        let key = result_key(job, index);
        let entries = self.parts.records.range(Table::Results, &key, &key, (1, usize::MAX))?;
        entries.first().map(|(key, value)| Ok(decode(job, key, value)?.1)).transpose()
    }

    /// Where the whole blob lies, if it is here. Named by its hash under [`Storage::blob_dir`].
    pub(crate) fn blob(&self, id: BlobId) -> Option<(PathBuf, u64)> {
        self.parts.blobs.find(id)
    }

    pub(crate) fn blob_dir(&self) -> PathBuf {
        self.parts.folder.blobs()
    }

    /// Where others write what becomes blobs.
    pub(crate) fn staging(&self) -> Staging {
        self.parts.blobs.staging().clone()
    }

    /// Starts a blob that arrives in pieces; it is named by its hash when finished.
    pub(crate) fn upload(&self) -> Result<Upload, StorageError> {
        Ok(Upload { partial: self.parts.blobs.begin()?, parts: self.parts.clone() })
    }
}

impl Storage {
    /// Finishes uploads as one group. Durable when this returns; one that failed leaves nothing behind.
    pub(crate) fn finish(&self, uploads: Vec<Upload>) -> Vec<Result<BlobRef, StorageError>> {
        let (refs, blobs): (Vec<BlobRef>, Vec<_>) = uploads
            .into_iter()
            .map(|upload| (upload.partial.blob(), upload.partial))
            .map(|(blob, partial)| (blob, (partial, blob.id)))
            .unzip();
        let kept = self.parts.blobs.keep(blobs);
        refs.into_iter().zip(kept).map(|(blob, kept)| kept.map(|()| blob)).collect()
    }
}

/// A blob on its way in. Dropped unfinished, it leaves nothing behind.
pub(crate) struct Upload {
    partial: Partial,
    parts: Arc<Parts>,
}

impl Upload {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.partial.write(bytes)
    }

    /// Durable when this returns.
    pub(crate) fn finish(self) -> Result<BlobRef, StorageError> {
        let blob = self.partial.blob();
        self.parts.blobs.keep(vec![(self.partial, blob.id)]).remove(0)?;
        Ok(blob)
    }
}

impl Threads {
    fn spawn(
        &mut self,
        name: &str,
        parts: &Arc<Parts>,
        run: fn(mpsc::Receiver<StorageRequest>, &Parts, &Replies),
    ) -> Result<Sender<StorageRequest>, StorageError> {
        let (sender, queue) = mpsc::channel();
        let (parts, replies) = (parts.clone(), self.replies.clone());
        let thread =
            thread::Builder::new().name(name.into()).spawn(move || run(queue, &parts, &*replies)).map_err(
                |e| StorageError(format!("cannot start a thread for storage: {e}; end other programs")),
            )?;
        self.running.push(thread);
        Ok(sender)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        (self.records, self.writes, self.reads) = (None, None, None);
        for thread in self.running.drain(..) {
            // The last handle may go with the reply callback, on one of these threads.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// The key of a result: job id, big-endian index.
fn result_key(job: JobId, index: u32) -> [u8; 20] {
    let mut key = [0; 20];
    key[..16].copy_from_slice(&job.0);
    key[16..].copy_from_slice(&index.to_be_bytes());
    key
}

fn decode(job: JobId, key: &[u8], value: &[u8]) -> Result<(u32, UnitResult), StorageError> {
    let index = key.last_chunk::<4>().map_or(0, |index| u32::from_be_bytes(*index));
    let result = sandbox::unpack::from_slice(value).map_err(|e| {
        StorageError(format!(
            "the result of unit {index} of job {job} is damaged ({e}); submit the job again"
        ))
    })?;
    Ok((index, result))
}

fn token(request: &StorageRequest) -> Option<Token> {
    match request {
        StorageRequest::Commit { token, .. }
        | StorageRequest::Scan { token, .. }
        | StorageRequest::PutBlob { token, .. }
        | StorageRequest::AppendBlob { token, .. }
        | StorageRequest::ReadBlob { token, .. } => Some(*token),
        StorageRequest::DropBlob { .. } | StorageRequest::AbandonBlob { .. } => None,
    }
}

/// Reply to a request without content.
fn done(token: Token, result: Result<(), StorageError>) -> StorageReply {
    match result {
        Ok(()) => StorageReply::Done { token },
        Err(error) => StorageReply::Failed { token, error: Failed(error.0) },
    }
}

#[cfg(test)]
mod tests;
