//! Puts a native node together: identity, storage, engine and links around the driver.

use crate::api::Hosts;
use crate::cli::failure::Failure;
use crate::driver::{self, Inbox, NodeHandle, Parts};
use crate::engine::{Engine, EngineOptions};
use crate::identity::Identity;
use crate::net::{NetOptions, Pages};
use crate::storage::Storage;
use libp2p::Multiaddr;
use link::Link;
use node_core::Config;
use node_core::address::Ip;
use node_core::elsewhere::Web;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// Parts that a node is made of.
pub(crate) struct NodeParts {
    pub(crate) identity: Identity,
    /// The folder of records and blobs; none for one that goes with the node.
    pub(crate) state: Option<PathBuf>,
    /// The folder of compiled modules; nodes may share it.
    pub(crate) cache: PathBuf,
    pub(crate) config: Config,
    /// Percent of a processor that each unit gets.
    pub(crate) cpu_share: u8,
    /// Addresses to listen at; none for a node without peers.
    pub(crate) listen: Option<Vec<Multiaddr>>,
    /// Names under which pages reach this node.
    pub(crate) hosts: Hosts,
    /// It begins a swarm of its own.
    pub(crate) founds: bool,
}

/// A node that runs.
pub(crate) struct Assembly {
    pub(crate) node: NodeHandle,
    /// To join others through.
    pub(crate) link: Option<Link>,
    /// Whether its engine has work, as it changes.
    pub(crate) works: watch::Receiver<bool>,
}

/// Starts a node on the current runtime.
pub(crate) async fn assemble(parts: NodeParts) -> Result<Assembly, Failure> {
    let inbox = Inbox::new();
    // Opened first: a second process on the same folder is told so, and not that a port is taken.
    let storage = match &parts.state {
        Some(dir) => Storage::open(dir, inbox.storage()),
        None => Storage::open_temporary(inbox.storage()),
    };
    let storage = storage.map_err(Failure::failed)?;
    let running = Arc::new(OnceLock::new());
    let asked = parts.listen.clone().unwrap_or_default();
    let net = match parts.listen {
        Some(listen) => {
            let pages = Pages { hosts: parts.hosts, node: running.clone() };
            let channels = parts.config.signalling.is_some().then(|| inbox.channels());
            let circuits = parts.config.circuits.then(|| inbox.circuits());
            let options = NetOptions { listen, pages, channels, circuits, ..NetOptions::default() };
            let started = crate::net::start(&parts.identity.keypair, options).await;
            Some(started.map_err(|e| Failure::failed(format!("{e}; see --bind, --p2p-port and --ws-port")))?)
        }
        None => None,
    };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|e| Failure::failed(format!("this system gives no random bytes: {e}")))?;
    let engine = Engine::start(
        EngineOptions {
            exe: own_executable()?,
            blob_dir: storage.blob_dir(),
            staging: storage.staging(),
            cache_dir: parts.cache,
            slots: parts.config.slots,
            cpu_share: parts.cpu_share,
            background: false,
        },
        inbox.engine(),
    );
    let link = net.as_ref().map(|net| net.link.clone());
    let port = link.as_ref().and_then(|link| link.addresses().iter().find_map(crate::net::tcp_port));
    // The links learn the addresses of all interfaces one after the other; the addresses asked for are known
    // now.
    let loopback_only = asked.iter().all(crate::net::is_loopback);
    let first_ip = crate::net::own_ip(&asked).filter(|_| parts.founds).map(Ip::from);
    let ws_port = link.as_ref().and_then(|link| link.addresses().iter().find_map(crate::net::ws_port));
    let web = parts.config.web.and_then(|web| Some(Web { port: ws_port?, ..web }));
    // Nobody writes by way of a node that cannot be dialled.
    let relay_rate = parts.config.relay_rate.filter(|_| port.is_some());
    let config = Config { port, loopback_only, first_ip, web, relay_rate, ..parts.config };
    let parts = Parts { id: parts.identity.node, config, seed, storage, engine, net };
    let works = parts.engine.works();
    let node = driver::start(parts, inbox)
        .map_err(|e| Failure::failed(format!("this system gives no thread to a node: {e}")))?;
    let _ = running.set(node.clone());
    Ok(Assembly { node, link, works })
}

/// Program that slots are started from. Linux keeps the running program reachable even after an upgrade has
/// replaced its file, and a slot has to be of its node's version.
pub(crate) fn own_executable() -> Result<PathBuf, Failure> {
    let itself = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && itself.exists() {
        return Ok(itself);
    }
    std::env::current_exe().map_err(|e| {
        Failure::failed(format!("cannot find this program's own file, which slots start from: {e}"))
    })
}
