//! Content: named by its hash, or small enough to travel along.

use crate::ids::BlobId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Content by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlobRef {
    pub id: BlobId,
    /// Bytes.
    pub len: u64,
}

impl BlobRef {
    /// Reads all of it, at some gigabytes a second.
    pub fn of(bytes: &[u8]) -> BlobRef {
        BlobRef { id: BlobId::of(bytes), len: bytes.len() as u64 }
    }
}

/// Why content could not be brought here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The source did not answer, was busy for long, or went away: it may have the content later.
    #[error("{0}")]
    NoAnswer(String),
    /// No source has it, or it is not what it is said to be.
    #[error("{0}")]
    Failed(String),
    /// This node cannot store it, or has lost it.
    #[error("{0}")]
    NotStored(String),
}

impl FetchError {
    /// It is not here, and there is nobody to ask.
    pub(crate) fn not_here() -> FetchError {
        FetchError::Failed("it is not in this node's storage; upload it first".into())
    }

    pub(crate) fn of_another_length(len: u64, said: u64) -> FetchError {
        FetchError::Failed(format!("it has {len} bytes and is said to have {said}"))
    }
}

/// Content that could not be brought here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("blob {blob}: {why}")]
pub struct NotFetched {
    pub blob: BlobId,
    pub why: FetchError,
}

impl NotFetched {
    /// Whether it may be had of another node, or later.
    pub(crate) fn is_no_answer(&self) -> bool {
        matches!(self.why, FetchError::NoAnswer(_))
    }
}

/// Content, small enough to travel in a message or by reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Data {
    Inline(Bytes),
    Blob(BlobRef),
}

impl Data {
    /// A result carries so much content, all together, and so does a unit; what is more is a blob.
    /// Our choice: eight of them fill a message, and below it a file of its own costs the disk more
    /// than the bytes.
    pub const INLINE_MAX: usize = 64 << 10;

    pub const EMPTY: Data = Data::Inline(Bytes::new());

    pub fn len(&self) -> u64 {
        match self {
            Data::Inline(bytes) => bytes.len() as u64,
            Data::Blob(blob) => blob.len,
        }
    }

    /// Bytes of content that is not a blob.
    pub fn inline_len(&self) -> usize {
        match self {
            Data::Inline(bytes) => bytes.len(),
            Data::Blob(_) => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn blob(&self) -> Option<BlobRef> {
        match self {
            Data::Inline(_) => None,
            Data::Blob(blob) => Some(*blob),
        }
    }
}

/// A file that goes in or came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedData {
    /// Relative, parts separated by `/`.
    pub path: String,
    pub data: Data,
}

impl NamedData {
    /// Bytes of a part of a path: what file systems take.
    const PART_MAX: usize = 255;

    /// Whether it is a relative path without `.`, `..` and empty parts.
    pub fn is_path(path: &str) -> bool {
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= Self::PART_MAX;
        path.split('/').all(is_part) && !path.contains('\0')
    }
}
