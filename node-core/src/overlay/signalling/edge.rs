//! Commands and events of signalling, and what it asks of the driver.

use super::OPEN;
use super::message::{Candidate, Description, Message, Over, SessionId};
use crate::address::{Address, Contact, Sender};
use crate::ids::NodeId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Offers,
    Answers,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Open a channel to this node, unless it is connected. Ends with a connection, by the channel or by another way,
    /// or with [`Event::NotOpened`].
    Connect(Address),
    Reply(Reply),
    /// The donor's word on direct connections with strangers.
    Refuse(bool),
    /// A message that another node has forwarded.
    Forwarded(Sender, Message),
    /// The node `by` says that `peer` is not a guest of its.
    Gone {
        peer: NodeId,
        by: NodeId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Request(Request),
    /// The channel that this node wanted is not open yet. It still may be; another way may be tried meanwhile.
    Slow {
        peer: NodeId,
        relay: Option<Contact>,
    },
    /// There is no channel to a node that this one wanted to connect to; `relay`: the node by way of which it was
    /// spoken of.
    NotOpened {
        peer: NodeId,
        relay: Option<Contact>,
        why: NotOpened,
    },
}

/// Wishes for this node's end of a data channel, to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Make an end for a channel with this peer, and describe it. `mirror`: a node whose UDP port tells who asks where
    /// it is seen (STUN).
    Open { session: SessionId, peer: NodeId, role: Role, mirror: Option<Contact> },
    /// The peer's end.
    Remote(SessionId, Description),
    /// Addresses to try. None that must not be.
    Try(SessionId, Vec<Candidate>),
    /// Forget this end: no channel will open.
    Close(SessionId),
}

/// Word of the driver on an end that it was asked for, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// How the end is recognised. Once a session.
    Described(SessionId, Description),
    /// Addresses of the end, as they are found.
    Found(SessionId, Vec<Candidate>),
    /// The channel is open; its connection follows.
    Opened(SessionId),
    /// The driver cannot open it, and has forgotten the end.
    Failed(SessionId),
}

/// Why there is no channel; the words follow "the node has no data channel to the peer:".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    #[error("this node's donor lets it connect to no strangers")]
    Unwanted,
    #[error("as many channels are being opened as may be; it is tried later")]
    Busy,
    #[error("an attempt failed a moment ago; it is tried later")]
    Early,
    #[error("the peer does not answer")]
    Unanswered,
    #[error("none of the two reaches the other directly within {} s", OPEN.as_secs())]
    Unreached,
    #[error("the node at its other end is not the peer, or did not prove it")]
    Unproven,
    #[error("nobody forwards to the peer any more")]
    Gone,
    #[error("this program has no data channels")]
    NoDriver,
    #[error("this node could not make its end of the channel")]
    Driver,
    #[error("the peer says that {0}")]
    Refused(Over),
}
