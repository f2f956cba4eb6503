//! Input of strangers, made up at random.
//!
//! Each target takes any bytes, makes something hostile of them, and gives it to the code that
//! has to bear it. It panics if that code does what it must not: panics itself, takes more memory
//! than its bound, runs on without fuel, touches anything but its own task. `cargo test` runs the
//! targets over a fixed number of seeds; libFuzzer, which sees what they reach, runs them without
//! end (`targets/`).
//!
//! - [`snapshot_open`]: bytes that claim to be a snapshot.
//! - [`resume`]: a state that nobody ever came to, rightly sealed and with the right root.
//! - [`instrument`]: bytes that claim to be a program.
//! - [`frames`]: the bytes of a stream.
//! - [`wire`]: the bytes of a frame.
//! - [`node`]: what peers say to a whole node.
//! - [`listings`]: what peers have signed: listings, orders, receipts, records.
//! - [`records`]: what a node finds on its disk when it starts.

mod bend;
mod desk;
mod edit;
#[path = "../../../node-core/sandbox/tests/mobility/engine.rs"]
mod engine;
#[cfg(test)]
mod floods;
mod forge;
// The connection that writes, closes and listens is not here.
#[allow(dead_code)]
#[path = "../../../node-core/link/src/frame.rs"]
mod frame;
mod frames;
mod gauge;
mod golden;
mod instrument;
mod listings;
mod node;
mod records;
mod resume;
mod rows;
mod snapshot_open;
mod stage;
#[cfg(test)]
mod stories;
mod wire;

pub use frames::frames;
pub use instrument::instrument;
pub use listings::listings;
pub use node::node;
pub use records::records;
pub use resume::resume;
pub use snapshot_open::snapshot_open;
pub use wire::wire;
