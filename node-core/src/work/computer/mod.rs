//! A virtual computer: the threads of one job, and what they ask of it ([threads] sections 2.2 and 4.1).
//!
//! The owner of the job has one. It begins threads, remembers how they ended, keeps the globals, and answers each
//! question of a thread once: a thread that goes on from a checkpoint asks again, and has the same answer. It does
//! no I/O and carries no messages.
//!
//! The paper's globals are shared by all nodes; ours are kept in one place, so that each of their operations takes
//! effect in one order for all.
//!
//! [threads]: https://github.com/manyhands/manyhands/blob/main/docs/papers.md#threads

mod carrier;
mod globals;
mod stuck;
#[cfg(test)]
mod tests;

use crate::work::submission::STRINGS_MAX;
use bytes::Bytes;
use globals::Globals;
use sandbox::swarm::{Choice, Ended, Marks, Question, Reply, SpawnRefused, Tell, UNREAD_MAX, VALUE_MAX};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

pub use carrier::{Act, Carrier};
pub use stuck::{Stuck, Why};

/// Longest standard output of a thread that another thread gets, bytes. Our choice: as a value of a global; what is
/// longer is for the submitter.
pub const OUTPUT_MAX: usize = VALUE_MAX;

/// Bytes of answers to a thread that no checkpoint covers: beyond, its questions wait for one. Our choice: as many as
/// of messages that it has not read.
const ANSWERS: usize = UNREAD_MAX;

/// Reads of a thread that no checkpoint covers: beyond, it needs one. Our choice: some 40 KB of the state, which is
/// written down whole.
const CHOICES: usize = 4096;

/// Bounds of a virtual computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Threads, those that have ended included.
    pub threads: u32,
    /// Bytes of the arguments and input of all that other threads have begun.
    pub begun_bytes: usize,
    pub globals: usize,
    /// Bytes of all their values and names.
    pub globals_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        // Our choice: more threads than a job has workers, and a table that an owner does not notice.
        Bounds { threads: 4096, begun_bytes: 16 << 20, globals: 4096, globals_bytes: 16 << 20 }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Computer {
    bounds: Bounds,
    /// By number.
    threads: Vec<Thread>,
    begun_bytes: usize,
    globals: Globals,
    /// Threads whose question waits for the end of another, by that.
    joins: BTreeMap<u32, Vec<u32>>,
    /// Threads whose question waits for a later version of a global, by its name.
    watches: BTreeMap<String, Vec<u32>>,
    #[serde(skip)]
    out: VecDeque<Output>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Thread {
    /// Answers that a checkpoint of the thread does not cover, by the question's number.
    answers: BTreeMap<u64, Reply>,
    /// Bytes of them.
    bytes: usize,
    /// Question that has no answer yet.
    open: Option<(u64, Question)>,
    /// Number of the next question.
    next: u64,
    /// Words that were written down.
    told: u64,
    /// Reads that a checkpoint of the thread does not cover, each with its number.
    choices: VecDeque<(u64, Choice)>,
    end: Option<Ended>,
}

/// Word of the computer, for whoever carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Begin {
        thread: u32,
        arguments: Vec<String>,
        input: Bytes,
    },
    Reply {
        thread: u32,
        number: u64,
        reply: Reply,
    },
    /// A partial result, for the submitter.
    Report {
        thread: u32,
        number: u64,
        result: Bytes,
    },
}

impl Computer {
    /// One with its first thread.
    pub fn new(bounds: Bounds) -> Computer {
        Computer {
            bounds,
            threads: vec![Thread::default()],
            begun_bytes: 0,
            globals: Globals::default(),
            joins: BTreeMap::new(),
            watches: BTreeMap::new(),
            out: VecDeque::new(),
        }
    }

    /// The next word of it, in order.
    pub fn output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Threads so far; their numbers are those below.
    pub fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    /// End of a thread; none: it runs, or was never begun.
    pub fn end(&self, thread: u32) -> Option<&Ended> {
        self.threads.get(thread as usize)?.end.as_ref()
    }

    /// Whether it has not ended, and was begun or may be.
    pub fn may_run(&self, thread: u32) -> bool {
        thread < self.bounds.threads && self.end(thread).is_none()
    }

    /// Whether it was begun and has not ended.
    pub fn runs(&self, thread: u32) -> bool {
        self.threads.get(thread as usize).is_some_and(|thread| thread.end.is_none())
    }

    /// Name, version and value of each global.
    pub fn globals(&self) -> impl Iterator<Item = (&str, u64, &[u8])> {
        self.globals.all()
    }

    /// Threads for which much is kept, since no checkpoint covers it.
    pub(super) fn heavy(&self) -> impl Iterator<Item = u32> + '_ {
        let heavy = |thread: &Thread| thread.bytes > ANSWERS / 4 || thread.choices.len() > CHOICES;
        (0..).zip(&self.threads).filter(move |(_, thread)| heavy(thread)).map(|(number, _)| number)
    }

    /// Whether it has asked something that has no answer yet.
    pub fn is_open(&self, thread: u32) -> bool {
        self.threads.get(thread as usize).is_some_and(|thread| thread.open.is_some())
    }

    /// A question of a thread. Repeating it is harmless. One out of order is left out: a thread asks one at a time.
    pub fn ask(&mut self, thread: u32, number: u64, question: Question) {
        let Some(asking) = self.threads.get_mut(thread as usize).filter(|thread| thread.end.is_none()) else {
            return;
        };
        if let Some(reply) = asking.answers.get(&number).cloned() {
            return self.out.push_back(Output::Reply { thread, number, reply });
        }
        if number == asking.next && asking.open.is_none() {
            asking.next += 1;
            asking.open = Some((number, question));
            // Else it waits until a checkpoint covers some.
            if asking.bytes <= ANSWERS {
                self.consider(thread);
            }
        }
    }

    /// Answers the question of a thread, if that can be done now.
    fn consider(&mut self, thread: u32) {
        let open = self.threads.get(thread as usize).and_then(|thread| thread.open.clone());
        let Some((_, question)) = open else { return };
        match question {
            Question::Spawn { arguments, input } => {
                let reply = Reply::Spawn(self.begin(arguments, input));
                self.answer(thread, reply);
            }
            Question::End { thread: of, wait } => match self.end(of) {
                None if wait => self.joins.entry(of).or_default().push(thread),
                end => {
                    let reply = Reply::End(end.cloned());
                    self.answer(thread, reply);
                }
            },
            Question::Global { name, seen, wait } => {
                let (version, value) = self.globals.get(&name);
                if wait && seen.is_some_and(|seen| version <= seen) {
                    return self.watches.entry(name).or_default().push(thread);
                }
                self.answer(thread, Reply::Global(version, value));
            }
            Question::Swap { name, version, value } => {
                let swapped = self.globals.swap(&self.bounds, &name, version, value);
                self.answer(thread, Reply::Swap(swapped));
                if swapped.is_ok() {
                    let waiting = self.watches.remove(&name).unwrap_or_default();
                    waiting.into_iter().for_each(|thread| self.consider(thread));
                }
            }
        }
    }

    fn answer(&mut self, thread: u32, reply: Reply) {
        let Some(asking) = self.threads.get_mut(thread as usize) else { return };
        if let Some((number, _)) = asking.open.take() {
            asking.bytes += reply.len();
            asking.answers.insert(number, reply.clone());
            self.out.push_back(Output::Reply { thread, number, reply });
        }
    }

    fn begin(&mut self, arguments: Vec<String>, input: Bytes) -> Result<u32, SpawnRefused> {
        let strings = arguments.iter().map(|argument| argument.len() + 1).sum::<usize>();
        if strings > STRINGS_MAX {
            return Err(SpawnRefused::TooLong);
        }
        let bytes = self.begun_bytes + strings + input.len();
        if self.threads() >= self.bounds.threads || bytes > self.bounds.begun_bytes {
            return Err(SpawnRefused::Quota);
        }
        self.begun_bytes = bytes;
        let thread = self.threads();
        self.threads.push(Thread::default());
        self.out.push_back(Output::Begin { thread, arguments, input });
        Ok(thread)
    }

    /// Word of a thread. Repeating it is harmless; one before it must have come. False: one is missing.
    pub fn tell(&mut self, thread: u32, number: u64, tell: Tell) -> bool {
        let Some(telling) = self.threads.get_mut(thread as usize) else { return true };
        if number >= telling.told {
            if number > telling.told {
                return false;
            }
            telling.told += 1;
            match tell {
                Tell::Report(result) => self.out.push_back(Output::Report { thread, number, result }),
                Tell::Choice(choice) => telling.choices.push_back((number, choice)),
            }
        }
        true
    }

    /// Number of words of the thread that were written down.
    pub fn told(&self, thread: u32) -> u64 {
        self.threads.get(thread as usize).map_or(0, |thread| thread.told)
    }

    /// Reads of the thread that checkpoints do not cover, each with its number: for a run that goes on from one.
    pub fn choices(&self, thread: u32) -> Vec<(u64, Choice)> {
        let choices = self.threads.get(thread as usize).map(|thread| &thread.choices);
        choices.into_iter().flatten().copied().collect()
    }

    /// A checkpoint of the thread has all that these marks say: nothing of it is asked again.
    pub fn covered(&mut self, of: u32, marks: &Marks) {
        let Some(thread) = self.threads.get_mut(of as usize) else { return };
        // The answer to the last of them may not be in the checkpoint.
        thread.answers = thread.answers.split_off(&marks.questions.saturating_sub(1));
        let before = std::mem::replace(&mut thread.bytes, thread.answers.values().map(Reply::len).sum());
        while thread.choices.front().is_some_and(|(number, _)| *number < marks.told) {
            thread.choices.pop_front();
        }
        if before > ANSWERS && thread.bytes <= ANSWERS {
            self.consider(of);
        }
    }

    /// A thread has ended. `how`: in one line. Nothing that it says later counts.
    pub fn ended(&mut self, thread: u32, how: String, output: &Bytes) {
        let Some(ending) = self.threads.get_mut(thread as usize).filter(|thread| thread.end.is_none()) else {
            return;
        };
        let is_cut = output.len() > OUTPUT_MAX;
        let how = if is_cut { format!("{how}, output cut at {OUTPUT_MAX} bytes") } else { how };
        ending.end = Some(Ended { how, output: output.slice(..output.len().min(OUTPUT_MAX)) });
        (ending.open, ending.answers, ending.choices) = Default::default();
        let waiting = self.joins.remove(&thread).unwrap_or_default();
        waiting.into_iter().for_each(|thread| self.consider(thread));
    }
}
