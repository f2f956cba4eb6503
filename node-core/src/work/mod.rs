//! Jobs and units: who asks ([`client`]), who answers for them ([`owner`]), who runs them
//! ([`runner`]), who keeps their checkpoints (`keeper`).

pub mod book;
mod bounds;
pub mod client;
pub mod computer;
mod config;
pub mod delegated;
pub mod delegation;
pub mod keeper;
pub mod message;
pub mod owner;
pub mod payments;
pub mod proof;
mod rows;
pub mod runner;
pub mod spec;
pub mod submission;
pub mod unit_record;
pub mod view;
mod weight;

pub use config::{KeeperConfig, OwnerConfig, RunnerConfig};

use std::time::Duration;

/// Units up to this length may queue behind others. Our choice: several round trips to a far peer, so
/// that waiting for the wire costs longer units little, and half of what a person notices.
const SHORT: Duration = Duration::from_millis(500);
