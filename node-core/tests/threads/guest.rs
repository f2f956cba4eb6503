//! A thread of a virtual computer that consists of its host calls: it sends, receives, counts and reports, all of it
//! by the files under `/swarm`, and its state can be taken at any moment.

use sandbox::swarm::{Swarm, Thread};
use sandbox::wasi::{self, Answer, Host};
use sandbox::{Limits, Task};

/// Descriptors that its program has open, in the order in which it opens them.
const SPAWN: u32 = 4;
const REPORT: u32 = 5;
const ANY: u32 = 6;
const SOME: u32 = 7;
const TO: u32 = 8;

/// Step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Spawn,
    /// The next message to that thread.
    Send(u32),
    /// A message of any thread, waited for.
    Receive,
    /// A message of any thread, if one is there.
    Look,
    /// Adds one to the global.
    Count,
    Report,
    /// Waits for the end of that thread.
    Join(u32),
}

#[derive(Clone)]
pub(super) struct Guest {
    pub(super) host: Host,
    task: Task,
    memory: Vec<u8>,
    program: Vec<Step>,
    /// Steps that are behind it.
    at: usize,
    /// The global as it read it last, and its descriptor.
    global: Option<(u32, u64, u64)>,
    /// The descriptor of an end that it waits for.
    end: Option<u32>,
    /// Messages to each other thread so far.
    sent: Vec<u64>,
    reports: u64,
    /// Messages that it has read, each with its sender.
    pub(super) got: Vec<(u32, u64)>,
    /// Messages that it looks for after its steps.
    wanted: usize,
}

/// State of a thread, as a checkpoint has it.
#[derive(Clone)]
pub(super) struct Taken {
    guest: Guest,
    host: Vec<u8>,
}

impl Guest {
    pub(super) fn new(number: u32, threads: u32, program: Vec<Step>, wanted: usize) -> Guest {
        let thread = Some(Thread { number, workers: threads });
        let task = Task { thread, limits: Limits::default(), ..Task::default() };
        let host = Host::new(&task).unwrap();
        let mut guest = Guest {
            host,
            task,
            memory: vec![0; 4096],
            program,
            at: 0,
            global: None,
            end: None,
            sent: vec![0; threads as usize],
            reports: 0,
            got: Vec::new(),
            wanted,
        };
        assert_eq!(guest.open("swarm/spawn", false), SPAWN);
        assert_eq!(guest.open("swarm/report", false), REPORT);
        assert_eq!(guest.open("swarm/from/any", false), ANY);
        assert_eq!(guest.open("swarm/from/any", true), SOME);
        for to in 0..threads {
            assert_eq!(guest.open(&format!("swarm/to/{to}"), false), TO + to);
        }
        guest
    }

    pub(super) fn take(&self) -> Taken {
        Taken { guest: self.clone(), host: self.host.save() }
    }

    pub(super) fn of(taken: &Taken) -> Guest {
        let host = Host::load(&taken.guest.task, &taken.host).unwrap();
        Guest { host, ..taken.guest.clone() }
    }

    pub(super) fn swarm(&mut self) -> &mut Swarm {
        self.host.swarm().unwrap()
    }

    /// Step that it is at.
    pub(super) fn at(&self) -> Option<Step> {
        self.program.get(self.at).copied()
    }

    /// Whether it has come to its end.
    pub(super) fn is_over(&self) -> bool {
        self.at == self.program.len() && self.got.len() == self.wanted
    }

    /// Goes one step on, unless it waits.
    pub(super) fn step(&mut self) {
        let Some(step) = self.program.get(self.at).copied() else {
            // Whatever it did not find before.
            self.receive(ANY);
            return;
        };
        if self.go(step).is_some() {
            self.at += 1;
        }
    }

    /// None: it waits.
    fn go(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Spawn => self.write(SPAWN, "one more").map(|errno| assert_eq!(errno, 0)),
            Step::Send(to) => {
                let number = self.sent[to as usize];
                self.write(TO + to, &number.to_string()).map(|errno| assert_eq!(errno, 0))?;
                self.sent[to as usize] += 1;
                Some(())
            }
            Step::Receive if self.got.len() == self.wanted => Some(()),
            Step::Receive => self.receive(ANY),
            Step::Look if self.got.len() == self.wanted => Some(()),
            Step::Look => self.receive(SOME),
            Step::Report => {
                self.write(REPORT, &self.reports.to_string()).map(|errno| assert_eq!(errno, 0))?;
                self.reports += 1;
                Some(())
            }
            Step::Count => self.count(),
            Step::Join(thread) => {
                let fd = match self.end {
                    Some(fd) => fd,
                    None => self.open(&format!("swarm/end/{thread}"), false),
                };
                self.end = Some(fd);
                let text = self.read(fd)?.unwrap();
                assert_eq!(text, "exit 0\n");
                self.end = None;
                Some(())
            }
        }
    }

    fn receive(&mut self, fd: u32) -> Option<()> {
        if let Ok(text) = self.read(fd)? {
            let (from, number) = text.split_once('\n').unwrap();
            self.got.push((from.parse().unwrap(), number.parse().unwrap()));
        }
        Some(())
    }

    fn count(&mut self) -> Option<()> {
        let (fd, value) = match self.global {
            Some((fd, _, value)) => (fd, value),
            None => {
                // A descriptor that was read waits for a change: another one reads what is there.
                let fd = self.open("swarm/globals/sum", false);
                self.global = Some((fd, 0, u64::MAX));
                (fd, u64::MAX)
            }
        };
        if value == u64::MAX {
            let text = self.read(fd)?.unwrap();
            let (version, value) = text.split_once('\n').unwrap();
            self.global = Some((fd, version.parse().unwrap(), value.parse().unwrap_or(0)));
            return None;
        }
        let errno = self.write(fd, &(value + 1).to_string())?;
        self.global = None;
        // EBUSY: another one was first.
        if errno == 0 { Some(()) } else { None }
    }

    fn open(&mut self, path: &str, is_nonblocking: bool) -> u32 {
        self.memory[..path.len()].copy_from_slice(path.as_bytes());
        let rights = (1 << 1) | (1 << 6);
        let flags = if is_nonblocking { 4 } else { 0 };
        let errno = self.call("path_open", &[3, 0, 0, path.len() as u64, 0, rights, 0, flags, 1024]);
        assert_eq!(errno, Some(0), "{path}");
        self.word(1024)
    }

    /// Some error: nothing was there.
    fn read(&mut self, fd: u32) -> Option<Result<String, u32>> {
        self.memory[..4].copy_from_slice(&2048u32.to_le_bytes());
        self.memory[4..8].copy_from_slice(&1024u32.to_le_bytes());
        let errno = self.call("fd_read", &[fd.into(), 0, 1, 8])?;
        if errno != 0 {
            return Some(Err(errno));
        }
        let len = self.word(8) as usize;
        let text = String::from_utf8(self.memory[2048..2048 + len].to_vec()).unwrap();
        Some(Ok(text))
    }

    fn write(&mut self, fd: u32, text: &str) -> Option<u32> {
        self.memory[2048..2048 + text.len()].copy_from_slice(text.as_bytes());
        self.memory[..4].copy_from_slice(&2048u32.to_le_bytes());
        self.memory[4..8].copy_from_slice(&(text.len() as u32).to_le_bytes());
        self.call("fd_write", &[fd.into(), 0, 1, 8])
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.memory[at..at + 4].try_into().unwrap())
    }

    fn call(&mut self, name: &str, args: &[u64]) -> Option<u32> {
        let function = wasi::function(name).unwrap();
        match self.host.call(function, args, &mut &mut self.memory[..]).unwrap() {
            Answer::Errno(errno) => Some(errno),
            Answer::Waits => None,
        }
    }
}
