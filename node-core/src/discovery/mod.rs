//! Finders: protocols that answer which nodes could run something.
//!
//! A finder takes a [`Query`](crate::finding::Query) and answers with a [`Found`](crate::finding::Found), at once or after asking others.
//! Slots that a finder finds are reserved for the asker until the units arrive. Owners know nothing of how a
//! finder works, so a job chooses one by a word ([`crate::work::spec::Find`]).

pub mod cheapest;
pub mod connected;
pub mod nearest;
pub mod random;
