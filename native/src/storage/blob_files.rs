//! Blobs as files, named by their hash.

use super::staging::Staging;
use super::{StorageError, words};
use crate::private::folders;
use node_core::content::BlobRef;
use node_core::ids::BlobId;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

pub(super) struct BlobFiles {
    whole: PathBuf,
    staging: Staging,
    durable: bool,
}

/// Files that are synced at once: the file system writes its journal once for all that wait.
/// Measured on ext4, 64 files: 1 thread 300 ms, 8 threads 40 ms, 32 threads 10 ms, 64 the same.
const SYNCING: usize = 32;

/// Most bytes that one read may ask for. Our choice: eight of the largest frames.
const MAX_READ: u32 = 8 << 20;

impl BlobFiles {
    pub(super) fn new(whole: PathBuf, partial: PathBuf, durable: bool) -> Self {
        BlobFiles { whole, staging: Staging::new(partial), durable }
    }

    pub(super) fn staging(&self) -> &Staging {
        &self.staging
    }

    fn path(&self, id: BlobId) -> PathBuf {
        let name = id.to_string();
        self.whole.join(&name[..2]).join(name)
    }

    pub(super) fn find(&self, id: BlobId) -> Option<(PathBuf, u64)> {
        let path = self.path(id);
        let found = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some((path, found.len()))
    }

    /// All blobs. Files with other names than a blob's are left out.
    pub(super) fn list(&self) -> Vec<BlobRef> {
        let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
        let files = entries(&self.whole).flat_map(|dir| entries(&dir.path()).collect::<Vec<_>>());
        let blob = |file: fs::DirEntry| {
            let id = file.file_name().to_str()?.parse().ok()?;
            let (path, len) = self.find(id)?;
            (path == file.path()).then_some(BlobRef { id, len })
        };
        let mut found: Vec<BlobRef> = files.filter_map(blob).collect();
        found.sort();
        found
    }

    pub(super) fn begin(&self) -> Result<Partial, StorageError> {
        let (path, file) = self.staging.create()?;
        Ok(Partial::new(path, file))
    }

    /// Makes these whole blobs: each is what its id says, or it fails and is gone. Durable
    /// when it returns, unless the folder is temporary.
    pub(super) fn keep(&self, blobs: Vec<(Partial, BlobId)>) -> Vec<Result<(), StorageError>> {
        let mut results = at_once(&blobs, |(partial, id)| {
            partial.check(*id)?;
            if self.durable { partial.sync() } else { Ok(()) }
        });
        let mut dirs = BTreeSet::new();
        for ((partial, id), result) in blobs.iter().zip(&mut results) {
            if result.is_ok() {
                *result = self.rename(partial, *id, &mut dirs);
            }
        }
        if self.durable {
            let dirs: Vec<PathBuf> = dirs.into_iter().collect();
            let synced = at_once(&dirs, |dir| sync_dir(dir));
            if let Some(failed) = synced.into_iter().find(Result::is_err) {
                results.iter_mut().filter(|r| r.is_ok()).for_each(|r| r.clone_from(&failed));
            }
        }
        results
    }

    fn rename(
        &self,
        partial: &Partial,
        id: BlobId,
        dirs: &mut BTreeSet<PathBuf>,
    ) -> Result<(), StorageError> {
        let path = self.path(id);
        let dir = path.parent().unwrap_or(&self.whole).to_path_buf();
        match folders().create(&dir) {
            Ok(()) => drop(dirs.insert(self.whole.clone())),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(words::io("make the folder", &dir, &e)),
        }
        fs::rename(&partial.path, &path).map_err(|e| words::io("store the blob", &path, &e))?;
        dirs.insert(dir);
        Ok(())
    }

    pub(super) fn read(&self, id: BlobId, offset: u64, len: u32) -> Result<Vec<u8>, StorageError> {
        let path = self.path(id);
        let failed = |e: &io::Error| match e.kind() {
            io::ErrorKind::NotFound => StorageError(format!("the blob {id} is not here; store it again")),
            _ => words::io("read the blob", &path, e),
        };
        if len > MAX_READ {
            return Err(StorageError(format!(
                "{len} bytes of a blob at once: at most {MAX_READ} can be read"
            )));
        }
        let mut file = File::open(&path).map_err(|e| failed(&e))?;
        let whole = file.metadata().map_err(|e| failed(&e))?.len();
        if offset.checked_add(len.into()).is_none_or(|end| end > whole) {
            return Err(StorageError(format!(
                "the blob {id} has {whole} bytes; {len} from {offset} on were asked for"
            )));
        }
        file.seek(SeekFrom::Start(offset)).map_err(|e| failed(&e))?;
        let mut bytes = Vec::with_capacity(len as usize);
        file.take(len.into()).read_to_end(&mut bytes).map_err(|e| failed(&e))?;
        if bytes.len() < len as usize {
            return Err(failed(&io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes)
    }

    pub(super) fn remove(&self, id: BlobId) {
        let path = self.path(id);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("{}", words::io("delete the blob", &path, &e));
            }
            _ => {}
        }
    }
}

/// A file whose name is not yet known. Removed when dropped; by then a kept one has moved.
pub(super) struct Partial {
    path: PathBuf,
    /// None while others have the places of open files.
    file: Option<File>,
    hasher: blake3::Hasher,
    len: u64,
}

impl Partial {
    /// An empty file that is to be written, or one of others that is to be read.
    pub(super) fn new(path: PathBuf, file: File) -> Partial {
        Partial { path, file: Some(file), hasher: blake3::Hasher::new(), len: 0 }
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => OpenOptions::new().append(true).open(&self.path).map_err(|e| self.failed(&e))?,
        };
        file.write_all(bytes).map_err(|e| self.failed(&e))?;
        self.file = Some(file);
        self.hash(bytes);
        Ok(())
    }

    /// Counts bytes in that are in the file already.
    pub(super) fn hash(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
    }

    /// Gives its place among the open files to another. The next piece opens it again.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Reference that the blob would have if it were complete.
    pub(super) fn blob(&self) -> BlobRef {
        BlobRef { id: BlobId(*self.hasher.finalize().as_bytes()), len: self.len }
    }

    fn check(&self, id: BlobId) -> Result<(), StorageError> {
        let found = self.blob().id;
        if found == id {
            return Ok(());
        }
        Err(StorageError(format!(
            "what came as blob {id} is {found}: it was damaged on the way; fetch it from someone else"
        )))
    }

    fn sync(&self) -> Result<(), StorageError> {
        debug_assert!(self.file.is_some(), "the last piece has opened it");
        self.file.as_ref().map_or(Ok(()), File::sync_data).map_err(|e| self.failed(&e))
    }

    pub(super) fn failed(&self, e: &io::Error) -> StorageError {
        words::io("store a blob in", &self.path, e)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Does `work` on each item, many at the same time; fewer when the system gives no threads.
fn at_once<T: Sync>(
    items: &[T],
    work: impl Fn(&T) -> Result<(), StorageError> + Sync,
) -> Vec<Result<(), StorageError>> {
    let results = Mutex::new(vec![Ok(()); items.len()]);
    let next = AtomicUsize::new(0);
    let run = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { return };
            let result = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner)[i] = result;
        }
    };
    thread::scope(|scope| {
        for _ in 1..items.len().min(SYNCING) {
            if thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn sync_dir(dir: &Path) -> Result<(), StorageError> {
    // Elsewhere folders cannot be opened; renames are durable there without.
    if cfg!(unix) {
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|e| words::io("write to", dir, &e))?;
    }
    Ok(())
}
