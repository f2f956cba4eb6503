//! The Manyhands node, pure: no I/O, no clock, no threads.
//!
//! A driver owns a [`Node`] and feeds it one [`NodeInput`] at a time through [`Node::drive`];
//! the node answers through the driver's [`Host`].

//!
//! | module | what it knows |
//! |---|---|
//! | [`protocol`] | the kernel: inputs, effects, timers, randomness |
//! | [`overlay`] | who knows whom |
//! | [`discovery`] | who could run something |
//! | [`work`] | jobs and units: client, owner, runner |
//! | [`checkpoint`] | where snapshots of running units live |
//! | [`market`] | what idle capacity costs |
//! | [`ledger`] | who has how many credits |
//! | `records` | signed records on the ring: names, and who keeps what |
//! | `files` | files that others keep |
//! | [`store`] | content-addressed blobs |
//! | [`trust`] | whom a node does what for, and when |
//! | [`wire`] | the envelope of every message |
//! | [`node`] | all of them together |

pub mod checkpoint;
pub mod discovery;
#[cfg(feature = "roles")]
pub mod files;
pub mod ids;
pub mod keys;
pub mod ledger;
pub mod market;
pub mod node;
pub mod overlay;
pub mod protocol;
#[cfg(feature = "roles")]
pub mod records;
pub mod store;
pub mod time;
pub mod trust;
pub mod wire;
pub mod work;

pub use ids::{BlobId, JobId, NodeId, UnitId};
pub use node::Node;
pub use node::config::{Config, Platform};
pub use node::host::{
    Channel, Command, EngineReply, EngineRequest, EngineTask, Host, NoSnapshot, NodeEvent, NodeInput, RunId,
    SealKey, SnapshotRef, StorageReply, StorageRequest, Table, Taken, Token, Write,
};
pub use time::Time;
