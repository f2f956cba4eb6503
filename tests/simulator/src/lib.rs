//! The simulator: the third driver of `node-core`, beside the native node and the browser's.
//!
//! A [`World`] holds thousands of real [`node_core::Node`]s and a heap of what is to happen to
//! them. One seed gives everything; no clock, no thread and no file is touched in here, so that
//! stories run in WebAssembly too. The program beside it (`main.rs`) reads scenarios, runs seeds
//! side by side and draws.
//!
//! | module | what it knows |
//! |---|---|
//! | [`world`] | the nodes, their links, and what happens next |
//! | [`network`] | how long a frame takes and what befalls it |
//! | [`disk`], [`engine`] | storage that forgets, engines that take their time |
//! | [`ring`], [`market`] | rings of machines without the node around them, and markets on them |
//! | [`liar`] | a node that lies |
//! | [`matchmaking`] | workloads of jobs with requirements, and central schedulers |
//! | [`liveness`] | whether slots idle while units wait |
//! | [`scenario`] | what a run is about, as TOML |
//! | [`experiment`] | runs of a scenario: growing a network, asking it, hurting it |
//! | [`report`] | rows, tables, JSON, pictures, baselines |

pub mod disk;
pub mod engine;
pub mod experiment;
pub mod liar;
pub mod liveness;
pub mod market;
pub mod matchmaking;
pub mod meter;
pub mod network;
pub mod queue;
pub mod report;
pub mod ring;
pub mod rng;
pub mod scenario;
pub mod swarm;
pub mod trace;
pub mod world;

pub use world::{World, echo, ended};
