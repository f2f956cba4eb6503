//! Tasks that run in slices, are written down, and go on elsewhere.

mod engine;
mod hostile;
mod stories;
mod threads;
