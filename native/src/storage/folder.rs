//! The data folder itself: one process at a time.

use super::{StorageError, words};
use crate::private::{make_folder, own_only, tighten};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(super) struct Folder {
    dir: PathBuf,
    /// Released by the system when this process ends, however it ends.
    _lock: File,
    _temporary: Option<TempDir>,
}

impl Folder {
    pub(super) fn open(dir: &Path) -> Result<Folder, StorageError> {
        Folder::prepare(dir.to_path_buf(), None)
    }

    pub(super) fn temporary() -> Result<Folder, StorageError> {
        let place = std::env::temp_dir();
        let temporary = tempfile::Builder::new().prefix("manyhands-").tempdir();
        let temporary = temporary.map_err(|e| words::io("make a folder in", &place, &e))?;
        Folder::prepare(temporary.path().to_path_buf(), Some(temporary))
    }

    fn prepare(dir: PathBuf, temporary: Option<TempDir>) -> Result<Folder, StorageError> {
        make_folder(&dir).map_err(|e| words::io("make the data folder", &dir, &e))?;
        tighten(&dir).map_err(StorageError)?;
        let lock = lock(&dir)?;
        let folder = Folder { dir, _lock: lock, _temporary: temporary };
        let (blobs, partial) = (folder.blobs(), folder.partial());
        make_folder(&blobs).map_err(|e| words::io("make the folder", &blobs, &e))?;
        // Remove what an earlier process left unfinished.
        match fs::remove_dir_all(&partial) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(words::io("empty the folder", &partial, &e));
            }
            _ => {}
        }
        make_folder(&partial).map_err(|e| words::io("make the folder", &partial, &e))?;
        Ok(folder)
    }

    pub(super) fn database(&self) -> PathBuf {
        self.dir.join("state.redb")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.dir.join("blobs")
    }

    pub(super) fn partial(&self) -> PathBuf {
        self.dir.join("partial")
    }
}

/// Until a folder that another process has open counts as in use. Our choice: a node that was told to end and is
/// started again at once has closed its folder by then.
const PATIENCE: Duration = Duration::from_secs(2);

fn lock_within(file: &File, patience: Duration) -> Result<(), TryLockError> {
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(50));
            }
            outcome => return outcome,
        }
    }
}

fn lock(dir: &Path) -> Result<File, StorageError> {
    let path = dir.join("lock");
    let mut file = own_only(&mut OpenOptions::new())
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|e| words::io("write to the data folder: opening", &path, &e))?;
    match lock_within(&file, PATIENCE) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = (&file).take(20).read_to_string(&mut pid); // for people only
            let who = match pid.trim().parse::<u32>() {
                Ok(pid) => format!("another manyhands process (pid {pid})"),
                Err(_) => "another manyhands process".into(),
            };
            return Err(StorageError(format!(
                "the data folder {} is in use by {who}: stop that process, or choose another folder with --data DIR",
                dir.display()
            )));
        }
        Err(TryLockError::Error(e)) => return Err(words::io("lock", &path, &e)),
    }
    let written = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    written.map_err(|e| words::io("write to", &path, &e))?;
    Ok(file)
}
