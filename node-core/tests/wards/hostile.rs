//! Who has no say in it says something.

use super::*;
use node_core::checkpoint::Source;
use node_core::node::host::{Channel, SealKey};
use node_core::wire;
use node_core::work::message::{Message as Work, ToRunner};
use node_core::work::ward::{Message, Part, Ward};

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
                Message::Over(vec![first(job), UnitId { job, index: 9 }]),
            ] {
                say(&mut world, stranger, at, Work::Ward(message));
            }
        }
    }
    world.run_for(Duration::from_secs(20));
    let after = unit(&world, job, 0);
    assert_eq!((after.runner, after.owner, after.state), (before.runner, before.owner, UnitState::Placed));
    // And the true heirs still come.
    world.crash(owner);
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), 1, "it ran on");
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
