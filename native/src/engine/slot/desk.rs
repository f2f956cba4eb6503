//! Where orders come in and outcomes go out.

use super::super::wire::{
    self, Frames, FromSlot, GREETING, Known, NotCompiled, Order, Pipe, Setup, ToSlot, VERSION,
};
use node_core::NoSnapshot;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use sandbox::swarm::Letter;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an outcome may lie before it is sent. Our choice: far below what a person or a
/// heartbeat notices, and long enough for many tiny tasks to share a write.
const MAY_LIE: Duration = Duration::from_micros(500);

/// Outcomes of this many bytes are sent at once.
const MUCH: usize = 32 << 10;

/// How often the clerk looks while there is work.
const GLANCE: Duration = Duration::from_millis(2);

/// A task that runs longer does not hold others up: their orders go back.
const LONG: Duration = Duration::from_millis(5);

/// How often the clerk looks up from the pipe while a long task runs.
const LOOK_UP: Duration = Duration::from_millis(20);

/// Read from the pipe at once.
const READ: usize = 256 << 10;

/// Shared by the runner and the clerk.
pub(super) struct Desk {
    intake: Mutex<Intake>,
    /// Tells the clerk that there is work.
    work: Condvar,
    outgoing: Mutex<Outgoing>,
    /// Something is asked of the task that runs: looked at between any two slices.
    asked: AtomicBool,
    /// Tells the runner the same while it sleeps.
    ask: Condvar,
    /// Percent of a processor: looked at between any two slices, too.
    share: AtomicU8,
}

/// Request of the node about the running task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Kill,
    TimeUp,
    Snapshot {
        stop: bool,
    },
    Pause(bool),
    /// For the thread that it is.
    Letters(Vec<Letter>),
}

struct Intake {
    frames: Frames,
    orders: VecDeque<Order>,
    /// Run that the runner is at.
    current: Option<Current>,
    asks: VecDeque<Ask>,
    /// Orders that stand still as soon as they have begun.
    paused: BTreeSet<u64>,
    /// The fate of the program of this run.
    compiled: Option<(u64, Result<(), NotCompiled>)>,
    /// Whether the runner has anything to do.
    busy: bool,
    /// Whether the load thread looks into the pipe instead of the clerk.
    loading: bool,
}

struct Current {
    run: u64,
    since: Instant,
    /// Why it cannot be suspended, if it cannot: then it is not asked for anything.
    immobile: Option<String>,
}

struct Outgoing {
    buffer: Vec<u8>,
    /// When the oldest outcome in it was written down.
    since: Option<Instant>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The node is gone, or does not speak our language: nobody is left to tell.
fn leave() -> ! {
    std::process::exit(0)
}

impl Desk {
    /// Greets the node and puts the clerk to work.
    pub(super) fn open(setup: &Setup) -> io::Result<Arc<Desk>> {
        rustix::io::ioctl_fionbio(io::stdin(), true)?;
        let intake = Intake {
            frames: Frames::without_greeting(),
            orders: VecDeque::new(),
            current: None,
            asks: VecDeque::new(),
            paused: BTreeSet::new(),
            compiled: None,
            busy: false,
            loading: false,
        };
        let outgoing = Outgoing { buffer: GREETING.to_vec(), since: None };
        let desk = Arc::new(Desk {
            intake: Mutex::new(intake),
            work: Condvar::new(),
            outgoing: Mutex::new(outgoing),
            asked: AtomicBool::new(false),
            ask: Condvar::new(),
            share: AtomicU8::new(setup.cpu_share),
        });
        desk.note(&FromSlot::Ready { version: VERSION.into() });
        let clerk = desk.clone();
        std::thread::Builder::new().name("clerk".into()).spawn(move || {
            super::loading::lower_thread();
            clerk.look_after();
        })?;
        Ok(desk)
    }

    /// Has the node compile what `run`, the order at hand, needs, and waits for that. To be called from the
    /// load thread, which has the priority of somebody who is waited for: it looks into the pipe itself.
    pub(super) fn compiled(&self, run: u64, known: Known) -> Result<(), NotCompiled> {
        let mut intake = locked(&self.intake);
        intake.loading = true;
        self.note(&FromSlot::Compile(run, known));
        loop {
            intake = self.hand_back(intake);
            if let Some((_, result)) = intake.compiled.take_if(|(of, _)| *of == run) {
                intake.loading = false;
                self.work.notify_one();
                return result;
            }
            drop(intake);
            wait(None);
            intake = locked(&self.intake);
        }
    }

    /// The next order, as soon as there is one. None when the node wants no more.
    pub(super) fn next_order(&self) -> Option<Order> {
        let mut intake = locked(&self.intake);
        if intake.orders.is_empty() {
            self.take_in(&mut intake);
        }
        while intake.orders.is_empty() {
            intake.busy = false;
            drop(intake);
            self.flush();
            wait(None);
            intake = locked(&self.intake);
            self.take_in(&mut intake);
        }
        let order = intake.orders.pop_front();
        intake.asks.clear();
        let paused = order.as_ref().is_some_and(|order| intake.paused.remove(&order.run));
        intake.asks.extend(paused.then_some(Ask::Pause(true)));
        self.asked.store(paused, Ordering::Relaxed);
        intake.current =
            order.as_ref().map(|order| Current { run: order.run, since: Instant::now(), immobile: None });
        if !std::mem::replace(&mut intake.busy, true) {
            self.work.notify_one();
        }
        order
    }

    /// The task at hand cannot be suspended: whatever is asked of it is answered without it.
    pub(super) fn immobile(&self, why: &str) {
        let mut intake = locked(&self.intake);
        if let Some(current) = &mut intake.current {
            current.immobile = Some(why.into());
            let run = current.run;
            let asks = std::mem::take(&mut intake.asks);
            asks.into_iter().for_each(|ask| self.answer_immobile(run, why, ask));
        }
    }

    fn answer_immobile(&self, run: u64, why: &str, ask: Ask) {
        if let Ask::Snapshot { .. } = ask {
            let taken = Err(NoSnapshot::Immobile(why.into()));
            self.note(&FromSlot::Snapshot { run, taken, stopped: false });
        }
    }

    /// Takes the next request about the running task; `None` if there is none.
    pub(super) fn asked(&self) -> Option<Ask> {
        if !self.asked.load(Ordering::Relaxed) {
            return None;
        }
        let mut intake = locked(&self.intake);
        let ask = intake.asks.pop_front();
        self.asked.store(!intake.asks.is_empty(), Ordering::Relaxed);
        ask
    }

    /// Percent of a processor that the task at hand gets.
    pub(super) fn share(&self) -> u32 {
        u32::from(self.share.load(Ordering::Relaxed).clamp(1, 100))
    }

    /// Until something is asked, or the time is over.
    pub(super) fn sleep(&self, timeout: Option<Duration>) {
        let intake = locked(&self.intake);
        let quiet = |intake: &mut Intake| intake.asks.is_empty();
        match timeout {
            Some(timeout) => drop(self.ask.wait_timeout_while(intake, timeout, quiet)),
            None => drop(self.ask.wait_while(intake, quiet)),
        }
    }

    /// Sends a message now, behind everything that was written down before.
    pub(super) fn note(&self, message: &FromSlot) {
        let mut outgoing = locked(&self.outgoing);
        outgoing.put(message);
        outgoing.send();
    }

    /// Writes down what became of the order that the runner was at.
    pub(super) fn answer(&self, run: u64, answer: &FromSlot) {
        let mut outgoing = locked(&self.outgoing);
        if !outgoing.put(answer) {
            let why = "its outcome is too large to hand over; lower its output_limit".to_string();
            outgoing.put(&FromSlot::Broken(run, why));
        }
        let now = Instant::now();
        let since = *outgoing.since.get_or_insert(now);
        if outgoing.buffer.len() >= MUCH || now.duration_since(since) >= MAY_LIE {
            outgoing.send();
        }
        drop(outgoing);
        locked(&self.intake).current = None;
    }

    pub(super) fn flush(&self) {
        locked(&self.outgoing).send();
    }

    /// Loop of the clerk's thread.
    fn look_after(&self) {
        let mut intake = locked(&self.intake);
        loop {
            while !intake.busy {
                intake = self.work.wait(intake).unwrap_or_else(PoisonError::into_inner);
            }
            drop(intake);
            std::thread::sleep(GLANCE);
            {
                let mut outgoing = locked(&self.outgoing);
                if outgoing.since.is_some_and(|since| since.elapsed() >= MAY_LIE) {
                    outgoing.send();
                }
            }
            intake = locked(&self.intake);
            while intake.current.as_ref().is_some_and(|current| current.since.elapsed() >= LONG) {
                intake = self.wait_out(intake);
            }
        }
    }

    /// While the runner is at a long task, nothing that comes in can be run here.
    fn wait_out<'a>(&'a self, mut intake: MutexGuard<'a, Intake>) -> MutexGuard<'a, Intake> {
        // The load thread looks into the pipe then.
        if intake.loading {
            return self.work.wait(intake).unwrap_or_else(PoisonError::into_inner);
        }
        intake = self.hand_back(intake);
        drop(intake);
        // Also wakes when the node goes away: a task that never returns must not outlive it.
        wait(Some(LOOK_UP));
        locked(&self.intake)
    }
}

impl Desk {
    /// Takes in what has come and hands back the orders among it.
    fn hand_back<'a>(&'a self, mut intake: MutexGuard<'a, Intake>) -> MutexGuard<'a, Intake> {
        self.take_in(&mut intake);
        let back: Vec<u64> = intake.orders.drain(..).map(|order| order.run).collect();
        if !back.is_empty() {
            self.note(&FromSlot::Returned(back));
        }
        intake
    }
}

impl Intake {
    fn fill(&mut self) -> Pipe {
        self.frames.fill(io::stdin(), READ).unwrap_or_else(|_| leave())
    }

    fn holds(&self, run: u64) -> bool {
        self.current.as_ref().is_some_and(|current| current.run == run)
    }

    /// Takes an order back that has not begun.
    fn take_back(&mut self, run: u64) -> bool {
        let at = self.orders.iter().position(|order| order.run == run);
        at.and_then(|at| self.orders.remove(at)).is_some()
    }
}

impl Desk {
    /// Takes what is in the pipe. Ends the process when the node is gone.
    fn take_in(&self, intake: &mut Intake) {
        let pipe = intake.fill();
        loop {
            match intake.frames.next() {
                Ok(Some(ToSlot::Run(order))) => intake.orders.push_back(order),
                Ok(Some(ToSlot::TimeUp(run))) => self.take_ask(intake, run, Ask::TimeUp),
                Ok(Some(ToSlot::Kill(run))) => self.take_ask(intake, run, Ask::Kill),
                Ok(Some(ToSlot::Snapshot { run, stop })) => {
                    self.take_ask(intake, run, Ask::Snapshot { stop })
                }
                Ok(Some(ToSlot::Pause { run, paused })) => self.take_ask(intake, run, Ask::Pause(paused)),
                Ok(Some(ToSlot::Letters { run, letters })) => {
                    self.take_ask(intake, run, Ask::Letters(letters));
                }
                Ok(Some(ToSlot::Share(percent))) => self.share.store(percent, Ordering::Relaxed),
                Ok(Some(ToSlot::Compiled { run, result })) => intake.compiled = Some((run, result)),
                Ok(Some(ToSlot::Setup(_) | ToSlot::Compile(_))) => {}
                Ok(None) => break,
                Err(error) => {
                    eprintln!("manyhands: a slot does not understand its node: {error}");
                    leave()
                }
            }
        }
        if pipe == Pipe::Closed {
            leave()
        }
    }

    fn take_ask(&self, intake: &mut Intake, run: u64, ask: Ask) {
        if intake.holds(run) {
            match intake.current.as_ref().and_then(|current| current.immobile.as_deref()) {
                Some(why) => self.answer_immobile(run, why, ask),
                None => {
                    intake.asks.push_back(ask);
                    self.asked.store(true, Ordering::Relaxed);
                    self.ask.notify_one();
                }
            }
            return;
        }
        // It waits here, or it was answered or handed back before this came.
        let stops = matches!(ask, Ask::Kill | Ask::TimeUp | Ask::Snapshot { stop: true });
        let waits = if stops { intake.take_back(run) } else { intake.orders.iter().any(|o| o.run == run) };
        match ask {
            Ask::Kill | Ask::TimeUp if waits => self.note(&FromSlot::Killed(run)),
            Ask::Snapshot { stop } if waits => {
                self.note(&FromSlot::Snapshot { run, taken: Err(NoSnapshot::NotBegun), stopped: stop });
            }
            Ask::Pause(true) if waits => drop(intake.paused.insert(run)),
            Ask::Pause(false) => drop(intake.paused.remove(&run)),
            _ => {}
        }
    }
}

impl Outgoing {
    fn put(&mut self, message: &FromSlot) -> bool {
        wire::put(&mut self.buffer, message).is_ok()
    }

    fn send(&mut self) {
        self.since = None;
        if self.buffer.is_empty() {
            return;
        }
        let mut left = &self.buffer[..];
        while !left.is_empty() {
            match rustix::io::write(io::stdout(), left) {
                Ok(written) => left = &left[written..],
                Err(Errno::INTR) => {}
                Err(_) => leave(),
            }
        }
        self.buffer.clear();
        // One large outcome does not make a slot large for good.
        self.buffer.shrink_to(4 * MUCH);
    }
}

/// Until something comes in or the node is gone.
fn wait(timeout: Option<Duration>) {
    let stdin = io::stdin();
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    // An interruption is one more reason to look.
    let _ = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], timeout.as_ref());
}
