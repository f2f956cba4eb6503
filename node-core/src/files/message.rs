//! Messages between owners and keepers of files.

use crate::address::Contact;
use crate::content::BlobRef;
use crate::ids::BlobId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    ToKeeper(ToKeeper),
    ToOwner(ToOwner),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToKeeper {
    /// How much would you keep for nothing? Answered by `Room`.
    Ask {
        ticket: u64,
    },
    /// Keep this file, for as long as was bought or is given: pull it from the sender or from these.
    /// Answered by `Keeping`, `Kept` or `Refused`; said again, it is kept for longer.
    Keep {
        manifest: BlobRef,
        bytes: u64,
        me: Option<Contact>,
        at: Vec<Contact>,
    },
    /// Prove that you have this chunk: its bytes hashed under `nonce`, 32 bytes. Answered by `Proof`.
    Audit {
        ticket: u64,
        file: BlobId,
        index: u32,
        nonce: Bytes,
    },
    Drop {
        file: BlobId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToOwner {
    /// Bytes, for as long as `seconds`.
    Room { ticket: u64, bytes: u64, seconds: u32 },
    /// So many chunks are here.
    Keeping { file: BlobId, chunks: u32 },
    /// All of it is, until then: milliseconds since 1970.
    Kept { file: BlobId, until_ms: u64 },
    /// It is not kept, or not any more.
    Refused { file: BlobId, why: String },
    /// 32 bytes; none if it is not here.
    Proof { ticket: u64, proof: Option<Bytes> },
    /// Files that are kept for the addressee, so that it can say which are over.
    Holding { files: Vec<BlobId> },
}
