//! A file on its way in: cut into chunks as it comes, each a blob of this node.

use crate::storage::{Storage, Upload};
use node_core::content::BlobRef;
use node_core::files::{CHUNK, CHUNKS, Manifest};
use node_core::{BlobId, StorageRequest};
use std::io::{self, Write};

/// Takes bytes; dropped unfinished, it leaves nothing behind.
pub(crate) struct Cutter {
    storage: Storage,
    chunk: Option<(Upload, blake3::Hasher)>,
    /// Bytes of the chunk that is being written.
    filled: u64,
    chunks: Vec<BlobRef>,
    /// Chunks that were here before.
    shared: Vec<u32>,
    kept: bool,
}

/// A file whose parts are all in this node's storage.
pub(crate) struct Cut {
    pub(crate) id: BlobRef,
    pub(crate) manifest: Manifest,
    pub(crate) shared: Vec<u32>,
}

impl Cut {
    /// Blobs that the node has to be told of: ids and lengths.
    pub(crate) fn blobs(&self) -> Vec<(BlobId, u64)> {
        self.manifest.parts().chain([self.id]).map(|blob| (blob.id, blob.len)).collect()
    }
}

impl Cutter {
    pub(crate) fn new(storage: Storage) -> Cutter {
        Cutter { storage, chunk: None, filled: 0, chunks: Vec::new(), shared: Vec::new(), kept: false }
    }

    /// All of it has come; durable when this returns.
    pub(crate) fn finish(mut self, encrypted: bool, name: Option<String>) -> Result<Cut, String> {
        self.end_chunk().map_err(|e| e.to_string())?;
        let len = self.chunks.iter().map(|chunk| chunk.len).sum();
        let ids = self.chunks.iter().map(|chunk| chunk.id).collect();
        let manifest = Manifest::new(len, encrypted, name, ids).map_err(|why| why.to_string())?;
        let mut upload = self.storage.upload().map_err(|e| e.to_string())?;
        upload.write(&manifest.encode()).map_err(|e| e.to_string())?;
        let id = upload.finish().map_err(|e| e.to_string())?;
        self.kept = true;
        Ok(Cut { id, manifest, shared: std::mem::take(&mut self.shared) })
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        let Some((upload, hasher)) = self.chunk.take() else { return Ok(()) };
        let id = BlobId(*hasher.finalize().as_bytes());
        let before = match self.chunks.iter().position(|chunk| chunk.id == id) {
            // The second of the same: as the first.
            Some(first) => self.shared.contains(&(first as u32)),
            None => self.storage.blob(id).is_some(),
        };
        if before {
            self.shared.push(self.chunks.len() as u32);
        }
        self.chunks.push(upload.finish().map_err(io::Error::other)?);
        self.filled = 0;
        Ok(())
    }
}

impl Write for Cutter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.chunks.len() >= CHUNKS && !bytes.is_empty() {
            let most = (CHUNKS as u64 * CHUNK) >> 30;
            return Err(io::Error::other(format!("a file has at most {most} GiB")));
        }
        let len = (CHUNK - self.filled).min(bytes.len() as u64) as usize;
        let (part, _) = bytes.split_at(len);
        if self.chunk.is_none() && !part.is_empty() {
            let upload = self.storage.upload().map_err(io::Error::other)?;
            self.chunk = Some((upload, blake3::Hasher::new()));
        }
        if let Some((upload, hasher)) = &mut self.chunk {
            upload.write(part).map_err(io::Error::other)?;
            hasher.update(part);
        }
        self.filled += len as u64;
        if self.filled == CHUNK {
            self.end_chunk()?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        for (at, chunk) in self.chunks.iter().enumerate() {
            if !self.shared.contains(&(at as u32)) {
                self.storage.request(StorageRequest::DropBlob { id: chunk.id });
            }
        }
    }
}
