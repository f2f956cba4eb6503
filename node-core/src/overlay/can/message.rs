//! Messages of the CAN.

use super::find::Finding;
use super::push::Placing;
use super::sketch::Sketch;
use super::zone::{Coords, RESOURCES, Zone};
use crate::address::Contact;
use crate::capability::{Candidate, Capability};
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};

/// Zones of a node: its own, and those it holds for others. Our choice: a node that has outlived 15 neighbours within a
/// minute leaves further zones to others.
pub const ZONES_MAX: usize = 16;

/// Nodes that a node names as those which take its zones over.
pub(super) const TAKERS: usize = 3;

/// Records in one message. Our choice: twice the mean number of neighbours with nodes of all kinds.
pub(super) const RECORDS_MAX: usize = 48;

/// Messages that a walk is handed on by. Our choice: several times the longest route among 1,000 nodes without fingers.
pub const HOPS_MAX: u16 = 256;

/// Space that a zone is part of. Two spaces that were created apart differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpaceId {
    /// Drawn by the creator, so that a space which it creates later is another one.
    pub drawn: u64,
    pub creator: NodeId,
}

/// A node of the space, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub contact: Contact,
    /// Drawn when it joined: versions of another life do not compare.
    pub life: u64,
    /// Greater after each change of the record.
    pub version: u64,
    /// `None`: it runs nothing, and stands where the least capable stand.
    pub capability: Option<Capability>,
    /// Draws its virtual coordinate.
    pub salt: u8,
    /// Its own zone, which its point is in, then those that it holds for others.
    pub zones: Vec<Zone>,
    /// Neighbours that take its zones over when it is silent, in this order.
    pub takers: Vec<NodeId>,
}

impl Record {
    pub fn coords(&self) -> Coords {
        Coords::of_node(self.contact.id, &self.capability.unwrap_or_default(), self.salt)
    }

    /// Whether a correct node could have said it.
    pub fn is_valid(&self) -> bool {
        let zones = &self.zones;
        let apart = |at: usize| zones[..at].iter().all(|one| one.overlap(&zones[at]).is_none());
        zones.len() <= ZONES_MAX
            && zones.iter().all(Zone::is_valid)
            && zones.first().is_some_and(|own| own.contains(self.coords()))
            && (1..zones.len()).all(apart)
            && self.takers.len() <= TAKERS
    }

    pub fn abuts(&self, zones: &[Zone]) -> bool {
        self.zones.iter().any(|one| zones.iter().any(|other| one.abuts(other)))
    }

    pub fn overlaps(&self, zones: &[Zone]) -> bool {
        self.zones.iter().any(|one| zones.iter().any(|other| one.overlap(other).is_some()))
    }

    /// How far the nearest of its zones is from this point.
    pub fn distance(&self, to: Coords) -> u64 {
        self.zones.iter().map(|zone| zone.distance(to)).min().unwrap_or(u64::MAX)
    }
}

/// Nodes and their jobs, in 2^-16: a zone is shared out to several below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    pub nodes: u64,
    pub waiting: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The sender's zones, and other nodes of which the receiver may not know; `asks` for the same of the receiver.
    Zones {
        space: SpaceId,
        record: Box<Record>,
        others: Vec<Record>,
        asks: bool,
    },
    /// Heartbeat to a neighbour.
    Beat(Beat),
    /// The sender leaves the space; these are its neighbours.
    Leave {
        space: SpaceId,
        record: Box<Record>,
        others: Vec<Record>,
    },
    /// The receiver is to grow over this zone, which the sender held for somebody else.
    Give {
        space: SpaceId,
        zone: Zone,
        others: Vec<Record>,
    },
    /// The sender does not take a zone that it was given.
    Return {
        space: SpaceId,
        zone: Zone,
    },
    /// An older claim to zones of the receiver.
    Disputed {
        space: SpaceId,
        record: Box<Record>,
    },
    /// To a node that joins: its zone, and the nodes around it.
    Welcome {
        id: u64,
        space: SpaceId,
        zone: Zone,
        others: Vec<Record>,
    },
    /// To a node that joins: another one has its very point.
    Occupied {
        id: u64,
    },
    /// The sender is in no space: ask another node.
    Outside {
        id: u64,
    },
    /// A walk on its way.
    Walk(Box<Walk>),
    /// To the origin of a walk, which is over.
    Over(Box<Over>),
    /// Asks for the finger of this level.
    AskFinger {
        up: bool,
        level: u8,
    },
    Finger {
        up: bool,
        level: u8,
        at: Option<(Contact, Zone)>,
    },
    /// Capabilities of a sample of all nodes.
    Sketch {
        space: SpaceId,
        sketch: Sketch,
    },
    /// The sender has nothing to do and would run a job that waits at the receiver.
    Steal {
        contact: Contact,
        capability: Capability,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    pub space: SpaceId,
    pub life: u64,
    pub version: u64,
    /// Jobs that wait at the sender or run there.
    pub waiting: u32,
    /// The sender and all nodes that have more of each resource.
    pub upward: [Load; RESOURCES],
}

/// A question on its way to the owner of a point, and perhaps further.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// Drawn by the origin.
    pub id: u64,
    pub origin: Contact,
    /// `None`: the first node of a space that it comes to says which.
    pub space: Option<SpaceId>,
    pub to: Coords,
    pub hops: u16,
    /// The owner of the point was found.
    pub arrived: bool,
    pub errand: Errand,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Errand {
    /// The origin joins.
    Join {
        capability: Option<Capability>,
        salt: u8,
    },
    /// The owner of the point tells the origin that it is.
    Locate,
    /// The owner of the point and the origin tell each other their zones. Nothing is believed that comes by way of others.
    Meet,
    Find(Finding),
    Place(Placing),
}

/// Outcome of a walk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    pub id: u64,
    /// Messages to the owner of the point.
    pub hops: u16,
    /// Nodes that looked for candidates.
    pub visited: u16,
    pub found: Vec<Candidate>,
    /// Owner of the point, if it was asked for.
    pub owner: Option<NodeId>,
}

impl Walk {
    /// Whether a correct node could have sent it.
    pub fn is_valid(&self) -> bool {
        let errand = match &self.errand {
            Errand::Join { capability, salt } => {
                self.to == Coords::of_node(self.origin.id, &capability.unwrap_or_default(), *salt)
            }
            Errand::Locate | Errand::Meet => true,
            Errand::Find(finding) => finding.is_valid(),
            Errand::Place(placing) => placing.is_valid(),
        };
        errand && Zone::WHOLE.contains(self.to)
    }
}
