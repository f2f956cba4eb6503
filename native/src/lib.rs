//! Manyhands for servers and command lines: all of the binary, so that `tests/hostile` can be one that lies.

mod api;
mod assemble;
mod assets;
mod cli;
mod config;
mod driver;
mod engine;
mod files;
mod guests;
mod identity;
mod market;
mod net;
mod paths;
mod policy;
mod private;
mod storage;
mod text;
mod token;

pub use driver::lies;

/// Runs the command that the process's arguments name.
pub fn main() -> std::process::ExitCode {
    cli::main()
}
