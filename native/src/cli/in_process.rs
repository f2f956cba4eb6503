//! A job's one unit with all its content, for commands that run it in this process.

use super::failure::{DONE, FAILED, Failure};
use super::outputs;
use super::plan::JobPlan;
use super::progress::say;
use super::run::print;
use sandbox::{End, File, Limits, NotStarted, Outcome, Task};
use std::io::Write;
use std::path::Path;

/// The program, and the task that it is run as.
pub(super) fn task(plan: &JobPlan) -> Result<(Vec<u8>, Task), Failure> {
    let program = plan.program.read()?;
    let mut limits = Limits::default();
    if let Some(memory) = plan.settings.memory_limit {
        limits.memory_bytes = memory.0;
    }
    if let Some(output) = plan.settings.output_limit {
        limits.output_bytes = output.0;
    }
    if let Some(fuel) = plan.settings.fuel_limit {
        limits.fuel = fuel;
    }
    let mut files = Vec::new();
    for (path, content) in &plan.files {
        files.push(File { path: path.clone(), data: content.read()?.into() });
    }
    let stdin = plan.stdin.as_ref().map(|stdin| stdin.read()).transpose()?.unwrap_or_default();
    let task = Task {
        arguments: plan.arguments.clone(),
        environment: plan.environment.clone().into_iter().collect(),
        stdin: stdin.into(),
        files,
        limits,
        seed: 0,
        thread: None,
    };
    Ok((program, task))
}

/// Hands out what the program wrote; files go to `out_dir`.
pub(super) fn hand_out(outcome: &Outcome, out_dir: Option<&Path>) -> Result<(), Failure> {
    print(&outcome.stdout)?;
    std::io::stderr().write_all(&outcome.stderr).map_err(|e| Failure::output(&e))?;
    out_dir.map_or(Ok(()), |dir| outputs::local_files(&outcome.files, dir))
}

/// The program's exit code; an end without one is told.
pub(super) fn exit_code(end: &End) -> u32 {
    match end {
        End::Exited(0) => DONE.into(),
        End::Exited(code) => *code,
        end => {
            say(&end.to_string());
            FAILED.into()
        }
    }
}

pub(super) fn not_started(why: NotStarted) -> Failure {
    match why {
        NotStarted::Refused(why) | NotStarted::Snapshot(why) | NotStarted::Broken(why) => {
            Failure::failed(why)
        }
        NotStarted::Halt(halt) => Failure::failed(End::from(halt)),
    }
}
