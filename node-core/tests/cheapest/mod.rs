//! Stories of jobs that buy their places: whole nodes, markets and a bank.

mod alone;
mod full;
mod gateways;
mod guests;
mod keepers;
mod lies;
mod losses;
mod restart;
mod stories;
pub(crate) mod support;
mod tab;
mod young;
