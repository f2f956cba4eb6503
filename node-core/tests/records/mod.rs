//! Records on the ring: what is published is found, by its first publisher's word alone, however
//! the nodes that keep it come and go.

mod hostile;
mod losses;
mod thief;

use bytes::Bytes;
use node_core::circle::Point;
use node_core::keys::Secret;
use node_core::node::config::RecordsPart;
use node_core::overlay::ring::RingConfig;
use node_core::record::{Key, Refused};
use node_core::records::{Found, RecordsConfig};
use node_core::{Command, Config, NodeEvent, NodeInput};
use simulator::World;
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

fn secret(n: usize) -> Secret {
    Secret::from_bytes(&[n as u8 + 1; 32])
}

fn config(n: usize, records: &RecordsConfig) -> Config {
    Config {
        gateway: n == 0,
        slots: 0,
        port: Some(4001),
        name: format!("node {n}"),
        ring: Some(Arc::new(RingConfig::default())),
        records: Some(RecordsPart { config: Arc::new(records.clone()), secret: secret(n) }),
        ..Config::default()
    }
}

/// A gateway and so many nodes, all dialable and with keys.
fn swarm(seed: u64, nodes: usize, records: &RecordsConfig) -> World {
    let mut world = World::seed(seed);
    for n in 0..=nodes {
        let at = world.add_keyed(config(n, records), &secret(n));
        if at > 0 {
            world.connect(0, at);
        }
    }
    world.run_for(A_MINUTE);
    world
}

fn name(text: &str) -> Key {
    Key::Name(text.into())
}

/// Publishes, or with no value gives up, and waits for what comes of it.
fn publish(world: &mut World, at: usize, key: &Key, value: Option<&str>) -> Option<Refused> {
    let number = world.told.len() as u64;
    let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
    world.drive(at, NodeInput::Command(Command::Publish { number, key: key.clone(), value }));
    let answer = |world: &World| {
        world.told.iter().rev().find_map(|(_, by, event)| match event {
            NodeEvent::Published { number: n, refused } if *n == number && *by == at => Some(*refused),
            _ => None,
        })
    };
    world.run_until(A_MINUTE * 4, "something comes of it", |w| answer(w).is_some());
    answer(world).expect("it was there")
}

pub(crate) fn read(world: &mut World, at: usize, key: &Key) -> Result<Vec<Found>, Refused> {
    let number = world.told.len() as u64;
    world.drive(at, NodeInput::Command(Command::ReadRecord { number, key: key.clone() }));
    let answer = |world: &World| {
        world.told.iter().rev().find_map(|(_, by, event)| match event {
            NodeEvent::RecordRead { number: n, found } if *n == number && *by == at => Some(found.clone()),
            _ => None,
        })
    };
    world.run_until(A_MINUTE * 4, "there is an answer", |w| answer(w).is_some());
    answer(world).expect("it was there")
}

/// The value under a key that has one publisher; `None` if there is none.
fn value(world: &mut World, at: usize, key: &Key) -> Option<String> {
    let found = read(world, at, key).expect("somebody answers");
    assert!(found.len() <= 1, "one publisher: {found:?}");
    found.first().map(|found| String::from_utf8_lossy(&found.value).into_owned())
}

/// The nodes that live, from the one that owns the key on, in the order of the ring.
fn homes(world: &World, key: &Key) -> Vec<usize> {
    let mut all: Vec<usize> = (0..world.nodes.len()).filter(|at| world.lives(*at)).collect();
    all.sort_by_key(|at| key.point().to(Point::of_node(world.nodes[*at].id)));
    all
}
