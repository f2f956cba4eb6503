//! Letters between the threads of a virtual computer, as its owner carries them.
//!
//! Threads say what they have for others ([`Said`]) and get [`Letter`]s. A message stays with its sender until a
//! checkpoint of its receiver covers it: a receiver that goes on elsewhere says what it has, and its senders send the
//! rest again. What the computer decides is written down before anybody hears of it.

use super::{Bounds, Computer, Output, Stuck};
use crate::time::Time;
use bytes::Bytes;
use sandbox::swarm::{Ask, Choice, Letter, MESSAGES, Marks, Said, Tell, UNREAD_MAX, Wait};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Bytes of messages of threads that have ended. Our choice: the state is written down with them.
const LAST_MAX: usize = 16 << 20;

/// Bytes of messages for threads that no runner has now. Our choice: as many as one thread may have unread.
const WAITING_MAX: usize = UNREAD_MAX;

/// Number of them. Our choice: as many as one thread may have under way.
const LAST_MESSAGES: usize = MESSAGES;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Carrier {
    computer: Computer,
    /// Arguments and standard input of threads that others began.
    begun: BTreeMap<u32, (Vec<String>, Bytes)>,
    /// Messages of threads that have ended, by sender, receiver and number.
    last: BTreeMap<(u32, u32, u64), Bytes>,
    last_bytes: usize,
    /// Partial results so far.
    reported: u64,
    /// Threads that a runner has, or had when they waited.
    #[serde(skip)]
    seats: BTreeMap<u32, Seat>,
    /// For each sender and receiver, the number of the next message, as far as is known here.
    #[serde(skip)]
    passed: BTreeMap<(u32, u32), u64>,
    /// Likewise, the messages that checkpoints of the receiver cover.
    #[serde(skip)]
    covered: BTreeMap<(u32, u32), u64>,
    /// Words of each thread that are written down.
    #[serde(skip)]
    written: BTreeMap<u32, u64>,
    /// Messages for threads that no runner has now, so that their senders need not be there with them.
    #[serde(skip)]
    waiting: BTreeMap<(u32, u32, u64), Bytes>,
    #[serde(skip)]
    waiting_bytes: usize,
    #[serde(skip)]
    acts: Vec<Act>,
    /// Acts that wait until the state is written down: those of the state that is being written, and later ones.
    #[serde(skip)]
    held: (Vec<Act>, Vec<Act>),
    #[serde(skip)]
    is_writing: bool,
    #[serde(skip)]
    is_changed: bool,
}

#[derive(Clone, Debug, Default)]
struct Seat {
    place: Place,
    /// Reason for which it waits, as it said last, and since when.
    waits: Option<(Wait, Time)>,
    /// Messages that it has from each other thread, as it said last.
    received: BTreeMap<u32, u64>,
    /// There was no room for some of its last messages.
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// A runner has it, and has not said what it has received.
    #[default]
    Coming,
    Here,
    /// It waits, and takes no slot.
    Parked,
}

/// Something that the owner is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Letter {
        thread: u32,
        letter: Letter,
    },
    /// Place the thread: what it waits for may be there.
    Wake(u32),
    /// One more thread.
    Begin(u32),
    /// A partial result; its number counts those of all threads.
    Report {
        thread: u32,
        number: u64,
        result: Bytes,
    },
    /// Number of the thread's words that are written down.
    Written(u32, u64),
}

impl Carrier {
    pub fn new(bounds: Bounds) -> Carrier {
        Carrier {
            computer: Computer::new(bounds),
            begun: BTreeMap::new(),
            last: BTreeMap::new(),
            last_bytes: 0,
            reported: 0,
            seats: BTreeMap::new(),
            passed: BTreeMap::new(),
            covered: BTreeMap::new(),
            written: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            acts: Vec::new(),
            held: Default::default(),
            is_writing: false,
            is_changed: false,
        }
    }

    /// State of an earlier life of its owner.
    pub fn restored(mut self) -> Carrier {
        self.written =
            (0..self.computer.threads()).map(|thread| (thread, self.computer.told(thread))).collect();
        self.passed = self.last.keys().map(|(from, to, number)| ((*from, *to), number + 1)).collect();
        self
    }

    pub fn computer(&self) -> &Computer {
        &self.computer
    }

    /// Arguments and standard input of a thread that another one began.
    pub fn begun(&self, thread: u32) -> Option<&(Vec<String>, Bytes)> {
        self.begun.get(&thread)
    }

    /// Reads that a run of the thread has to find again.
    pub fn choices(&self, thread: u32) -> Vec<(u64, Choice)> {
        self.computer.choices(thread)
    }

    /// Things to do now, in order.
    pub fn acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// Whether the state is to be written down now; then [`Carrier::is_written`] follows.
    pub fn writes(&mut self) -> bool {
        let begins = self.is_changed && !self.is_writing;
        if begins {
            (self.is_changed, self.is_writing) = (false, true);
            self.held.0 = std::mem::take(&mut self.held.1);
        }
        begins
    }

    /// Partial results that are written down with the state: number, thread and result of each.
    pub fn partials(&self) -> impl Iterator<Item = (u64, u32, &Bytes)> {
        self.held.0.iter().filter_map(|act| match act {
            Act::Report { thread, number, result } => Some((*number, *thread, result)),
            _ => None,
        })
    }

    /// The state is on the disk, or could not be written and has to be again.
    pub fn is_written(&mut self, well: bool) {
        self.is_writing = false;
        let acts = std::mem::take(&mut self.held.0);
        if !well {
            self.held.1 = [acts, std::mem::take(&mut self.held.1)].concat();
            self.is_changed = true;
            return;
        }
        for act in acts {
            match act {
                Act::Letter { thread, letter } => self.post(thread, letter),
                Act::Written(thread, told) => {
                    self.written.insert(thread, told);
                    self.post(thread, Letter::Written(told));
                }
                act => self.acts.push(act),
            }
        }
    }

    fn hold(&mut self, act: Act) {
        self.held.1.push(act);
    }

    /// A runner gets the thread.
    pub fn placed(&mut self, thread: u32) {
        self.seats.insert(thread, Seat::default());
    }

    /// These alone have a runner, or wait without one: others were lost with theirs.
    pub fn only(&mut self, is_placed: impl Fn(u32) -> bool) {
        self.seats.retain(|thread, seat| seat.place == Place::Parked || is_placed(*thread));
    }

    /// No runner has it any more. `marks`: what is covered where it goes on, if it was asked to stop.
    /// Whether it is to wait without a place.
    pub fn stopped(&mut self, thread: u32, marks: Option<&Marks>) -> bool {
        // If it has received something since it said that it waits, it may go on.
        let has_said = |seat: &Seat| marks.is_some_and(|marks| seat.received == marks.received);
        let is_quiet = self.seats.get(&thread).is_some_and(has_said) && !self.owes(thread);
        if is_quiet && self.may_park(thread) {
            self.seats.entry(thread).or_default().place = Place::Parked;
            return true;
        }
        self.seats.remove(&thread);
        false
    }

    /// Word of a thread, from the runner that has it.
    pub fn said(&mut self, thread: u32, said: Said, now: Time) {
        if !self.computer.runs(thread) {
            return;
        }
        let Said { asks, waits, marks, all, ends, more } = said;
        let seat = self.seats.entry(thread).or_default();
        if !all && seat.place != Place::Here {
            // Word of before it was asked to say all again.
            return;
        }
        if let Some(marks) = marks {
            (seat.received, seat.place) = (marks.received, Place::Here);
        }
        seat.waits = waits.map(|wait| match seat.waits {
            Some((before, since)) if before == wait => (wait, since),
            _ => (wait, now),
        });
        if all {
            self.comes(thread);
        }
        if ends {
            let is_kept = self.keep(thread, &asks);
            self.is_safe(thread, is_kept, more);
        }
        for ask in asks.into_iter().filter(Ask::is_sound) {
            self.carry(thread, ask);
        }
        self.follow();
        // One that has ended sends no more.
        if let Some(Wait::From(from)) = waits
            && self.computer.end(from).is_some()
        {
            self.tell_end(from, thread);
        }
    }

    /// The thread can go once all of its last messages are written down, in however many parts they came.
    fn is_safe(&mut self, thread: u32, is_kept: bool, more: bool) {
        let seat = self.seats.entry(thread).or_default();
        seat.is_lost |= !is_kept;
        if !more && !std::mem::take(&mut seat.is_lost) {
            self.is_changed = true;
            self.hold(Act::Letter { thread, letter: Letter::Safe });
        }
    }

    /// Keeps what a thread sent that has ended, as far as others may not have it. False: there is no room, and the
    /// thread is kept until they have.
    fn keep(&mut self, thread: u32, asks: &[Ask]) -> bool {
        let sends = asks.iter().filter(|ask| ask.is_sound()).filter_map(|ask| match ask {
            Ask::Send { to, number, message, .. } => Some(((thread, *to, *number), message)),
            _ => None,
        });
        let sends = sends.filter(|((_, to, _), _)| self.computer.may_run(*to));
        let sends: BTreeMap<_, _> = sends.filter(|(key, _)| !self.last.contains_key(key)).collect();
        let bytes: usize = sends.values().map(|message| message.len()).sum();
        if self.last_bytes + bytes > LAST_MAX || self.last.len() + sends.len() > LAST_MESSAGES {
            return false;
        }
        self.last_bytes += bytes;
        self.last.extend(sends.into_iter().map(|(key, message)| (key, message.clone())));
        true
    }

    fn forget_last(&mut self, is_over: impl Fn(u32, u32, u64) -> bool) {
        let bytes = &mut self.last_bytes;
        self.last.retain(|(from, to, number), message| {
            let stays = !is_over(*from, *to, *number);
            *bytes -= if stays { 0 } else { message.len() };
            stays
        });
    }

    /// The end of a thread, for one that may read of it.
    fn tell_end(&mut self, from: u32, to: u32) {
        let sent = self.passed.get(&(from, to)).copied().unwrap_or(0);
        self.post(to, Letter::Ended { from, sent });
    }

    /// A thread is at a runner, and has said what it has: others send it the rest again.
    fn comes(&mut self, thread: u32) {
        let received = self.seats.get(&thread).map(|seat| seat.received.clone()).unwrap_or_default();
        let told = self.written.get(&thread).copied().unwrap_or(0);
        self.post(thread, Letter::Written(told));
        let covered: Vec<(u32, u64)> = self
            .covered
            .range((thread, 0)..=(thread, u32::MAX))
            .map(|((_, to), below)| (*to, *below))
            .collect();
        for (to, below) in covered {
            self.post(thread, Letter::Covered { to, below });
        }
        let here = self.seats.iter().filter(|(_, seat)| seat.place == Place::Here);
        let here: Vec<u32> = here.map(|(other, _)| *other).collect();
        for other in here {
            let from = received.get(&other).copied().unwrap_or(0);
            self.post(other, Letter::Again { to: thread, from });
        }
        let lacks = |from: u32| {
            let passed = self.passed.get(&(from, thread)).copied().unwrap_or(0);
            received.get(&from).copied().unwrap_or(0) < passed
        };
        let parked = self.seats.iter().filter(|(_, seat)| seat.place == Place::Parked);
        let parked: Vec<u32> = parked.map(|(other, _)| *other).filter(|other| lacks(*other)).collect();
        parked.into_iter().for_each(|other| self.wake(other));
        self.hand_over(thread, &received);
        let of_it = self.last.iter().filter(|((_, to, _), _)| *to == thread);
        let later =
            of_it.filter(|((from, _, number), _)| received.get(from).is_none_or(|next| number >= next));
        let later: Vec<Letter> = later
            .map(|((from, _, number), message)| Letter::Message {
                from: *from,
                number: *number,
                message: message.clone(),
            })
            .collect();
        later.into_iter().for_each(|letter| self.post(thread, letter));
    }

    /// Messages that came while no runner had the thread.
    fn hand_over(&mut self, thread: u32, received: &BTreeMap<u32, u64>) {
        for ((_, from, number), message) in self.take_waiting(thread) {
            if received.get(&from).is_none_or(|next| number >= *next) {
                self.post(thread, Letter::Message { from, number, message });
            }
        }
    }

    fn take_waiting(&mut self, thread: u32) -> BTreeMap<(u32, u32, u64), Bytes> {
        let mut taken = self.waiting.split_off(&(thread, 0, 0));
        self.waiting.append(&mut taken.split_off(&(thread + 1, 0, 0)));
        self.waiting_bytes -= taken.values().map(Bytes::len).sum::<usize>();
        taken
    }

    fn carry(&mut self, thread: u32, ask: Ask) {
        match ask {
            Ask::Send { to, number, message, told } => {
                if !self.computer.may_run(to) {
                    // Messages to a thread that has ended, or cannot be, go nowhere. Those to one that may still be
                    // begun stay with their sender.
                    return self.post(thread, Letter::Covered { to, below: number + 1 });
                }
                let passed = self.passed.entry((thread, to)).or_default();
                *passed = (*passed).max(number + 1);
                let letter = Letter::Message { from: thread, number, message };
                if told <= self.written.get(&thread).copied().unwrap_or(0) {
                    self.post(to, letter);
                } else {
                    // It leaves with the write after this one, if the words are in that which is under way.
                    self.hold(Act::Letter { thread: to, letter });
                    self.is_changed = true;
                }
            }
            Ask::Question { number, question, .. } => {
                self.computer.ask(thread, number, question);
                self.is_changed = true;
            }
            Ask::Tell { number, tell } => self.tell(thread, number, tell),
        }
    }

    fn tell(&mut self, thread: u32, number: u64, tell: Tell) {
        self.computer.tell(thread, number, tell);
        self.is_changed = true;
        let told = self.computer.told(thread);
        self.hold(Act::Written(thread, told));
    }

    /// Takes what the computer says.
    fn follow(&mut self) {
        while let Some(output) = self.computer.output() {
            let act = match output {
                Output::Begin { thread, arguments, input } => {
                    self.begun.insert(thread, (arguments, input));
                    Act::Begin(thread)
                }
                Output::Reply { thread, number, reply } => {
                    Act::Letter { thread, letter: Letter::Reply { number, reply } }
                }
                Output::Report { thread, result, .. } => {
                    self.reported += 1;
                    Act::Report { thread, number: self.reported - 1, result }
                }
            };
            self.hold(act);
        }
    }

    fn post(&mut self, thread: u32, letter: Letter) {
        let is_here = self.seats.get(&thread).is_some_and(|seat| seat.place == Place::Here);
        if let (Letter::Message { from, number, message }, false) = (&letter, is_here) {
            let key = (thread, *from, *number);
            let fits = self.waiting_bytes + message.len() <= WAITING_MAX && self.waiting.len() < MESSAGES;
            if fits && !self.waiting.contains_key(&key) {
                self.waiting_bytes += message.len();
                self.waiting.insert(key, message.clone());
            }
        }
        match self.seats.get_mut(&thread) {
            Some(Seat { place: Place::Here, .. }) => self.acts.push(Act::Letter { thread, letter }),
            Some(seat) if seat.place == Place::Parked => {
                let is_for_it = !matches!(letter, Letter::Covered { .. } | Letter::Written(_));
                if is_for_it {
                    self.wake(thread);
                }
            }
            // It says what it needs once it is there.
            _ => {}
        }
    }

    /// One that waits without a place is placed: it has something to send again, or something has come for it.
    fn wake(&mut self, thread: u32) {
        if let Some(seat) = self.seats.get_mut(&thread).filter(|seat| seat.place == Place::Parked) {
            seat.place = Place::Coming;
            self.acts.push(Act::Wake(thread));
        }
    }

    /// A checkpoint covers this of the thread, and none that it may go on from covers less.
    pub fn covered(&mut self, thread: u32, marks: &Marks) {
        self.computer.covered(thread, marks);
        self.is_changed = true;
        self.forget_last(|from, to, number| {
            to == thread && marks.received.get(&from).is_some_and(|below| number < *below)
        });
        let threads = self.computer.threads();
        for (from, below) in marks.received.iter().filter(|(from, _)| **from < threads) {
            self.covered.insert((*from, thread), *below);
            self.post(*from, Letter::Covered { to: thread, below: *below });
        }
    }

    /// A thread has ended. What it has sent, others have, or it is kept here.
    pub fn ended(&mut self, thread: u32, how: String, output: &Bytes) {
        self.computer.ended(thread, how, output);
        self.is_changed = true;
        self.seats.remove(&thread);
        self.take_waiting(thread);
        self.begun.remove(&thread);
        self.follow();
        let senders: BTreeSet<u32> =
            self.passed.keys().filter(|(_, to)| *to == thread).map(|(from, _)| *from).collect();
        for from in senders {
            self.post(from, Letter::Covered { to: thread, below: u64::MAX });
        }
        let waiting = |(other, seat): (&u32, &Seat)| {
            let waits = matches!(seat.waits, Some((Wait::From(from), _)) if from == thread);
            (waits || self.passed.contains_key(&(thread, *other))).then_some(*other)
        };
        let waiting: Vec<u32> = self.seats.iter().filter_map(waiting).collect();
        waiting.into_iter().for_each(|other| self.tell_end(thread, other));
        self.passed.retain(|(_, to), _| *to != thread);
        self.covered.retain(|(_, to), _| *to != thread);
        self.forget_last(|_, to, _| to == thread);
    }

    /// Whether it waits, and nothing of what it waits for is on its way. `but`: messages of these count as none.
    fn waits_in_vain(&self, thread: u32, but: impl Fn(u32) -> bool) -> bool {
        let Some(seat) = self.seats.get(&thread) else { return false };
        let has_all =
            |from: u32, passed: u64| but(from) || seat.received.get(&from).copied().unwrap_or(0) >= passed;
        match seat.waits {
            Some((Wait::From(from), _)) => {
                self.computer.end(from).is_none()
                    && has_all(from, self.passed.get(&(from, thread)).copied().unwrap_or(0))
            }
            Some((Wait::Any, _)) => {
                self.passed.iter().all(|((from, to), passed)| *to != thread || has_all(*from, *passed))
            }
            Some((Wait::Answer, _)) => self.computer.is_open(thread),
            // Those that it waits for were never begun.
            Some((Wait::Room, _)) => {
                let mut under_way = self.under_way(thread).peekable();
                under_way.peek().is_some() && under_way.all(|to| !self.computer.runs(to))
            }
            None => false,
        }
    }

    /// Whether it need not have a place now. A sender that has none itself sends again once it has one.
    fn may_park(&self, thread: u32) -> bool {
        let is_gone = |from| {
            self.computer.runs(from) && self.seats.get(&from).is_none_or(|seat| seat.place != Place::Here)
        };
        self.waits_in_vain(thread, is_gone)
    }

    /// Whether a thread that is at a runner may lack some of what it has sent.
    fn owes(&self, thread: u32) -> bool {
        let mut passed = self.passed.range((thread, 0)..=(thread, u32::MAX));
        passed.any(|((_, to), passed)| {
            let here = self.seats.get(to).filter(|seat| seat.place == Place::Here);
            here.is_some_and(|seat| seat.received.get(&thread).is_none_or(|received| received < passed))
        })
    }

    /// Threads of which no checkpoint covers all that this one has sent.
    fn under_way(&self, from: u32) -> impl Iterator<Item = u32> + '_ {
        let passed = self.passed.range((from, 0)..=(from, u32::MAX));
        let lacks = move |to: u32, passed: u64| self.covered.get(&(from, to)).copied().unwrap_or(0) < passed;
        passed.filter(move |((_, to), passed)| lacks(*to, **passed)).map(|((_, to), _)| *to)
    }

    /// Threads that take a slot and have waited for so long, nothing of it on its way.
    pub fn idle(&self, since: Duration, now: Time) -> Vec<u32> {
        let waits = |(thread, seat): (&u32, &Seat)| {
            let (_, at) = seat.waits.filter(|_| seat.place == Place::Here)?;
            (now.since(at) >= since && self.may_park(*thread)).then_some(*thread)
        };
        self.seats.iter().filter_map(waits).collect()
    }

    /// Threads of which a checkpoint is needed: others wait for room, or to end; or much is kept for them here.
    pub fn pressed(&mut self) -> Vec<u32> {
        let waiting = self.seats.iter().filter(|(_, seat)| matches!(seat.waits, Some((Wait::Room, _))));
        let mut pressed = BTreeSet::new();
        for (from, _) in waiting {
            pressed.extend(self.under_way(*from));
        }
        pressed.extend(self.computer.heavy().filter(|thread| self.seats.contains_key(thread)));
        let parked = |thread: &u32| self.seats.get(thread).is_some_and(|seat| seat.place == Place::Parked);
        let (parked, here): (Vec<u32>, Vec<u32>) = pressed.into_iter().partition(parked);
        parked.into_iter().for_each(|thread| self.wake(thread));
        here
    }

    /// All threads, if they wait for each other and nothing is on its way.
    pub fn stuck(&self) -> Option<Vec<Stuck>> {
        let running = (0..self.computer.threads()).filter(|thread| self.computer.runs(*thread));
        let stuck = running.map(|thread| {
            let (wait, _) =
                self.seats.get(&thread)?.waits.filter(|_| self.waits_in_vain(thread, |_| false))?;
            Some(self.computer.stuck(thread, wait))
        });
        stuck.collect::<Option<Vec<Stuck>>>().filter(|stuck| !stuck.is_empty() && !self.is_writing)
    }

    /// Reason for which the thread waits, if it does.
    pub fn waits(&self, thread: u32) -> Option<Stuck> {
        let (wait, _) = self.seats.get(&thread)?.waits?;
        Some(self.computer.stuck(thread, wait))
    }

    /// Whether it waits without a place.
    pub fn is_parked(&self, thread: u32) -> bool {
        self.seats.get(&thread).is_some_and(|seat| seat.place == Place::Parked)
    }
}
