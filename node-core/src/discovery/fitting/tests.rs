//! Stories of one node, message by message.

use super::waiting::{JOBS, bonus_ms};
use super::{Asks, Command, Event, Fitting, Line, Message, Share, Timer, ToMeeting, ToNode, ToOwner};
use crate::address::{Contact, Ip};
use crate::capability::{Candidate, Capability};
use crate::ids::{JobId, NodeId};
use crate::peers::Peers;
use crate::protocol::{Effect, Input, InputOf, Machine, Rng};
use crate::requires::{Binding, Properties, Requires, Stated};
use crate::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

const ME: NodeId = NodeId([1; 32]);
const MEETING: NodeId = NodeId([2; 32]);

fn contact(id: NodeId) -> Contact {
    Contact { ip: Ip([7; 16]), id, port: 4001 }
}

/// A node with a free slot, and what it has sent.
struct Idler {
    machine: Machine<Fitting>,
    peers: Peers,
    now: Time,
    seeks: Vec<u8>,
    claims: Vec<(NodeId, JobId)>,
    /// Jobs that its last question skips, by the beginnings of their ids.
    skips: Vec<u32>,
    /// Its own jobs that are marked nowhere, since there is no room.
    unmarked: Vec<JobId>,
    /// Searches for capable nodes that have no answer yet.
    searches: Vec<u64>,
    /// How much older its jobs count, as its last mark at a meeting node says.
    bonus_ms: u32,
}

impl Idler {
    /// It has asked where jobs are marked.
    fn new() -> Idler {
        let stated =
            Stated { capability: Capability::default(), properties: Box::new(Properties::default()) };
        let machine = Machine::new(Fitting::new(stated, Binding::Pull), Rng::from_seed([0; 32]));
        let (peers, now) = (Peers::new(), Time(1_000_000));
        let mut idler = Idler {
            machine,
            peers,
            now,
            seeks: vec![],
            claims: vec![],
            searches: vec![],
            skips: vec![],
            unmarked: vec![],
            bonus_ms: 0,
        };
        idler.step(Input::Command(Command::Me(Some(contact(ME)))));
        idler.step(Input::Command(Command::Load { slots: 1, busy: vec![] }));
        idler
    }

    fn step(&mut self, input: InputOf<Fitting>) {
        for effect in self.machine.step_among(&self.peers, ME, self.now, input) {
            match effect {
                Effect::Emit(Event::Lookup { number, .. }) => {
                    let owner = Some(contact(MEETING));
                    self.step(Input::Command(Command::Located { number, owner }));
                }
                Effect::Emit(Event::NotMarked { job, .. }) => self.unmarked.push(job),
                Effect::Emit(Event::Search { number, .. }) => self.searches.push(number),
                Effect::Send { to, message } => self.sent(to, message),
                _ => {}
            }
        }
    }

    fn sent(&mut self, to: NodeId, message: Message) {
        match message {
            Message::ToMeeting(ToMeeting::Seek { meeting, able, .. }) => {
                self.seeks.push(meeting);
                self.skips = able.skip;
            }
            Message::ToMeeting(ToMeeting::Mark(mark)) if mark.meeting.is_some() => {
                self.bonus_ms = mark.bonus_ms
            }
            Message::ToOwner(ToOwner::Claim(claim)) => self.claims.push((to, claim.job)),
            _ => {}
        }
    }

    /// A unit of its own job waits, and it believes that none of 100 nodes can run it.
    fn wants(&mut self) {
        self.wants_for(JobId([3; 16]), 0);
    }

    /// A unit of its own job waits, and it believes that so many millionths of 100 nodes can run it.
    fn wants_for(&mut self, job: JobId, share: u32) {
        let asks = Asks {
            needs: Capability::default(),
            requires: Box::new(Requires::default()),
            submitter: ME,
            weight: 1,
            age: Duration::ZERO,
            nodes: 100,
            share,
        };
        self.step(Input::Command(Command::Want { job, asks, units: 1 }));
    }

    /// A search has found so many; `searched`: of all nodes.
    fn found(&mut self, nodes: u8, searched: bool) {
        let number = self.searches.pop().expect("it searches");
        let one = |id| Candidate { at: contact(NodeId([id; 32])).into(), capability: Capability::default() };
        let found = (10..10 + nodes).map(one).collect();
        self.step(Input::Command(Command::Capable { number, found, searched }));
    }

    /// All meeting nodes that it has asked know of these jobs.
    fn told(&mut self, lines: &[Line]) {
        for meeting in std::mem::take(&mut self.seeks).into_iter().collect::<BTreeSet<u8>>() {
            let message = Message::ToNode(ToNode::Lines { meeting, node: ME, lines: lines.to_vec() });
            self.step(Input::Message { from: MEETING, message });
        }
    }
}

fn line(owner: u8, waited_s: u32) -> Line {
    let share = Share { submitter: 0, running: Some(0) };
    Line { owner: contact(NodeId([owner; 32])), job: JobId([owner; 16]), waited_ms: waited_s * 1000, share }
}

#[test]
fn an_owner_that_always_says_that_others_are_more_urgent_keeps_nobody_idle() {
    let mut idler = Idler::new();
    idler.told(&[line(8, 100), line(9, 50)]);
    for _ in 0..10 {
        let (to, job) = *idler.claims.last().expect("it claims the most urgent");
        if to != NodeId([8; 32]) {
            break;
        }
        let share = Some(Share { submitter: 0, running: Some(0) });
        let given = ToNode::Given { job, node: ME, units: 0, left: 5, share, bonus_ms: 0 };
        idler.step(Input::Message { from: to, message: Message::ToNode(given) });
    }
    let owners: Vec<u8> = idler.claims.iter().map(|(to, _)| to.0[0]).collect();
    assert_eq!(
        owners,
        [8, 8, 8, 9],
        "the third claim is without a bound: who gives nothing then has nothing"
    );
}

#[test]
fn a_search_that_finds_some_corrects_one_that_found_none_and_estimates() {
    let mut owner = Idler::new();
    owner.wants();
    owner.found(0, true);
    assert_eq!(owner.bonus_ms, bonus_ms(0), "nobody can run it, as far as is known");
    owner.now = owner.now + Duration::from_secs(20);
    owner.wants();
    owner.found(2, false);
    assert_eq!(owner.bonus_ms, bonus_ms(20_000), "two of a hundred can");
    owner.bonus_ms = 0;
    owner.now = owner.now + Duration::from_secs(700);
    owner.wants();
    owner.step(Input::Timer(Timer::Renew(JobId([3; 16]))));
    assert_eq!(owner.bonus_ms, bonus_ms(20_000), "an estimate says less");
}

#[test]
fn a_job_that_refuses_a_node_is_skipped_by_its_next_question() {
    let mut idler = Idler::new();
    let refuses = line(8, 100);
    idler.told(&[refuses]);
    let (to, job) = *idler.claims.last().expect("it claims the job");
    idler.step(Input::Message { from: to, message: Message::ToNode(ToNode::Unfit { job, node: ME }) });
    assert_eq!(idler.skips, [u32::from_le_bytes([8; 4])], "another may have been marked since it asked");
    idler.told(&[line(9, 10)]);
    assert_eq!(idler.claims.last(), Some(&(NodeId([9; 32]), JobId([9; 16]))));
    idler.told(&[]);
    // A meeting node that names it all the same is asked so often, and no more.
    let mut stubborn = Idler::new();
    stubborn.told(&[refuses]);
    stubborn.step(Input::Message { from: to, message: Message::ToNode(ToNode::Unfit { job, node: ME }) });
    let asked = (0..1000).take_while(|_| {
        let asks = !stubborn.seeks.is_empty();
        stubborn.told(&[refuses]);
        asks
    });
    assert_eq!(asked.count(), 64);
    assert_eq!(stubborn.claims.len(), 1);
}

#[test]
fn jobs_that_nobody_can_run_leave_their_places_to_those_that_somebody_can() {
    let job = |at: usize| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(at as u64).to_be_bytes());
        JobId(id)
    };
    let mut owner = Idler::new();
    (0..JOBS).for_each(|at| owner.wants_for(job(at), 0));
    owner.wants_for(job(JOBS), 0);
    assert_eq!(owner.unmarked, [job(JOBS)], "there is no room");
    owner.wants_for(job(JOBS + 1), 500_000);
    assert_eq!(owner.unmarked, [job(JOBS), job(0)]);
    assert!(owner.machine.state().view(job(JOBS + 1)).is_some());
}
