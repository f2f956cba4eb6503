//! How soon something can be bought.

use crate::support::*;
use node_core::market::Wanted;
use node_core::market::commodity::Kind;
use node_core::market::money::Micro;
use node_core::{Command, NodeEvent, NodeInput};
use simulator::World;
use std::time::Duration;

fn found(world: &World) -> bool {
    world.told.iter().any(|(_, by, event)| match event {
        NodeEvent::Quoted { offers, .. } => *by == 0 && !offers.is_empty(),
        _ => false,
    })
}

#[test]
fn the_markets_of_a_new_swarm_are_open_within_seconds() {
    for seed in 0..6 {
        let mut world = World::seed(seed);
        world.add_keyed(config(0, true, true), &secret(0));
        for at in 1..=8 {
            world.add_keyed(config(at, false, false), &secret(at));
            world.connect(0, at);
            sell(&mut world, at, 1000);
        }
        let mut took = 0;
        while !found(&world) && took < 60 {
            let wanted = Wanted {
                kind: Kind::Cycles,
                capacity: 0,
                minutes: 1,
                memory_mib: 64,
                engine: None,
                units: 1,
                quantity: FUEL,
                most: Micro(CREDIT),
                tie: 0,
            };
            world.drive(0, NodeInput::Command(Command::Quote { number: took, wanted }));
            world.run_for(Duration::from_secs(1));
            took += 1;
        }
        println!("seed {seed}: {took} s");
        assert!(took <= 20, "seed {seed}: {took} s");
    }
}
