//! Neighbours of a node: what they say of themselves, who is silent, and whose claims contradict each other.

use super::member::Member;
use super::message::{Beat, Load, Message, RECORDS_MAX, Record};
use super::zone::{Face, RESOURCES, Zone};
use super::{BEAT, Ccx};
use crate::address::Contact;
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// Neighbours of a node. Our choice: twice the most that were seen with 1,000 nodes of all kinds. One more is not kept:
/// routes lead around it.
pub const NEIGHBOURS: usize = 256;

/// Silence after which a neighbour is taken for gone: three heartbeats and a little.
const SILENCE: Duration = Duration::from_millis(3 * 4_000 + 1_500);

/// Age at which two claims to one point are no matter of messages on their way any more.
const SETTLED: Duration = Duration::from_secs(8);

/// Age at which who has the younger one of two claims is at fault, as it was told.
const STUBBORN: Duration = Duration::from_secs(60);

/// A neighbour, as this node knows it.
#[derive(Clone, Debug)]
pub(super) struct Neighbour {
    pub(super) record: Record,
    /// Since when each of its zones is known to be its.
    since: Vec<Time>,
    pub(super) heard: Time,
    /// It was heard itself; of others this node only knows from hearsay.
    pub(super) direct: bool,
    /// Another neighbour has an older claim to a part of its zones.
    pub(super) disputed: bool,
    /// Jobs that wait there or run, with those that were sent there since it said so.
    pub(super) waiting: u32,
    pub(super) upward: [Load; RESOURCES],
    /// Its neighbours, if this node is to take its zones over.
    pub(super) others: Vec<Record>,
}

impl Neighbour {
    fn new(record: Record, direct: bool, now: Time) -> Neighbour {
        let since = vec![now; record.zones.len()];
        let others = Vec::new();
        let upward = [Load::default(); RESOURCES];
        Neighbour { record, since, heard: now, direct, disputed: false, waiting: 0, upward, others }
    }

    fn replace(&mut self, record: Record, now: Time) {
        let known = |zone: &Zone| self.record.zones.iter().position(|old| old.overlap(zone) == Some(*zone));
        self.since = record.zones.iter().map(|zone| known(zone).map_or(now, |at| self.since[at])).collect();
        self.record = record;
    }

    /// It has given away this part of its zones.
    pub(super) fn gave(&mut self, slab: &Zone) {
        let (mut zones, mut since) = (Vec::new(), Vec::new());
        for (zone, at) in self.record.zones.iter().zip(&self.since) {
            let parts = zone.minus(slab);
            since.extend(std::iter::repeat_n(*at, parts.len()));
            zones.extend(parts);
        }
        (self.record.zones, self.since) = (zones, since);
    }
}

impl Member {
    pub(super) fn message(&mut self, from: NodeId, message: Message, cx: &mut Ccx<'_>) {
        let space = match &message {
            Message::Zones { space, .. }
            | Message::Leave { space, .. }
            | Message::Give { space, .. }
            | Message::Return { space, .. }
            | Message::Disputed { space, .. }
            | Message::Sketch { space, .. } => Some(*space),
            Message::Beat(beat) => Some(beat.space),
            _ => None,
        };
        if space.is_some_and(|space| space != self.space) {
            return self.other_space(from, cx);
        }
        match message {
            Message::Zones { record, others, asks, .. } => self.zones_of(from, *record, others, asks, cx),
            Message::Beat(beat) => self.beat_of(from, beat, cx),
            Message::Leave { record, others, .. } => self.left(from, *record, others, cx),
            Message::Give { zone, others, .. } => self.given(from, zone, others, cx),
            Message::Return { zone, .. } => self.returned(from, zone, cx),
            Message::Disputed { record, .. } => self.disputed(from, *record, cx),
            Message::Sketch { sketch, .. } if !sketch.is_valid() => {
                cx.fault(from, "tells a sample that no node has".into());
            }
            Message::Sketch { sketch, .. } => self.sample.merge(&sketch, cx.now),
            Message::AskFinger { up, level } => self.finger_asked(from, up, level, cx),
            Message::Finger { up, level, at } => self.finger(from, up, level, at, cx),
            Message::Steal { contact, capability } => self.stealing(from, contact, capability, cx),
            _ => {}
        }
    }

    /// A neighbour has gone to another space: it owns nothing here any more.
    fn other_space(&mut self, from: NodeId, cx: &mut Ccx<'_>) {
        if self.neighbours.get(&from).is_some_and(|one| one.direct) {
            self.vacate(from, cx);
            self.doubts = Some(self.coords);
        }
    }

    fn zones_of(&mut self, from: NodeId, record: Record, others: Vec<Record>, asks: bool, cx: &mut Ccx<'_>) {
        if record.contact.id != from || !record.is_valid() || others.len() > RECORDS_MAX {
            return cx.fault(from, "claims zones that no node has".into());
        }
        let contact = record.contact;
        let its_zones = record.zones.clone();
        let for_takeover = record.takers.contains(&cx.me);
        let is_new = self.hear(record, cx);
        if for_takeover
            && !others.is_empty()
            && let Some(known) = self.neighbours.get_mut(&from)
        {
            known.others.clone_from(&others);
        }
        self.hints(others, cx);
        if asks {
            let others = self.records(|record| record.contact.id != from && record.abuts(&its_zones));
            let (space, record) = (self.space, Box::new(self.record()));
            cx.send_to(contact, Message::Zones { space, record, others, asks: false });
        } else if is_new {
            self.tell(&[contact], false, cx);
        }
    }

    /// Takes in what a node says of itself. Whether it is a neighbour that was not known.
    pub(super) fn hear(&mut self, record: Record, cx: &mut Ccx<'_>) -> bool {
        let from = record.contact.id;
        self.fill(&record.zones);
        self.settle(&record, cx);
        let zones = self.zones();
        let room = self.neighbours.len() < NEIGHBOURS;
        let is_new = match self.neighbours.get_mut(&from) {
            _ if !record.abuts(&zones) && !record.overlaps(&zones) => {
                self.drop_neighbours(|one| one.record.contact.id == from, cx);
                return false;
            }
            Some(known) => {
                let was_direct = std::mem::replace(&mut known.direct, true);
                known.replace(record, cx.now);
                known.heard = cx.now;
                !was_direct
            }
            None if !room => return false,
            None => {
                cx.hold(record.contact);
                self.neighbours.insert(from, Neighbour::new(record, true, cx.now));
                true
            }
        };
        self.takers_know &= !is_new;
        self.compare_claims();
        is_new
    }

    /// Takes in what others say of nodes that this one does not know.
    pub(super) fn hints(&mut self, others: Vec<Record>, cx: &mut Ccx<'_>) {
        let zones = self.zones();
        for record in others {
            let id = record.contact.id;
            let fits = id != cx.me && record.is_valid() && record.abuts(&zones) && !record.overlaps(&zones);
            let taken = || self.neighbours.values().any(|one| one.record.overlaps(&record.zones));
            let vacant = || self.vacancies.iter().any(|one| one.from == id);
            let full = self.neighbours.len() >= NEIGHBOURS;
            if !fits || full || self.neighbours.contains_key(&id) || taken() || vacant() {
                continue;
            }
            cx.hold(record.contact);
            self.tell(&[record.contact], true, cx);
            self.neighbours.insert(id, Neighbour::new(record, false, cx.now));
        }
    }

    fn beat_of(&mut self, from: NodeId, beat: Beat, cx: &mut Ccx<'_>) {
        let absurd = |load: &Load| load.nodes >> 48 != 0 || load.waiting >> 56 != 0;
        if beat.upward.iter().any(absurd) {
            return cx.fault(from, "tells of more nodes than there can be".into());
        }
        match self.neighbours.get_mut(&from) {
            Some(known) if (known.record.life, known.record.version) == (beat.life, beat.version) => {
                (known.heard, known.waiting, known.upward) = (cx.now, beat.waiting, beat.upward);
            }
            Some(known) => {
                let contact = known.record.contact;
                self.tell(&[contact], true, cx);
            }
            // It is connected, so that the answer needs no address.
            None => {
                let (space, record) = (self.space, Box::new(self.record()));
                cx.send(from, Message::Zones { space, record, others: Vec::new(), asks: true });
            }
        }
    }

    pub(super) fn drop_neighbours(&mut self, which: impl Fn(&Neighbour) -> bool, cx: &mut Ccx<'_>) {
        let gone: Vec<NodeId> =
            self.neighbours.iter().filter(|(_, one)| which(one)).map(|(id, _)| *id).collect();
        for id in gone {
            self.neighbours.remove(&id);
            cx.release(id);
            self.takers_know = false;
        }
    }

    pub(super) fn unreachable(&mut self, peer: NodeId, cx: &mut Ccx<'_>) {
        self.fingers.forget(peer);
        self.vacate(peer, cx);
    }

    /// Looks which neighbours are silent.
    pub(super) fn miss(&mut self, cx: &mut Ccx<'_>) {
        let silent = |one: &&Neighbour| cx.now.since(one.heard) >= SILENCE;
        let gone: Vec<NodeId> =
            self.neighbours.values().filter(silent).map(|one| one.record.contact.id).collect();
        let all = gone.len() == self.neighbours.len();
        if all && gone.len() > 1 {
            // This node was cut off, rather than all others.
            self.lost = true;
            return;
        }
        gone.into_iter().for_each(|id| self.vacate(id, cx));
    }

    /// A neighbour is gone: its zones are vacant.
    pub(super) fn vacate(&mut self, id: NodeId, cx: &mut Ccx<'_>) {
        let Some(known) = self.neighbours.get_mut(&id) else { return };
        let (others, record) = (std::mem::take(&mut known.others), known.record.clone());
        let counts = known.direct && !known.disputed;
        self.drop_neighbours(|one| one.record.contact.id == id, cx);
        self.compare_claims();
        if counts || !others.is_empty() {
            self.vacant(&record, others, cx);
        }
    }

    /// Marks the neighbours whose claims contradict others' older ones.
    fn compare_claims(&mut self) {
        let all: Vec<&Neighbour> = self.neighbours.values().collect();
        let younger: Vec<bool> =
            all.iter().map(|one| all.iter().any(|other| is_younger(one, other))).collect();
        self.neighbours.values_mut().zip(younger).for_each(|(one, younger)| one.disputed = younger);
    }

    /// Tells neighbours of older claims to their zones.
    pub(super) fn dispute(&mut self, cx: &mut Ccx<'_>) {
        self.compare_claims();
        let mut stubborn = Vec::new();
        for one in self.neighbours.values().filter(|one| one.disputed && one.direct) {
            let since = one.since.iter().max().copied().unwrap_or_default();
            let age = cx.now.since(since);
            if age >= STUBBORN {
                stubborn.push(one.record.contact.id);
            }
            if age < SETTLED {
                continue;
            }
            if let Some(older) = self.neighbours.values().find(|other| is_younger(one, other)) {
                let record = Box::new(older.record.clone());
                cx.send_to(one.record.contact, Message::Disputed { space: self.space, record });
            }
        }
        for id in stubborn {
            cx.fault(id, "claims a zone of another node that is there".into());
            self.drop_neighbours(|one| one.record.contact.id == id, cx);
        }
    }

    /// A neighbour says that another node has an older claim to this node's zones: the two talk to each other.
    fn disputed(&mut self, from: NodeId, record: Record, cx: &mut Ccx<'_>) {
        // Nodes to which it would have handed a zone on are neighbours no more.
        let concerns = self.neighbours.contains_key(&from) || record.overlaps(&self.zones()[1..]);
        if !concerns || !record.is_valid() {
            return;
        }
        if record.contact.id != cx.me && record.overlaps(&self.zones()) {
            self.tell(&[record.contact], true, cx);
            self.doubt(&record);
        }
    }

    /// Another node claims zones: gives way in those that this node only holds, unless the other one only holds them,
    /// too, and has the greater id. Otherwise the other one hears whose they are.
    fn settle(&mut self, record: &Record, cx: &mut Ccx<'_>) {
        let claimed = |zone: &Zone| record.zones.iter().any(|one| one.overlap(zone).is_some());
        if self.zones().iter().all(|zone| !claimed(zone)) {
            return;
        }
        let gives_way = record.contact.id < cx.me;
        let (theirs, all) = (&record.zones[..1], &record.zones[..]);
        let stronger = if gives_way { all } else { theirs };
        let mut kept = Vec::new();
        let mut is_less = false;
        for held in self.held.drain(..) {
            let parts = held.zone.minus_all(stronger, super::ZONES_MAX);
            is_less |= parts != [held.zone];
            kept.extend(parts.into_iter().map(|zone| super::member::Held { zone, since: held.since }));
        }
        kept.truncate(super::ZONES_MAX - 1);
        self.held = kept;
        if is_less {
            self.changed(&[record.contact], cx);
        }
        let mine = self.zones();
        if record.overlaps(&mine) {
            self.tell(&[record.contact], false, cx);
            self.doubt(record);
        }
    }

    /// Two nodes are in one zone: a walk shows whom the others take for its owner.
    fn doubt(&mut self, other: &Record) {
        if let Some(common) = other.zones[0].overlap(&self.zone) {
            self.doubts = Some(common.lo);
        }
    }

    pub(super) fn contacts(&self) -> Vec<Contact> {
        self.neighbours.values().map(|one| one.record.contact).collect()
    }

    /// Asks around if no neighbour is known behind a part of a face.
    pub(super) fn find_gaps(&mut self, cx: &mut Ccx<'_>) {
        let Some((missing, face)) = self.gap() else {
            self.gap_since = None;
            return;
        };
        let since = *self.gap_since.get_or_insert(cx.now);
        let mut all = self.contacts();
        cx.rng.shuffle(&mut all);
        self.tell(&all[..all.len().min(2)], true, cx);
        // A walk from here may end at this very gap, one from elsewhere not.
        self.meet(missing.lo, None, cx);
        self.missing = Some(missing.lo);
        if cx.now.since(since) >= 15 * BEAT {
            self.claim_gap(missing, face, cx);
            self.gap_since = None;
        }
    }

    /// A place, one unit thick, behind a face of its zones that nobody is known to own.
    fn gap(&self) -> Option<(Zone, Face)> {
        let zones = self.zones();
        let disputes = self.neighbours.values().any(|one| one.disputed);
        // Areas that add up leave no gap, unless they overlap.
        let is_whole = |zone: &Zone, face: Face| {
            let others = self.neighbours.values().flat_map(|one| &one.record.zones).chain(&zones);
            others.map(|other| zone.shared_face(other, face)).sum::<u128>() == zone.face_area(face.dim)
        };
        let all = zones.iter().flat_map(|zone| Face::all().map(move |face| (zone, face)));
        let mut open = all.filter(|(zone, face)| disputes || !is_whole(zone, *face));
        open.find_map(|(zone, face)| Some((*self.unclaimed(&zone.beyond(face)?).first()?, face)))
    }

    /// Parts of a zone that nobody claims as far as this node knows.
    pub(super) fn unclaimed(&self, zone: &Zone) -> Vec<Zone> {
        let zones = self.zones();
        let others = self.neighbours.values().flat_map(|one| &one.record.zones);
        zone.minus_all(others.chain(&zones), 64)
    }

    pub(super) fn send_beats(&mut self, cx: &mut Ccx<'_>) {
        let (life, version) = self.life_and_version();
        let upward = std::array::from_fn(|dim| self.upward(dim));
        let beat = Beat { space: self.space, life, version, waiting: self.waiting, upward };
        for contact in self.contacts() {
            cx.send_to(contact, Message::Beat(beat.clone()));
        }
        let mut all = self.contacts();
        all.extend(self.fingers.contacts());
        if !all.is_empty() {
            let to = all[cx.rng.below(all.len() as u64) as usize];
            cx.send_to(to, Message::Sketch { space: self.space, sketch: self.sample.sketch(cx.now) });
        }
    }
}

/// Whether `one` claims a point of `other` that was the other's before: zones that a node only holds give way to those
/// that a node is in, then the later claim, then the greater id.
fn is_younger(one: &Neighbour, other: &Neighbour) -> bool {
    let id = |one: &Neighbour| one.record.contact.id;
    if id(one) == id(other) {
        return false;
    }
    let claims = |of: &Neighbour| -> Vec<(Zone, (bool, Time, NodeId))> {
        let all = of.record.zones.iter().zip(&of.since).enumerate();
        all.map(|(at, (zone, since))| (*zone, (at > 0, *since, id(of)))).collect()
    };
    let theirs = claims(other);
    claims(one)
        .iter()
        .any(|(zone, rank)| theirs.iter().any(|(other, its)| rank > its && zone.overlap(other).is_some()))
}
