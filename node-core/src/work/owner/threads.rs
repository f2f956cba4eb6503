//! Jobs that are virtual computers: their threads are units, begun while the job runs, and this node carries what
//! goes between them ([`Carrier`]).

use super::{Event, Owner, PROGRESS, Pending, Timer};
use crate::content::Data;
use crate::disk::{self, Write};
use crate::ids::{JobId, NodeId, UnitId};
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::book::State;
use crate::work::computer::{Act, Bounds, Carrier};
use crate::work::message::{ToRunner, UnitGrant};
use crate::work::rows;
use crate::work::spec::{UnitResult, UnitSpec};
use crate::work::view::{Partial, ThreadView};
use bytes::Bytes;
use sandbox::End;
use sandbox::swarm::{Letter, Marks, Said};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Between two looks at threads that wait. Our choice: what a person does not notice.
const TICK: Duration = Duration::from_millis(100);

/// A thread that has waited for so long gives its slot up, if units wait for one. Our choice: stopping it and going
/// on takes about as long.
const PARK: Duration = Duration::from_millis(200);

/// A thread that has waited for so long gives its slot up. Our choice: its donor may have other work.
const PARK_ALWAYS: Duration = Duration::from_secs(10);

/// A thread that waits is placed again after this, if nothing came for it. Our choice: it costs a snapshot, and
/// nothing that went wrong here stays so for longer.
const PARKED_MAX: Duration = Duration::from_secs(600);

/// Bytes of letters in one message. Our choice: two of them are less than a frame.
const LETTERS: usize = 448 << 10;

/// Partial results of a job that are kept for who asks later. Our choice: a plot of them, and a screen of text.
const PARTIALS: usize = 1000;

/// Bytes of them.
const PARTIAL_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub(super) struct Threads {
    jobs: BTreeMap<JobId, Hosted>,
}

#[derive(Debug)]
struct Hosted {
    carrier: Carrier,
    partials: VecDeque<Partial>,
    partial_bytes: usize,
    /// Numbers of those whose rows are to go.
    gone: Vec<u64>,
    /// The disk did not take its state; it is not tried again before.
    again: Time,
}

impl Hosted {
    fn new(carrier: Carrier) -> Hosted {
        Hosted { carrier, partials: VecDeque::new(), partial_bytes: 0, gone: Vec::new(), again: Time(0) }
    }

    fn keep(&mut self, partial: Partial) {
        self.partial_bytes += partial.result.len();
        self.partials.push_back(partial);
        while self.partials.len() > PARTIALS || self.partial_bytes > PARTIAL_BYTES {
            let Some(gone) = self.partials.pop_front() else { break };
            self.partial_bytes -= gone.result.len();
            self.gone.push(gone.number);
        }
    }

    /// Rows of its state, and of the partial results that come with it.
    fn rows(&mut self, id: JobId, now_ms: u64) -> Vec<Write> {
        let gone = std::mem::take(&mut self.gone);
        let gone = gone.into_iter().map(|number| rows::partial_write(id, number, None));
        let mut writes = vec![rows::threads_write(id, Some(&self.carrier))];
        writes.extend(self.carrier.partials().map(|(number, thread, result)| {
            let partial = Partial { number, thread, at_ms: now_ms, result: result.clone() };
            rows::partial_write(id, number, Some(&partial))
        }));
        writes.extend(gone);
        writes
    }
}

impl Owner {
    /// The job is a virtual computer, with its first thread.
    pub(super) fn host_threads(&mut self, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.spec.template.threads.is_some() && job.is_own()) {
            self.threads.jobs.insert(id, Hosted::new(Carrier::new(Bounds::default())));
        }
    }

    /// A row of an earlier life; whether it can be read.
    pub(super) fn restore_threads(&mut self, id: JobId, value: &[u8]) -> bool {
        let Ok(carrier) = sandbox::unpack::from_slice::<Carrier>(value) else { return false };
        let carrier = carrier.restored();
        if self.jobs.contains_key(&id) {
            for thread in 1..carrier.computer().threads() {
                self.add_thread(id, thread, carrier.begun(thread).cloned());
            }
            self.threads.jobs.insert(id, Hosted::new(carrier));
        }
        true
    }

    /// A row of an earlier life: those of the threads come before; whether it can be read.
    pub(super) fn restore_partial(&mut self, id: JobId, value: &[u8]) -> bool {
        let Ok(partial) = sandbox::unpack::from_slice::<Partial>(value) else { return false };
        self.threads.jobs.entry(id).and_modify(|hosted| hosted.keep(partial));
        true
    }

    /// The job is forgotten; the rows of its threads, to go.
    pub(super) fn forget_threads(&mut self, id: JobId) -> Vec<Write> {
        let Some(hosted) = self.threads.jobs.remove(&id) else { return Vec::new() };
        let kept = hosted.partials.iter().map(|partial| partial.number);
        let partials = kept.chain(hosted.gone.iter().copied());
        let partials = partials.map(|number| rows::partial_write(id, number, None));
        partials.chain([rows::threads_write(id, None)]).collect()
    }

    /// One more unit of the job, with the arguments and the input that the thread was begun with.
    fn add_thread(&mut self, id: JobId, thread: u32, begun: Option<(Vec<String>, Bytes)>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let Some((arguments, input)) = begun {
            let (arguments, stdin) = (Some(arguments), Some(Data::Inline(input)));
            job.begun.insert(thread, UnitSpec { arguments, stdin, files: Vec::new() });
        }
        self.book.add(UnitId { job: id, index: thread }, 0);
    }

    /// Word of a thread, from the runner that has it.
    pub(super) fn said(
        &mut self,
        from: NodeId,
        (unit, attempt): (UnitId, u32),
        said: Said,
        cx: &mut Cx<'_, Self>,
    ) {
        let is_there = self.book.placement(unit, from).is_some_and(|at| at.granted && at.attempt == attempt);
        // Whatever an earlier run says, the one that was granted last says again.
        if !is_there || self.state_of(unit) != Some(State::Placed) {
            return;
        }
        if let Some(hosted) = self.threads.jobs.get_mut(&unit.job) {
            hosted.carrier.said(unit.index, said, cx.now);
            cx.set_timer_by(Timer::Threads, TICK);
            self.carry(unit.job, cx);
        }
    }

    /// Does what the job's threads have made necessary.
    fn carry(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let now_ms = self.wall_now(cx.now);
        let Some(hosted) = self.threads.jobs.get_mut(&id) else { return };
        let acts = hosted.carrier.acts();
        let mut letters: BTreeMap<u32, Vec<Letter>> = BTreeMap::new();
        let (mut begun, mut woken) = (Vec::new(), Vec::new());
        for act in acts {
            match act {
                Act::Letter { thread, letter } => letters.entry(thread).or_default().push(letter),
                Act::Written(..) => {}
                Act::Wake(thread) => woken.push(thread),
                Act::Begin(thread) => begun.push((thread, hosted.carrier.begun(thread).cloned())),
                Act::Report { thread, number, result } => {
                    hosted.keep(Partial { number, thread, at_ms: now_ms, result });
                    self.changed.insert(id);
                    cx.set_timer_by(Timer::Progress, PROGRESS);
                }
            }
        }
        if hosted.again <= cx.now && hosted.carrier.writes() {
            let writes = hosted.rows(id, now_ms);
            let ticket = self.ticket(Pending::Threads(id));
            cx.emit(Event::Commit { ticket, writes });
        }
        for (thread, letters) in letters {
            self.deliver(UnitId { job: id, index: thread }, letters, cx);
        }
        if !begun.is_empty() {
            begun.into_iter().for_each(|(thread, begun)| self.add_thread(id, thread, begun));
            self.touch(id, cx);
            cx.set_timer_by(Timer::Look, Duration::ZERO);
        }
        for thread in woken {
            self.wait_no_longer(UnitId { job: id, index: thread }, cx);
        }
    }

    fn deliver(&self, unit: UnitId, letters: Vec<Letter>, cx: &mut Cx<'_, Self>) {
        let Some(runner) = self.book.runner(unit) else { return };
        let Some(at) = self.book.placement(unit, runner).filter(|at| at.granted) else { return };
        let (mut bytes, mut part) = (0, Vec::new());
        let mut send = |letters: Vec<Letter>| {
            let letters = ToRunner::Letters { unit, attempt: at.attempt, letters };
            Self::to_runner(runner, letters, cx);
        };
        for letter in letters {
            let len = 64 + size_of(&letter);
            if bytes + len > LETTERS && !part.is_empty() {
                send(std::mem::take(&mut part));
                bytes = 0;
            }
            bytes += len;
            part.push(letter);
        }
        send(part);
    }

    /// The state of the job's threads is on the disk, or could not be written.
    pub(super) fn threads_written(
        &mut self,
        id: JobId,
        result: Result<(), disk::Failed>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(hosted) = self.threads.jobs.get_mut(&id) else { return };
        hosted.carrier.is_written(result.is_ok());
        if let Err(error) = result {
            hosted.again = cx.now + self.config.timing.retry;
            cx.trouble(format!("what threads said could not be written down, and they wait: {error}"));
            return cx.set_timer_by(Timer::Threads, TICK);
        }
        self.carry(id, cx);
    }

    /// These are on their way to a runner: reads that they have to find again go with them.
    pub(super) fn place_threads(&mut self, id: JobId, units: &mut [UnitGrant]) {
        let Some(hosted) = self.threads.jobs.get_mut(&id) else { return };
        for grant in units {
            grant.choices = hosted.carrier.choices(grant.index);
            hosted.carrier.placed(grant.index);
        }
    }

    /// A thread has stopped, asked to. It waits without a place if what it waits for has not come.
    pub(super) fn thread_stopped(&mut self, unit: UnitId, marks: Option<&Marks>, cx: &mut Cx<'_, Self>) {
        let Some(hosted) = self.threads.jobs.get_mut(&unit.job) else { return };
        if hosted.carrier.stopped(unit.index, marks) {
            self.wait_for(unit, PARKED_MAX, cx);
        }
    }

    /// A checkpoint of the unit is written down.
    pub(super) fn thread_kept(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        if !self.threads.jobs.contains_key(&unit.job) {
            return;
        }
        // The newest may turn out to be of no use.
        let older = self.record(unit).and_then(|record| record.older.as_ref());
        let marks = older.and_then(|older| older.marks.clone());
        if let (Some(marks), Some(hosted)) = (marks, self.threads.jobs.get_mut(&unit.job)) {
            hosted.carrier.covered(unit.index, &marks);
            self.carry(unit.job, cx);
        }
    }

    /// The result of a thread is written down.
    pub(super) fn thread_ended(&mut self, unit: UnitId, result: &UnitResult, cx: &mut Cx<'_, Self>) {
        let Some(hosted) = self.threads.jobs.get_mut(&unit.job) else { return };
        let (how, output) = match (&result.end, &result.stdout) {
            (End::Exited(code), Data::Inline(bytes)) => (format!("exit {code}"), bytes.clone()),
            (End::Exited(code), Data::Blob(blob)) => {
                (format!("exit {code}, output of {} bytes left out", blob.len), Bytes::new())
            }
            (end, _) => (format!("failed: {end}"), Bytes::new()),
        };
        hosted.carrier.ended(unit.index, how, &output);
        self.carry(unit.job, cx);
    }

    /// Whether the job is over: its first thread has ended.
    pub(super) fn first_has_ended(&self, id: JobId) -> bool {
        let first = UnitId { job: id, index: 0 };
        self.threads.jobs.contains_key(&id) && self.book.state(first).is_some_and(State::has_ended)
    }

    /// Looks at threads that wait.
    pub(super) fn look_at_threads(&mut self, cx: &mut Cx<'_, Self>) {
        let ids: Vec<JobId> = self.threads.jobs.keys().copied().collect();
        // Units of all jobs want slots, whoever has them.
        let wanted = !self.active.is_empty();
        for id in ids {
            if !self.jobs.get(&id).is_some_and(|job| job.is_active()) {
                continue;
            }
            cx.set_timer_by(Timer::Threads, TICK);
            let Some(hosted) = self.threads.jobs.get_mut(&id) else { continue };
            let book = &self.book;
            hosted.carrier.only(|index| book.runner(UnitId { job: id, index }).is_some());
            let pressed = hosted.carrier.pressed();
            let parks = hosted.carrier.idle(if wanted { PARK } else { PARK_ALWAYS }, cx.now);
            let stuck = hosted.carrier.stuck();
            for index in pressed {
                let unit = UnitId { job: id, index };
                if let Some(runner) = self.book.runner(unit) {
                    Self::to_runner(runner, ToRunner::Checkpoint { unit }, cx);
                }
            }
            for index in parks {
                let unit = UnitId { job: id, index };
                if let Some(runner) = self.book.runner(unit).filter(|runner| self.is_placed(unit, *runner)) {
                    Self::to_runner(runner, ToRunner::Suspend { unit }, cx);
                }
            }
            if let Some(job) = self.jobs.get_mut(&id) {
                let words = |stuck: Vec<_>| {
                    let first: Vec<String> = stuck.iter().take(5).map(ToString::to_string).collect();
                    let more = if stuck.len() > first.len() { ", …" } else { "" };
                    format!("all threads wait for each other: {}{more}", first.join(", "))
                };
                let stuck = stuck.map(words);
                if job.stuck != stuck {
                    job.stuck = stuck;
                    self.touch(id, cx);
                }
            }
            self.carry(id, cx);
        }
    }

    /// Threads of a job as people see them, from number `from` on; `None`: it is no virtual computer.
    pub fn threads(&self, id: JobId, from: u32, limit: u32) -> Option<Vec<ThreadView>> {
        let carrier = &self.threads.jobs.get(&id)?.carrier;
        let to = from.saturating_add(limit).min(carrier.computer().threads());
        let view = |number| ThreadView {
            number,
            runner: self.book.runner(UnitId { job: id, index: number }),
            end: carrier.computer().end(number).map(|end| end.how.clone()),
            waits: carrier.waits(number).map(|stuck| stuck.why.to_string()),
            parked: carrier.is_parked(number),
        };
        Some((from..to).map(view).collect())
    }

    /// Partial results of a job, from that number on, as far as they are kept; and how many there have been.
    pub fn partials(&self, id: JobId, from: u64) -> Option<(u64, Vec<Partial>)> {
        let hosted = self.threads.jobs.get(&id)?;
        let later = hosted.partials.iter().filter(|partial| partial.number >= from).cloned();
        // Those that are still being written down come later.
        let next = hosted.partials.back().map_or(0, |last| last.number + 1);
        Some((next, later.collect()))
    }
}

fn size_of(letter: &Letter) -> usize {
    match letter {
        Letter::Message { message, .. } => message.len(),
        Letter::Reply { reply, .. } => reply.len(),
        _ => 0,
    }
}
