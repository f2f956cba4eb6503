//! The simplest finder: nodes that are connected to the owner and have room.
//!
//! Every node tells its gateways what it can take. An [`Offer`] counts the units received so
//! far, so an offer that crosses a grant on the wire is not taken for new room.

use super::{Found, Offer, Place, Query};
use crate::ids::NodeId;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use litemap::LiteMap;
use std::collections::BTreeMap;

/// Promises that wait for a connection. Our choice: as many as a tree gives in one answer.
const PROMISES: usize = 16 << 10;

#[derive(Debug, Default)]
pub struct Connected {
    nodes: LiteMap<NodeId, Entry>,
    /// What another finder found at nodes that are still being dialled.
    promised: BTreeMap<NodeId, Offer>,
}

#[derive(Debug, Default)]
struct Entry {
    offer: Option<Offer>,
    /// Units placed there since it was connected.
    placed: u64,
}

impl Entry {
    /// Its offer as it stands after what is still on the way.
    fn now(&self) -> Option<Offer> {
        self.offer.map(|offer| {
            let on_the_way = u32::try_from(self.placed.saturating_sub(offer.received)).unwrap_or(u32::MAX);
            Offer {
                free: offer.free.saturating_sub(on_the_way),
                room: offer.room.saturating_sub(on_the_way),
                ..offer
            }
        })
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
    /// Another finder found room at a node; `here`: it is connected.
    Promised {
        node: NodeId,
        offer: Offer,
        here: bool,
    },
    /// A unit was given to a node without asking here.
    Placed {
        node: NodeId,
    },
    /// A node declined units: it has no room until it offers some again.
    Declined {
        node: NodeId,
    },
}

#[derive(Clone, Debug)]
pub enum Event {
    /// The answer, and what is left of the query.
    Found(Found, Option<Query>),
    /// Some node has room that it had not before.
    Room,
    /// What nodes give, or how much of it is free, is not what it was.
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
                // Whoever offers nothing is not listed: most peers of most nodes.
                self.nodes.remove(&peer);
                if let Some(offer) = self.promised.remove(&peer) {
                    self.nodes.insert(peer, Entry { offer: Some(offer), placed: 0 });
                    cx.emit(Event::Room);
                }
            }
            // A node is its own neighbour for good.
            Input::Down(peer) if peer != cx.me => {
                self.nodes.remove(&peer);
                self.promised.remove(&peer);
            }
            Input::Message { from, message } => {
                let entry = self.nodes.entry(from).or_default();
                let before = entry.now();
                entry.offer = Some(message);
                let now = entry.now();
                if now.map(shown) != before.map(shown) {
                    cx.emit(Event::Changed(vec![from]));
                }
                if now.map(|o| o.room) > before.map(|o| o.room) {
                    cx.emit(Event::Room);
                }
            }
            Input::Command(Command::Find(query)) => {
                let (found, changed) = self.find(&query);
                if !changed.is_empty() {
                    cx.emit(Event::Changed(changed));
                }
                let left = query.units - found.places.iter().map(|place| place.units).sum::<u32>();
                let missing = (left > 0).then_some(Query { units: left, ..query });
                cx.emit(Event::Found(found, missing));
            }
            Input::Command(Command::Offer { to, offer }) => cx.send(to, offer),
            Input::Command(Command::Promised { node, offer, here }) => self.promised(node, offer, here, cx),
            Input::Command(Command::Placed { node }) => {
                if let Some(entry) = self.nodes.get_mut(&node) {
                    entry.placed += 1;
                    cx.emit(Event::Changed(vec![node]));
                }
            }
            Input::Command(Command::Declined { node }) => {
                if let Some(offer) = self.nodes.get_mut(&node).and_then(|e| e.offer.as_mut()) {
                    offer.free = 0;
                    offer.room = 0;
                    cx.emit(Event::Changed(vec![node]));
                }
            }
            Input::Down(_) | Input::Timer(()) => {}
        }
    }
}

impl Connected {
    fn promised(&mut self, node: NodeId, offer: Offer, here: bool, cx: &mut Cx<'_, Self>) {
        if here {
            let entry = self.nodes.entry(node).or_default();
            // It counts from now on, on top of what was given before.
            let old = entry.offer.unwrap_or_default();
            let offer = Offer { received: entry.placed, slots: offer.slots.max(old.slots), ..offer };
            entry.offer = Some(offer);
            cx.emit(Event::Changed(vec![node]));
            cx.emit(Event::Room);
        } else if self.promised.len() < PROMISES {
            self.promised.insert(node, offer);
        }
        // Else it keeps the slots for as long as it said, and then gives them to others.
    }

    /// The last word of a node, less what is on its way there.
    pub fn offer_of(&self, node: NodeId) -> Option<Offer> {
        self.nodes.get(&node)?.now()
    }

    /// What all nodes give that give anything.
    pub fn offers(&self) -> impl Iterator<Item = (NodeId, Offer)> + '_ {
        self.nodes.iter().filter_map(|(node, entry)| Some((*node, entry.now()?)))
    }

    /// Free slots first; the rest of the room only by a guided share, so that at a job's end
    /// no node sits on a queue while others are idle (our choice: half of what an equal
    /// division would give each, as in guided self-scheduling). Says too whose free slots
    /// were taken.
    fn find(&mut self, query: &Query) -> (Found, Vec<NodeId>) {
        let mut able: Vec<(NodeId, Offer)> = Vec::new();
        let mut too_small = 0u64;
        for (node, entry) in &self.nodes {
            let Some(offer) = entry.now().filter(|o| o.slots > 0) else { continue };
            if offer.memory_bytes < query.needs.memory_bytes {
                too_small = too_small.max(offer.memory_bytes);
            } else {
                able.push((*node, offer));
            }
        }
        // The emptiest first, so that a handful of units spreads out.
        able.sort_by_key(|(node, offer)| (std::cmp::Reverse(offer.free), *node));

        let mut left = query.units;
        let mut places: Vec<Place> = Vec::with_capacity(able.len());
        for (node, offer) in &able {
            let units = offer.free.min(offer.room).min(left);
            left -= units;
            places.push(Place { node: *node, contact: None, units });
        }
        if left > 0 && !able.is_empty() {
            let share = left.div_ceil(2 * able.len() as u32);
            for (place, (_, offer)) in places.iter_mut().zip(&able) {
                let units = (offer.room - place.units).min(share).min(left);
                left -= units;
                place.units += units;
            }
        }
        let taken = able.iter().zip(&places).filter(|((_, offer), place)| offer.free > 0 && place.units > 0);
        let changed = taken.map(|(_, place)| place.node).collect();
        places.retain(|p| p.units > 0);
        for place in &places {
            if let Some(entry) = self.nodes.get_mut(&place.node) {
                entry.placed += u64::from(place.units);
            }
        }
        let shortage = (left > 0).then(|| shortage(&able, too_small, query.needs.memory_bytes));
        (Found { query: query.id, places, shortage }, changed)
    }
}

/// What people are shown of an offer.
fn shown(offer: Offer) -> (u32, u32) {
    (offer.slots, offer.free)
}

fn shortage(able: &[(NodeId, Offer)], too_small: u64, memory: u64) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    if !able.is_empty() {
        let slots: u64 = able.iter().map(|(_, o)| u64::from(o.slots)).sum();
        format!("all slots of the connected nodes are busy ({slots} on {})", able.len())
    } else if too_small > 0 {
        format!(
            "it asks for {} MiB of memory and no connected node gives a unit more than {} MiB; lower memory_limit",
            mib(memory),
            mib(too_small)
        )
    } else {
        "no node with slots is connected; open the donate page or start `manyhands up --join`".into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Needs;
    use super::*;

    fn node(n: u8) -> NodeId {
        NodeId([n; 32])
    }

    fn finder(offers: &[(u8, u32, u32)]) -> Connected {
        let nodes = offers
            .iter()
            .map(|&(n, free, room)| {
                let offer = Offer { slots: free.max(1), free, room, received: 0, memory_bytes: 1 << 30 };
                (node(n), Entry { offer: Some(offer), placed: 0 })
            })
            .collect();
        Connected { nodes, ..Connected::default() }
    }

    fn ask(finder: &mut Connected, units: u32) -> Vec<(u8, u32)> {
        let (found, _) = finder.find(&Query { id: 1, units, needs: Needs::default() });
        found.places.iter().map(|p| (p.node.0[0], p.units)).collect()
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
    fn nobody_is_asked_for_more_memory_than_it_gives() {
        let mut finder = finder(&[(1, 4, 4)]);
        let needs = Needs { memory_bytes: 2 << 30, ..Needs::default() };
        let (found, _) = finder.find(&Query { id: 1, units: 1, needs });
        assert!(found.places.is_empty());
        assert!(found.shortage.is_some_and(|s| s.contains("2048 MiB") && s.contains("1024 MiB")));
    }
}
