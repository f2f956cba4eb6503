//! Requests of a node to its storage, and the replies.

use crate::ids::BlobId;
use crate::ticket::ServiceId;
use bytes::Bytes;

/// Names a pending request; the reply carries it back. To a driver it is only a number ([`Asked`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// A service's request to storage; each has one [`Token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub of: ServiceId,
    pub what: What,
    /// The service's own; below 2^48.
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Something is to be durable: a commit, or a blob.
    Commit,
    /// A blob, or some rows.
    Read,
    /// All rows of this table, part by part, at the start.
    Scan(Table),
}

impl Asked {
    const NUMBER: u64 = (1 << 48) - 1;
    const READ: u8 = 1;
    const SCAN: u8 = 2;

    /// From the highest bits: 8 for the service, 8 for what it asked, 48 for its number.
    pub fn token(self) -> Token {
        let what = match self.what {
            What::Commit => 0,
            What::Read => Asked::READ,
            What::Scan(table) => Asked::SCAN + table as u8,
        };
        Token(u64::from(self.of as u8) << 56 | u64::from(what) << 48 | self.number & Asked::NUMBER)
    }
}

impl Token {
    /// The request, or `None` if the token encodes no [`Asked`].
    pub fn asked(self) -> Option<Asked> {
        let [of, what, ..] = self.0.to_be_bytes();
        let what = match what {
            0 => What::Commit,
            Asked::READ => What::Read,
            table => What::Scan(*Table::ALL.get(usize::from(table - Asked::SCAN))?),
        };
        Some(Asked { of: ServiceId::of(of)?, what, number: self.0 & Asked::NUMBER })
    }
}

/// The durable tables of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Job id → the owner's record of the job.
    Jobs,
    /// Job id, big-endian unit index → `UnitResult`, MessagePack.
    Results,
    /// Job id, big-endian unit index → where the unit stands, as its owner knows.
    Checkpoints,
    /// Job id, big-endian unit index → where the unit stood here, as its runner knows.
    Left,
    /// Job id, big-endian unit index → the terms on which its owner has bought a place for it.
    Deals,
    /// The bank's books.
    Ledger,
    /// Node id, big-endian number → a line of the node's statement.
    Statements,
    /// Content id → the owner's record of the file.
    Files,
    /// Owner's node id, content id → what is kept for it.
    Kept,
    /// Delegated units that this node owns for other gateways; `work::delegation` has the keys.
    Delegated,
}

impl Table {
    pub const ALL: [Table; 10] = [
        Table::Jobs,
        Table::Results,
        Table::Checkpoints,
        Table::Left,
        Table::Deals,
        Table::Ledger,
        Table::Statements,
        Table::Files,
        Table::Kept,
        Table::Delegated,
    ];
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
    /// Forget the pieces of one that is not whole: the rest does not come. Not answered.
    AbandonBlob {
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
    /// To any request that has a token. Nothing was changed.
    Failed { token: Token, error: Failed },
}

/// A request that the driver's storage could not carry out, in the words of the platform, which say what to do.
/// Nothing was changed, so the same request may be made again. No machine needs to know the cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

/// Result of a storage request.
#[derive(Clone, Debug)]
pub enum Answer {
    Done,
    Entries(Vec<(Vec<u8>, Bytes)>),
    Blob(Bytes),
}

impl Answer {
    /// Rows that were asked for; none of another answer.
    pub fn entries(self) -> Vec<(Vec<u8>, Bytes)> {
        match self {
            Answer::Entries(entries) => entries,
            Answer::Done | Answer::Blob(_) => Vec::new(),
        }
    }

    /// The content that was asked for; `None` of another answer.
    pub fn blob(self) -> Option<Bytes> {
        match self {
            Answer::Blob(bytes) => Some(bytes),
            Answer::Done | Answer::Entries(_) => None,
        }
    }
}

impl StorageReply {
    /// Which request it answers, and how.
    ///
    /// # Errors
    /// [`Failed`] if the storage could not do what was asked.
    pub fn take(self) -> (Token, Result<Answer, Failed>) {
        match self {
            StorageReply::Done { token } => (token, Ok(Answer::Done)),
            StorageReply::Entries { token, entries } => (token, Ok(Answer::Entries(entries))),
            StorageReply::Blob { token, bytes } => (token, Ok(Answer::Blob(bytes))),
            StorageReply::Failed { token, error } => (token, Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_was_asked() {
        let scans = Table::ALL.into_iter().map(What::Scan);
        for (number, what) in [What::Commit, What::Read].into_iter().chain(scans).enumerate() {
            let asked = Asked { of: ServiceId::Bank, what, number: number as u64 };
            assert_eq!(asked.token().asked(), Some(asked));
        }
        assert_eq!(Token(u64::MAX).asked(), None);
        assert_eq!(Token(0xff << 48).asked(), None);
    }

    #[test]
    fn each_table_has_its_number() {
        assert!(Table::ALL.into_iter().enumerate().all(|(number, table)| table as usize == number));
    }
}
