//! Messages of a random walk.

use crate::address::Contact;
use crate::finding::Needs;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Walk(Walk),
    /// To the origin: so many slots of the sender are kept for it.
    Here {
        id: u64,
        at: Contact,
        slots: u32,
        hops: u8,
    },
    /// To the origin: the walk has ended.
    Over {
        id: u64,
    },
}

/// A request on its way from node to node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// Drawn by the origin.
    pub id: u64,
    pub origin: Contact,
    /// Slots that are still looked for.
    pub tasks: u32,
    pub needs: Needs,
    pub hops: u8,
}
