//! Settings of a node that its driver decides before the node starts.

use crate::address::Ip;
use crate::bounds::Bounds;
use crate::bounds::Timing;
use crate::elsewhere::Web;
use crate::ids::NodeId;
use crate::keys::Secret;
use crate::market::MarketConfig;
use crate::platform::Platform;
use crate::requires::{Binding, Matchmaking, Properties};
use crate::ticket::ServiceId;
use crate::work::KeeperConfig;
use crate::work::{OwnerConfig, RunnerConfig};
use crate::{
    discovery::nearest::NearestConfig, files::FilesConfig, ledger::books::Rules, overlay::ring::RingConfig,
    overlay::tree::TreeConfig, records::RecordsConfig,
};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Config {
    /// Shown beside the node's id, at most 64 bytes.
    pub name: String,
    pub platform: Platform,
    /// Takes in pages and nodes that nobody can dial, and owns jobs.
    pub gateway: bool,
    /// Owns the jobs that its own user submits, as a gateway does: keeps their records and answers for them.
    pub submits: bool,
    /// Where this node listens, TCP; none if it only dials. Others count on it once a peer has
    /// dialled it back ([`crate::overlay::dialback`]).
    pub port: Option<u16>,
    /// It listens on this machine's own address, so nobody else can dial it.
    pub loopback_only: bool,
    /// At a gateway that founds a swarm: its own address, at which it begins the overlays alone.
    pub first_ip: Option<Ip>,
    /// Slots given at the start.
    pub slots: u32,
    /// Speed of a slot, in millions of instructions a second; faster nodes are found first.
    pub power: u32,
    /// Memory that one unit may have, bytes; units that ask for more go elsewhere.
    pub memory_bytes: u64,
    /// Space on disk, system, processor and labels, as jobs may require them.
    pub properties: Arc<Properties>,
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
    /// A gateway's: nodes that may submit jobs to it over the wire, beside itself, and the weight of each. The
    /// API asks for its token instead. Empty by default: strangers join a swarm.
    pub submitters: BTreeMap<NodeId, u16>,
    pub limits: Arc<Bounds>,
    pub timing: Arc<Timing>,
    /// The shape of the tree: the same on all nodes of a swarm.
    pub tree: Arc<TreeConfig>,
    pub nearest: Arc<NearestConfig>,
    /// The finder that is asked for what the nodes at hand do not have. Its service has to be in the node's
    /// list.
    pub finder: ServiceId,
    /// The ring beside the tree: the same on all nodes of a swarm. None for swarms without one.
    pub ring: Option<Arc<RingConfig>>,
    /// Markets on that ring, or, of a node that nobody can dial, at its gateway; none without.
    pub market: Option<MarketPart>,
    /// Money; none in a swarm without.
    pub bank: Option<BankPart>,
    /// Names and other records on that ring; none without.
    pub records: Option<RecordsPart>,
    /// Key that the node signs with when it agrees with others on data channels. None: its driver has none.
    pub signalling: Option<Secret>,
    /// Its driver puts connections on circuits, by way of relays.
    pub circuits: bool,
    /// Bytes a second that it passes on for others at the start, if it is a relay of circuits; 0 until its donor gives
    /// some.
    pub relay_rate: Option<u64>,
    /// Way in which jobs with requirements find nodes: the same on all nodes of a swarm.
    pub matchmaking: Matchmaking,
    /// Nodes of a swarm have the same; no command sets it.
    pub binding: Binding,
    /// Files: this node's, kept by others, and others', kept here. None: neither.
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
    pub matchmaking: bool,
}

/// Key and settings that a node needs to have and spend credit.
#[derive(Clone, Debug)]
pub struct BankPart {
    /// This node's key, with which it signs orders to the bank.
    pub secret: Secret,
    /// The node that the swarm trusts with its books. None: a peer will tell.
    pub bank: Option<NodeId>,
    /// This node is the bank, and keeps the books by these rules.
    pub rules: Option<Rules>,
}

/// Key and settings that a node needs to publish records, and to keep those of others.
#[derive(Clone, Debug)]
pub struct RecordsPart {
    pub config: Arc<RecordsConfig>,
    /// This node's key, with which it signs what it publishes.
    pub secret: Secret,
}

/// Key and settings that a node needs to trade.
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
            submits: false,
            port: None,
            loopback_only: false,
            web: None,
            founds: true,
            open: Open::default(),
            first_ip: None,
            slots: 1,
            // Paper `tree`, section 6: the mean of its network. Nobody measures it yet.
            power: 2000,
            // Our choice: what a small server and a desktop browser can give to each slot.
            memory_bytes: 2 << 30,
            properties: Arc::default(),
            invite: None,
            invited_with: None,
            submitters: BTreeMap::new(),
            limits: Arc::default(),
            timing: Arc::default(),
            tree: Arc::default(),
            // Without data channels and circuits a guest's slots serve its gateway alone.
            nearest: Arc::new(NearestConfig { relays: false, ..NearestConfig::default() }),
            // Paper `tree`: O(log N) messages a request.
            finder: ServiceId::Nearest,
            ring: None,
            market: None,
            bank: None,
            records: None,
            signalling: None,
            circuits: false,
            relay_rate: None,
            matchmaking: Matchmaking::None,
            binding: Binding::Pull,
            files: None,
        }
    }
}

impl Config {
    /// The bounds, to be changed before the node starts.
    pub fn limits_mut(&mut self) -> &mut Bounds {
        Arc::make_mut(&mut self.limits)
    }

    /// Whether jobs with requirements find nodes, or may when its peers have told.
    pub fn may_match(&self) -> bool {
        self.open.matchmaking || self.matchmaking != Matchmaking::None
    }

    /// Whether they find nodes in this way, or may.
    pub fn may_match_by(&self, way: Matchmaking) -> bool {
        self.ring.is_some() && (self.open.matchmaking || self.matchmaking == way)
    }

    pub fn owns_jobs(&self) -> bool {
        self.gateway || self.submits
    }

    /// The part of the owner of jobs.
    pub fn owner(&self) -> OwnerConfig {
        OwnerConfig {
            owns_jobs: self.owns_jobs(),
            pins: !self.gateway,
            submitters: self.submitters.clone(),
            limits: self.limits.clone(),
            timing: self.timing.clone(),
        }
    }

    /// The part of the runner.
    pub fn runner(&self) -> RunnerConfig {
        let bank = self.bank.as_ref().and_then(|part| part.bank);
        RunnerConfig {
            slots: self.slots,
            memory_bytes: self.memory_bytes,
            runs_threads: self.platform == Platform::Native,
            bank,
            limits: self.limits.clone(),
            timing: self.timing.clone(),
        }
    }

    /// The part of the keeper of checkpoints.
    pub fn keeper(&self) -> KeeperConfig {
        KeeperConfig { limits: self.limits.clone() }
    }
}
