//! Who has no say in it says something.

use super::*;
use node_core::checkpoint::Source;
use node_core::ids::NodeId;
use node_core::node::host::{Channel, SealKey};
use node_core::wire;
use node_core::work::message::{Message as Work, Report, ToRunner};
use node_core::work::spec::{Data, UnitResult, UnitSpec};
use node_core::work::ward::{Message, Part, Ward};
use sandbox::End;
use simulator::liar::{Liar, Lie};

fn say(world: &mut World, from: usize, to: usize, message: Work) {
    let bytes = wire::encode(&wire::Message::Work(message)).expect("it fits");
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
    let (home, me) = (world.nodes[0].id, world.nodes[stranger].id);
    let source = |node| Source { node, contact: None };
    let part = |node| Part {
        home: source(node),
        name: String::new(),
        template: template.clone(),
        sweep_first: Some(0),
        priority: 0,
        max_retries: 0,
    };
    let ward = Ward {
        index: 0,
        spec: None,
        key: SealKey::default(),
        grants: Default::default(),
        term: u32::MAX,
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
        Work::ToRunner(ToRunner::Claim { units: units(), home, heirs: vec![me] }),
    );
    say(
        &mut world,
        stranger,
        runner,
        Work::ToRunner(ToRunner::Heirs { units: units(), home: me, heirs: vec![me] }),
    );
    say(
        &mut world,
        stranger,
        runner,
        Work::ToRunner(ToRunner::Claim { units: units(), home, heirs: vec![me] }),
    );
    for at in 0..=MEMBERS {
        for node in [home, me] {
            let (part, units) = (|| Box::new(part(node)), || vec![ward.clone()]);
            for message in [
                Message::Entrust { job, part: part(), units: units() },
                Message::Owned { job, part: part(), units: units() },
                Message::Handed { job, part: part(), units: units() },
                Message::Refused { job, units: vec![0, 1, u32::MAX], reason: "no".into() },
                Message::Lives { job, units: vec![(0, u32::MAX), (7, 1)] },
                Message::Results(vec![forged(first(job), me)]),
                Message::Over(vec![first(job), UnitId { job, index: 9 }]),
            ] {
                say(&mut world, stranger, at, Work::Ward(message));
            }
        }
    }
    world.run_for(Duration::from_secs(20));
    let told = &world.liars[&stranger].told;
    assert!(told.iter().all(|told| told.key == ward.key), "it hears no keys but those that it made up");
    let after = unit(&world, job, 0);
    assert_eq!((after.runner, after.owner, after.state), (before.runner, before.owner, UnitState::Placed));
    // And the true heirs still come.
    world.crash(owner);
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), 1, "it ran on");
}

/// A result that no runner of the unit has made.
fn forged(unit: UnitId, runner: NodeId) -> Report {
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
        config.limits.wards = 2;
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
        config.limits.wards = 10;
        let at = world.add(config);
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    job(&mut world, 200);
    world.run_for(A_MINUTE * 2);
    for at in 1..3 {
        // A row for each unit: the job's id and its index.
        let owned = world.nodes[at].disk.keys(Table::Wards).filter(|key| key.len() == 20).count();
        assert_eq!(owned, 5, "half of its table");
    }
}

#[test]
fn descriptions_of_others_units_fill_no_memory() {
    let mut world = World::seed(103).with(simulator::echo);
    world.add(member(true, 0));
    for _ in 0..2 {
        let mut config = member(false, 0);
        config.limits.wards = 10_000;
        let at = world.add(config);
        world.connect(0, at);
    }
    // It says that it is the home of a job.
    let liar = world.add(Config { slots: 0, ..Config::default() });
    world.connect(1, liar);
    world.run_for(A_MINUTE);
    let (home, owner) = (world.nodes[liar].id, 1);
    let spec = world.sweep(0, 1);
    let part = Part {
        home: Source { node: home, contact: None },
        name: "long".into(),
        template: spec.template,
        sweep_first: None,
        priority: 0,
        max_retries: 0,
    };
    let job = JobId([9; 16]);
    for index in 0..4_000 {
        let arguments = Some(vec!["a".repeat(100_000)]);
        let spec = Some(UnitSpec { arguments, stdin: None, files: vec![] });
        let ward = Ward {
            index,
            spec,
            key: SealKey::default(),
            grants: Default::default(),
            term: 1,
            attempts: 0,
            runner: None,
            record: None,
            held: None,
        };
        let message = Message::Entrust { job, part: Box::new(part.clone()), units: vec![ward] };
        say(&mut world, liar, owner, Work::Ward(message));
    }
    world.run_for(Duration::from_secs(1));
    let owned = world.nodes[owner].disk.keys(Table::Wards).filter(|key| key.len() == 20).count();
    assert!((100..=(64 << 20) / 100_000).contains(&owned), "{owned} units of 100 KB each are owned");
}
