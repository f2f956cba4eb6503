//! Manyhands for servers and command lines.

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

fn main() -> std::process::ExitCode {
    cli::main()
}
