//! A node that signs its own record for another's name, and sends it as a copy.

use super::*;
use node_core::keys::Signed;
use node_core::records::{Copied, Message, Record};

const NOW: u64 = 1_700_000_000_000;

/// The node's own record for this key, "taken" before any other was.
fn stolen(by: usize, key: &Key) -> Copied {
    let value = Some(Bytes::from_static(b"stolen"));
    let record = Record { key: key.clone(), number: u64::MAX, expires_ms: NOW + 3_600_000, value };
    let body = rmp_serde::to_vec(&record).expect("plain");
    Copied {
        signed: Signed::new(&secret(by), "manyhands 2026-11 record on the ring", body.into()),
        since_ms: 0,
    }
}

/// The thief stands anywhere on the ring: owner, copies and the thief itself are told, again and again.
#[test]
fn a_name_is_not_taken_by_copies_that_say_that_another_was_first() {
    for (seed, place) in [(0, 1), (1, 4), (2, 5), (3, 11)] {
        let mut world = swarm(seed, 12, &RecordsConfig::default());
        let key = name(&format!("tools/tsp {seed}"));
        let homes = homes(&world, &key);
        let (publisher, thief) = (homes[9], homes[place]);
        assert_eq!(publish(&mut world, publisher, &key, Some("honest")), None);
        world.run_for(A_MINUTE);
        let message = node_core::Message::Records(Message::Copies(vec![stolen(thief, &key)]));
        for _ in 0..30 {
            for home in &homes[..6] {
                if *home != thief {
                    world.connect(thief, *home);
                    let to = world.nodes[*home].id;
                    world.tell(thief, to, &message);
                }
            }
            world.run_for(Duration::from_secs(5));
        }
        for at in [homes[0], homes[6], homes[10], publisher] {
            assert_eq!(value(&mut world, at, &key).as_deref(), Some("honest"), "seed {seed}: node {at}");
        }
        // Its owner is lost: the copies are what they were.
        world.kill(homes[0]);
        world.run_for(A_MINUTE);
        let reader = homes[7];
        assert_eq!(value(&mut world, reader, &key).as_deref(), Some("honest"), "seed {seed}: at a successor");
        let lost = |event: &NodeEvent| matches!(event, NodeEvent::Unpublished { .. });
        assert!(!world.told.iter().any(|(_, _, event)| lost(event)), "seed {seed}: nobody has lost a name");
    }
}
