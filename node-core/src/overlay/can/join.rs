//! How a node enters the space and leaves it.
//!
//! A node asks the owner of the meeting point on the ring, and when that one is in no space itself, owners of random
//! points. A walk leads from there to the owner of its point, which cuts its zone in two. The owner of the meeting point
//! creates a space when nobody has heard of one.
//!
//! Two spaces may be created apart, and a swarm may fall in two. Each node looks once a minute whether a walk that
//! begins at the owner of the meeting point leads to itself; if it leads to another node twice in a row, it joins anew.
//! *Departure:* it is not the smaller of two space ids that wins, but the space at the meeting point, so that two parts
//! with one id become one as well.

use super::member::Member;
use super::message::{Errand, Message, RECORDS_MAX, Record, SpaceId, Walk};
use super::route::Question;
use super::zone::{Coords, Zone};
use super::{Can, Ccx, Timer, meeting_point};
use crate::address::Contact;
use crate::capability::Capability;
use crate::circle::{Place, Point};
use crate::ids::NodeId;
use std::time::Duration;

/// Time for an answer to a node that joins. Our choice: twice a long route.
const ANSWER: Duration = Duration::from_secs(5);

/// Time before another node is asked.
const AGAIN: Duration = Duration::from_secs(1);

/// Attempts before the owner of the meeting point takes it that there is no space. Our choice: six random members of
/// the ring that all know of none.
const ATTEMPTS: u32 = 12;

/// Time between looks whether this node is where others find it.
const CHECK: Duration = Duration::from_secs(60);

/// Checks in a row that have to lead to another node. Our choice: one may meet a zone that has just changed.
const ASTRAY: u8 = 2;

/// The way into a space.
#[derive(Debug, Default)]
pub(super) struct Joining {
    attempts: u32,
    /// Number of the walk; none while the ring is asked.
    walk: Option<u64>,
    salt: u8,
}

/// Uses of a lookup on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    Join,
    Check,
    /// Somebody by way of whom a walk leads around a gap.
    Meet,
}

/// A random point of the ring.
pub(super) fn anywhere(cx: &mut Ccx<'_>) -> Point {
    Point(u128::from(cx.rng.u64()) << 64 | u128::from(cx.rng.u64()))
}

impl Can {
    pub(super) fn stand(&mut self, place: Option<Place>, cx: &mut Ccx<'_>) {
        let was = std::mem::replace(&mut self.place, place);
        match place {
            None => {
                self.leave(cx);
                cx.cancel_timer(Timer::Join);
            }
            Some(place) if was.is_none_or(|was| was.contact != place.contact) => {
                self.leave(cx);
                self.join(cx);
            }
            _ => {}
        }
    }

    /// This node can do more, or less.
    pub(super) fn able(&mut self, own: Option<Capability>, cx: &mut Ccx<'_>) {
        if std::mem::replace(&mut self.own, own) == own {
            return;
        }
        let Some(member) = &mut self.member else { return };
        let coords = Coords::of_node(cx.me, &own.unwrap_or_default(), member.salt);
        if !member.zone.contains(coords) {
            self.leave(cx);
            return self.join(cx);
        }
        (member.capability, member.coords) = (own, coords);
        member.changed(&[], cx);
    }

    pub(super) fn join_again(&mut self, cx: &mut Ccx<'_>) {
        self.joining.attempts += 1;
        self.join(cx);
    }

    /// Begins to join, unless it is in a space.
    fn join(&mut self, cx: &mut Ccx<'_>) {
        let Some(place) = self.place.filter(|_| self.member.is_none()) else { return };
        let is_alone = place.range.after == place.range.upto;
        if is_alone || self.joining.attempts >= ATTEMPTS && place.range.contains(meeting_point()) {
            return self.create(cx);
        }
        self.joining.walk = None;
        let key = match self.joining.attempts % 2 {
            0 => meeting_point(),
            _ => anywhere(cx),
        };
        let number = self.lookups.ask(Purpose::Join);
        cx.emit(super::Event::Lookup { number, key });
        // Nodes that were turned away together do not come again together.
        let spread = Duration::from_micros(cx.rng.below(ANSWER.as_micros() as u64));
        cx.set_timer(Timer::Join, ANSWER + spread);
    }

    pub(super) fn join_anew(&mut self, cx: &mut Ccx<'_>) {
        self.forget(cx);
        let spread = Duration::from_micros(cx.rng.below(AGAIN.as_micros() as u64));
        cx.set_timer(Timer::Join, spread);
    }

    /// Leaves: its neighbours hear of it and take its zones over.
    fn leave(&mut self, cx: &mut Ccx<'_>) {
        if let Some(member) = &self.member {
            for contact in member.contacts() {
                let record = Box::new(member.record());
                let others = member.records(|record| record.contact.id != contact.id);
                cx.send_to(contact, Message::Leave { space: member.space, record, others });
            }
        }
        self.forget(cx);
    }

    fn forget(&mut self, cx: &mut Ccx<'_>) {
        if let Some(member) = self.member.take() {
            member.contacts().into_iter().for_each(|contact| cx.release(contact.id));
        }
        self.joining = Joining::default();
        self.lookups.forget(Purpose::Join);
        self.lookups.forget(Purpose::Check);
        self.lookups.forget(Purpose::Meet);
        (self.astray, self.doubt) = (0, None);
        cx.cancel_timer(Timer::Beat);
        cx.cancel_timer(Timer::Check);
        self.fail_questions(cx);
    }

    pub(super) fn located(&mut self, number: u64, owner: Option<Contact>, cx: &mut Ccx<'_>) {
        match (self.lookups.answered(number), owner) {
            (Some(Purpose::Join), Some(owner)) if owner.id != cx.me => self.ask_to_join(owner, cx),
            (Some(Purpose::Join), _) => cx.set_timer(Timer::Join, AGAIN),
            (Some(Purpose::Check), Some(owner)) if owner.id != cx.me => {
                let Some(member) = &self.member else { return };
                let at = self.doubt.unwrap_or(member.coords());
                self.ask(Question::Check { by: owner, at }, cx);
            }
            (Some(Purpose::Meet), by) => {
                let Some(member) = &mut self.member else { return };
                let missing = member.missing.take();
                if let (Some(at), Some(by)) = (missing, by.filter(|by| by.id != cx.me)) {
                    member.meet(at, Some(by), cx);
                }
            }
            _ => {}
        }
    }

    fn ask_to_join(&mut self, owner: Contact, cx: &mut Ccx<'_>) {
        let Some(place) = self.place.filter(|_| self.member.is_none()) else { return };
        // Drawn, so that nobody who was not asked answers.
        let id = cx.rng.u64();
        self.joining.walk = Some(id);
        let salt = self.joining.salt;
        let walk = Walk {
            id,
            origin: place.contact,
            space: None,
            to: Coords::of_node(cx.me, &self.own.unwrap_or_default(), salt),
            hops: 0,
            arrived: false,
            errand: Errand::Join { capability: self.own, salt },
        };
        cx.send_to(owner, Message::Walk(Box::new(walk)));
    }

    pub(super) fn outside(&mut self, id: u64, cx: &mut Ccx<'_>) {
        if self.joining.walk == Some(id) {
            let spread = Duration::from_micros(cx.rng.below(AGAIN.as_micros() as u64));
            cx.set_timer(Timer::Join, AGAIN + spread);
        }
    }

    pub(super) fn occupied(&mut self, id: u64, cx: &mut Ccx<'_>) {
        if self.joining.walk == Some(id) {
            self.joining.salt = self.joining.salt.wrapping_add(1);
            cx.set_timer(Timer::Join, AGAIN);
        }
    }

    fn create(&mut self, cx: &mut Ccx<'_>) {
        let space = SpaceId { drawn: cx.rng.u64(), creator: cx.me };
        self.enter(space, Zone::WHOLE, 0, Vec::new(), cx);
    }

    pub(super) fn welcome(
        &mut self,
        from: NodeId,
        id: u64,
        space: SpaceId,
        zone: Zone,
        others: Vec<Record>,
        cx: &mut Ccx<'_>,
    ) {
        let (salt, own) = (self.joining.salt, self.own.unwrap_or_default());
        let fits = zone.is_valid() && zone.contains(Coords::of_node(cx.me, &own, salt));
        if self.member.is_some() || self.joining.walk != Some(id) || !fits {
            // It was too long on its way.
            return cx.send(from, Message::Return { space, zone });
        }
        if others.len() > RECORDS_MAX || others.iter().any(|one| !one.is_valid()) {
            return cx.fault(from, "welcomes to a space that is none".into());
        }
        self.enter(space, zone, salt, others, cx);
    }

    fn enter(&mut self, space: SpaceId, zone: Zone, salt: u8, others: Vec<Record>, cx: &mut Ccx<'_>) {
        let Some(place) = self.place else { return };
        let mut member = Member::new(space, place.contact, (self.own, salt), zone, cx);
        member.waiting = self.waiting;
        member.sample.note(cx.me, self.own, cx.now);
        member.hints(others, cx);
        self.joining = Joining::default();
        self.member = Some(Box::new(member));
        cx.cancel_timer(Timer::Join);
        let within =
            |cx: &mut Ccx<'_>, most: Duration| Duration::from_micros(cx.rng.below(most.as_micros() as u64));
        let (beat, check) = (within(cx, super::BEAT), within(cx, CHECK));
        cx.set_timer(Timer::Beat, beat);
        cx.set_timer(Timer::Check, check);
    }

    pub(super) fn check(&mut self, cx: &mut Ccx<'_>) {
        if self.member.is_none() {
            return;
        }
        cx.set_timer(Timer::Check, CHECK);
        let number = self.lookups.ask(Purpose::Check);
        cx.emit(super::Event::Lookup { number, key: meeting_point() });
    }

    /// A check has led to this node. Only an answer counts: silence has many causes.
    pub(super) fn checked(&mut self, owner: NodeId, cx: &mut Ccx<'_>) {
        if owner == cx.me {
            (self.astray, self.doubt) = (0, None);
            return;
        }
        self.astray += 1;
        match self.astray >= ASTRAY {
            true => self.join_anew(cx),
            false => cx.set_timer_by(Timer::Check, ANSWER),
        }
    }
}

impl Member {
    /// A node that joins has its point in a zone of this one.
    pub(super) fn admit(&mut self, walk: Walk, cx: &mut Ccx<'_>) {
        let newcomer = walk.origin;
        if self.neighbours.contains_key(&newcomer.id) {
            // It has joined anew, and this node has not missed it yet.
            self.vacate(newcomer.id, cx);
        }
        let Some(zone) = self.split_for(walk.to) else {
            return cx.send_to(newcomer, Message::Occupied { id: walk.id });
        };
        let mut others = self.records(|record| record.contact.id != newcomer.id && record.abuts(&[zone]));
        others.truncate(RECORDS_MAX - 1);
        others.push(self.record());
        cx.send_to(newcomer, Message::Welcome { id: walk.id, space: self.space, zone, others });
        self.watch(zone, newcomer.id, cx);
        self.changed(&[], cx);
    }
}
