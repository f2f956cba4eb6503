//! The book beside a plain list of units, over random steps; and what each rule of it means.

use super::*;
use crate::protocol::Rng;

const JOB: JobId = JobId([1; 16]);
const RUNNERS: u64 = 5;

fn unit(index: u32) -> UnitId {
    UnitId { job: JOB, index }
}

fn runner(number: u64) -> NodeId {
    NodeId([number as u8; 32])
}

/// A unit as a list has it.
#[derive(Clone, Debug)]
struct Plain {
    index: u32,
    state: State,
    copies: u8,
    attempts: u32,
    losses: u16,
    /// Runner, number, whether under a lease, ticket.
    at: Vec<(NodeId, u32, bool, Option<u64>)>,
}

impl Plain {
    fn lacks(&self) -> usize {
        match self.state {
            State::Waiting | State::Placed => usize::from(self.copies) - self.at.len(),
            _ => 0,
        }
    }

    fn is_at(&self, runner: NodeId) -> bool {
        self.at.iter().any(|at| at.0 == runner)
    }

    fn leave(&mut self, runner: NodeId, released: &mut Vec<u64>) {
        released.extend(self.at.iter().filter(|at| at.0 == runner).filter_map(|at| at.3));
        let before = self.at.len();
        self.at.retain(|at| at.0 != runner);
        if before > 0 && self.at.is_empty() && self.state == State::Placed {
            self.state = State::Waiting;
        }
    }

    fn leave_all(&mut self, released: &mut Vec<u64>) {
        self.at.clone().into_iter().for_each(|at| self.leave(at.0, released));
    }
}

/// The list, and the book that is to agree with it.
struct Both {
    book: Book,
    list: Vec<Plain>,
    released: Vec<u64>,
    given: Vec<u64>,
    losses: u16,
}

impl Both {
    fn new(units: u32, copies: u8) -> Both {
        let mut book = Book::default();
        book.begin(JOB, units, copies, State::Waiting);
        let plain =
            |index| Plain { index, state: State::Waiting, copies, attempts: 0, losses: 0, at: vec![] };
        Both { book, list: (0..units).map(plain).collect(), released: vec![], given: vec![], losses: 3 }
    }

    fn agree(&mut self, seed: u8) {
        self.book.check();
        self.given.extend(self.book.released());
        self.given.sort_unstable();
        self.released.sort_unstable();
        assert_eq!(self.given, self.released, "seed {seed}: each ticket is given back once");
        let units = self.book.units(JOB).expect("it began");
        for plain in &self.list {
            let now = units.get(plain.index).expect("it is in the list");
            let found = (now.state, now.attempts, usize::from(now.lacks()), now.losses);
            let wanted = (plain.state, plain.attempts, plain.lacks(), plain.losses);
            assert_eq!(found, wanted, "seed {seed}, unit {}", plain.index);
            let at = units.placements(plain.index);
            let at: Vec<_> = at.map(|at| (at.runner, at.attempt, at.granted)).collect();
            let wanted: Vec<_> = plain.at.iter().map(|at| (at.0, at.1, at.2)).collect();
            assert_eq!(at, wanted, "seed {seed}, unit {}", plain.index);
        }
        assert_eq!(units.len() as usize, self.list.len(), "seed {seed}");
        for number in 0..RUNNERS {
            let its =
                self.list.iter().filter(|plain| plain.at.iter().any(|at| at.0 == runner(number) && at.2));
            let mut its: Vec<UnitId> = its.map(|plain| unit(plain.index)).collect();
            its.sort_unstable();
            assert_eq!(self.book.granted(runner(number)).collect::<Vec<_>>(), its, "seed {seed}");
        }
    }

    fn step(&mut self, rng: &mut Rng, ticket: u64, seed: u8) {
        let at = rng.below(self.list.len() as u64) as usize;
        let who = runner(rng.below(RUNNERS));
        let (plain, released) = (&mut self.list[at], &mut self.released);
        let id = unit(plain.index);
        match rng.below(16) {
            0..=3 => {
                let could = self.list.iter().any(|plain| plain.lacks() > 0 && !plain.is_at(who));
                let placed = self.book.place_next(JOB, who);
                assert_eq!(placed.is_some(), could, "seed {seed}: placed exactly if there is one to place");
                let Some((index, attempt)) = placed else { return };
                let plain =
                    self.list.iter_mut().find(|plain| plain.index == index).expect("a unit of the job");
                assert!(plain.lacks() > 0 && !plain.is_at(who), "seed {seed}: one that lacks it");
                plain.attempts += 1;
                plain.state = State::Placed;
                plain.at.push((who, attempt, false, None));
            }
            4 | 5 => {
                self.book.grant(id, who);
                plain.at.iter_mut().filter(|at| at.0 == who).for_each(|at| at.2 = true);
            }
            6 => {
                self.book.fetches(id, who, Fetch { ticket: Some(ticket), others: false });
                for at in plain.at.iter_mut().filter(|at| at.0 == who) {
                    released.extend(at.3.replace(ticket));
                }
            }
            7 => {
                self.book.ungrant(id, who);
                for at in plain.at.iter_mut().filter(|at| at.0 == who) {
                    released.extend(at.3.take());
                    at.2 = false;
                }
            }
            8 => {
                let held = plain.is_at(who);
                assert_eq!(self.book.put_back(id, who, Back::Lost("it went"), self.losses), held);
                plain.leave(who, released);
                plain.losses += u16::from(held);
                if held && plain.losses >= self.losses && plain.state == State::Waiting {
                    plain.state = State::Held;
                }
            }
            9 => {
                self.book.take(id, who);
                plain.leave(who, released);
            }
            10 => {
                self.book.wait(id);
                if plain.state == State::Waiting {
                    plain.state = State::Away;
                }
            }
            11 => {
                self.book.end_wait(id);
                if plain.state == State::Away {
                    plain.state = State::Waiting;
                }
            }
            12 if !plain.state.has_ended() => {
                let before: Vec<_> = plain.at.iter().copied().filter(|at| at.2).collect();
                let taken = self.book.store(id);
                plain.leave_all(released);
                plain.state = State::Storing;
                if rng.below(2) == 0 {
                    self.book.not_stored(id, &taken, State::Waiting);
                    plain.at = before.iter().map(|at| (at.0, at.1, true, None)).collect();
                    plain.state = if plain.at.is_empty() { State::Waiting } else { State::Placed };
                } else {
                    self.book.end(id, Some("it failed".into()));
                    plain.state = State::Failed;
                }
            }
            13 => {
                let index = self.list.iter().map(|plain| plain.index).max().unwrap_or_default() + 1;
                self.book.add(unit(index), 7);
                let state = State::Waiting;
                self.list.push(Plain { index, state, copies: 1, attempts: 7, losses: 0, at: vec![] });
            }
            14 => {
                self.book.remove(id);
                // Those that came with the job stay.
                if self.book.unit(id).is_none() {
                    plain.leave_all(released);
                    self.list.remove(at);
                }
            }
            15 if rng.below(20) == 0 => {
                let with: BTreeSet<NodeId> =
                    self.list.iter().flat_map(|plain| &plain.at).filter(|at| at.2).map(|at| at.0).collect();
                assert_eq!(self.book.recall(JOB), with, "seed {seed}");
                self.list.iter_mut().for_each(|plain| plain.leave_all(&mut self.released));
            }
            _ => {}
        }
    }
}

#[test]
fn whatever_happens_to_units_all_lists_agree_and_nothing_is_forgotten() {
    for seed in 0..120 {
        let mut rng = Rng::from_seed([seed; 32]);
        let mut both = Both::new(1 + rng.below(12) as u32, 1 + rng.below(3) as u8);
        for step in 0..400 {
            both.step(&mut rng, step, seed);
            both.agree(seed);
        }
    }
}

#[test]
fn a_unit_of_two_copies_is_placed_at_two_runners_and_waits_for_neither_when_one_is_lost() {
    let mut book = Book::default();
    book.begin(JOB, 1, 2, State::Waiting);
    assert_eq!(book.place_next(JOB, runner(1)), Some((0, 1)));
    assert_eq!(book.place_next(JOB, runner(1)), None, "never twice at one runner");
    assert_eq!(book.place_next(JOB, runner(2)), Some((0, 2)));
    assert_eq!(book.open(JOB), 0);
    assert!(book.put_back(unit(0), runner(1), Back::Lost("it went"), 1));
    assert_eq!(book.state(unit(0)), Some(State::Placed), "the other has it");
    assert_eq!(book.place_next(JOB, runner(3)), Some((0, 3)));
    book.end(unit(0), None);
    assert_eq!((book.state(unit(0)), book.open(JOB)), (Some(State::Done), 0));
    book.check();
}

#[test]
fn a_failed_attempt_ends_its_own_placement_and_no_later_one() {
    let mut book = Book::default();
    book.begin(JOB, 1, 1, State::Waiting);
    book.place(unit(0), runner(1));
    book.retry(unit(0), runner(1), 1);
    assert_eq!(book.state(unit(0)), Some(State::Waiting));
    assert_eq!(book.place(unit(0), runner(1)), Some(2));
    book.retry(unit(0), runner(1), 1);
    assert_eq!(book.placement(unit(0), runner(1)).map(|at| at.attempt), Some(2));
}

#[test]
fn units_that_were_given_back_come_before_those_that_never_ran() {
    let mut book = Book::default();
    book.begin(JOB, 3, 1, State::Waiting);
    book.place_next(JOB, runner(1));
    book.place_next(JOB, runner(1));
    book.put_back(unit(0), runner(1), Back::Unharmed, 8);
    assert_eq!(book.next_waiting(JOB), Some(0));
    assert_eq!(book.place_next(JOB, runner(2)), Some((0, 2)));
    assert_eq!(book.next_waiting(JOB), Some(2));
}
