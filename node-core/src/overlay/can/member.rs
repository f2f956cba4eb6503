//! A node of the space: its zones, and what it says of them.

use super::fingers::Fingers;
use super::message::{Message, RECORDS_MAX, Record, SpaceId, TAKERS, ZONES_MAX};
use super::neighbours::Neighbour;
use super::sketch::Sample;
use super::takeover::Vacancy;
use super::zone::{Coords, Zone};
use super::{BEAT, Ccx};
use crate::address::Contact;
use crate::capability::Capability;
use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeMap;

/// Zones of nodes that are gone, of which this node knows. Our choice: as many as it has neighbours at most; of more
/// the oldest are left to others.
pub(super) const VACANCIES: usize = 256;

/// A zone that this node holds for others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) zone: Zone,
    pub(super) since: Time,
}

/// This node in the space.
#[derive(Debug)]
pub struct Member {
    pub(super) space: SpaceId,
    pub(super) contact: Contact,
    pub(super) capability: Option<Capability>,
    pub(super) salt: u8,
    /// Jobs that wait at this node or run there.
    pub(super) waiting: u32,
    pub(super) coords: Coords,
    life: u64,
    version: u64,
    pub(super) zone: Zone,
    pub(super) held: Vec<Held>,
    takers: Vec<NodeId>,
    pub(super) neighbours: BTreeMap<NodeId, Neighbour>,
    /// Neighbours have changed since the takers heard of them.
    pub(super) takers_know: bool,
    pub(super) vacancies: Vec<Vacancy>,
    pub(super) fingers: Fingers,
    pub(super) sample: Sample,
    /// When this node looked around last.
    pub(super) looked: Time,
    /// Since when a part of a face has had no neighbour.
    pub(super) gap_since: Option<Time>,
    /// When it asked for a job of others last.
    pub(super) stole: Time,
    /// A point of its zone that another node may own.
    pub(super) doubts: Option<Coords>,
    /// A point beside its zones whose owner is to be found by way of the ring.
    pub(super) missing: Option<Coords>,
    /// It has lost the space and has to join anew.
    pub(super) lost: bool,
}

impl Member {
    pub(super) fn new(
        space: SpaceId,
        contact: Contact,
        (capability, salt): (Option<Capability>, u8),
        zone: Zone,
        cx: &mut Ccx<'_>,
    ) -> Member {
        Member {
            space,
            contact,
            capability,
            salt,
            waiting: 0,
            coords: Coords::of_node(contact.id, &capability.unwrap_or_default(), salt),
            life: cx.rng.u64(),
            version: 1,
            zone,
            held: Vec::new(),
            takers: Vec::new(),
            neighbours: BTreeMap::new(),
            takers_know: false,
            vacancies: Vec::new(),
            fingers: Fingers::default(),
            sample: Sample::default(),
            looked: cx.now,
            gap_since: None,
            stole: Time::ZERO,
            doubts: None,
            missing: None,
            lost: false,
        }
    }

    /// All its zones, its own first.
    pub fn zones(&self) -> Vec<Zone> {
        std::iter::once(self.zone).chain(self.held.iter().map(|held| held.zone)).collect()
    }

    pub fn space(&self) -> SpaceId {
        self.space
    }

    /// Its point, which lies in its own zone.
    pub fn coords(&self) -> Coords {
        self.coords
    }

    pub fn owns(&self, at: Coords) -> bool {
        self.zone.contains(at) || self.held.iter().any(|held| held.zone.contains(at))
    }

    pub(super) fn record(&self) -> Record {
        Record {
            contact: self.contact,
            life: self.life,
            version: self.version,
            capability: self.capability,
            salt: self.salt,
            zones: self.zones(),
            takers: self.takers.clone(),
        }
    }

    pub(super) fn life_and_version(&self) -> (u64, u64) {
        (self.life, self.version)
    }

    /// Tells these nodes its zones.
    pub(super) fn tell(&self, to: &[Contact], asks: bool, cx: &mut Ccx<'_>) {
        for contact in to.iter().filter(|contact| contact.id != self.contact.id) {
            let record = Box::new(self.record());
            cx.send_to(*contact, Message::Zones { space: self.space, record, others: Vec::new(), asks });
        }
    }

    /// Its zones have changed: its neighbours hear of it, those that are none any more for the last time, and `also`.
    pub(super) fn changed(&mut self, also: &[Contact], cx: &mut Ccx<'_>) {
        self.version += 1;
        self.takers_know = false;
        let mut all: Vec<Contact> = self.neighbours.values().map(|one| one.record.contact).collect();
        all.extend(also);
        all.sort_unstable();
        all.dedup();
        self.tell(&all, false, cx);
        let zones = self.zones();
        self.drop_neighbours(|one| !one.record.abuts(&zones), cx);
    }

    /// Names the neighbours with the smallest zones as those that take over, and tells them who the neighbours are.
    pub(super) fn name_takers(&mut self, cx: &mut Ccx<'_>) {
        let volume = |one: &Neighbour| one.record.zones.iter().map(Zone::volume).sum::<u128>();
        let certain = self.neighbours.iter().filter(|(_, one)| one.direct && !one.disputed);
        let mut by_volume: Vec<_> = certain.map(|(id, one)| (volume(one), *id)).collect();
        by_volume.sort_unstable();
        let takers: Vec<NodeId> = by_volume.into_iter().take(TAKERS).map(|(_, id)| id).collect();
        if takers != self.takers {
            self.takers = takers;
            self.changed(&[], cx);
        }
        if !std::mem::replace(&mut self.takers_know, true) {
            for taker in self.takers.clone() {
                let Some(contact) = self.neighbours.get(&taker).map(|one| one.record.contact) else {
                    continue;
                };
                let others = self.records(|record| record.contact.id != taker);
                let record = Box::new(self.record());
                let space = self.space;
                cx.send_to(contact, Message::Zones { space, record, others, asks: false });
            }
        }
    }

    /// Records of neighbours of which it has just heard.
    pub(super) fn records(&self, which: impl Fn(&Record) -> bool) -> Vec<Record> {
        let certain = self.neighbours.values().filter(|one| one.direct && !one.disputed);
        certain.map(|one| &one.record).filter(|record| which(record)).take(RECORDS_MAX).cloned().collect()
    }

    /// Grants the owner of a point that joins its part of a zone: none if this node has that very point.
    pub(super) fn split_for(&mut self, theirs: Coords) -> Option<Zone> {
        if let Some(at) = self.held.iter().position(|held| held.zone.contains(theirs)) {
            return Some(self.held.remove(at).zone);
        }
        let (mine, granted) = self.zone.between(self.coords, theirs)?;
        self.zone = mine;
        Some(granted)
    }

    /// Panics if its state contradicts itself.
    pub(super) fn check(&self) {
        assert!(self.zone.contains(self.coords), "a node is in its own zone");
        assert!(self.held.len() < ZONES_MAX, "zones are bounded");
        let zones = self.zones();
        let apart = |at: usize| zones[..at].iter().all(|one| one.overlap(&zones[at]).is_none());
        assert!((1..zones.len()).all(apart), "zones of a node do not overlap");
        assert!(self.neighbours.len() <= super::NEIGHBOURS, "neighbours are bounded");
        assert!(self.vacancies.len() <= VACANCIES, "vacancies are bounded");
    }

    /// Looks around: all that is done once a heartbeat.
    pub(super) fn beat(&mut self, has_fingers: bool, cx: &mut Ccx<'_>) {
        self.sample.note(self.contact.id, self.capability, cx.now);
        let slept = cx.now.since(std::mem::replace(&mut self.looked, cx.now)) > 3 * BEAT;
        if slept {
            // Others were not silent, this node was: it may have lost its zone.
            self.neighbours.values_mut().for_each(|one| one.heard = cx.now);
            self.doubts = Some(self.coords);
        }
        self.miss(cx);
        self.take_over(cx);
        self.hand_on(cx);
        self.find_gaps(cx);
        self.dispute(cx);
        self.name_takers(cx);
        self.send_beats(cx);
        if has_fingers {
            self.ask_fingers(cx);
        }
        self.steal(cx);
    }
}
