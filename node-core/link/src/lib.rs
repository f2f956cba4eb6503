//! Connections between nodes, the same natively and in a browser.
//!
//! libp2p gives authenticated, multiplexed connections; this crate makes of them what the core
//! wants: two ordered channels of frames to each connected peer. It knows nothing of what the
//! frames say and spawns nothing itself.
//!
//! A driver brings a transport (TCP and WebSocket natively, the browser's WebSocket there; [`Pipes`] for streams that it
//! opened itself):
//! ```ignore
//! let (link, mut events, mut runner) = link::start(&key, transport, executor, LinkOptions::default());
//! runner.listen(&address)?;                   // native only; a port in use fails here
//! spawn(runner.run());                        // polls everything
//! link.join(vec![gateway])?;                  // dials now and whenever the connection is lost
//! while let Some(event) = events.next().await {
//!     // feed the node; answer with link.send(peer, channel, bytes)
//! }
//! ```
//!
//! Invariants:
//! - Between [`LinkEvent::Connected`] and [`LinkEvent::Disconnected`] nothing is lost, repeated
//!   or reordered within a channel. When a frame may be lost, the peer is disconnected; only content is
//!   dropped instead, when the peer has asked for more than it reads, and is asked for again.
//! - [`Link::send`] reaches the session that the driver last heard of: a session begins and
//!   ends for the sender when the driver takes its event, not before.
//! - A peer has one session, however many connections it opens, and both ends see the same ones.
//! - Every queue is bounded: towards a peer in bytes (a peer that reads too slowly is
//!   disconnected), towards all peers in bytes ([`LinkOptions::waiting_bytes`]), towards the driver in bytes
//!   (then nothing more is read from anybody).
//! - A silent peer is disconnected after [`LinkOptions::silence`], whatever TCP thinks.

mod admission;
mod behaviour;
mod block;
mod circuits;
mod clock;
mod events;
mod frame;
mod handler;
mod ids;
mod join;
mod memory;
mod muxer;
mod pipes;
mod queue;
mod received;
mod runner;
mod sessions;
mod start;
pub mod trial;
mod words;

pub use block::AddressBlock;
pub use circuits::{Circuits, ToNode};
pub use events::{Events, LinkEvent};
pub use ids::{NotANode, node_id, peer_id};
pub use pipes::{NotPiped, Pipe, Pipes, Piping, is_pipe, is_relayed, pipes};
pub use received::{Flooded, Received};
pub use runner::{Link, LinkBusy, ListenError, Runner};
pub use start::{StartError, start};

use std::time::Duration;

/// The protocols a node speaks. The number rises when old and new cannot understand each other.
pub const CONTROL_PROTOCOL: &str = "/manyhands/control/1";
pub const BLOB_PROTOCOL: &str = "/manyhands/blob/1";

/// How a node's links behave.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// Sent to peers by identify; for people.
    pub agent: String,
    /// A connection that carried nothing for this long carries an empty frame.
    pub heartbeat: Duration,
    /// Heartbeats in a row that may be missing. One more means that the peer is dead.
    pub missed_heartbeats: u32,
    /// Heartbeats in a row without a word after which the driver is told [`LinkEvent::Quiet`].
    pub quiet_heartbeats: u32,
    /// How long a peer may take nothing of what waits for it, and how long it may take for one frame.
    pub patience: Duration,
    /// Bytes that may wait for one peer, both channels together.
    pub send_queue_bytes: usize,
    /// Bytes that may wait for all peers, and of frames that came in part; half of it at one
    /// [`AddressBlock`]. Beyond it content is dropped, and connections with more than 64 KiB end.
    pub waiting_bytes: usize,
    /// Bytes of received frames that may wait for the driver, all peers together.
    pub receive_queue_bytes: usize,
    /// Connections at a time, all peers together.
    pub connections: u32,
    /// Connections whose handshake is under way, each direction.
    pub handshakes: u32,
    /// Handshakes under way of one [`AddressBlock`].
    pub handshakes_per_block: u32,
    /// Incoming connections that stand of one [`AddressBlock`].
    pub connections_per_block: u32,
    /// New connections a second from one [`AddressBlock`].
    pub arrivals_per_block: u32,
    /// Time to connect: transport, handshake and streams.
    pub connect_timeout: Duration,
    /// First pause before [`Link::join`] dials again; doubles up to `redial_max`, ± a quarter.
    pub redial_min: Duration,
    pub redial_max: Duration,
}

impl Default for LinkOptions {
    fn default() -> Self {
        LinkOptions {
            agent: concat!("manyhands/", env!("CARGO_PKG_VERSION")).into(),
            // Our choice: a dead peer is noticed 7.5 to 8.75 s after its last word, so within 10 s; a network that fails
            // for 5 s breaks nothing.
            heartbeat: Duration::from_millis(1_250),
            missed_heartbeats: 5,
            // Our choice: 3.75 to 5 s after its last word a guest turns to its second gateway. Two are missed by who had
            // just spoken and then is a little late.
            quiet_heartbeats: 3,
            // Our choice: what the API gives those that read slowly. The largest frame in that time is 35 KB/s.
            patience: Duration::from_secs(30),
            // Our choice: 64 of the largest frames; a minute of a slow uplink.
            send_queue_bytes: 64 << 20,
            // Our choice: a quarter of a machine of 1 GiB; 256 correct peers with all that they have asked for.
            waiting_bytes: 256 << 20,
            // Our choice: keeps a busy driver busy, and a flood small.
            receive_queue_bytes: 32 << 20,
            // Our choice: the core's bound on peers and some to spare.
            connections: 12_000,
            // Our choice: a handshake takes 1 ms of CPU; more at once would only time out.
            handshakes: 512,
            // Our choice: a quarter, so that one address that finishes none leaves room for others. It is what a
            // gateway takes on in an eighth of a second: a crowd of guests behind one router passes through.
            handshakes_per_block: 128,
            // Our choice: half, and more than the 4,096 guests of a gateway, which may all be behind one router.
            connections_per_block: 6_000,
            // Our choice: a fifth of a processor for handshakes; all 4,096 guests behind one router are back in 20 s.
            arrivals_per_block: 200,
            connect_timeout: Duration::from_secs(10),
            redial_min: Duration::from_millis(500),
            // Our choice: with a quarter more 7.5 s, so that everybody is back within 10 s of a gateway's start. A
            // thousand nodes then dial 170 times a second, a sixth of a processor, until they are.
            redial_max: Duration::from_secs(6),
        }
    }
}

impl LinkOptions {
    /// The longest silence before a peer is disconnected.
    pub fn silence(&self) -> Duration {
        self.heartbeat * (self.missed_heartbeats + 1)
    }
}
