//! The inside of a slot: a process that runs one task after the other until its node ends it.
//!
//! Two threads. The *runner* takes orders, runs them and writes down their outcomes; when it
//! has no order left it sends what it wrote and waits. The *clerk* ([`desk`]) looks at its
//! back while it runs: outcomes that lie too long are sent, and when one task takes its time,
//! the orders behind it are handed back, so that other slots can run them.
//!
//! A slot has no way to end a task, and no clock to: its node measures time and kills the
//! process. It also ends by itself as soon as its node is gone.

mod blobs;
mod cache;
mod desk;
mod modules;
mod wasm;

use super::wire::{FromSlot, Order, Setup};
use blobs::Blobs;
use desk::Desk;
use modules::{Modules, NoModule};
use sandbox::{End, File, Outcome, Task, run_task};
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use wasm::WasmerEngine;

/// What the hidden subcommand runs. Frames come in on stdin and go out on stdout.
pub(crate) fn main() -> ExitCode {
    if std::io::stdin().is_terminal() {
        eprintln!("This is the inside of a slot, which nodes start by themselves. Try `manyhands up`.");
        return ExitCode::from(2);
    }
    be_humble();
    let desk = match Desk::open() {
        Ok(desk) => desk,
        Err(error) => {
            eprintln!("manyhands: a slot cannot talk to its node: {error}");
            return ExitCode::FAILURE;
        }
    };
    let Some(setup) = desk.setup() else { return ExitCode::SUCCESS };
    let mut runner = Runner::new(&setup);
    while let Some(order) = desk.next_order() {
        let run = order.run;
        let note = |note: FromSlot| desk.note(&note);
        let answer = catch_unwind(AssertUnwindSafe(|| runner.answer(order, &note)));
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

/// Tasks get what nobody else needs, and the kernel knows whom to end first when memory runs
/// out. Where a system does not let us, the task runs all the same.
fn be_humble() {
    let _ = rustix::process::setpriority_process(None, 19);
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
}

/// Runs orders.
struct Runner {
    engine: WasmerEngine,
    modules: Modules,
    blobs: Blobs,
}

impl Runner {
    fn new(setup: &Setup) -> Self {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        Runner {
            engine: WasmerEngine::new(),
            modules: Modules::new(path(&setup.cache_dir)),
            blobs: Blobs::new(path(&setup.blob_dir)),
        }
    }

    fn answer(&mut self, order: Order, note: &dyn Fn(FromSlot)) -> FromSlot {
        let run = order.run;
        match self.outcome(order, note) {
            Ok(outcome) => FromSlot::Ended(run, outcome),
            Err(error) => FromSlot::Broken(run, error),
        }
    }

    fn outcome(&mut self, order: Order, note: &dyn Fn(FromSlot)) -> Result<Outcome, String> {
        let Order { run, program, arguments, environment, stdin, files, limits, seed } = order;
        let preparing = |begins| note(if begins { FromSlot::Preparing(run) } else { FromSlot::Running(run) });
        let module = match self.modules.get(program, &limits, &mut self.engine, &self.blobs, &preparing) {
            Ok(module) => module,
            Err(NoModule::Refused(why)) => return Ok(Outcome::of(End::Refused(why))),
            Err(NoModule::Broken(why)) => return Err(why),
        };
        let mut given = Vec::with_capacity(files.len());
        for file in files {
            given.push(File { data: self.blobs.data(file.data)?, path: file.path });
        }
        let stdin = self.blobs.data(stdin)?;
        let task = Task { arguments, environment, stdin, files: given, limits, seed };
        let outcome = run_task(&mut self.engine, module, &task);
        match self.engine.take_broken() {
            Some(why) => Err(why),
            None => Ok(outcome),
        }
    }
}
