//! Where files go, and how much.

use super::*;
use node_core::files::owner::NotNamed;
use node_core::record::Refused;

#[test]
fn a_file_is_kept_by_as_many_as_was_asked_for_and_read_without_its_owner() {
    for seed in 0..3 {
        let mut world = swarm(seed, 8, 64 * MIB);
        let bytes = content(seed, 5 * MIB);
        let id = put(&mut world, 0, &bytes, 3);
        until_kept(&mut world, id, 3);
        let told = file(&world, 0, id);
        assert!(told.reason.contains("no market") && told.reason.contains("for nothing"), "{}", told.reason);
        world.run_for(A_MINUTE);
        world.kill(0);
        world.run_for(A_MINUTE);
        let reader = (1..=8).rev().find(|at| world.node(*at).kept_files().unwrap().load().0 == 0);
        let reader = reader.expect("not all keep it");
        assert!(get(&mut world, reader, id) == Ok(bytes), "seed {seed}: every byte of it");
        let left = world.nodes[reader].disk.blobs().count();
        assert_eq!(left, 0, "what was only read is not kept");
    }
}

#[test]
fn the_cheapest_that_sell_space_keep_it_at_the_rules_price() {
    for seed in 0..3 {
        let mut world = trading(seed, 8, 1, selling(64 * MIB));
        paying::endow(&mut world, 0, paying::CREDIT);
        let id = put(&mut world, 0, &content(seed, MIB), 3);
        until_kept(&mut world, id, 3);
        let mut sellers = keepers(&world, id);
        sellers.sort_unstable();
        assert_eq!(sellers, [1, 2, 3], "seed {seed}");
        let told = file(&world, 0, id);
        assert_eq!(told.reason, "", "nothing is given for nothing here");
        for keeper in told.keepers {
            assert_eq!(keeper.price, Some(Price(4)), "all at the fourth price");
        }
        // Space that was sold is not sold again.
        let (files, kept, given) = world.node(1).kept_files().unwrap().load();
        assert!(files == 1 && kept >= MIB && given == 64 * MIB);
    }
}

#[test]
fn nobody_keeps_more_than_is_given_and_its_owner_says_what_is_missing() {
    let mut world = swarm(1, 4, 4 * MIB);
    // One owner gets 3 of a node's 4 MiB: room for two of these files.
    let ids: Vec<BlobId> = (0..6).map(|n| put(&mut world, 0, &content(n, MIB + n), 2)).collect();
    world.run_for(A_MINUTE * 6);
    for at in 1..=4 {
        let (_, kept, _) = world.node(at).kept_files().unwrap().load();
        assert!(kept <= 3 * MIB, "node {at} keeps {kept} bytes");
    }
    let short = ids.iter().filter(|id| file(&world, 0, **id).kept < 2).count();
    assert!(short > 0, "eight copies fit, twelve were asked for");
    for id in &ids {
        let told = file(&world, 0, *id);
        let lacks = ["0 of 2 keepers found; of ", "1 of 2 keepers found; of "];
        let is_told = lacks.iter().any(|words| told.reason.contains(words));
        let why = "0 have 1048";
        assert!(told.kept == 2 || is_told && told.reason.contains(why), "{}", told.reason);
    }
    let large = put(&mut world, 0, &content(9, 5 * MIB), 1);
    world.run_for(A_MINUTE);
    assert_eq!(file(&world, 0, large).kept, 0);
    // Room comes with whoever gives it.
    let at = world.add_keyed(config(5, giving(64 * MIB)), &secret(5));
    world.connect(0, at);
    until_kept(&mut world, large, 1);
}

#[test]
fn more_copies_than_there_are_nodes_wait_with_the_number_that_can_be_had() {
    let mut world = swarm(1, 1, 64 * MIB);
    let id = put(&mut world, 0, &content(1, MIB), 3);
    until_kept(&mut world, id, 1);
    world.run_for(A_MINUTE * 2);
    let told = file(&world, 0, id).reason;
    assert!(told.contains("1 of 3 keepers found; this node is connected to no other server"), "{told}");
}

#[test]
fn what_is_removed_goes_from_everywhere_also_from_who_was_away() {
    for seed in 0..3 {
        let mut world = swarm(seed, 5, 64 * MIB);
        let id = put(&mut world, 0, &content(seed, 5 * MIB), 3);
        until_kept(&mut world, id, 3);
        let keepers = keepers(&world, id);
        world.kill(keepers[0]);
        world.run_for(Duration::from_secs(1));
        world.drive(0, NodeInput::Command(Command::DropFile { number: 1, file: id }));
        world.run_for(A_MINUTE);
        world.start(keepers[0]);
        world.connect(0, keepers[0]);
        world.run_for(A_MINUTE * 13);
        for at in 0..=5 {
            assert_eq!(world.nodes[at].disk.blobs().count(), 0, "seed {seed}: node {at}");
        }
        assert!(world.node(0).files(None).is_empty());
        assert_eq!(whereabouts(&mut world, 4, &Key::Keepers(id)), None);
    }
}

#[test]
fn a_file_is_found_by_its_name_and_a_name_has_one_owner() {
    let mut world = swarm(1, 6, 64 * MIB);
    let ids = [put(&mut world, 0, b"one", 1), put(&mut world, 2, b"two", 1)];
    let name = |world: &mut World, at: usize, file: BlobId| {
        let number = world.told.len() as u64;
        world.drive(at, NodeInput::Command(Command::NameFile { number, file, name: "prize".into() }));
        let answer = |world: &World| {
            world.told.iter().rev().find_map(|(_, by, event)| match event {
                NodeEvent::FileNamed { number: n, refused } if *n == number && *by == at => {
                    Some(refused.clone())
                }
                _ => None,
            })
        };
        world.run_until(A_MINUTE * 4, "something comes of it", |w| answer(w).is_some());
        answer(world).expect("it was there")
    };
    assert_eq!(name(&mut world, 0, ids[0]), None);
    let taken = name(&mut world, 2, ids[1]).expect("it is taken");
    assert_eq!(taken, NotNamed::Refused(Refused::Taken(world.nodes[0].id)));
    assert_eq!(name(&mut world, 0, ids[1]), Some(NotNamed::NotOwned));
    let found = whereabouts(&mut world, 5, &Key::Name("prize".into())).expect("it is published");
    assert_eq!(found.manifest.id, ids[0]);
    assert_eq!(file(&world, 0, ids[0]).names, ["prize"]);
}
