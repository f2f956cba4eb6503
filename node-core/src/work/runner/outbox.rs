//! Ended units: outputs stored, results reported until they are acknowledged.
//!
//! While a report is under way, results gather for the next one: idle nodes report at once, busy
//! ones in batches as large as the owner's disk is slow.

use super::{Event, Runner, Ticket, Timer, UnitState};
use crate::content::{BlobRef, Data, NamedData, NotFetched};
use crate::engine::RunId;
use crate::ids::{NodeId, UnitId};
use crate::money::Micro;
use crate::money::Price;
use crate::protocol::Cx;
use crate::work::bounds::{FILES_MAX, NAMES_MAX, WORDS_MAX};
use crate::work::message::{Cause, Report, ToOwner};
use crate::work::spec::UnitResult;
use bytes::Bytes;
use sandbox::{End, Outcome};
use std::time::Duration;

/// Bytes of results in one report. Our choice: half a frame, so that an estimate may be wrong.
pub(super) const REPORT_BYTES: usize = 512 << 10;

/// Results for one owner that may be held in memory with large content. Our choice: what a page
/// can spare, and some seconds of a fast line; beyond it content above [`SMALL`] lies in storage.
const HELD_BYTES: usize = 16 << 20;

/// Content that is inline however many results are held.
const SMALL: usize = 4 << 10;

/// Between two reports to an owner while results trickle. Our choice: what a person watching
/// does not notice.
const PACE: Duration = Duration::from_millis(100);

/// So many results are company enough.
const COMPANY: usize = 16;

impl Runner {
    pub(super) fn ended(&mut self, run: RunId, outcome: Outcome, cx: &mut Cx<'_, Self>) {
        let Some(id) = self.runs.remove(&run) else {
            return self.at_hand(run, Some(&outcome.end), cx);
        };
        let Some(unit) = self.units.get_mut(&id) else { return };
        if let UnitState::Running { since, .. } = unit.state {
            let took = self.pace.ended(cx.now, since, self.slots);
            self.ready.ended(run, took);
        }
        unit.state = UnitState::Ended;
        self.rest.ran_well();
        let (attempt, owner) = (unit.attempt, unit.owner);
        self.totals.cpu_us += outcome.cpu_us;
        if outcome.end.is_success() {
            self.totals.done += 1;
        } else {
            self.totals.failed += 1;
        }
        let held = self.owners.get(&owner).map_or(0, |owner_state| owner_state.outbox.bytes());
        let inline = if held < HELD_BYTES { Data::INLINE_MAX } else { SMALL };
        let (result, blobs) = pack(outcome, (cx.me, attempt), inline);
        if blobs.is_empty() {
            self.post(id, result, cx);
        } else {
            let ticket = self.ticket(Ticket::Outputs(id, Box::new(result)));
            if let Some(unit) = self.units.get_mut(&id) {
                // Its inputs are not needed any more, its outputs are, until acknowledged.
                if let Some(inputs) = unit.ticket.replace(ticket) {
                    cx.emit(Event::Release { ticket: inputs });
                }
            }
            cx.emit(Event::Keep { ticket, blobs });
        }
        Self::changed(cx);
    }

    /// The engine failed, not the task: it may do better elsewhere.
    pub(super) fn broken(&mut self, run: RunId, error: String, cx: &mut Cx<'_, Self>) {
        let Some(id) = self.runs.get(&run).copied() else {
            // The unit finds out by itself whether that matters.
            return self.at_hand(run, None, cx);
        };
        cx.trouble(format!("unit {id} could not be run here: {error}"));
        if self.unusable(id, &error, cx) {
            return;
        }
        let program = self.program_of(id);
        self.give_back(vec![id], &error, Cause::Failed, cx);
        self.failed_here(program, &error, cx);
    }

    pub(super) fn outputs_kept(
        &mut self,
        id: UnitId,
        result: UnitResult,
        stored: Result<(), NotFetched>,
        ticket: u64,
        cx: &mut Cx<'_, Self>,
    ) {
        if self.units.get(&id).is_none_or(|unit| unit.ticket != Some(ticket)) {
            return;
        }
        match stored {
            Ok(()) => self.post(id, result, cx),
            Err(error) => {
                if let Some(unit) = self.units.get_mut(&id) {
                    unit.state = UnitState::Fetching;
                }
                cx.trouble(format!("the output of {id} could not be stored: {error}"));
                let why = format!("it could not store the output: {error}");
                let program = self.program_of(id);
                self.give_back(vec![id], &why, Cause::Failed, cx);
                self.failed_here(program, &why, cx);
            }
        }
    }

    fn post(&mut self, unit: UnitId, result: UnitResult, cx: &mut Cx<'_, Self>) {
        let Some(ended) = self.units.get(&unit) else { return };
        let (owner, paid) = (ended.owner, ended.price > Price(0));
        let (attempt, proof, began) = (ended.attempt, ended.proof, ended.began());
        if let Some(owner_state) = self.owners.get_mut(&owner) {
            owner_state.outbox.push(Report { unit, attempt, proof, began, result });
            self.engaged.paid_ended |= paid;
        }
        self.report(owner, cx);
    }

    /// Sends what has gathered. Beside reports under way only what fills another one, or has
    /// waited: each report costs the owner a write.
    pub(super) fn report(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        while let Some(owner_state) = self.owners.get_mut(&owner)
            && owner_state.connected
            && owner_state.outbox.may_send()
        {
            let outbox = &mut owner_state.outbox;
            // While there is more to come, single results wait for company.
            let enough = match outbox.under_way() {
                0 => outbox.len() >= owner_state.units as usize || outbox.waiting() >= COMPANY,
                _ => false,
            };
            let due = outbox.reported() + PACE;
            if !enough && !outbox.fills_a_report() && cx.now < due {
                return cx.set_timer_by(Timer::Report(owner), due.since(cx.now));
            }
            let (seq, results) = outbox.next_report(cx.now, self.config.timing.retry);
            Self::to_owner(owner, ToOwner::Report { seq, results }, cx);
            if let Some(due) = outbox.next_overdue() {
                cx.set_timer(Timer::Retry(owner), due.since(cx.now));
            }
        }
    }

    /// The owner is there again: it is told all that it has not acknowledged.
    pub(super) fn report_all(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        if let Some(owner_state) = self.owners.get_mut(&owner) {
            owner_state.outbox.lost(cx.now);
        }
        self.report_again(owner, cx);
    }

    /// Repeats reports that were not answered in time, and goes on.
    pub(super) fn report_again(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        let retry = self.config.timing.retry;
        let Some(owner_state) = self.owners.get_mut(&owner).filter(|owner_state| owner_state.connected)
        else {
            return;
        };
        for (seq, results) in owner_state.outbox.overdue(cx.now, retry) {
            Self::to_owner(owner, ToOwner::Report { seq, results }, cx);
        }
        if let Some(next) = owner_state.outbox.next_overdue() {
            // A report that finds no room now is overdue already.
            let after = next.since(cx.now).max(retry / 10);
            cx.set_timer(Timer::Retry(owner), after);
        }
        self.report(owner, cx);
    }

    pub(super) fn acknowledged(&mut self, owner: NodeId, seq: u64, cx: &mut Cx<'_, Self>) {
        let Some(owner_state) = self.owners.get_mut(&owner) else { return };
        let done = owner_state.outbox.acknowledged(seq);
        if owner_state.outbox.next_overdue().is_none() {
            cx.cancel_timer(Timer::Retry(owner));
        }
        done.into_iter().for_each(|id| self.remove(id, cx));
        self.report(owner, cx);
    }

    /// The owner could not write down a report. It is repeated, and others go meanwhile.
    pub(super) fn not_written(&mut self, owner: NodeId, seq: u64, cx: &mut Cx<'_, Self>) {
        let retry = self.config.timing.retry;
        if let Some(owner_state) = self.owners.get_mut(&owner) {
            owner_state.outbox.refused(seq, cx.now + retry);
            cx.set_timer_by(Timer::Retry(owner), retry);
        }
        self.report(owner, cx);
    }
}

/// The result as it is reported, and the content that is too large to go with it.
/// `inline` bytes of it go along, all together.
fn pack(
    outcome: Outcome,
    (runner, attempts): (NodeId, u32),
    inline: usize,
) -> (UnitResult, Vec<(BlobRef, Bytes)>) {
    let mut room = inline;
    let mut blobs = Vec::new();
    let mut data = |bytes: Bytes| {
        if bytes.len() <= room {
            room -= bytes.len();
            // A small slice must not keep a large buffer alive.
            return Data::Inline(Bytes::copy_from_slice(&bytes));
        }
        let blob = BlobRef::of(&bytes);
        blobs.push((blob, bytes));
        Data::Blob(blob)
    };
    let names: usize = outcome.files.iter().map(|f| f.path.len()).sum();
    let (mut end, mut files) = (outcome.end, outcome.files);
    if files.len() > FILES_MAX || names > NAMES_MAX {
        end = End::Trapped(format!(
            "it left {} files with {names} bytes of names; a unit may leave {FILES_MAX} with {NAMES_MAX}: pack them",
            files.len()
        ));
        files.clear();
    }
    end.cut_words(WORDS_MAX);
    let result = UnitResult {
        end,
        stdout: data(outcome.stdout),
        stderr: data(outcome.stderr),
        files: files.into_iter().map(|f| NamedData { path: f.path, data: data(f.data) }).collect(),
        cpu_us: outcome.cpu_us,
        runner,
        attempts,
        fuel: outcome.fuel,
        journey: None,
        paid: Micro::ZERO,
    };
    (result, blobs)
}

/// Encoded size, generously.
pub(super) fn size_of(report: &Report) -> usize {
    let data = |data: &Data| 64 + data.blob().map_or(data.len() as usize, |_| 0);
    let result = &report.result;
    let end = match &result.end {
        End::Trapped(text) | End::Refused(text) => text.len(),
        _ => 16,
    };
    160 + end
        + data(&result.stdout)
        + data(&result.stderr)
        + result.files.iter().map(|f| f.path.len() + data(&f.data)).sum::<usize>()
}
