//! Manifest of a file: the list of its chunks.

use crate::content::BlobRef;
use crate::ids::BlobId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Bytes of a chunk; the last one is shorter. Our choice: it is what a keeper reads at once for a
/// proof, and pulls anew when a source goes; the largest file's manifest is still half a mebibyte.
pub const CHUNK: u64 = 4 << 20;

/// Chunks of the largest file, 64 GiB.
pub const CHUNKS: usize = 16_384;

/// Longest manifest, bytes.
pub const MANIFEST: u64 = 600_000;

/// Longest name of a file, bytes.
pub const NAME: usize = 255;

const VERSION: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    version: u8,
    /// Bytes of all chunks.
    pub len: u64,
    /// Whether they have to be decrypted.
    pub encrypted: bool,
    /// For people.
    pub name: Option<String>,
    pub chunks: Vec<BlobId>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadManifest {
    #[error("it is no manifest of a file: {0}")]
    Unreadable(String),
    #[error("it is of version {0}, which this node does not know; the node needs an update")]
    Version(u8),
    #[error("it names {chunks} chunks for {len} bytes")]
    Chunks { chunks: usize, len: u64 },
    #[error("a file has at most {} GiB", (CHUNKS as u64 * CHUNK) >> 30)]
    TooLong,
    #[error("a file's name has at most {NAME} bytes")]
    Name,
}

impl Manifest {
    /// The manifest of a file of `len` bytes in these chunks.
    ///
    /// # Errors
    /// [`BadManifest`] if the chunks do not make up that length, or something is out of bounds.
    pub fn new(
        len: u64,
        encrypted: bool,
        name: Option<String>,
        chunks: Vec<BlobId>,
    ) -> Result<Manifest, BadManifest> {
        let manifest = Manifest { version: VERSION, len, encrypted, name, chunks };
        manifest.check().map(|()| manifest)
    }

    pub fn encode(&self) -> Bytes {
        // Plain data: rmp cannot fail on it.
        rmp_serde::to_vec(self).map(Bytes::from).unwrap_or_default()
    }

    /// Reads what [`Manifest::encode`] has written.
    ///
    /// # Errors
    /// [`BadManifest`] if it is none, or its parts contradict each other.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, BadManifest> {
        if bytes.len() as u64 > MANIFEST {
            return Err(BadManifest::TooLong);
        }
        // The decoder quotes what is there: a line of it is enough.
        let unreadable = |e: sandbox::unpack::Unreadable| {
            BadManifest::Unreadable(e.to_string().chars().take(200).collect())
        };
        let manifest: Manifest = sandbox::unpack::from_slice(bytes).map_err(unreadable)?;
        manifest.check().map(|()| manifest)
    }

    fn check(&self) -> Result<(), BadManifest> {
        if self.version != VERSION {
            return Err(BadManifest::Version(self.version));
        }
        if self.chunks.len() > CHUNKS {
            return Err(BadManifest::TooLong);
        }
        if self.chunks.len() as u64 != self.len.div_ceil(CHUNK) {
            return Err(BadManifest::Chunks { chunks: self.chunks.len(), len: self.len });
        }
        if self.name.as_ref().is_some_and(|name| name.len() > NAME) {
            return Err(BadManifest::Name);
        }
        Ok(())
    }

    /// The chunk of that index.
    pub fn chunk(&self, index: usize) -> Option<BlobRef> {
        let id = *self.chunks.get(index)?;
        Some(BlobRef { id, len: (self.len - index as u64 * CHUNK).min(CHUNK) })
    }

    pub fn parts(&self) -> impl Iterator<Item = BlobRef> + '_ {
        (0..self.chunks.len()).filter_map(|index| self.chunk(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: usize) -> Vec<BlobId> {
        vec![BlobId([7; 32]); count]
    }

    #[test]
    fn chunks_make_up_the_file_and_the_last_one_is_short() {
        for (len, lens) in
            [(0, vec![]), (1, vec![1]), (CHUNK, vec![CHUNK]), (2 * CHUNK + 5, vec![CHUNK, CHUNK, 5])]
        {
            let manifest = Manifest::new(len, false, None, ids(lens.len())).expect("it fits");
            assert_eq!(manifest.parts().map(|part| part.len).collect::<Vec<_>>(), lens);
            assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
        }
    }

    #[test]
    fn the_largest_file_has_a_manifest_that_may_be() {
        let most = CHUNKS as u64 * CHUNK;
        let manifest = Manifest::new(most, true, Some("n".repeat(NAME)), ids(CHUNKS)).expect("it fits");
        assert!(manifest.encode().len() as u64 <= MANIFEST);
        assert_eq!(Manifest::new(most + 1, true, None, ids(CHUNKS + 1)), Err(BadManifest::TooLong));
    }

    #[test]
    fn a_manifest_that_says_what_cannot_be_is_none() {
        assert_eq!(
            Manifest::new(CHUNK + 1, false, None, ids(1)),
            Err(BadManifest::Chunks { chunks: 1, len: CHUNK + 1 })
        );
        assert_eq!(Manifest::new(0, false, Some("n".repeat(NAME + 1)), vec![]), Err(BadManifest::Name));
        let other = Manifest { version: 2, ..Manifest::new(0, false, None, vec![]).unwrap() };
        assert_eq!(Manifest::decode(&other.encode()), Err(BadManifest::Version(2)));
        assert!(matches!(Manifest::decode(b"\x95\x01\xff"), Err(BadManifest::Unreadable(_))));
        assert_eq!(Manifest::decode(&vec![0; MANIFEST as usize + 1]), Err(BadManifest::TooLong));
    }
}
