//! Content from the node's data folder, checked against its name.

use bytes::Bytes;
use node_core::content::Data;
use node_core::ids::BlobId;
use std::cell::RefCell;
use std::path::PathBuf;

/// Bytes of inputs kept in memory. Our choice: the units of a job often share their inputs,
/// and a slot is small beside the tasks that run in it.
const KEPT: usize = 32 << 20;

pub(super) struct Blobs {
    dir: PathBuf,
    kept: RefCell<Kept>,
}

/// The most recently used inputs, newest last.
#[derive(Default)]
struct Kept {
    inputs: Vec<(BlobId, Bytes)>,
    bytes: usize,
}

impl Blobs {
    pub(super) fn new(dir: PathBuf) -> Self {
        Blobs { dir, kept: RefCell::default() }
    }

    /// Content of an input.
    pub(super) fn data(&self, data: Data) -> Result<Bytes, String> {
        let blob = match data {
            Data::Inline(bytes) => return Ok(bytes),
            Data::Blob(blob) => blob,
        };
        if let Some(bytes) = self.kept.borrow_mut().get(blob.id) {
            return Ok(bytes);
        }
        let bytes = self.read(blob.id)?;
        self.kept.borrow_mut().add(blob.id, &bytes);
        Ok(bytes)
    }

    /// A whole blob from disk.
    pub(super) fn read(&self, id: BlobId) -> Result<Bytes, String> {
        let bytes = self.read_unchecked(id)?;
        if BlobId::of(&bytes) != id {
            return Err(format!(
                "blob {id} is damaged on this node's disk: {} does not hold what its name says; \
                 delete it and check the disk",
                self.path(id).display()
            ));
        }
        Ok(bytes.into())
    }

    /// [`Self::read`] without a check of the hash, for content that proves itself otherwise.
    pub(super) fn read_unchecked(&self, id: BlobId) -> Result<Vec<u8>, String> {
        let path = self.path(id);
        std::fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("blob {id} is not in this node's storage: {} does not exist", path.display())
            }
            _ => format!("blob {id} cannot be read from {}: {error}", path.display()),
        })
    }

    fn path(&self, id: BlobId) -> PathBuf {
        let name = id.to_string();
        self.dir.join(&name[..2]).join(&name)
    }
}

impl Kept {
    fn get(&mut self, id: BlobId) -> Option<Bytes> {
        let at = self.inputs.iter().position(|(kept, _)| *kept == id)?;
        let found = self.inputs.remove(at);
        self.inputs.push(found.clone());
        Some(found.1)
    }

    fn add(&mut self, id: BlobId, bytes: &Bytes) {
        if bytes.len() > KEPT / 2 {
            return;
        }
        self.bytes += bytes.len();
        self.inputs.push((id, bytes.clone()));
        while self.bytes > KEPT {
            self.bytes -= self.inputs.remove(0).1.len();
        }
    }
}
