//! Threads of a virtual computer in one process: which can go on, and what lies ready for each.

use node_core::work::computer::{Computer, Output, Stuck};
use sandbox::swarm::{Ask, Letter, Swarm, Thread, Wait};
use sandbox::wasi::Halt;
use sandbox::{End, Instance, Outcome, Running, Task};
use std::collections::{BTreeMap, VecDeque};

/// The threads, and what each is at.
pub(super) struct Crew<I> {
    /// The task that the first thread is, and the others but for their arguments and input.
    task: Task,
    computer: Computer,
    members: BTreeMap<u32, Member<I>>,
    /// Letters for threads that were not begun yet.
    early: BTreeMap<u32, VecDeque<Letter>>,
    /// Those that can go on.
    ready: VecDeque<u32>,
    /// Those that run in a thread of this process now.
    running: usize,
    /// Partial results that nobody has fetched yet.
    reports: Vec<(u32, Vec<u8>)>,
    /// How the first thread ended.
    outcome: Option<Outcome>,
    messages: u64,
}

struct Member<I> {
    place: Place<I>,
    /// Letters that it has not had yet.
    letters: VecDeque<Letter>,
    /// Messages that it had sent to each other thread when it ended.
    sent: BTreeMap<u32, u64>,
}

enum Place<I> {
    New(Box<Task>),
    Here(Box<Running<I>>),
    /// Somebody runs it, or it has ended.
    Away,
}

/// A thread that can go on.
pub(super) enum Turn<I> {
    Begin(u32, Box<Task>),
    GoOn(u32, Box<Running<I>>),
}

/// Next thing to do.
pub(super) enum Next<I> {
    Turn(Turn<I>),
    /// Others run, and something may come of that.
    Wait,
    /// Nothing is left to do: the first thread has ended, or all wait for each other.
    Over,
}

impl<I: Instance> Crew<I> {
    pub(super) fn new(task: Task, computer: Computer) -> Crew<I> {
        let mut crew = Crew {
            task,
            computer,
            members: BTreeMap::new(),
            early: BTreeMap::new(),
            ready: VecDeque::new(),
            running: 0,
            reports: Vec::new(),
            outcome: None,
            messages: 0,
        };
        let first = crew.task.clone();
        crew.begin(0, first);
        crew
    }

    fn begin(&mut self, number: u32, task: Task) {
        let workers = self.task.thread.map_or(1, |thread| thread.workers);
        let thread = Some(Thread { number, workers });
        let task = Task { thread, seed: number.into(), ..task };
        let place = Place::New(Box::new(task));
        let letters = self.early.remove(&number).unwrap_or_default();
        self.members.insert(number, Member { place, letters, sent: BTreeMap::new() });
        self.ready.push_back(number);
    }

    pub(super) fn next(&mut self) -> Next<I> {
        while self.outcome.is_none() {
            let Some(number) = self.ready.pop_front() else {
                return if self.running > 0 { Next::Wait } else { Next::Over };
            };
            let Some(member) = self.members.get_mut(&number) else { continue };
            match std::mem::replace(&mut member.place, Place::Away) {
                Place::New(task) => {
                    self.running += 1;
                    return Next::Turn(Turn::Begin(number, task));
                }
                Place::Here(mut running) => {
                    if self.deliver(number, &mut running) {
                        self.running += 1;
                        return Next::Turn(Turn::GoOn(number, running));
                    }
                    self.put(number, running);
                }
                Place::Away => {}
            }
        }
        Next::Over
    }

    /// Gives a thread all letters that it has room for; whether it can go on.
    fn deliver(&mut self, number: u32, running: &mut Running<I>) -> bool {
        let Some(swarm) = running.instance_mut().host().swarm() else { return true };
        let letters = match self.members.get_mut(&number) {
            Some(member) => std::mem::take(&mut member.letters),
            None => VecDeque::new(),
        };
        let (mut later, mut received) = (VecDeque::new(), BTreeMap::new());
        for letter in letters {
            let of = match &letter {
                Letter::Message { from, number, .. } => Some((*from, number + 1)),
                _ => None,
            };
            match swarm.take_letter(letter) {
                Some(letter) => later.push_back(letter),
                None => received.extend(of),
            }
        }
        if let Some(below) = received.remove(&number) {
            swarm.covered(number, below);
        }
        let goes_on = swarm.waits().is_none();
        if let Some(member) = self.members.get_mut(&number) {
            member.letters.extend(later);
        }
        // Nothing is lost here: who has received a message has it for good.
        for (from, below) in received {
            self.post(from, Letter::Covered { to: number, below });
        }
        goes_on
    }

    fn post(&mut self, to: u32, letter: Letter) {
        let Some(member) = self.members.get_mut(&to) else {
            return self.early.entry(to).or_default().push_back(letter);
        };
        member.letters.push_back(letter);
        if matches!(member.place, Place::Here(_)) && !self.ready.contains(&to) {
            self.ready.push_back(to);
        }
    }

    /// Takes back a thread that waits for others.
    fn put(&mut self, number: u32, running: Box<Running<I>>) {
        if let Some(member) = self.members.get_mut(&number) {
            member.place = Place::Here(running);
        }
    }

    /// A thread has had its turn, and can go on later.
    pub(super) fn had_turn(&mut self, number: u32, mut running: Box<Running<I>>) {
        self.running -= 1;
        let mut wait = None;
        if let Some(swarm) = running.instance_mut().host().swarm() {
            self.carry(number, swarm);
            wait = swarm.waits();
        }
        let has_letters = self.members.get(&number).is_some_and(|member| !member.letters.is_empty());
        self.put(number, running);
        if let Some(Wait::From(from)) = wait {
            self.tell_end(from, number);
        }
        if (wait.is_none() || has_letters) && !self.ready.contains(&number) {
            self.ready.push_back(number);
        }
    }

    /// A thread ended in its turn.
    pub(super) fn ended(&mut self, number: u32, mut running: Running<I>, halt: Halt) {
        let mut sent = BTreeMap::new();
        if let Some(swarm) = running.instance_mut().host().swarm() {
            self.carry(number, swarm);
            sent = swarm.sent().collect();
        }
        self.over(number, running.finish(halt, 0), sent);
    }

    /// A thread is over, or did not even begin.
    pub(super) fn over(&mut self, number: u32, outcome: Outcome, sent: BTreeMap<u32, u64>) {
        self.running -= 1;
        self.computer.ended(number, how(&outcome.end), &outcome.stdout);
        if let Some(member) = self.members.get_mut(&number) {
            (member.sent, member.letters) = (sent, VecDeque::new());
        }
        self.follow();
        if number == 0 {
            self.outcome = Some(outcome);
        }
        let others: Vec<u32> = self.members.keys().copied().filter(|other| *other != number).collect();
        others.into_iter().for_each(|other| self.tell_end(number, other));
    }

    /// If `from` has ended, that thread hears of it, if it may have to.
    fn tell_end(&mut self, from: u32, to: u32) {
        let Some(sender) = self.members.get(&from).filter(|_| self.computer.end(from).is_some()) else {
            return;
        };
        let sent = sender.sent.get(&to).copied().unwrap_or(0);
        let waits_for_it = matches!(self.waits(to), Some(Wait::From(of)) if of == from);
        if self.computer.runs(to) && (sent > 0 || waits_for_it) {
            self.post(to, Letter::Ended { from, sent });
        }
    }

    fn waits(&mut self, number: u32) -> Option<Wait> {
        match &mut self.members.get_mut(&number)?.place {
            Place::Here(running) => running.instance_mut().host().swarm()?.waits(),
            _ => None,
        }
    }

    /// Carries what a thread has for others.
    fn carry(&mut self, number: u32, swarm: &mut Swarm) {
        for ask in swarm.asks() {
            match ask {
                Ask::Send { to, number: of, message, .. } => {
                    if self.computer.may_run(to) {
                        self.messages += 1;
                        self.post(to, Letter::Message { from: number, number: of, message });
                    } else {
                        // Messages to a thread that has ended, or cannot be, go nowhere.
                        swarm.covered(to, of + 1);
                    }
                }
                Ask::Question { number: of, question, .. } => self.computer.ask(number, of, question),
                Ask::Tell { number: of, tell } => {
                    self.computer.tell(number, of, tell);
                    swarm.written(self.computer.told(number));
                }
            }
        }
        self.follow();
    }

    /// Does what the computer says.
    fn follow(&mut self) {
        while let Some(output) = self.computer.output() {
            match output {
                Output::Begin { thread, arguments, input } => {
                    self.begin(thread, Task { arguments, stdin: input, ..self.task.clone() });
                }
                Output::Reply { thread, number, reply } => {
                    self.post(thread, Letter::Reply { number, reply });
                }
                Output::Report { thread, result, .. } => self.reports.push((thread, result.into())),
            }
        }
    }

    /// Partial results since the last call, each with its thread.
    pub(super) fn reports(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.reports)
    }

    /// Outcome of the first thread; else all that wait for each other.
    pub(super) fn finish(mut self) -> Result<Outcome, Vec<Stuck>> {
        if let Some(outcome) = self.outcome {
            return Ok(outcome);
        }
        let numbers: Vec<u32> = self.members.keys().copied().collect();
        let stuck = numbers.into_iter().filter_map(|number| Some((number, self.waits(number)?)));
        let stuck: Vec<(u32, Wait)> = stuck.collect();
        Err(stuck.into_iter().map(|(number, wait)| self.computer.stuck(number, wait)).collect())
    }

    /// Threads so far, and messages between them.
    pub(super) fn counts(&self) -> (u32, u64) {
        (self.computer.threads(), self.messages)
    }
}

/// End of a thread in one line, as `docs/task-api.md` has it.
fn how(end: &End) -> String {
    match end {
        End::Exited(code) => format!("exit {code}"),
        end => format!("failed: {end}"),
    }
}
