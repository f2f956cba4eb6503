//! The node's side of all slots: one thread that gives orders, reads answers, and watches
//! the clock.

mod compiling;
mod mailbox;
mod settling;
mod working;

pub(super) use mailbox::{Mail, Mailbox};

use super::compiler::Bounds;
use super::compiler::shop::{Shop, ShopOptions};
use super::plan::{self, Doing, Given, Job};
use super::process::{Launcher, Process};
use super::wire::{self, FromSlot, Known, NotCompiled, Order, Setup, ToSlot, VERSION};
use super::{EngineOptions, Replies};
use crate::storage::Staging;
use bytes::Bytes;
use node_core::{EngineReply, EngineRequest, EngineTask, NoSnapshot, RunId};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use sandbox::{End, Limit, Outcome};
use settling::{Settler, SlotFile, Told};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use working::{Fate, PREPARE, START, Slot, Working};

/// Slots at once, whatever is asked for. Our choice: more than the cores of large machines,
/// fewer than the processes that a user may have.
const MAX_SLOTS: u32 = 1024;

pub(super) struct Manager {
    launcher: Launcher,
    shop: Shop,
    setup: Setup,
    replies: Replies,
    mailbox: Arc<Mailbox>,
    woken: PipeReader,
    queue: VecDeque<Job>,
    slots: Vec<Slot>,
    /// Processes started so far.
    started: u64,
    staging: Staging,
    settler: Settler,
    /// Runs that are over once their last snapshot has its name.
    stopping: Vec<Job>,
    /// How many of them to use.
    wanted: usize,
    /// Whether anything runs or waits here.
    works: watch::Sender<bool>,
}

impl Manager {
    pub(super) fn new(
        options: EngineOptions,
        arguments: Vec<OsString>,
        bounds: Bounds,
        replies: Replies,
    ) -> io::Result<Manager> {
        let EngineOptions { exe, blob_dir, staging, cache_dir, slots, cpu_share, background } = options;
        let (mailbox, woken) = Mailbox::new()?;
        let mailbox = Arc::new(mailbox);
        let bytes = |path: &Path| Bytes::copy_from_slice(path.as_os_str().as_bytes());
        let launcher = Launcher { exe, arguments };
        let shop = ShopOptions {
            launcher: launcher.clone(),
            blob_dir: blob_dir.clone(),
            cache_dir,
            background,
            bounds,
        };
        let shop = Shop::open(shop);
        let mut manager = Manager {
            launcher,
            setup: Setup {
                blob_dir: bytes(&blob_dir),
                cache_dir: bytes(shop.cache_dir()),
                cpu_share,
                background,
            },
            shop,
            replies,
            settler: Settler::start(mailbox.clone())?,
            mailbox,
            woken,
            queue: VecDeque::new(),
            slots: Vec::new(),
            started: 0,
            staging,
            stopping: Vec::new(),
            wanted: 0,
            works: watch::Sender::new(false),
        };
        manager.resize(slots);
        Ok(manager)
    }

    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    pub(super) fn works(&self) -> watch::Receiver<bool> {
        self.works.subscribe()
    }

    pub(super) fn run(mut self) {
        let mut messages = Vec::new();
        loop {
            let (mail, speaking) = self.sleep();
            for mail in mail {
                match mail {
                    Mail::Request(request) => self.request(request),
                    Mail::Share(percent) => self.share(percent),
                    Mail::Compiled(known, result) => self.compiled(known, result),
                    Mail::Settled(settled) => self.settled(*settled),
                    Mail::Stop => return self.stop(),
                }
            }
            let now = Instant::now();
            for at in speaking {
                self.listen(at, now, &mut messages);
            }
            for at in 0..self.slots.len() {
                self.judge(at, now);
            }
            self.assign(now);
            let idle = self.queue.is_empty()
                && self.stopping.is_empty()
                && self.slots.iter().flatten().all(|slot| slot.given.is_idle());
            self.works.send_if_modified(|works| std::mem::replace(works, !idle) == idle);
        }
    }

    /// Until there is mail, a slot has something to say, or a deadline has come. The mail, and
    /// the slots that speak.
    fn sleep(&mut self) -> (Vec<Mail>, Vec<usize>) {
        let has_mail = self.mailbox.has_mail();
        let now = Instant::now();
        let deadline = self.slots.iter().flatten().filter_map(Working::deadline).min();
        let timeout = match (has_mail, deadline) {
            (true, _) => Some(Duration::ZERO),
            // A deadline beyond what the clock can say never comes.
            (false, deadline) => deadline.map(|at| at.saturating_duration_since(now)),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        let processes = || {
            let slots = self.slots.iter().enumerate();
            slots.filter_map(|(at, slot)| slot.as_ref().map(|working| (at, &working.process)))
        };
        fds.extend(processes().map(|(_, process)| PollFd::new(process.stdout(), PollFlags::IN)));
        let waiting = processes().filter_map(|(_, process)| process.stdin_if_waiting());
        fds.extend(waiting.map(|stdin| PollFd::new(stdin, PollFlags::OUT)));
        // An interruption is one more reason to look around.
        let _ = poll(&mut fds, timeout.as_ref());
        let says = |fd: &PollFd<'_>| !fd.revents().is_empty();
        if says(&fds[0]) {
            drop((&self.woken).read(&mut [0; 8]));
        }
        let speaking = processes().zip(&fds[1..]).filter(|(_, fd)| says(fd)).map(|((at, _), _)| at).collect();
        (self.mailbox.take(), speaking)
    }

    fn request(&mut self, request: EngineRequest) {
        match request {
            EngineRequest::Run { run, task } => self.enqueue(run, task, false),
            EngineRequest::Prepare { run, task } => self.prepare(run, task),
            EngineRequest::Kill { run } => {
                self.queue.retain(|job| job.run != run.0);
                self.stopping.iter_mut().filter(|job| job.run == run.0).for_each(|job| job.killed = true);
                if let Some((working, at)) = self.holder(run) {
                    let job = &mut working.given.jobs[at];
                    job.killed = true;
                    job.ending = Some(Instant::now());
                    working.tell(&ToSlot::Kill(run.0));
                }
            }
            EngineRequest::Snapshot { run, stop } => self.snapshot(run, stop),
            EngineRequest::Pause { run, paused } => {
                if let Some((working, at)) = self.holder(run) {
                    working.pause(at, paused, Instant::now());
                    working.tell(&ToSlot::Pause { run: run.0, paused });
                } else if let Some(job) = self.queue.iter_mut().find(|job| job.run == run.0) {
                    job.paused = paused;
                    job.still = paused.then(Instant::now);
                }
            }
            EngineRequest::Letters { run, letters } => {
                if let Some((working, at)) = self.holder(run) {
                    working.waits(at, false, Instant::now());
                    working.tell(&ToSlot::Letters { run: run.0, letters });
                }
            }
            EngineRequest::Slots(slots) => self.resize(slots),
            // The engine's handle takes these.
            EngineRequest::Inspect { .. } => {}
        }
    }

    /// The slot that was given this run, and where in its list it stands.
    fn holder(&mut self, run: RunId) -> Option<(&mut Working, usize)> {
        self.slots.iter_mut().flatten().find_map(|working| {
            let at = working.given.jobs.iter().position(|job| job.run == run.0)?;
            Some((working, at))
        })
    }

    fn snapshot(&mut self, run: RunId, stop: bool) {
        let staging = self.staging.clone();
        if let Some((working, at)) = self.holder(run) {
            if working.file.is_none() {
                match SlotFile::give(&working.process, &staging) {
                    Ok(file) => working.file = Some(file),
                    Err(why) => {
                        let taken = Err(NoSnapshot::Immobile(why));
                        return (self.replies)(EngineReply::Snapshot { run, taken, stopped: false });
                    }
                }
            }
            working.asked = working.asked.saturating_add(1);
            let job = &mut working.given.jobs[at];
            job.asked = Some(stop || job.asked == Some(true));
            working.tell(&ToSlot::Snapshot { run: run.0, stop });
        } else if self.queue.iter().any(|job| job.run == run.0) {
            if stop {
                self.queue.retain(|job| job.run != run.0);
            }
            let taken = Err(NoSnapshot::NotBegun);
            (self.replies)(EngineReply::Snapshot { run, taken, stopped: stop });
        }
    }

    fn share(&mut self, percent: u8) {
        self.setup.cpu_share = percent;
        for working in self.slots.iter_mut().flatten() {
            working.tell(&ToSlot::Share(percent));
        }
    }

    fn resize(&mut self, slots: u32) {
        self.wanted = slots.min(MAX_SLOTS) as usize;
        // Those above go on with what they were given, get nothing more, and so leave in time.
        let len = self.slots.len().max(self.wanted);
        self.slots.resize_with(len, || None);
    }

    /// Has a free slot get ready for a task that will come; if there is none, that is all.
    fn prepare(&mut self, run: RunId, task: EngineTask) {
        let mut slots = self.slots.iter().take(self.wanted);
        if self.queue.is_empty() && slots.any(|slot| slot.as_ref().is_none_or(|s| s.given.is_idle())) {
            self.enqueue(run, task, true);
        } else {
            (self.replies)(EngineReply::Prepared { run });
        }
    }

    fn enqueue(&mut self, run: RunId, task: EngineTask, ahead: bool) {
        // Getting ready is the node's time, not the task's.
        let time_limit = if ahead { PREPARE } else { Duration::from_micros(task.limits.time_us) };
        let start_base = task.from.map(|from| from.base.unwrap_or(from.blob).id);
        let mut frame = Vec::with_capacity(256);
        match wire::put(&mut frame, &ToSlot::Run(Order { run: run.0, task, ahead })) {
            Ok(()) => {
                self.queue.push_back(Job { start_base, ..Job::new(run.0, frame, time_limit) });
            }
            Err(error) => self.broken(run.0, error),
        }
    }

    /// Gives out what can be given out.
    fn assign(&mut self, now: Instant) {
        while let Some(job) = self.queue.front() {
            let slots = self.slots.iter().take(self.wanted).enumerate();
            // Those that are on their way out will be there again soon.
            let slots = slots.filter(|(_, slot)| slot.as_ref().is_none_or(|working| working.fate.is_none()));
            let slots = slots.map(|(at, slot)| (at, slot.as_ref().map(|working| &working.given)));
            let Some(at) = plan::choose(slots, job) else { break };
            let Some(job) = self.queue.pop_front() else { break };
            if self.slots[at].is_none() {
                match Process::spawn(&self.launcher, &ToSlot::Setup(self.setup.clone())) {
                    Ok(process) => {
                        self.started += 1;
                        let (number, given) = (self.started, Given::new(now));
                        self.slots[at] =
                            Some(Working { process, number, file: None, asked: 0, given, fate: None });
                    }
                    Err(error) => {
                        self.broken(job.run, error);
                        continue;
                    }
                }
            }
            if let Some(working) = &mut self.slots[at] {
                working.process.queue(&job.frame);
                if job.paused {
                    working.tell(&ToSlot::Pause { run: job.run, paused: true });
                }
                working.given.give(job, now);
            }
        }
        for working in self.slots.iter_mut().flatten() {
            if working.process.stdin_if_waiting().is_some() {
                working.process.write();
            }
        }
    }

    /// Takes in what a slot says.
    fn listen(&mut self, at: usize, now: Instant, messages: &mut Vec<FromSlot>) {
        let Some(working) = &mut self.slots[at] else { return };
        let read = working.process.read(messages);
        let mut fault = None;
        let (mut returned, mut wanted, mut told) = (Vec::new(), None, Vec::new());
        let of = (at, working.number);
        for message in messages.drain(..) {
            let given = &mut working.given;
            let answer = match message {
                FromSlot::Ready { version } if version == VERSION => {
                    given.ready(now);
                    continue;
                }
                FromSlot::Ready { version } => {
                    fault = Some(format!(
                        "is of version {version}, its node of {VERSION}: the program was replaced; restart the node"
                    ));
                    break;
                }
                FromSlot::Preparing(_) => {
                    given.preparing(true, now);
                    continue;
                }
                FromSlot::Compile(run, known) => {
                    if given.jobs.front().is_none_or(|job| job.run != run) {
                        fault = Some("asked for a program for what it was not given".into());
                        break;
                    }
                    wanted = Some((run, known));
                    continue;
                }
                FromSlot::Running(_) => {
                    given.preparing(false, now);
                    continue;
                }
                FromSlot::Returned(runs) => {
                    returned.extend(runs.into_iter().filter_map(|run| given.returned(run)));
                    continue;
                }
                FromSlot::Snapshot { run, taken: Ok(taken), stopped: false } => {
                    if let Some(job) = given.jobs.iter_mut().find(|job| job.run == run) {
                        job.asked = None;
                    }
                    // The scribe may be slower than the end of its task. Its file is spent all the same.
                    told.push(Told { run, taken, stopped: false, of });
                    continue;
                }
                FromSlot::Snapshot { run, taken: Ok(taken), stopped: true } => {
                    let Some(job) = given.answered(run, now) else {
                        fault = Some("gave a snapshot of what it was not given".into());
                        break;
                    };
                    if !job.killed {
                        self.stopping.push(job);
                    }
                    told.push(Told { run, taken, stopped: true, of });
                    continue;
                }
                FromSlot::Snapshot { run, taken: Err(none), stopped: false } => {
                    working.asked = working.asked.saturating_sub(1);
                    if let Some(job) = given.jobs.iter_mut().find(|job| job.run == run) {
                        job.asked = None;
                        if !job.killed {
                            let taken = Err(none);
                            (self.replies)(EngineReply::Snapshot { run: RunId(run), taken, stopped: false });
                        }
                    }
                    continue;
                }
                FromSlot::Snapshot { run, taken: Err(none), stopped } => {
                    EngineReply::Snapshot { run: RunId(run), taken: Err(none), stopped }
                }
                FromSlot::Resumed(run) => {
                    if given.jobs.iter().any(|job| job.run == run && !job.killed) {
                        (self.replies)(EngineReply::Resumed { run: RunId(run) });
                    }
                    continue;
                }
                FromSlot::Said(run, said) => {
                    if let Some(at) = given.jobs.iter().position(|job| job.run == run && !job.killed) {
                        working.waits(at, said.waits.is_some(), now);
                        (self.replies)(EngineReply::Said { run: RunId(run), said });
                    }
                    continue;
                }
                FromSlot::Killed(run) => {
                    match given.answered(run, now) {
                        Some(job) if !job.killed => (self.replies)(out_of_time(&job)),
                        Some(_) => {}
                        None => {
                            fault = Some("ended what it was not given".into());
                            break;
                        }
                    }
                    continue;
                }
                FromSlot::Ended(run, outcome) => EngineReply::Ended { run: RunId(run), outcome },
                FromSlot::Broken(run, error) => EngineReply::Broken { run: RunId(run), error },
                FromSlot::Prepared(run) => EngineReply::Prepared { run: RunId(run) },
            };
            match answer.run().and_then(|run| given.answered(run.0, now)) {
                Some(job) if !job.killed => {
                    if matches!(answer, EngineReply::Prepared { .. }) {
                        given.prepared(&job);
                    }
                    (self.replies)(answer);
                }
                Some(_) => {}
                None => {
                    fault = Some("answered what it was not asked".into());
                    break;
                }
            }
        }
        messages.clear();
        let over = match (fault, read) {
            (Some(fault), _) | (None, Err(fault)) => {
                working.fate = Some(Fate::Fault(fault));
                true
            }
            (None, Ok(open)) => !open,
        };
        self.settle(told);
        self.requeue(returned);
        if over {
            self.bury(at);
        } else if let Some((run, known)) = wanted {
            self.compile(known, at, run);
        }
    }

    /// Back to where they came from, in their order.
    fn requeue(&mut self, jobs: impl IntoIterator<Item = Job, IntoIter: DoubleEndedIterator>) {
        for mut job in jobs.into_iter().rev().filter(|job| !job.killed) {
            job.ending = None;
            if let Some(stop) = job.asked.take() {
                let taken = Err(NoSnapshot::NotBegun);
                (self.replies)(EngineReply::Snapshot { run: RunId(job.run), taken, stopped: stop });
                if stop {
                    continue;
                }
            }
            self.queue.push_front(job);
        }
    }

    /// Decides whether a process has to end.
    fn judge(&mut self, at: usize, now: Instant) {
        let Some(working) = &mut self.slots[at] else { return };
        if working.fate.is_some() {
            return;
        }
        let due = working.deadline().is_some_and(|deadline| deadline <= now);
        let fate = match working.given.jobs.front() {
            Some(job) if job.killed && due => Fate::Killed,
            Some(job) if due => match working.given.doing {
                Doing::Starting => Fate::Fault(format!("did not start within {} s", START.as_secs())),
                Doing::Preparing => {
                    Fate::Fault(format!("compiled the program for more than {} s", PREPARE.as_secs()))
                }
                Doing::Running | Doing::Nothing if job.ending.is_none() => {
                    // A task in slices ends when it is told to; its slot then goes on with the next.
                    let run = job.run;
                    working.given.jobs[0].ending = Some(now);
                    return working.tell(&ToSlot::TimeUp(run));
                }
                Doing::Running | Doing::Nothing => Fate::OutOfTime(job.run),
            },
            None if due => Fate::Idle,
            _ => return,
        };
        match fate {
            Fate::Idle => working.process.dismiss(),
            _ => working.process.kill(),
        }
        // Its last words are heard before it is buried: an answer may be among them.
        working.fate = Some(fate);
    }

    /// A process is gone: what becomes of what it was given.
    fn bury(&mut self, at: usize) {
        let Some(Working { process, given, fate, .. }) = self.slots[at].take() else { return };
        self.shop.leave(at);
        let started = given.doing != Doing::Starting;
        let how = process.end();
        let mut jobs = given.jobs;
        match fate {
            Some(Fate::OutOfTime(run)) => {
                if let Some(job) = jobs.pop_front_if(|job| job.run == run)
                    && !job.killed
                {
                    (self.replies)(out_of_time(&job));
                }
            }
            Some(Fate::Idle | Fate::Killed) => {}
            Some(Fate::Fault(fault)) => {
                if let Some(job) = jobs.pop_front() {
                    self.broken_unless_killed(&job, format!("the slot's process {fault}"));
                }
            }
            None => {
                if let Some(job) = jobs.pop_front() {
                    let when = if started { "while it ran this task" } else { "before it was ready" };
                    self.broken_unless_killed(&job, format!("the slot's process {how} {when}"));
                }
            }
        }
        self.requeue(jobs);
    }

    fn broken_unless_killed(&self, job: &Job, error: String) {
        if !job.killed {
            self.broken(job.run, error);
        }
    }

    fn broken(&self, run: u64, error: String) {
        (self.replies)(EngineReply::Broken { run: RunId(run), error });
    }

    fn stop(&mut self) {
        self.shop.close();
        self.slots.iter_mut().flatten().for_each(|working| working.process.kill());
        self.slots.drain(..).flatten().for_each(|working| drop(working.process.end()));
    }
}

fn out_of_time(job: &Job) -> EngineReply {
    let limit = u64::try_from(job.time_limit.as_micros()).unwrap_or(u64::MAX);
    let outcome = Outcome::of(End::LimitReached(Limit::TimeUs(limit)));
    EngineReply::Ended { run: RunId(job.run), outcome }
}
