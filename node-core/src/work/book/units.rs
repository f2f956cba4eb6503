//! The units of one job.

use super::unit::{Placement, State, Unit};
use crate::ids::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Reasons of units kept in memory for lists; those of failed units are in the results on disk as well.
const REASONS_KEPT: usize = 1000;

/// The units of a job; of another gateway's job, those that this node owns.
#[derive(Debug, Default)]
pub struct Units {
    /// Those that came with the job, by index.
    all: Vec<Unit>,
    /// Those that came one by one.
    some: BTreeMap<u32, Unit>,
    counts: [u32; State::COUNT],
    /// Placements to be found.
    open: u64,
    /// Below it, every unit that lacks a placement is in `returned`.
    fresh: u32,
    /// Units that lack a placement and have stood otherwise before.
    returned: BTreeSet<u32>,
    /// By index and attempt.
    placements: BTreeMap<(u32, u32), Placement>,
    reasons: BTreeMap<u32, String>,
    /// Placements lost with their runner; not those that came back from one that is there.
    lost_placements: u64,
    runners: Vec<NodeId>,
    runner_index: BTreeMap<NodeId, u32>,
}

impl Units {
    pub(super) fn new(count: u32, copies: u8, state: State) -> Units {
        let unit = Unit::new(state, copies, 0);
        let mut units = Units { all: vec![unit; count as usize], ..Units::default() };
        units.counts[state as usize] = count;
        units.open = u64::from(count) * u64::from(unit.lacks());
        units
    }

    pub fn get(&self, index: u32) -> Option<Unit> {
        self.all.get(index as usize).or_else(|| self.some.get(&index)).copied()
    }

    pub fn len(&self) -> u32 {
        (self.all.len() + self.some.len()) as u32
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of units in this state.
    pub fn count(&self, state: State) -> u32 {
        self.counts[state as usize]
    }

    /// Number of placements to be found.
    pub fn open(&self) -> u32 {
        u32::try_from(self.open).unwrap_or(u32::MAX)
    }

    /// Number of units that have ended.
    pub fn ended(&self) -> u32 {
        self.count(State::Done) + self.count(State::Failed)
    }

    pub fn all_ended(&self) -> bool {
        self.ended() == self.len()
    }

    pub fn lost_placements(&self) -> u64 {
        self.lost_placements
    }

    /// Why the unit is held, or how it failed, for people.
    pub fn reason(&self, index: u32) -> Option<&str> {
        self.reasons.get(&index).map(String::as_str)
    }

    /// The reason of the first unit that has one.
    pub fn first_reason(&self) -> Option<(u32, &str)> {
        self.reasons.first_key_value().map(|(index, reason)| (*index, reason.as_str()))
    }

    /// Whether the node ever had a unit of the job, as far as this life of the owner knows.
    pub fn has_had(&self, node: NodeId) -> bool {
        self.runner_index.contains_key(&node)
    }

    /// Runner that has the unit, or had it last.
    pub fn last_runner(&self, index: u32) -> Option<NodeId> {
        self.runners.get(self.get(index)?.last as usize).copied()
    }

    /// The placements of the unit, the oldest first.
    pub fn placements(&self, index: u32) -> impl Iterator<Item = &Placement> {
        self.placements.range((index, 0)..=(index, u32::MAX)).map(|(_, placement)| placement)
    }

    pub fn placement(&self, index: u32, runner: NodeId) -> Option<&Placement> {
        self.placements(index).find(|placement| placement.runner == runner)
    }

    pub(super) fn placement_mut(&mut self, index: u32, runner: NodeId) -> Option<&mut Placement> {
        let mut its = self.placements.range_mut((index, 0)..=(index, u32::MAX));
        its.find(|(_, placement)| placement.runner == runner).map(|(_, placement)| placement)
    }

    /// The only place where a unit changes; counters follow.
    pub(super) fn change(&mut self, index: u32, change: impl FnOnce(&mut Unit)) {
        let unit = match self.all.get_mut(index as usize) {
            Some(unit) => unit,
            None => match self.some.get_mut(&index) {
                Some(unit) => unit,
                None => return,
            },
        };
        let old = *unit;
        change(unit);
        let new = *unit;
        self.counts[old.state as usize] -= 1;
        self.counts[new.state as usize] += 1;
        self.open = self.open - u64::from(old.lacks()) + u64::from(new.lacks());
        if old.lacks() == new.lacks() {
            return;
        }
        match new.lacks() {
            0 => self.returned.remove(&index),
            _ => self.returned.insert(index),
        };
    }

    pub(super) fn set(&mut self, index: u32, state: State) {
        self.change(index, |unit| unit.state = state);
    }

    /// One more unit, which waits; it may come at any time.
    pub(super) fn add(&mut self, index: u32, attempts: u32) {
        if self.get(index).is_none() {
            // Added as another's, so that its first state is a change like all others.
            self.some.insert(index, Unit::new(State::Elsewhere, 1, attempts));
            self.counts[State::Elsewhere as usize] += 1;
            self.set(index, State::Waiting);
        }
    }

    /// Whether the unit came by itself, after the job.
    pub(super) fn was_added(&self, index: u32) -> bool {
        self.some.contains_key(&index)
    }

    /// A unit that came one by one leaves; its placements have been taken.
    pub(super) fn remove(&mut self, index: u32) {
        if !self.was_added(index) {
            return;
        }
        self.set(index, State::Elsewhere);
        self.some.remove(&index);
        self.counts[State::Elsewhere as usize] -= 1;
        self.reasons.remove(&index);
    }

    /// A unit that lacks a placement and has none there: first those that were given back.
    pub(super) fn next_for(&mut self, runner: NodeId) -> Option<u32> {
        let has = |index: &&u32| self.placement(**index, runner).is_some();
        if let Some(index) = self.returned.iter().find(|index| !has(index)) {
            return Some(*index);
        }
        self.next_fresh()
    }

    /// A unit that waits: first those that were given back.
    pub(super) fn next_waiting(&mut self) -> Option<u32> {
        let waits = |index: &&u32| self.get(**index).is_some_and(|unit| unit.state == State::Waiting);
        match self.returned.iter().find(waits) {
            Some(index) => Some(*index),
            None => self.next_fresh(),
        }
    }

    /// The first unit that has never stood otherwise than waiting.
    fn next_fresh(&mut self) -> Option<u32> {
        while self.all.get(self.fresh as usize)?.state != State::Waiting {
            self.fresh += 1;
        }
        Some(self.fresh)
    }

    /// Gives the unit to the runner. Returns the number of the placement; none if it needs no more, or the runner
    /// has it.
    pub(super) fn place(&mut self, index: u32, runner: NodeId) -> Option<u32> {
        let unit = self.get(index).filter(|unit| unit.lacks() > 0)?;
        if self.placement(index, runner).is_some() {
            return None;
        }
        self.insert(
            index,
            Placement {
                runner,
                attempt: unit.attempts.saturating_add(1),
                granted: false,
                fetch: None,
                unsent: 0,
            },
        )
    }

    /// The unit has this placement. Returns its number.
    pub(super) fn insert(&mut self, index: u32, placement: Placement) -> Option<u32> {
        let Placement { runner, attempt, .. } = placement;
        let next = self.runners.len() as u32;
        let last = *self.runner_index.entry(runner).or_insert(next);
        if last == next {
            self.runners.push(runner);
        }
        if self.placements.insert((index, attempt), placement).is_some() {
            return None;
        }
        self.change(index, |unit| {
            unit.state = State::Placed;
            unit.placements += 1;
            unit.attempts = unit.attempts.max(attempt);
            unit.last = last;
        });
        Some(attempt)
    }

    /// The unit has this placement no longer; it waits again if that was the last.
    pub(super) fn take(&mut self, index: u32, runner: NodeId) -> Option<Placement> {
        let attempt = self.placement(index, runner)?.attempt;
        let taken = self.placements.remove(&(index, attempt))?;
        self.change(index, |unit| {
            unit.placements -= 1;
            if unit.placements == 0 && unit.state == State::Placed {
                unit.state = State::Waiting;
            }
        });
        Some(taken)
    }

    pub(super) fn lost(&mut self) {
        self.lost_placements += 1;
    }

    pub(super) fn note(&mut self, index: u32, reason: String) {
        if self.reasons.len() < REASONS_KEPT {
            self.reasons.insert(index, reason);
        }
    }

    pub(super) fn forget_reason(&mut self, index: u32) {
        self.reasons.remove(&index);
    }

    /// Units that are held because of the program, with their states.
    pub(super) fn barred(&self) -> Vec<(u32, State)> {
        let barred = self.iter().filter(|(_, unit)| unit.barred);
        barred.map(|(index, unit)| (index, unit.state)).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Unit)> {
        (0u32..).zip(&self.all).chain(self.some.iter().map(|(index, unit)| (*index, unit)))
    }

    /// Every placement, by unit.
    pub fn all_placements(&self) -> impl Iterator<Item = (u32, &Placement)> {
        self.placements.iter().map(|((index, _), placement)| (*index, placement))
    }

    /// Panics unless the counters follow the units.
    pub fn check(&self) {
        let (mut counts, mut open) = ([0; State::COUNT], 0);
        for (index, unit) in self.iter() {
            counts[unit.state as usize] += 1;
            open += u64::from(unit.lacks());
            assert_eq!(self.placements(index).count(), usize::from(unit.placements), "unit {index}");
            assert_eq!(unit.placements > 0, unit.state == State::Placed, "unit {index} is {unit:?}");
            assert!(unit.placements <= unit.copies, "unit {index} has more placements than it is to have");
            let found = self.returned.contains(&index) || index >= self.fresh;
            assert!(unit.lacks() == 0 || found, "unit {index} would be placed never more");
        }
        assert_eq!((self.counts, self.open), (counts, open), "counters follow the units' states");
    }
}
