//! The command line.
//!
//! The typed arguments ([`args`]) become a plan (a [`plan::JobPlan`], a [`crate::config::UpConfig`]), and
//! only then a command runs. Commands reach a swarm through its HTTP API alone ([`client`]), also when that
//! swarm lives inside this very process ([`embedded`]); so there is one way in, and it is the one that
//! everybody else has.

mod admission;
mod args;
#[cfg(test)]
mod at_random;
mod beacon;
mod bench;
mod client;
mod demo;
mod embedded;
pub(crate) mod failure;
mod files;
mod files_args;
mod in_process;
mod instrument;
mod interrupt;
mod job_file;
mod job_settings;
pub(crate) mod join;
mod lists;
mod local_threads;
mod map;
mod market;
mod moving;
mod open_files;
mod outputs;
mod plan;
mod policy;
mod policy_args;
mod processes;
mod progress;
mod quantity;
pub(crate) mod requirements;
mod run;
mod settings;
mod stderr_end;
pub(crate) mod strict_toml;
mod submit;
mod suspended;
mod swarm;
mod table;
mod task_file;
mod task_path;
mod threads;
mod threads_setting;
mod token;
mod up;
mod waiting;
mod wallet;
mod words;

use crate::paths::DataFolder;
use args::{Cli, Command};
use clap::CommandFactory;
use failure::Failure;
use std::io::Write;
use std::process::ExitCode;

pub(crate) fn main() -> ExitCode {
    let cli = Cli::from_words(std::env::args_os());
    if let Command::EngineSlot = cli.command {
        return crate::engine::slot::main();
    }
    match run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            interrupt::first();
            if !failure.message.is_empty() {
                progress::say(&failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

fn run(cli: Cli) -> Result<u8, Failure> {
    let folder = || DataFolder::choose(cli.data.clone()).map_err(Failure::usage);
    log_to_stderr(if matches!(cli.command, Command::Up(_)) { "warn,manyhands=info" } else { "warn" });
    match cli.command {
        // It left already.
        Command::EngineSlot => Ok(failure::DONE),
        Command::Up(args) => up::run(*args, cli.data),
        Command::Run(args) => run::run(*args, &folder()?),
        Command::Map(args) => map::run(*args, &folder()?),
        Command::Instrument(args) => instrument::run(&args),
        Command::Submit(args) => submit::submit(args, &folder()?),
        Command::Jobs(args) => lists::jobs(args, &folder()?),
        Command::Job(args) => lists::job(args, &folder()?),
        Command::Results(args) => submit::results(args, &folder()?),
        Command::Cancel(args) => lists::cancel(args, &folder()?),
        Command::Unit(args) => moving::unit(&args, &folder()?),
        Command::Threads(args) => threads::threads(&args, &folder()?),
        Command::Watch(args) => threads::watch(&args, &folder()?),
        Command::Migrate(args) => moving::migrate(&args, &folder()?),
        Command::Pause(args) => moving::pause(&args, true, &folder()?),
        Command::Resume(args) => moving::pause(&args, false, &folder()?),
        Command::Drain => moving::drain(&folder()?),
        Command::Wallet(args) => wallet::wallet(&args, &folder()?),
        Command::Market(args) => market::market(&args, &folder()?),
        Command::Policy(args) => policy::run(&args, &folder()?),
        Command::Token(args) => token::run(&args, &folder()?),
        Command::Files(args) => files::run(&args, &folder()?),
        Command::Nodes(args) => lists::nodes(args, &folder()?),
        Command::Demo(args) => demo::run(args),
        Command::Bench(args) => bench::run(&args.what),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "manyhands", &mut script);
            run::print(&script)?;
            Ok(failure::DONE)
        }
    }
}

/// Log lines of this process, on standard error. `MANYHANDS_LOG` chooses in tracing's way,
/// as in `MANYHANDS_LOG=debug` or `info,libp2p_tcp=trace`.
fn log_to_stderr(usual: &str) {
    let asked = std::env::var("MANYHANDS_LOG").unwrap_or_default();
    let wanted = if asked.is_empty() { usual } else { &asked };
    let filter = tracing_subscriber::EnvFilter::try_new(wanted).unwrap_or_else(|e| {
        progress::say(&format!("MANYHANDS_LOG={wanted}: {e}; using {usual}"));
        tracing_subscriber::EnvFilter::new(usual)
    });
    let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour);
    // A second logger in one process would be a bug of ours that costs a log, not a job.
    let _ = lines.with_writer(|| AroundProgress).try_init();
}

/// Standard error, off the progress bar.
struct AroundProgress;

impl Write for AroundProgress {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        progress::around(|| std::io::stderr().write_all(&crate::text::readable_log(buf)))?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
