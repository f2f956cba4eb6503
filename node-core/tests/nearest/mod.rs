//! Discovery on a tree that stands: stories, faults, and figures.

mod faults;
mod measure;
mod net;
mod stories;
