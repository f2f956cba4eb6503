//! Threads at runners that crash, an owner that crashes, checkpoints that are taken at any moment: each message, each
//! global operation and each partial result takes effect exactly once.

use super::guest::{Guest, Step, Taken};
use node_core::protocol::Rng;
use node_core::time::Time;
use node_core::work::computer::{Act, Bounds, Carrier};
use sandbox::swarm::{Letter, Marks, Said};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const THREADS: u32 = 4;

/// A thread, its runner, and what is on its way between that and the owner.
#[derive(Default)]
struct Member {
    /// At its runner.
    guest: Option<Guest>,
    /// Letters that there was no room for yet.
    left: VecDeque<Letter>,
    up: VecDeque<Said>,
    down: VecDeque<Letter>,
    /// The owner's records: the newest checkpoint and the one before.
    records: Vec<(Taken, Marks)>,
    /// It waits for a place.
    unplaced: bool,
    parked: bool,
    /// It has stopped as it was asked to, and the owner has not heard of it.
    stopped: Option<Marks>,
    /// Its end is on its way to the owner.
    over: Option<Guest>,
    ended: bool,
}

struct World {
    rng: Rng,
    carrier: Carrier,
    /// The owner's state on the disk, and that which is being written.
    disk: Vec<u8>,
    writing: Option<Vec<u8>>,
    members: BTreeMap<u32, Member>,
    programs: Vec<Vec<Step>>,
    reports: Vec<(u32, u64)>,
    got: BTreeMap<u32, Vec<(u32, u64)>>,
    crashes: u32,
    now: Time,
    parked: u32,
}

fn save(carrier: &Carrier) -> Vec<u8> {
    rmp_serde::to_vec(carrier).unwrap()
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::fork(&[7; 32], &seed.to_string());
        let programs = (0..THREADS).map(|thread| program(thread, &mut rng)).collect();
        let carrier = Carrier::new(Bounds::default());
        let mut world = World {
            rng,
            disk: save(&carrier),
            carrier,
            writing: None,
            members: BTreeMap::new(),
            programs,
            reports: Vec::new(),
            got: BTreeMap::new(),
            crashes: 12,
            now: Time(0),
            parked: 0,
        };
        world.members.insert(0, Member { unplaced: true, ..Member::default() });
        world
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.u64() % n
    }

    fn run(&mut self) {
        for _ in 0..400_000 {
            if self.members.get(&0).is_some_and(|first| first.ended) {
                // The owner writes down the rest.
                while self.writing.is_some() {
                    self.disk();
                    self.act();
                }
                return;
            }
            self.now = self.now + Duration::from_millis(1);
            self.turn();
        }
        self.show();
        panic!("it does not end: {:?}", self.carrier.stuck());
    }

    /// All that is known of a case that went wrong.
    fn show(&mut self) {
        eprintln!("owner: {:?}", self.carrier);
        for (thread, member) in &mut self.members {
            if let Some(guest) = member.guest.as_mut() {
                let (over, at, got) = (guest.is_over(), guest.at(), guest.got.len());
                let swarm = guest.swarm();
                let (waits, marks) = (swarm.waits(), swarm.marks());
                eprintln!("{thread}: over {over}, at {at:?}, got {got}, waits {waits:?}, {marks:?}");
            }
            let Member { unplaced, parked, ended, up, down, left, .. } = member;
            eprintln!("{thread}: up {up:?}, down {down:?}, left {left:?}");
            eprintln!("{thread}: unplaced {unplaced}, parked {parked}, ended {ended}");
        }
    }

    fn turn(&mut self) {
        let members: Vec<u32> = self.members.keys().copied().collect();
        let thread = members[self.below(members.len() as u64) as usize];
        match self.below(100) {
            0..40 => self.step(thread),
            40..60 => self.up(thread),
            60..80 => self.down(thread),
            80..84 => self.checkpoint(thread),
            84..88 => self.place(thread),
            88..94 => self.disk(),
            94 => self.look(),
            95 => self.crash_runner(thread),
            96 => self.crash_owner(),
            97 => self.cut(thread),
            _ => self.park(thread),
        }
        self.act();
    }

    fn member(&mut self, thread: u32) -> &mut Member {
        self.members.get_mut(&thread).unwrap()
    }

    fn step(&mut self, thread: u32) {
        let steps = 1 + self.below(4);
        let member = self.member(thread);
        let Some(guest) = member.guest.as_mut() else { return };
        for _ in 0..steps {
            if guest.is_over() || guest.swarm().waits().is_some() {
                break;
            }
            guest.step();
        }
        let is_over = guest.is_over();
        let kept = is_over && guest.swarm().ends();
        let said = guest.swarm().says();
        if !said.is_empty() {
            member.up.push_back(said);
        }
        if is_over && !kept {
            member.over = member.guest.take();
        }
    }

    /// Word of a thread comes to the owner; its end last.
    fn up(&mut self, thread: u32) {
        let now = self.now;
        let member = self.member(thread);
        if let Some(said) = member.up.pop_front() {
            return self.carrier.said(thread, said, now);
        }
        if let Some(marks) = member.stopped.take() {
            return self.has_stopped(thread, &marks);
        }
        if let Some(guest) = member.over.take() {
            (member.ended, member.down) = (true, VecDeque::new());
            self.got.insert(thread, guest.got);
            self.carrier.ended(thread, "exit 0".into(), &Default::default());
        }
    }

    fn down(&mut self, thread: u32) {
        let many = self.below(3) as usize;
        let member = self.member(thread);
        let Some(guest) = member.guest.as_mut() else { return };
        for _ in 0..=many {
            member.left.extend(member.down.pop_front());
        }
        let letters = std::mem::take(&mut member.left);
        member.left = letters.into_iter().filter_map(|letter| guest.swarm().take_letter(letter)).collect();
        let is_kept = guest.is_over() && guest.swarm().ends();
        let said = guest.swarm().says();
        if !said.is_empty() {
            member.up.push_back(said);
        }
        if guest.is_over() && !is_kept {
            member.over = member.guest.take();
        }
    }

    fn checkpoint(&mut self, thread: u32) {
        let member = self.member(thread);
        let Some(guest) = member.guest.as_mut().filter(|guest| !guest.is_over()) else { return };
        let marks = guest.swarm().marks();
        member.records.push((guest.take(), marks));
        if member.records.len() > 2 {
            member.records.remove(0);
        }
        if member.records.len() == 2 {
            let older = member.records[0].1.clone();
            self.carrier.covered(thread, &older);
        }
    }

    /// A runner gets the thread, if it wants one.
    fn place(&mut self, thread: u32) {
        let program = self.programs[thread as usize].clone();
        let older = self.below(4) == 0;
        let choices = self.carrier.choices(thread);
        let member = self.member(thread);
        if !member.unplaced || member.ended {
            return;
        }
        let record = if older { member.records.first() } else { member.records.last() };
        let mut guest = match record {
            Some((taken, _)) => Guest::of(taken),
            None => Guest::new(thread, THREADS, program, wanted()),
        };
        if older {
            // Later ones are of no use any more.
            member.records.truncate(1);
        }
        guest.swarm().replay(choices);
        let said = guest.swarm().says();
        (member.unplaced, member.up) = (false, VecDeque::from([said]));
        (member.down, member.left) = Default::default();
        member.guest = Some(guest);
        self.carrier.placed(thread);
    }

    fn disk(&mut self) {
        if let Some(state) = self.writing.take() {
            let well = self.below(10) > 0;
            if well {
                self.disk = state;
            }
            self.carrier.is_written(well);
        }
    }

    /// The owner looks at threads that wait for room.
    fn look(&mut self) {
        let members = &self.members;
        let is_placed = |thread| {
            members
                .get(&thread)
                .is_some_and(|it| it.guest.is_some() || it.over.is_some() || it.stopped.is_some())
        };
        self.carrier.only(is_placed);
        for thread in self.carrier.pressed() {
            self.checkpoint(thread);
        }
        if let Some(stuck) = self.carrier.stuck() {
            self.show();
            panic!("none of them waits in vain: {stuck:?}");
        }
    }

    fn crash_runner(&mut self, thread: u32) {
        if self.crashes > 0 && self.member(thread).guest.is_some() {
            self.crashes -= 1;
            let member = self.member(thread);
            (member.guest, member.over, member.unplaced) = (None, None, true);
            (member.up, member.down, member.left) = Default::default();
        }
    }

    /// The owner begins anew with what lies on its disk, and finds the threads where they are.
    fn crash_owner(&mut self) {
        if self.crashes == 0 {
            return;
        }
        self.crashes -= 1;
        self.writing = None;
        self.carrier = sandbox::unpack::from_slice::<Carrier>(&self.disk).unwrap().restored();
        let known = self.carrier.computer().threads();
        self.members.retain(|thread, _| *thread < known);
        for (thread, member) in &mut self.members {
            if self.carrier.computer().end(*thread).is_some() {
                member.ended = true;
                continue;
            }
            if member.ended {
                // Results have rows of their own.
                self.carrier.ended(*thread, "exit 0".into(), &Default::default());
                continue;
            }
            if member.records.len() == 2 {
                self.carrier.covered(*thread, &member.records[0].1.clone());
            }
            (member.up, member.down) = Default::default();
            if member.parked || member.stopped.take().is_some() {
                (member.parked, member.unplaced) = (false, true);
            }
            if member.guest.is_some() || member.over.is_some() {
                self.carrier.placed(*thread);
                member.down.push_back(Letter::All);
            }
        }
        // A thread whose end was on its way says it again.
    }

    /// The connection to a runner breaks, with all that is on its way.
    fn cut(&mut self, thread: u32) {
        let member = self.member(thread);
        if member.guest.is_some() {
            (member.up, member.down) = (VecDeque::new(), VecDeque::from([Letter::All]));
            self.carrier.placed(thread);
        }
    }

    fn park(&mut self, thread: u32) {
        let idle = self.carrier.idle(Duration::from_millis(20), self.now);
        let member = self.members.get_mut(&thread).unwrap();
        let is_quiet = member.guest.as_ref().is_some_and(|guest| !guest.is_over());
        if !idle.contains(&thread) || !is_quiet {
            return;
        }
        // Letters come before the word to stop.
        while !self.member(thread).down.is_empty() {
            self.down(thread);
        }
        let member = self.member(thread);
        let Some(mut guest) = member.guest.take() else { return };
        let marks = guest.swarm().marks();
        member.records.push((guest.take(), marks.clone()));
        if member.records.len() > 2 {
            member.records.remove(0);
        }
        // Letters that come now find nobody.
        (member.down, member.left, member.stopped) = (VecDeque::new(), VecDeque::new(), Some(marks));
    }

    /// The owner hears that a thread has stopped.
    fn has_stopped(&mut self, thread: u32, marks: &Marks) {
        let parks = self.carrier.stopped(thread, Some(marks));
        let member = self.members.get_mut(&thread).unwrap();
        (member.parked, member.unplaced) = (parks, !parks);
        self.parked += u32::from(parks);
        if member.records.len() == 2 {
            self.carrier.covered(thread, &member.records[0].1.clone());
        }
    }

    fn act(&mut self) {
        for act in self.carrier.acts() {
            match act {
                Act::Letter { thread, letter } => {
                    let member = self.member(thread);
                    if member.guest.is_some() {
                        member.down.push_back(letter);
                    }
                }
                Act::Wake(thread) => {
                    let member = self.member(thread);
                    assert!(member.parked, "it has no place");
                    (member.parked, member.unplaced) = (false, true);
                }
                Act::Begin(thread) => {
                    self.members.entry(thread).or_default().unplaced = true;
                }
                Act::Report { thread, result, .. } => {
                    let number = std::str::from_utf8(&result).unwrap().parse().unwrap();
                    self.reports.push((thread, number));
                }
                Act::Written(..) => {}
            }
        }
        if self.carrier.writes() {
            assert!(self.writing.is_none(), "one at a time");
            self.writing = Some(save(&self.carrier));
        }
    }
}

/// Messages that a thread gets: so many from each other one.
const EACH: usize = 12;
const COUNTS: usize = 5;
const REPORTS: usize = 4;

fn wanted() -> usize {
    EACH * (THREADS as usize - 1)
}

fn program(thread: u32, rng: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    let others = (0..THREADS).filter(|other| *other != thread);
    steps.extend(others.flat_map(|other| [Step::Send(other); EACH]));
    steps.extend([Step::Count; COUNTS]);
    steps.extend([Step::Report; REPORTS]);
    steps.extend([Step::Look; 6]);
    for at in (1..steps.len()).rev() {
        steps.swap(at, (rng.u64() % (at as u64 + 1)) as usize);
    }
    if thread == 0 {
        steps.splice(0..0, [Step::Spawn; THREADS as usize - 1]);
        steps.extend([Step::Receive; EACH * (THREADS as usize - 1)]);
        steps.extend((1..THREADS).map(Step::Join));
    }
    steps
}

#[test]
fn everything_takes_effect_once_whoever_crashes() {
    let cases = std::env::var("MANYHANDS_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200);
    let mut parked = 0;
    let first = std::env::var("MANYHANDS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + cases {
        let mut world = World::new(seed);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            world.run();
            check(&world);
        }));
        if let Err(why) = ran {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(why);
        }
        parked += world.parked;
    }
    assert!(parked > 0, "some of them waited without a place");
}

fn check(world: &World) {
    assert_eq!(world.got.len(), THREADS as usize);
    for (thread, got) in &world.got {
        for other in (0..THREADS).filter(|other| other != thread) {
            let of: Vec<u64> =
                got.iter().filter(|(from, _)| *from == other).map(|(_, number)| *number).collect();
            let all: Vec<u64> = (0..EACH as u64).collect();
            assert_eq!(of, all, "messages of {other} to {thread}, once and in order");
        }
    }
    let globals: Vec<_> = world.carrier.computer().globals().collect();
    let sum = (THREADS as usize * COUNTS).to_string();
    assert_eq!(globals, [("sum", sum.parse().unwrap(), sum.as_bytes())], "each count once");
    for thread in 0..THREADS {
        let of: Vec<u64> =
            world.reports.iter().filter(|(by, _)| *by == thread).map(|(_, number)| *number).collect();
        let all: Vec<u64> = (0..REPORTS as u64).collect();
        assert_eq!(of, all, "partial results of {thread}, once and in order");
    }
}
