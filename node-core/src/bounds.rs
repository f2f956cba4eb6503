//! How much a node keeps and accepts, and how long it waits.

use std::time::Duration;

/// Guests of a gateway, in its introduction, in its branch of the tree and in what it sells for others.
pub const GUESTS: usize = 4_096;

/// How much a node keeps and accepts. What does not fit is refused with a reason.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Jobs that an owner keeps, finished ones included. Our choice: a year of one an hour.
    pub jobs: usize,
    /// Bytes of memory that all jobs of an owner take, finished ones included: their descriptions, and what
    /// is known of each unit. Our choice: 20 of the largest jobs, on a machine
    /// of 1 GiB.
    pub jobs_bytes: u64,
    /// Units in one job. Our choice: 24 MB of state.
    pub units_per_job: u32,
    /// Connected peers. Our choice: what one gateway process serves at 10 KB a peer.
    pub peers: usize,
    /// Guests among the peers of a gateway; one more is told of other gateways. Our choice: twice the 2,000
    /// that are normal, and half of the peers are left for nodes that others can dial.
    pub guests: usize,
    /// Bytes of one blob. Our choice: larger than any module seen in the wild.
    pub blob_bytes: u64,
    /// Bytes of blobs kept on a node that owns no jobs, beyond those in use. Our choice: a few
    /// large programs and their inputs.
    pub cache_bytes: u64,
    /// Bytes of content that units held here may need, all together: their programs and inputs, and the
    /// checkpoints that they go on from. Our choice: as much as others' checkpoints may take.
    pub content_bytes: u64,
    /// Units that a runner holds. Our choice: a quarter second of the shortest tasks.
    pub held_units: u32,
    /// Bytes of others' checkpoints that a node keeps. Our choice: what nobody misses on a disk
    /// of today; 64 tasks of the usual memory limit, uncompressed.
    pub kept_bytes: u64,
    /// Bytes of one owner's checkpoints, within `kept_bytes`. Our choice: a second owner finds room.
    pub kept_bytes_per_owner: u64,
    /// Units of others whose checkpoints a node keeps; its own come on top, as many again. Our choice: 2 MB of
    /// state, and a list of them fits half a frame.
    pub kept_units: usize,
    /// Bytes of snapshots of the node's own runs that outlive the node, so that its next life may
    /// go on from them. None by default: others keep them.
    pub left_bytes: u64,
    /// Units of other gateways' jobs that this node owns because the ring says so, ended ones that
    /// their origin has not taken included. It has copies of four times as many. None by default: a
    /// driver whose swarm has a ring says how many.
    pub delegated_units: usize,
    /// Steps, each an input of one machine, that one call of `Node::drive` takes; the rest waits
    /// (`node/budget`).
    pub steps: u32,
    /// More steps than that are a panic that shows them: for tests. A node in the field goes on.
    pub overrun_panics: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            jobs: 10_000,
            jobs_bytes: 512 << 20,
            units_per_job: 1_000_000,
            peers: 10_000,
            guests: GUESTS,
            blob_bytes: 1 << 30,
            cache_bytes: 2 << 30,
            content_bytes: 16 << 30,
            held_units: 2_048,
            kept_bytes: 16 << 30,
            kept_bytes_per_owner: 12 << 30,
            kept_units: 10_000,
            left_bytes: 0,
            delegated_units: 0,
            // Our choice, not measured: meant to be far above any burst of a correct node.
            steps: 100_000,
            overrun_panics: false,
        }
    }
}

/// How long a node waits for what.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Between a runner's heartbeats to an owner that it works for.
    pub heartbeat: Duration,
    /// Silence after which a lease is lost. Three heartbeats and a little: one may be lost,
    /// one late, and dead peers are still noticed within 10 s.
    pub lease: Duration,
    /// Silence after which a lease is lost once the connection itself broke: time for one reconnection.
    pub grace: Duration,
    /// Between repetitions of a request that was not answered. Our choice: longer than any round trip with a write.
    pub retry: Duration,
    /// For suspending and handing on what runs, once a node is to go away. Half of what service
    /// managers give a process (10 s), and a task of 64 MiB is suspended and sent in one.
    pub drain: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            heartbeat: Duration::from_secs(2),
            lease: Duration::from_secs(7),
            grace: Duration::from_secs(2),
            retry: Duration::from_secs(3),
            drain: Duration::from_secs(5),
        }
    }
}
