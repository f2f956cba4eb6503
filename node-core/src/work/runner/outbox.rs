//! Ended units: outputs stored, results reported until they are acknowledged.
//!
//! One report an owner is under way at a time, and the next takes all that has gathered
//! meanwhile: idle nodes report at once, busy ones in batches as large as the owner's disk
//! is slow.

use super::{Event, Runner, Ticket, Timer, UnitState};
use crate::ids::BlobId;
use crate::ids::{NodeId, UnitId};
use crate::market::money::Micro;
use crate::market::money::Price;
use crate::node::host::RunId;
use crate::protocol::Cx;
use crate::work::message::{Report, ToOwner};
use crate::work::spec::{BlobRef, Data, NamedData, UnitResult};
use bytes::Bytes;
use sandbox::{End, Outcome};
use std::time::Duration;

/// Bytes of results in one report. Our choice: half a frame, so that an estimate may be wrong.
const REPORT_BYTES: usize = 512 << 10;

/// Content that one result may carry inline, all together.
const INLINE_TOTAL: usize = 16 << 10;

/// Files that one unit may leave. Our choice: their names fit half a frame at usual lengths.
const FILES_MAX: usize = 2000;
const NAMES_MAX: usize = 128 << 10;

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
        let attempt = unit.attempt;
        self.totals.cpu_us += outcome.cpu_us;
        if outcome.end.is_success() {
            self.totals.done += 1;
        } else {
            self.totals.failed += 1;
        }
        let (result, blobs) = pack(outcome, cx.me, attempt);
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
        cx.emit(Event::Trouble(format!("unit {id} could not be run here: {error}")));
        if self.unusable(id, &error, cx) {
            return;
        }
        self.give_back(vec![id], &error, true, cx);
        self.failed_here(&error, cx);
    }

    pub(super) fn outputs_kept(
        &mut self,
        id: UnitId,
        result: UnitResult,
        stored: Result<(), String>,
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
                cx.emit(Event::Trouble(format!("the output of {id} could not be stored: {error}")));
                let why = format!("it could not store the output: {error}");
                self.give_back(vec![id], &why, true, cx);
                self.failed_here(&why, cx);
            }
        }
    }

    fn post(&mut self, unit: UnitId, result: UnitResult, cx: &mut Cx<'_, Self>) {
        let Some(ended) = self.units.get(&unit) else { return };
        let (owner, began, paid) = (ended.owner, ended.began(), ended.price > Price(0));
        if let Some(ledger) = self.owners.get_mut(&owner) {
            ledger.outbox.push_back(Report { unit, began, result });
            self.engaged.paid_ended |= paid;
        }
        self.report(owner, cx);
    }

    /// Sends what has gathered, unless a report is under way.
    pub(super) fn report(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        let Some(ledger) = self.owners.get_mut(&owner) else { return };
        if !ledger.connected || ledger.in_flight > 0 || ledger.outbox.is_empty() {
            return;
        }
        // While there is more to come, single results wait for company: each report costs its
        // owner a write to the disk.
        let all_ended = ledger.outbox.len() >= ledger.units as usize;
        let due = ledger.reported + PACE;
        if !all_ended && ledger.outbox.len() < COMPANY && cx.now < due {
            return cx.set_timer_by(Timer::Report(owner), due.since(cx.now));
        }
        ledger.reported = cx.now;
        let mut size = 0;
        let fits = |report: &&Report| {
            size += size_of(report);
            size < REPORT_BYTES
        };
        ledger.in_flight = ledger.outbox.iter().take_while(fits).count().max(1);
        ledger.seq += 1;
        self.send_report(owner, cx);
    }

    fn send_report(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        let Some(ledger) = self.owners.get(&owner) else { return };
        let results = ledger.outbox.iter().take(ledger.in_flight).cloned().collect();
        Self::to_owner(owner, ToOwner::Report { seq: ledger.seq, results }, cx);
        cx.set_timer(Timer::Retry(owner), self.config.timing.retry);
    }

    pub(super) fn report_again(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        match self.owners.get(&owner) {
            Some(ledger) if ledger.connected && ledger.in_flight > 0 => self.send_report(owner, cx),
            Some(_) => self.report(owner, cx),
            None => {}
        }
    }

    pub(super) fn acknowledged(&mut self, owner: NodeId, seq: u64, cx: &mut Cx<'_, Self>) {
        let Some(ledger) = self.owners.get_mut(&owner).filter(|l| l.seq == seq && l.in_flight > 0) else {
            return;
        };
        let done: Vec<UnitId> = ledger.outbox.drain(..ledger.in_flight).map(|report| report.unit).collect();
        ledger.in_flight = 0;
        cx.cancel_timer(Timer::Retry(owner));
        done.into_iter().for_each(|id| self.remove(id, cx));
        self.report(owner, cx);
    }
}

/// The result as it is reported, and the content that is too large to go with it.
fn pack(outcome: Outcome, runner: NodeId, attempts: u32) -> (UnitResult, Vec<Bytes>) {
    let mut inline = 0;
    let mut blobs = Vec::new();
    let mut data = |bytes: Bytes| {
        if bytes.len() <= Data::INLINE_MAX && inline + bytes.len() <= INLINE_TOTAL {
            inline += bytes.len();
            // A small slice must not keep a large buffer alive.
            return Data::Inline(Bytes::copy_from_slice(&bytes));
        }
        let blob = BlobRef { id: BlobId::of(&bytes), len: bytes.len() as u64 };
        blobs.push(bytes);
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
fn size_of(report: &Report) -> usize {
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
