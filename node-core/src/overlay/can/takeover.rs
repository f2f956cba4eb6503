//! Zones whose node is gone. The node that was named for it takes such a zone over and holds it, then hands it on to the
//! neighbours on one of its faces, each of which grows over a slab of it.
//!
//! Zones are cut in two again and again, so that the nodes on the other side of the last cut of a zone have that whole
//! face between them: when each grows across, all zones are boxes again.
//!
//! *Departure.* In the original CAN the neighbour with the smallest zone keeps a zone that it took over, or the two
//! nearest siblings in the tree of splits exchange places. Here each node stays in its own zone.

use super::member::{Held, Member, VACANCIES};
use super::message::{Message, RECORDS_MAX, Record, ZONES_MAX};
use super::zone::{Face, Zone};
use super::{BEAT, Ccx};
use crate::address::Contact;
use crate::ids::NodeId;
use crate::time::Time;

/// A zone that nobody is in, or that another node was given and has to claim.
#[derive(Clone, Debug)]
pub(super) struct Vacancy {
    pub(super) zone: Zone,
    /// When this node takes it over, unless somebody has claimed it by then.
    due: Time,
    pub(super) from: NodeId,
    /// Neighbours of the node that is gone.
    others: Vec<Record>,
}

impl Member {
    /// The node of this record is gone.
    pub(super) fn vacant(&mut self, record: &Record, others: Vec<Record>, cx: &mut Ccx<'_>) {
        let rank = record.takers.iter().position(|taker| *taker == cx.me);
        for zone in &record.zones {
            let bits = 128 - zone.volume().leading_zeros();
            let wait = match rank {
                Some(rank) => 2 * BEAT * rank as u32,
                // The wait grows with the volume, so that a large zone is taken later, by a taker that is late.
                None => 6 * BEAT + BEAT * bits / 16,
            };
            let (due, others) = (cx.now + wait, others.clone());
            self.vacancy(Vacancy { zone: *zone, due, from: record.contact.id, others });
        }
        self.take_over(cx);
    }

    /// Sees to it that a zone which this node gives away is claimed.
    pub(super) fn watch(&mut self, zone: Zone, to: NodeId, cx: &mut Ccx<'_>) {
        self.vacancy(Vacancy { zone, due: cx.now + 4 * BEAT, from: to, others: Vec::new() });
    }

    fn vacancy(&mut self, vacancy: Vacancy) {
        if self.vacancies.len() >= VACANCIES {
            self.vacancies.remove(0);
        }
        self.vacancies.push(vacancy);
    }

    /// Somebody claims these zones.
    pub(super) fn fill(&mut self, zones: &[Zone]) {
        if self.vacancies.iter().all(|one| zones.iter().all(|zone| zone.overlap(&one.zone).is_none())) {
            return;
        }
        let all = std::mem::take(&mut self.vacancies);
        for one in all {
            for zone in one.zone.minus_all(zones, 64) {
                self.vacancy(Vacancy { zone, ..one.clone() });
            }
        }
    }

    /// Takes over what is vacant when it is due.
    pub(super) fn take_over(&mut self, cx: &mut Ccx<'_>) {
        let all = std::mem::take(&mut self.vacancies);
        let (due, later): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.due <= cx.now);
        self.vacancies = later;
        let (mut others, mut is_more) = (Vec::new(), false);
        for vacancy in due {
            for zone in self.unclaimed(&vacancy.zone) {
                if self.held.len() < ZONES_MAX - 1 {
                    self.held.push(Held { zone, since: cx.now });
                    is_more = true;
                }
            }
            others.extend(vacancy.others);
        }
        if is_more {
            let contacts: Vec<Contact> = others.iter().map(|other| other.contact).collect();
            self.changed(&contacts, cx);
        }
        self.hints(others, cx);
    }

    /// Takes over a place beside its zones that nobody is known to own; a node that does own it says so.
    pub(super) fn claim_gap(&mut self, missing: Zone, face: Face, cx: &mut Ccx<'_>) {
        let mut zone = missing;
        match face.up {
            true => zone.hi.0[face.dim] = super::EDGE,
            false => zone.lo.0[face.dim] = 0,
        }
        let parts = self.unclaimed(&zone);
        let part = parts.into_iter().find(|part| part.overlap(&missing).is_some());
        if let Some(zone) = part.filter(|_| self.held.len() < ZONES_MAX - 1) {
            // An owner that is there after all has time to say so.
            self.held.push(Held { zone, since: cx.now + 6 * BEAT });
            self.changed(&[], cx);
        }
    }

    /// Hands a zone on that it has held for a while, so that claims of others have come.
    pub(super) fn hand_on(&mut self, cx: &mut Ccx<'_>) {
        for at in 0..self.held.len() {
            let Held { zone, since } = self.held[at];
            if cx.now.since(since) < 2 * BEAT {
                continue;
            }
            if let Some(joined) = self.zone.join(&zone) {
                self.held.remove(at);
                self.zone = joined;
                return self.changed(&[], cx);
            }
            let sides = Face::all().filter_map(|face| self.growers(&zone, face));
            let side = sides.min_by_key(Vec::len).or_else(|| self.holder_beside(&zone));
            let is_old = cx.now.since(since) >= 8 * BEAT;
            let Some(side) = side.or_else(|| self.some_grower(&zone).filter(|_| is_old)) else {
                if self.join_held(at, cx) {
                    return self.changed(&[], cx);
                }
                continue;
            };
            self.held.remove(at);
            let slabs: Vec<Zone> = side.iter().map(|(_, slab)| *slab).collect();
            let left = zone.minus_all(&slabs, ZONES_MAX);
            self.held.extend(left.into_iter().map(|zone| Held { zone, since: cx.now }));
            for (contact, slab) in side {
                if contact.id == cx.me {
                    self.zone = self.zone.join(&slab).unwrap_or(self.zone);
                    continue;
                }
                let near = |record: &Record| record.contact.id != contact.id && record.abuts(&[slab]);
                let others = self.records(near);
                cx.send_to(contact, Message::Give { space: self.space, zone: slab, others });
                self.watch(slab, contact.id, cx);
            }
            return self.changed(&[], cx);
        }
    }

    /// Nodes behind a face of this zone that have all of it between them, each with the slab that it would grow over.
    fn growers(&self, zone: &Zone, face: Face) -> Option<Vec<(Contact, Zone)>> {
        let certain = self.neighbours.values().filter(|one| one.direct && !one.disputed);
        let others = certain.map(|one| (one.record.contact, one.record.zones[0]));
        let all = others.chain([(self.contact, self.zone)]);
        let on_face = all.filter(|(_, own)| zone.shared_face(own, face) > 0);
        let slabs = on_face.map(|(contact, own)| Some((contact, zone.slab_for(&own, face)?)));
        let slabs: Vec<(Contact, Zone)> = slabs.collect::<Option<_>>()?;
        let area: u128 = slabs.iter().map(|(_, slab)| slab.face_area(face.dim)).sum();
        (area == zone.face_area(face.dim)).then_some(slabs)
    }

    /// A node that can grow over a part of a zone for which there is nothing better, so that what is left is few boxes.
    fn some_grower(&self, zone: &Zone) -> Option<Vec<(Contact, Zone)>> {
        let room = ZONES_MAX - self.held.len();
        let certain = self.neighbours.values().filter(|one| one.direct && !one.disputed);
        let others = certain.map(|one| (one.record.contact, one.record.zones[0]));
        let all = others.chain([(self.contact, self.zone)]);
        let slabs = all.flat_map(|(contact, own)| {
            Face::all().filter_map(move |face| Some((contact, zone.slab_for(&own, face)?)))
        });
        let parts = |slab: &Zone| zone.minus(slab).len();
        let fits = slabs.filter(|(_, slab)| parts(slab) <= room.min(2));
        let best = fits.min_by_key(|(_, slab)| (parts(slab), std::cmp::Reverse(slab.volume())));
        best.map(|side| vec![side])
    }

    /// A node with a lower id that holds a zone which makes a box with this one: both were halves of one, and what is
    /// on the other side of that one grows over both.
    fn holder_beside(&self, zone: &Zone) -> Option<Vec<(Contact, Zone)>> {
        let certain = self.neighbours.values().filter(|one| one.direct && !one.disputed);
        let mut lower = certain.filter(|one| one.record.contact.id < self.contact.id);
        let beside = |record: &Record| record.zones[1..].iter().any(|held| held.join(zone).is_some());
        lower.find(|one| beside(&one.record)).map(|one| vec![(one.record.contact, *zone)])
    }

    /// Makes one zone of two that this node holds.
    fn join_held(&mut self, at: usize, cx: &Ccx<'_>) -> bool {
        let zone = self.held[at].zone;
        let joined = |held: &Held| held.zone.join(&zone);
        let Some((other, joined)) =
            self.held.iter().enumerate().find_map(|(at, held)| Some((at, joined(held)?)))
        else {
            return false;
        };
        self.held[at] = Held { zone: joined, since: cx.now };
        self.held.remove(other);
        true
    }

    pub(super) fn given(&mut self, from: NodeId, slab: Zone, others: Vec<Record>, cx: &mut Ccx<'_>) {
        if !slab.is_valid() || others.len() > RECORDS_MAX {
            return cx.fault(from, "gives a zone that is none".into());
        }
        let giver = self.neighbours.get(&from);
        let holds = |zone: &Zone| zone.overlap(&slab) == Some(slab);
        let is_its = giver.is_some_and(|giver| giver.record.zones.iter().skip(1).any(holds));
        let others_claim = |one: &&super::neighbours::Neighbour| one.record.overlaps(&[slab]);
        let rival = self.neighbours.values().filter(|one| one.record.contact.id != from).find(others_claim);
        let rival = rival.map(|one| Box::new(one.record.clone()));
        let is_new = self.zones().iter().all(|zone| zone.overlap(&slab).is_none());
        let fits = is_its && is_new && rival.is_none();
        let giver = giver.map(|one| one.record.contact).filter(|_| fits);
        let (Some(giver), true) = (giver, fits && self.grow(slab, cx)) else {
            cx.send(from, Message::Return { space: self.space, zone: slab });
            // Both would give it to this node again and again.
            if let Some(record) = rival {
                cx.send(from, Message::Disputed { space: self.space, record });
            }
            return;
        };
        self.fill(&[slab]);
        // The giver holds it no more; its own word on that is on its way.
        if let Some(giver) = self.neighbours.get_mut(&from) {
            giver.gave(&slab);
        }
        self.hints(others.clone(), cx);
        let also: Vec<Contact> = others.iter().map(|other| other.contact).chain([giver]).collect();
        self.changed(&also, cx);
    }

    /// Grows over a zone with its own zone, or one that it holds. Whether that is a box.
    fn grow(&mut self, slab: Zone, cx: &Ccx<'_>) -> bool {
        if let Some(joined) = self.zone.join(&slab) {
            self.zone = joined;
            return true;
        }
        let Some((at, joined)) =
            self.held.iter().enumerate().find_map(|(at, held)| Some((at, held.zone.join(&slab)?)))
        else {
            return false;
        };
        self.held[at] = Held { zone: joined, since: cx.now };
        true
    }

    pub(super) fn returned(&mut self, from: NodeId, zone: Zone, cx: &mut Ccx<'_>) {
        for one in self.vacancies.iter_mut().filter(|one| one.from == from) {
            if one.zone.overlap(&zone) == Some(one.zone) {
                one.due = cx.now;
            }
        }
        self.take_over(cx);
    }

    /// A neighbour leaves the space.
    pub(super) fn left(&mut self, from: NodeId, record: Record, others: Vec<Record>, cx: &mut Ccx<'_>) {
        if record.contact.id != from || !record.is_valid() || others.len() > RECORDS_MAX {
            return cx.fault(from, "leaves zones that no node has".into());
        }
        if self.neighbours.get(&from).is_some_and(|one| one.direct && !one.disputed) {
            // It has the last word on what it owned.
            self.hear(record, cx);
            if let Some(known) = self.neighbours.get_mut(&from) {
                known.others = others;
            }
            self.vacate(from, cx);
        }
    }
}
