//! `manyhands up`: a node that runs until it is told to end.

use super::admission::Admission;
use super::args::UpArgs;
use super::beacon::{Beacon, Lit, Noted, Pid, local_url};
use super::failure::{DONE, Failure, INTERRUPTED};
use super::interrupt::{Deadline, Ends};
use super::join::{Way, join, reaches_further};
use super::progress::say;
use super::run::{print_json, print_text};
use super::settings::{self, SwarmFile};
use crate::api::{ApiOptions, Hosts};
use crate::assemble::{Assembly, NodeParts, assemble};
use crate::config::{UpConfig, UpLayer, all_interfaces, processors};
use crate::driver::NodeHandle;
use crate::files::seal::Seal;
use crate::identity::Identity;
use crate::market;
use crate::paths::{DataFolder, config_candidates};
use crate::policy::file::PolicyFile;
use crate::policy::machine::Machine;
use crate::policy::{Enforcer, Given, Sensors, within};
use crate::text::io_error;
use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;
use node_core::NodeEvent;
use node_core::bounds::Bounds;
use node_core::discovery::nearest::NearestConfig;
use node_core::elsewhere::Web;
use node_core::files::FilesConfig;
use node_core::ledger::books::Rules;
use node_core::market::MarketConfig;
use node_core::money::Price;
use node_core::node::config::{BankPart, MarketPart, RecordsPart};
use node_core::overlay::dialback::Standing;
use node_core::overlay::swarm::Swarm;
use node_core::overlay::tree::TreeConfig;
use node_core::requires::Properties;
use node_core::trust::policy::Policy;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;

/// Units of other gateways' jobs that a node owns. Our choice: 20 MB, and a few for each slot of a swarm
/// of some thousand nodes whose jobs all name the ring.
const DELEGATED: usize = 10_000;

/// For units under way to be suspended and handed on. Our choice: the node itself gives up after
/// half of it, and a service manager waits longer.
const DRAIN: Duration = Duration::from_secs(8);

/// For the node's thread and its engine to end. Our choice: the engine kills its processes at once.
const STOP: Duration = Duration::from_secs(2);

/// From the wish that the process should end to its end, whatever it is at. Our choice: [`DRAIN`], [`STOP`]
/// and the last answers of the API take 12 s at most.
const END: Duration = Duration::from_secs(15);

pub(crate) fn run(args: UpArgs, data: Option<PathBuf>) -> Result<u8, Failure> {
    let (fail_fast, ready_json, until_stdin) = (args.fail_fast, args.ready_json, args.until_stdin_closes);
    crate::private::from_now_on();
    super::open_files::allow_many();
    let config = settle(args, data)?;
    let ways = config.join.iter().map(|text| text.parse());
    let ways = ways.collect::<Result<Vec<Way>, _>>().map_err(|e| Failure::usage(format!("--join: {e}")))?;
    let folder = DataFolder::choose(config.data.clone()).map_err(Failure::usage)?;
    folder.create()?;
    let policy = PolicyFile::of(&folder).read().map_err(Failure::usage)?.0;
    let deadline = Deadline::start(END)
        .map_err(|e| Failure::failed(format!("cannot listen for Ctrl-C and SIGTERM: {e}")))?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|e| Failure::failed(format!("this system gives no threads to a node: {e}")))?;
    let code = runtime.block_on(async {
        let mut ends = Ends::listen()
            .map_err(|e| Failure::failed(format!("cannot listen for Ctrl-C and SIGTERM: {e}")))?;
        let (up, admission) = tokio::select! {
            up = Up::start(&config, policy, &folder, &ways, fail_fast) => up?,
            () = ends.next() => return Err(Failure::silent(INTERRUPTED)),
        };
        if ready_json {
            print_json(&up.ready_json().to_string())?;
        } else {
            let outside = up.outside(&config).await;
            let terminal = std::io::stdout().is_terminal();
            print_text(&up.greeting(&config, &folder, outside, terminal))?;
        }
        tokio::spawn(standing(up.assembly.node.clone()));
        let closed = async {
            match until_stdin {
                true => stdin_closes().await,
                false => std::future::pending().await,
            }
        };
        let mut polite = true;
        let mut end = Ok(DONE);
        tokio::select! {
            () = ends.next() => {
                say("ending: handing work on (Ctrl-C again ends at once)");
                polite = false;
            }
            () = closed => deadline.begin(),
            failure = admission.follow(fail_fast && !ways.is_empty()) => {
                deadline.begin();
                end = Err(failure);
            }
            () = up.assembly.node.stopped() => {
                let why = "the node's thread has ended, which is a bug; the log says why. Start the node again";
                return Err(Failure::failed(why));
            }
        }
        let hurried = async {
            // In a terminal, Ctrl-C reaches both whoever started us and us: that is one wish.
            if polite {
                ends.next().await;
            }
            ends.next().await;
        };
        tokio::select! {
            () = up.end() => end,
            () = hurried => Err(Failure::silent(INTERRUPTED)),
        }
    });
    // Blocking calls of ours that are under way only read.
    runtime.shutdown_timeout(Duration::from_millis(500));
    code
}

/// Flags over variables over the file.
fn settle(args: UpArgs, data: Option<PathBuf>) -> Result<UpConfig, Failure> {
    let several = |list: Vec<String>| if list.is_empty() { None } else { Some(list) };
    let file = match &args.config {
        Some(path) => read_config(path)?,
        None => match config_candidates().into_iter().find(|path| path.exists()) {
            Some(path) => read_config(&path)?,
            None => UpLayer::default(),
        },
    };
    let flags = UpLayer {
        gateway: args.gateway,
        join: several(args.join),
        slots: args.slots,
        cpu_share: args.cpu_share,
        bind: args.bind,
        dial_only: args.dial_only.then_some(true),
        http_port: args.http_port,
        p2p_port: args.p2p_port,
        ws_port: args.ws_port,
        name: args.name,
        invite: args.invite,
        public_host: several(args.public_host),
        submitter: several(args.submitter),
        tree_degree: args.tree_degree,
        bank: args.bank,
        market: args.market,
        pricing: args.pricing,
        speed: args.speed,
        labels: labels(args.labels)?,
        matchmaking: args.matchmaking,
        data,
    };
    let variables = UpLayer::from_env(|name| std::env::var(name).ok()).map_err(Failure::usage)?;
    let config = flags.over(variables).over(file).settle().map_err(Failure::usage)?;
    for host in &config.public_host {
        crate::api::public_host(host).map_err(|e| Failure::usage(format!("--public-host: {e}")))?;
    }
    Ok(config)
}

/// Labels by their keys; none if none is given.
fn labels(given: Vec<(String, String)>) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let mut labels = BTreeMap::new();
    for (key, value) in given {
        if let Some(before) = labels.insert(key.clone(), value) {
            return Err(Failure::usage(format!("--label: {key} is given twice, before as {before}")));
        }
    }
    Ok(Some(labels).filter(|labels| !labels.is_empty()))
}

fn read_config(path: &Path) -> Result<UpLayer, Failure> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::usage(format!("cannot read the settings in {shown}: {}", io_error(&e))))?;
    UpLayer::from_toml(&shown, &text).map_err(Failure::usage)
}

/// For the machine's interfaces to be known. Our choice: nobody waits for a greeting longer.
const INTERFACES: Duration = Duration::from_secs(1);

/// Says whether others can dial this node whenever that changes.
async fn standing(node: NodeHandle) {
    let mut events = node.events();
    let mut said = None;
    loop {
        let Ok(now) = node.read(|node, _| node.standing()).await else { return };
        if said.replace(now) != Some(now) {
            match now {
                Standing::Unknown => {}
                Standing::Member(at) => {
                    let at = SocketAddr::new(at.ip.into(), at.port);
                    say(&format!("member: others reach this node at {at}"));
                }
                Standing::Guest(why) => say(&format!(
                    "guest, which others reach by data channels, or by way of its gateway: {why}"
                )),
            }
        }
        loop {
            match events.recv().await {
                Ok(NodeEvent::Standing(_)) | Err(RecvError::Lagged(_)) => break,
                Ok(_) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}

/// A node with all that is around it.
struct Up {
    assembly: Assembly,
    http: Http,
    policy: Enforcer,
    _pid: Noted,
}

/// By which rules this node trades, and at which bank.
fn trade(config: &UpConfig, swarm: &Swarm, identity: &Identity) -> Result<(MarketPart, BankPart), Failure> {
    let secret = identity.secret().ok_or_else(|| {
        Failure::failed(
            "the node's key is no ed25519 key, so it cannot sign what it sells; please report this",
        )
    })?;
    let market = MarketConfig {
        scheme: swarm.scheme.unwrap_or_default(),
        rule: swarm.pricing.unwrap_or_default(),
        ..MarketConfig::default()
    };
    let bank = swarm.bank;
    let rules = (config.gateway && bank == Some(identity.node)).then(Rules::default);
    let market = MarketPart { config: market.into(), secret: secret.clone() };
    Ok((market, BankPart { secret, bank, rules }))
}

/// The API, and the pages.
struct Http {
    url: String,
    /// Shown to a terminal only, as the invite is: what goes into a file or a pipe is kept.
    token: String,
    token_file: PathBuf,
    port: u16,
    close: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
    beacon: Lit,
}

impl Up {
    async fn start(
        config: &UpConfig,
        policy: Policy,
        folder: &DataFolder,
        ways: &[Way],
        fail_fast: bool,
    ) -> Result<(Up, Admission), Failure> {
        // A gateway on this machine may have a swarm beyond it.
        let listen = match config.near && reaches_further(ways).await {
            true => all_interfaces(),
            false => config.listen.clone(),
        };
        let mut machine = Machine::new(folder.dir());
        let space = policy.decide(&machine.read()).disk_bytes;
        let identity = Identity::load_or_create(folder)?;
        let swarm_file = SwarmFile::of(folder);
        let swarm = settings::decide(config, identity.node, &swarm_file)?;
        let (market, bank) = trade(config, &swarm, &identity)?;
        let public_host = config.public_host.first().and_then(|host| crate::api::public_host(host).ok());
        let hosts = Hosts::new(SocketAddr::new(config.bind, config.http_port), &config.public_host);
        let hosts = hosts.map_err(|e| Failure::usage(format!("--public-host: {e}")))?;
        let cache = folder.cache();
        let secret = identity.secret();
        let mut limits = Bounds { delegated_units: DELEGATED, ..within(Bounds::default(), space) };
        let files = FilesConfig {
            cost: Price(policy.marginal_cost),
            gift: policy.min_price == 0,
            ..FilesConfig::giving(crate::files::space(&mut limits))
        };
        let properties = Properties {
            disk_bytes: space.unwrap_or_default() / u64::from(config.slots.max(1)),
            ..config.properties.clone()
        };
        let parts = NodeParts {
            identity,
            state: Some(folder.dir().to_path_buf()),
            cache: cache.clone(),
            config: node_core::Config {
                name: config.name.clone(),
                gateway: config.gateway,
                submits: true,
                slots: config.slots,
                invite: config.invite.clone().filter(|_| config.gateway),
                invited_with: config.invite.clone(),
                submitters: config.submitters.clone(),
                limits: limits.into(),
                // Its port is known once it listens.
                web: config.gateway.then(|| Web { port: 0, host: public_host.map(|(name, _)| name) }),
                founds: config.join.is_empty(),
                open: settings::open(&swarm),
                // Its guests work for all owners: they open data channels, or it relays.
                nearest: NearestConfig { relays: true, ..NearestConfig::default() }.into(),
                tree: swarm.degree.map(TreeConfig::of).unwrap_or_default().into(),
                ring: Some(Default::default()),
                market: Some(market),
                bank: Some(bank),
                records: secret.clone().map(|secret| RecordsPart { config: Default::default(), secret }),
                signalling: secret,
                circuits: true,
                relay_rate: Some(policy.relay_rate()),
                files: Some(files.into()),
                matchmaking: swarm.matchmaking.unwrap_or_default(),
                properties: properties.into(),
                ..node_core::Config::default()
            },
            cpu_share: config.cpu_share,
            listen: Some(listen_addresses(config, &listen)),
            hosts,
            founds: config.gateway && config.join.is_empty(),
        };
        let assembly = assemble(parts).await?;
        // Only now: the folder is this node's alone.
        let pid = Pid::note(folder)?;
        tokio::spawn(swarm_file.follow(assembly.node.clone()));
        let ready = assembly.node.ready().await;
        ready.map_err(|_| Failure::failed("the node ended while it read its records; the log says why"))?;
        let usual = node_core::Config::default().memory_bytes;
        let given = Given { slots: config.slots, cpu_share: config.cpu_share, memory_bytes: usual };
        let file = PolicyFile::of(folder);
        // Before anybody can send work.
        let policy = Enforcer::start(file, policy, given, assembly.node.clone(), Box::new(machine));
        if config.slots > 0 {
            let works = assembly.works.clone();
            tokio::spawn(market::trade(assembly.node.clone(), policy.clone(), cache, config.speed, works));
        }
        let http = Http::start(config, folder, &assembly, policy.clone()).await?;
        let admission = Admission::watch(&assembly.node);
        join(ways, &assembly, config.invite.is_some(), fail_fast).await?;
        Ok((Up { assembly, http, policy, _pid: pid }, admission))
    }

    fn ready_json(&self) -> serde_json::Value {
        serde_json::json!({
            "node": self.assembly.node.id().to_string(),
            "http": self.http.url,
            "addresses": self.addresses(),
            "token_file": self.http.token_file,
        })
    }

    fn addresses(&self) -> Vec<String> {
        self.assembly.node.addresses().iter().map(ToString::to_string).collect()
    }

    /// The URL of the API as other machines write it; none if it takes no connections from them.
    async fn outside(&self, config: &UpConfig) -> Option<String> {
        if let Some(host) = config.public_host.first() {
            let (_, given) = crate::api::public_host(host).ok()?;
            let port = if given.is_some() { String::new() } else { format!(":{}", self.http.port) };
            return Some(format!("http://{host}{port}"));
        }
        let ip = match config.bind {
            ip if ip.is_loopback() => return None,
            ip if ip.is_unspecified() => self.own_ip(ip).await?,
            ip => ip,
        };
        Some(format!("http://{}", SocketAddr::new(ip, self.http.port)))
    }

    /// An address of this machine that is not loopback, of the family that is bound.
    async fn own_ip(&self, bound: IpAddr) -> Option<IpAddr> {
        let fits = |ip: &IpAddr| {
            !ip.is_loopback() && !crate::net::is_link_local(*ip) && (bound.is_ipv6() || ip.is_ipv4())
        };
        let looked = async {
            // The links learn of the machine's interfaces one after the other.
            loop {
                let all = self.assembly.node.addresses();
                let mut ips = all.iter().filter_map(crate::net::ip);
                if let Some(ip) = ips.find(fits) {
                    return ip;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(INTERFACES, looked).await.ok()
    }

    fn greeting(
        &self,
        config: &UpConfig,
        folder: &DataFolder,
        outside: Option<String>,
        terminal: bool,
    ) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(out, "{name:<10} {value}");
        };
        line("node", &format!("{} ({})", self.assembly.node.id().short(), config.name));
        line("data", &folder.dir().display().to_string());
        line("slots", &format!("{} on {} processors", config.slots, processors()));
        for (at, address) in self.addresses().iter().enumerate() {
            line(if at == 0 { "peers" } else { "" }, address);
        }
        let http = &self.http;
        if terminal {
            line("dashboard", &format!("{}/dashboard#token={}", http.url, http.token));
        } else {
            line("dashboard", &format!("{}/dashboard", http.url));
            line("token", &format!("lies in {}", http.token_file.display()));
        }
        if config.gateway {
            let url = outside.as_ref().unwrap_or(&http.url);
            line("donate", &format!("{url}/"));
            let invite = match &config.invite {
                Some(word) if terminal => format!(" --invite {word}"),
                Some(_) => " --invite WORD".into(),
                None => String::new(),
            };
            line("join with", &format!("manyhands up --join {url}{invite}"));
            if outside.is_none() {
                line("", "(from this machine only; --bind 0.0.0.0 lets others in)");
            }
        }
        for way in &config.join {
            line("joining", way);
        }
        if !self.policy.view().now.reasons.is_empty() {
            line("policy", "not working now; `manyhands policy explain` says why, and until when");
        }
        line("", "Ctrl-C ends it");
        out
    }

    /// Hands work back, answers what was asked, and closes.
    async fn end(self) {
        if !self.assembly.node.drain(DRAIN).await {
            tracing::info!(
                "some units could not be handed on in time; they go on from their newest checkpoints"
            );
        }
        drop(self.http.beacon);
        let _ = self.http.close.send(());
        let _ = self.http.served.await;
        self.assembly.node.stop();
        if tokio::time::timeout(STOP, self.assembly.node.stopped()).await.is_err() {
            tracing::error!("the node's thread does not end; the process ends without it");
        }
    }
}

impl Http {
    async fn start(
        config: &UpConfig,
        folder: &DataFolder,
        assembly: &Assembly,
        policy: Enforcer,
    ) -> Result<Http, Failure> {
        let token = crate::token::load_or_create(folder)?;
        let at = SocketAddr::new(config.bind, config.http_port);
        let listener = bind(at).await.map_err(|e| match e.kind() {
            std::io::ErrorKind::AddrInUse => Failure::failed(format!(
                "port {} on {} is in use by another program; give another with --http-port PORT (0 takes any)",
                at.port(),
                at.ip()
            )),
            std::io::ErrorKind::PermissionDenied => Failure::failed(format!(
                "port {} needs privileges that this process does not have; give one above 1023 with --http-port",
                at.port()
            )),
            _ => Failure::failed(format!("cannot listen on {at}: {e}; see --bind and --http-port")),
        })?;
        let port =
            listener.local_addr().map_err(|e| Failure::failed(format!("cannot listen on {at}: {e}")))?.port();
        let at = SocketAddr::new(at.ip(), port);
        let options = ApiOptions {
            name: config.name.clone(),
            gateway: config.gateway,
            public_hosts: config.public_host.clone(),
            invite_required: config.gateway && config.invite.is_some(),
            policy: Some(policy),
            seal: Some(Seal::load_or_create(folder)?.into()),
            token_file: Some(folder.token()),
            ..ApiOptions::new(token.clone())
        };
        let url = local_url(at);
        let node = assembly.node.clone();
        let beacon = Beacon { url: url.clone(), pid: std::process::id(), node: node.id().to_string() };
        let beacon = beacon.light(folder)?;
        let (close, closed) = oneshot::channel();
        let served = tokio::spawn(async move {
            let closed = async { drop(closed.await) };
            if let Err(e) = crate::api::serve(options, node, listener, closed).await {
                tracing::error!("the API ended: {e}; restart this gateway");
            }
        });
        let token_file = folder.token();
        Ok(Http { url, port: at.port(), token, token_file, close, served, beacon })
    }
}

/// Listens. All interfaces are those of both families, where one socket can have them.
async fn bind(at: SocketAddr) -> std::io::Result<TcpListener> {
    if at.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
        let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, at.port())).await;
        if let Ok(both) = both {
            // On a system whose IPv6 sockets leave IPv4 out, that is still free.
            let port = both.local_addr()?.port();
            if std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_err() {
                return Ok(both);
            }
        }
    }
    TcpListener::bind(at).await
}

fn listen_addresses(config: &UpConfig, listen: &[IpAddr]) -> Vec<Multiaddr> {
    if config.dial_only {
        return Vec::new();
    }
    let at = |ip: &IpAddr, port| match ip {
        IpAddr::V4(ip) => Multiaddr::empty().with(Protocol::Ip4(*ip)).with(Protocol::Tcp(port)),
        IpAddr::V6(ip) => Multiaddr::empty().with(Protocol::Ip6(*ip)).with(Protocol::Tcp(port)),
    };
    let tcp = listen.iter().map(|ip| at(ip, config.p2p_port));
    let ws = config.pages.iter().map(|ip| at(ip, config.ws_port).with(Protocol::Ws("/".into())));
    tcp.chain(ws).collect()
}

/// Ready when whoever started us has closed our standard input, or is gone.
async fn stdin_closes() {
    let (closed, is_closed) = oneshot::channel();
    // A thread of its own: the runtime's end must not wait for this read.
    let reader = std::thread::Builder::new().spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut ignored = [0; 64];
        while !matches!(stdin.read(&mut ignored), Ok(0) | Err(_)) {}
        let _ = closed.send(());
    });
    if reader.is_ok() {
        let _ = is_closed.await;
    } else {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_an_address_at_gateways_only() {
        let join = Some(vec!["x".to_owned()]);
        let worker = UpLayer { join, ..UpLayer::default() }.settle().unwrap();
        let shown = |config: &UpConfig| -> Vec<String> {
            listen_addresses(config, &config.listen).iter().map(ToString::to_string).collect()
        };
        assert_eq!(shown(&worker), ["/ip4/0.0.0.0/tcp/0", "/ip6/::/tcp/0"], "its peers are elsewhere");
        let bind = Some("::".parse().unwrap());
        let gateway = UpLayer { gateway: Some(true), bind, ..UpLayer::default() }.settle().unwrap();
        let all =
            ["/ip4/0.0.0.0/tcp/4001", "/ip6/::/tcp/4001", "/ip4/0.0.0.0/tcp/4002/ws", "/ip6/::/tcp/4002/ws"];
        assert_eq!(shown(&gateway), all);
    }
}
