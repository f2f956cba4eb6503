//! The start of a node in its Worker.

use super::{Driver, Input, Options};
use crate::browser;
use crate::channels::Channels;
use crate::host::{Ends, WebHost};
use crate::left::Left;
use crate::settings;
use crate::socket::WebSockets;
use crate::workers::Workers;
use futures::channel::mpsc;
use libp2p::Transport;
use libp2p::identity::Keypair;
use libp2p::swarm;
use link::{Circuits, LinkOptions, Piping, ToNode};
use node_core::bounds::{Bounds, Timing};
use node_core::keys::Secret;
#[cfg(feature = "submits")]
use node_core::node::config::BankPart;
use node_core::node::config::{MarketPart, Open};
use node_core::requires::Matchmaking;
use node_core::{Config, Node, NodeId, Platform, Table, Time};
use send_wrapper::SendWrapper;
use std::sync::Arc;
use std::time::Duration;
use wasm_bindgen_futures::spawn_local;
use web_driver::join::Join;
use web_driver::policy::Tab;
use web_driver::pool::MAX_SLOTS;
use web_driver::speed::Measure;
use web_driver::status::Throttle;
use web_driver::storage::{self, Storage};

/// Bytes of one blob. Our choice: a page holds two of them; larger ones go to native nodes.
const BLOB_BYTES: u64 = storage::MAX_BYTES / 2;

/// Blobs kept that nothing needs just now. Our choice: what remains beside one large blob.
const CACHE_BYTES: u64 = storage::MAX_BYTES / 4;

/// Bytes of snapshots that outlive the page. Our choice: what lay in its memory, so that it fits
/// there again, with room for programs.
const LEFT_BYTES: u64 = storage::MAX_BYTES / 4 * 3;

/// Checkpoints kept for others, beside what is above. Our choice: some of a task of 10 MiB; who has more is refused.
/// A page that submits keeps none.
const KEPT_BYTES: u64 = if cfg!(feature = "submits") { 0 } else { storage::MAX_BYTES / 4 };

/// Tables whose rows the node takes up. Jobs are left to a page that submits.
const TABLES: &[Table] = if cfg!(feature = "submits") { &Table::ALL } else { &[Table::Left] };

/// Jobs of its person that a page remembers; the oldest that have ended give way. Our choice: as many as it shows.
const JOBS: usize = web_driver::jobs::SHOWN;

/// Memory of one unit. Our choice: what a tab can give to each slot without being killed.
const UNIT_MEMORY: u64 = 512 << 20;

/// For suspending and handing on. Units that are left then are given back, while the page still waits.
const DRAIN: Duration = Duration::from_secs(2);

/// Starts a node: the one that this tab was before, or a new one.
pub(crate) fn start(options: Options, left: Option<Left>) -> Result<mpsc::UnboundedSender<Input>, String> {
    let mut storage = Storage::new(storage::MAX_BYTES + KEPT_BYTES);
    let left_bytes = if left.is_some() { LEFT_BYTES } else { 0 };
    let (mut secret, save, blobs) = match left {
        Some(Left { key, records, blobs, save }) => {
            (key, Some(save), storage.restore(TABLES, records, blobs))
        }
        None => (browser::random_bytes()?, None, Vec::new()),
    };
    let own = Secret::from_bytes(&secret);
    let sells = MarketPart { config: Default::default(), secret: own.clone() };
    let key = Keypair::ed25519_from_bytes(&mut secret).map_err(|e| format!("no identity: {e}"))?;
    let executor = swarm::Config::with_wasm_executor();
    let (pipes, piping) = link::pipes();
    let (link, events, mut runner) =
        link::start(&key, pipes.or_transport(WebSockets), executor, LinkOptions::default())
            .map_err(|e| e.to_string())?;
    runner.listen(&Piping::listening()).map_err(|e| e.to_string())?;
    spawn_local(runner.run());

    let config = Config {
        name: options.name,
        platform: Platform::Browser,
        slots: options.slots.min(MAX_SLOTS),
        memory_bytes: UNIT_MEMORY,
        // Not measured yet.
        power: 0,
        // Its gateway looks for jobs with requirements for it, if it does so at all.
        matchmaking: Matchmaking::RnTree,
        invited_with: options.invite,
        timing: Timing { drain: DRAIN, ..Timing::default() }.into(),
        signalling: options.channels.then(|| own.clone()),
        circuits: true,
        market: Some(sells),
        // Its gateway tells.
        open: Open { scheme: true, pricing: true, degree: true, matchmaking: true },
        limits: Bounds {
            blob_bytes: BLOB_BYTES,
            cache_bytes: CACHE_BYTES,
            left_bytes,
            kept_bytes: KEPT_BYTES,
            kept_bytes_per_owner: KEPT_BYTES / 4 * 3,
            jobs: JOBS,
            ..Bounds::default()
        }
        .into(),
        ..submitting(own)
    };
    let now = browser::now();
    let (workers, heard) = Workers::new();
    // Bounded by who sends: the page by hand, and one question at a time.
    let (inputs, received) = mpsc::unbounded();
    let Options { slots, policy, known, speed, .. } = options;
    let mut tab = Tab::new(policy, known, slots.min(MAX_SLOTS), settings::processors(), UNIT_MEMORY);
    if let Some(speed) = speed {
        tab.measured(speed);
    }
    let to_node = SendWrapper::new(inputs.clone());
    let to_node: ToNode = Arc::new(move |reply| drop(to_node.unbounded_send(Input::Circuit(reply))));
    let circuits = Circuits::new(link.clone(), piping.clone(), to_node);
    let ends = Ends { channels: Channels::new(link.clone(), piping, inputs.clone()), circuits };
    let driver = Driver {
        tab,
        measure: speed.is_none().then(Measure::default),
        balance: None,
        ask: None,
        done: 0,
        looked: None,
        node: node(link.id(), config, browser::random_bytes()?, now),
        host: WebHost::new(link, ends, storage, save.map(|save| (save, inputs.clone())), workers),
        join: Join::new(&options.gateway, now),
        gateway: options.gateway,
        throttle: Throttle::default(),
        told: now,
        trouble: None,
        leaves: None,
        inputs: inputs.clone(),
        #[cfg(feature = "submits")]
        jobs: Default::default(),
    };
    spawn_local(driver.run(events, heard, received, blobs));
    Ok(inputs)
}

/// A node with all services: it owns the jobs of its person, finds nodes for them and pays.
#[cfg(feature = "submits")]
fn node(me: NodeId, config: Config, seed: [u8; 32], now: Time) -> Node {
    Node::new(me, config, seed, now)
}

/// A node with the services of one that lends and sells.
#[cfg(not(feature = "submits"))]
fn node(me: NodeId, config: Config, seed: [u8; 32], now: Time) -> Node {
    Node::guest(me, config, seed, now)
}

/// The part of the configuration that jobs of its person need.
#[cfg(feature = "submits")]
fn submitting(secret: Secret) -> Config {
    let bank = BankPart { secret, bank: None, rules: None };
    Config { submits: true, ring: Some(Default::default()), bank: Some(bank), ..Config::default() }
}

#[cfg(not(feature = "submits"))]
fn submitting(_: Secret) -> Config {
    Config::default()
}
