//! Where orders come in and outcomes go out.

use super::super::wire::{self, Frames, FromSlot, GREETING, Order, Pipe, Setup, ToSlot, VERSION};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::collections::VecDeque;
use std::io;
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
}

struct Intake {
    frames: Frames,
    orders: VecDeque<Order>,
    /// Since when the runner is at its task, if it is at one.
    current: Option<Instant>,
    /// Whether the runner has anything to do.
    busy: bool,
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
    pub(super) fn open() -> io::Result<Arc<Desk>> {
        rustix::io::ioctl_fionbio(io::stdin(), true)?;
        let intake = Intake {
            frames: Frames::without_greeting(),
            orders: VecDeque::new(),
            current: None,
            busy: false,
        };
        let outgoing = Outgoing { buffer: GREETING.to_vec(), since: None };
        let desk = Arc::new(Desk {
            intake: Mutex::new(intake),
            work: Condvar::new(),
            outgoing: Mutex::new(outgoing),
        });
        desk.note(&FromSlot::Ready { version: VERSION.into() });
        let clerk = desk.clone();
        std::thread::Builder::new().name("clerk".into()).spawn(move || clerk.look_after())?;
        Ok(desk)
    }

    /// The first message. None if the node went away before it.
    pub(super) fn setup(&self) -> Option<Setup> {
        loop {
            let mut intake = locked(&self.intake);
            let pipe = intake.fill();
            match intake.frames.next() {
                Ok(Some(ToSlot::Setup(setup))) => return Some(setup),
                Ok(None) if pipe != Pipe::Closed => {}
                Ok(_) | Err(_) => return None,
            }
            drop(intake);
            wait(None);
        }
    }

    /// The next order, as soon as there is one. None when the node wants no more.
    pub(super) fn next_order(&self) -> Option<Order> {
        let mut intake = locked(&self.intake);
        if intake.orders.is_empty() {
            intake.take_in();
        }
        while intake.orders.is_empty() {
            intake.busy = false;
            drop(intake);
            self.flush();
            wait(None);
            intake = locked(&self.intake);
            intake.take_in();
        }
        let order = intake.orders.pop_front();
        intake.current = order.as_ref().map(|_| Instant::now());
        if !std::mem::replace(&mut intake.busy, true) {
            self.work.notify_one();
        }
        order
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

    /// What the clerk does.
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
            while intake.current.is_some_and(|since| since.elapsed() >= LONG) {
                intake = self.wait_out(intake);
            }
        }
    }

    /// While the runner is at a long task, nothing that comes in can be run here.
    fn wait_out<'a>(&'a self, mut intake: MutexGuard<'a, Intake>) -> MutexGuard<'a, Intake> {
        intake.take_in();
        let back: Vec<u64> = intake.orders.drain(..).map(|order| order.run).collect();
        drop(intake);
        if !back.is_empty() {
            self.note(&FromSlot::Returned(back));
        }
        // Also wakes when the node goes away: a task that never returns must not outlive it.
        wait(Some(LOOK_UP));
        locked(&self.intake)
    }
}

impl Intake {
    fn fill(&mut self) -> Pipe {
        self.frames.fill(io::stdin(), READ).unwrap_or_else(|_| leave())
    }

    /// Takes what is in the pipe. Ends the process when the node is gone.
    fn take_in(&mut self) {
        let pipe = self.fill();
        loop {
            match self.frames.next() {
                Ok(Some(ToSlot::Run(order))) => self.orders.push_back(order),
                Ok(Some(ToSlot::Setup(_))) => {}
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
