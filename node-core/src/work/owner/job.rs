//! A job as its owner keeps it in memory: the spec, and a few bytes a unit.

use super::avoid::Avoided;
use super::deals::Deals;
use super::delegation::{OnRing, Ownership};
use super::record::UnitRecord;
use super::refusing::Refusals;
use crate::address::Address;
use crate::engine::SealKey;
use crate::ids::{JobId, NodeId};
use crate::progress::{Journey, Resume};
use crate::work::message::{Batch, UnitGrant};
use crate::work::proof::GrantKey;
use crate::work::spec::{JobSpec, OwnedBy, UnitResult, UnitSpec, Units};
use crate::work::weight;
use sandbox::End;
use std::collections::{BTreeMap, BTreeSet};

/// Reasons of failed units kept in memory for lists; all are in the results on disk.
const REASONS_KEPT: usize = 1000;

/// Journeys of ended units kept in memory for lists, likewise.
const JOURNEYS_KEPT: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    Waiting,
    Placed,
    /// Its result is here and on its way to the disk.
    Storing,
    Done,
    Failed,
    Held,
    /// Its runner, or who keeps its checkpoint, is waited for.
    Away,
    /// Another node owns it, or is being looked for that does.
    Elsewhere,
}

impl SlotState {
    pub(super) fn has_ended(self) -> bool {
        matches!(self, SlotState::Done | SlotState::Failed)
    }
}

/// One unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) state: SlotState,
    /// Times that it ended badly.
    pub(super) failures: u16,
    /// Times that it was lost with its runner, or failed there without a result.
    pub(super) losses: u16,
    pub(super) attempts: u32,
    /// The newest attempt whose failure has counted; 0: none has.
    pub(super) failed_attempt: u32,
    /// Held because the job's program is refused.
    barred: bool,
    /// The newest attempt for the content of whose result the unit has waited; 0: for none.
    awaited: u32,
    /// Index into [`Job::runners`].
    runner: u32,
}

const NOBODY: u32 = u32::MAX;

/// Bytes of memory that a job takes, about.
pub(super) fn weight_of(spec: &JobSpec) -> u64 {
    let slots = u64::from(spec.units.count()) * size_of::<Slot>() as u64;
    weight::of_job(spec) + slots
}

impl Slot {
    fn new(state: SlotState, attempts: u32) -> Slot {
        Slot {
            state,
            failures: 0,
            losses: 0,
            attempts,
            failed_attempt: 0,
            barred: false,
            awaited: 0,
            runner: NOBODY,
        }
    }
}

/// The units of a job; of another's, those that this node owns.
#[derive(Debug)]
struct Slots {
    all: Vec<Slot>,
    some: BTreeMap<u32, Slot>,
}

impl Slots {
    fn get(&self, index: u32) -> Option<&Slot> {
        self.all.get(index as usize).or_else(|| self.some.get(&index))
    }

    fn get_mut(&mut self, index: u32) -> Option<&mut Slot> {
        match self.all.get_mut(index as usize) {
            Some(slot) => Some(slot),
            None => self.some.get_mut(&index),
        }
    }

    fn len(&self) -> u32 {
        (self.all.len() + self.some.len()) as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its blobs are being fetched or its record written; not yet promised to anybody.
    Accepting,
    Active,
    Over {
        cancelled: bool,
    },
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) spec: JobSpec,
    pub(super) client: NodeId,
    /// Secret from which the keys of the job's units are derived.
    pub(super) secret: [u8; 32],
    pub(super) submitted_ms: u64,
    pub(super) ended_ms: Option<u64>,
    pub(super) phase: Phase,
    /// It came to an earlier life of this node, which may have placed its units.
    pub(super) restored: bool,
    slots: Slots,
    /// Below it, every waiting unit is in `returned`.
    fresh: u32,
    returned: BTreeSet<u32>,
    pub(super) placed: u32,
    pub(super) storing: u32,
    pub(super) done: u32,
    pub(super) failed: u32,
    pub(super) held: u32,
    pub(super) away: u32,
    pub(super) elsewhere: u32,
    pub(super) duplicates: u64,
    pub(super) lost_placements: u64,
    pub(super) cpu_us: u64,
    pub(super) by_node: BTreeMap<NodeId, (u64, u64)>,
    pub(super) reasons: BTreeMap<u32, String>,
    /// Why units wait, as the finder said last.
    pub(super) shortage: Option<String>,
    /// The query for which the swarm is being searched.
    pub(super) asking: Option<u64>,
    /// The last search of the swarm found no free slot.
    pub(super) nowhere: bool,
    /// Runners at which its units fail.
    pub(super) avoided: Avoided,
    /// Runners that refuse its program.
    pub(super) refusals: Refusals,
    /// Units of which there is a checkpoint.
    pub(super) records: BTreeMap<u32, Box<UnitRecord>>,
    /// The ways of units that have ended and went some.
    pub(super) journeys: BTreeMap<u32, Box<Journey>>,
    pub(super) paused: BTreeSet<u32>,
    /// Units of which these nodes say that they have ended, and whose results' content is on its way.
    pub(super) coming: BTreeMap<u32, NodeId>,
    /// If it buys its places.
    pub(super) deals: Option<Box<Deals>>,
    /// Owners of its units, if the ring names them.
    pub(super) ring: Option<Box<OnRing>>,
    /// Ownership record, if these are units of another gateway.
    pub(super) delegated: Option<Box<Ownership>>,
    /// Bytes of memory, about, units of other gateways aside.
    pub(super) weight: u64,
    runners: Vec<NodeId>,
    runner_index: BTreeMap<NodeId, u32>,
}

/// How a placed unit comes back without a result. The reasons are sentences for people.
#[derive(Clone, Copy, Debug)]
pub(super) enum Back<'a> {
    /// Its runner has not begun it, or somebody wished it back.
    Unharmed,
    /// Its runner tried to run it and could not; the runner is there.
    Failed(&'a str),
    /// Its runner is gone.
    Lost(&'a str),
}

impl Job {
    pub(super) fn new(spec: JobSpec, client: NodeId, submitted_ms: u64, secret: [u8; 32]) -> Job {
        let ring = (spec.owner == OwnedBy::Ring).then(Box::<OnRing>::default);
        let state = if ring.is_some() { SlotState::Elsewhere } else { SlotState::Waiting };
        let units = spec.units.count();
        let slots = Slots { all: vec![Slot::new(state, 0); units as usize], some: BTreeMap::new() };
        let deals = Deals::of(&spec);
        Job {
            weight: weight_of(&spec),
            deals,
            spec,
            client,
            secret,
            submitted_ms,
            ended_ms: None,
            phase: Phase::Accepting,
            restored: false,
            slots,
            fresh: 0,
            returned: BTreeSet::new(),
            placed: 0,
            storing: 0,
            done: 0,
            failed: 0,
            held: 0,
            away: 0,
            elsewhere: if ring.is_some() { units } else { 0 },
            duplicates: 0,
            lost_placements: 0,
            cpu_us: 0,
            by_node: BTreeMap::new(),
            reasons: BTreeMap::new(),
            shortage: None,
            asking: None,
            nowhere: false,
            avoided: Avoided::default(),
            refusals: Refusals::default(),
            records: BTreeMap::new(),
            journeys: BTreeMap::new(),
            paused: BTreeSet::new(),
            coming: BTreeMap::new(),
            ring,
            delegated: None,
            runners: Vec::new(),
            runner_index: BTreeMap::new(),
        }
    }

    pub(super) fn units(&self) -> u32 {
        self.slots.len()
    }

    pub(super) fn slot(&self, index: u32) -> Option<Slot> {
        self.slots.get(index).copied()
    }

    pub(super) fn runner_of(&self, index: u32) -> Option<NodeId> {
        self.runners.get(self.slots.get(index)?.runner as usize).copied()
    }

    /// Whether the node surely never had a unit of the job: this life of its one owner has placed all of them.
    pub(super) fn is_stranger(&self, node: NodeId) -> bool {
        let only_here = !self.restored && self.ring.is_none() && self.delegated.is_none();
        only_here && !self.runner_index.contains_key(&node)
    }

    pub(super) fn waiting(&self) -> u32 {
        let placed = self.placed + self.storing + self.elsewhere;
        self.units() - placed - self.done - self.failed - self.held - self.away
    }

    pub(super) fn all_ended(&self) -> bool {
        self.done + self.failed == self.units()
    }

    /// Whether its units are known to be short. What runners say of their processor time decides
    /// only where units wait.
    pub(super) fn is_short(&self) -> bool {
        let ended = u64::from(self.done + self.failed);
        ended > 0 && self.cpu_us / ended <= crate::work::SHORT.as_micros() as u64
    }

    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    fn counter(&mut self, state: SlotState) -> Option<&mut u32> {
        Some(match state {
            SlotState::Waiting => return None,
            SlotState::Placed => &mut self.placed,
            SlotState::Storing => &mut self.storing,
            SlotState::Done => &mut self.done,
            SlotState::Failed => &mut self.failed,
            SlotState::Held => &mut self.held,
            SlotState::Away => &mut self.away,
            SlotState::Elsewhere => &mut self.elsewhere,
        })
    }

    /// The only place where a unit changes its state.
    fn set(&mut self, index: u32, state: SlotState) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let old = std::mem::replace(&mut slot.state, state);
        if let Some(n) = self.counter(old) {
            *n -= 1;
        }
        if let Some(n) = self.counter(state) {
            *n += 1;
        }
        if state == SlotState::Waiting {
            self.returned.insert(index);
        } else if old == SlotState::Waiting {
            self.returned.remove(&index);
        }
    }

    /// A unit that waits: first those that were given back.
    pub(super) fn next_waiting(&mut self) -> Option<u32> {
        if let Some(&index) = self.returned.first() {
            return Some(index);
        }
        while self.slots.all.get(self.fresh as usize)?.state != SlotState::Waiting {
            self.fresh += 1;
        }
        Some(self.fresh)
    }

    /// The next waiting unit, given to `runner`.
    pub(super) fn place_next(&mut self, runner: NodeId) -> Option<u32> {
        let index = self.next_waiting()?;
        self.place_at(index, runner);
        Some(index)
    }

    /// This unit, which waits, given to `runner`.
    pub(super) fn place_at(&mut self, index: u32, runner: NodeId) {
        let next = self.runners.len() as u32;
        let by = *self.runner_index.entry(runner).or_insert(next);
        if by == next {
            self.runners.push(runner);
        }
        self.set(index, SlotState::Placed);
        if let Some(slot) = self.slots.get_mut(index) {
            slot.attempts += 1;
            slot.runner = by;
        }
    }

    /// This node owns it now.
    pub(super) fn come_home(&mut self, index: u32) {
        if self.slot(index).is_some_and(|slot| slot.state == SlotState::Elsewhere) {
            self.set(index, SlotState::Waiting);
        }
    }

    /// One more unit of another gateway's.
    pub(super) fn take_delegated(&mut self, index: u32, attempts: u32) {
        self.slots.some.insert(index, Slot::new(SlotState::Elsewhere, attempts));
        self.elsewhere += 1;
        self.set(index, SlotState::Waiting);
    }

    /// It is not this node's any more.
    pub(super) fn drop_delegated(&mut self, index: u32) {
        self.set(index, SlotState::Elsewhere);
        self.elsewhere -= u32::from(self.slots.some.remove(&index).is_some());
        self.records.remove(&index);
        self.paused.remove(&index);
        self.coming.remove(&index);
        self.reasons.remove(&index);
        self.journeys.remove(&index);
    }

    /// It is not to be placed, for this reason.
    pub(super) fn hold(&mut self, index: u32, reason: String) {
        self.set(index, SlotState::Held);
        self.note(index, reason);
    }

    /// It is held because of the program, or not any more.
    pub(super) fn bar(&mut self, index: u32, barred: bool) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.barred = barred;
        }
    }

    /// Units that are held because of the program wait again. Returns their indices.
    pub(super) fn release_barred(&mut self) -> Vec<u32> {
        let all =
            (0u32..).zip(&self.slots.all).chain(self.slots.some.iter().map(|(index, slot)| (*index, slot)));
        let barred = all.filter(|(_, slot)| slot.barred).map(|(index, slot)| (index, slot.state));
        let barred: Vec<(u32, SlotState)> = barred.collect();
        for (index, state) in &barred {
            self.bar(*index, false);
            if *state == SlotState::Held {
                self.set(*index, SlotState::Waiting);
                self.reasons.remove(index);
            }
        }
        barred.into_iter().map(|(index, _)| index).collect()
    }

    /// A unit that is placed, or waits, is not looked a place for now.
    pub(super) fn set_away(&mut self, index: u32) {
        if self.slot(index).is_some_and(|s| matches!(s.state, SlotState::Placed | SlotState::Waiting)) {
            self.set(index, SlotState::Away);
        }
    }

    /// It is waited for no longer.
    pub(super) fn end_away(&mut self, index: u32) {
        if self.slot(index).is_some_and(|s| s.state == SlotState::Away) {
            self.set(index, SlotState::Waiting);
        }
    }

    /// It has come further than ever: what was lost with it before says nothing against it.
    pub(super) fn progressed(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.losses = 0;
        }
    }

    /// Placements of an earlier life count on, so that no two checkpoints have the same name.
    pub(super) fn attempted(&mut self, index: u32, attempts: u32) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.attempts = slot.attempts.max(attempts);
        }
    }

    /// Notes that the unit waits for the content of this attempt's result; `false` if it did before.
    pub(super) fn awaited(&mut self, index: u32, attempt: u32) -> bool {
        let slot = self.slots.get_mut(index).filter(|slot| slot.awaited < attempt);
        slot.map(|slot| slot.awaited = attempt).is_some()
    }

    /// The unit as it is given to a runner.
    pub(super) fn unit_grant(&self, index: u32, resume: Option<Box<Resume>>) -> UnitGrant {
        let spec = self.unit_spec(index);
        let attempt = self.slot(index).map_or(1, |slot| slot.attempts);
        let seller = self.runner_of(index);
        let sold = self.deals.as_ref().zip(seller);
        let price = sold.and_then(|(deals, seller)| deals.price(index, seller)).unwrap_or_default();
        let receipt = sold.and_then(|(deals, seller)| deals.receipt(index, seller)).cloned();
        let keeper = sold.and_then(|(deals, seller)| deals.keeper(index, seller));
        let proof = seller.map(|runner| self.grants(index).proof(runner, attempt)).unwrap_or_default();
        UnitGrant { index, attempt, proof, spec, key: self.key(index), resume, price, receipt, keeper }
    }

    pub(super) fn unit_spec(&self, index: u32) -> Option<UnitSpec> {
        match (&self.delegated, &self.spec.units) {
            (Some(delegated), _) => delegated.of(index)?.spec.clone(),
            (None, Units::Sweep { .. }) => None,
            (None, Units::List(list)) => list.get(index as usize).cloned(),
        }
    }

    pub(super) fn sweep_first(&self) -> Option<u64> {
        match (&self.delegated, &self.spec.units) {
            (Some(delegated), _) => delegated.sweep_first,
            (None, Units::Sweep { first, .. }) => Some(*first),
            (None, Units::List(_)) => None,
        }
    }

    /// Units of the job, which is called `id`, as they are given to a runner.
    pub(super) fn batch(&self, id: JobId, keepers: Vec<Address>, units: Vec<UnitGrant>) -> Batch {
        let sweep_first = self.sweep_first();
        let (name, template) = (self.spec.name.clone(), self.spec.template.clone());
        let home = self.delegated.as_ref().map(|ownership| ownership.home());
        Batch { job: id, name, template, sweep_first, keepers, units, home }
    }

    /// Key with which the unit's snapshots are sealed.
    pub(super) fn key(&self, index: u32) -> SealKey {
        if let Some(delegated) = &self.delegated {
            return delegated.of(index).map(|delegated| delegated.key).unwrap_or_default();
        }
        SealKey(*blake3::keyed_hash(&self.secret, &index.to_be_bytes()).as_bytes())
    }

    /// The key for the proofs of the unit's grants.
    pub(super) fn grants(&self, index: u32) -> GrantKey {
        match &self.delegated {
            Some(delegated) => delegated.of(index).map(|delegated| delegated.grants).unwrap_or_default(),
            None => GrantKey::of(&self.secret, index),
        }
    }

    /// A placed unit will not end where it is. Held after too many losses, so that a unit that takes
    /// nodes down stops doing so.
    pub(super) fn put_back(&mut self, index: u32, back: Back<'_>, max_losses: u16) {
        if self.slot(index).is_none_or(|s| s.state != SlotState::Placed) {
            return;
        }
        let Some(slot) = self.slots.get_mut(index) else { return };
        let why = match back {
            Back::Unharmed => None,
            Back::Failed(why) | Back::Lost(why) => Some(why),
        };
        if why.is_some() {
            slot.losses = slot.losses.saturating_add(1);
        }
        let losses = slot.losses;
        self.lost_placements += u64::from(matches!(back, Back::Lost(_)));
        if let Some(why) = why.filter(|_| losses >= max_losses) {
            self.set(index, SlotState::Held);
            let what = match back {
                Back::Lost(_) => "was lost with its runner",
                _ => "came back without a result",
            };
            self.note(index, format!("{what} {losses} times, the last time because {why}"));
        } else {
            self.set(index, SlotState::Waiting);
        }
    }

    /// A result has come, and its content: nobody else's will count while it is being stored.
    pub(super) fn storing(&mut self, index: u32) {
        self.set(index, SlotState::Storing);
    }

    /// The result could not be stored; its runner will send it again.
    pub(super) fn not_stored(&mut self, index: u32, still_leased: bool) {
        if self.slot(index).is_some_and(|s| s.state == SlotState::Storing) {
            let on_ring = self.ring.as_ref().is_some_and(|ring| ring.is_out(index));
            self.set(
                index,
                match still_leased {
                    true => SlotState::Placed,
                    false if on_ring => SlotState::Elsewhere,
                    false => SlotState::Waiting,
                },
            );
        }
    }

    /// Ended badly, with retries left: back to the waiting.
    pub(super) fn retry(&mut self, index: u32, attempt: u32) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.failures += 1;
            slot.failed_attempt = attempt;
        }
        self.set(index, SlotState::Waiting);
    }

    /// The result is durable.
    pub(super) fn end(&mut self, index: u32, result: &UnitResult) {
        let good = result.end.is_success();
        self.avoided.ran_well(result.runner);
        self.set(index, if good { SlotState::Done } else { SlotState::Failed });
        self.cpu_us = self.cpu_us.saturating_add(result.cpu_us);
        if let Some(deals) = &mut self.deals {
            deals.pay(result.paid);
        }
        let by = self.by_node.entry(result.runner).or_default();
        by.0 += 1;
        by.1 = by.1.saturating_add(result.cpu_us);
        if !good {
            self.note(index, result.end.to_string());
        }
        if let Some(journey) = result.journey.as_ref().filter(|_| self.journeys.len() < JOURNEYS_KEPT) {
            self.journeys.insert(index, journey.clone());
        }
    }

    /// From the disk, at start: the unit had ended before.
    pub(super) fn restore(&mut self, index: u32, result: &UnitResult) {
        if self.slot(index).is_some_and(|s| !s.state.has_ended()) {
            self.attempted(index, result.attempts);
            self.refusals.runs |= !matches!(result.end, End::Refused(_));
            self.end(index, result);
        }
    }

    fn note(&mut self, index: u32, reason: String) {
        if self.reasons.len() < REASONS_KEPT {
            self.reasons.insert(index, reason);
        }
    }

    pub(super) fn check(&self) {
        let mut counted = [0u32; 8];
        for slot in self.slots.all.iter().chain(self.slots.some.values()) {
            counted[slot.state as usize] += 1;
        }
        let ended = [self.done, self.failed, self.held];
        let others = [self.away, self.elsewhere];
        let kept = [&[self.waiting(), self.placed, self.storing], &ended[..], &others].concat();
        assert_eq!(counted[..], kept, "counters follow the units' states");
    }
}
