//! The inside of a slot: a process that runs one task after the other until its node ends it.
//!
//! Four threads. The *runner* takes orders, runs them in slices of fuel and writes down their
//! outcomes; when it has no order left it sends what it wrote and waits. The *clerk* ([`desk`])
//! looks at its back while it runs: outcomes that lie too long are sent, when one task takes its
//! time the orders behind it are handed back, so that other slots can run them, and what the
//! node asks of the task is laid where the runner sees it between two slices. Snapshots are
//! written down by a *scribe* ([`scribe`]) in a thread of its own, while the task goes on. All of
//! them have the lowest priority; programs are loaded and compiled at normal priority, in a thread
//! for that ([`compile`]).
//!
//! A slot has no clock: its node measures time, and kills the process when a task is not ended
//! by being asked. It also ends by itself as soon as its node is gone.

mod blobs;
pub(crate) mod cache;
mod compile;
mod desk;
mod modules;
mod runner;
mod scribe;
pub(crate) mod wasm;

use super::wire::FromSlot;
use desk::Desk;
use runner::Runner;
use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// What the hidden subcommand runs. Frames come in on stdin and go out on stdout.
pub(crate) fn main() -> ExitCode {
    if std::io::stdin().is_terminal() {
        eprintln!("This is the inside of a slot, which nodes start by themselves. Try `manyhands up`.");
        return ExitCode::from(2);
    }
    give_way();
    let desk = match Desk::open() {
        Ok(desk) => desk,
        Err(error) => {
            eprintln!("manyhands: a slot cannot talk to its node: {error}");
            return ExitCode::FAILURE;
        }
    };
    let Some(setup) = desk.setup() else { return ExitCode::SUCCESS };
    let mut runner = match Runner::new(&setup, desk.clone()) {
        Ok(runner) => runner,
        Err(error) => {
            eprintln!("manyhands: a slot cannot start its compile thread: {error}");
            return ExitCode::FAILURE;
        }
    };
    // Tasks get what nobody else needs. Before here only what each slot does once was done.
    compile::lower_thread();
    while let Some(order) = desk.next_order() {
        let run = order.run;
        let answer = catch_unwind(AssertUnwindSafe(|| runner.answer(order)));
        let panicked = answer.is_err();
        let answer = answer.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
            FromSlot::Broken(run, format!("the slot failed ({said}); please report this with the program"))
        });
        desk.answer(run, &answer);
        if panicked {
            // Whatever state this left behind, no other task shall meet it.
            desk.flush();
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The kernel knows which process to end first when memory runs out, and writes no core of it. Where
/// a system does not let us, the task runs all the same.
fn give_way() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
}
