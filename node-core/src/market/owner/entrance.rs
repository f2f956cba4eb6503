//! The entrance to the markets of a kind.
//!
//! *Addition:* the paper says nothing about how a market or a buyer finds a first member. Here the owner
//! of one well-known point on the ring of nodes is the *entrance*: owners of markets tell it that they
//! are there, it names some of them to others, and says who may be the first. What it knows is never
//! older than a few of these words. A new entrance is told by the one before it, and if that one is dead
//! it first listens; that of a node that is alone on its ring knows that nobody is there.

use super::super::message::{Entrance, Message, ToBuyer, ToOwner};
use super::overlay::{FIRST, MOVED};
use super::{Ocx, Owner, fault, to_buyer, to_owner};
use crate::address::Contact;
use crate::goods::{Kind, Market};
use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Owners of markets that an entrance knows; the one heard of longest ago gives way. Our choice: four
/// times as many as there are markets.
const KNOWN: usize = 4 * Market::COUNT as usize;

/// How many it names. Our choice: all of them dead at once is rare.
pub(super) const NAMES: usize = 4;

/// Knowledge of a rendezvous about the markets of one kind.
#[derive(Debug)]
pub(super) struct Door {
    since: Time,
    /// It need not listen first.
    open: bool,
    /// That has been said to another.
    said_open: bool,
    /// The next rendezvous, once this node is not the rendezvous any more.
    next: Option<NodeId>,
    known: BTreeMap<NodeId, Known>,
    first: Option<(NodeId, Time)>,
}

#[derive(Debug)]
struct Known {
    contact: Contact,
    /// The markets with which it is a member, a bit each.
    markets: u64,
    heard: Time,
    /// Its connection has ended since; it may be dead.
    doubtful: bool,
}

impl Door {
    pub(super) fn new(now: Time) -> Door {
        Door { since: now, open: false, said_open: false, next: None, known: BTreeMap::new(), first: None }
    }

    fn has_listened(&self, now: Time, enough: Duration) -> bool {
        self.open || now.since(self.since) >= enough
    }

    /// To who is next. From then on that one says who may be the first.
    fn hand_over(&mut self, kind: Kind, cx: &mut Ocx<'_>) {
        let Some(next) = self.next else { return };
        let open = std::mem::take(&mut self.open);
        self.said_open |= open;
        let members = self.known.values().filter(|known| known.markets != 0 && !known.doubtful);
        let members = members.map(|known| (known.contact, known.markets)).collect();
        cx.send(next, Message::ToOwner(ToOwner::Door { kind, open, members }));
    }

    /// Whether it would hear anything new.
    fn is_news(&self, open: bool, members: &[(Contact, u64)]) -> bool {
        let new = |(contact, _): &(Contact, u64)| !self.known.contains_key(&contact.id);
        (open && !self.open && !self.said_open) || members.iter().take(KNOWN).any(new)
    }

    fn told(&mut self, open: bool, members: &[(Contact, u64)], now: Time) {
        self.open |= open;
        for (contact, markets) in members.iter().take(KNOWN.saturating_sub(self.known.len())) {
            let known = Known { contact: *contact, markets: *markets, heard: now, doubtful: false };
            self.known.entry(contact.id).or_insert(known);
        }
    }
}

impl Owner {
    /// An owner of markets is there; at the entrance.
    pub(super) fn here(
        &mut self,
        from: NodeId,
        kind: Kind,
        me: Contact,
        (markets, wants): (u64, bool),
        cx: &mut Ocx<'_>,
    ) {
        if me.id != from {
            return fault(from, "speaks for another market operator", cx);
        }
        let (at, lowest) = self.names(kind, Some(from), cx);
        let mut first = false;
        if let Some(door) = self.doors.get_mut(&kind) {
            if door.known.len() >= KNOWN && !door.known.contains_key(&from) {
                let oldest = door.known.iter().min_by_key(|(_, known)| known.heard).map(|(id, _)| *id);
                oldest.map(|id| door.known.remove(&id));
            }
            let known = Known { contact: me, markets, heard: cx.now, doubtful: false };
            door.known.insert(from, known);
            // It was the first, and has lost its markets again.
            if markets == 0 && !wants && door.first.is_some_and(|(who, _)| who == from) {
                door.first = None;
            }
            let members = door.known.values().any(|known| known.markets != 0);
            let taken = door.first.is_some_and(|(who, at)| who != from && cx.now.since(at) < FIRST);
            let listened = door.has_listened(cx.now, self.config.open);
            if wants && !members && listened && !taken {
                door.first = Some((from, cx.now));
                first = true;
            }
        }
        let entrance = self.entrance(kind, cx.now);
        to_owner(&me, ToOwner::Others { kind, at, lowest, entrance, first }, cx);
    }

    /// Some members, but not this one; the lowest is the first, and a market of it.
    fn names(&mut self, kind: Kind, but: Option<NodeId>, cx: &mut Ocx<'_>) -> (Vec<Contact>, Option<Market>) {
        let fresh = 3 * self.config.register;
        let Some(door) = self.doors.get_mut(&kind) else { return (Vec::new(), None) };
        door.known.retain(|_, known| cx.now.since(known.heard) < fresh);
        let members = door.known.values().filter(|known| known.markets != 0 && !known.doubtful);
        let members: Vec<&Known> = members.filter(|known| Some(known.contact.id) != but).collect();
        let Some((lowest, others)) = members.split_first() else { return (Vec::new(), None) };
        let from = cx.rng.below(others.len() as u64) as usize;
        let some = others.iter().cycle().skip(from).take((NAMES - 1).min(others.len()));
        let names = [lowest].into_iter().chain(some).map(|known| known.contact).collect();
        (names, Some(Market { kind, index: lowest.markets.trailing_zeros() as u8 }))
    }

    /// A connection has ended. Who is there all the same says so soon.
    pub(super) fn unnamed(&mut self, peer: NodeId) {
        for door in self.doors.values_mut() {
            if let Some(known) = door.known.get_mut(&peer) {
                known.doubtful = true;
            }
        }
    }

    /// The entrance is this node's from now on.
    pub(super) fn gain_door(&mut self, kind: Kind, alone: bool, now: Time) {
        let told = self.left_doors.remove(&kind).filter(|door| now.since(door.since) < FIRST);
        let door = told.unwrap_or_else(|| Door::new(now));
        self.doors.entry(kind).or_insert(Door { since: now, open: door.open || alone, next: None, ..door });
    }

    /// It is another's, who is told what this one knew.
    pub(super) fn lose_door(&mut self, kind: Kind, next: Option<NodeId>, cx: &mut Ocx<'_>) {
        let Some(mut door) = self.doors.remove(&kind) else { return };
        door.open = door.has_listened(cx.now, self.config.open);
        (door.since, door.next) = (cx.now, next.filter(|next| *next != cx.me));
        door.hand_over(kind, cx);
        self.left_doors.insert(kind, door);
    }

    /// Takes the handover of a previous rendezvous.
    pub(super) fn handed(&mut self, kind: Kind, open: bool, members: &[(Contact, u64)], cx: &mut Ocx<'_>) {
        if let Some(door) = self.doors.get_mut(&kind) {
            return door.told(open, members, cx.now);
        }
        // It comes before this node is the entrance, or when that is another already.
        let door = self.left_doors.entry(kind).or_insert_with(|| Door::new(cx.now));
        let news = door.is_news(open, members);
        door.since = cx.now;
        door.told(open, members, cx.now);
        if news {
            return door.hand_over(kind, cx);
        }
        // It went round among those who have left it: whose it is now says the ring.
        self.register_again(kind, MOVED, cx);
    }

    /// Hands over to the rendezvous that the ring names now, if this node was it and still knows something.
    pub(super) fn tell_entrance(&mut self, kind: Kind, entrance: NodeId, cx: &mut Ocx<'_>) {
        if entrance != cx.me
            && let Some(door) = self.left_doors.get_mut(&kind)
            // Older, it would open a door whose owner has to listen.
            && door.open
            && cx.now.since(door.since) < FIRST
        {
            door.next = Some(entrance);
            door.hand_over(kind, cx);
        }
    }

    pub(super) fn enter(&mut self, from: NodeId, kind: Kind, ticket: u64, cx: &mut Ocx<'_>) {
        let (at, _) = self.names(kind, None, cx);
        let entrance = self.entrance(kind, cx.now);
        to_buyer(from, ToBuyer::Entry { ticket, at, entrance }, cx);
    }

    fn entrance(&self, kind: Kind, now: Time) -> Entrance {
        match self.doors.get(&kind) {
            None => Entrance::Elsewhere,
            Some(door) if door.has_listened(now, self.config.open) => Entrance::Open,
            Some(_) => Entrance::Listening,
        }
    }
}
