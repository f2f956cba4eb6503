//! Finders: protocols that answer which nodes could run something.
//!
//! A finder takes a [`Query`](crate::finding::Query) and answers with a [`Found`](crate::finding::Found), at once or after asking others.
//! Slots that it finds are reserved for the asker for a short time. [`cheapest`] buys instead: it takes a
//! [`Purchase`](crate::finding::Purchase) and answers with [`Bought`](crate::finding::Bought). Owners know nothing of how a finder works. A job says
//! whether it buys ([`crate::work::spec::Find`]); a node's configuration says which finder is asked otherwise.

pub mod cheapest;
pub mod connected;
pub mod fitting;
pub mod nearest;
pub mod random;
