//! Rules of whom a node works for, and when.

pub mod policy;
