//! Decisions of the driver of a browser node, in plain Rust.
//!
//! The crate knows neither JavaScript nor libp2p, so that all of it is tested in
//! milliseconds on any machine; `web/node` connects it to Workers, sockets and the page.
//!
//! - [`pool`]: which Worker runs which task, and what happens when one does not come back.
//! - [`storage`]: blobs and rows in memory, bounded, and what of them outlives the page.
//! - [`channels`]: words of data channels, to and from what nodes signal.
//! - [`address`]: where the gateway of a page can be reached, and when to try again.
//! - [`jobs`]: what the page's person submits, and what comes of it.
//! - [`join`]: the way there, and back.
//! - [`policy`]: what the donor shares, when and how much.
//! - [`slot`]: what the node's Worker and a slot's Worker say to each other.
//! - [`speed`]: how fast a slot is, for who sells it.
//! - [`status`]: what the page is told, and how often.

pub mod address;
pub mod channels;
pub mod jobs;
pub mod join;
pub mod policy;
pub mod pool;
pub mod slot;
pub mod speed;
pub mod status;
pub mod storage;
