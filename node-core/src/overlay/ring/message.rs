//! Messages between members of a ring, and commands and events between ring and node.

use crate::address::Contact;
use crate::circle::Located;
use crate::circle::Peer;
use crate::circle::{MemberId, Point, Range, RingId};
use crate::ids::NodeId;
use crate::ticket::Ticket;
use serde::{Deserialize, Serialize};

impl Peer {
    pub fn id(&self) -> NodeId {
        self.contact.id
    }

    /// Whether it may stand there: on the ring of nodes points are derived.
    pub fn fits(&self, ring: RingId) -> bool {
        ring != RingId::NODES || self.point == Point::of_node(self.contact.id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// To a member: whose is the key?
    Find(Box<Find>),
    /// To who asked: not mine, these are nearer to it.
    Next(Box<Next>),
    /// To who asked, from the owner itself.
    Mine(Box<Mine>),
    /// From a member to the one that it takes for its successor.
    Beat(Box<Beat>),
    /// To who may be the next one before a member whose predecessor is gone: beat me if you live.
    Come(Box<Come>),
    /// The answer: you are my predecessor, and nothing has changed since what you have seen.
    Same { to: MemberId, from: Point },
    /// The answer, or news, from a member to who takes it for its successor.
    Around(Box<Around>),
    /// To both neighbours: this member goes.
    Leave(Box<Leave>),
    /// To who takes the sender for a member and is wrong; from a successor that has heard who
    /// leaves.
    Bye { to: MemberId, from: Point },
    /// From a node that is no member: look this up for me.
    Ask { ring: RingId, key: Point, ticket: u64 },
    /// The answer; none if it was not found, or too much is asked for at once.
    Told { ticket: u64, found: Option<Box<Located>> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Find {
    pub ring: RingId,
    /// Which of the addressee's members; without it, the one nearest before the key.
    pub to: Option<Point>,
    pub key: Point,
    /// The answer carries it back.
    pub ticket: u64,
    /// The addressee is thought to be the owner.
    pub after: bool,
    /// The key is the point where the sender wants to stand.
    pub joins: bool,
    /// Node that asks, if the request is to be passed on until the owner has it.
    pub pass: Option<Contact>,
    /// How often this lookup was sent so far, this time included.
    pub hops: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    pub ticket: u64,
    /// Point of the member that answers.
    pub from: Point,
    /// At most [`NEXT_MAX`], the best first; none if the sender cannot say.
    pub peers: Vec<Peer>,
    /// As in the request.
    pub hops: u8,
}

/// How many a member names of those who know better. Our choice: two that may own the key and
/// two before it, since some of them may just have died.
pub const NEXT_MAX: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mine {
    pub ticket: u64,
    pub found: Located,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    pub to: MemberId,
    pub from: Peer,
    /// A digest of the addressee's last [`Around`]; 0 for none.
    pub seen: u64,
    /// The sender's predecessor list: members that may own keys behind its range, the nearest first, at most
    /// r. `None` if the addressee has acknowledged this list already.
    pub line: Option<Vec<Peer>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Come {
    pub to: MemberId,
    pub from: Peer,
    /// Point of the member behind the addressee, dead or not, as far as `from` knows.
    pub next: Point,
    /// The addressee's predecessor passed it on: it knows somebody nearer to `next`.
    pub passed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Around {
    pub to: MemberId,
    /// The sender as it is reached now: others pass on what it says of itself, so that who has moved is not
    /// looked for where it was.
    pub from: Peer,
    /// Its predecessor, unless that one is thought dead.
    pub before: Option<Peer>,
    /// Its successors, in order, at most r.
    pub list: Vec<Peer>,
    /// To who knows nobody: who may own what lies behind the addressee, as in a [`Beat`].
    pub line: Vec<Peer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    pub to: MemberId,
    pub from: Point,
    /// Its successors.
    pub list: Vec<Peer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Tell the successor of this member, or ask it again.
    Beat(MemberId),
    /// Tell the predecessor of this member what has changed around it.
    News(MemberId),
    /// Look again for the place of this member.
    Seek(MemberId),
    /// Look at the next finger of this member.
    Fix(MemberId),
    /// A step of this lookup is late, or its rest is over.
    Lookup(u64),
    /// Look whether this member is where anchors see it.
    Sight(MemberId),
}

/// How a lookup goes from member to member (paper `chord`, section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The asker speaks to each: two messages a hop, and it sees who fails.
    Iterative,
    /// Each passes it on to the next, and the owner answers the asker: one message a hop. What is
    /// lost on the way is looked up iteratively.
    Recursive,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take part at this point, as `me`, by way of peers that are connected and may be members.
    /// Without any, and without a member here, this one is the ring.
    Join { member: MemberId, me: Contact, via: Vec<NodeId> },
    /// Hand over and go; ends with [`Event::Left`].
    Leave(MemberId),
    /// Look up the key's owner. Ends with [`Event::Found`] or [`Event::Failed`] of this ticket.
    Lookup { ticket: Ticket, ring: RingId, key: Point, mode: Mode },
    /// Peers that are connected and may be members: for lookups of who is none, and for members
    /// that have lost all others. A member that is a ring by itself looks for theirs. If they are
    /// `anchors`, theirs is the ring, and a member on another one joins it.
    Know { ring: RingId, via: Vec<NodeId>, anchors: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The member has its place; what it owns is told apart.
    Joined(MemberId),
    /// The member does not get a place and is no more.
    Refused {
        member: MemberId,
        why: Refusal,
    },
    /// The member owns this arc from now on. Whoever gave it has its records; if nobody did, its
    /// owner is dead or unreachable and the replicas here are the records.
    Gained {
        member: MemberId,
        range: Range,
        from: Option<Contact>,
    },
    /// The member does not own this arc any more. Its records go to who took it; if that is not
    /// known, they wait for who asks.
    Lost {
        member: MemberId,
        range: Range,
        to: Option<Contact>,
    },
    /// The member's successors, told whole at every change: they keep replicas of what it owns.
    Successors {
        member: MemberId,
        list: Vec<Peer>,
    },
    Found {
        ticket: Ticket,
        found: Located,
    },
    Failed {
        ticket: Ticket,
        why: Failure,
    },
    Left(MemberId),
}

/// Why a member gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// This node, or this one of its members, stands there already.
    #[error("{0:?} stands there already")]
    Taken(Contact),
    /// Points on the ring of nodes are derived from their ids.
    #[error("it is not where its id belongs")]
    NotItsPoint,
    /// As many members as the configuration allows.
    #[error("it has as many members as it may have")]
    Full,
}

/// Why a lookup fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// As many are under way as the configuration allows.
    #[error("too many lookups are under way; try again in a moment")]
    Busy,
    /// Nobody said within the deadline that the key is its own.
    #[error("nobody answered for it in time; try again")]
    Late,
    /// No member is known.
    #[error("no member of a ring is known")]
    Nobody,
}
