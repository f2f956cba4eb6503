//! Stories of the command line: the real binary, real processes, loopback, folders of their own.

mod bad_input;
mod crowds;
mod doors;
mod earlier;
mod files;
mod gateways;
mod guests;
mod mapping;
mod markets;
mod moving;
mod other_languages;
mod owners;
mod paid_files;
mod policies;
mod requirements;
mod running;
mod secrets;
mod submitting;
mod threads;
mod world;

/// The binary that the stories run.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_manyhands");
