//! The whole engine, with real processes: slots are this test program, told to be one.

mod bombs;
mod crashes;
mod inspecting;
mod lies;
mod limits;
mod mobility;
mod priority;
mod programs;
mod sharing;
mod support;
#[cfg(target_os = "linux")]
mod walled;

/// Not a test: what a slot's process runs.
#[test]
#[ignore = "the inside of a slot; the tests start it"]
fn slot() {
    super::slot::main();
}

/// Starts processes of the engine in tests: they are this test program.
pub(crate) fn launcher() -> super::Launcher {
    let rest = ["--exact", "engine::tests::slot", "--ignored", "--nocapture", "--test-threads=1"];
    let exe = std::env::current_exe().expect("a test knows its own file");
    super::Launcher { exe, arguments: rest.map(Into::into).to_vec() }
}
