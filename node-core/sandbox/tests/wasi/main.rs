//! A task's view of its world, call by call.

mod files;
mod hostile;
mod moving;
mod paths;
mod streams;
mod support;
mod threads;
mod world;
