//! Stories of the core, on machines alone and in the simulator's world.
//!
//! They are one program, since to link each file for itself took longer than to run it. `cargo test -p node-core
//! --test stories ring::` runs those of the ring.

mod cheapest;
mod checkpoint;
mod circuits;
mod connections;
mod data;
mod delegation;
mod dialable;
mod far_guests;
mod files;
mod fitting;
mod fitting_can;
mod fitting_early;
mod fitting_guests;
mod fitting_queue;
mod fitting_ring;
mod fitting_room;
mod fitting_shares;
mod greedy;
mod hostile;
mod idle_slots;
mod jobs;
mod ledger;
mod market;
mod market_swarm;
mod meddlers;
mod nearest;
mod nearest_swarm;
mod paid;
mod peers;
mod policy;
mod prices;
mod random;
mod records;
mod rest;
mod ring;
mod ring_swarm;
mod rn_tree;
mod services;
mod signalling;
mod submitters;
mod swarm;
mod threads {
    mod guest;
    mod world;
}
mod tree;
mod wire;
