//! Who could run something: the question that every finder answers.
//!
//! A finder takes a [`Query`](crate::finding::Query) and answers with a [`Found`](crate::finding::Found), at once or after asking others.
//! What it finds is reserved for the asker until the units arrive. Owners know nothing of how
//! a finder works, so a job chooses one by a word ([`crate::work::spec::Find`]).

#[cfg(feature = "roles")]
pub mod cheapest;
pub mod connected;
#[cfg(feature = "roles")]
pub mod nearest;
