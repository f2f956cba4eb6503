//! The owner's records of its units' checkpoints: which is the newest, which nodes have it, and the one before
//! it. Records are written down in batches, one under way at a time.
//!
//! Only units that have a checkpoint have a record. That of the first instruction is the job's own
//! record: program, arguments and inputs.

use super::nodes::{self, Start, is_here};
use super::{Event, Owner, Pending, Timer};
use crate::disk::{self, Write};
use crate::ids::{JobId, NodeId, UnitId};
use crate::progress::{Made, Version};
use crate::protocol::Cx;
use crate::work::book::{Back, State};
use crate::work::bounds;
use crate::work::message::{Keep, KeepTerms, ToKeeper, ToRunner};
use crate::work::unit_record::{Noted, Told, UnitRecord};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Room in a snapshot for tables, locals and open files, beside memory and output, bytes. Our choice: far above
/// what compilers make.
const BESIDE: u64 = 64 << 20;

/// How long a unit waits for somebody who has its checkpoint before it starts anew. Our choice:
/// a machine restarts in that time.
const MISSING: Duration = Duration::from_secs(120);

/// Checkpoints that a second keeper was asked to keep, and did not, until another is asked. Our choice: a large one
/// may still be on its way when the next is there.
const TRIES: u8 = 2;

/// Between looks for them.
const MISSING_LOOK: Duration = Duration::from_secs(20);

/// Records that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Records {
    dirty: BTreeSet<UnitId>,
    /// Nodes to notify once the rows are durable.
    told: Vec<(UnitId, NodeId, Version)>,
    writing: bool,
}

impl Owner {
    /// From a runner: keepers have these.
    pub(super) fn checkpoints(&mut self, from: NodeId, made: Vec<Made>, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() {
            // It is said again.
            return;
        }
        let mut over = Vec::new();
        for made in made {
            let unit = made.unit;
            if self.is_of_stranger(from, unit, cx) {
                continue;
            }
            if self.is_placed(unit, from) || self.is_newest(unit, from, &made) {
                // Where nobody else keeps checkpoints, those of threads count all the same.
                let alone = made.kept.is_empty() && made.marks.is_some();
                self.note(from, made, if alone { std::slice::from_ref(&from) } else { &[] }, cx);
                self.hand_over(unit, cx);
            } else if !self.awaits(unit) && !self.delegation.has_copy(unit) {
                over.push(unit);
            }
        }
        if !over.is_empty() {
            Self::to_runner(from, ToRunner::Forget { units: over }, cx);
        }
    }

    /// Whether the sender never had a unit of the job, which is a fault then.
    pub(super) fn is_of_stranger(&self, from: NodeId, unit: UnitId, cx: &mut Cx<'_, Self>) -> bool {
        // Runners are not all known of a job that another node or an earlier life of this one has placed.
        let knows_all = self.jobs.get(&unit.job).is_some_and(|job| job.is_active() && job.is_only_here());
        let is_stranger = knows_all && self.book.units(unit.job).is_some_and(|units| !units.has_had(from));
        if is_stranger {
            let fault = format!("says how {unit} stands, and was never granted a unit of the job");
            cx.fault(from, fault);
        }
        is_stranger
    }

    /// Whether the unit runs there, as far as the owner knows.
    pub(super) fn is_placed(&self, unit: UnitId, runner: NodeId) -> bool {
        self.book.is_granted(unit, runner)
    }

    /// Whether it would be welcome from anybody.
    pub(super) fn awaits(&self, unit: UnitId) -> bool {
        self.state_of(unit).is_some_and(|state| matches!(state, State::Waiting | State::Away))
    }

    pub(super) fn state_of(&self, unit: UnitId) -> Option<State> {
        self.jobs.get(&unit.job).filter(|job| job.is_active())?;
        self.book.state(unit)
    }

    fn record_mut(&mut self, unit: UnitId) -> Option<&mut UnitRecord> {
        self.jobs.get_mut(&unit.job)?.records.get_mut(&unit.index).map(|record| &mut **record)
    }

    pub(super) fn record(&self, unit: UnitId) -> Option<&UnitRecord> {
        self.jobs.get(&unit.job)?.records.get(&unit.index).map(|record| &**record)
    }

    /// The node could not reach others that have what the unit goes on from.
    pub(super) fn found_behind(&mut self, node: NodeId, unit: UnitId, cx: &Cx<'_, Self>) {
        let record = self.jobs.get(&unit.job).and_then(|job| job.records.get(&unit.index));
        self.nodes.found_behind(node, record.map(|record| &**record), cx);
    }

    /// Whether this is what the unit goes on from, from who made it.
    fn is_newest(&self, unit: UnitId, from: NodeId, made: &Made) -> bool {
        let newest = self.record(unit).and_then(|record| record.newest.as_ref());
        newest.is_some_and(|held| held.runner == from && held.checkpoint == made.checkpoint)
    }

    /// Takes a checkpoint into the unit's record. `beside`: who has it beside the keepers.
    pub(super) fn note(&mut self, from: NodeId, made: Made, beside: &[NodeId], cx: &mut Cx<'_, Self>) {
        let (unit, now_ms) = (made.unit, self.wall_now(cx.now));
        let Some(job) = self.jobs.get_mut(&unit.job).filter(|job| job.is_active()) else { return };
        let Some(stands) = self.book.unit(unit) else { return };
        let Made { checkpoint, began, kept, marks, .. } = made;
        let version = checkpoint.version;
        if version.attempt > stands.attempts {
            // Nobody was given the unit so often: it would hide all that comes.
            return;
        }
        let record = job.records.entry(unit.index).or_default();
        record.attempts = stands.attempts;
        let proofs = record.new_keepers(&checkpoint, &kept);
        self.payments.kept(unit, from, &checkpoint, &proofs, now_ms);
        // Only connected keepers are named to a runner that needs the checkpoint: connect to the paid one.
        let keeper = self.payments.keeper(unit, from).filter(|keeper| proofs.contains(&keeper.id));
        let away = keeper.filter(|keeper| !is_here(keeper.id, cx));
        away.into_iter().for_each(|keeper| cx.reach(keeper));
        let (platform, every) = (nodes::platform(from, cx.peers), job.spec.template.checkpoint.duration());
        let holders = &[&kept, beside].concat();
        let told = Told { runner: from, platform, checkpoint, began, holders, marks };
        let noted = record.note(told, every.unwrap_or_default(), cx.now);
        if noted == Noted::Newest {
            self.book.progressed(unit);
        }
        if noted == Noted::Nothing && !self.records.dirty.contains(&unit) && !self.records.writing {
            return Self::to_runner(from, ToRunner::Recorded { units: vec![(unit, version)] }, cx);
        }
        self.records.told.push((unit, from, version));
        self.write_record(unit, cx);
        self.touch(unit.job, cx);
        self.has_run(unit.job, cx);
        self.keep_twice(unit, cx);
    }

    /// To whom this node passes on what it alone keeps: to a server, or to a page where there is none.
    fn second_keeper(&self, unit: UnitId, runner: NodeId, cx: &Cx<'_, Self>) -> Option<NodeId> {
        let bought = self.payments.keeper(unit, runner).map(|keeper| keeper.id);
        let bought = bought.filter(|keeper| is_here(*keeper, cx));
        let best = || self.nodes.best_keepers(unit.job, runner, cx).first().map(|best| best.id);
        bought.or_else(best).or_else(|| self.nodes.best_page(unit.job, runner, cx))
    }

    /// Passes a checkpoint on to a second keeper, if only this node keeps it: the runner reaches nobody else, or is
    /// named no other.
    fn keep_twice(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(newest) = self.record(unit).and_then(|record| record.newest.as_ref()) else { return };
        let others = newest.holders.iter().any(|holder| *holder != cx.me && *holder != newest.runner);
        let has_others = |runner| {
            !self.nodes.gets_all_from_here(runner, cx.peers)
                && !self.nodes.best_keepers(unit.job, runner, cx).is_empty()
        };
        if others || !newest.holders.contains(&cx.me) || has_others(newest.runner) {
            return;
        }
        let (version, parts) = (newest.checkpoint.version, newest.checkpoint.parts());
        let (runner, before) = (newest.runner, self.record(unit).and_then(|record| record.asked));
        if let Some((silent, TRIES..)) = before {
            // It has refused, or does not get them.
            self.nodes.cool(runner, std::iter::once(silent), cx.now);
        }
        if let Some(keeper) = self.second_keeper(unit, runner, cx) {
            let times = before.filter(|(asked, _)| *asked == keeper).map_or(1, |(_, times)| times + 1);
            self.record_mut(unit).into_iter().for_each(|record| record.asked = Some((keeper, times)));
            let origin = self.delegation.origin_of(unit, cx.me).unwrap_or(cx.me);
            let keep = Keep { unit, owner: cx.me, origin, version, parts, relayed: true };
            Self::to_keeper(keeper, ToKeeper::Keep(keep), cx);
        }
    }

    /// From a keeper that this node asked itself.
    pub(super) fn kept(&mut self, from: NodeId, unit: UnitId, version: Version, cx: &mut Cx<'_, Self>) {
        let Some(runner) = self.record(unit).and_then(|r| r.newest.as_ref()).map(|newest| newest.runner)
        else {
            return;
        };
        let now_ms = self.wall_now(cx.now);
        let Some(job) = self.jobs.get_mut(&unit.job) else { return };
        let Some(record) = job.records.get_mut(&unit.index) else { return };
        let asked = record.asked.is_some_and(|(keeper, _)| keeper == from);
        if let Some(newest) = record.newest.as_mut().filter(|n| asked && n.checkpoint.version == version)
            && newest.add(&[from])
        {
            record.asked = None;
            self.payments.kept(unit, runner, &newest.checkpoint, &[from], now_ms);
            self.write_record(unit, cx);
            self.hand_over(unit, cx);
        }
    }

    /// From a node that is asked to keep a checkpoint. It was taken there if the unit runs there, or goes on from
    /// what that runner left.
    pub(super) fn is_granted(
        &self,
        from: NodeId,
        unit: UnitId,
        (runner, attempt): (NodeId, u32),
        cx: &mut Cx<'_, Self>,
    ) {
        if !self.is_ready() {
            // It is asked again.
            return;
        }
        let job = self.jobs.get(&unit.job);
        let attempts = self.book.unit(unit).map_or(0, |unit| unit.attempts);
        let newest = self.record(unit).and_then(|record| record.newest.as_ref());
        let left =
            newest.is_some_and(|held| held.runner == runner && held.checkpoint.version.attempt == attempt);
        let granted = left || (self.is_placed(unit, runner) && attempt <= attempts);
        let terms = job.filter(|_| granted).map(|job| {
            let limits = &job.spec.template.limits;
            let part_bytes = limits.memory_bytes.saturating_add(limits.output_bytes).saturating_add(BESIDE);
            KeepTerms { origin: self.delegation.origin_of(unit, cx.me).unwrap_or(cx.me), part_bytes }
        });
        Self::to_keeper(from, ToKeeper::Granted { unit, runner, attempt, terms }, cx);
    }

    /// From a keeper: all that it keeps. What has ended, it need not.
    pub(super) fn holding(&mut self, from: NodeId, units: Vec<UnitId>, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() {
            return;
        }
        let ended = |unit: &UnitId| self.state_of(*unit).is_none_or(State::has_ended);
        let units: Vec<UnitId> = units.into_iter().filter(ended).collect();
        if !units.is_empty() {
            Self::to_keeper(from, ToKeeper::Drop { units }, cx);
        }
    }

    /// How the unit, which is about to be given to `runner`, begins there.
    pub(super) fn start_of(&mut self, unit: UnitId, runner: NodeId, cx: &mut Cx<'_, Self>) -> Start {
        if self.record(unit).is_none_or(|record| record.newest.is_none()) {
            return Start::Anew;
        }
        if let Some(start) = self.whence(unit, runner, None, cx) {
            return start;
        }
        let now = cx.now;
        let Some(job) = self.jobs.get_mut(&unit.job) else { return Start::Anew };
        let Some(record) = job.records.get_mut(&unit.index) else { return Start::Anew };
        let since = *record.missing.get_or_insert(now);
        // Others have forgotten what a thread would need that began anew.
        let is_needed = job.spec.template.threads.is_some() && record.older.is_some();
        if now.since(since) < MISSING || is_needed {
            return Start::Later;
        }
        while record.newest.is_some() {
            record.give_up_newest();
        }
        self.write_record(unit, cx);
        Start::Anew
    }

    /// The newest checkpoint that somebody here has, and how `runner` gets it. `beside`: who has it
    /// beside those that are known to.
    pub(super) fn whence(
        &self,
        unit: UnitId,
        runner: NodeId,
        beside: Option<NodeId>,
        cx: &Cx<'_, Self>,
    ) -> Option<Start> {
        self.nodes.whence(self.record(unit)?, runner, beside, cx)
    }

    /// A unit without anybody here who keeps its checkpoint waits for one.
    pub(super) fn wait_for_holders(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        if let Some(job) = self.jobs.get_mut(&unit.job) {
            job.shortage = Some(
                "nodes that keep its checkpoint are away; they are waited for, 2 minutes at most".into(),
            );
        }
        self.wait_for(unit, MISSING_LOOK, cx);
    }

    /// Somebody is back who may have what units wait for.
    pub(super) fn holder_up(&mut self, peer: NodeId, cx: &mut Cx<'_, Self>) {
        let waits = |unit: &UnitId| {
            self.record(*unit).is_some_and(|record| {
                record.missing.is_some()
                    && record.all().flat_map(|held| &held.holders).any(|holder| *holder == peer)
            })
        };
        let units: Vec<UnitId> = self.moves.away().filter(waits).collect();
        units.into_iter().for_each(|unit| self.wait_no_longer(unit, cx));
    }

    /// A runner could not go on from what it was given.
    pub(super) fn unusable(
        &mut self,
        from: NodeId,
        (lease, unit, version): (u64, UnitId, Version),
        (reason, unreached): (&str, bool),
        cx: &mut Cx<'_, Self>,
    ) {
        let its = self.leases.get(&from).is_some_and(|held| held.lease() == lease);
        if !its || !self.book.is_granted(unit, from) {
            return;
        }
        let fetch = self.book.placement(unit, from).and_then(|placement| placement.fetch);
        let others = fetch.is_some_and(|fetch| fetch.others);
        self.book.fetched(unit, from);
        if unreached && others {
            self.found_behind(from, unit, cx);
            // That says nothing of the checkpoint, which comes through here now.
            self.book.ungrant(unit, from);
            if let Some(grant) = self.begin(unit, from, cx) {
                self.send_grant(from, unit.job, vec![grant], cx);
            }
            return self.touch(unit.job, cx);
        }
        let why: String = format!("{} could not go on from its checkpoint: {reason}", from.short());
        let why = bounds::reason(&why);
        self.fail_move(unit, &why, cx);
        if let Some(job) = self.jobs.get_mut(&unit.job) {
            job.shortage = Some(why);
        }
        self.doubt(unit, version, cx);
        self.units_back(from, &[unit], Back::Unharmed, cx);
    }

    /// A unit could not go on from this checkpoint.
    pub(super) fn doubt(&mut self, unit: UnitId, version: Version, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get_mut(&unit.job) else { return };
        let Some(record) = job.records.get_mut(&unit.index) else { return };
        record.doubt(version);
        self.write_record(unit, cx);
    }

    /// A unit was lost with its runner; what it had done since the last checkpoint is an estimate.
    pub(super) fn count_lost(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get_mut(&unit.job) else { return };
        let every = job.spec.template.checkpoint.duration().unwrap_or_default();
        if let Some(record) = job.records.get_mut(&unit.index) {
            record.lost(every, cx.now);
        }
    }

    pub(super) fn write_record(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        self.records.dirty.insert(unit);
        self.flush_records(cx);
    }

    /// Writes what has gathered, unless a write is under way.
    pub(super) fn flush_records(&mut self, cx: &mut Cx<'_, Self>) {
        if self.records.writing || self.records.dirty.is_empty() {
            return;
        }
        self.records.writing = true;
        cx.cancel_timer(Timer::Records);
        let units: Vec<UnitId> = std::mem::take(&mut self.records.dirty).into_iter().collect();
        let told = std::mem::take(&mut self.records.told);
        let mut writes: Vec<Write> = units.iter().flat_map(|unit| self.rows_of(*unit, cx)).collect();
        writes.extend(units.iter().filter_map(|unit| self.payments.storage_row(*unit)));
        let ticket = self.ticket(Pending::Records(told, units));
        cx.emit(Event::Commit { ticket, writes });
    }

    pub(super) fn records_written(
        &mut self,
        told: Vec<(UnitId, NodeId, Version)>,
        units: Vec<UnitId>,
        result: Result<(), disk::Failed>,
        cx: &mut Cx<'_, Self>,
    ) {
        self.records.writing = false;
        if let Err(error) = result {
            // Runners repeat what they were not told to be written.
            self.records.dirty.extend(units);
            cx.set_timer(Timer::Records, self.config.timing.retry);
            return cx.trouble(format!("checkpoints could not be written down: {error}"));
        }
        let units_written = units;
        let mut by_runner: BTreeMap<NodeId, Vec<(UnitId, Version)>> = BTreeMap::new();
        for (unit, runner, version) in told {
            by_runner.entry(runner).or_default().push((unit, version));
        }
        for (runner, units) in by_runner {
            Self::to_runner(runner, ToRunner::Recorded { units }, cx);
        }
        units_written.iter().for_each(|unit| self.thread_kept(*unit, cx));
        self.delegate(cx, |it, view| it.tell_successors(&units_written, view));
        self.flush_records(cx);
    }

    pub(super) fn restore_record(&mut self, unit: UnitId, value: &Bytes, cx: &mut Cx<'_, Self>) {
        let active = self.state_of(unit).is_some_and(|state| !state.has_ended());
        match sandbox::unpack::from_slice::<UnitRecord>(value) {
            Ok(mut record) if active => {
                record.at = cx.now;
                let wait = self.config.timing.lease;
                self.book.attempted(unit, record.attempts);
                if let Some(job) = self.jobs.get_mut(&unit.job) {
                    job.records.insert(unit.index, Box::new(record));
                }
                self.adopt_kept(unit, cx);
                if self.state_of(unit) != Some(State::Elsewhere) {
                    // Its runner has likely gone on, and will say so.
                    self.wait_for(unit, wait, cx);
                }
            }
            // Left over from a crash just after the unit's end.
            Ok(_) => drop(self.records.dirty.insert(unit)),
            Err(_) => {
                cx.trouble(format!("the checkpoint of {unit} cannot be read; the unit runs from its start"))
            }
        }
    }

    /// Keeps on the checkpoints that this node itself kept in an earlier life.
    fn adopt_kept(&self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(record) = self.record(unit) else { return };
        for held in record.older.iter().chain(&record.newest) {
            if held.holders.contains(&cx.me) {
                let (version, parts) = (held.checkpoint.version, held.checkpoint.parts());
                let origin = self.delegation.origin_of(unit, cx.me).unwrap_or(cx.me);
                let keep = Keep { unit, owner: cx.me, origin, version, parts, relayed: true };
                Self::to_keeper(cx.me, ToKeeper::Keep(keep), cx);
            }
        }
    }

    /// The unit has ended: nobody needs its checkpoints any more.
    pub(super) fn drop_record(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        self.drop_some(&[unit], cx);
    }

    pub(super) fn drop_records(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let units: Vec<UnitId> = job.records.keys().map(|index| UnitId { job: id, index: *index }).collect();
        self.drop_some(&units, cx);
    }

    fn drop_some(&mut self, units: &[UnitId], cx: &mut Cx<'_, Self>) {
        let mut by_keeper: BTreeMap<NodeId, Vec<UnitId>> = BTreeMap::new();
        let mut by_runner: BTreeMap<NodeId, Vec<UnitId>> = BTreeMap::new();
        for unit in units {
            let Some(job) = self.jobs.get_mut(&unit.job) else { continue };
            let Some(record) = job.records.remove(&unit.index) else { continue };
            self.records.dirty.insert(*unit);
            let (keepers, runners) = record.holders();
            runners.into_iter().for_each(|runner| by_runner.entry(runner).or_default().push(*unit));
            for keeper in keepers {
                let its = by_keeper.entry(keeper).or_default();
                if its.last() != Some(unit) {
                    its.push(*unit);
                }
            }
        }
        for (keeper, units) in by_keeper {
            Self::to_keeper(keeper, ToKeeper::Drop { units }, cx);
        }
        for (runner, units) in by_runner {
            Self::to_runner(runner, ToRunner::Forget { units }, cx);
        }
        self.flush_records(cx);
    }
}
