//! Messages between guests, relays and those who speak to guests.

use crate::address::Contact;
use crate::circle::Point;
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::money::Micro;
use crate::requires::Stated;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Longest frame that is forwarded, bytes. Our choice: four times the longest that a seller says or is told.
pub const LONGEST: usize = 8 << 10;

/// Owners for whom slots of one guest are busy. Our choice: more than a page or a server has slots.
pub const OWNERS: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    ToRelay(ToRelay),
    ToGuest(ToGuest),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRelay {
    /// Give this frame, of at most [`LONGEST`] bytes, to a guest of yours; or, from a guest, to a node that
    /// was looked up for it or has spoken to it. Arrives as `Forwarded`.
    Forward { to: NodeId, frame: Bytes },
    /// From a guest: look up the owner of this point on the ring of nodes. Answered by `Owner`.
    Locate { number: u64, key: Point },
    /// From a guest: read the balance of my account. The bank is shown this leave
    /// ([`crate::ledger::may_read`]). Answered by `Balance` if the bank answers.
    Balance(Signed),
    /// From a guest, to each gateway that offers to be its relay: whether you are, and what the guest can do, if it runs
    /// jobs with requirements. The relay counts the guest's slots in its branch of the tree and looks for such jobs for
    /// it, and no other gateway does.
    Chosen { relay: bool, stated: Option<Stated> },
    /// From a guest that runs jobs with requirements, to its relay: its slots, at most [`SLOTS_MAX`](crate::requires::SLOTS_MAX), and how many are busy for
    /// whom; of at most [`OWNERS`] owners.
    Load { slots: u32, busy: Vec<(NodeId, u32)> },
}

/// To a guest, or to whoever has to do with guests of the sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest {
    /// The sender is your relay: others reach you through it, and it is there.
    Relay(Contact),
    /// This node, which is a guest of one of us two, said this.
    Forwarded {
        from: NodeId,
        frame: Bytes,
    },
    /// There is no such guest here.
    Gone(NodeId),
    Owner {
        number: u64,
        owner: Option<Contact>,
    },
    Balance(Micro),
    /// From the relay: connect to this gateway, too, so that you have it when I am gone.
    Second(Contact),
}
