//! Threads of a virtual computer, as far as the sandbox has part in them: what one thread has sent, received and
//! asked. The program sees files under `/swarm` (`docs/task-api.md`); whoever runs the thread carries what
//! [`Swarm::asks`] says to the others, and brings back [`Swarm::reply`] and [`Swarm::receive`].
//!
//! All of it is plain data and part of the thread's snapshot, so that a thread that goes on from one sends the same
//! messages under the same numbers, and asks the same questions: receivers leave out what they have, and who
//! answers a question answers it once. What a thread was sent in which order is told ([`Tell::Choice`]) before
//! anything that may depend on it leaves, so that another run of it can be given the same.

mod letter;
mod mail;
mod question;

pub use letter::{Letter, Said};
pub use mail::Marks;
pub use question::{Ended, Question, Reply, SpawnRefused, SwapRefused};

use bytes::Bytes;
use mail::Mail;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Longest message between threads, bytes. Our choice: four of them are a frame between nodes.
pub const MESSAGE_MAX: usize = 256 << 10;

/// Messages of a thread that others may not have yet, bytes: then it waits. Our choice: four of the longest.
pub const KEPT_MAX: usize = 1 << 20;

/// Messages that a thread has not read yet, bytes: more wait at their senders. Our choice: those of four senders.
pub const UNREAD_MAX: usize = 4 << 20;

/// Messages of either kind. Our choice: their lists take less than a mebibyte.
pub const MESSAGES: usize = 16_384;

/// Longest value of a global, and longest partial result, bytes. Our choice: owners keep many of them.
pub const VALUE_MAX: usize = 64 << 10;

/// Longest name of a global, bytes.
pub const NAME_MAX: usize = 64;

/// Reports and choices that are not written down yet: then the thread waits. Our choice: as many messages.
const TELLS: usize = 16_384;

/// A thread among those of its virtual computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// 0: the one that the job begins with.
    pub number: u32,
    /// Workers that the job asked for.
    pub workers: u32,
}

/// Something that whoever runs the thread has to carry. It may be carried more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// A message for another thread, once the first `told` tells are written down.
    Send { to: u32, number: u64, message: Bytes, told: u64 },
    /// A question, once the first `told` tells are written down.
    Question { number: u64, question: Question, told: u64 },
    /// To be written down.
    Tell { number: u64, tell: Tell },
}

/// Larger numbers than any thread comes to.
const NUMBERS: u64 = 1 << 48;

impl Ask {
    /// Whether a thread can ask for it: whoever runs it may say anything.
    pub fn is_sound(&self) -> bool {
        let is_name = |name: &str| (1..=NAME_MAX).contains(&name.len());
        match self {
            Ask::Send { number, message, told, .. } => {
                *number < NUMBERS && *told < NUMBERS && (1..=MESSAGE_MAX).contains(&message.len())
            }
            Ask::Tell { tell: Tell::Report(result), .. } => result.len() <= VALUE_MAX,
            Ask::Tell { .. } => true,
            Ask::Question { question, .. } => match question {
                Question::Spawn { arguments, input } => {
                    input.len() + arguments.iter().map(String::len).sum::<usize>() <= MESSAGE_MAX
                }
                Question::Global { name, .. } => is_name(name),
                Question::Swap { name, value, .. } => is_name(name) && value.len() <= VALUE_MAX,
                Question::End { .. } => true,
            },
        }
    }

    /// Bytes that it takes, about.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        64 + match self {
            Ask::Send { message, .. } => message.len(),
            Ask::Tell { tell: Tell::Report(result), .. } => result.len(),
            Ask::Question { question: Question::Spawn { arguments, input }, .. } => {
                input.len() + arguments.iter().map(|argument| argument.len() + 8).sum::<usize>()
            }
            Ask::Question { question: Question::Swap { name, value, .. }, .. } => name.len() + value.len(),
            Ask::Tell { .. } | Ask::Question { .. } => NAME_MAX,
        }
    }
}

/// Word of a thread that is written down while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tell {
    /// A partial result.
    Report(Bytes),
    /// A read that could have found something else.
    Choice(Choice),
}

/// Outcome of a read, or of several, that could have been another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Choice {
    /// Reads that found nothing, one after the other: at least one.
    Nothing(u64),
    /// One found a message of this thread, or its end.
    From(u32),
}

/// State of a thread towards the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Swarm {
    thread: Thread,
    mail: Mail,
    asked: Option<Asked>,
    /// Questions so far.
    questions: u64,
    /// Not known to be written down; the first has the number `told`.
    tells: VecDeque<Tell>,
    told: u64,
    /// Tells below this number have left, and change no more, wherever the thread goes on.
    sealed: u64,
    /// Outcomes of the next reads, in a thread that is run again.
    replay: VecDeque<Choice>,
    /// Reads that had the first of them, if it is [`Choice::Nothing`].
    replayed: u64,
    /// Bytes of all reports.
    reported: u64,
    /// Reason for which the thread waits, if it does.
    #[serde(skip)]
    waits: Option<Wait>,
    /// Tells that were asked for already, and whether the question was.
    #[serde(skip)]
    gone: (u64, u64),
    /// It has said what it has received, since it is here.
    #[serde(skip)]
    is_known: bool,
    #[serde(skip)]
    end: End,
}

/// How far a thread has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    No,
    /// Its program has, and others may not have all that it sent.
    Kept,
    /// All of that is written down.
    Safe,
}

/// Question of a thread, which waits for the answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Asked {
    number: u64,
    question: Question,
    /// Tells before it.
    told: u64,
    reply: Option<Reply>,
}

/// Reason for which a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// A message of this thread.
    From(u32),
    /// A message of any thread.
    Any,
    /// The answer to a question.
    Answer,
    /// Room for what it sends or reports.
    Room,
}

impl Swarm {
    pub fn new(thread: Thread) -> Swarm {
        Swarm {
            thread,
            mail: Mail::default(),
            asked: None,
            questions: 0,
            tells: VecDeque::new(),
            told: 0,
            sealed: 0,
            replay: VecDeque::new(),
            replayed: 0,
            reported: 0,
            waits: None,
            gone: (0, 0),
            is_known: false,
            end: End::No,
        }
    }

    /// Whether a thread can have come to this state.
    pub(crate) fn is_sound(&self) -> bool {
        let fits = |tell: &Tell| !matches!(tell, Tell::Report(bytes) if bytes.len() > VALUE_MAX);
        let numbers = [self.questions, self.told, self.sealed, self.replayed, self.reported];
        self.mail.is_sound()
            && self.tells.len() <= TELLS
            && self.tells.iter().all(fits)
            && self.replay.iter().all(|choice| *choice != Choice::Nothing(0))
            && numbers.iter().all(|number| *number < 1 << 48)
            && self.asked.as_ref().is_none_or(|asked| asked.number < self.questions)
    }

    pub fn thread(&self) -> Thread {
        self.thread
    }

    /// Reason for which the thread waits; none: it can go on.
    pub fn waits(&self) -> Option<Wait> {
        self.waits
    }

    /// All that is to be carried since the last call; for a thread out of a snapshot: all that others may not have.
    pub fn asks(&mut self) -> Vec<Ask> {
        let mut asks = Vec::new();
        let (tells, questions) = self.gone;
        for (number, tell) in (self.told..).zip(&self.tells).filter(|(number, _)| *number >= tells) {
            asks.push(Ask::Tell { number, tell: tell.clone() });
        }
        self.mail.sends(&mut asks);
        let open = self.asked.as_ref().filter(|asked| asked.reply.is_none() && asked.number >= questions);
        if let Some(Asked { number, question, told, .. }) = open {
            asks.push(Ask::Question { number: *number, question: question.clone(), told: *told });
        }
        self.sealed = self.tells_so_far();
        self.gone = (self.sealed, self.questions);
        asks
    }

    /// The first `told` tells are written down.
    pub fn written(&mut self, told: u64) {
        while self.told < told && self.tells.pop_front().is_some() {
            self.told += 1;
        }
        self.goes_on(Wait::Room);
    }

    /// A message of another thread has come. False: there is no room for it yet, or one before it is missing; it has to
    /// come again. One that was received before is left out.
    pub fn receive(&mut self, from: u32, number: u64, message: Bytes) -> bool {
        let is_awaited = self.waits == Some(Wait::From(from));
        let is_in = self.mail.receive(from, number, message, is_awaited);
        if is_in {
            self.has_come(from);
        }
        is_in
    }

    /// That thread has ended, and has sent so many messages to this one.
    pub fn ended(&mut self, from: u32, sent: u64) -> bool {
        let is_in = self.mail.ended(from, sent);
        if is_in {
            self.has_come(from);
        }
        is_in
    }

    fn has_come(&mut self, from: u32) {
        self.goes_on(Wait::From(from));
        self.goes_on(Wait::Any);
    }

    /// A checkpoint of that thread has all messages of this one below this number.
    pub fn covered(&mut self, to: u32, below: u64) {
        self.mail.covered(to, below);
        self.goes_on(Wait::Room);
    }

    /// The answer to a question; that to another one is left out.
    pub fn reply(&mut self, number: u64, reply: Reply) {
        let answers = |asked: &&mut Asked| asked.number == number && reply.answers(&asked.question);
        if let Some(asked) = self.asked.as_mut().filter(answers) {
            asked.reply = Some(reply);
            self.goes_on(Wait::Answer);
        }
    }

    /// Reads find what they found in an earlier run, as far as that was written down: each with the number under
    /// which it was told. Those that this state has already are left out.
    pub fn replay(&mut self, choices: Vec<(u64, Choice)>) {
        let told = self.tells_so_far();
        let later = choices.into_iter().filter(|(number, _)| *number >= told);
        self.replay =
            later.map(|(_, choice)| choice).filter(|choice| *choice != Choice::Nothing(0)).collect();
    }

    /// The thread has ended; whether it has to be kept: what it told is not written down, or others may not have all
    /// that it sent, and who carries that has not said that it is safe ([`Letter::Safe`]). The first thread ends the
    /// job, and nobody reads on.
    pub fn ends(&mut self) -> bool {
        let has_sent = self.thread.number != 0 && self.mail.has_kept() && self.end != End::Safe;
        let is_kept = has_sent || !self.tells.is_empty();
        self.waits = is_kept.then_some(Wait::Room);
        if has_sent && self.end == End::No {
            self.end = End::Kept;
            self.mail.all_again();
        }
        is_kept
    }

    /// Number of messages that it has sent to each other thread so far.
    pub fn sent(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.mail.sent()
    }

    /// Messages and questions that a checkpoint of its state covers.
    pub fn marks(&self) -> Marks {
        self.mail.marks(self.questions, self.tells_so_far())
    }

    /// Bytes of all partial results so far.
    pub fn reports(&self) -> u64 {
        self.reported
    }

    fn tells_so_far(&self) -> u64 {
        self.told + self.tells.len() as u64
    }

    fn goes_on(&mut self, over: Wait) {
        if self.waits == Some(over) {
            self.waits = None;
        }
    }
}

/// Calls of the program.
impl Swarm {
    pub(crate) fn wait(&mut self, wait: Wait) {
        self.waits = Some(wait);
    }

    /// The call is over that it waited in.
    pub(crate) fn waited(&mut self) {
        self.waits = None;
    }

    /// Takes a message for another thread; false: there is no room.
    pub(crate) fn send(&mut self, to: u32, message: Bytes) -> bool {
        let told = self.tells_so_far();
        self.mail.send(to, message, told)
    }

    /// Takes something to be written down; false: there is no room.
    pub(crate) fn tell(&mut self, tell: Tell) -> bool {
        let is_here = self.tells_so_far() > self.sealed;
        if let (Tell::Choice(Choice::Nothing(more)), Some(Tell::Choice(Choice::Nothing(tries)))) =
            (&tell, self.tells.back_mut().filter(|_| is_here))
        {
            *tries = tries.saturating_add(*more);
            return true;
        }
        let has_room = self.tells.len() < TELLS;
        if has_room {
            self.tells.push_back(tell);
        }
        has_room
    }

    pub(crate) fn reported(&mut self, bytes: u64) {
        self.reported = self.reported.saturating_add(bytes);
    }

    /// Whether it finds what it found in an earlier run.
    pub(crate) fn is_repeated(&self) -> bool {
        !self.replay.is_empty()
    }

    /// The answer to the question; none: it is on its way.
    pub(crate) fn ask(&mut self, question: impl FnOnce() -> Question) -> Option<Reply> {
        let told = self.tells_so_far();
        if let Some(asked) = &mut self.asked {
            let reply = asked.reply.take();
            self.asked.take_if(|_| reply.is_some());
            return reply;
        }
        self.asked = Some(Asked { number: self.questions, question: question(), told, reply: None });
        self.questions += 1;
        None
    }

    /// Length of the next message of that thread, 0 at its end; none: nothing is there.
    pub(crate) fn length(&self, from: u32) -> Option<usize> {
        self.mail.length(from)
    }

    pub(crate) fn take(&mut self, from: u32) -> Option<Bytes> {
        self.mail.take(from)
    }

    /// The thread of whose messages the next came first. A run that is repeated finds what it found.
    pub(crate) fn first(&mut self) -> Option<u32> {
        match self.replay.front() {
            Some(Choice::From(from)) => Some(*from).filter(|from| self.mail.length(*from).is_some()),
            Some(Choice::Nothing(_)) => None,
            None => self.mail.first(),
        }
    }

    /// Whether a read that does not wait found nothing in an earlier run.
    pub(crate) fn found_nothing(&mut self) -> bool {
        let Some(Choice::Nothing(tries)) = self.replay.front().copied() else { return false };
        if self.replayed < tries - 1 {
            self.replayed += 1;
        } else {
            self.replayed = 0;
            self.again();
        }
        true
    }

    /// A read found this; false: there is no room to have it written down.
    pub(crate) fn chose(&mut self, choice: Choice) -> bool {
        if !self.replay.is_empty() {
            self.again();
            return true;
        }
        self.tell(Tell::Choice(choice))
    }

    /// The first of them was found again: it is told under the same number.
    fn again(&mut self) {
        self.tells.extend(self.replay.pop_front().map(Tell::Choice));
    }
}
