//! Stories of nodes in one space, on bare machines: a net with latency, and a ring that always knows who is there.

mod churn;
mod forged;
mod net;
mod search;

use super::*;
