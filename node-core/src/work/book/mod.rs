//! The book of an owner: which unit stands how, and which runner has it. Pure: it reads no clock, sends nothing
//! and knows neither jobs' descriptions nor checkpoints nor money.
//!
//! A unit is created at any time, and has as many placements at a time as it is to have copies. One function
//! changes units ([`Units`]), so that counters, the list of what is to be placed, and the list of what each
//! runner has always agree.

mod unit;
mod units;

#[cfg(test)]
mod tests;

pub use unit::{Back, Fetch, Placement, State, Unit};
pub use units::Units;

use crate::ids::{JobId, NodeId, UnitId};
use std::collections::{BTreeMap, BTreeSet};

/// The units of all jobs.
#[derive(Debug, Default)]
pub struct Book {
    jobs: BTreeMap<JobId, Units>,
    /// Units under the lease of each runner.
    granted: BTreeMap<NodeId, BTreeSet<UnitId>>,
    /// Tickets of what runners do not need any more.
    released: Vec<u64>,
}

impl Book {
    /// A job with so many units, each with so many placements at a time.
    pub fn begin(&mut self, job: JobId, units: u32, copies: u8, state: State) {
        self.forget(job);
        self.jobs.insert(job, Units::new(units, copies, state));
    }

    /// Nothing is left of the job.
    pub fn forget(&mut self, job: JobId) {
        self.recall(job);
        self.jobs.remove(&job);
    }

    pub fn units(&self, job: JobId) -> Option<&Units> {
        self.jobs.get(&job)
    }

    pub fn unit(&self, unit: UnitId) -> Option<Unit> {
        self.jobs.get(&unit.job)?.get(unit.index)
    }

    pub fn state(&self, unit: UnitId) -> Option<State> {
        self.unit(unit).map(|unit| unit.state)
    }

    /// Number of the job's units.
    pub fn len(&self, job: JobId) -> u32 {
        self.jobs.get(&job).map_or(0, Units::len)
    }

    /// Number of placements to be found for the job.
    pub fn open(&self, job: JobId) -> u32 {
        self.jobs.get(&job).map_or(0, Units::open)
    }

    /// Runner that has the unit; of several placements, that of the oldest.
    pub fn runner(&self, unit: UnitId) -> Option<NodeId> {
        self.jobs.get(&unit.job)?.placements(unit.index).next().map(|placement| placement.runner)
    }

    /// Runner that has the unit, or had it last.
    pub fn last_runner(&self, unit: UnitId) -> Option<NodeId> {
        self.jobs.get(&unit.job)?.last_runner(unit.index)
    }

    pub fn placement(&self, unit: UnitId, runner: NodeId) -> Option<&Placement> {
        self.jobs.get(&unit.job)?.placement(unit.index, runner)
    }

    /// Whether the unit is under this runner's lease.
    pub fn is_granted(&self, unit: UnitId, runner: NodeId) -> bool {
        self.placement(unit, runner).is_some_and(|placement| placement.granted)
    }

    /// Units under the lease of the runner.
    pub fn granted(&self, runner: NodeId) -> impl Iterator<Item = UnitId> + '_ {
        self.granted.get(&runner).into_iter().flatten().copied()
    }

    /// Number of units under the lease of the runner.
    pub fn granted_count(&self, runner: NodeId) -> u32 {
        self.granted.get(&runner).map_or(0, |units| units.len() as u32)
    }

    /// Whether a unit of the job is under the runner's lease.
    pub fn has_job(&self, runner: NodeId, job: JobId) -> bool {
        let its = UnitId { job, index: 0 }..=UnitId { job, index: u32::MAX };
        self.granted.get(&runner).is_some_and(|units| units.range(its).next().is_some())
    }

    /// Whether a runner gets what the unit goes on from.
    pub fn is_fetched(&self, unit: UnitId) -> bool {
        self.jobs.get(&unit.job).is_some_and(|of| of.placements(unit.index).any(|at| at.fetch.is_some()))
    }

    /// Tickets of what is not needed any more since the last call.
    pub fn released(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.released)
    }

    /// One more unit, which waits. `attempts`: how often it was placed in an earlier life, or by an earlier owner.
    pub fn add(&mut self, unit: UnitId, attempts: u32) {
        self.jobs.entry(unit.job).or_default().add(unit.index, attempts);
    }

    /// A unit that was added is not this owner's any more; those that came with the job stay.
    pub fn remove(&mut self, unit: UnitId) {
        if self.jobs.get(&unit.job).is_some_and(|units| units.was_added(unit.index)) {
            self.take_all(unit);
        }
        if let Some(units) = self.jobs.get_mut(&unit.job) {
            units.remove(unit.index);
        }
    }

    /// The next unit that lacks a placement, given to the runner: its index and the number of the placement.
    pub fn place_next(&mut self, job: JobId, runner: NodeId) -> Option<(u32, u32)> {
        let units = self.jobs.get_mut(&job)?;
        let index = units.next_for(runner)?;
        Some((index, units.place(index, runner)?))
    }

    /// A unit that waits, the first to be placed.
    pub fn next_waiting(&mut self, job: JobId) -> Option<u32> {
        self.jobs.get_mut(&job)?.next_waiting()
    }

    /// Gives the unit, if it lacks a placement, to the runner. Returns the number of the placement.
    pub fn place(&mut self, unit: UnitId, runner: NodeId) -> Option<u32> {
        self.jobs.get_mut(&unit.job)?.place(unit.index, runner)
    }

    /// The placement is under the runner's lease from now on.
    pub fn grant(&mut self, unit: UnitId, runner: NodeId) {
        let Some(units) = self.jobs.get_mut(&unit.job) else { return };
        if let Some(placement) = units.placement_mut(unit.index, runner) {
            placement.granted = true;
            self.granted.entry(runner).or_default().insert(unit);
        }
    }

    /// The unit stays there, but not under the runner's lease until it is granted again.
    pub fn ungrant(&mut self, unit: UnitId, runner: NodeId) {
        self.fetched(unit, runner);
        let Some(units) = self.jobs.get_mut(&unit.job) else { return };
        if let Some(placement) = units.placement_mut(unit.index, runner) {
            placement.granted = false;
            self.off_lease(unit, runner);
        }
    }

    /// The runner gets what the unit goes on from.
    pub fn fetches(&mut self, unit: UnitId, runner: NodeId, fetch: Fetch) {
        self.fetched(unit, runner);
        let Some(units) = self.jobs.get_mut(&unit.job) else { return };
        if let Some(placement) = units.placement_mut(unit.index, runner) {
            placement.fetch = Some(fetch);
        }
    }

    /// The runner has what the unit goes on from, or will not need it.
    pub fn fetched(&mut self, unit: UnitId, runner: NodeId) {
        let Some(units) = self.jobs.get_mut(&unit.job) else { return };
        let fetch = units.placement_mut(unit.index, runner).and_then(|placement| placement.fetch.take());
        self.released.extend(fetch.and_then(|fetch| fetch.ticket));
    }

    /// The unit does not run there any more; whether it was under the runner's lease. It waits again if that was
    /// its last placement.
    pub fn take(&mut self, unit: UnitId, runner: NodeId) -> bool {
        self.take_placement(unit, runner).is_some_and(|placement| placement.granted)
    }

    fn take_placement(&mut self, unit: UnitId, runner: NodeId) -> Option<Placement> {
        let placement = self.jobs.get_mut(&unit.job)?.take(unit.index, runner)?;
        self.off_lease(unit, runner);
        self.released.extend(placement.fetch.and_then(|fetch| fetch.ticket));
        Some(Placement { fetch: None, ..placement })
    }

    fn off_lease(&mut self, unit: UnitId, runner: NodeId) {
        if let Some(units) = self.granted.get_mut(&runner) {
            units.remove(&unit);
            if units.is_empty() {
                self.granted.remove(&runner);
            }
        }
    }

    /// Takes all placements of the unit; those that were under a lease.
    pub fn take_all(&mut self, unit: UnitId) -> Vec<Placement> {
        let Some(units) = self.jobs.get(&unit.job) else { return Vec::new() };
        let runners: Vec<NodeId> = units.placements(unit.index).map(|placement| placement.runner).collect();
        let taken = runners.into_iter().filter_map(|runner| self.take_placement(unit, runner));
        taken.filter(|placement| placement.granted).collect()
    }

    /// Takes all units of a job that is over from their runners; who had some under a lease.
    pub fn recall(&mut self, job: JobId) -> BTreeSet<NodeId> {
        let Some(units) = self.jobs.get(&job) else { return BTreeSet::new() };
        let placed: BTreeSet<u32> = units.all_placements().map(|(index, _)| index).collect();
        let taken = placed.into_iter().flat_map(|index| self.take_all(UnitId { job, index }));
        taken.map(|placement| placement.runner).collect()
    }

    /// A placed unit will not end at this runner. It is held after too many losses, so that a unit that takes
    /// nodes down stops doing so. Returns whether it was placed there.
    pub fn put_back(&mut self, unit: UnitId, runner: NodeId, back: Back<'_>, max_losses: u16) -> bool {
        if self.take_placement(unit, runner).is_none() {
            return false;
        }
        let why = match back {
            Back::Unharmed => return true,
            Back::Failed(why) | Back::Lost(why) => why,
        };
        let Some(units) = self.jobs.get_mut(&unit.job) else { return true };
        units.change(unit.index, |unit| unit.losses = unit.losses.saturating_add(1));
        let what = match back {
            Back::Lost(_) => {
                units.lost();
                "was lost with its runner"
            }
            _ => "came back without a result",
        };
        let lost = units.get(unit.index).filter(|now| now.losses >= max_losses);
        if let Some(Unit { state: State::Waiting, losses, .. }) = lost {
            units.set(unit.index, State::Held);
            units.note(unit.index, format!("{what} {losses} times, the last time because {why}"));
        }
        true
    }

    /// No place is sought for a unit that waits, until [`Book::end_wait`].
    pub fn wait(&mut self, unit: UnitId) {
        self.turn(unit, State::Waiting, State::Away);
    }

    /// It is waited for no longer.
    pub fn end_wait(&mut self, unit: UnitId) {
        self.turn(unit, State::Away, State::Waiting);
    }

    /// This node owns it now.
    pub fn come_back(&mut self, unit: UnitId) {
        self.turn(unit, State::Elsewhere, State::Waiting);
    }

    fn turn(&mut self, unit: UnitId, from: State, to: State) {
        if self.state(unit) == Some(from)
            && let Some(units) = self.jobs.get_mut(&unit.job)
        {
            units.set(unit.index, to);
        }
    }

    /// A unit that waits is not to be placed, for this reason; `barred`: because of the job's program.
    pub fn hold(&mut self, unit: UnitId, reason: String, barred: bool) {
        if self.state(unit) == Some(State::Waiting)
            && let Some(units) = self.jobs.get_mut(&unit.job)
        {
            units.change(unit.index, |unit| (unit.state, unit.barred) = (State::Held, barred));
            units.note(unit.index, reason);
        }
    }

    /// Units that are held because of the program wait again. Returns their indices.
    pub fn release_barred(&mut self, job: JobId) -> Vec<u32> {
        let Some(units) = self.jobs.get_mut(&job) else { return Vec::new() };
        let barred = units.barred();
        for (index, state) in &barred {
            units.change(*index, |unit| unit.barred = false);
            if *state == State::Held {
                units.set(*index, State::Waiting);
                units.forget_reason(*index);
            }
        }
        barred.into_iter().map(|(index, _)| index).collect()
    }

    /// It has come further than ever: what was lost with it before says nothing against it.
    pub fn progressed(&mut self, unit: UnitId) {
        self.change(unit, |unit| unit.losses = 0);
    }

    /// Placements of an earlier life count on, so that no two checkpoints have the same name.
    pub fn attempted(&mut self, unit: UnitId, attempts: u32) {
        self.change(unit, |unit| unit.attempts = unit.attempts.max(attempts));
    }

    fn change(&mut self, unit: UnitId, change: impl FnOnce(&mut Unit)) {
        if let Some(units) = self.jobs.get_mut(&unit.job) {
            units.change(unit.index, change);
        }
    }

    /// Notes that the unit waits for the content of this attempt's result; `false` if it did before.
    pub fn awaited(&mut self, unit: UnitId, attempt: u32) -> bool {
        let known = self.unit(unit).is_some_and(|unit| unit.awaited < attempt);
        self.change(unit, |unit| unit.awaited = unit.awaited.max(attempt));
        known
    }

    /// The content of a result has not come from the runner. Returns how often by now; 0 if the unit is not under
    /// its lease.
    pub fn content_failed(&mut self, unit: UnitId, runner: NodeId) -> u8 {
        let Some(units) = self.jobs.get_mut(&unit.job) else { return 0 };
        let Some(placement) = units.placement_mut(unit.index, runner).filter(|at| at.granted) else {
            return 0;
        };
        placement.unsent = placement.unsent.saturating_add(1);
        placement.unsent
    }

    /// A result has come, and its content: nobody else's counts while it is being stored. Returns the placements
    /// that the unit had under leases.
    pub fn store(&mut self, unit: UnitId) -> Vec<Placement> {
        let taken = self.take_all(unit);
        self.change(unit, |unit| unit.state = State::Storing);
        taken
    }

    /// The result could not be stored: the unit is where it was, or stands like this if nobody has it any more.
    pub fn not_stored(&mut self, unit: UnitId, taken: &[Placement], else_: State) {
        if self.state(unit) != Some(State::Storing) {
            return;
        }
        self.change(unit, |unit| unit.state = else_);
        for placement in taken {
            if let Some(units) = self.jobs.get_mut(&unit.job) {
                units.insert(unit.index, *placement);
            }
            self.grant(unit, placement.runner);
        }
    }

    /// This attempt ended badly at its runner, with retries left: the unit is placed again, unless it is.
    pub fn retry(&mut self, unit: UnitId, runner: NodeId, attempt: u32) {
        // A later placement may be at the same runner.
        if self.placement(unit, runner).is_some_and(|placement| placement.attempt == attempt) {
            self.take_placement(unit, runner);
        }
        self.change(unit, |unit| {
            unit.failures = unit.failures.saturating_add(1);
            unit.failed_attempt = attempt;
            if unit.placements == 0 {
                unit.state = State::Waiting;
            }
        });
    }

    /// The result is durable. `failure`: how it ended, if not well.
    pub fn end(&mut self, unit: UnitId, failure: Option<String>) {
        self.take_all(unit);
        let state = if failure.is_none() { State::Done } else { State::Failed };
        self.change(unit, |unit| unit.state = state);
        if let (Some(units), Some(failure)) = (self.jobs.get_mut(&unit.job), failure) {
            units.note(unit.index, failure);
        }
    }

    /// Panics unless all lists agree.
    pub fn check(&self) {
        let mut granted = 0;
        for (job, units) in &self.jobs {
            // Thorough checks on small jobs, cheap ones always: tests stay linear.
            if units.len() <= 256 {
                units.check();
            }
            for (index, placement) in units.all_placements().filter(|(_, placement)| placement.granted) {
                let its = self.granted.get(&placement.runner);
                let unit = UnitId { job: *job, index };
                assert!(its.is_some_and(|units| units.contains(&unit)), "{unit} is under its runner's lease");
                granted += 1;
            }
        }
        assert_eq!(
            granted,
            self.granted.values().map(BTreeSet::len).sum::<usize>(),
            "leases name what is placed"
        );
    }
}
