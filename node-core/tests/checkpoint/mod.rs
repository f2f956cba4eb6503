//! Stories of checkpoints: units that outlive their runners, keepers and owners, and move.

mod hostile;
mod lending;
mod losses;
mod moving;
mod pages;
mod precopy;
mod returning;
mod room;
mod strangers;
mod support;
mod swarm;
