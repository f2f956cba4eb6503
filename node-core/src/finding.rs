//! The question that every finder answers, what it finds, and what a node has to offer.

use crate::address::{Address, Contact};
use crate::contract::{Sale, Space, Term};
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::money::Micro;
use crate::platform::Platform;
use crate::ticket::Ticket;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// *n* units' worth of slots that satisfy these needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Ticket of the service that asks; the answer carries it back.
    pub ticket: Ticket,
    pub units: u32,
    pub needs: Needs,
    pub queue: Queue,
    /// Whether the whole swarm is asked if the nodes at hand have too few places.
    pub swarm: bool,
    /// Nodes whose slots are of no use to the asker.
    pub without: BTreeSet<NodeId>,
}

/// Whether units may be placed behind others that run at the same node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// Only where a slot is free: nobody knows how long these units take.
    #[default]
    No,
    /// One behind each slot: no slot is free anywhere that is known.
    One,
    /// As many as a node gives credit for: these units are short.
    Yes,
}

/// Requirements of a unit on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    pub memory_bytes: u64,
    /// The kind of engine; none: any will do.
    pub platform: Option<Platform>,
    /// Least speed, in the unit of a node's own power; 0: any.
    pub power: u32,
}

/// The answer: fewer than asked for is a normal answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub ticket: Ticket,
    pub places: Vec<Place>,
    /// Why units stay without a place, for the submitter.
    pub shortage: Option<String>,
}

/// A node that will take this many units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub node: Address,
    pub units: u32,
}

/// Places that are to be bought, one for each of these units of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Purchase {
    pub sales: Vec<Sale>,
    pub memory_bytes: u64,
    /// Least speed, fuel a second.
    pub min_speed: u64,
    /// Most fuel that each unit may use.
    pub fuel: u64,
    /// Most that each unit may cost, all payment legs together.
    pub most: Micro,
    /// Bytes that the checkpoints of each need at most, and how often it is to have one; none: it has none.
    pub checkpoints: Option<(u64, Duration)>,
}

/// Outcome of one sale of a [`Purchase`].
#[derive(Clone, Debug, PartialEq)]
pub struct Bought {
    pub sale: Sale,
    pub place: Result<PurchasedSlot, Missed>,
}

/// Why nothing was bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// For the submitter.
    pub why: String,
    /// A market has named a seller, and names it to nobody else for a while.
    pub named: bool,
    /// The bank holds credit for the sale, which is to be returned.
    pub held: bool,
}

/// A place that was bought, for which the bank holds what it may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct PurchasedSlot {
    pub seller: Address,
    pub term: Term,
    pub fuel: u64,
    pub held: Micro,
    /// The bank's word for it, for the seller.
    pub receipt: Option<Signed>,
    /// Space for its checkpoints, if the hold has a second term for that.
    pub storage: Option<Box<StorageLease>>,
}

/// Space for a unit's checkpoints, and who has sold it, if anybody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageLease {
    pub space: Space,
    pub at: Option<Contact>,
}

/// Slots of a node, and how much of them the addressee may use: credit, as in flow control.
///
/// Both counters begin at 0 with the connection, so an offer that crosses a grant on the wire is
/// not taken for new credit, and two finders that hear of the same slot do not count it twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub slots: u32,
    /// Slots without work.
    pub free: u32,
    /// Units that the addressee may place there in all. The newest value counts; what was placed
    /// within an earlier, larger one is taken all the same.
    pub credit: u64,
    /// Units that the sender has received from the addressee.
    pub received: u64,
    /// Memory that one unit may have, bytes.
    pub memory_bytes: u64,
}
