//! Programs that are suspended everywhere, moved, and come to the same end.

mod driver;
mod exact;
mod random;
mod refusals;
mod stories;
