//! Whom a node does what for, and when.

pub mod policy;
