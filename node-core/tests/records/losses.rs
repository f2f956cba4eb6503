use super::*;
use std::collections::BTreeMap;

#[test]
fn a_record_survives_the_loss_of_its_owner_and_of_all_copies_but_one() {
    for seed in 0..10 {
        let records = RecordsConfig::default();
        let mut world = swarm(seed, 16, &records);
        let key = name(&format!("prize {seed}"));
        let homes = homes(&world, &key);
        // The publisher is none of those nodes, and refreshes the record only after twenty minutes.
        let publisher = homes[12];
        assert_eq!(publish(&mut world, publisher, &key, Some("content")), None);
        world.run_for(Duration::from_secs(2));
        homes[..records.copies].iter().for_each(|at| world.kill(*at));
        world.run_for(A_MINUTE * 2);
        assert_eq!(value(&mut world, homes[10], &key).as_deref(), Some("content"), "seed {seed}");
        // The copies are there again, so that as many may be lost once more.
        homes[4..4 + records.copies].iter().for_each(|at| world.kill(*at));
        world.run_for(A_MINUTE * 2);
        assert_eq!(value(&mut world, homes[11], &key).as_deref(), Some("content"), "seed {seed}");
    }
}

#[test]
fn a_record_goes_to_who_comes_to_own_its_key_and_from_who_leaves() {
    for seed in 0..5 {
        let mut world = swarm(seed, 6, &RecordsConfig::default());
        let keys: Vec<Key> = (0..20).map(|n| name(&format!("name {n}"))).collect();
        for key in &keys {
            assert_eq!(publish(&mut world, 1, key, Some("content")), None);
        }
        for n in 7..20 {
            let at = world.add_keyed(config(n, &RecordsConfig::default()), &secret(n));
            world.connect(0, at);
            world.run_for(Duration::from_secs(5));
        }
        world.run_for(A_MINUTE);
        for at in 2..8 {
            world.drive(at, NodeInput::Command(Command::Drain));
            world.run_for(Duration::from_secs(10));
            world.kill(at);
        }
        world.run_for(A_MINUTE);
        for key in &keys {
            assert_eq!(value(&mut world, 15, key).as_deref(), Some("content"), "seed {seed}: {key:?}");
            let owner = homes(&world, key)[0];
            let here: Vec<_> = world.node(owner).records().expect("it has some").here().collect();
            assert!(here.iter().any(|(other, ..)| *other == key), "at its owner");
        }
    }
}

#[test]
fn what_all_have_lost_is_said_again_and_what_nobody_says_again_expires() {
    let records = RecordsConfig {
        life: Duration::from_secs(1200),
        refresh: Duration::from_secs(300),
        ..RecordsConfig::default()
    };
    for seed in 0..5 {
        let mut world = swarm(seed, 14, &records);
        let key = name("prize");
        let homes = homes(&world, &key);
        let publisher = homes[12];
        assert_eq!(publish(&mut world, publisher, &key, Some("content")), None);
        // It has been said once more by then.
        world.run_for(A_MINUTE * 2);
        homes[..=records.copies].iter().for_each(|at| world.kill(*at));
        world.run_for(A_MINUTE);
        assert_eq!(value(&mut world, homes[10], &key), None, "seed {seed}: all are gone");
        world.run_for(A_MINUTE * 6);
        assert_eq!(value(&mut world, homes[10], &key).as_deref(), Some("content"), "seed {seed}");
        world.kill(publisher);
        world.run_for(A_MINUTE * 10);
        assert_eq!(value(&mut world, homes[10], &key).as_deref(), Some("content"), "still good");
        world.run_for(A_MINUTE * 12);
        assert_eq!(value(&mut world, homes[10], &key), None, "seed {seed}: its time is over");
    }
}

/// Two halves, in each of which somebody takes the same name; then all is one again, and one of
/// them has it, the same at every node.
#[test]
fn of_two_who_took_a_name_in_two_halves_one_keeps_it_and_the_other_is_told() {
    let records = RecordsConfig { refresh: Duration::from_secs(120), ..RecordsConfig::default() };
    for seed in 0..5 {
        let mut world = swarm(seed, 15, &records);
        world.part(&(1..=8).collect::<Vec<_>>());
        world.run_for(A_MINUTE * 2);
        let key = name("prize");
        assert_eq!(publish(&mut world, 3, &key, Some("of 3")), None);
        assert_eq!(publish(&mut world, 12, &key, Some("of 12")), None);
        world.heal();
        (1..=15).for_each(|at| world.connect(0, at));
        world.run_for(A_MINUTE * 12);
        let first = value(&mut world, 5, &key).expect("somebody has it");
        for at in [0, 1, 7, 9, 14] {
            assert_eq!(value(&mut world, at, &key).as_ref(), Some(&first), "seed {seed}: node {at}");
        }
        let loser = if first == "of 3" { 12 } else { 3 };
        let told = world.told.iter().any(|(_, at, event)| {
            *at == loser && matches!(event, NodeEvent::Unpublished { refused: Refused::Taken(_), .. })
        });
        assert!(told, "seed {seed}: {loser} knows that it has lost it");
    }
}

/// Nodes come and go at random, publishers publish at random. At any time one number of a publisher
/// has one text, everywhere; in the end all that stands is found.
#[test]
fn one_number_has_one_text_whatever_happens() {
    for seed in 0..20 {
        let mut world = swarm(seed, 14, &RecordsConfig::default());
        let keys: Vec<Key> = (0..6).map(|n| name(&format!("name {n}"))).collect();
        // Publishers do not die here; what they said last stands.
        let publishers = [1, 2, 3];
        let mut last: BTreeMap<usize, String> = BTreeMap::new();
        let mut seen: BTreeMap<(Key, u64), Bytes> = BTreeMap::new();
        for step in 0..30 {
            let of = world.rng.below(keys.len() as u64) as usize;
            let by = publishers[of % publishers.len()];
            let text = format!("{step}");
            if publish(&mut world, by, &keys[of], Some(&text)).is_none() {
                last.insert(of, text);
            }
            let at = 4 + world.rng.below(11) as usize;
            let dead = (4..15).filter(|at| !world.lives(*at)).count();
            match world.lives(at) {
                true if dead < 4 => world.kill(at),
                true => {}
                false => {
                    world.start(at);
                    world.connect(0, at);
                }
            }
            let pause = world.rng.below(40);
            world.run_for(Duration::from_secs(pause));
            let reader = (0..15).find(|at| world.lives(*at)).expect("most live");
            let key = keys[world.rng.below(keys.len() as u64) as usize].clone();
            for found in read(&mut world, reader, &key).unwrap_or_default() {
                let known = seen.entry((key.clone(), found.number)).or_insert(found.value.clone());
                assert_eq!(*known, found.value, "seed {seed}: {key:?} number {}", found.number);
            }
        }
        world.run_for(A_MINUTE * 3);
        for (of, text) in last {
            assert_eq!(value(&mut world, 0, &keys[of]), Some(text), "seed {seed}: {:?}", keys[of]);
        }
    }
}
