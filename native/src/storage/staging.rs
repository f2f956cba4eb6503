//! Files that another process writes and that become blobs without a copy.
//!
//! The engine gives a slot such a file, and the slot writes a snapshot into it. A slot is not believed about
//! what it wrote: the file gets its name here, from one reading, and only once nobody can change it any more.
//! Then storage moves it to its place when the node asks for that ([`Staging::take`]).
//!
//! The order matters. A slot that kept its descriptor could change the file after it was read, and the blob
//! would not be what its name says. So [`Draft::finish`] first has the kernel say that no descriptor is left
//! with which the file could be written: a read lease is refused as long as there is one. Nobody opens
//! another, since the wall denies slots to open files for writing (on a system without that wall, a slot that
//! is taken over could write to `blobs/` as well). Where the kernel refuses the lease, or has none to give
//! (network file systems, other systems than Linux), the content is copied into a file that no slot ever had,
//! and the copied bytes are the hashed ones.

use super::blob_files::Partial;
use super::{StorageError, words};
use crate::private::own_only;
use bytes::Bytes;
use node_core::content::BlobRef;
use node_core::ids::BlobId;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Bytes read and hashed at a time. Our choice: they stay in the processor's cache.
const PIECE: usize = 256 << 10;

/// Pauses before a lease is asked for again. A process that starts while a file is made has a copy of its
/// descriptor for a moment; a slot that keeps its own has it for good, and is not waited for any longer.
const AGAIN: [Duration; 3] = [Duration::from_millis(2), Duration::from_millis(10), Duration::from_millis(50)];

/// The folder of blobs on their way in. Clones share it.
#[derive(Clone)]
pub(crate) struct Staging(Arc<Shared>);

struct Shared {
    dir: PathBuf,
    /// Names the next file.
    next: AtomicU64,
    /// Finished drafts that the node has not asked storage to keep.
    waiting: Mutex<HashMap<BlobId, Weak<Waiting>>>,
}

/// A file that somebody else writes. Removed when dropped.
pub(crate) struct Draft {
    staging: Staging,
    /// Opened to be read.
    partial: Partial,
}

/// A whole file under its name. It goes with the `Bytes` that stand for it.
struct Waiting {
    id: BlobId,
    partial: Mutex<Option<Partial>>,
    shared: Arc<Shared>,
}

/// Why a draft is no blob.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoBlob {
    /// The writer's word about its length.
    #[error("it said {said} bytes and wrote {found}")]
    Length { said: u64, found: u64 },
    #[error("it is empty")]
    Empty,
    #[error(transparent)]
    Disk(#[from] StorageError),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Staging {
    /// `dir` must exist.
    pub(crate) fn new(dir: PathBuf) -> Staging {
        Staging(Arc::new(Shared { dir, next: AtomicU64::new(0), waiting: Mutex::default() }))
    }

    /// Makes an empty file, and opens it to be written.
    pub(super) fn create(&self) -> Result<(PathBuf, File), StorageError> {
        let path = self.0.dir.join(self.0.next.fetch_add(1, Ordering::Relaxed).to_string());
        let file = own_only(OpenOptions::new().write(true).create_new(true))
            .open(&path)
            .map_err(|e| words::io("store a blob in", &path, &e))?;
        Ok((path, file))
    }

    /// A file for somebody else to write, and its only descriptor that can write. It cannot read, so nobody
    /// maps it into memory either.
    pub(crate) fn draft(&self) -> Result<(Draft, File), StorageError> {
        let (path, writer) = self.create()?;
        let reader = File::open(&path).map_err(|e| words::io("read", &path, &e));
        let partial = Partial::new(path, reader?);
        Ok((Draft { staging: self.clone(), partial }, writer))
    }

    /// The finished draft of that name, if one waits; once.
    pub(super) fn take(&self, id: BlobId) -> Option<Partial> {
        let waiting = locked(&self.0.waiting).remove(&id)?.upgrade()?;
        locked(&waiting.partial).take()
    }

    /// Number of files that are no blobs yet.
    #[cfg(test)]
    pub(crate) fn files(&self) -> usize {
        std::fs::read_dir(&self.0.dir).map_or(0, Iterator::count)
    }

    /// Content of what waits under that name, if it does.
    #[cfg(test)]
    pub(crate) fn peek(&self, id: BlobId) -> Option<Vec<u8>> {
        let waiting = locked(&self.0.waiting).get(&id)?.upgrade()?;
        let partial = locked(&waiting.partial);
        std::fs::read(partial.as_ref()?.path()).ok()
    }

    /// Has it wait under its name, for as long as what is returned lives.
    fn wait(&self, blob: BlobRef, partial: Partial) -> Bytes {
        let mut waiting = locked(&self.0.waiting);
        // A task that stands still gives the same snapshot twice.
        let twin = waiting.get(&blob.id).and_then(Weak::upgrade);
        let kept = twin.unwrap_or_else(|| {
            let (id, shared) = (blob.id, self.0.clone());
            let kept = Arc::new(Waiting { id, partial: Mutex::new(Some(partial)), shared });
            waiting.insert(id, Arc::downgrade(&kept));
            kept
        });
        Bytes::from_owner(Held(kept))
    }
}

/// Stands for a file as bytes do, without having any.
struct Held(#[allow(dead_code, reason = "what it holds goes with it")] Arc<Waiting>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &[]
    }
}

impl Draft {
    /// Gives the file its name, once its writer said that it wrote `said` bytes. It takes as long as reading
    /// them. The `Bytes` are empty; the file is storage's to take while they live.
    pub(crate) fn finish(self, said: u64) -> Result<(BlobRef, Bytes), NoBlob> {
        let Draft { staging, mut partial } = self;
        let settled = partial.is_settled();
        let found = partial.found()?;
        match found {
            0 => return Err(NoBlob::Empty),
            found if found != said => return Err(NoBlob::Length { said, found }),
            _ => {}
        }
        if settled {
            partial.each_piece(said, |partial, piece| {
                partial.hash(piece);
                Ok(())
            })?;
        } else {
            let (path, file) = staging.create()?;
            let mut copy = Partial::new(path, file);
            partial.each_piece(said, |_, piece| copy.write(piece))?;
            partial = copy;
        }
        let blob = partial.blob();
        match blob.len {
            found if found != said => Err(NoBlob::Length { said, found }),
            _ => Ok((blob, staging.wait(blob, partial))),
        }
    }
}

impl Partial {
    /// Whether nobody can write it any more, also after some patience.
    fn is_settled(&self) -> bool {
        let mut pauses = AGAIN.into_iter();
        loop {
            match self.file().is_some_and(nobody_writes) {
                true => return true,
                false => match pauses.next() {
                    Some(pause) => std::thread::sleep(pause),
                    None => return false,
                },
            }
        }
    }

    fn found(&self) -> Result<u64, StorageError> {
        let found = self.file().map(File::metadata).transpose().map_err(|e| self.failed(&e))?;
        Ok(found.map_or(0, |found| found.len()))
    }

    /// Reads `most` bytes, or as many as there are.
    fn each_piece(
        &mut self,
        most: u64,
        mut with: impl FnMut(&mut Partial, &[u8]) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut buffer = vec![0; PIECE];
        let mut left = most;
        while left > 0 {
            let piece = buffer.len().min(usize::try_from(left).unwrap_or(PIECE));
            let read = match self.file() {
                Some(mut reader) => reader.read(&mut buffer[..piece]),
                None => Ok(0),
            };
            match read {
                Ok(0) => break,
                Ok(read) => {
                    left -= read as u64;
                    with(self, &buffer[..read])?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(&e)),
            }
        }
        Ok(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = locked(&self.shared.waiting);
        if waiting.get(&self.id).is_some_and(|kept| kept.strong_count() == 0) {
            waiting.remove(&self.id);
        }
        drop(waiting);
        let partial = self.partial.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // The node's thread may be what drops it, and to remove a large file takes milliseconds. Where the
        // system gives no thread, it takes them here.
        if let Some(partial) = partial {
            drop(std::thread::Builder::new().name("storage-drop".into()).spawn(move || drop(partial)));
        }
    }
}

/// Whether no descriptor is left, of whatever process, with which this file could be written. Only the owner
/// of a file may ask.
#[cfg(target_os = "linux")]
fn nobody_writes(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: the call reads and writes no memory of this process.
    let lease = |kind: libc::c_int| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) } == 0;
    let granted = lease(libc::F_RDLCK);
    if granted {
        lease(libc::F_UNLCK);
    }
    granted
}

/// Elsewhere nobody can be asked.
#[cfg(not(target_os = "linux"))]
fn nobody_writes(_: &File) -> bool {
    false
}
