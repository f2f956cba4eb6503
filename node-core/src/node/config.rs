//! What a driver decides about its node before it starts.

use crate::ids::NodeId;
use crate::keys::Secret;
use crate::market::MarketConfig;
use crate::overlay::contact::Ip;
use crate::overlay::elsewhere::Web;
#[cfg(feature = "roles")]
use crate::{
    discovery::nearest::NearestConfig, files::FilesConfig, ledger::books::Rules, overlay::ring::RingConfig,
    overlay::tree::TreeConfig, records::RecordsConfig,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Guests of a gateway, in its introduction, in its branch of the tree and in what it sells for others.
pub const GUESTS: usize = 4_096;

/// What kind of process a node lives in; for people and for finders' needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Platform {
    Native,
    Browser,
}

#[derive(Clone, Debug)]
pub struct Config {
    /// Shown beside the node's id, at most 64 bytes.
    pub name: String,
    pub platform: Platform,
    /// Owns jobs: keeps their records and answers for them.
    pub gateway: bool,
    /// Where this node listens, TCP; none if it only dials. Others count on it once a peer has
    /// dialled it back ([`crate::overlay::dialback`]).
    pub port: Option<u16>,
    /// It listens on this machine's own address, so nobody else can dial it.
    pub loopback_only: bool,
    /// Of a gateway that founds a swarm: an own address, at which it begins the overlays alone.
    pub first_ip: Option<Ip>,
    /// Slots given at the start.
    pub slots: u32,
    /// Speed of a slot, in millions of instructions a second; faster nodes are found first.
    pub power: u32,
    /// Memory that one unit may have, bytes; units that ask for more go elsewhere.
    pub memory_bytes: u64,
    /// A gateway's: where pages connect to it.
    pub web: Option<Web>,
    /// A gateway's: it begins the swarm, and with it tree and ring. False: it takes its place in those of
    /// the peers that it joins, as other nodes do.
    pub founds: bool,
    /// Settings of the swarm that this node takes from the first peer that knows them.
    pub open: Open,
    /// A gateway's: who joins has to show this word.
    pub invite: Option<String>,
    /// A joining node's: the word it shows.
    pub invited_with: Option<String>,
    /// A gateway's: nodes that may submit jobs to it over the wire, beside itself. The API asks for its
    /// token instead. Empty by default: strangers join a swarm.
    pub submitters: BTreeSet<NodeId>,
    pub limits: Bounds,
    pub timing: Timing,
    /// The shape of the tree: the same on all nodes of a swarm.
    #[cfg(feature = "roles")]
    pub tree: Arc<TreeConfig>,
    #[cfg(feature = "roles")]
    pub nearest: Arc<NearestConfig>,
    /// The ring beside the tree: the same on all nodes of a swarm. None for swarms without one.
    #[cfg(feature = "roles")]
    pub ring: Option<Arc<RingConfig>>,
    /// Markets on that ring, or, of a node that nobody can dial, at its gateway; none without.
    pub market: Option<MarketPart>,
    /// Money; none in a swarm without.
    #[cfg(feature = "roles")]
    pub bank: Option<BankPart>,
    /// Names and other records on that ring; none without.
    #[cfg(feature = "roles")]
    pub records: Option<RecordsPart>,
    /// Files: this node's, kept by others, and others', kept here. None: neither.
    #[cfg(feature = "roles")]
    pub files: Option<Arc<FilesConfig>>,
}

/// Settings of the swarm that a node is not told at its start, and learns from its peers. Their values in
/// [`Config`] have no effect meanwhile: until all are known the node takes no part in tree, ring and
/// markets. The bank is learnt whenever [`BankPart`] does not name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    pub scheme: bool,
    pub pricing: bool,
    pub degree: bool,
}

/// What a node needs to have and spend credit.
#[cfg(feature = "roles")]
#[derive(Clone, Debug)]
pub struct BankPart {
    /// This node's key, with which it signs orders to the bank.
    pub secret: Secret,
    /// The node that the swarm trusts with its books. None: a peer will tell.
    pub bank: Option<NodeId>,
    /// This node is the bank, and keeps the books by these rules.
    pub rules: Option<Rules>,
}

/// What a node needs to publish, and to keep what others publish.
#[cfg(feature = "roles")]
#[derive(Clone, Debug)]
pub struct RecordsPart {
    pub config: Arc<RecordsConfig>,
    /// This node's key, with which it signs what it publishes.
    pub secret: Secret,
}

/// What a node needs to trade.
#[derive(Clone, Debug)]
pub struct MarketPart {
    /// Its rules are the same on all nodes of a swarm.
    pub config: Arc<MarketConfig>,
    /// This node's key, with which it signs what it sells.
    pub secret: Secret,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            name: String::new(),
            platform: Platform::Native,
            gateway: false,
            port: None,
            loopback_only: false,
            web: None,
            founds: true,
            open: Open::default(),
            first_ip: None,
            slots: 1,
            // Paper 000, section 6: the mean of its network. Nobody measures it yet.
            power: 2000,
            // Our choice: what a small server and a desktop browser can give to each slot.
            memory_bytes: 2 << 30,
            invite: None,
            invited_with: None,
            submitters: BTreeSet::new(),
            limits: Bounds::default(),
            timing: Timing::default(),
            #[cfg(feature = "roles")]
            tree: Arc::default(),
            #[cfg(feature = "roles")]
            // Nothing relays to guests yet, so their slots serve their host alone.
            nearest: Arc::new(NearestConfig { relays: false, ..NearestConfig::default() }),
            #[cfg(feature = "roles")]
            ring: None,
            market: None,
            #[cfg(feature = "roles")]
            bank: None,
            #[cfg(feature = "roles")]
            records: None,
            #[cfg(feature = "roles")]
            files: None,
        }
    }
}

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
    /// Of them, at a gateway, those that nobody can dial; one more is told of other gateways. Our choice:
    /// twice the 2,000 that are normal, and half of the peers are left for nodes that others can dial.
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
    /// Of them, for one owner. Our choice: a second owner finds room.
    pub kept_bytes_per_owner: u64,
    /// Units whose checkpoints a node keeps. Our choice: 2 MB of state, and a list of them fits
    /// half a frame.
    pub kept_units: usize,
    /// Bytes of snapshots of the node's own runs that outlive the node, so that its next life may
    /// go on from them. None by default: others keep them.
    pub left_bytes: u64,
    /// Units of other gateways' jobs that this node owns because the ring says so, ended ones that
    /// their home has not taken included. It has copies of four times as many. None by default: a
    /// driver whose swarm has a ring says how many.
    pub wards: usize,
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
            wards: 0,
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
    /// The same after the connection itself broke: time for one reconnection.
    pub grace: Duration,
    /// Between repetitions of a request that was not answered.
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
