//! Queries of this node, and their results.

use super::answer::{Out, Pending};
use super::{Ask, Event, Gone, Message, Nearest, Packed, Places, Timer, Toward, nowhere};
use crate::address::{Address, Contact};
use crate::finding::{Found, Needs, Place, Query};
use crate::ids::NodeId;
use crate::protocol::Cx;
use crate::ticket::Ticket;
use std::collections::BTreeSet;

/// Withdrawals that may come before what they withdraw; our choice.
const GONE_MAX: usize = 256;

/// A query of this node's own that is not answered yet. Every task asked for is placed, or
/// missing, or on its way.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    ticket: Ticket,
    pub needs: Option<Needs>,
    pub tasks: u32,
    pub placed: u32,
    pub missing: u32,
    places: Vec<Place>,
    /// Messages that were counted, by sender and its number for the message.
    pub seen: BTreeSet<(NodeId, u32)>,
    gone: Vec<(NodeId, u32)>,
    /// Its entry among the requests in hand.
    pending: Option<u32>,
    pub tries: u8,
}

impl Asked {
    pub(super) fn open(&self) -> u32 {
        self.tasks.saturating_sub(self.placed.saturating_add(self.missing))
    }

    /// Adds a place; false if nobody asked for so many.
    pub(super) fn add(&mut self, node: Address, mut slots: u32) -> bool {
        if slots > self.tasks.saturating_sub(self.placed) {
            return false;
        }
        self.placed += slots;
        if let Some(at) = self.gone.iter().position(|(n, _)| *n == node.id) {
            let (_, lost) = self.gone.swap_remove(at);
            let lost = lost.min(slots);
            slots -= lost;
            self.placed -= lost;
            self.missing += lost;
        }
        if slots > 0 {
            self.places.push(Place { node, units: slots });
        }
        true
    }
}

impl Nearest {
    pub(super) fn find(&mut self, query: Query, cx: &mut Cx<'_, Self>) {
        let nothing = |shortage| Event::Found(Found { ticket: query.ticket, places: Vec::new(), shortage });
        if query.units == 0 {
            return cx.emit(nothing(None));
        }
        if self.queries.len() >= self.config.queries {
            let shortage =
                format!("{} searches are under way, the bound; it is tried again", self.config.queries);
            return cx.emit(nothing(Some(shortage)));
        }
        let query = Query { units: query.units.min(self.most()), ..query };
        let id = cx.rng.u64();
        let needs = (query.needs != Needs::default()).then_some(query.needs);
        let key = self.next();
        let ask = Ask {
            id,
            part: 0,
            origin: self.contact(cx.me),
            asked: query.units,
            tasks: query.units,
            given: 0,
            needs,
            hops: 0,
            toward: Toward::Up,
            back: 0,
        };
        let asked = Asked {
            ticket: query.ticket,
            needs,
            tasks: query.units,
            placed: 0,
            missing: 0,
            places: Vec::new(),
            seen: BTreeSet::new(),
            gone: Vec::new(),
            pending: self.config.changes.gather.then_some(key),
            tries: 0,
        };
        self.queries.insert(id, asked);
        cx.set_timer(Timer::Query(id), self.config.patience_at(0, query.units, needs.is_some()));
        let straight = self.straight_for(query.units);
        if !self.config.changes.gather {
            match straight {
                Some(to) => {
                    cx.send_to(to, Message::Ask(Ask { part: self.next(), hops: 1, ..ask }));
                }
                None => self.single(cx.me, ask, false, cx),
            }
            return self.query_done(id, cx);
        }
        let mut pending = Pending::of(cx.me, &ask);
        match straight {
            Some(to) => {
                let part = pending.next_part(key);
                cx.reach(to);
                let ask = Ask { hops: 1, ..pending.ask(part, query.units, 0, Toward::Up) };
                cx.send(to.id, Message::Ask(ask));
                pending.out.push(Out { to: to.id, part, tasks: query.units, up: true });
                self.pending.insert(key, pending);
            }
            None => {
                self.pending.insert(key, pending);
                self.spread(key, query.units, true, cx);
                self.finish(key, cx);
            }
        }
    }

    /// How many slots a request can sensibly ask for: more than the whole network has only makes
    /// everybody wait longer. What is known of it is rounded and late, so with room to spare; in
    /// the paper's way it is not known, and our choice is a million.
    fn most(&self) -> u32 {
        let known = self.is_at_the_top() || !self.above.is_empty();
        if known { self.network().saturating_mul(4).max(1024) } else { 1 << 20 }
    }

    /// Modification: where a request goes that the parent's branch cannot hold. Not even own
    /// slots are taken first: those above count them as free, and would send as many tasks to
    /// where they are no more.
    fn straight_for(&self, tasks: u32) -> Option<Contact> {
        let parent = self.parent?;
        self.above_for(tasks).filter(|to| to.id != parent.id && self.me.is_some())
    }

    /// All parts of the request are answered; long lists may still be on the way.
    pub(super) fn query_answered(&mut self, mut pending: Pending, cx: &mut Cx<'_, Self>) {
        let Some(asked) = self.queries.get_mut(&pending.id) else { return };
        asked.pending = None;
        asked.missing = asked.missing.saturating_add(pending.missing);
        self.add_places(pending.id, cx.me, &std::mem::take(&mut pending.places), cx);
        self.query_done(pending.id, cx);
    }

    pub(super) fn places(&mut self, from: NodeId, places: Places, cx: &mut Cx<'_, Self>) {
        let Some(asked) = self.queries.get_mut(&places.id) else { return };
        if asked.seen.insert((from, places.number)) {
            self.add_places(places.id, from, &places.places, cx);
            self.query_done(places.id, cx);
        }
    }

    fn add_places(&mut self, id: u64, from: NodeId, places: &Packed, cx: &mut Cx<'_, Self>) {
        let Some(asked) = self.queries.get_mut(&id) else { return };
        let Some(places) = places.unpack() else {
            return cx.fault(from, "sent places that are no list of places".into());
        };
        let sum = places.iter().fold(0u64, |sum, (_, slots)| sum + u64::from(*slots));
        if sum > u64::from(asked.tasks) {
            let fault = format!("found places for {sum} tasks of {}", asked.tasks);
            return cx.fault(from, fault);
        }
        for (node, slots) in places {
            // Places beyond the tasks, found after a late answer, end with their lease.
            asked.add(node, slots);
        }
    }

    /// Slots are kept for the sender, as if it had found them through the tree.
    pub(super) fn keep_slots(&mut self, from: NodeId, slots: u32, cx: &mut Cx<'_, Self>) {
        // A number that a peer says makes no lease longer than these slots are worth.
        let slots = slots.min(self.own_slots.free());
        let origin = nowhere(from);
        self.take(&origin, slots, &Needs::default(), slots, 1, cx);
    }

    /// Slots that are kept for the sender are free again.
    pub(super) fn release(&mut self, from: NodeId, slots: u32, cx: &mut Cx<'_, Self>) {
        self.own_slots.release(from, slots);
        cx.emit(Event::Released { owner: from, slots });
        cx.emit(Event::Changed);
    }

    /// A place that was told of is none.
    pub(super) fn gone(&mut self, from: NodeId, gone: Gone, cx: &mut Cx<'_, Self>) {
        let Some(asked) = self.queries.get_mut(&gone.id) else { return };
        if gone.node != from {
            return cx.fault(from, "withdraws the place of another".into());
        }
        match asked.places.iter().position(|p| p.node.id == from) {
            Some(at) => {
                let lost = gone.slots.min(asked.places[at].units);
                asked.places[at].units -= lost;
                asked.placed -= lost;
                asked.missing += lost;
                asked.places.retain(|p| p.units > 0);
            }
            None if asked.gone.len() < GONE_MAX => asked.gone.push((from, gone.slots)),
            None => {}
        }
        self.query_done(gone.id, cx);
    }

    /// Answers the query when nothing is open.
    pub(super) fn query_done(&mut self, id: u64, cx: &mut Cx<'_, Self>) {
        if self.queries.get(&id).is_some_and(|asked| asked.open() == 0 && asked.pending.is_none()) {
            self.close(id, cx);
        }
    }

    pub(super) fn query_is_late(&mut self, id: u64, cx: &mut Cx<'_, Self>) {
        let Some(asked) = self.queries.get_mut(&id) else { return };
        if let Some(key) = asked.pending.take() {
            self.pending.remove(&key);
        } else if !self.config.changes.gather && asked.tries == 0 {
            return self.retry(id, cx);
        }
        self.close(id, cx);
    }

    fn close(&mut self, id: u64, cx: &mut Cx<'_, Self>) {
        let Some(asked) = self.queries.remove(&id) else { return };
        cx.cancel_timer(Timer::Query(id));
        let (cooling, places): (Vec<Place>, Vec<Place>) =
            asked.places.into_iter().partition(|p| self.is_shunned(p.node.id, cx));
        for place in cooling {
            // A guest hears of its relay alone; what is kept for it ends with its lease.
            if let Some(contact) = place.node.contact() {
                self.reach(&contact, cx);
                cx.send(contact.id, Message::Release(place.units));
            }
        }
        let found = places.iter().fold(0u32, |n, p| n.saturating_add(p.units));
        let shortage = (found < asked.tasks).then(|| {
            let (wanted, slots) = (asked.tasks, self.network());
            let fit = if asked.needs.is_some() { " or do not fit the needs" } else { "" };
            // Outside of the tree nobody tells how many it has.
            let all = if self.joined { format!(" ({slots} in all)") } else { String::new() };
            format!("{found} of {wanted} places were found; the other slots of the tree are busy{fit}{all}")
        });
        cx.emit(Event::Found(Found { ticket: asked.ticket, places, shortage }));
    }
}
