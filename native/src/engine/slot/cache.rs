//! Compiled programs on disk, shared by all slots and all nodes of this user. Nodes write them, slots only
//! read: code that got out of one program's slot cannot put itself into another's.
//!
//! Loading one is running machine code from a file, so the folder is the user's alone, each
//! file carries the hash of what is in it, and whatever is wrong with a file, the answer is to
//! compile again. A cache that does not work makes a node slow, never wrong.

use super::wasm::Compiled;
use node_core::ids::BlobId;
use sandbox::instrument::Layout;
use sandbox::module::{Form, PREPARE_VERSION};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;
use wasmer::Module;

/// Raise it when the files or the way to make them change.
const FORMAT: u32 = 2;

/// The release of wasmer whose machine code this is; `Cargo.toml` pins it.
const WASMER: &str = "7.1.0";

/// Begins each file; the hash of the rest follows, then the length of how the program is
/// suspended, that, and the machine code.
const MAGIC: &[u8; 16] = b"manyhands code 2";
const HEADER: usize = MAGIC.len() + blake3::OUT_LEN;

/// Bytes of all files. Our choice: some hundred programs, or a dozen very large ones.
const MAX_BYTES: u64 = 1 << 30;

/// Files that a process which was killed left half-written are removed after this.
const LEFT_OVER: Duration = Duration::from_secs(3600);

pub(crate) struct Cache {
    dir: PathBuf,
    /// Whether this user alone can write to it.
    usable: bool,
}

/// Where the compiled programs of a cache folder lie.
pub(super) fn folder(cache_dir: &Path) -> PathBuf {
    cache_dir.join("modules")
}

/// Everything that makes a compilation what it is, as a hash.
pub(crate) struct Key(blake3::Hash);

impl Key {
    pub(crate) fn new(program: BlobId, pages: u64, form: Form, engine: &wasmer::Engine) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(&program.0);
        hash.update(&pages.to_le_bytes());
        hash.update(&[form.bit_exact.into(), form.threads.into()]);
        hash.update(&PREPARE_VERSION.to_le_bytes());
        hash.update(&FORMAT.to_le_bytes());
        hash.update(WASMER.as_bytes());
        // The compiler, its settings, and the processor that it compiles for.
        hash.update(engine.deterministic_id().as_bytes());
        let target = wasmer::sys::Target::default();
        hash.update(format!("{} {:?}", target.triple(), target.cpu_features()).as_bytes());
        Key(hash.finalize())
    }
}

impl Cache {
    /// In a folder of its own under `cache_dir`. Says on stderr if it cannot be used.
    pub(crate) fn new(cache_dir: PathBuf) -> Self {
        let dir = folder(&cache_dir);
        let usable = own_folder(&dir);
        if let Err(why) = &usable {
            eprintln!("manyhands: compiled programs are not cached in {}: {why}", dir.display());
        }
        Cache { dir, usable: usable.is_ok() }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(format!("{}.code", key.0.to_hex()))
    }

    /// The compiled program, if it is there and whole.
    pub(crate) fn load(&self, key: &Key, engine: &wasmer::Engine) -> Option<Compiled> {
        if !self.usable {
            return None;
        }
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        let loaded = open(&bytes).and_then(|(layout, code)| {
            // SAFETY: the hash says that these are the bytes which `store` wrote, and the folder
            // belongs to this user alone, who could as well replace this program.
            unsafe { Module::deserialize(engine, code) }.ok().and_then(|m| Compiled::new(m, layout).ok())
        });
        // Mark the use, so that the least recently used go first. The node makes a damaged one anew, when it
        // is asked.
        if loaded.is_some() {
            drop(File::open(&path).and_then(|file| file.set_modified(SystemTime::now())));
        }
        loaded
    }

    /// Whether the compiled program is there and whole. A damaged one is removed.
    pub(in crate::engine) fn holds(&self, key: &Key) -> bool {
        let path = self.path(key);
        let Some(bytes) = fs::read(&path).ok().filter(|_| self.usable) else { return false };
        let whole = open(&bytes).is_some();
        if !whole {
            eprintln!("manyhands: {} is damaged and is made anew", path.display());
            drop(fs::remove_file(&path));
        }
        whole
    }

    pub(in crate::engine) fn is_usable(&self) -> bool {
        self.usable
    }

    /// A file for [`write_code`], which goes unless it is kept.
    pub(in crate::engine) fn temporary(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix("new-").tempfile_in(&self.dir)
    }

    /// Makes what was written whole into such a file the compiled program of this key: a reader sees all of
    /// it or nothing. It is not synced, since its hash notices what a power cut does to it.
    pub(in crate::engine) fn keep(&self, key: &Key, written: NamedTempFile) -> io::Result<()> {
        written.persist(self.path(key))?;
        self.tidy()
    }

    /// Waits until nobody else compiles what has this key, and keeps others from it until the
    /// lock is dropped. Without a lock two may do the same work, which harms nothing.
    pub(in crate::engine) fn lock(&self, key: &Key) -> Option<File> {
        // Some share a lock by chance: the number of files stays bounded.
        self.locked(&format!("{:02x}.lock", key.0.as_bytes()[0] % 64))
    }

    /// Waits until nobody else compiles at normal priority, and keeps others from it until the lock
    /// is dropped. `None` if there is no lock to be had.
    pub(in crate::engine) fn turn(&self) -> Option<File> {
        self.locked("turn.lock")
    }

    fn locked(&self, name: &str) -> Option<File> {
        if !self.usable {
            return None;
        }
        let file = File::options().create(true).truncate(false).write(true).open(self.dir.join(name)).ok()?;
        file.lock().ok()?;
        Some(file)
    }

    /// Writes a compiled program; that it could not be written is said on stderr.
    pub(crate) fn store(&self, key: &Key, compiled: &Compiled) {
        if !self.usable {
            return;
        }
        if let Err(error) = self.try_store(key, compiled) {
            eprintln!("manyhands: a compiled program is not cached in {}: {error}", self.dir.display());
        }
    }

    fn try_store(&self, key: &Key, compiled: &Compiled) -> io::Result<()> {
        let mut file = self.temporary()?;
        write_code(&mut file, compiled)?;
        self.keep(key, file)
    }

    /// Removes the least recently used files beyond [`MAX_BYTES`], and what was left over.
    fn tidy(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut codes = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            // Others tidy as well: what is gone is gone.
            let Ok(metadata) = entry.metadata() else { continue };
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "code") {
                codes.push((modified, metadata.len(), path));
            } else if entry.file_name().as_encoded_bytes().starts_with(b"new-")
                && now.duration_since(modified).is_ok_and(|age| age > LEFT_OVER)
            {
                drop(fs::remove_file(path));
            }
        }
        codes.sort_unstable();
        let mut bytes: u64 = codes.iter().map(|(_, len, _)| len).sum();
        // The newest stays, however large it is.
        codes.pop();
        for (_, len, path) in codes {
            if bytes <= MAX_BYTES {
                break;
            }
            drop(fs::remove_file(path));
            bytes -= len;
        }
        Ok(())
    }
}

/// Writes a compiled program as it lies in the cache.
pub(in crate::engine) fn write_code(file: &mut impl Write, compiled: &Compiled) -> io::Result<()> {
    let code = compiled.module.serialize().map_err(io::Error::other)?;
    let layout = compiled.layout.as_deref();
    let layout = rmp_serde::to_vec(&layout).map_err(io::Error::other)?;
    let len = (layout.len() as u32).to_le_bytes();
    let mut hash = blake3::Hasher::new();
    hash.update(&len).update(&layout).update(&code);
    file.write_all(MAGIC)?;
    file.write_all(hash.finalize().as_bytes())?;
    file.write_all(&len)?;
    file.write_all(&layout)?;
    file.write_all(&code)
}

/// How a program is suspended, or why it cannot be; and its machine code.
type Content<'a> = (Result<Arc<Layout>, String>, &'a [u8]);

/// The content of a file whose hash is right.
fn open(file: &[u8]) -> Option<Content<'_>> {
    let (header, content) = file.split_at_checked(HEADER)?;
    let hash = header.strip_prefix(MAGIC)?;
    if blake3::hash(content).as_bytes() != hash {
        return None;
    }
    let (len, rest) = content.split_first_chunk::<4>()?;
    let (layout, code) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let layout: Result<Layout, String> = rmp_serde::from_slice(layout).ok()?;
    Some((layout.map(Arc::new), code))
}

/// Makes sure that the folder is there and that nobody else can put files into it.
fn own_folder(dir: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| error.to_string())?;
    let metadata = fs::symlink_metadata(dir).map_err(|error| error.to_string())?;
    if !metadata.is_dir() {
        return Err("it is no folder; remove it".into());
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user; choose another folder".into());
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("others can write to it; take that right away (chmod go-w)".into());
    }
    Ok(())
}
