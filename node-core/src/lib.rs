//! The Manyhands node, pure: no I/O, no clock, no threads.
//!
//! A driver owns a [`Node`] and feeds it one [`NodeInput`] at a time through [`Node::drive`];
//! the node answers through the driver's [`Host`].

//!
//! | module | what it knows |
//! |---|---|
//! | [`protocol`] | the kernel: inputs, effects, timers, randomness |
//! | [`ids`], [`time`], [`keys`], [`address`], [`platform`] | names, times, signatures, where a node is |
//! | [`channel`], [`disk`], [`engine`], [`content`], [`wire`] | what a driver carries, keeps and runs |
//! | [`finding`], [`goods`], [`money`], [`budget`], [`contract`] | what is asked for, sold and ordered |
//! | [`peers`], [`elsewhere`] | who is connected, and other gateways |
//! | [`backoff`] | how soon something that failed is tried again |
//! | [`under_way`] | questions that a machine asked, and what their answers are for |
//! | [`circle`], [`replicas`], [`placement`], `record`, [`progress`], [`bounds`], [`trust`] | places in overlays, what is copied there, records, checkpoints, bounds, policy |
//! | [`overlay`] | who knows whom |
//! | [`discovery`] | who could run something |
//! | [`work`] | jobs and units: client, owner, runner, keeper |
//! | [`market`] | what idle capacity costs |
//! | [`ledger`] | who has how many credits |
//! | `records` | signed records on the ring: names, and who keeps what |
//! | `files` | files that others keep |
//! | [`store`] | content-addressed blobs |
//! | [`node`] | all of them together |
//!
//! Modules without a machine (an `impl Protocol`) are the *ground floor*: plain data that everybody may
//! import. Modules with machines import the ground floor and themselves; only [`node`] imports them.

pub mod address;
pub mod backoff;
pub mod bounds;
pub mod budget;
pub mod capability;
pub mod channel;
pub mod circle;
pub mod content;
pub mod contract;
pub mod discovery;
pub mod disk;
pub mod elsewhere;
pub mod engine;
pub mod files;
pub mod finding;
pub mod goods;
pub mod ids;
pub mod keys;
pub mod ledger;
pub mod market;
pub mod money;
pub mod node;
pub mod overlay;
pub mod peers;
pub mod placement;
pub mod platform;
pub mod progress;
pub mod protocol;
mod rates;
pub mod record;
pub mod records;
pub mod replicas;
pub mod requires;
pub mod store;
pub mod ticket;
pub mod time;
pub mod trust;
pub mod under_way;
pub mod wire;
pub mod work;

pub use channel::{Carrier, Channel};
pub use disk::{StorageReply, StorageRequest, Table, Token, Write};
pub use engine::{EngineReply, EngineRequest, EngineTask, NoSnapshot, RunId, SealKey, SnapshotRef, Taken};
pub use ids::{BlobId, JobId, NodeId, UnitId};
pub use node::Node;
pub use node::config::Config;
pub use node::host::{Command, Host, NodeEvent, NodeInput};
pub use node::message::Message;
pub use platform::Platform;
pub use time::Time;
