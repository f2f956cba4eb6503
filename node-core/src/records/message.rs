//! Messages between nodes about records.

use crate::circle::Range;
use crate::keys::Signed;
use crate::record::{Key, Refused};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// From a publisher. Answered by `Done`.
    Put {
        ticket: u64,
        signed: Box<Signed>,
    },
    Done {
        ticket: u64,
        refused: Option<Refused>,
    },
    /// Answered by `Have`.
    Get {
        ticket: u64,
        key: Key,
    },
    /// All that is known under the key; nothing if the sender cannot say.
    Have {
        ticket: u64,
        found: Option<Vec<Signed>>,
    },
    /// From who owns the keys to who keeps copies, to the next owner, or to who has asked for them.
    /// They count by what the ring says of the sender.
    Copies(Vec<Copied>),
    /// From the owner of an arc to who keeps copies: how many records there are, and a digest.
    Compare {
        range: Range,
        count: u32,
        digest: u64,
    },
    /// All that you have of this arc.
    Pull(Range),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    pub signed: Signed,
    /// When the key's first owner took it, milliseconds since 1970, by the sender's word: counts only
    /// when a key is handed over.
    pub since_ms: u64,
}

/// Records in one message of copies. Our choice: a third of what a message may be.
pub const COPIES: usize = 256;
