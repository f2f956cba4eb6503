//! The inside of a slot: a process that runs one task after the other until its node ends it.
//!
//! Five threads, which begin with it; it starts no more. The *runner* takes orders, runs them in slices of fuel and writes down their
//! outcomes; when it has no order left it sends what it wrote and waits. The *clerk* ([`desk`])
//! looks at its back while it runs: outcomes that lie too long are sent, when one task takes its
//! time the orders behind it are handed back, so that other slots can run them, and what the
//! node asks of the task is laid where the runner sees it between two slices. Snapshots are
//! written down by a *scribe* ([`scribe`]) in a thread of its own ([`beside`]), while the task goes on, into files
//! that the node gives ([`files`]), and
//! checked in another when a task goes on from one. All of them have the lowest priority; programs are loaded at normal priority, in a thread for that
//! ([`loading`]); what is not compiled yet, the node has compiled by another process.
//!
//! A slot has no clock: its node measures time, and kills the process when a task is not ended
//! by being asked. It also ends by itself as soon as its node is gone.

mod beside;
mod blobs;
pub(crate) mod cache;
mod desk;
mod files;
#[cfg(test)]
pub(in crate::engine) mod lies;
mod loading;
mod modules;
mod runner;
mod scribe;
pub(crate) mod wasm;

use super::wall;
use super::wire::{self, FromSlot, ToSlot};
use desk::Desk;
use runner::Runner;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

/// The hidden subcommand runs a slot or a compiler, as the first frame says. Frames come in on stdin
/// and go out on stdout.
pub(crate) fn main() -> ExitCode {
    if std::io::stdin().is_terminal() {
        eprintln!("This is the inside of a slot, which nodes start by themselves. Try `manyhands up`.");
        return ExitCode::from(2);
    }
    wall::limit();
    let setup = match wire::first() {
        Some(ToSlot::Setup(setup)) => setup,
        Some(ToSlot::Compile(order)) => super::compiler::inside::main(order),
        _ => return ExitCode::SUCCESS,
    };
    let runner = Runner::new(&setup);
    let path = |bytes: &[u8]| Path::new(OsStr::from_bytes(bytes)).to_owned();
    // Only what is beneath these is ever read; nothing was read of them yet.
    wall::bound(rustix::process::Resource::Fsize, files::MOST);
    wall::close(&[&path(&setup.blob_dir), &cache::folder(&path(&setup.cache_dir))], wall::Files::Given);
    let desk = match Desk::open(&setup) {
        Ok(desk) => desk,
        Err(error) => {
            eprintln!("manyhands: a slot cannot talk to its node: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut runner = match runner.open(desk.clone()) {
        Ok(runner) => runner,
        Err(error) => {
            eprintln!("manyhands: a slot cannot start its threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    wall::no_more_threads();
    // Tasks get what nobody else needs. Before here only what each slot does once was done.
    loading::lower_thread();
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
