//! Links between nodes over real TCP and WebSocket on the loopback.

// These run natively, where the clock is no trap.
#![allow(clippy::disallowed_types)]

mod circuits;
mod crowds;
mod exchange;
mod faults;
mod pipes;
mod probes;
mod sessions;
mod silence;
mod slow;
mod support;
