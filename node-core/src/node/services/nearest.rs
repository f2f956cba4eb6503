//! The finder that asks the tree.

use crate::address::Dialable;
use crate::discovery::connected::{self, Connected};
use crate::discovery::nearest::{BranchView, Command, Event, Load, Message, Nearest};
use crate::finding::{Found, Query, Queue};
use crate::ids::NodeId;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::protocol::Input;
use crate::ticket::{ServiceId, Ticket};
use crate::time::Time;
use crate::wire::Framed;
use crate::work::runner::{self, Runner};
use std::collections::BTreeMap;
use std::time::Duration;

/// After a search for more that found nothing, the owner's next looks ask only the nodes at hand for
/// so long. Our choice: short beside a person's patience; an owner of short units looks 100 times a
/// second.
const MORE_AGAIN: Duration = Duration::from_millis(500);

/// Searches in the tree for services of this node.
#[derive(Default)]
pub(in crate::node) struct Searches {
    asked: BTreeMap<Ticket, Search>,
    /// When the swarm is searched again for more than the nodes at hand give.
    more_at: Time,
}

struct Search {
    query: Query,
    /// Reason for the submitter if nothing is found: why the nodes at hand take nothing.
    shortage: Option<String>,
}

/// Whether it is a search for more than the nodes at hand gave, whose owner was answered already.
fn is_for_more(ticket: &Ticket) -> bool {
    ticket.of == ServiceId::Nearest
}

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Nearest
    }
}

impl Service for Nearest {
    const ID: ServiceId = ServiceId::Nearest;
    const NAME: &'static str = "nearest";
    type Desk = Searches;

    fn open(config: &Config) -> Option<Self> {
        Some(Nearest::new(config.nearest.clone()))
    }

    fn noted(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(peer) | Note::Unreachable(peer) => {
                node.tell::<Self>(Command::Guest { guest: peer, load: None });
                node.give::<Self>(Input::Down(peer));
            }
            Note::Dialable { peer, dialable: Dialable::No } => node.hosted(peer),
            Note::Dialable { peer, .. } => node.tell::<Self>(Command::Guest { guest: peer, load: None }),
            Note::Offers(nodes) => nodes.iter().for_each(|peer| node.hosted(*peer)),
            Note::Me(me) => node.tell::<Self>(Command::Me(me)),
            Note::Load { slots, busy } => {
                let load = node.load(slots, busy.to_vec());
                node.tell::<Self>(Command::Load(load));
            }
            // The units that it declined before count no longer.
            Note::Room(peer) if node.state::<Self>().is_some_and(|nearest| nearest.has_shunned(peer)) => {
                node.tell::<Self>(Command::Welcome { node: peer });
            }
            Note::Reserve { node: peer, slots } => node.tell::<Self>(Command::Reserve { node: peer, slots }),
            _ => {}
        }
    }

    fn asked(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        if let host::Command::Find { number, units, needs } = command {
            let ticket = ServiceId::Driver.ticket(number);
            let query = Query { ticket, units, needs, queue: Queue::No, swarm: true, without: Vec::new() };
            node.tell::<Self>(Command::Find(query));
        }
    }

    fn told(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Reserved { for_owner, slots, until, hops } => {
                host.event(NodeEvent::Reserved { owner: for_owner.id, slots, hops });
                node.tell::<Runner>(runner::Command::Reserved { owner: for_owner.id, slots, until });
            }
            Event::Released { owner, slots } => {
                node.tell::<Runner>(runner::Command::Released { owner, slots });
            }
            Event::Found(found) if found.ticket.of == ServiceId::Driver => {
                node.answer(found.ticket, Reply::Found(found), host);
            }
            Event::Found(found) => node.found(found, host),
            Event::Changed => host.event(NodeEvent::NodesChanged),
        }
    }
}

impl Node {
    /// Free slots here and in the branches that this node knows; none of a page.
    pub fn branch(&self) -> Option<BranchView> {
        self.state::<Nearest>().map(Nearest::view)
    }

    fn load(&self, slots: u32, busy: Vec<(NodeId, u32)>) -> Load {
        let config = &self.config;
        Load {
            slots,
            busy,
            power: config.power,
            memory_bytes: config.memory_bytes,
            platform: config.platform,
        }
    }

    /// Counts the slots of a guest in this host's branch.
    fn hosted(&mut self, node: NodeId) {
        let Some(hello) = self.peers().get(node) else { return };
        if hello.dialable != Dialable::No || node == self.me {
            return;
        }
        let platform = hello.platform;
        let offer = self.state::<Connected>().and_then(|finder| finder.offer_of(node));
        let load = offer.map(|offer| Load {
            slots: offer.slots,
            busy: vec![(self.me, offer.slots.saturating_sub(offer.free))],
            power: self.config.power,
            memory_bytes: offer.memory_bytes,
            platform,
        });
        self.tell::<Nearest>(Command::Guest { guest: node, load });
    }

    /// Gives who asked the places at nodes at hand at once. The swarm is asked for who got nothing, or for
    /// more.
    pub(super) fn answer_or_search(&mut self, found: Found, missing: Option<Query>, host: &mut dyn Host) {
        match missing {
            Some(query) if found.places.is_empty() => self.search(query, found.shortage),
            Some(query) => {
                let now = self.now;
                let may = |it: &Searches| now >= it.more_at && !it.asked.keys().any(is_for_more);
                if self.desk::<Nearest>().is_some_and(may) {
                    let ticket = ServiceId::Nearest.ticket(query.ticket.number);
                    self.search(Query { ticket, ..query }, None);
                }
                self.answer(found.ticket, Reply::Found(found), host);
            }
            None => self.answer(found.ticket, Reply::Found(found), host),
        }
    }

    fn search(&mut self, query: Query, shortage: Option<String>) {
        if let Some(searches) = self.desk_mut::<Nearest>() {
            searches.asked.insert(query.ticket, Search { query: query.clone(), shortage });
            self.tell::<Nearest>(Command::Find(query));
        }
    }

    /// Dials the nodes that were found, and offers them to who asked as soon as they are connected.
    fn found(&mut self, found: Found, host: &mut dyn Host) {
        let now = self.now;
        let Some(searches) = self.desk_mut::<Nearest>() else { return };
        let Some(Search { query, shortage }) = searches.asked.remove(&found.ticket) else { return };
        let for_more = is_for_more(&found.ticket);
        if for_more {
            let pause = if found.places.is_empty() { MORE_AGAIN } else { Duration::ZERO };
            searches.more_at = now + pause;
        } else if found.places.is_empty() && query.queue == Queue::No {
            // No slot is free anywhere that is known.
            let query = Query { queue: Queue::One, swarm: false, ..query };
            return self.tell::<Connected>(connected::Command::Find(query));
        }
        let shortage = shortage.filter(|_| found.places.is_empty());
        for place in &found.places {
            if let Some(contact) = place.contact.filter(|contact| contact.id == place.node) {
                self.reach(contact, true, host);
            }
            let promise = connected::Promise { slots: place.units, memory_bytes: query.needs.memory_bytes };
            let here = self.peers().knows(place.node);
            self.tell::<Connected>(connected::Command::Promised { node: place.node, promise, here });
        }
        if !for_more {
            // The places become offers; who asked is told why there are not more.
            let found = Found { places: Vec::new(), shortage, ..found };
            self.answer(found.ticket, Reply::Found(found), host);
        }
    }
}
