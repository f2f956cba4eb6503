//! Units on the move: asked to by people, handed on by nodes that go away, found again at runners
//! that were cut off, and waited for.
//!
//! Pre-copy: what a unit's state will be relative to goes ahead to where the unit will go on, and
//! the unit runs meanwhile. Once it has stopped, only what has changed since is on the way.

use super::job::Job;
use super::moves::{MOVES_MAX, Move, NotMoved, PATIENCE, Stage, goal_of, whole_of};
use super::nodes::{self, Start, is_here};
use super::{Event, Owner, Pending, Timer};
use crate::address::Address;
use crate::content::{BlobRef, NotFetched};
use crate::finding::Offer;
use crate::ids::{NodeId, UnitId};
use crate::platform::Platform;
use crate::progress::{Made, Resume};
use crate::protocol::Cx;
use crate::work::book::{Back, Fetch, State};
use crate::work::bounds;
use crate::work::delegation::ATTEMPTS_MAX;
use crate::work::message::{Lease, Returned, ToRunner};
use std::time::Duration;

impl Owner {
    pub(super) fn migrate(
        &mut self,
        unit: UnitId,
        to: Option<NodeId>,
        others: &[(NodeId, Offer)],
        cx: &mut Cx<'_, Self>,
    ) {
        match self.check_move(unit, to, others, cx) {
            Ok(to) => {
                self.moves.wanted.insert(unit, Move::new(to, cx.now + PATIENCE));
                cx.set_timer_by(Timer::Moves, PATIENCE);
                self.begin_move(unit, to, cx);
            }
            Err(why) => cx.emit(Event::MigrationFailed { unit, why: why.to_string() }),
        }
    }

    /// Where to.
    ///
    /// # Errors
    /// [`NotMoved`] says why nowhere.
    fn check_move(
        &self,
        unit: UnitId,
        to: Option<NodeId>,
        others: &[(NodeId, Offer)],
        cx: &Cx<'_, Self>,
    ) -> Result<NodeId, NotMoved> {
        let job = self.jobs.get(&unit.job).ok_or(NotMoved::NoJob)?;
        let state = self.book.state(unit).ok_or(NotMoved::NoUnit)?;
        if !job.is_own() || state == State::Elsewhere {
            return Err(NotMoved::Delegated);
        }
        let from = self.book.runner(unit).filter(|_| job.is_active());
        let from = from.ok_or(NotMoved::NotRunning)?;
        if self.moves.wanted.contains_key(&unit) {
            return Err(NotMoved::Already);
        }
        if self.moves.wanted.len() >= MOVES_MAX {
            return Err(NotMoved::Full);
        }
        if !self.leases.contains_key(&from) || !is_here(from, cx) {
            return Err(NotMoved::Away);
        }
        goal_of(to, from, others, job.spec.template.limits.memory_bytes)
    }

    pub(super) fn fail_move(&mut self, unit: UnitId, why: &str, cx: &mut Cx<'_, Self>) {
        if self.end_move(unit, cx).is_some() {
            cx.emit(Event::MigrationFailed { unit, why: why.into() });
        }
    }

    pub(super) fn moves_late(&mut self, cx: &mut Cx<'_, Self>) {
        let late = self.moves.wanted.iter().filter(|(_, wanted)| wanted.until <= cx.now);
        let late: Vec<UnitId> = late.map(|(unit, _)| *unit).collect();
        for unit in late {
            if !self.take_from_silent(unit, cx) {
                self.fail_move(unit, "nothing was heard of it for too long; it goes on where it is", cx);
            }
        }
        if let Some(next) = self.moves.wanted.values().map(|wanted| wanted.until).min() {
            cx.set_timer(Timer::Moves, next.since(cx.now));
        }
    }

    /// A runner that was told to stop the unit has neither done so nor said why not. Whoever moves a unit may mean
    /// just that runner, which does nothing: the unit goes on without it, from its newest checkpoint.
    fn take_from_silent(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) -> bool {
        let runner = self.book.runner(unit);
        let Some(from) = runner.filter(|runner| self.is_placed(unit, *runner)) else { return false };
        let Some(wanted) = self.moves.wanted.get_mut(&unit) else { return false };
        let stopping = matches!(wanted.stage, Stage::Stopping(_)) && !wanted.taken;
        let to = wanted.to;
        if !stopping || to == from || !is_here(to, cx) {
            return false;
        }
        (wanted.taken, wanted.until) = (true, cx.now + PATIENCE);
        cx.emit(Event::Declined { node: from });
        Self::to_runner(from, ToRunner::Forget { units: vec![unit] }, cx);
        self.count_lost(unit, cx);
        self.hand_to_goal(from, unit, to, cx);
        self.touch(unit.job, cx);
        true
    }

    /// The unit, which does not run at `from` any more, goes on at `to`.
    fn hand_to_goal(&mut self, from: NodeId, unit: UnitId, to: NodeId, cx: &mut Cx<'_, Self>) {
        self.take_back(from, unit);
        self.give(unit, to, cx);
        cx.emit(Event::Placed { node: to });
        if self.record(unit).is_none_or(|record| record.newest.is_none()) {
            // It begins there, and nothing has to be waited for.
            self.on_running(to, unit, cx);
        }
    }

    /// The unit does not run at `from` any more.
    pub(super) fn suspended(
        &mut self,
        from: NodeId,
        (lease, attempt): (Lease, u32),
        unit: UnitId,
        made: Option<Made>,
        cx: &mut Cx<'_, Self>,
    ) {
        if self.is_of_stranger(from, unit, cx) {
            return;
        }
        let placed = self.is_placed(unit, from);
        let held = placed && self.leases.get(&from).is_some_and(|held| held.lease() == lease);
        if self.book.placement(unit, from).is_some_and(|at| at.granted && at.attempt != attempt) {
            // It has been given back to that node meanwhile, which will hear of it.
            return;
        }
        let fits = made.as_ref().is_none_or(|made| made.unit == unit);
        if !held || !fits {
            // A repetition: what lies there may have been forgotten meanwhile.
            let newest = self.record(unit).and_then(|record| record.newest.as_ref());
            let version = made.map(|made| made.checkpoint.version);
            let needed = newest
                .is_some_and(|newest| newest.runner == from && version == Some(newest.checkpoint.version))
                || self.awaits(unit);
            return match needed {
                true => self.hand_over(unit, cx),
                false if self.delegation.has_copy(unit) => {}
                false => Self::to_runner(from, ToRunner::Forget { units: vec![unit] }, cx),
            };
        }
        let begun = made.is_some();
        // One that has executed nothing is as it began.
        let newest = self.record(unit).and_then(|record| record.newest.as_ref());
        let before = || newest.and_then(|newest| newest.marks.clone());
        let marks = made.as_ref().map_or_else(before, |made| made.marks.clone());
        if let Some(made) = made {
            self.note(from, made, &[from], cx);
        }
        match self.moves.wanted.get(&unit).map(|wanted| wanted.to) {
            Some(to) if is_here(to, cx) && to != from => self.hand_to_goal(from, unit, to, cx),
            Some(to) => {
                self.units_back(from, &[unit], Back::Unharmed, cx);
                self.fail_move(unit, &format!("{} has gone; it goes on where there is room", to.short()), cx);
            }
            None => {
                if begun {
                    // It goes away: not one that is offered more.
                    cx.emit(Event::Declined { node: from });
                }
                self.take_back(from, unit);
                self.thread_stopped(unit, marks.as_deref(), cx);
            }
        }
        self.touch(unit.job, cx);
        self.hand_over(unit, cx);
        self.look(cx);
    }

    /// Out of the runner's lease, to the waiting.
    fn take_back(&mut self, from: NodeId, unit: UnitId) {
        self.book.put_back(unit, from, Back::Unharmed, super::MAX_LOSSES);
    }

    /// Gives this unit, which waits, to that node.
    fn give(&mut self, unit: UnitId, to: NodeId, cx: &mut Cx<'_, Self>) {
        self.book.end_wait(unit);
        if self.book.place(unit, to).is_none() {
            return;
        }
        self.moves.away.remove(&unit);
        if let Some(grant) = self.begin(unit, to, cx) {
            self.send_grant(to, unit.job, vec![grant], cx);
        }
        self.touch(unit.job, cx);
    }

    pub(super) fn immobile(&mut self, from: NodeId, unit: UnitId, reason: &str, cx: &mut Cx<'_, Self>) {
        if self.is_placed(unit, from) {
            let reason = bounds::reason(reason);
            self.fail_move(unit, &format!("it cannot be suspended, and goes on where it is: {reason}"), cx);
        }
    }

    /// A runner has what the unit goes on from.
    pub(super) fn resumed(&mut self, from: NodeId, unit: UnitId, cx: &mut Cx<'_, Self>) {
        if !self.is_placed(unit, from) {
            return;
        }
        self.book.fetched(unit, from);
        self.hand_over(unit, cx);
    }

    /// It executes again: who wanted it there can be told.
    pub(super) fn on_running(&mut self, from: NodeId, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(wanted) = self.moves.wanted.get(&unit).filter(|wanted| wanted.to == from) else { return };
        if let (true, Stage::Stopping(since)) = (self.is_placed(unit, from), wanted.stage) {
            self.end_move(unit, cx);
            cx.emit(Event::Migrated { unit, to: from, standstill: cx.now.since(since) });
        }
    }

    /// A node that suspended the unit can forget it once a keeper has what it went on from, and nobody is fetching
    /// it from there. The node where it runs now is no keeper of it, unless there is nobody else.
    pub(super) fn hand_over(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(newest) = self.record(unit).and_then(|record| record.newest.as_ref()) else { return };
        let (from, runner) = (newest.runner, self.book.runner(unit));
        let is_there = self.book.placement(unit, from).is_some();
        if !newest.holders.contains(&from) || is_there || self.book.is_fetched(unit) {
            return;
        }
        let lasts = |node| nodes::platform(node, cx.peers) == Platform::Native;
        let is_other = |node: NodeId| node != from && runner != Some(node) && lasts(node);
        // Only where nobody else has it all peers are looked at.
        if !newest.holders.iter().any(|holder| is_other(*holder)) {
            let keeps_here = is_other(cx.me) && !self.nodes.is_cooling(from, cx.me, cx.now);
            let mut best = self.nodes.best_keepers(unit.job, from, cx).into_iter();
            let others = keeps_here || best.any(|keeper| is_other(keeper.id));
            if others || newest.holders.iter().all(|holder| *holder == from) {
                return;
            }
        }
        let record = self.jobs.get_mut(&unit.job).and_then(|job| job.records.get_mut(&unit.index));
        let Some(newest) = record.and_then(|record| record.newest.as_mut()) else { return };
        newest.holders.retain(|holder| *holder != from);
        Self::to_runner(from, ToRunner::Forget { units: vec![unit] }, cx);
        self.write_record(unit, cx);
    }

    /// A runner whose lease was lost, or that began anew, asks which of its units are still wanted
    /// there.
    pub(super) fn returned(&mut self, from: NodeId, units: Vec<Returned>, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() {
            // It is heard again with its next heartbeat.
            return;
        }
        let mut proven = Vec::with_capacity(units.len());
        for returned in units {
            match self.was_granted(from, &returned) {
                None => proven.push(returned),
                Some(fault) => cx.fault(from, fault),
            }
        }
        let units = proven;
        // A runner does not ask for a unit that it runs: the grant went to an earlier life of the node.
        let of_now = |unit| self.book.placement(unit, from).filter(|placement| placement.granted);
        let anew = |returned: &&Returned| {
            of_now(returned.unit).is_some_and(|placement| placement.attempt == returned.attempt)
        };
        let anew: Vec<Option<Made>> = units.iter().filter(anew).map(|of| of.made.clone()).collect();
        if !anew.is_empty() {
            // The checkpoint that the node has brought along is not lost.
            anew.into_iter().flatten().for_each(|made| self.note(from, made, &[from], cx));
            self.lease_lost(from, "began anew", cx);
        }
        let mut over = Vec::new();
        for Returned { unit, attempt, made, .. } in units {
            match self.state_of(unit) {
                Some(State::Waiting | State::Away) => {
                    if let Some(made) = made.filter(|made| made.unit == unit) {
                        // An owner that lost its records learns again how often it was placed.
                        let attempt = attempt.max(made.checkpoint.version.attempt).min(ATTEMPTS_MAX);
                        self.book.attempted(unit, attempt);
                        self.note(from, made, &[from], cx);
                    }
                    self.give(unit, from, cx);
                }
                Some(State::Placed) if self.is_placed(unit, from) => {}
                Some(State::Held) => {}
                // Another owns it now, or soon will, and comes for it.
                _ if self.delegation.has_copy(unit) => {}
                // It runs elsewhere, or has ended.
                _ => over.push(unit),
            }
        }
        if !over.is_empty() {
            Self::to_runner(from, ToRunner::Forget { units: over }, cx);
        }
    }

    /// `None` if the unit was granted to the node as it says, or is not this node's to give; else its fault.
    fn was_granted(&self, from: NodeId, returned: &Returned) -> Option<String> {
        let Returned { unit, attempt, proof, .. } = returned;
        let job = self.jobs.get(&unit.job).filter(|job| job.is_active())?;
        self.book.unit(*unit)?;
        let granted = job.grants(unit.index).accepts(from, *attempt, *proof);
        (!granted).then(|| format!("returned with {unit}, which it was not granted"))
    }

    /// The unit is not placed for so long, unless somebody turns up with it.
    pub(super) fn wait_for(&mut self, unit: UnitId, time: Duration, cx: &mut Cx<'_, Self>) {
        self.book.wait(unit);
        if self.book.state(unit) == Some(State::Away) {
            self.moves.away.insert(unit, cx.now + time);
            cx.set_timer_by(Timer::Away, time);
        }
    }

    /// A result of the unit is on its way. Nobody is looked for meanwhile, if nobody runs it.
    pub(super) fn wait_for_content(&mut self, unit: UnitId, time: Duration, cx: &mut Cx<'_, Self>) {
        match self.state_of(unit) {
            Some(State::Waiting) => self.wait_for(unit, time, cx),
            Some(State::Away) => {
                if let Some(until) = self.moves.away.get_mut(&unit) {
                    *until = (*until).max(cx.now + time);
                }
            }
            _ => {}
        }
    }

    pub(super) fn wait_no_longer(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        self.moves.away.remove(&unit);
        self.book.end_wait(unit);
        self.touch(unit.job, cx);
        cx.set_timer_by(Timer::Look, Duration::ZERO);
    }

    pub(super) fn end_away(&mut self, cx: &mut Cx<'_, Self>) {
        let over = self.moves.away.iter().filter(|(_, until)| **until <= cx.now);
        let over: Vec<UnitId> = over.map(|(unit, _)| *unit).collect();
        over.into_iter().for_each(|unit| self.wait_no_longer(unit, cx));
        if let Some(next) = self.moves.away.values().min() {
            cx.set_timer(Timer::Away, next.since(cx.now));
        }
    }

    pub(super) fn pause(&mut self, unit: UnitId, paused: bool, cx: &mut Cx<'_, Self>) {
        // The API has said why not.
        let goes_on = self.state_of(unit).is_some_and(|state| !state.has_ended());
        let Some(job) = self.jobs.get_mut(&unit.job).filter(|_| goes_on) else { return };
        match paused {
            true => job.paused.insert(unit.index),
            false => job.paused.remove(&unit.index),
        };
        let at = self.book.units(unit.job).into_iter().flat_map(|units| units.placements(unit.index));
        at.for_each(|at| Self::to_runner(at.runner, ToRunner::Pause { unit, paused }, cx));
        self.touch(unit.job, cx);
    }

    /// The grant of the unit, which was just placed; `None` if it cannot begin there yet.
    pub(super) fn begin(
        &mut self,
        unit: UnitId,
        runner: NodeId,
        cx: &mut Cx<'_, Self>,
    ) -> Option<crate::work::message::UnitGrant> {
        let resume = match self.start_of(unit, runner, cx) {
            Start::Anew => None,
            Start::From(resume) => {
                let others = resume.sources.iter().any(|source| source.id != cx.me);
                self.book.fetches(unit, runner, Fetch { ticket: None, others });
                Some(resume)
            }
            Start::Later => {
                self.book.take(unit, runner);
                self.wait_for_holders(unit, cx);
                return None;
            }
            Start::Relay(checkpoint, from) => {
                let ticket = self.ticket(Pending::Relay(unit, runner));
                cx.emit(Event::FetchPassing { ticket, blobs: checkpoint.parts(), from });
                return None;
            }
        };
        let job = self.jobs.get_mut(&unit.job)?;
        if let Some(record) = job.records.get_mut(&unit.index) {
            record.missing = None;
        }
        let attempt = self.book.placement(unit, runner)?.attempt;
        Some(job.unit_grant(unit.index, (runner, attempt), resume, self.payments.of(unit.job)))
    }

    /// Whether all nodes that are known to keep a unit's newest checkpoint are connected.
    fn holders_are_here(&self, unit: UnitId, cx: &Cx<'_, Self>) -> bool {
        let newest = self.record(unit).and_then(|record| record.newest.as_ref());
        newest.is_some_and(|held| held.holders.iter().all(|node| is_here(*node, cx)))
    }

    /// The checkpoint for a runner that reaches nobody else is here, or cannot be had.
    pub(super) fn relay_here(
        &mut self,
        unit: UnitId,
        runner: NodeId,
        ticket: u64,
        result: Result<(), NotFetched>,
        cx: &mut Cx<'_, Self>,
    ) {
        let active = self.jobs.get(&unit.job).is_some_and(Job::is_active);
        // It may have been granted with what came for an earlier placement there.
        let placement = self.book.placement(unit, runner).filter(|at| active && !at.granted);
        let Some(attempt) = placement.map(|placement| placement.attempt) else {
            return cx.emit(Event::ReleasePassing { ticket });
        };
        let newest = self.record(unit).and_then(|record| record.newest.as_ref());
        let checkpoint = newest.map(|held| held.checkpoint);
        let (true, Ok(()), Some(checkpoint)) = (is_here(runner, cx), &result, checkpoint) else {
            self.book.put_back(unit, runner, Back::Unharmed, super::MAX_LOSSES);
            self.fail_move(unit, "its checkpoint could not be brought here, or the other node has gone", cx);
            if result.is_err() {
                // A holder that is here and does not have it will not have it later either.
                if let Some(checkpoint) = checkpoint.filter(|_| self.holders_are_here(unit, cx)) {
                    self.doubt(unit, checkpoint.version, cx);
                }
                self.wait_for_holders(unit, cx);
            }
            return self.touch(unit.job, cx);
        };
        let sources = vec![Address::here(cx.me)];
        self.book.fetches(unit, runner, Fetch { ticket: Some(ticket), others: false });
        let resume = Box::new(Resume { checkpoint, sources });
        let Some(job) = self.jobs.get_mut(&unit.job) else { return };
        let grant = job.unit_grant(unit.index, (runner, attempt), Some(resume), self.payments.of(unit.job));
        self.send_grant(runner, unit.job, vec![grant], cx);
    }

    /// Has the goal get ready, or the unit stop if there is nothing to get.
    pub(super) fn begin_move(&mut self, unit: UnitId, to: NodeId, cx: &mut Cx<'_, Self>) {
        let runner = self.book.runner(unit);
        match self.whence(unit, to, runner, cx) {
            Some(Start::From(resume)) => {
                self.prepare(unit, to, whole_of(&resume.checkpoint), resume.sources, cx)
            }
            Some(Start::Relay(checkpoint, from)) => {
                let ticket = self.ticket(Pending::Ahead(unit));
                let wanted = self.moves.wanted.get_mut(&unit);
                if let Some(old) = wanted.and_then(|wanted| wanted.relay.replace(ticket)) {
                    cx.emit(Event::ReleasePassing { ticket: old });
                }
                cx.emit(Event::FetchPassing { ticket, blobs: vec![whole_of(&checkpoint)], from });
            }
            _ => self.stop_to_move(unit, cx),
        }
    }

    fn prepare(
        &mut self,
        unit: UnitId,
        to: NodeId,
        whole: BlobRef,
        sources: Vec<Address>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(job) = self.jobs.get(&unit.job) else { return };
        let runs_at = self.book.runner(unit).and_then(|runner| self.book.placement(unit, runner));
        let Some(now) = runs_at.map(|placement| (placement.runner, placement.attempt)) else { return };
        let batch = Box::new(job.batch(
            unit.job,
            Vec::new(),
            vec![job.unit_grant(unit.index, now, None, self.payments.of(unit.job))],
        ));
        Self::to_runner(to, ToRunner::Prepare { batch, whole, sources }, cx);
    }

    /// The base that the destination can get only through this node is here, or cannot be had: then the
    /// destination gets the whole state when the unit has stopped.
    pub(super) fn ahead_here(
        &mut self,
        unit: UnitId,
        ticket: u64,
        result: Result<(), NotFetched>,
        cx: &mut Cx<'_, Self>,
    ) {
        let of_this = |wanted: &&Move| wanted.relay == Some(ticket) && wanted.stage == Stage::Preparing;
        let Some(to) = self.moves.wanted.get(&unit).filter(of_this).map(|wanted| wanted.to) else {
            return cx.emit(Event::ReleasePassing { ticket });
        };
        let newest = self.record(unit).and_then(|record| record.newest.as_ref());
        match newest.map(|newest| whole_of(&newest.checkpoint)) {
            Some(whole) if result.is_ok() => {
                let here = Address::here(cx.me);
                self.prepare(unit, to, whole, vec![here], cx);
            }
            _ => self.stop_to_move(unit, cx),
        }
    }

    /// A node is ready for a unit, or will not be.
    pub(super) fn prepared(
        &mut self,
        from: NodeId,
        unit: UnitId,
        (error, unreached): (Option<String>, bool),
        cx: &mut Cx<'_, Self>,
    ) {
        let of_this = |wanted: &&Move| wanted.to == from && wanted.stage == Stage::Preparing;
        let Some(wanted) = self.moves.wanted.get_mut(&unit).filter(|wanted| of_this(&&**wanted)) else {
            return;
        };
        match error {
            None => self.stop_to_move(unit, cx),
            // Through here it can get what it could not get from others.
            Some(_) if unreached && !wanted.again => {
                (wanted.until, wanted.again) = (cx.now + PATIENCE, true);
                self.found_behind(from, unit, cx);
                self.begin_move(unit, from, cx);
            }
            Some(error) => {
                let error = bounds::reason(&error);
                self.fail_move(unit, &format!("{} cannot take it: {error}", from.short()), cx);
            }
        }
    }

    fn stop_to_move(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let from = self.book.runner(unit).filter(|from| self.is_placed(unit, *from));
        let Some(from) = from else {
            return self.fail_move(unit, "it stopped running meanwhile; it goes on where there is room", cx);
        };
        if let Some(wanted) = self.moves.wanted.get_mut(&unit) {
            (wanted.stage, wanted.until) = (Stage::Stopping(cx.now), cx.now + PATIENCE);
            Self::to_runner(from, ToRunner::Suspend { unit }, cx);
        }
    }

    /// The move is over, one way or the other.
    pub(super) fn end_move(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) -> Option<Move> {
        let wanted = self.moves.wanted.remove(&unit)?;
        if let Some(ticket) = wanted.relay {
            cx.emit(Event::ReleasePassing { ticket });
        }
        if !self.is_placed(unit, wanted.to) {
            Self::to_runner(wanted.to, ToRunner::NotComing { unit }, cx);
        }
        Some(wanted)
    }

    /// Nothing has to stop for a node that has gone.
    pub(super) fn goal_down(&mut self, peer: NodeId, cx: &mut Cx<'_, Self>) {
        let its = |wanted: &Move| wanted.to == peer && wanted.stage == Stage::Preparing;
        let units = self.moves.wanted.iter().filter(|(_, wanted)| its(wanted)).map(|(unit, _)| *unit);
        for unit in units.collect::<Vec<_>>() {
            self.fail_move(unit, &format!("{} has gone; it goes on where it is", peer.short()), cx);
        }
    }
}
