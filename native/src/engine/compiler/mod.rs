//! Programs are checked and compiled in processes of their own, one a program, behind the wall
//! ([`super::wall`]) and within bounds of memory and processor time: a few megabytes of a valid module can
//! cost a compiler gigabytes and minutes.
//!
//! - this file: the node's side of one such process.
//! - [`inside`]: the inside of it.
//! - [`shop`]: which programs are compiled, one after the other, and what became of them.
//!
//! A program that goes beyond the bounds, or that ends its compiler, is refused as one that is invalid: the
//! bounds are the same on every node, so others need not try. A lack of this machine, and a process that was
//! killed from outside, are this node's failures.

pub(super) mod inside;
pub(super) mod shop;

use super::process::{Launcher, Process, words};
use super::wire::{Known, NotCompiled, ToSlot};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long one program is compiled at normal priority. Our choice: most take less than a second,
/// and a donor notices a minute.
const PROMPT: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 10_000 });

/// How often a node looks whether anybody waits for a program still. Our choice: below what a person notices.
const LOOK_UP: Duration = Duration::from_millis(100);

/// Bytes of a program. Our choice: several times the largest that compilers make.
pub(crate) const MAX_PROGRAM: u64 = 256 << 20;

/// Checking a program, as it is uploaded, may take this long. Our choice: its processor time, and a busy
/// machine; somebody waits for it.
const CHECK: Duration = Duration::from_secs(300);

/// The bounds of one program's cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    /// Bytes that the process may map to write to (`RLIMIT_DATA`).
    pub(crate) memory: u64,
    /// Processor time of all its threads, seconds, and as much more for each MiB of the program.
    pub(crate) cpu_s: u64,
    pub(crate) cpu_s_per_mib: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        // Our choice: a program of 30 MB takes half of the memory, and 2 s for each MiB here; the slowest
        // machines are five times slower.
        Bounds { memory: 2 << 30, cpu_s: 60, cpu_s_per_mib: 10 }
    }
}

impl Bounds {
    /// The bounds of a check of a program that somebody submits. Our choice: ten times what the largest
    /// known programs take.
    pub(crate) const OF_CHECKS: Bounds = Bounds { memory: 1 << 30, cpu_s: 20, cpu_s_per_mib: 1 };

    fn cpu_of(&self, program_bytes: u64) -> u64 {
        self.cpu_s.saturating_add((program_bytes >> 20).saturating_mul(self.cpu_s_per_mib)).max(1)
    }
}

/// The work of such a process: the only thing that it is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// Path of the program, as bytes.
    program: Bytes,
    work: Work,
    memory: u64,
    cpu_s: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum Work {
    /// Compile it and write the code into this file, which is there.
    Compile { known: Known, out: Bytes },
    /// Say what it needs.
    Check,
}

/// The words of such a process. One that ends without having said how it went was ended by its program.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    /// Comes first: the wall stands, the program is read now.
    Begun,
    Compiled,
    /// It may run; the memory that it begins with, bytes.
    Fit {
        memory_bytes: u64,
    },
    Not(NotCompiled),
    /// Said by the node in its place: the program ended it; in words.
    Ended(String),
}

/// Whether nobody waits for a program any more.
#[derive(Debug, Default)]
pub(super) struct Cancel(AtomicBool);

impl Cancel {
    pub(super) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The turn to check a program. A process of this software has one, for uploads and for what comes over the
/// wire alike: each check may take [`Bounds::OF_CHECKS`].
pub(crate) struct Turn {
    _held: MutexGuard<'static, ()>,
}

impl Turn {
    /// Blocks until no other program is being checked.
    pub(crate) fn wait() -> Turn {
        static TURN: Mutex<()> = Mutex::new(());
        Turn { _held: TURN.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// The memory that the program at `path` begins with, bytes. Blocks.
///
/// # Errors
/// If no node can run it, or this one could not find out.
pub(crate) fn check(
    _turn: &Turn,
    launcher: &Launcher,
    path: &Path,
    bounds: &Bounds,
) -> Result<u64, Unchecked> {
    let order = order(path, Work::Check, bounds).map_err(|why| match why {
        NotCompiled::Refused(why) => Unchecked::Refused(why),
        NotCompiled::Broken(why) => Unchecked::Broken(why),
    })?;
    let talk = Talk { cancel: &Cancel::default(), until: Some(Instant::now() + CHECK), promptly: Some(()) };
    match talk.with(launcher, order) {
        Said::Fit { memory_bytes } => Ok(memory_bytes),
        Said::Not(NotCompiled::Refused(why)) => Err(Unchecked::Refused(why)),
        Said::Not(NotCompiled::Broken(why)) => Err(Unchecked::Broken(why)),
        Said::Ended(why) => Err(Unchecked::Refused(why)),
        Said::Begun | Said::Compiled => Err(Unchecked::Broken("the check ended without a verdict".into())),
    }
}

/// Why nothing is known to be good of a program, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unchecked {
    /// No node can run it.
    Refused(String),
    /// The check failed, not the program.
    Broken(String),
}

fn order(path: &Path, work: Work, bounds: &Bounds) -> Result<Order, NotCompiled> {
    let metadata = std::fs::metadata(path);
    let bytes = metadata.map_err(|error| {
        NotCompiled::Broken(match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("the program is not in this node's storage: {} does not exist", path.display())
            }
            _ => format!("the program cannot be read from {}: {error}", path.display()),
        })
    })?;
    if bytes.len() > MAX_PROGRAM {
        let bytes = bytes.len();
        return Err(NotCompiled::Refused(format!("has {bytes} bytes; a program has at most {MAX_PROGRAM}")));
    }
    let program = Bytes::copy_from_slice(path.as_os_str().as_bytes());
    Ok(Order { program, work, memory: bounds.memory, cpu_s: bounds.cpu_of(bytes.len()) })
}

/// How one process is waited for.
struct Talk<'a, Turn> {
    cancel: &'a Cancel,
    until: Option<Instant>,
    /// `Some`: it has the node's priority for [`PROMPT`], during which this is held; else the lowest.
    promptly: Option<Turn>,
}

impl<Turn> Talk<'_, Turn> {
    fn with(self, launcher: &Launcher, order: Order) -> Said {
        let Talk { cancel, until, mut promptly } = self;
        let broken = |why: String| Said::Not(NotCompiled::Broken(why));
        let bounds = (order.memory, order.cpu_s);
        let mut process = match Process::spawn(launcher, &ToSlot::Compile(order)) {
            Ok(process) => process,
            Err(why) => return broken(why),
        };
        if promptly.is_none() {
            process.lower();
        }
        let started = Instant::now();
        let (mut begun, mut messages) = (false, Vec::new());
        loop {
            process.write();
            let read = process.read(&mut messages);
            for said in messages.drain(..) {
                match said {
                    Said::Begun => begun = true,
                    said => {
                        // How it ends does not matter any more.
                        drop(process.status());
                        return said;
                    }
                }
            }
            match read {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => {
                    drop(process.status());
                    return broken(format!("the compiler's process {fault}"));
                }
            }
            let now = Instant::now();
            if cancel.is_set() || until.is_some_and(|until| until <= now) {
                drop(process.status());
                return broken(
                    "this machine is too busy to compile or check the program now; try again".into(),
                );
            }
            if promptly.is_some() && now.duration_since(started) >= PROMPT {
                process.lower();
                promptly = None;
            }
            let wait = Timespec::try_from(LOOK_UP).ok();
            let out = process.stdout();
            let mut fds = vec![PollFd::new(out, PollFlags::IN)];
            fds.extend(process.stdin_if_waiting().map(|stdin| PollFd::new(stdin, PollFlags::OUT)));
            // An interruption is one more reason to look.
            let _ = poll(&mut fds, wait.as_ref());
        }
        drop(promptly);
        match process.status() {
            Ok(status) if begun => ended_by(status, bounds),
            Ok(status) => broken(format!("the compiler's process {} before it was ready", words(status))),
            Err(error) => broken(format!("the compiler's process could not be waited for: {error}")),
        }
    }
}

/// Blames a program, or not, for the end of a compiler that said nothing.
fn ended_by(status: std::process::ExitStatus, (memory, cpu_s): (u64, u64)) -> Said {
    const ABORT: i32 = 6;
    const HANGUP: i32 = 1;
    const INTERRUPT: i32 = 2;
    const QUIT: i32 = 3;
    const KILL: i32 = 9;
    const TERMINATE: i32 = 15;
    const CPU: i32 = 24;
    const FILE: i32 = 25;
    let advice = "make its functions smaller, or build with less inlining (-Os)";
    match status.signal() {
        // An allocation that fails aborts.
        Some(ABORT) => Said::Ended(format!(
            "takes more than {} MiB of memory to check or compile, the most that a node gives; {advice}",
            memory >> 20
        )),
        Some(CPU) => Said::Ended(format!(
            "takes more than {cpu_s} s of processor time to check or compile, the most that a node gives; {advice}"
        )),
        Some(FILE) => Said::Ended(format!("becomes more machine code than a node keeps; {advice}")),
        // From outside: a service manager, a person, a machine without memory.
        Some(HANGUP | INTERRUPT | QUIT | KILL | TERMINATE) | None => Said::Not(NotCompiled::Broken(format!(
            "the compiler's process {} while it compiled",
            words(status)
        ))),
        Some(_) => Said::Ended(format!(
            "breaks the compiler, whose process {}; please report this with the program",
            words(status)
        )),
    }
}
