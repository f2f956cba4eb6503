//! Ways through the space: each node hands a walk on to the node that it knows nearest to the point. Since zones tile
//! the space, a neighbour is always nearer.

use super::find::Finding;
use super::member::Member;
use super::message::{Errand, HOPS_MAX, Message, Over, Walk};
use super::push::Placing;
use super::zone::{Coords, EDGE};
use super::{Can, Ccx, Event, Timer};
use crate::address::Contact;
use crate::capability::{Candidate, Capability};
use crate::ids::NodeId;
use crate::ticket::Ticket;
use std::collections::BTreeMap;
use std::time::Duration;

/// Questions of one node at once. Our choice: further ones find nothing, and their jobs wait for the next look.
pub(super) const QUESTIONS: usize = 256;

/// Time after which a question is taken for lost with a node. Our choice: 250 messages of 100 ms.
const PATIENCE: Duration = Duration::from_secs(25);

/// A question of this node whose walk is on its way.
#[derive(Clone, Debug)]
pub(super) enum Question {
    Find {
        ticket: Ticket,
        needs: Capability,
        wanted: u16,
        again: bool,
    },
    Place {
        ticket: Ticket,
        needs: Capability,
        virt: u32,
        push: bool,
        again: bool,
    },
    Owner {
        ticket: Ticket,
        at: Coords,
    },
    /// Whether a walk that begins at the owner of the meeting point leads to this node.
    Check {
        by: Contact,
        at: Coords,
    },
}

impl Can {
    pub(super) fn ask(&mut self, question: Question, cx: &mut Ccx<'_>) {
        let room = self.questions.len() < QUESTIONS;
        let Some(member) = self.member.as_mut().filter(|_| room) else { return fail(question, cx) };
        // Drawn, so that nobody who was not asked ends it.
        let id = cx.rng.u64();
        let (to, errand) = match &question {
            Question::Find { needs, wanted, .. } => {
                let virt = cx.rng.below(u64::from(EDGE)) as u32;
                (Coords::of(needs, virt), Errand::Find(Finding::new(*needs, *wanted)))
            }
            Question::Place { needs, virt, push, .. } => {
                (Coords::of(needs, *virt), Errand::Place(Placing::new(*needs, *push)))
            }
            Question::Owner { at, .. } | Question::Check { at, .. } => (*at, Errand::Locate),
        };
        let (origin, hops) = (member.contact, 0);
        let mut walk = Walk { id, origin, space: Some(member.space), to, hops, arrived: false, errand };
        cx.set_timer(Timer::Question(id), PATIENCE);
        let by = match &question {
            Question::Check { by, .. } => Some(*by),
            _ => None,
        };
        self.questions.insert(id, question);
        match by {
            Some(by) => {
                walk.space = None;
                cx.send_to(by, Message::Walk(Box::new(walk)));
            }
            None => member.step(walk, &self.guests, cx),
        }
    }

    pub(super) fn walk(&mut self, from: NodeId, mut walk: Walk, cx: &mut Ccx<'_>) {
        if !walk.is_valid() {
            return cx.fault(from, "hands on a walk that no node begins".into());
        }
        let Some(member) = &mut self.member else {
            if walk.space.is_none() {
                cx.send_to(walk.origin, Message::Outside { id: walk.id });
            }
            return;
        };
        // Beyond the owner of the point, visits and pushes are counted.
        walk.hops = walk.hops.saturating_add(u16::from(!walk.arrived));
        if walk.hops <= HOPS_MAX && *walk.space.get_or_insert(member.space) == member.space {
            member.step(walk, &self.guests, cx);
        }
    }

    pub(super) fn over(&mut self, over: Over, cx: &mut Ccx<'_>) {
        let Some(question) = self.questions.remove(&over.id) else { return };
        cx.cancel_timer(Timer::Question(over.id));
        let Over { mut found, visited, hops, owner, .. } = over;
        match question {
            Question::Find { ticket, needs, wanted, .. } => {
                found.retain(|one| one.capability.covers(&needs));
                found.truncate(usize::from(wanted));
                cx.emit(Event::Found { ticket, found, visited });
            }
            Question::Place { ticket, needs, .. } => {
                let at = found.into_iter().find(|one| one.capability.covers(&needs));
                cx.emit(Event::Placed { ticket, at, visited });
            }
            Question::Owner { ticket, .. } => cx.emit(Event::Owned { ticket, owner, hops }),
            Question::Check { .. } => {
                if let Some(owner) = owner {
                    self.checked(owner, cx);
                }
            }
        }
    }

    /// A question has not come back: it is asked again, once.
    pub(super) fn unanswered(&mut self, id: u64, cx: &mut Ccx<'_>) {
        match self.questions.remove(&id) {
            Some(Question::Find { ticket, needs, wanted, again: false }) => {
                self.ask(Question::Find { ticket, needs, wanted, again: true }, cx);
            }
            Some(Question::Place { ticket, needs, virt, push, again: false }) => {
                self.ask(Question::Place { ticket, needs, virt, push, again: true }, cx);
            }
            Some(question) => fail(question, cx),
            None => {}
        }
    }

    pub(super) fn fail_questions(&mut self, cx: &mut Ccx<'_>) {
        for (id, question) in std::mem::take(&mut self.questions) {
            cx.cancel_timer(Timer::Question(id));
            fail(question, cx);
        }
    }
}

fn fail(question: Question, cx: &mut Ccx<'_>) {
    match question {
        Question::Find { ticket, .. } => cx.emit(Event::Found { ticket, found: Vec::new(), visited: 0 }),
        Question::Place { ticket, .. } => cx.emit(Event::Placed { ticket, at: None, visited: 0 }),
        Question::Owner { ticket, .. } => cx.emit(Event::Owned { ticket, owner: None, hops: 0 }),
        Question::Check { .. } => {}
    }
}

impl Member {
    /// A walk has come to this node.
    pub(super) fn step(&mut self, walk: Walk, guests: &BTreeMap<NodeId, Capability>, cx: &mut Ccx<'_>) {
        if walk.arrived || self.owns(walk.to) {
            return self.arrive(walk, guests, cx);
        }
        if let Some(next) = self.next(&walk, cx) {
            cx.send_to(next, Message::Walk(Box::new(walk)));
        }
    }

    /// The next node toward the point of a walk; a random neighbour if none is nearer than this one.
    fn next(&self, walk: &Walk, cx: &mut Ccx<'_>) -> Option<Contact> {
        let newcomer = |id: NodeId| matches!(walk.errand, Errand::Join { .. }) && id == walk.origin.id;
        let certain =
            self.neighbours.values().filter(|one| !one.disputed && !newcomer(one.record.contact.id));
        let near = certain.map(|one| (one.record.distance(walk.to), one.record.contact));
        let far = self.fingers.all().filter(|(contact, _)| contact.id != cx.me && !newcomer(contact.id));
        let far = far.map(|(contact, zone)| (zone.distance(walk.to), *contact));
        let here = self.zones().iter().map(|zone| zone.distance(walk.to)).min();
        let (distance, next) = near.chain(far).min()?;
        if here.is_none_or(|here| distance < here) {
            return Some(next);
        }
        let all = self.contacts();
        all.get(cx.rng.below(all.len() as u64) as usize).copied()
    }

    fn arrive(&mut self, mut walk: Walk, guests: &BTreeMap<NodeId, Capability>, cx: &mut Ccx<'_>) {
        let hops = walk.hops;
        match walk.errand {
            Errand::Join { .. } if walk.origin.id != cx.me => self.admit(walk, cx),
            Errand::Join { .. } => {}
            Errand::Locate => {
                let owner = Some(cx.me);
                let over = Over { id: walk.id, hops, visited: 0, found: Vec::new(), owner };
                cx.send_to(walk.origin, Message::Over(Box::new(over)));
            }
            Errand::Meet => self.tell(&[walk.origin], true, cx),
            Errand::Find(finding) => {
                walk.arrived = true;
                self.search(walk.id, walk.origin, (walk.to, hops), finding, guests, cx);
            }
            Errand::Place(placing) => {
                walk.arrived = true;
                self.place(walk.id, walk.origin, (walk.to, hops), placing, cx);
            }
        }
    }

    /// Tells the origin of a walk that it is over.
    pub(super) fn end(
        &self,
        id: u64,
        to: Contact,
        hops: u16,
        visited: u16,
        found: Vec<Candidate>,
        cx: &mut Ccx<'_>,
    ) {
        let over = Over { id, hops, visited, found, owner: None };
        cx.send_to(to, Message::Over(Box::new(over)));
    }

    /// Looks for the owner of a point, so that both hear each other's zones; by way of `by`, if that is given.
    pub(super) fn meet(&mut self, at: Coords, by: Option<Contact>, cx: &mut Ccx<'_>) {
        let (id, origin, space, errand) = (0, self.contact, Some(self.space), Errand::Meet);
        let walk = Walk { id, origin, space, to: at, hops: 0, arrived: false, errand };
        if let Some(next) = by.or_else(|| self.next(&walk, cx)) {
            cx.send_to(next, Message::Walk(Box::new(walk)));
        }
    }
}
