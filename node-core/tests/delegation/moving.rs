//! The ring moves, and ownership with it.

use super::*;

#[test]
fn a_newcomer_that_is_the_successor_owns_the_unit() {
    for seed in 80..83 {
        let mut world = swarm(seed, 2);
        let job = job(&mut world, 4);
        under_way(&mut world, job, 2);
        for _ in 0..12 {
            let at = world.add(member(false, 0));
            world.connect(0, at);
        }
        world.run_for(A_MINUTE);
        for index in 0..4 {
            let owner = unit(&world, job, index).owner.and_then(|id| world.find(id)).unwrap_or(0);
            let right = circle(&world, UnitId { job, index })[0];
            // Units that the origin owned already stay there.
            assert!(owner == right || owner == 0, "seed {seed}: unit {index} is {owner}'s, not {right}'s");
        }
        done(&mut world, job, 4);
        assert_eq!(beginnings(&world), 4, "seed {seed}: all ran on");
        tidy(&mut world);
    }
}

#[test]
fn an_owner_that_leaves_hands_over() {
    for seed in 90..93 {
        let mut world = swarm(seed, 2);
        let job = job(&mut world, 1);
        let (owner, _) = under_way(&mut world, job, 2);
        world.drive(owner, NodeInput::Command(Command::Drain));
        world.run_for(Duration::from_secs(4));
        world.kill(owner);
        let left = world.nodes[owner].id;
        world.run_until(A_MINUTE, "another owns it", |w| unit(w, job, 0).owner.is_some_and(|id| id != left));
        done(&mut world, job, 1);
        assert_eq!(beginnings(&world), 1, "seed {seed}: it ran on");
    }
}

/// Nodes own units and give slots, too, as most nodes do.
#[test]
fn owners_may_be_runners() {
    for seed in 95..98 {
        let mut world = World::seed(seed).with(long);
        world.add(member(true, 1));
        for _ in 0..7 {
            let at = world.add(member(false, 1));
            world.connect(0, at);
        }
        world.run_for(A_MINUTE);
        // One a slot: long units do not queue, and the first one has to run.
        let job = job(&mut world, 8);
        let (owner, _) = under_way(&mut world, job, 2);
        world.crash(owner);
        done(&mut world, job, 8);
        tidy(&mut world);
    }
}
