//! The whole engine, with real processes: slots are this test program, told to be one.

mod crashes;
mod limits;
mod mobility;
mod priority;
mod programs;
mod sharing;
mod support;

/// Not a test: what a slot's process runs.
#[test]
#[ignore = "the inside of a slot; the tests start it"]
fn slot() {
    super::slot::main();
}
