//! Claims about delegated units by nodes that have no part in them.

use super::*;
use node_core::address::Address;
use node_core::channel::Channel;
use node_core::content::Data;
use node_core::engine::SealKey;
use node_core::ids::NodeId;
use node_core::work::delegated::{Delegated, Message, Part};
use node_core::work::message::{Message as Work, Report, ToRunner};
use node_core::work::spec::{UnitResult, UnitSpec};
use sandbox::End;
use simulator::engine::UNFIT;
use simulator::liar::{Liar, Lie};
use simulator::world::id_of;

pub(super) fn say(world: &mut World, from: usize, to: usize, message: Work) {
    let bytes = node_core::Message::Work(message).encode().expect("it fits");
    let from = world.nodes[from].id;
    world.drive(to, NodeInput::Received { from, channel: Channel::Control, bytes });
}

#[test]
fn a_forged_takeover_is_refused() {
    let mut world = swarm(100, 2);
    let job = job(&mut world, 1);
    let (owner, runner) = under_way(&mut world, job, 3);
    // A worker that is no member, connected to all.
    let stranger = (MEMBERS + 1..world.nodes.len()).find(|at| *at != runner).expect("another worker");
    for at in [owner, runner] {
        world.connect(stranger, at);
    }
    (1..=MEMBERS).for_each(|at| world.connect(stranger, at));
    world.run_for(Duration::from_secs(1));
    let before = unit(&world, job, 0);
    // It listens to what it is answered.
    world.liars.insert(stranger, Liar::new(Lie::Listen, job, 0));
    let template = world.node(0).job_spec(job).expect("known").template.clone();
    let (origin, me) = (world.nodes[0].id, world.nodes[stranger].id);
    let source = Address::here;
    let part = |node| Part {
        origin: source(node),
        name: String::new(),
        template: template.clone(),
        sweep_first: Some(0),
        priority: 0,
        max_retries: 0,
        submitted_ms: 0,
        requires: None,
    };
    let delegated = Delegated {
        index: 0,
        spec: None,
        key: SealKey::default(),
        grants: Default::default(),
        epoch: u32::MAX,
        attempts: u32::MAX,
        runner: Some(source(me)),
        record: None,
        held: Some("gone".into()),
    };
    let units = || vec![(first(job), u32::MAX)];
    say(
        &mut world,
        stranger,
        runner,
        Work::ToRunner(ToRunner::Claim { units: units(), origin, successors: vec![me] }),
    );
    say(
        &mut world,
        stranger,
        runner,
        Work::ToRunner(ToRunner::Successors { units: units(), origin: me, successors: vec![me] }),
    );
    say(
        &mut world,
        stranger,
        runner,
        Work::ToRunner(ToRunner::Claim { units: units(), origin, successors: vec![me] }),
    );
    for at in 0..=MEMBERS {
        for node in [origin, me] {
            let (part, units) = (|| Box::new(part(node)), || vec![delegated.clone()]);
            for message in [
                Message::Entrust { job, part: part(), units: units() },
                Message::Owned { job, part: part(), units: units() },
                Message::Handed { job, part: part(), units: units() },
                Message::Refused { job, units: vec![0, 1, u32::MAX], reason: "no".into() },
                Message::Lives { job, units: vec![(0, u32::MAX), (7, 1)], waits: None },
                Message::Results(vec![forged(first(job), me)]),
                Message::Over(vec![first(job), UnitId { job, index: 9 }]),
            ] {
                say(&mut world, stranger, at, Work::Delegated(message));
            }
        }
    }
    world.run_for(Duration::from_secs(20));
    let told = &world.liars[&stranger].told;
    assert!(told.iter().all(|told| told.key == delegated.key), "it hears no keys but those that it made up");
    let after = unit(&world, job, 0);
    assert_eq!((after.runner, after.owner, after.state), (before.runner, before.owner, UnitState::Placed));
    // The true replicas still take over.
    world.crash(owner);
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), 1, "it ran on");
}

#[test]
fn a_unit_that_is_not_on_the_ring_does_not_end_by_it() {
    let mut world = swarm(105, 1);
    let spec = world.sweep(0, 1);
    let job = world.submit(0, spec);
    (MEMBERS + 1..world.nodes.len()).for_each(|at| {
        world.liars.insert(at, Liar::new(Lie::Hoard, JobId([0; 16]), 0));
    });
    world.run_for(Duration::from_secs(2));
    let (runner, granted) =
        world.liars.iter().find_map(|(at, liar)| Some((*at, *liar.grants.first()?))).expect("it is granted");
    // As an owner on the ring would bring it: such a failure is final.
    let result = Report {
        attempt: granted.attempt,
        proof: granted.proof,
        ..forged(first(job), world.nodes[runner].id)
    };
    let mut failure = result;
    failure.result.end = End::Exited(1);
    say(&mut world, runner, 0, Work::Delegated(Message::Results(vec![failure])));
    world.run_for(Duration::from_secs(5));
    assert!(!world.is_over(job), "{:#?}", unit(&world, job, 0));
}

#[test]
fn who_only_knows_a_jobs_id_has_no_unit_entrusted_again() {
    let mut world = swarm(106, 2);
    let job = job(&mut world, 5);
    under_way(&mut world, job, 2);
    let stranger = world.add(Config { slots: 0, ..Config::default() });
    world.connect(stranger, 0);
    world.run_for(Duration::from_secs(1));
    let elsewhere: Vec<u32> = (0..5).filter(|index| unit(&world, job, *index).owner.is_some()).collect();
    assert!(elsewhere.len() > 2, "the origin owns the others itself: {elsewhere:?}");
    for _ in 0..20 {
        let units = (0..5).map(|index| (index, u32::MAX)).collect();
        say(&mut world, stranger, 0, Work::Delegated(Message::Lives { job, units, waits: None }));
        // The origin looks for an owner that it does not know any more, and tells that one all of the unit
        // again.
        let lost = elsewhere.iter().filter(|index| unit(&world, job, **index).owner.is_none());
        assert_eq!(lost.count(), 0, "of {elsewhere:?}");
        world.run_for(Duration::from_millis(500));
    }
    done(&mut world, job, 5);
}

/// A result that no runner of the unit has made.
pub(super) fn forged(unit: UnitId, runner: NodeId) -> Report {
    let result = UnitResult {
        end: End::Exited(0),
        stdout: Data::EMPTY,
        stderr: Data::EMPTY,
        files: vec![],
        cpu_us: 0,
        runner,
        attempts: 1,
        fuel: 0,
        journey: None,
        paid: Default::default(),
    };
    Report { unit, attempt: 1, proof: Default::default(), began: 0, result }
}

#[test]
fn who_owns_as_many_units_as_it_may_refuses_more() {
    let mut world = World::seed(101).with(simulator::echo);
    world.add(member(true, 0));
    for _ in 0..3 {
        let mut config = member(false, 1);
        config.limits_mut().delegated_units = 2;
        let at = world.add(config);
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    let job = job(&mut world, 40);
    world.run_until(A_MINUTE * 20, "they are taken in turns", |w| w.is_over(job));
    world.assert_all_right(job, 40);
}

#[test]
fn one_home_leaves_room_for_others() {
    let mut world = World::seed(102).with(|_| (Duration::from_secs(3_600), simulator::ended(0)));
    world.add(member(true, 0));
    for _ in 0..2 {
        let mut config = member(false, 1);
        config.limits_mut().delegated_units = 10;
        let at = world.add(config);
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    job(&mut world, 200);
    world.run_for(A_MINUTE * 2);
    for at in 1..3 {
        // A row for each unit: the job's id and its index.
        let owned = world.nodes[at].disk.keys(Table::Delegated).filter(|key| key.len() == 20).count();
        assert_eq!(owned, 5, "half of its table");
    }
}

#[test]
fn descriptions_of_others_units_fill_no_memory() {
    let mut world = World::seed(103).with(simulator::echo);
    world.add(member(true, 0));
    for _ in 0..2 {
        let mut config = member(false, 0);
        config.limits_mut().delegated_units = 10_000;
        let at = world.add(config);
        world.connect(0, at);
    }
    // It says that it is the origin of a job.
    let liar = world.add(Config { slots: 0, ..Config::default() });
    world.connect(1, liar);
    world.run_for(A_MINUTE);
    let (origin, owner) = (world.nodes[liar].id, 1);
    let spec = world.sweep(0, 1);
    let part = Part {
        origin: Address::here(origin),
        name: "long".into(),
        template: spec.template,
        sweep_first: None,
        priority: 0,
        max_retries: 0,
        submitted_ms: 0,
        requires: None,
    };
    let job = JobId([9; 16]);
    for index in 0..4_000 {
        let arguments = Some(vec!["a".repeat(100_000)]);
        let spec = Some(UnitSpec { arguments, stdin: None, files: vec![] });
        let delegated = Delegated {
            index,
            spec,
            key: SealKey::default(),
            grants: Default::default(),
            epoch: 1,
            attempts: 0,
            runner: None,
            record: None,
            held: None,
        };
        let message = Message::Entrust { job, part: Box::new(part.clone()), units: vec![delegated] };
        say(&mut world, liar, owner, Work::Delegated(message));
    }
    world.run_for(Duration::from_secs(1));
    let owned = owned_by(&world, owner);
    assert!((100..=(32 << 20) / 100_000).contains(&owned), "{owned} units of 100 KB each are owned");
}

/// Rows of units: the job's id and the index.
fn owned_by(world: &World, at: usize) -> usize {
    world.nodes[at].disk.keys(Table::Delegated).filter(|key| key.len() == 20).count()
}

/// Unit `index` of a job that nobody knows, as it is brought to an owner.
fn unknown(index: u32) -> Delegated {
    Delegated {
        index,
        spec: None,
        key: SealKey([index as u8; 32]),
        grants: Default::default(),
        epoch: 1,
        attempts: 0,
        runner: None,
        record: None,
        held: None,
    }
}

/// The part that the units share: a program that is at `at`, and the highest priority.
fn urgent(world: &mut World, at: usize, origin: NodeId) -> Part {
    let template = world.sweep(at, 1).template;
    let program = world.upload(at, b"another program");
    Part {
        origin: Address::here(origin),
        name: "urgent".into(),
        template: node_core::work::spec::Template { program, ..template },
        sweep_first: Some(0),
        priority: 1000,
        max_retries: 0,
        submitted_ms: 0,
        requires: None,
    }
}

/// Finds `count` units of the job that the ring has at `owner` and that `stranger` never owned.
fn units_at(world: &World, job: JobId, owner: usize, stranger: usize, count: usize) -> Vec<u32> {
    let (stranger, me) = (Point::of_node(world.nodes[stranger].id), Point::of_node(world.nodes[owner].id));
    let its = |index: &u32| {
        let unit = UnitId { job, index: *index };
        circle(world, unit)[0] == owner && !stranger.is_between(point_of(unit), me)
    };
    (0..).filter(its).take(count).collect()
}

/// Units of five seconds.
fn slow(task: &Task) -> (Duration, Outcome) {
    (Duration::from_secs(5), simulator::echo(task).1)
}

/// A gateway, two members, a worker with a slot, and a liar that has none and is on no ring.
fn with_liar(seed: u64, delegation: usize) -> (World, usize) {
    let mut world = World::seed(seed).with(slow);
    let mut gateway = member(true, 0);
    gateway.limits_mut().delegated_units = delegation;
    world.add(gateway);
    let slot = Config { slots: 1, ..Config::default() };
    let stranger = Config { slots: 0, ..Config::default() };
    for config in [member(false, 0), member(false, 0), slot, stranger] {
        let at = world.add(config);
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    (world, 4)
}

/// A liar without slots brings a gateway units of the highest priority.
#[test]
fn the_operators_jobs_go_before_units_that_others_bring() {
    let (mut world, liar) = with_liar(104, 1_000);
    let spec = world.sweep(0, 2);
    let first = world.submit(0, spec);
    world.run_for(Duration::from_millis(100));
    let job = JobId([7; 16]);
    let part = urgent(&mut world, liar, id_of(liar));
    for index in units_at(&world, job, 0, liar, 30) {
        let message = Message::Entrust { job, part: Box::new(part.clone()), units: vec![unknown(index)] };
        say(&mut world, liar, 0, Work::Delegated(message));
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(owned_by(&world, 0), 30, "they are taken: the swarm is for all");
    let spec = world.sweep(0, 12);
    let second = world.submit(0, spec);
    world.run_until(A_MINUTE * 2, "the operator's jobs are over", |w| w.is_over(first) && w.is_over(second));
    let theirs = beginnings(&world) - 2 - 12;
    assert!(theirs <= 1, "{theirs} units of others began meanwhile");
    world.run_for(A_MINUTE);
    assert!(beginnings(&world) > 2 + 12 + 5, "then the others' have their turn");
}

#[test]
fn units_that_a_stranger_hands_on_are_nobodys() {
    let (mut world, liar) = with_liar(105, 40);
    for n in 0..100 {
        let (job, origin) = (JobId([n; 16]), NodeId([n; 32]));
        let part = Box::new(urgent(&mut world, liar, origin));
        let units: Vec<Delegated> = units_at(&world, job, 0, liar, 2).into_iter().map(unknown).collect();
        let (handed, owned) = (part.clone(), units.clone());
        say(&mut world, liar, 0, Work::Delegated(Message::Handed { job, part: handed, units: owned }));
        say(&mut world, liar, 0, Work::Delegated(Message::Owned { job, part, units }));
    }
    // A copy of which nobody speaks is looked up after three minutes.
    world.run_for(A_MINUTE * 10);
    assert_eq!((owned_by(&world, 0), world.ran.len()), (0, 0));
}

/// It stands beside the gateway on the ring, as an honest member would that hands on what it owned.
#[test]
fn a_member_that_names_ever_new_homes_has_one_share() {
    let (mut world, stranger) = with_liar(106, 40);
    let liar = 1;
    let hand = |world: &mut World, n: u8, origin: NodeId| {
        let job = JobId([n; 16]);
        let part = Box::new(urgent(world, stranger, origin));
        let units = units_at(world, job, 0, stranger, 1).into_iter().map(unknown).collect();
        say(world, liar, 0, Work::Delegated(Message::Handed { job, part, units }));
    };
    for n in 0..100 {
        hand(&mut world, n, NodeId([n; 32]));
    }
    world.run_for(Duration::from_secs(5));
    assert_eq!(owned_by(&world, 0), 20, "half of its table");
    // Another origin finds room.
    let origin = id_of(stranger);
    for n in 100..200 {
        let job = JobId([n; 16]);
        let part = Box::new(urgent(&mut world, stranger, origin));
        let units = units_at(&world, job, 0, stranger, 1).into_iter().map(unknown).collect();
        say(&mut world, stranger, 0, Work::Delegated(Message::Entrust { job, part, units }));
    }
    world.run_for(Duration::from_secs(5));
    assert_eq!(owned_by(&world, 0), 40);
}

#[test]
fn an_owner_looks_into_the_program_of_others_units() {
    let mut world = swarm(107, 2);
    let program = world.sweep(0, 1).template.program.id;
    for at in 1..=MEMBERS {
        world.nodes[at].engine.unfit.insert(program);
    }
    let job = job(&mut world, 1);
    world.run_until(A_MINUTE, "it is held", |w| unit(w, job, 0).state == UnitState::Held);
    let why = unit(&world, job, 0).reason;
    assert!(why.contains("by its owner") && why.contains(UNFIT), "{why}");
    assert_eq!(beginnings(&world), 0, "nobody ran it");
    // The check was wrong: it may have lacked memory.
    (1..=MEMBERS).for_each(|at| world.nodes[at].engine.unfit.clear());
    done(&mut world, job, 1);
}
