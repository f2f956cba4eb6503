//! The tree and the finder on it, among the other machines.

use super::Node;
use super::host::{Host, NodeEvent};
use super::route::Step;
use crate::discovery::nearest::{self, Load};
use crate::discovery::{Found, Offer, Query, connected};
use crate::ids::NodeId;
use crate::overlay::contact::{Contact, Ip};
use crate::overlay::{neighbours, tree};
use crate::protocol::Input;
use crate::work::{owner, runner};

/// Queries of programs beside the node rather than of its owner.
const OF_COMMAND: u64 = 1 << 63;
/// A search for more than the nodes at hand gave; the owner was answered already.
const FOR_MORE: u64 = 1 << 62;

/// A search under way.
pub(super) struct Search {
    /// What each unit needs, bytes.
    memory_bytes: u64,
    /// What the submitter is told if nothing is found: why the nodes at hand take nothing.
    shortage: Option<String>,
}

impl Node {
    /// A peer has introduced itself; `seen` is where it sees this node.
    pub(super) fn met(&mut self, peer: NodeId, gateway: bool, seen: Option<Ip>) {
        self.steps.push_back(Step::Tree(Input::Up(peer)));
        self.steps.push_back(Step::Nearest(Input::Up(peer)));
        if let (None, Some(ip), Some(port)) = (self.contact, seen, self.config.port) {
            let me = Contact { ip, id: self.me, port };
            self.contact = Some(me);
            self.push(Step::Nearest, nearest::Command::Me(me));
            // A gateway that joined nobody is where a tree begins.
            let via = if self.config.gateway { Vec::new() } else { self.gateways() };
            self.push(Step::Tree, tree::Command::Join { me, via });
        } else if gateway && !self.config.gateway {
            let via = self.gateways();
            self.push(Step::Tree, tree::Command::Via(via));
        }
    }

    fn gateways(&self) -> Vec<NodeId> {
        self.neighbours.state().all().filter(|(_, hello, _)| hello.gateway).map(|(id, ..)| id).collect()
    }

    pub(super) fn lost(&mut self, peer: NodeId) {
        self.steps.push_back(Step::Tree(Input::Down(peer)));
        self.steps.push_back(Step::Nearest(Input::Down(peer)));
    }

    /// Connects to a peer unless that is done or under way.
    fn reach(&mut self, contact: Contact, spare: bool, host: &mut impl Host) {
        let peer = contact.id;
        if peer == self.me || self.dials.is_under_way(peer) || self.neighbours.state().is_connected(peer) {
            return;
        }
        if self.dials.begin(peer, spare) {
            host.dial(contact);
        } else {
            self.lost(peer);
        }
    }

    pub(super) fn of_tree(&mut self, event: tree::Event, host: &mut impl Host) {
        use tree::Event;
        match event {
            Event::Reach(contact) => {
                self.dials.needed(contact.id);
                self.push(Step::Neighbours, neighbours::Command::Spare(contact.id, false));
                self.reach(contact, false, host);
            }
            Event::Release(peer) => {
                self.push(Step::Neighbours, neighbours::Command::Spare(peer, true));
            }
            Event::Placed(placement) => {
                // Some of them were connected for another reason before.
                let around = placement.father.iter().chain(&placement.children).chain(&placement.peers);
                for contact in around {
                    self.push(Step::Neighbours, neighbours::Command::Spare(contact.id, false));
                }
                self.push(Step::Runner, runner::Command::Findable(placement.joined));
                self.push(Step::Nearest, nearest::Command::Placed(*placement));
                host.event(NodeEvent::NodesChanged);
            }
            Event::Left => {
                self.left = true;
                self.push(Step::Runner, runner::Command::Findable(false));
            }
            Event::Fault { peer, fault } => self.fault(peer, fault, host),
        }
    }

    pub(super) fn of_nearest(&mut self, event: nearest::Event, host: &mut impl Host) {
        use nearest::Event;
        match event {
            Event::Reach(contact) => self.reach(contact, true, host),
            Event::Reserved { for_owner, slots, until, .. } => {
                host.event(NodeEvent::Reserved { owner: for_owner.id, slots });
                self.push(Step::Runner, runner::Command::Reserved { owner: for_owner.id, slots, until });
            }
            Event::Found(found) if found.query & OF_COMMAND != 0 => {
                let number = found.query & !OF_COMMAND;
                host.event(NodeEvent::Found { number, places: found.places, shortage: found.shortage });
            }
            Event::Found(found) => self.found(found, host),
            Event::Fault { peer, fault } => self.fault(peer, fault, host),
            Event::Changed => host.event(NodeEvent::NodesChanged),
        }
    }

    /// Asks for slots without a job behind it.
    pub(super) fn find(&mut self, number: u64, query: Query) {
        let query = Query { id: number | OF_COMMAND, ..query };
        self.push(Step::Nearest, nearest::Command::Find(query));
    }

    /// What the nodes at hand have is an owner's at once. Only if it is not enough, the swarm is
    /// asked: for an owner that got nothing, or for more.
    pub(super) fn of_connected(&mut self, found: Found, missing: Option<Query>) {
        match missing {
            Some(query) if found.places.is_empty() => self.search(query, found.shortage),
            Some(query) => {
                let already = self.asked.keys().any(|id| id & FOR_MORE != 0);
                if !already {
                    self.search(Query { id: query.id | FOR_MORE, ..query }, None);
                }
                self.push(Step::Owner, owner::Command::Found(found));
            }
            None => self.push(Step::Owner, owner::Command::Found(found)),
        }
    }

    fn search(&mut self, query: Query, shortage: Option<String>) {
        self.asked.insert(query.id, Search { memory_bytes: query.needs.memory_bytes, shortage });
        self.push(Step::Nearest, nearest::Command::Find(query));
    }

    /// What was found is dialled, and offered to the owner as soon as it is connected.
    fn found(&mut self, found: Found, host: &mut impl Host) {
        let Some(Search { memory_bytes, shortage }) = self.asked.remove(&found.query) else { return };
        let shortage = shortage.filter(|_| found.places.is_empty());
        for place in &found.places {
            if let Some(contact) = place.contact.filter(|contact| contact.id == place.node) {
                self.reach(contact, true, host);
            }
            let offer =
                Offer { slots: place.units, free: place.units, room: place.units, received: 0, memory_bytes };
            self.push(Step::Finder, connected::Command::Promised { node: place.node, offer });
        }
        if found.query & FOR_MORE == 0 {
            // The places become offers; the owner is told why there are not more.
            self.push(Step::Owner, owner::Command::Found(Found { places: Vec::new(), shortage, ..found }));
        }
    }

    pub(super) fn of_load(&mut self, slots: u32, busy: Vec<(NodeId, u32)>) {
        let load = Load {
            slots,
            busy,
            power: self.config.power,
            memory_bytes: self.config.memory_bytes,
            platform: self.config.platform,
        };
        self.push(Step::Nearest, nearest::Command::Load(load));
    }
}
