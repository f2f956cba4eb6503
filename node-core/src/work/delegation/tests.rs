//! Delegation of one node, whose surroundings do what it asks for as an owner would.

use super::*;
use crate::address::Ip;
use crate::bounds::Bounds;
use crate::circle::{Peer, Point, Range};
use crate::content::{BlobRef, Data};
use crate::ids::BlobId;
use crate::peers::Peers;
use crate::replicas::Keys;
use crate::requires::Requires;
use crate::work::book::{Book, Placement};
use crate::work::message::Report;
use crate::work::spec::{Template, UnitResult};
use crate::work::unit_record::UnitRecord;
use sandbox::{End, Limits};

const JOB: JobId = JobId([7; 16]);

/// This node, an origin, and others.
const ME: u8 = 1;
const ORIGIN: u8 = 2;
const OTHER: u8 = 3;
const THIRD: u8 = 4;
const RUNNER: u8 = 5;

fn node(number: u8) -> NodeId {
    NodeId([number; 32])
}

fn contact(number: u8) -> Contact {
    Contact { ip: Ip([number; 16]), id: node(number), port: 1 }
}

fn unit(index: u32) -> UnitId {
    UnitId { job: JOB, index }
}

fn part_of(origin: u8) -> Part {
    Part {
        origin: contact(origin).into(),
        name: "a job".into(),
        template: Template {
            program: BlobRef { id: BlobId([3; 32]), len: 10 },
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: Data::Inline(Default::default()),
            files: Vec::new(),
            limits: Limits::default(),
            bit_exact: false,
            checkpoint: crate::work::spec::CheckpointEvery::NEVER,
            on_loss: Default::default(),
            threads: None,
        },
        sweep_first: Some(0),
        priority: 0,
        max_retries: 0,
        submitted_ms: 0,
        requires: None,
    }
}

fn keys(index: u32) -> (SealKey, GrantKey) {
    (SealKey([index as u8; 32]), GrantKey::of(&[9; 32], index))
}

fn delegated(index: u32, epoch: u32, runner: Option<u8>) -> Delegated {
    let (key, grants) = keys(index);
    let runner = runner.map(|runner| contact(runner).into());
    Delegated { index, spec: None, key, grants, epoch, attempts: 1, runner, record: None, held: None }
}

fn owned(units: Vec<Delegated>) -> Message {
    Message::Owned { job: JOB, part: Box::new(part_of(ORIGIN)), units }
}

/// All of the circle.
fn all() -> Range {
    Range { after: Point(0), upto: Point(0) }
}

/// The arc of one unit alone.
fn arc_of(unit: UnitId) -> Range {
    let point = point_of(unit);
    Range { after: Point(point.0.wrapping_sub(1)), upto: point }
}

#[derive(Default)]
struct Known {
    /// Jobs of this node.
    own: BTreeSet<JobId>,
    others: BTreeMap<JobId, (Part, BTreeSet<u32>)>,
}

impl Jobs for Known {
    fn is_own(&self, job: JobId) -> bool {
        self.own.contains(&job)
    }

    fn is_active(&self, job: JobId) -> bool {
        self.own.contains(&job) || self.others.contains_key(&job)
    }

    fn part(&self, job: JobId, me: Address) -> Option<Part> {
        let of_other = || self.others.get(&job).map(|(part, _)| part.clone());
        self.is_own(job).then(|| Part { origin: me, ..part_of(ME) }).or_else(of_other)
    }

    fn unit_spec(&self, _: UnitId) -> Option<UnitSpec> {
        None
    }

    fn keys(&self, unit: UnitId) -> Option<(SealKey, GrantKey)> {
        let known = self.others.get(&unit.job).is_some_and(|(_, units)| units.contains(&unit.index));
        (known || self.is_own(unit.job)).then(|| keys(unit.index))
    }

    fn record(&self, _: UnitId) -> Option<&UnitRecord> {
        None
    }

    fn shortage(&self, _: JobId) -> Option<&str> {
        None
    }
}

/// A node, what it has said, and its rows.
struct Desk {
    it: Delegation,
    book: Book,
    jobs: Known,
    peers: Peers,
    limits: Bounds,
    now: Time,
    said: Vec<(NodeId, Message)>,
    told: Vec<(NodeId, ToRunner)>,
    rows: BTreeMap<Vec<u8>, bytes::Bytes>,
    /// Everything that was asked for, in order.
    asked: Vec<Act>,
    tickets: BTreeSet<u64>,
    next_ticket: u64,
}

impl Desk {
    fn new(delegated_units: usize) -> Desk {
        Desk {
            it: Delegation::default(),
            book: Book::default(),
            jobs: Known::default(),
            peers: Peers::new(),
            limits: Bounds { delegated_units, ..Bounds::default() },
            now: Time(1_000_000),
            said: Vec::new(),
            told: Vec::new(),
            rows: BTreeMap::new(),
            asked: Vec::new(),
            tickets: BTreeSet::new(),
            next_ticket: 1,
        }
    }

    fn with<R>(&mut self, with: impl FnOnce(&mut Delegation, &View<'_>) -> R) -> R {
        let view = View {
            me: node(ME),
            now: self.now,
            ready: true,
            jobs: &self.jobs,
            book: &self.book,
            peers: &self.peers,
            limits: &self.limits,
        };
        let done = with(&mut self.it, &view);
        for act in self.it.acts() {
            self.asked.push(act.clone());
            self.perform(act);
        }
        done
    }

    fn perform(&mut self, act: Act) {
        match act {
            Act::Say(to, message) => self.said.push((to.id, message)),
            Act::Tell(to, message) => self.told.push((to.id, message)),
            Act::Adopt(adopted) => {
                let unit = adopted.unit;
                if let Some(part) = adopted.part {
                    self.jobs.others.insert(unit.job, (part, BTreeSet::new()));
                }
                self.jobs.others.get_mut(&unit.job).expect("it has a part").1.insert(unit.index);
                self.book.add(unit, adopted.attempts);
            }
            Act::Leave(unit) => {
                self.jobs.others.get_mut(&unit.job).expect("it is known").1.remove(&unit.index);
                self.book.remove(unit);
            }
            Act::Drop(job) => {
                self.jobs.others.remove(&job);
                self.book.forget(job);
            }
            Act::Recall(unit) => {
                for Placement { runner, .. } in self.book.take_all(unit) {
                    self.told.push((runner, ToRunner::Forget { units: vec![unit] }));
                }
            }
            Act::ComeBack(unit) => self.book.come_back(unit),
            Act::Progress { unit, attempts, .. } => self.book.attempted(unit, attempts),
            Act::Wait(unit) => self.book.wait(unit),
            Act::Write(unit) => {
                for write in self.with(|it, view| it.rows(unit, view)) {
                    match write.value {
                        Some(value) => drop(self.rows.insert(write.key, value)),
                        None => drop(self.rows.remove(&write.key)),
                    }
                }
            }
            Act::Fetch { job, .. } => {
                let ticket = self.ticket();
                self.with(|it, _| it.asked(job, ticket));
            }
            Act::Keep(unit) => {
                let ticket = self.ticket();
                self.with(|it, _| it.kept(unit, ticket));
            }
            Act::Release(ticket) => assert!(self.tickets.remove(&ticket), "each is released once"),
            Act::Next(next) => self.with(|it, view| it.go_on(next, view)),
            Act::Fault(..) | Act::Trouble(_) | Act::Reach(_) | Act::Locate { .. } => {}
            Act::Touch(_) | Act::Look | Act::Short(..) | Act::Inspect(_) => {}
        }
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.tickets.insert(self.next_ticket);
        self.next_ticket
    }

    fn hears(&mut self, from: u8, message: Message) {
        self.with(|it, view| it.on_message(node(from), message, view));
    }

    fn of_ring(&mut self, told: OfRing) {
        self.with(|it, view| it.of_ring(told, view));
    }

    fn passes(&mut self, time: Duration) {
        self.now = self.now + time;
        self.with(|it, view| it.look_after(view));
    }

    /// Messages since the last call.
    fn said(&mut self) -> Vec<(NodeId, Message)> {
        std::mem::take(&mut self.said)
    }

    fn lookups(&mut self) -> Vec<u64> {
        let numbers = std::mem::take(&mut self.asked).into_iter();
        numbers
            .filter_map(|act| if let Act::Locate { number, .. } = act { Some(number) } else { None })
            .collect()
    }

    /// The ring says that a node has this unit.
    fn located(&mut self, number: u64, unit: UnitId, owner: u8) {
        let owner = Peer { point: point_of(unit), contact: contact(owner) };
        let after = arc_of(unit).after;
        let found = Some(Located { owner, after, replicas: Vec::new(), hops: 1 });
        self.of_ring(OfRing::Located { number, found });
    }

    fn entrusts(&mut self, origin: u8, units: &[u32]) {
        let units = units.iter().map(|index| delegated(*index, 0, None)).collect();
        self.hears(origin, Message::Entrust { job: job_of(origin), part: Box::new(part_of(origin)), units });
    }
}

/// Each origin has a job.
fn job_of(origin: u8) -> JobId {
    if origin == ORIGIN { JOB } else { JobId([origin; 16]) }
}

/// A node that owns units 0 and 1 of a job of another origin, each of which has run.
fn owner() -> Desk {
    let mut desk = Desk::new(10);
    desk.of_ring(OfRing::Keys(Keys::Gained { range: all(), from: None }));
    desk.entrusts(ORIGIN, &[0, 1]);
    desk
}

fn refused(said: &[(NodeId, Message)]) -> Vec<(&[u32], &str)> {
    let refused = said.iter().filter_map(|(_, message)| match message {
        Message::Refused { units, reason, .. } => Some((&units[..], &reason[..])),
        _ => None,
    });
    refused.collect()
}

#[test]
fn an_origin_that_hears_of_a_second_owner_believes_the_one_that_the_ring_names() {
    let mut origin = Desk::new(10);
    origin.jobs.own.insert(JOB);
    origin.book.begin(JOB, 1, 1, State::Elsewhere);
    origin.it.begin(JOB);
    origin.passes(TICK);
    let first = origin.lookups();
    assert_eq!(first.len(), 1);
    origin.located(first[0], unit(0), OTHER);
    assert!(matches!(&origin.said()[..], [(to, Message::Entrust { .. })] if *to == node(OTHER)));
    origin.hears(OTHER, owned(vec![delegated(0, 1, Some(RUNNER))]));
    let owner_of = |origin: &Desk| origin.it.origin(JOB).and_then(|ring| ring.of(0)?.owner());
    assert_eq!(owner_of(&origin), Some(node(OTHER)));

    // No higher epoch: it is told at once that it need not own the unit.
    origin.hears(THIRD, owned(vec![delegated(0, 1, None)]));
    assert_eq!(origin.said(), [(node(THIRD), Message::Over(vec![unit(0)]))]);
    // A node that knows the unit's name, and not its keys, does not make the origin look again.
    let stranger = Delegated { key: SealKey([99; 32]), ..delegated(0, 5, None) };
    origin.hears(THIRD, owned(vec![stranger]));
    origin.passes(TICK);
    assert_eq!((owner_of(&origin), origin.lookups()), (Some(node(OTHER)), vec![]));

    origin.hears(THIRD, owned(vec![delegated(0, 2, None)]));
    origin.passes(TICK);
    let again = origin.lookups();
    assert_eq!((owner_of(&origin), again.len()), (None, 1), "the ring is asked, and nobody believed");
    origin.told.clear();
    origin.located(again[0], unit(0), THIRD);
    origin.hears(THIRD, owned(vec![delegated(0, 2, Some(RUNNER))]));
    assert_eq!(owner_of(&origin), Some(node(THIRD)));
    let vouched = |(to, told): &(NodeId, ToRunner)| {
        *to == node(RUNNER)
            && matches!(told, ToRunner::Successors { successors, .. } if successors[..] == [node(THIRD)])
    };
    assert!(origin.told.iter().any(vouched), "its runner may believe the new owner: {:?}", origin.told);
}

#[test]
fn an_origin_has_so_many_units_out_of_all_its_jobs_together() {
    let mut origin = Desk::new(10);
    let other = JobId([8; 16]);
    for (job, units) in [(JOB, 4096), (other, 1)] {
        origin.jobs.own.insert(job);
        origin.book.begin(job, units, 1, State::Elsewhere);
        origin.it.begin(job);
    }
    origin.passes(TICK);
    let out =
        |origin: &Desk, job| (0..4096).filter(|index| origin.it.origin(job).unwrap().is_out(*index)).count();
    assert_eq!((out(&origin, JOB), out(&origin, other)), (4096, 0), "one job has all the room");

    let owned =
        Message::Owned { job: other, part: Box::new(part_of(ME)), units: vec![delegated(0, 1, None)] };
    origin.hears(THIRD, owned);
    assert_eq!(out(&origin, other), 0, "and nobody gets more by naming units of another");
}

/// A job's shared description as a liar tells it.
fn forged(origin: u8) -> Part {
    let mut part = part_of(origin);
    part.template.program.id = BlobId([66; 32]);
    part
}

#[test]
fn units_run_as_their_origin_says_whatever_others_brought_before() {
    let mut desk = Desk::new(10);
    desk.of_ring(OfRing::Keys(Keys::Successors(vec![contact(THIRD)])));
    desk.of_ring(OfRing::Keys(Keys::Gained { range: all(), from: Some(contact(THIRD)) }));
    let job = job_of(ORIGIN);
    let units = vec![Delegated { key: SealKey([99; 32]), ..delegated(0, 1, None) }, delegated(7, 1, None)];
    desk.hears(THIRD, Message::Handed { job, part: Box::new(forged(ORIGIN)), units });
    let program = |desk: &Desk| desk.jobs.others.get(&job).map(|(part, _)| part.template.program.id);
    assert_eq!(program(&desk), Some(BlobId([66; 32])), "nobody else has spoken yet");

    desk.entrusts(ORIGIN, &[0, 1]);
    assert_eq!(program(&desk), Some(BlobId([3; 32])));
    let owned: Vec<u32> = desk.it.all_owned().iter().map(|unit| unit.index).collect();
    assert_eq!(owned, [0, 1], "the made-up unit is gone");
}

#[test]
fn a_copy_does_not_say_whose_a_job_is() {
    let mut desk = Desk::new(10);
    let job = job_of(ORIGIN);
    desk.hears(
        THIRD,
        Message::Owned { job, part: Box::new(part_of(THIRD)), units: vec![delegated(5, 1, None)] },
    );
    desk.of_ring(OfRing::Keys(Keys::Gained { range: all(), from: None }));
    desk.said();
    desk.entrusts(ORIGIN, &[0]);
    assert_eq!(refused(&desk.said()), Vec::<(&[u32], &str)>::new());
    assert_eq!(desk.it.all_owned().len(), 1);
}

#[test]
fn a_message_that_names_a_unit_a_thousand_times_is_answered_once_and_briefly() {
    let mut desk = owner();
    let large = UnitSpec { arguments: Some(vec!["x".repeat(100_000)]), ..UnitSpec::default() };
    let unit = |spec| Delegated { spec, ..delegated(9, 1, None) };
    let (job, part) = (job_of(ORIGIN), Box::new(part_of(ORIGIN)));
    desk.hears(ORIGIN, Message::Entrust { job, part: part.clone(), units: vec![unit(Some(large))] });
    desk.said();
    desk.hears(ORIGIN, Message::Entrust { job, part, units: vec![unit(None); 1000] });
    let said = desk.said();
    let Some((_, Message::Owned { units, .. })) = said.first() else { panic!("{said:?}") };
    assert_eq!((said.len(), units.len()), (1, 1));
    assert_eq!(units[0].spec, None, "its origin has the description");
}

#[test]
fn a_copy_keeps_no_more_words_than_a_person_reads() {
    let mut desk = Desk::new(10);
    let job = job_of(ORIGIN);
    let told = Delegated { held: Some("x".repeat(1 << 20)), ..delegated(0, 1, None) };
    desk.hears(OTHER, Message::Owned { job, part: Box::new(part_of(ORIGIN)), units: vec![told] });
    let held = desk.it.replicas.get(&UnitId { job, index: 0 }).and_then(|copy| copy.delegated.held.clone());
    assert_eq!(held.map(|why| why.len()), Some(300));

    let endless = || "x".repeat(1 << 20);
    let requires = Some(Box::new(Requires { os: Some(endless()), ..Requires::default() }));
    let parts = [Part { name: endless(), ..part_of(ORIGIN) }, Part { requires, ..part_of(ORIGIN) }];
    for part in parts {
        desk.hears(OTHER, Message::Owned { job, part: Box::new(part), units: vec![delegated(1, 1, None)] });
        assert!(desk.it.replicas.get(&UnitId { job, index: 1 }).is_none());
    }
}

#[test]
fn a_copy_that_is_handed_on_under_other_keys_is_dropped_and_nobody_is_to_blame() {
    let mut origin = Desk::new(10);
    origin.jobs.own.insert(JOB);
    origin.book.begin(JOB, 1, 1, State::Elsewhere);
    origin.it.begin(JOB);
    let stray = Delegated { key: SealKey([99; 32]), ..delegated(0, 5, None) };
    origin.hears(OTHER, Message::Handed { job: JOB, part: Box::new(part_of(ME)), units: vec![stray] });
    assert_eq!(origin.said(), [(node(OTHER), Message::Over(vec![unit(0)]))]);
    assert!(!origin.asked.iter().any(|act| matches!(act, Act::Fault(..))));
}

#[test]
fn a_copy_is_owned_when_the_ring_gives_its_arc_and_its_owner_hands_nothing_over() {
    let mut desk = Desk::new(10);
    // The owner follows on the ring, as far as the node knows.
    desk.of_ring(OfRing::Keys(Keys::Successors(vec![contact(OTHER)])));
    desk.hears(OTHER, owned(vec![delegated(0, 3, Some(RUNNER))]));
    assert!(desk.it.has_copy(unit(0)) && desk.book.unit(unit(0)).is_none());
    desk.of_ring(OfRing::Keys(Keys::Gained { range: arc_of(unit(0)), from: Some(contact(OTHER)) }));
    desk.passes(Duration::from_secs(4));
    assert!(desk.book.unit(unit(0)).is_none(), "the owner may still hand it over");
    desk.said();
    desk.passes(Duration::from_secs(1));
    assert_eq!(desk.book.state(unit(0)), Some(State::Away), "its runner is asked to come");
    assert!(!desk.it.has_copy(unit(0)));
    let claim =
        ToRunner::Claim { units: vec![(unit(0), 4)], origin: node(ORIGIN), successors: vec![node(OTHER)] };
    assert!(desk.told.contains(&(node(RUNNER), claim)), "under the next epoch: {:?}", desk.told);
    let said = desk.said();
    let shown = said.iter().find(|(to, _)| *to == node(OTHER)).map(|(_, message)| message);
    let Some(Message::Owned { units, .. }) = shown else { panic!("the owner is told: {said:?}") };
    assert_eq!((units[0].epoch, units[0].runner), (4, Some(contact(RUNNER).into())));
    assert!(desk.rows.len() == 2, "the unit, and what its job's units share");
}

#[test]
fn a_copy_of_a_stranger_is_not_owned_when_its_arc_comes() {
    let mut desk = Desk::new(10);
    // The stranger does not stand between the unit and this node, so that it never owned the unit.
    let upto = Point::of_node(node(ME));
    let before = |unit| Point::of_node(node(OTHER)).is_between(point_of(unit), upto);
    let mine = (0..).map(unit).find(|unit| !before(*unit)).expect("there is one");
    desk.hears(OTHER, owned(vec![delegated(mine.index, 3, None)]));
    desk.of_ring(OfRing::Keys(Keys::Gained { range: Range { upto, ..arc_of(mine) }, from: None }));
    desk.passes(Duration::from_secs(60));
    assert!(desk.it.has_copy(mine) && desk.book.unit(mine).is_none());
}

#[test]
fn an_origin_and_a_node_find_as_much_room_as_they_may_and_it_comes_back() {
    let mut desk = Desk::new(3);
    desk.of_ring(OfRing::Keys(Keys::Gained { range: all(), from: None }));
    desk.entrusts(ORIGIN, &[0, 1, 2]);
    let said = desk.said();
    assert_eq!(refused(&said), [(&[2][..], "it owns as many of this gateway's units as it may")]);
    desk.entrusts(OTHER, &[0, 1]);
    let said = desk.said();
    assert_eq!(refused(&said), [(&[1][..], "it owns as many units as it may")]);
    desk.hears(ORIGIN, Message::Over(vec![unit(0)]));
    desk.entrusts(OTHER, &[1]);
    assert_eq!(refused(&desk.said()), []);
}

#[test]
fn a_large_description_finds_no_room_beside_others_of_the_same_node() {
    let mut desk = Desk::new(2000);
    desk.of_ring(OfRing::Keys(Keys::Gained { range: all(), from: None }));
    let large = |index| {
        let spec = UnitSpec { arguments: Some(vec!["a".repeat(64 << 10)]), ..UnitSpec::default() };
        Delegated { spec: Some(spec), ..delegated(index, 0, None) }
    };
    let fit = ((32 << 20) / room::weight_of(&large(0))) as u32;
    for first in [0, 200, 400] {
        let units = (first..first + 200).map(large).collect();
        desk.hears(ORIGIN, Message::Entrust { job: JOB, part: Box::new(part_of(ORIGIN)), units });
    }
    let said = desk.said();
    let units: Vec<u32> = refused(&said).into_iter().flat_map(|(units, _)| units).copied().collect();
    assert_eq!(units, (fit..600).collect::<Vec<_>>(), "32 MiB of one node");
    assert!(desk.book.unit(unit(fit - 1)).is_some() && desk.book.unit(unit(fit)).is_none());
}

#[test]
fn units_that_are_over_leave_with_their_rows_the_shared_one_last() {
    let mut desk = owner();
    desk.of_ring(OfRing::Keys(Keys::Successors(vec![contact(OTHER)])));
    assert_eq!((desk.rows.len(), desk.tickets.len()), (3, 2), "two units, what they share, their content");
    desk.book.place(unit(0), node(RUNNER));
    desk.book.grant(unit(0), node(RUNNER));
    desk.hears(THIRD, Message::Over(vec![unit(0)]));
    assert_eq!(desk.rows.len(), 3, "only their origin says so");
    desk.said();
    desk.hears(ORIGIN, Message::Over(vec![unit(0)]));
    assert_eq!(desk.told.last(), Some(&(node(RUNNER), ToRunner::Forget { units: vec![unit(0)] })));
    assert_eq!(desk.said(), [(node(OTHER), Message::Over(vec![unit(0)]))], "copies go, too");
    assert_eq!((desk.rows.len(), desk.tickets.len()), (2, 2));
    desk.hears(ORIGIN, Message::Over(vec![unit(1)]));
    assert_eq!((desk.rows.len(), desk.tickets.len()), (0, 0), "nothing of the job stays");
    assert!(desk.jobs.others.is_empty() && desk.it.parts.is_empty() && desk.it.brought.is_empty());
}

#[test]
fn an_owner_gives_way_to_a_higher_epoch_only_if_the_ring_names_another() {
    let mut desk = owner();
    desk.said();
    desk.hears(OTHER, owned(vec![delegated(0, 9, None)]));
    assert!(desk.book.unit(unit(0)).is_some(), "the ring has it here");
    desk.of_ring(OfRing::Keys(Keys::Lost { range: all(), to: None }));
    let stranger = Delegated { key: SealKey([99; 32]), ..delegated(0, 9, None) };
    desk.hears(OTHER, owned(vec![stranger]));
    assert!(desk.book.unit(unit(0)).is_some(), "and a node that does not know its keys is not believed");
    desk.hears(OTHER, owned(vec![delegated(0, 9, None)]));
    assert!(desk.book.unit(unit(0)).is_none() && desk.it.has_copy(unit(0)));
    assert!(desk.book.unit(unit(1)).is_some());
}

#[test]
fn a_result_is_repeated_until_its_origin_has_it() {
    let mut desk = owner();
    desk.said();
    let nothing = || Data::Inline(Default::default());
    let report = Report {
        unit: unit(0),
        attempt: 1,
        proof: Default::default(),
        began: 0,
        result: UnitResult {
            end: End::Exited(0),
            stdout: nothing(),
            stderr: nothing(),
            files: Vec::new(),
            cpu_us: 1,
            runner: node(RUNNER),
            attempts: 1,
            fuel: 1,
            journey: None,
            paid: Default::default(),
        },
    };
    let results = Message::Results(vec![report.clone()]);
    desk.with(|it, view| it.ended(&report, view));
    assert_eq!(desk.said(), [(node(ORIGIN), results.clone())]);
    desk.passes(Duration::from_secs(2));
    assert_eq!(desk.said(), []);
    desk.passes(Duration::from_secs(1));
    assert_eq!(desk.said(), [(node(ORIGIN), results.clone())]);
    // Its origin entrusts what it has not heard of: it hears again at once.
    desk.entrusts(ORIGIN, &[0]);
    assert_eq!(desk.said(), [(node(ORIGIN), results)]);
    desk.hears(ORIGIN, Message::Over(vec![unit(0)]));
    desk.passes(Duration::from_secs(60));
    assert!(desk.it.end(unit(0)).is_none());
    assert!(!desk.said().iter().any(|(_, message)| matches!(message, Message::Results(_))));
}
