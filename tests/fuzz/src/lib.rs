//! What strangers send, made up at random.
//!
//! Each target takes any bytes, makes something hostile of them, and gives it to the code that
//! has to bear it. It panics if that code does what it must not: panics itself, takes more memory
//! than its bound, runs on without fuel, touches anything but its own task. The same targets are
//! run over a fixed number of seeds by `cargo test`, and without end by libFuzzer, which sees
//! what they reach (`targets/`).
//!
//! - [`snapshot_open`]: bytes that claim to be a snapshot.
//! - [`resume`]: a state that nobody ever came to, rightly sealed and with the right root.
//! - [`instrument`]: bytes that claim to be a program.

mod edit;
#[path = "../../../node-core/sandbox/tests/mobility/engine.rs"]
mod engine;
mod forge;
mod gauge;
mod instrument;
mod resume;
mod snapshot_open;
mod stage;
#[cfg(test)]
mod stories;

pub use instrument::instrument;
pub use resume::resume;
pub use snapshot_open::snapshot_open;
