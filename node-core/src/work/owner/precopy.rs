//! Pre-copy: what a unit's state will be relative to goes ahead to where the unit will go on, and
//! the unit runs meanwhile. Once it has stopped, only what has changed since is on the way.

use super::checkpoint::Start;
use super::moving::PATIENCE;
use super::{Event, Owner, Pending};
use crate::address::Address;
use crate::content::BlobRef;
use crate::ids::{NodeId, UnitId};
use crate::progress::Checkpoint;
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::message::ToRunner;

/// A move that somebody asked for.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) to: NodeId,
    /// It has failed by then.
    pub(super) until: Time,
    pub(super) stage: Stage,
    /// The ticket of what the goal gets through here.
    relay: Option<u64>,
    /// The goal could not reach others that have it, and gets it through here.
    again: bool,
    /// Its runner did not stop, and the unit was taken from it.
    pub(super) taken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The goal gets ready; the unit runs.
    Preparing,
    /// Its runner was told to stop, then.
    Stopping(Time),
}

impl Move {
    pub(super) fn new(to: NodeId, until: Time) -> Move {
        Move { to, until, stage: Stage::Preparing, relay: None, again: false, taken: false }
    }
}

impl Owner {
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
        result: Result<(), String>,
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
                self.nodes.found_behind(from, cx);
                self.begin_move(unit, from, cx);
            }
            Some(error) => {
                let error: String = error.chars().take(super::lease::REASON_MAX).collect();
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

/// The whole snapshot that the next one will be relative to.
fn whole_of(checkpoint: &Checkpoint) -> BlobRef {
    checkpoint.snapshot.base.unwrap_or(checkpoint.snapshot.blob)
}
