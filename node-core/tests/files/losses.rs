//! Keepers that go, lose something, or give less; and owners that begin anew.

use super::*;

#[test]
fn another_keeps_it_when_one_goes() {
    for seed in 0..3 {
        let mut world = swarm(seed, 8, 64 * MIB);
        let bytes = content(seed, 5 * MIB);
        let id = put(&mut world, 0, &bytes, 3);
        until_kept(&mut world, id, 3);
        for _ in 0..3 {
            let gone = keepers(&world, id)[0];
            world.kill(gone);
            let went = |world: &World| !keepers(world, id).contains(&gone);
            world.run_until(A_MINUTE * 4, "it is noticed", went);
            until_kept(&mut world, id, 3);
        }
        assert_eq!(file(&world, 0, id).lost.len(), 3);
        let reader = (1..=8).find(|at| world.lives(*at)).expect("most live");
        assert!(get(&mut world, reader, id) == Ok(bytes));
    }
}

#[test]
fn who_lost_a_chunk_or_has_another_is_found_out_and_replaced() {
    for (seed, corrupt) in [(1, false), (2, true), (3, false), (4, true)] {
        let mut world = swarm(seed, 6, 64 * MIB);
        let bytes = content(seed, MIB);
        let id = put(&mut world, 0, &bytes, 2);
        until_kept(&mut world, id, 2);
        let bad = keepers(&world, id)[1];
        let chunk = BlobId::of(&bytes);
        match corrupt {
            true => world.nodes[bad].disk.corrupt_blob(chunk),
            false => world.nodes[bad].disk.lose_blob(chunk),
        }
        let found_out = |world: &World| !keepers(world, id).contains(&bad);
        world.run_until(A_MINUTE * 4, "it is found out", found_out);
        let fault = world.faults(0).into_iter().find(|fault| fault.contains("of a file that it keeps"));
        assert!(fault.is_some(), "seed {seed}: {:?}", world.faults(0));
        let (who, why) = file(&world, 0, id).lost[0].clone();
        assert_eq!(world.find(who), Some(bad));
        assert!(why.contains("proof") || why.contains("lost"), "{why}");
        until_kept(&mut world, id, 2);
    }
}

#[test]
fn who_gives_less_after_a_restart_says_so() {
    let mut world = swarm(5, 6, 64 * MIB);
    let id = put(&mut world, 0, &content(5, MIB), 2);
    until_kept(&mut world, id, 2);
    let mean = keepers(&world, id)[0];
    world.kill(mean);
    world.nodes[mean].config = Arc::new(config(mean, giving(0)));
    world.start(mean);
    world.connect(0, mean);
    let told = |world: &World| file(world, 0, id).lost.iter().any(|(_, why)| why.contains("less space"));
    world.run_until(A_MINUTE, "it says so itself", told);
    until_kept(&mut world, id, 2);
    assert!(!keepers(&world, id).contains(&mean));
}

#[test]
fn all_is_still_there_when_everybody_begins_anew() {
    for seed in 0..3 {
        let mut world = swarm(seed, 5, 64 * MIB);
        let bytes = content(seed, 5 * MIB);
        let id = put(&mut world, 0, &bytes, 3);
        until_kept(&mut world, id, 3);
        world.run_for(Duration::from_secs(5));
        let before = keepers(&world, id);
        (0..=5).for_each(|at| world.crash(at));
        (0..=5).for_each(|at| world.start(at));
        (1..=5).for_each(|at| world.connect(0, at));
        world.run_for(A_MINUTE * 4);
        assert_eq!(keepers(&world, id), before, "seed {seed}: the same keep it, and were not replaced");
        assert!(file(&world, 0, id).lost.is_empty());
        let reader = (1..=5).find(|at| !before.contains(at)).expect("not all keep it");
        assert!(get(&mut world, reader, id) == Ok(bytes));
    }
}

/// A cache that is smaller than what is kept must not push it out at a restart.
#[test]
fn what_is_kept_is_no_cache() {
    let mut world = swarm(6, 2, 64 * MIB);
    for at in 1..=2 {
        world.kill(at);
        let mut config = config(at, giving(64 * MIB));
        config.limits_mut().cache_bytes = MIB;
        world.nodes[at].config = Arc::new(config);
        world.start(at);
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    let id = put(&mut world, 0, &content(6, 9 * MIB), 2);
    until_kept(&mut world, id, 2);
    for at in 1..=2 {
        world.kill(at);
        world.start(at);
        world.connect(0, at);
    }
    world.run_for(A_MINUTE * 3);
    let told = file(&world, 0, id);
    assert!(told.kept == 2 && told.lost.is_empty(), "{:?}", told.lost);
}

/// Nodes come and go at random; nobody keeps more than it gives, and in the end all is kept by as many
/// as was asked for.
#[test]
fn whatever_happens_files_are_kept() {
    for seed in 0..10 {
        let mut world = swarm(seed, 9, 8 * MIB);
        let mut files = Vec::new();
        for step in 0..16 {
            if step < 4 {
                let bytes = content(seed + step, MIB / 2 + step);
                files.push((put(&mut world, 0, &bytes, 2), bytes));
            }
            let at = 1 + world.rng.below(9) as usize;
            let dead = (1..=9).filter(|at| !world.lives(*at)).count();
            match world.lives(at) {
                // One at a time: what all keepers lose at once only its owner has.
                true if dead < 3 => world.kill(at),
                true => {}
                false => {
                    world.start(at);
                    world.connect(0, at);
                }
            }
            let pause = 20 + world.rng.below(100);
            world.run_for(Duration::from_secs(pause));
            for at in (1..=9).filter(|at| world.lives(*at)) {
                let (_, kept, given) = world.node(at).kept_files().unwrap().load();
                assert!(kept <= given, "seed {seed}: node {at}");
            }
        }
        for (id, bytes) in files {
            let kept = |world: &World| {
                let living = keepers(world, id).iter().all(|at| world.lives(*at));
                file(world, 0, id).kept >= 2 && living
            };
            world.run_until(A_MINUTE * 12, "it is kept by as many as was asked for", kept);
            let reader = (1..=9).find(|at| world.lives(*at)).expect("most live");
            assert!(get(&mut world, reader, id) == Ok(bytes), "seed {seed}");
        }
    }
}
