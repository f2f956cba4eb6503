//! The simplest finder: nodes that are connected to the owner and have given it credit.
//!
//! Every node tells the owners that it works for how many units they may place there in all
//! ([`Offer::credit`]); this machine subtracts what has been placed.

use crate::address::Address;
use crate::finding::{Found, Offer, Place, Query, Queue};
use crate::ids::NodeId;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use litemap::LiteMap;
use std::collections::BTreeMap;
use std::time::Duration;

/// Promises that wait for a connection. Our choice: as many as a tree gives in one answer.
const PROMISES: usize = 16 << 10;

/// A node that has free slots and has given no credit is asked for them again after so long. Our
/// choice: it answers within a round trip if it can.
const ASK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct Connected {
    nodes: LiteMap<NodeId, Entry>,
    /// Slots that another finder has reserved at nodes that are still being dialled.
    promised: BTreeMap<NodeId, Promise>,
}

/// Slots that another finder has reserved at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    pub slots: u32,
    /// Memory that one unit may have there at least, bytes.
    pub memory_bytes: u64,
}

#[derive(Debug, Default)]
struct Entry {
    offer: Option<Offer>,
    /// The offer is the node's own, and no promise of another finder's.
    own: bool,
    /// Units placed there since it was connected.
    placed: u64,
    /// When it was asked for slots, if it has not spoken since.
    asked: Option<Time>,
}

impl Entry {
    /// Its offer as it stands after what is still on the way.
    fn now(&self) -> Option<Offer> {
        self.offer.map(|offer| {
            let on_the_way = u32::try_from(self.placed.saturating_sub(offer.received)).unwrap_or(u32::MAX);
            Offer { free: offer.free.saturating_sub(on_the_way), ..offer }
        })
    }

    /// Units that may still be placed there.
    fn left(&self) -> u32 {
        let credit = self.offer.map_or(0, |offer| offer.credit);
        u32::try_from(credit.saturating_sub(self.placed)).unwrap_or(u32::MAX)
    }

    /// Adds what another finder has reserved. The node's own word, once it has come, counts alone:
    /// a node that reserves slots for an owner raises that owner's credit itself.
    fn promise(&mut self, promise: Promise) -> bool {
        if self.own {
            return false;
        }
        let old = self.offer.unwrap_or_default();
        self.offer = Some(Offer {
            slots: promise.slots.max(old.slots),
            free: promise.slots,
            credit: old.credit.max(self.placed).saturating_add(u64::from(promise.slots)),
            received: self.placed,
            memory_bytes: promise.memory_bytes,
        });
        true
    }
}

#[derive(Clone, Debug)]
pub enum Command {
    Find(Query),
    /// Tell a gateway what this node can take.
    Offer {
        to: NodeId,
        offer: Offer,
    },
    /// Another finder has reserved slots at a node; `here`: it is connected.
    Promised {
        node: NodeId,
        promise: Promise,
        here: bool,
    },
    /// So many of the places found there were not used.
    Unused {
        node: NodeId,
        units: u32,
    },
    /// A unit was given to a node without asking here.
    Placed {
        node: NodeId,
    },
}

#[derive(Clone, Debug)]
pub enum Event {
    /// The answer, and what is left of the query.
    Found(Found, Option<Query>),
    /// This node has raised its credit.
    Room(NodeId),
    /// This node has slots free, and this owner no credit there: have it keep so many for this owner.
    Reserve(NodeId, u32),
    /// The slots of these nodes, or the number of free ones, have changed.
    Changed(Vec<NodeId>),
}

impl Protocol for Connected {
    type Message = Offer;
    type Timer = ();
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Up(peer) => {
                // A peer that offers nothing is not listed: that is most peers of most nodes.
                self.nodes.remove(&peer);
                if let Some(promise) = self.promised.remove(&peer) {
                    let mut entry = Entry::default();
                    entry.promise(promise);
                    self.nodes.insert(peer, entry);
                    cx.emit(Event::Room(peer));
                }
            }
            // A node is its own neighbour for good.
            Input::Down(peer) | Input::Unreachable(peer) if peer != cx.me => {
                self.nodes.remove(&peer);
                self.promised.remove(&peer);
            }
            Input::Message { from, message } => {
                let entry = self.nodes.entry(from).or_default();
                let before = (entry.now().map(shown), entry.left());
                (entry.offer, entry.own, entry.asked) = (Some(message), true, None);
                // It knows best what has come there.
                entry.placed = entry.placed.max(message.received);
                if entry.now().map(shown) != before.0 {
                    cx.emit(Event::Changed(vec![from]));
                }
                if entry.left() > before.1 {
                    cx.emit(Event::Room(from));
                }
            }
            Input::Command(Command::Find(query)) => {
                let (found, changed) = self.find(&query);
                if !changed.is_empty() {
                    cx.emit(Event::Changed(changed));
                }
                let mut left = query.units - found.places.iter().map(|place| place.units).sum::<u32>();
                if query.swarm {
                    left -= self.ask_at_hand(&query, left, cx);
                }
                let missing = (left > 0).then_some(Query { units: left, ..query });
                cx.emit(Event::Found(found, missing));
            }
            Input::Command(Command::Offer { to, offer }) => cx.send(to, offer),
            Input::Command(Command::Promised { node, promise, here }) => {
                self.promised(node, promise, here, cx);
            }
            Input::Command(Command::Unused { node, units }) => {
                if let Some(entry) = self.nodes.get_mut(&node) {
                    entry.placed = entry.placed.saturating_sub(u64::from(units));
                    cx.emit(Event::Changed(vec![node]));
                }
            }
            Input::Command(Command::Placed { node }) => {
                let placed = &mut self.nodes.entry(node).or_default().placed;
                *placed = placed.saturating_add(1);
                cx.emit(Event::Changed(vec![node]));
            }
            Input::Down(_) | Input::Unreachable(_) | Input::Timer(()) => {}
        }
    }
}

impl Connected {
    fn promised(&mut self, node: NodeId, promise: Promise, here: bool, cx: &mut Cx<'_, Self>) {
        if here {
            if self.nodes.entry(node).or_default().promise(promise) {
                cx.emit(Event::Changed(vec![node]));
                cx.emit(Event::Room(node));
            }
        } else if let Some(earlier) = self.promised.get_mut(&node) {
            earlier.slots = earlier.slots.saturating_add(promise.slots);
            earlier.memory_bytes = earlier.memory_bytes.min(promise.memory_bytes);
        } else if self.promised.len() < PROMISES {
            self.promised.insert(node, promise);
        }
        // Else it keeps the slots for as long as it said, and then gives them to others.
    }

    /// Asks nodes at hand that say that they idle. They are known here at once, while the swarm's
    /// finder hears of a slot that is free again only after a while. Returns the slots asked for.
    fn ask_at_hand(&mut self, query: &Query, units: u32, cx: &mut Cx<'_, Self>) -> u32 {
        let (mut left, me) = (units, cx.me);
        for (node, entry) in self.nodes.iter_mut().filter(|(node, _)| **node != me) {
            let Some(offer) = entry.now().filter(|offer| entry.own && offer.free > 0) else { continue };
            let asked = entry.asked.is_some_and(|at| cx.now.since(at) < ASK_AGAIN);
            let able = offer.slots > 0 && offer.memory_bytes >= query.needs.memory_bytes;
            let able = able && !query.without.contains(node);
            if left == 0 || asked || !able || entry.left() > 0 {
                continue;
            }
            let slots = offer.free.min(left);
            left -= slots;
            entry.asked = Some(cx.now);
            cx.emit(Event::Reserve(*node, slots));
        }
        units - left
    }

    /// The last word of a node, less what is on its way there.
    pub fn offer_of(&self, node: NodeId) -> Option<Offer> {
        self.nodes.get(&node)?.now()
    }

    /// Offers of all nodes that give anything.
    pub fn offers(&self) -> impl Iterator<Item = (NodeId, Offer)> + '_ {
        self.nodes.iter().filter_map(|(node, entry)| Some((*node, entry.now()?)))
    }

    /// Free slots first; credit beyond them only by a guided share, so that at a job's end
    /// no node sits on a queue while others are idle (our choice: half of what an equal
    /// division would give each, as in guided self-scheduling). Returns also the nodes whose free
    /// slots were taken.
    fn find(&mut self, query: &Query) -> (Found, Vec<NodeId>) {
        let mut able: Vec<(NodeId, Offer, u32)> = Vec::new();
        let mut too_small = 0u64;
        for (node, entry) in &self.nodes {
            if query.without.contains(node) {
                continue;
            }
            let Some(offer) = entry.now().filter(|o| o.slots > 0) else { continue };
            if offer.memory_bytes < query.needs.memory_bytes {
                too_small = too_small.max(offer.memory_bytes);
            } else {
                able.push((*node, offer, entry.left()));
            }
        }
        // The emptiest first, so that a handful of units spreads out.
        able.sort_by_key(|(node, offer, _)| (std::cmp::Reverse(offer.free), *node));

        let mut left = query.units;
        let mut places: Vec<Place> = Vec::with_capacity(able.len());
        for (node, offer, credit) in &able {
            let units = offer.free.min(*credit).min(left);
            left -= units;
            places.push(Place { node: Address::here(*node), units });
        }
        if left > 0 && !able.is_empty() && query.queue != Queue::No {
            let share = left.div_ceil(2 * able.len() as u32);
            for (place, (_, offer, credit)) in places.iter_mut().zip(&able) {
                // A small job is not starved by a large one, and a long unit holds up one other.
                let most = if query.queue == Queue::One { offer.slots } else { u32::MAX };
                let units = (credit - place.units).min(share).min(most).min(left);
                left -= units;
                place.units += units;
            }
        }
        let taken =
            able.iter().zip(&places).filter(|((_, offer, _), place)| offer.free > 0 && place.units > 0);
        let changed = taken.map(|(_, place)| place.node.id).collect();
        places.retain(|p| p.units > 0);
        for place in &places {
            if let Some(entry) = self.nodes.get_mut(&place.node.id) {
                entry.placed += u64::from(place.units);
            }
        }
        let shortage = (left > 0).then(|| shortage(&able, too_small, query));
        (Found { ticket: query.ticket, places, shortage }, changed)
    }
}

/// The part of an offer that people are shown: slots, and free slots.
fn shown(offer: Offer) -> (u32, u32) {
    (offer.slots, offer.free)
}

fn shortage(able: &[(NodeId, Offer, u32)], too_small: u64, query: &Query) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    if !able.is_empty() {
        let slots: u64 = able.iter().map(|(_, o, _)| u64::from(o.slots)).sum();
        format!("all slots of the connected nodes are busy ({slots} on {})", able.len())
    } else if too_small > 0 {
        format!(
            "it asks for {} MiB of memory and no connected node gives a unit more than {} MiB; lower memory_limit",
            mib(query.needs.memory_bytes),
            mib(too_small)
        )
    } else if !query.without.is_empty() {
        "no other node with slots is connected".into()
    } else {
        "no node with slots is connected; open the donate page or start `manyhands up --join`".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Needs;
    use crate::ticket::ServiceId;

    fn node(n: u8) -> NodeId {
        NodeId([n; 32])
    }

    fn finder(offers: &[(u8, u32, u32)]) -> Connected {
        let nodes = offers
            .iter()
            .map(|&(n, free, credit)| {
                let credit = u64::from(credit);
                let offer = Offer { slots: free.max(1), free, credit, received: 0, memory_bytes: 1 << 30 };
                (node(n), Entry { offer: Some(offer), own: true, ..Entry::default() })
            })
            .collect();
        Connected { nodes, ..Connected::default() }
    }

    fn ask(finder: &mut Connected, units: u32) -> Vec<(u8, u32)> {
        ask_for(finder, units, Queue::Yes)
    }

    fn ask_for(finder: &mut Connected, units: u32, queue: Queue) -> Vec<(u8, u32)> {
        let (found, _) = finder.find(&Query {
            ticket: ServiceId::Owner.ticket(1),
            units,
            needs: Needs::default(),
            queue,
            swarm: true,
            without: Default::default(),
        });
        found.places.iter().map(|p| (p.node.id.0[0], p.units)).collect()
    }

    #[test]
    fn a_few_units_go_to_the_emptiest_nodes() {
        assert_eq!(ask(&mut finder(&[(1, 1, 8), (2, 4, 8)]), 3), [(2, 3)]);
    }

    #[test]
    fn what_was_found_is_reserved_until_the_node_says_otherwise() {
        let mut finder = finder(&[(1, 2, 2)]);
        assert_eq!(ask(&mut finder, 2), [(1, 2)]);
        assert_eq!(ask(&mut finder, 1), []);
    }

    #[test]
    fn the_last_units_of_a_job_are_not_heaped_on_one_queue() {
        let places = ask(&mut finder(&[(1, 1, 1000), (2, 1, 1000)]), 42);
        assert_eq!(places, [(1, 11), (2, 11)]);
    }

    #[test]
    fn units_of_unknown_length_queue_only_after_the_swarm_was_asked() {
        let mut finder = finder(&[(1, 1, 100), (2, 0, 100)]);
        assert_eq!(ask_for(&mut finder, 5, Queue::No), [(1, 1)]);
        assert_eq!(ask_for(&mut finder, 4, Queue::No), []);
        assert_eq!(ask_for(&mut finder, 4, Queue::One), [(1, 1), (2, 1)]);
    }

    #[test]
    fn a_promise_counts_until_the_node_has_spoken_itself() {
        let promise = Promise { slots: 1, memory_bytes: 1 << 20 };
        let mut entry = Entry { placed: 3, ..Entry::default() };
        assert!(entry.promise(promise) && entry.promise(promise));
        assert_eq!(entry.left(), 2, "two were reserved");
        let own = Offer { slots: 4, free: 4, credit: 2000, received: 0, memory_bytes: 2 << 30 };
        let mut entry = Entry { offer: Some(own), own: true, placed: 1500, asked: None };
        assert!(!entry.promise(promise));
        assert_eq!((entry.left(), entry.offer), (500, Some(own)));
    }

    #[test]
    fn nobody_is_asked_for_more_memory_than_it_gives() {
        let mut finder = finder(&[(1, 4, 4)]);
        let needs = Needs { memory_bytes: 2 << 30, ..Needs::default() };
        let (found, _) = finder.find(&Query {
            ticket: ServiceId::Owner.ticket(1),
            units: 1,
            needs,
            queue: Queue::Yes,
            swarm: true,
            without: Default::default(),
        });
        assert!(found.places.is_empty());
        assert!(found.shortage.is_some_and(|s| s.contains("2048 MiB") && s.contains("1024 MiB")));
    }
}
