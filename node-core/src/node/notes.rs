//! Notes and replies: plain data by which services hear of each other without knowing each other.

use super::Node;
use super::host::{Host, NodeEvent};
use super::table::Service;
use crate::address::{Contact, Dialable, Ip};
use crate::capability::Candidate;
use crate::circle::Located;
use crate::content::NotFetched;
use crate::contract::Outcome;
use crate::engine::NotRunnable;
use crate::finding::Found;
use crate::goods::{Kind, NoDeal, Offer};
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::overlay::ring;
use crate::overlay::swarm::Swarm;
use crate::protocol::Input;
use crate::record::Refused;
use crate::replicas::Keys;
use crate::ticket::{ServiceId, Ticket};

/// News for all services, or for one ([`Node::note_to`]); each says in its file which concern it. They hear it
/// in the order of the list.
#[derive(Clone, Copy)]
pub(super) enum Note<'a> {
    /// A peer is connected and has introduced itself.
    Up(Up),
    /// A peer says whether it can be dialled.
    Dialable { peer: NodeId, dialable: Dialable },
    /// A connection has ended; the peer may come back.
    Down(NodeId),
    /// Nothing was heard of a peer for some seconds.
    Quiet(NodeId),
    /// A peer cannot be reached where it was said to be.
    Unreachable(NodeId),
    /// The driver's wall clock, milliseconds since 1970.
    Clock(u64),
    /// Others dial this node there.
    Me(Contact),
    /// Nobody dials this node any more.
    Guest,
    /// The relay of this node, which nobody dials; `None`: there is none, or none any more.
    Relay(Option<Contact>),
    /// Whether others can dial this node may have changed.
    Standing,
    /// This is the swarm's bank.
    Bank(NodeId),
    /// A peer has told settings of the swarm: all that are known now.
    Learnt(&'a Swarm),
    /// Something changed about a place of this node on a ring.
    Ring(&'a ring::Event),
    /// The keys that this node owns on the ring of nodes have changed, or who is behind it.
    Keys(&'a Keys),
    /// Slots of this node, how many are busy for whom, and how many are kept for a scarce job.
    Load { slots: u32, busy: &'a [(NodeId, u32)], room: u32 },
    /// The capability of this node has changed.
    Able,
    /// These peers have changed what they offer.
    Offers(&'a [NodeId]),
    /// A peer gives this node more credit.
    Room(NodeId),
    /// An owner has found slots of a peer, and wants them reserved.
    Reserve { node: NodeId, slots: u32 },
    /// Content came from there.
    Came(NodeId),
    /// Result of a probe that dial-back asked for.
    Probed { number: u64, reached: bool },
    /// Goods of this node were sold.
    Sold { kind: Kind, buyer: NodeId, capacity: u64 },
    /// The process will end.
    Drain,
}

/// A peer that has introduced itself.
#[derive(Clone, Copy)]
pub(super) struct Up {
    pub(super) peer: NodeId,
    pub(super) gateway: bool,
    /// This node was told to connect to it.
    pub(super) joined: bool,
    /// Where the peer is seen by this node, and this node by the peer.
    pub(super) ip: Option<Ip>,
    pub(super) seen: Option<Ip>,
    pub(super) dialable: Dialable,
}

/// Answers to the questions of services and of the driver.
pub(super) enum Reply {
    Located(Result<Located, ring::Failure>),
    /// The owner of a point on the ring of nodes, as this node's relay has looked it up.
    Owner(Option<Contact>),
    Fetched(Result<(), NotFetched>),
    Found(Found),
    Ordered {
        outcome: Outcome,
        receipt: Option<Signed>,
    },
    Capable {
        found: Vec<Candidate>,
        visited: u16,
    },
    Quoted {
        offers: Vec<Offer>,
        shortage: Option<NoDeal>,
        hops: u16,
    },
    Taken(bool),
    Published(Option<Refused>),
    /// Whether a node could run a program.
    Inspected(Result<(), NotRunnable>),
}

impl Node {
    /// Tells all services.
    pub(super) fn note(&mut self, note: Note<'_>, host: &mut dyn Host) {
        self.each_service(|node, row| (row.on_note)(node, &note, host));
    }

    /// Passes on that a connection has ended, or that there will be none.
    pub(super) fn ended<S: Service>(&mut self, note: &Note<'_>) {
        match *note {
            Note::Down(peer) => self.give::<S>(Input::Down(peer)),
            Note::Unreachable(peer) => self.give::<S>(Input::Unreachable(peer)),
            _ => {}
        }
    }

    /// Tells one service.
    pub(super) fn note_to(&mut self, to: ServiceId, note: Note<'_>, host: &mut dyn Host) {
        if let Some(row) = self.table.row(to) {
            (row.on_note)(self, &note, host);
        }
    }

    /// Brings an answer to who asked.
    pub(super) fn answer(&mut self, ticket: Ticket, reply: Reply, host: &mut dyn Host) {
        let Ticket { of, number } = ticket;
        match of {
            ServiceId::Driver => host.event(for_driver(number, reply)),
            of => {
                if let Some(row) = self.table.row(of) {
                    (row.on_reply)(self, number, reply, host);
                }
            }
        }
    }
}

fn for_driver(number: u64, reply: Reply) -> NodeEvent {
    match reply {
        Reply::Located(found) => NodeEvent::Located { number, found },
        Reply::Capable { found, visited } => NodeEvent::Capable { number, found, visited },
        Reply::Fetched(result) => NodeEvent::Brought { number, result },
        Reply::Found(Found { places, shortage, .. }) => NodeEvent::Found { number, places, shortage },
        Reply::Ordered { outcome, .. } => NodeEvent::Ordered { number, outcome },
        Reply::Quoted { offers, shortage, hops } => NodeEvent::Quoted { number, offers, shortage, hops },
        Reply::Taken(taken) => NodeEvent::Bought { number, taken },
        Reply::Published(refused) => NodeEvent::Published { number, refused },
        // The driver inspects programs itself, and asks no relay.
        Reply::Inspected(_) | Reply::Owner(_) => {
            NodeEvent::Trouble { what: "an answer came that nobody asked for".into() }
        }
    }
}
