//! The file under the database, which may be told not to wait for the disk.

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use std::fs::File;
use std::io;
use std::ops::Bound;
#[cfg(test)]
use std::sync::{Arc, atomic::AtomicBool, atomic::Ordering::SeqCst};

#[derive(Debug)]
pub(super) struct Backend {
    file: FileBackend,
    durable: bool,
    /// Plays a full disk.
    #[cfg(test)]
    full: Arc<AtomicBool>,
}

impl Backend {
    pub(super) fn new(file: File, durable: bool) -> Result<Self, redb::DatabaseError> {
        Ok(Backend {
            file: FileBackend::new(file)?,
            durable,
            #[cfg(test)]
            full: Arc::default(),
        })
    }

    #[cfg(test)]
    pub(super) fn with_full(self, full: Arc<AtomicBool>) -> Self {
        Backend { full, ..self }
    }

    fn room(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.full.load(SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.room()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.durable { self.file.sync_data() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.room()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
