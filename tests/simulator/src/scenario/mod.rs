//! Scenarios: what a run is about, as TOML.
//!
//! Unknown keys and absurd values are errors that name the line. All times end in their unit;
//! pairs are a range to draw from.

mod values;

pub use values::{Asked, Int, Range, Share, Time};

use crate::matchmaking::workload::Mix;
use crate::network::{Latency, Mischief, Network};
use crate::rng::Rng;
use node_core::discovery::nearest::Way;
use node_core::ticket::ServiceId;
use serde::Deserialize;
use std::ops::Range as Span;
use toml::Spanned;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// For people, printed above the table.
    pub about: String,
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    pub nodes: Int<1, 4_000_000>,
    #[serde(default)]
    pub network: NetworkPart,
    #[serde(default)]
    pub tree: TreePart,
    /// Nodes have all services of the product beside the tree: a place on the ring, markets, an account, records
    /// and files; the first of them is the bank. False: what the tree needs.
    #[serde(default)]
    pub whole: bool,
    /// Kinds of nodes; one kind with one slot each if none are given.
    #[serde(default)]
    pub population: Vec<Kind>,
    pub discovery: Option<Discovery>,
    pub traffic: Option<Traffic>,
    pub churn: Option<Churn>,
    pub guests: Option<GuestsPart>,
    pub ring: Option<RingPart>,
    pub market: Option<MarketPart>,
    pub matchmaking: Option<MatchmakingPart>,
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkPart {
    pub latency: LatencyPart,
    /// Bandwidth of each node's line; without it lines are wide.
    pub bandwidth_kbps: Option<Int<1, 100_000_000>>,
    pub mischief: Option<MischiefPart>,
    /// Time that a new connection takes before it carries anything, in latencies.
    pub dial_hops: Option<Int<0, 10>>,
    pub dial_timeout_s: Option<Range>,
    pub notice_s: Option<Range>,
    pub keepalive_s: Option<Range>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LatencyPart {
    ConstantMs(Time),
    UniformMs(Range),
    /// One row a region, from it to each.
    Regions {
        ms: Spanned<Vec<Vec<Time>>>,
        #[serde(default)]
        jitter_ms: Option<Time>,
    },
}

impl Default for LatencyPart {
    fn default() -> Self {
        LatencyPart::ConstantMs(Time(200.0))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MischiefPart {
    pub loss: Share,
    pub duplication: Share,
    pub reordering: Share,
    pub late_ms: Time,
    /// Protocols whose frames it befalls; all without it.
    pub of: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TreePart {
    pub m: Int<2, 64>,
    /// m without it.
    pub k: Option<Spanned<Int<1, 64>>>,
    pub joins_per_s: Int<1, 1_000_000>,
    pub order: Order,
}

impl Default for TreePart {
    fn default() -> Self {
        TreePart { m: Int(10), k: None, joins_per_s: Int(500), order: Order::Random }
    }
}

/// In which order of addresses nodes join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    Random,
    Ascending,
    Descending,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Share of all nodes; the shares are scaled to one.
    pub share: Share,
    #[serde(default = "one_slot")]
    pub slots: Int<0, 8192>,
    /// Speed of a slot; a range is drawn from for each node.
    pub mips: Option<Range>,
    #[serde(default)]
    pub browser: bool,
    /// Nobody can connect to it.
    #[serde(default)]
    pub hidden: bool,
    /// Bandwidth of its lines, where that is not everybody's.
    pub bandwidth_kbps: Option<Int<1, 100_000_000>>,
    /// Which row of the latencies.
    #[serde(default)]
    pub region: Int<0, 255>,
    /// How long it stays, and stays away; it is always there without.
    pub session: Option<Session>,
}

fn one_slot() -> Int<0, 8192> {
    Int(1)
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    pub median_min: Time,
    /// Shape of the Weibull distribution; below 1 many sessions are short and a few very long.
    #[serde(default)]
    pub shape: Option<Spanned<f64>>,
    /// Median of the time between two sessions.
    pub away_min: Time,
    /// How many of them end with a word.
    #[serde(default)]
    pub polite: Share,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WayName {
    Paper,
    Ours,
    /// Random walks, which ask no tree.
    Random,
}

impl WayName {
    pub fn name(self) -> &'static str {
        match self {
            WayName::Paper => "paper",
            WayName::Ours => "ours",
            WayName::Random => "random",
        }
    }

    /// How the finder in the tree is set.
    pub fn way(self) -> Way {
        match self {
            WayName::Paper => Way::Paper,
            WayName::Ours | WayName::Random => Way::Ours,
        }
    }

    pub fn finder(self) -> ServiceId {
        match self {
            WayName::Paper | WayName::Ours => ServiceId::Nearest,
            WayName::Random => ServiceId::Random,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discovery {
    pub ways: Vec<WayName>,
    /// Tasks of one request after the other; "all" for one a node.
    pub asked: Vec<Asked>,
    /// The line of whoever asks, if it is a better one than everybody's.
    pub origin_kbps: Option<Int<1, 100_000_000>>,
    /// Requests of each size, each from another node; the worst counts.
    #[serde(default = "one")]
    pub repeat: Int<1, 1000>,
    /// Between requests, so that every slot is free and known as such again.
    #[serde(default = "rest")]
    pub rest_s: Time,
}

fn one() -> Int<1, 1000> {
    Int(1)
}

fn rest() -> Time {
    Time(90.0)
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    pub ways: Vec<WayName>,
    pub m: Vec<Int<2, 64>>,
    pub activity: Vec<Activity>,
    /// Before anything is counted.
    pub warm_s: Time,
    pub count_s: Int<1, 100_000>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activity {
    pub name: String,
    /// Requests of each node, a second.
    pub requests: Spanned<f64>,
    pub tasks: Range,
    /// How long a task keeps its slot.
    pub task_s: Range,
    /// The mean load of leaves that `--calibrate` looks for, messages a second.
    pub leaf_mean: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Churn {
    pub fault: Vec<Fault>,
    /// Tasks of each request, as a share of the nodes.
    pub asked: Share,
    #[serde(default = "ask_every")]
    pub ask_every_s: Time,
}

fn ask_every() -> Time {
    Time(30.0)
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub name: String,
    /// How long the sessions of the population come and go.
    pub sessions_min: Option<Time>,
    /// So many die at once, without a word.
    #[serde(default)]
    pub die: Share,
    /// So many stand still for so long.
    #[serde(default)]
    pub freeze: Share,
    /// So many are cut off from the others for so long.
    #[serde(default)]
    pub part: Share,
    #[serde(default)]
    pub for_s: Time,
    /// How long it may take until all is well.
    pub within_s: Time,
    /// Comings and goings one by one, as recorded elsewhere.
    #[serde(default)]
    pub trace: Vec<Event>,
}

/// Guests, the hidden ones of the population: whether they are found and reached, and what they cost their gateways.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestsPart {
    pub gateways: Int<2, 4096>,
    /// Share of the pairs between which no data channel opens.
    pub walled: Share,
    /// Pairs of a gateway and a guest of another that are connected.
    pub pairs: Int<1, 1_000_000>,
    /// Gateways that die at once at the end.
    pub die: Int<1, 4096>,
}

/// Lookups on the ring of all nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingPart {
    /// Sizes up to the scenario's number of nodes.
    pub sizes: Vec<Int<1, 4_000_000>>,
    /// Larger rings are not grown node by node but begin as they are at rest.
    pub grown_to: Int<1, 4_000_000>,
    /// Lookups in each way, with keys never asked for before; as many again follow with keys that were.
    pub lookups: Int<1, 10_000_000>,
    pub sessions: Option<RingSessions>,
}

/// Lookups while members come and go.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingSessions {
    /// Most nodes, of those of the scenario.
    pub nodes: Int<2, 4_000_000>,
    pub session: Session,
    pub for_min: Time,
    pub lookups_per_s: Int<1, 100_000>,
}

/// Searches for sellers, in both schemes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarketPart {
    /// Sizes up to the scenario's number of nodes; every node sells.
    pub sellers: Vec<Int<2, 1_000_000>>,
    /// Buyers, each of which searches three times; of no meaning with sessions.
    pub searches: Int<1, 10_000_000>,
    /// Share of all slots that are busy with what buyers bought.
    pub busy: Share,
    pub sessions: Option<MarketSessions>,
}

/// Jobs with requirements, in the eight workloads of paper `match`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchmakingPart {
    /// Jobs of each node: they arrive in the same time however many nodes there are.
    pub jobs_a_node: Int<1, 1000>,
    /// Mean gaps between two arrivals at 1,000 nodes; of others, in proportion.
    pub gap_s: Vec<Time>,
    pub schemes: Vec<Matching>,
    /// Some of the workloads, as `mixed/mixed/heavy`; all without.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Runners, and gateways but the first, come and go.
    pub session: Option<Session>,
    /// In place of arrivals one by one.
    pub batches: Option<Batches>,
    /// Seeds, of which each row is the mean.
    pub seeds: Int<1, 1000>,
}

/// Submitters of a few jobs each, beside one who submits all others at the start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batches {
    /// Jobs of each of them.
    pub jobs: Int<1, 10_000>,
    /// At 1,000 nodes; of others, in proportion.
    pub submitters: Int<1, 10_000>,
    /// They come one after the other within this time.
    pub within_s: Time,
}

/// How jobs find nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matching {
    /// Central, early binding.
    Shortest,
    /// Central, late binding.
    Late,
    /// Central, late binding by age and scarcity.
    Scarce,
    /// The product's own nodes, with the paper's early binding: the shortest queue of eight nodes that the Rendezvous Node
    /// Tree finds.
    Rntree,
    /// Early binding on a CAN: the least loaded of the nodes around the place of the job's needs.
    CanBasic,
    /// So, and the job is pushed to where less waits; idle nodes steal.
    CanPush,
    /// The product's own nodes: late binding by marks.
    Pull,
    /// Late binding by marks on a CAN.
    PullCan,
}

/// While nodes come and go.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarketSessions {
    pub session: Session,
    pub for_min: Time,
}

/// One line of a trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    pub at_s: Time,
    pub node: Int<0, 4_000_000>,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Join,
    Leave,
    Crash,
    Freeze,
    Thaw,
}

impl Scenario {
    /// Reads a scenario; the error names the line and says what is wrong there.
    pub fn read(text: &str) -> Result<Scenario, String> {
        let scenario: Scenario = toml::from_str(text).map_err(|error| error.to_string())?;
        scenario.check(text)?;
        Ok(scenario)
    }

    fn check(&self, text: &str) -> Result<(), String> {
        let at = |span: Span<usize>| text[..span.start.min(text.len())].lines().count().max(1);
        let parts = [
            self.discovery.is_some(),
            self.traffic.is_some(),
            self.churn.is_some(),
            self.guests.is_some(),
            self.ring.is_some(),
            self.market.is_some(),
            self.matchmaking.is_some(),
        ];
        if parts.iter().filter(|part| **part).count() != 1 {
            let names = "[discovery], [traffic], [churn], [guests], [ring], [market] and [matchmaking]";
            return Err(format!("a scenario has one of {names}"));
        }
        if self.seeds.is_empty() {
            return Err("seeds: at least one is needed".into());
        }
        if let Some(k) = &self.tree.k {
            let (line, k, m) = (at(k.span()), k.get_ref().0, self.tree.m.0);
            if 2 * k < m || k > m {
                return Err(format!("line {line}: k = {k}; it has to be between m/2 and m = {m}"));
            }
        }
        if let LatencyPart::Regions { ms, .. } = &self.network.latency {
            let (line, rows) = (at(ms.span()), ms.get_ref());
            if rows.is_empty() || rows.iter().any(|row| row.len() != rows.len()) {
                return Err(format!("line {line}: the latencies of regions are a square, one row a region"));
            }
            let regions = rows.len() as u64;
            if let Some(kind) = self.population.iter().find(|kind| kind.region.0 >= regions) {
                let region = kind.region.0;
                return Err(format!(
                    "line {line}: there are {regions} regions from 0, and nodes in {region}"
                ));
            }
        }
        let workloads = self.matchmaking.iter().flat_map(|part| &part.workloads);
        for name in workloads {
            if Mix::ALL.iter().all(|mix| mix.name() != *name) {
                return Err(format!(
                    "workloads: {name:?} is none; give nodes/jobs/needs, as mixed/clustered/light"
                ));
            }
        }
        let sessions = self.population.iter().filter_map(|kind| kind.session.as_ref());
        let of_ring = self.ring.iter().filter_map(|ring| ring.sessions.as_ref());
        let of_market = self.market.iter().filter_map(|market| market.sessions.as_ref());
        let others =
            of_ring.map(|sessions| &sessions.session).chain(of_market.map(|sessions| &sessions.session));
        for session in sessions.chain(others) {
            if let Some(shape) = session.shape.as_ref()
                && !(0.1..=10.0).contains(shape.get_ref())
            {
                let (line, shape) = (at(shape.span()), shape.get_ref());
                return Err(format!("line {line}: shape = {shape}; it has to be between 0.1 and 10"));
            }
        }
        if !self.population.is_empty() && self.population.iter().all(|kind| kind.share.0 <= 0.0) {
            return Err("population: all shares are 0".into());
        }
        for activity in self.traffic.iter().flat_map(|traffic| &traffic.activity) {
            let (line, requests) = (at(activity.requests.span()), *activity.requests.get_ref());
            if !(requests > 0.0 && requests <= 10_000.0) {
                return Err(format!(
                    "line {line}: requests = {requests}; it has to be above 0, at most 10000"
                ));
            }
        }
        Ok(())
    }

    pub fn k(&self) -> u8 {
        self.tree.k.as_ref().map_or(self.tree.m.0, |k| k.get_ref().0) as u8
    }

    /// Seeds of which a report is the mean, from the one that is named on.
    pub fn seeds_a_report(&self) -> u64 {
        self.matchmaking.as_ref().map_or(1, |part| part.seeds.0)
    }

    pub fn network(&self) -> Network {
        let part = &self.network;
        let defaults = Network::default();
        let latency = match &part.latency {
            LatencyPart::ConstantMs(time) => Latency::Constant(time.millis_as_micros()),
            LatencyPart::UniformMs(range) => {
                Latency::Uniform(range.low.millis_as_micros(), range.high.millis_as_micros())
            }
            LatencyPart::Regions { ms, jitter_ms } => Latency::Regions {
                between: (ms.get_ref().iter())
                    .map(|row| row.iter().map(Time::millis_as_micros).collect())
                    .collect(),
                jitter: jitter_ms.map_or(0, |jitter| jitter.millis_as_micros()),
            },
        };
        let mischief = part.mischief.clone().unwrap_or_default();
        Network {
            latency,
            bandwidth: part.bandwidth_kbps.map_or(0, |kbps| kbps.0 * 1000),
            mischief: Mischief {
                loss: mischief.loss.0,
                duplication: mischief.duplication.0,
                reordering: mischief.reordering.0,
                late: mischief.late_ms.millis_as_micros(),
            },
            mischief_of: mischief.of,
            dial_hops: part.dial_hops.map_or(defaults.dial_hops, |hops| hops.0 as f64),
            dial_timeout: part.dial_timeout_s.map_or(defaults.dial_timeout, Range::seconds_as_micros),
            notice: part.notice_s.map_or(defaults.notice, Range::seconds_as_micros),
            keepalive: part.keepalive_s.map(Range::seconds_as_micros),
            ..defaults
        }
    }

    /// Which kind the next node is of.
    pub fn draw_kind(&self, rng: &mut Rng) -> Option<usize> {
        let all: f64 = self.population.iter().map(|kind| kind.share.0).sum();
        let mut left = rng.unit() * all;
        let found = self.population.iter().position(|kind| {
            left -= kind.share.0;
            left < 0.0
        });
        found.or(self.population.len().checked_sub(1))
    }
}

#[cfg(test)]
mod tests;
