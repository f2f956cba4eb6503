//! Placing of one job by load: at the least loaded candidate around the owner of its point, or beyond where less waits.
//!
//! Each node knows what waits beyond it in each dimension of a resource: its neighbours tell it, each shared out by face,
//! so that nobody counts twice. *Departure:* the paper says only that a fixed amount of load is told along each
//! dimension. The rule here is a threshold: a job is pushed one zone up the dimension with the least average load, while
//! that is below the load of the best node seen.

use super::find::FOUND_MAX;
use super::member::Member;
use super::message::{Errand, Load, Message, Walk};
use super::zone::{Coords, Face, RESOURCES};
use super::{BEAT, Ccx, Event};
use crate::address::Contact;
use crate::capability::{Candidate, Capability};
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};

/// Zones that a job is pushed over at most.
pub const PUSHES: u8 = 30;

/// One node or job in a [`Load`].
const ONE: u64 = 1 << 16;

/// A job on its way to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placing {
    needs: Capability,
    /// Goes on to regions with less load; otherwise only until there is a candidate.
    push: bool,
    steps: u8,
    /// The best node seen, and its load.
    best: Option<(Candidate, u32)>,
    /// Nodes to go back to when there is nothing above.
    climbed: Vec<u32>,
}

impl Placing {
    pub(super) fn new(needs: Capability, push: bool) -> Placing {
        Placing { needs, push, steps: 0, best: None, climbed: Vec::new() }
    }

    /// Whether a correct node could have sent it.
    pub fn is_valid(&self) -> bool {
        self.steps <= PUSHES
            && self.climbed.len() <= usize::from(PUSHES)
            && self.best.is_none_or(|(best, _)| best.capability.covers(&self.needs))
    }

    fn see(&mut self, one: Candidate, waiting: u32) {
        let is_better = self.best.is_none_or(|(_, least)| waiting < least);
        if is_better && one.capability.covers(&self.needs) {
            self.best = Some((one, waiting));
        }
    }
}

/// Whether it is at least as capable in all, and more in one.
fn is_above(one: &Capability, than: &Capability) -> bool {
    let pairs = || one.sizes().into_iter().zip(than.sizes());
    pairs().all(|(one, than)| one >= than) && pairs().any(|(one, than)| one > than)
}

fn brief(id: NodeId) -> u32 {
    id.0.first_chunk().map_or(0, |four| u32::from_le_bytes(*four))
}

impl Member {
    /// Load of the nodes beyond this one in a dimension, as its neighbours told it.
    pub(super) fn beyond(&self, dim: usize) -> Load {
        let face = Face { dim, up: true };
        let mut all = Load::default();
        for one in self.neighbours.values().filter(|one| one.direct && !one.disputed) {
            let whole: u128 = one.record.zones.iter().map(|zone| zone.face_area(dim)).sum();
            let mine = self.zones();
            let pairs = mine.iter().flat_map(|zone| one.record.zones.iter().map(move |its| (zone, its)));
            let shared: u128 = pairs.map(|(zone, its)| zone.shared_face(its, face)).sum();
            if shared == 0 {
                continue;
            }
            let share = ((shared << 16) / whole.max(1)).min(1 << 16);
            let part = |of: u64| ((u128::from(of) * share) >> 16) as u64;
            let upward = one.upward[dim];
            all.nodes = all.nodes.saturating_add(part(upward.nodes)).min(1 << 47);
            all.waiting = all.waiting.saturating_add(part(upward.waiting)).min(1 << 55);
        }
        all
    }

    /// Load of this node and of those beyond it.
    pub(super) fn upward(&self, dim: usize) -> Load {
        let mut all = self.beyond(dim);
        if self.capability.is_some() {
            all.nodes += ONE;
            all.waiting += u64::from(self.waiting) * ONE;
        }
        all
    }

    /// A job to be placed has come to this node.
    pub(super) fn place(
        &mut self,
        id: u64,
        origin: Contact,
        (to, hops): (Coords, u16),
        mut placing: Placing,
        cx: &mut Ccx<'_>,
    ) {
        let own = self.capability.unwrap_or_default();
        if let Some(capability) = self.capability {
            placing.see(Candidate { at: self.contact.into(), capability }, self.waiting);
        }
        for one in self.neighbours.values().filter(|one| one.direct && !one.disputed) {
            if let Some(capability) = one.record.capability.filter(|other| is_above(other, &own)) {
                placing.see(Candidate { at: one.record.contact.into(), capability }, one.waiting);
            }
        }
        placing.climbed.push(brief(cx.me));
        let next = if placing.steps < PUSHES { self.higher(to, &placing) } else { None };
        match next {
            Some(next) => {
                placing.steps += 1;
                let (space, arrived, errand) = (Some(self.space), true, Errand::Place(placing));
                let walk = Walk { id, origin, space, to, hops, arrived, errand };
                cx.send_to(next, Message::Walk(Box::new(walk)));
            }
            None => self.settle_on(id, origin, (to, hops), placing, cx),
        }
    }

    fn settle_on(
        &mut self,
        id: u64,
        origin: Contact,
        (to, hops): (Coords, u16),
        placing: Placing,
        cx: &mut Ccx<'_>,
    ) {
        let Some((best, _)) = placing.best else {
            // The climb ends below no capable node: all around is searched.
            let finding = super::Finding::new(placing.needs, FOUND_MAX.min(4));
            return self.search(id, origin, (to, hops), finding, &Default::default(), cx);
        };
        // It will say so itself in its next heartbeat; until then the next job counts this one.
        if let Some(known) = self.neighbours.get_mut(&best.at.id) {
            known.waiting = known.waiting.saturating_add(1);
        }
        let visited = u16::from(placing.steps) + 1;
        self.end(id, origin, hops, visited, vec![best], cx);
    }

    /// The zone to push a job to: one up the dimension with the least average load. None if nothing is gained.
    fn higher(&self, to: Coords, placing: &Placing) -> Option<Contact> {
        let least = placing.best.map_or(u64::MAX, |(_, waiting)| u64::from(waiting) * ONE);
        if placing.best.is_some() && !placing.push {
            return None;
        }
        let average = |dim: usize| {
            let load = self.beyond(dim);
            // Less than half a node is nobody.
            let nodes = Some(load.nodes).filter(|nodes| *nodes >= ONE / 2)?;
            Some((u128::from(load.waiting) * u128::from(ONE) / u128::from(nodes)) as u64)
        };
        let mut dims: Vec<(u64, usize)> = (0..RESOURCES)
            .filter_map(|dim| Some((average(dim)?, dim)))
            .filter(|(at, _)| *at < least)
            .collect();
        dims.sort_unstable();
        let up = |dim: usize| {
            let face = Face { dim, up: true };
            let beyond = self.zone.beyond(face)?.nearest(to);
            let others = self.neighbours.values().filter(|one| one.direct && !one.disputed);
            let others = others.filter(|one| !placing.climbed.contains(&brief(one.record.contact.id)));
            let above =
                others.filter(|one| one.record.zones.iter().any(|its| self.zone.shared_face(its, face) > 0));
            above.min_by_key(|one| one.record.distance(beyond)).map(|one| one.record.contact)
        };
        dims.into_iter().find_map(|(_, dim)| up(dim))
    }

    /// Asks the neighbour with the longest queue for a job, when this node has none.
    pub(super) fn steal(&mut self, cx: &mut Ccx<'_>) {
        let Some(capability) = self.capability.filter(|_| self.waiting == 0) else { return };
        let others = self.neighbours.values().filter(|one| one.direct && !one.disputed && one.waiting > 1);
        let Some(longest) = others.max_by_key(|one| (one.waiting, one.record.contact.id)) else { return };
        if cx.now.since(self.stole) >= BEAT / 2 {
            self.stole = cx.now;
            let message = Message::Steal { contact: self.contact, capability };
            cx.send_to(longest.record.contact, message);
        }
    }

    pub(super) fn stealing(
        &mut self,
        from: NodeId,
        contact: Contact,
        capability: Capability,
        cx: &mut Ccx<'_>,
    ) {
        let known = self.neighbours.get(&from).filter(|one| one.direct && one.record.contact == contact);
        if known.is_some_and(|one| one.record.capability == Some(capability)) && self.waiting > 1 {
            cx.emit(Event::Steal { by: contact, capability });
        }
    }
}
