use crate::ids::BlobId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Messages between two stores, on the blob channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The chaining values of the chunks, please; only for blobs of more than one.
    GetTree {
        id: BlobId,
    },
    Get {
        id: BlobId,
        index: u32,
    },
    /// 32 bytes a chunk.
    Tree {
        id: BlobId,
        values: Bytes,
    },
    Chunk {
        id: BlobId,
        index: u32,
        bytes: Bytes,
    },
    /// It is not here.
    Missing {
        id: BlobId,
    },
    /// More is asked for than this node queues for one peer. Ask again in a while.
    Busy {
        id: BlobId,
    },
}
