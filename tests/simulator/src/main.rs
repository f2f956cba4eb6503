//! The simulator's program: what the library must not touch, files, threads and the clock.

fn main() {}
