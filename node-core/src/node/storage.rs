//! What a node asks of its storage, and what that answers.

use super::host::Token;
use crate::ids::BlobId;
use bytes::Bytes;

/// The durable tables of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Job id → the owner's record of the job.
    Jobs,
    /// Job id, big-endian unit index → [`crate::work::spec::UnitResult`], MessagePack.
    Results,
    /// Job id, big-endian unit index → where the unit stands, as its owner knows.
    Checkpoints,
    /// The same key → where the unit stood here, as its runner knows ([`crate::work::runner::left`]).
    Left,
    /// The same key → on which terms its owner has bought a place for it.
    Deals,
    /// The bank's books ([`crate::ledger`]).
    Ledger,
    /// Node id, big-endian number → a line of the node's statement.
    Statements,
    /// Content id → the owner's record of the file ([`crate::files::owner`]).
    Files,
    /// Owner's node id, content id → what is kept for it ([`crate::files::keeper`]).
    Kept,
    /// What this node owns for other gateways ([`crate::work::owner::wards`]).
    Wards,
}

/// One change; `None` removes the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub table: Table,
    pub key: Vec<u8>,
    pub value: Option<Bytes>,
}

#[derive(Clone, Debug)]
pub enum StorageRequest {
    /// All of these or none; answered once they are durable.
    Commit {
        token: Token,
        writes: Vec<Write>,
    },
    /// Up to `limit` entries of `table` with keys above `after`, in key order.
    Scan {
        token: Token,
        table: Table,
        after: Option<Vec<u8>>,
        limit: u32,
    },
    /// Keep a whole blob.
    PutBlob {
        token: Token,
        id: BlobId,
        bytes: Bytes,
    },
    /// Part of a blob that arrives in pieces. The pieces come in order from offset 0, and
    /// `last` ends it: only then is it there for readers. Answered piece by piece.
    AppendBlob {
        token: Token,
        id: BlobId,
        offset: u64,
        bytes: Bytes,
        last: bool,
    },
    ReadBlob {
        token: Token,
        id: BlobId,
        offset: u64,
        len: u32,
    },
    /// Forget it. Not answered.
    DropBlob {
        id: BlobId,
    },
}

#[derive(Clone, Debug)]
pub enum StorageReply {
    /// To Commit, PutBlob and AppendBlob.
    Done { token: Token },
    /// To Scan; fewer than `limit` entries mean the end.
    Entries { token: Token, entries: Vec<(Vec<u8>, Bytes)> },
    /// To ReadBlob.
    Blob { token: Token, bytes: Bytes },
    /// Nothing was changed; `error` is for people.
    Failed { token: Token, error: String },
}
