//! Jobs and units: who asks ([`client`]), who answers for them ([`owner`]), who runs them
//! ([`runner`]).

pub mod client;
pub mod message;
pub mod owner;
pub mod runner;
pub mod spec;
pub mod ward;
