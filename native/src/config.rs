//! Settings of `manyhands up`, decided in layers: flags over `MANYHANDS_UP_…` variables over the `[up]`
//! section of a TOML file over defaults.

use crate::cli::requirements::label;
use crate::cli::strict_toml::{Document, Key, Mistake, key};
use node_core::NodeId;
use node_core::overlay::swarm::DEGREES;
use node_core::requires::Properties;
use serde::de::Error as _;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// One layer: what it leaves open, the next one decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct UpLayer {
    pub(crate) gateway: Option<bool>,
    pub(crate) join: Option<Vec<String>>,
    pub(crate) slots: Option<u32>,
    pub(crate) cpu_share: Option<u8>,
    pub(crate) bind: Option<IpAddr>,
    pub(crate) dial_only: Option<bool>,
    pub(crate) http_port: Option<u16>,
    pub(crate) p2p_port: Option<u16>,
    pub(crate) ws_port: Option<u16>,
    pub(crate) name: Option<String>,
    pub(crate) invite: Option<String>,
    pub(crate) public_host: Option<Vec<String>>,
    pub(crate) submitter: Option<Vec<String>>,
    pub(crate) tree_degree: Option<u8>,
    #[serde(deserialize_with = "node_id")]
    pub(crate) bank: Option<NodeId>,
    pub(crate) market: Option<MarketScheme>,
    pub(crate) pricing: Option<Pricing>,
    pub(crate) speed: Option<u64>,
    pub(crate) labels: Option<BTreeMap<String, String>>,
    pub(crate) matchmaking: Option<Matchmaking>,
    pub(crate) data: Option<PathBuf>,
}

/// How markets are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MarketScheme {
    /// Over all nodes by a hash, in a ring of their own
    #[default]
    Processor,
    /// The capacity itself is the place on the ring
    Single,
}

/// Pricing rule: which sellers sell, and at which price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pricing {
    /// The cheapest at the next one's cost (reverse Vickrey)
    #[default]
    Vickrey,
    /// The cheapest at its own, and who names it has more the cheaper it is (max-min payoff)
    MaxMin,
}

/// How nodes are found for jobs with requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Matchmaking {
    /// Jobs are marked where idle nodes look; a tree of rendezvous nodes knows who can run what
    RnTree,
    /// So, and a CAN, a space of resources, knows who can run what
    Can,
    /// Not at all: such jobs are refused
    None,
}

impl FromStr for Matchmaking {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        clap::ValueEnum::from_str(text, false)
    }
}

impl FromStr for MarketScheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        clap::ValueEnum::from_str(text, false)
    }
}

impl FromStr for Pricing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        clap::ValueEnum::from_str(text, false)
    }
}

/// A whole configuration file.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    up: UpLayer,
}

const KEYS: &[Key] = &[Key {
    name: "up",
    below: &[
        key("gateway"),
        key("join"),
        key("slots"),
        key("cpu_share"),
        key("bind"),
        key("dial_only"),
        key("http_port"),
        key("p2p_port"),
        key("ws_port"),
        key("name"),
        key("invite"),
        key("public_host"),
        key("submitter"),
        key("tree_degree"),
        key("bank"),
        key("market"),
        key("pricing"),
        key("speed"),
        // Its keys are the donor's business.
        key("labels"),
        key("matchmaking"),
        key("data"),
    ],
}];

impl UpLayer {
    /// The `[up]` section of a file's text.
    pub(crate) fn from_toml(file: &str, text: &str) -> Result<UpLayer, Mistake> {
        Document::parse::<File>(file, text, KEYS).map(|(file, _)| file.up)
    }

    /// Settings from the environment. `MANYHANDS_GATEWAY` without `UP` is another thing: the gateway that
    /// commands talk to.
    pub(crate) fn from_env(read: impl Fn(&str) -> Option<String>) -> Result<UpLayer, String> {
        fn parsed<T: std::str::FromStr>(name: &str, value: Option<String>) -> Result<Option<T>, String> {
            let Some(text) = value else { return Ok(None) };
            text.trim().parse().map(Some).map_err(|_| {
                let expected = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
                let expected = match expected {
                    "bool" => "true or false",
                    "IpAddr" => "an IP address",
                    "u16" => "a port number",
                    _ => "a whole number",
                };
                format!("the variable {name} is {text:?}: expected {expected}")
            })
        }
        macro_rules! var {
            ($name:literal) => {
                read(concat!("MANYHANDS_UP_", $name)).filter(|v| !v.is_empty())
            };
        }
        macro_rules! parsed {
            ($name:literal) => {
                parsed(concat!("MANYHANDS_UP_", $name), var!($name))?
            };
        }
        let several = |text: String| -> Vec<String> {
            text.split([',', ' ']).filter(|s| !s.is_empty()).map(str::to_owned).collect()
        };
        Ok(UpLayer {
            gateway: parsed!("GATEWAY"),
            join: var!("JOIN").map(several),
            slots: parsed!("SLOTS"),
            cpu_share: parsed!("CPU_SHARE"),
            bind: parsed!("BIND"),
            dial_only: parsed!("DIAL_ONLY"),
            http_port: parsed!("HTTP_PORT"),
            p2p_port: parsed!("P2P_PORT"),
            ws_port: parsed!("WS_PORT"),
            name: var!("NAME"),
            invite: var!("INVITE"),
            public_host: var!("PUBLIC_HOST").map(several),
            submitter: var!("SUBMITTER").map(several),
            tree_degree: parsed!("TREE_DEGREE"),
            bank: parsed!("BANK"),
            market: parsed!("MARKET"),
            pricing: parsed!("PRICING"),
            speed: parsed!("SPEED"),
            labels: var!("LABELS")
                .map(|text| several(text).iter().map(|text| label(text)).collect())
                .transpose()
                .map_err(|e: String| format!("the variable MANYHANDS_UP_LABELS: {e}"))?,
            matchmaking: parsed!("MATCHMAKING"),
            data: var!("DATA").map(PathBuf::from),
        })
    }

    /// This layer, with `lower` for what it leaves open.
    pub(crate) fn over(self, lower: UpLayer) -> UpLayer {
        UpLayer {
            gateway: self.gateway.or(lower.gateway),
            join: self.join.or(lower.join),
            slots: self.slots.or(lower.slots),
            cpu_share: self.cpu_share.or(lower.cpu_share),
            bind: self.bind.or(lower.bind),
            dial_only: self.dial_only.or(lower.dial_only),
            http_port: self.http_port.or(lower.http_port),
            p2p_port: self.p2p_port.or(lower.p2p_port),
            ws_port: self.ws_port.or(lower.ws_port),
            name: self.name.or(lower.name),
            invite: self.invite.or(lower.invite),
            public_host: self.public_host.or(lower.public_host),
            submitter: self.submitter.or(lower.submitter),
            tree_degree: self.tree_degree.or(lower.tree_degree),
            bank: self.bank.or(lower.bank),
            market: self.market.or(lower.market),
            pricing: self.pricing.or(lower.pricing),
            speed: self.speed.or(lower.speed),
            labels: self.labels.or(lower.labels),
            matchmaking: self.matchmaking.or(lower.matchmaking),
            data: self.data.or(lower.data),
        }
    }

    /// Fills in the defaults and refuses what cannot be meant.
    pub(crate) fn settle(self) -> Result<UpConfig, String> {
        let gateway = self.gateway.unwrap_or(false);
        let join = self.join.unwrap_or_default();
        if !gateway && join.is_empty() {
            return Err("neither a gateway to be nor one to join: give --gateway to start a swarm, \
                 or --join URL to join one"
                .into());
        }
        if join.len() > MAX_JOIN {
            return Err(format!(
                "{} addresses to join are more than the {MAX_JOIN} that are tried",
                join.len()
            ));
        }
        if !gateway {
            for (given, flag) in
                [(self.public_host.is_some(), "--public-host"), (self.submitter.is_some(), "--submitter")]
            {
                if given {
                    return Err(format!("{flag} is for gateways: add --gateway, or leave it out"));
                }
            }
        }
        let dial_only = self.dial_only.unwrap_or(false);
        if gateway && dial_only {
            return Err("a gateway has to be dialled: leave out --dial-only, or --gateway".into());
        }
        let cpu_share = self.cpu_share.unwrap_or(100);
        if !(1..=100).contains(&cpu_share) {
            return Err(format!(
                "a share of {cpu_share} percent of a processor is not possible: give --cpu-share 1 to 100"
            ));
        }
        if let Some(degree) = self.tree_degree.filter(|degree| !DEGREES.contains(degree)) {
            let (least, most) = (DEGREES.start(), DEGREES.end());
            return Err(format!(
                "a tree of degree {degree} cannot be built: give --tree-degree {least} to {most}"
            ));
        }
        let properties = Properties {
            os: std::env::consts::OS.into(),
            arch: std::env::consts::ARCH.into(),
            labels: self.labels.unwrap_or_default().into_iter().collect(),
            disk_bytes: 0,
        };
        properties.check().map_err(|e| format!("--label: {e}"))?;
        let submitters = self.submitter.unwrap_or_default();
        let submitters = weights(&submitters)?;
        let name = self.name.unwrap_or_else(host_name);
        if name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(format!("the name {name:?} is not fit to show: at most {MAX_NAME} bytes of text"));
        }
        // A gateway is looked for where it was yesterday; nobody looks for a worker.
        let p2p_port = self.p2p_port.unwrap_or(if gateway { P2P_PORT } else { 0 });
        let ws_port = match (self.ws_port, p2p_port) {
            (Some(port), _) => port,
            (None, 0) => 0,
            (None, port) => port.checked_add(1).unwrap_or(0),
        };
        if ws_port == p2p_port && ws_port != 0 {
            return Err(format!("--p2p-port and --ws-port are both {ws_port}: give two ports"));
        }
        let elsewhere = join.iter().any(|way| !crate::cli::join::leads_here(way));
        let public_host = self.public_host.unwrap_or_default();
        // Peers prove who they are, so whoever joins a swarm on other machines listens to all of them.
        // The HTTP side opens nothing that was not asked for.
        let near = self.bind.is_none() && !elsewhere && public_host.is_empty();
        let listen = match self.bind {
            Some(ip) if ip.is_unspecified() => all_interfaces(),
            Some(ip) => vec![ip],
            None if near => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            None => all_interfaces(),
        };
        let pages = match self.bind.is_some() || !public_host.is_empty() {
            true => listen.clone(),
            false => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        };
        Ok(UpConfig {
            gateway,
            join,
            near,
            listen,
            pages: if gateway { pages } else { Vec::new() },
            slots: self.slots.unwrap_or_else(default_slots),
            cpu_share,
            // The API of a worker is for its own user.
            bind: self.bind.filter(|_| gateway).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            dial_only,
            http_port: self.http_port.unwrap_or(if gateway { HTTP_PORT } else { 0 }),
            p2p_port,
            ws_port,
            name,
            invite: self.invite,
            public_host,
            submitters,
            tree_degree: self.tree_degree,
            bank: self.bank,
            market: self.market,
            pricing: self.pricing,
            speed: self.speed,
            properties,
            matchmaking: self.matchmaking,
            data: self.data,
        })
    }
}

/// Port of the dashboard, the one in README. Our choice: the usual one for HTTP without privileges.
const HTTP_PORT: u16 = 8080;
/// The port that libp2p's own examples and IPFS use; the next one carries WebSocket.
const P2P_PORT: u16 = 4001;
/// Longest node name that the protocol carries, bytes.
const MAX_NAME: usize = 64;
/// Our choice: a list of ways to one swarm, not a directory.
const MAX_JOIN: usize = 32;

/// Everything decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpConfig {
    pub(crate) gateway: bool,
    pub(crate) join: Vec<String>,
    pub(crate) slots: u32,
    /// Percent of a processor that each unit gets.
    pub(crate) cpu_share: u8,
    /// Address that the HTTP side listens on; a worker's is of this machine alone.
    pub(crate) bind: IpAddr,
    /// It listens nowhere: a guest of the gateways that it joins.
    pub(crate) dial_only: bool,
    /// The node listens on loopback only because all its ways to join lead there: no option asked for it.
    pub(crate) near: bool,
    /// Where peers are listened to, by TCP; and pages, by WebSocket.
    pub(crate) listen: Vec<IpAddr>,
    pub(crate) pages: Vec<IpAddr>,
    pub(crate) http_port: u16,
    pub(crate) p2p_port: u16,
    pub(crate) ws_port: u16,
    pub(crate) name: String,
    pub(crate) invite: Option<String>,
    /// This and the next four are settings of the swarm. `None`: as remembered, as peers tell, or the
    /// default of a gateway that joins nobody.
    pub(crate) tree_degree: Option<u8>,
    /// The node that keeps the books of the swarm.
    pub(crate) bank: Option<NodeId>,
    pub(crate) market: Option<MarketScheme>,
    pub(crate) pricing: Option<Pricing>,
    pub(crate) matchmaking: Option<Matchmaking>,
    /// Fuel a second of a slot; measured if none.
    pub(crate) speed: Option<u64>,
    /// Properties that jobs may require; the disk is known when the node starts.
    pub(crate) properties: Properties,
    pub(crate) public_host: Vec<String>,
    /// Nodes that may give it jobs without the token.
    pub(crate) submitters: BTreeMap<NodeId, u16>,
    pub(crate) data: Option<PathBuf>,
}

/// Weights that an operator may give. Our choice: more than the ratio of any two shares that somebody would call one.
const WEIGHTS: std::ops::RangeInclusive<u16> = 1..=1000;

/// A node that an operator names, 64 hexadecimal digits, and its weight: 1 unless one is named.
fn weights(texts: &[String]) -> Result<BTreeMap<NodeId, u16>, String> {
    let mut weights = BTreeMap::new();
    for text in texts {
        let (submitter, weight) = submitter(text)?;
        if weights.insert(submitter, weight).is_some() {
            return Err(format!("--submitter: {} is there twice; give it one weight", submitter.short()));
        }
    }
    Ok(weights)
}

fn submitter(text: &str) -> Result<(NodeId, u16), String> {
    let (id, weight) = text.split_once('=').map_or((text, None), |(id, weight)| (id, Some(weight)));
    let id = id.parse().map_err(|e| {
        format!("--submitter: {e}; `manyhands nodes --output json` shows the ids of nodes, 64 digits each")
    })?;
    let read = |text: &str| {
        let weight = text.parse().ok().filter(|weight| WEIGHTS.contains(weight));
        let (low, high) = (WEIGHTS.start(), WEIGHTS.end());
        weight.ok_or_else(|| format!("--submitter: {text:?} is no weight; give {low} to {high}"))
    };
    Ok((id, weight.map_or(Ok(1), read)?))
}

/// In a file, a node's id is text.
fn node_id<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<NodeId>, D::Error> {
    let text = <String as serde::Deserialize>::deserialize(d)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// The unspecified addresses of IPv4 and IPv6: a listener there accepts peers on every interface.
pub(crate) fn all_interfaces() -> Vec<IpAddr> {
    vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)]
}

/// All processors but one, so that the machine stays usable for its owner and the node itself
/// keeps its heartbeats; at least one, or nothing would be given.
pub(crate) fn default_slots() -> u32 {
    processors().saturating_sub(1).max(1)
}

pub(crate) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// The machine's name, as far as it can be had without asking the network.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::fs::read_to_string("/etc/hostname"))
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok());
    let name = name.unwrap_or_default().trim().to_owned();
    let fit = !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control);
    if fit { name } else { "node".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(vars: &[(&str, &str)]) -> Result<UpLayer, String> {
        UpLayer::from_env(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn flags_win_over_variables_and_those_over_the_file() {
        let file =
            UpLayer::from_toml("c.toml", "[up]\nslots = 1\nname = 'file'\nhttp_port = 81\ngateway = true");
        let vars = env(&[("MANYHANDS_UP_SLOTS", "2"), ("MANYHANDS_UP_NAME", "variable")]).unwrap();
        let flags = UpLayer { slots: Some(3), ..UpLayer::default() };
        let settled = flags.over(vars).over(file.unwrap()).settle().unwrap();
        assert_eq!((settled.slots, settled.name.as_str(), settled.http_port), (3, "variable", 81));
    }

    #[test]
    fn a_gateway_keeps_its_ports_and_a_worker_takes_any() {
        let gateway = UpLayer { gateway: Some(true), ..UpLayer::default() }.settle().unwrap();
        assert_eq!((gateway.http_port, gateway.p2p_port, gateway.ws_port), (8080, 4001, 4002));
        assert_eq!(gateway.bind, IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(gateway.slots >= 1);
        let join = Some(vec!["http://localhost:8080".to_owned()]);
        let worker = UpLayer { join, ..UpLayer::default() }.settle().unwrap();
        assert_eq!((worker.http_port, worker.p2p_port, worker.ws_port), (0, 0, 0));
        let open = UpLayer {
            bind: Some("0.0.0.0".parse().unwrap()),
            join: Some(vec!["a".into()]),
            ..UpLayer::default()
        };
        assert!(open.settle().unwrap().bind.is_loopback(), "its API is for this machine alone");
    }

    #[test]
    fn a_node_listens_as_far_as_its_swarm_reaches() {
        let join = |way: &str| UpLayer { join: Some(vec![way.to_owned()]), ..UpLayer::default() };
        let listen = |layer: UpLayer| {
            let config = layer.settle().unwrap();
            let shown = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            (config.bind.to_string(), shown(&config.listen), shown(&config.pages))
        };
        let told =
            |bind: &str, listen: &str, pages: &str| (bind.to_owned(), listen.to_owned(), pages.to_owned());
        let loopback = "127.0.0.1";
        for here in
            ["http://localhost:8080", "http://127.0.0.1:1", "http://[::1]:80", "/ip4/127.0.0.1/tcp/4001"]
        {
            assert_eq!(listen(join(here)), told(loopback, loopback, ""), "{here}");
        }
        for there in
            ["http://10.0.0.1:8080", "http://hands.example", "http://[fd00::1]:80", "/ip6/fd00::1/tcp/4001"]
        {
            assert_eq!(listen(join(there)), told(loopback, "0.0.0.0 ::", ""), "{there}");
        }
        let there = "http://10.0.0.1:8080";
        let bound = UpLayer { bind: Some("127.0.0.1".parse().unwrap()), ..join(there) };
        assert_eq!(listen(bound), told(loopback, loopback, ""), "what was asked for counts");
        let gateway = UpLayer { gateway: Some(true), ..join(there) };
        assert_eq!(listen(gateway), told(loopback, "0.0.0.0 ::", loopback), "pages come by the HTTP side");
        let founder = UpLayer { gateway: Some(true), ..UpLayer::default() };
        assert_eq!(listen(founder.clone()), told(loopback, loopback, loopback));
        let open = UpLayer { bind: Some("0.0.0.0".parse().unwrap()), ..founder.clone() };
        assert_eq!(listen(open), told("0.0.0.0", "0.0.0.0 ::", "0.0.0.0 ::"));
        let public = UpLayer { public_host: Some(vec!["hands.example".into()]), ..founder };
        assert_eq!(listen(public), told(loopback, "0.0.0.0 ::", "0.0.0.0 ::"));
    }

    #[test]
    fn every_key_of_the_section_is_known_and_may_stand_in_a_file() {
        let text = "[up]\ngateway = true\njoin = ['a']\nslots = 1\nbind = '::1'\ndial_only = false\nhttp_port = 1\np2p_port = 2\n\
                    ws_port = 3\nname = 'n'\ninvite = 'i'\npublic_host = ['h']\nsubmitter = ['s']\ndata = 'd'";
        let layer = UpLayer::from_toml("c.toml", text).unwrap();
        assert_eq!(layer.bind, Some("::1".parse().unwrap()));
        assert_eq!(layer.ws_port, Some(3));
        let vars = env(&[
            ("MANYHANDS_UP_GATEWAY", "true"),
            ("MANYHANDS_UP_JOIN", "a"),
            ("MANYHANDS_UP_SLOTS", "1"),
            ("MANYHANDS_UP_BIND", "::1"),
            ("MANYHANDS_UP_DIAL_ONLY", "false"),
            ("MANYHANDS_UP_HTTP_PORT", "1"),
            ("MANYHANDS_UP_P2P_PORT", "2"),
            ("MANYHANDS_UP_WS_PORT", "3"),
            ("MANYHANDS_UP_NAME", "n"),
            ("MANYHANDS_UP_INVITE", "i"),
            ("MANYHANDS_UP_PUBLIC_HOST", "h"),
            ("MANYHANDS_UP_SUBMITTER", "s"),
            ("MANYHANDS_UP_DATA", "d"),
        ]);
        assert_eq!(vars.unwrap(), layer);
    }

    #[test]
    fn a_file_names_the_bank_by_its_id() {
        let text = format!("[up]\nbank = '{}'", "ab".repeat(32));
        assert_eq!(UpLayer::from_toml("c.toml", &text).unwrap().bank, Some(NodeId([0xab; 32])));
        assert!(UpLayer::from_toml("c.toml", "[up]\nbank = 'bob'").is_err());
    }

    #[test]
    fn mistakes_say_where_they_are() {
        let e = UpLayer::from_toml("c.toml", "[up]\nslot = 3").unwrap_err().to_string();
        assert_eq!(e, "c.toml:2:1: unknown key `slot` in up: did you mean `slots`?");
        let e = env(&[("MANYHANDS_UP_HTTP_PORT", "http")]).unwrap_err();
        assert_eq!(e, "the variable MANYHANDS_UP_HTTP_PORT is \"http\": expected a port number");
        let e = env(&[("MANYHANDS_UP_GATEWAY", "yes")]).unwrap_err();
        assert!(e.ends_with("expected true or false"), "{e}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let refused = |layer: UpLayer| layer.settle().unwrap_err();
        assert!(refused(UpLayer::default()).contains("--join URL"));
        let join = Some(vec!["x".to_owned()]);
        let worker = UpLayer { join, ..UpLayer::default() };
        let both = UpLayer { gateway: Some(true), dial_only: Some(true), ..UpLayer::default() };
        assert!(refused(both).contains("--dial-only"));
        let public = Some(vec!["hands.example".to_owned()]);
        assert!(refused(UpLayer { public_host: public, ..worker.clone() }).contains("--public-host"));
        let friends = |text: &str| UpLayer { submitter: Some(vec![text.to_owned()]), ..UpLayer::default() };
        let gateway = |text: &str| UpLayer { gateway: Some(true), ..friends(text) };
        assert!(
            refused(gateway("bob")).contains("--submitter") && gateway(&"ab".repeat(32)).settle().is_ok()
        );
        let twice = ["=3", "=4"].map(|weight| "ab".repeat(32) + weight).to_vec();
        let twice = UpLayer { gateway: Some(true), submitter: Some(twice), ..UpLayer::default() };
        assert!(refused(twice).contains("twice"));
        assert!(refused(UpLayer { name: Some("x".repeat(65)), ..worker.clone() }).contains("64 bytes"));
        let same = UpLayer { p2p_port: Some(7), ws_port: Some(7), ..worker };
        assert!(refused(same).contains("both 7"));
    }
}
