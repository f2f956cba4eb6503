//! The paper's way to answer (section 3): every taker answers the origin itself, and the origin
//! and the takers see to what is lost, by acknowledgements, timeouts and repetition. Nodes in
//! between keep nothing of a request.

use super::request::Part;
use super::{Ack, Ask, Message, Nearest, NotFound, Taken, Timer, Toward};
use crate::address::{Address, Contact};
use crate::ids::NodeId;
use crate::protocol::Cx;

/// A place whose origin has not said that it knows of it.
#[derive(Clone, Debug)]
pub(super) struct Unacked {
    origin: Contact,
    id: u64,
    slots: u32,
    hops: u8,
    tries: u8,
}

impl Nearest {
    pub(super) fn single(&mut self, from: NodeId, ask: Ask, refused: bool, cx: &mut Cx<'_, Self>) {
        if refused || ask.tasks == 0 {
            return self.none_left(&ask, cx);
        }
        let config = self.config.clone();
        let needs = ask.needs.unwrap_or_default();
        if ask.toward == Toward::Up
            && config.changes.ranges
            && let Some(entry) = self.branch.entry(from)
        {
            // A part that comes back from a branch says that nothing is left there.
            entry.refused(ask.tasks, ask.needs.is_some(), &config);
        }
        let own = self.take(&ask.origin, ask.tasks, &needs, ask.asked, ask.hops, cx);
        if own > 0 {
            self.answer_origin(&ask, own, cx);
        }
        let hops = ask.hops.saturating_add(1);
        let across = ask.toward == Toward::Up && self.is_at_the_top();
        let (parts, rest) = self.share(ask.tasks - own, &needs, ask.origin.id, across, &[from], ask.id);
        for Part { to, tasks, across, .. } in parts {
            let given = self.branch.entry(to.id).map_or(0, |e| e.give(tasks, &config));
            let toward = if across { Toward::Across } else { Toward::Down };
            let part = self.next();
            cx.send(to.id, Message::Ask(Ask { part, tasks, given, hops, toward, ..ask.clone() }));
        }
        if rest == 0 {
            return;
        }
        let up = match ask.toward {
            Toward::Up => self.above_for(rest).filter(|to| to.id != from),
            // The paper leaves open what becomes of a part that a branch cannot hold after all.
            // Its own way here: it is not found. With ranges: back to who gave it.
            Toward::Across | Toward::Down | Toward::Take if config.changes.ranges => {
                let giver = (self.parent.into_iter())
                    .chain(self.branch.peers.iter().map(|p| p.entry.contact))
                    .find(|c| c.id == from);
                if self.is_parent(from) {
                    self.branch.up.refuse(rest, ask.needs.is_some(), &config);
                } else if let Some(peer) = self.branch.peer(from) {
                    peer.told.refuse(rest, ask.needs.is_some(), &config);
                }
                giver
            }
            Toward::Across | Toward::Down | Toward::Take => None,
        };
        let Some(to) = up else { return self.none_left(&Ask { tasks: rest, ..ask }, cx) };
        if !self.is_parent(to.id) && !self.branch.is_peer(to.id) {
            self.reach(&to, cx);
        }
        let part = self.next();
        cx.send(to.id, Message::Ask(Ask { part, tasks: rest, given: 0, hops, toward: Toward::Up, ..ask }));
    }

    fn answer_origin(&mut self, ask: &Ask, slots: u32, cx: &mut Cx<'_, Self>) {
        if ask.origin.id == cx.me {
            if let Some(asked) = self.queries.get_mut(&ask.id) {
                asked.add(Address::here(cx.me), slots);
                self.query_done(ask.id, cx);
            }
            return;
        }
        let number = self.next();
        if self.unacked.len() < self.config.pending {
            let unacked = Unacked { origin: ask.origin, id: ask.id, slots, hops: ask.hops, tries: 1 };
            self.unacked.insert(number, unacked);
            cx.set_timer(Timer::Again(number), self.config.again);
        }
        self.send_taken(ask.id, number, &ask.origin, slots, ask.hops, cx);
    }

    fn send_taken(
        &mut self,
        id: u64,
        number: u32,
        origin: &Contact,
        slots: u32,
        hops: u8,
        cx: &mut Cx<'_, Self>,
    ) {
        let taker = self.contact(cx.me);
        self.reach(origin, cx);
        cx.send(origin.id, Message::Taken(Taken { id, number, taker, slots, hops }));
    }

    fn none_left(&mut self, ask: &Ask, cx: &mut Cx<'_, Self>) {
        let number = self.next();
        let none = NotFound { id: ask.id, number, tasks: ask.tasks };
        if ask.origin.id == cx.me {
            return self.not_found(cx.me, none, cx);
        }
        self.reach(&ask.origin, cx);
        cx.send(ask.origin.id, Message::NotFound(none));
    }

    /// The origin did not acknowledge in time.
    pub(super) fn take_again(&mut self, number: u32, cx: &mut Cx<'_, Self>) {
        let Some(unacked) = self.unacked.get_mut(&number) else { return };
        if unacked.tries >= self.config.tries {
            // It does not know of the place, so nobody will come.
            let (owner, slots) = (unacked.origin.id, unacked.slots);
            self.unacked.remove(&number);
            return self.own_slots.release(owner, slots);
        }
        unacked.tries += 1;
        let Unacked { origin, id, slots, hops, .. } = *unacked;
        cx.set_timer(Timer::Again(number), self.config.again);
        self.send_taken(id, number, &origin, slots, hops, cx);
    }

    pub(super) fn taken(&mut self, from: NodeId, taken: Taken, cx: &mut Cx<'_, Self>) {
        if taken.taker.id != from {
            return cx.fault(from, "takes tasks in the name of another".into());
        }
        let keep = match self.queries.get_mut(&taken.id) {
            // Late; the slot is free again as soon as it hears.
            None => false,
            Some(asked) if taken.slots == 0 || taken.slots > asked.tasks => {
                let fault = format!("takes {} tasks of {}", taken.slots, asked.tasks);
                cx.fault(from, fault);
                false
            }
            Some(asked) => {
                !asked.seen.insert((from, taken.number))
                    || asked.add(Address::of(from, Some(taken.taker)), taken.slots)
            }
        };
        cx.send(from, Message::Ack(Ack { number: taken.number, keep }));
        self.query_done(taken.id, cx);
    }

    pub(super) fn ack(&mut self, from: NodeId, ack: Ack, cx: &mut Cx<'_, Self>) {
        if self.unacked.get(&ack.number).is_some_and(|u| u.origin.id == from)
            && let Some(unacked) = self.unacked.remove(&ack.number)
        {
            cx.cancel_timer(Timer::Again(ack.number));
            if !ack.keep {
                self.own_slots.release(from, unacked.slots);
            }
        }
    }

    pub(super) fn not_found(&mut self, from: NodeId, none: NotFound, cx: &mut Cx<'_, Self>) {
        let Some(asked) = self.queries.get_mut(&none.id) else { return };
        if none.tasks > asked.tasks {
            let fault = format!("did not find places for {} tasks of {}", none.tasks, asked.tasks);
            return cx.fault(from, fault);
        }
        // The high bit tells its numbers from a taker's.
        if asked.seen.insert((from, none.number | 1 << 31)) {
            asked.missing = asked.missing.saturating_add(none.tasks.min(asked.open()));
        }
        self.query_done(none.id, cx);
    }

    /// Not everybody answered: what is open is asked for once more.
    pub(super) fn retry(&mut self, id: u64, cx: &mut Cx<'_, Self>) {
        let Some(asked) = self.queries.get_mut(&id) else { return };
        asked.tries += 1;
        let (tasks, needs) = (asked.open(), asked.needs);
        cx.set_timer(Timer::Query(id), self.config.patience_at(0, tasks, needs.is_some()));
        let origin = self.contact(cx.me);
        let part = self.next();
        let ask = Ask {
            id,
            part,
            origin,
            asked: tasks,
            tasks,
            given: 0,
            needs,
            hops: 0,
            toward: Toward::Up,
            back: 0,
        };
        self.single(cx.me, ask, false, cx);
    }
}
