//! The node: owns all machines and is driven from outside.

mod alarms;
mod budget;
pub mod config;
// A page dials its gateway alone, and its driver does that.
#[cfg(feature = "roles")]
mod delegation;
#[cfg(feature = "roles")]
mod dialback;
#[cfg_attr(not(feature = "roles"), allow(dead_code))]
mod dials;
#[cfg(feature = "roles")]
mod elsewhere;
mod events;
mod faults;
#[cfg(feature = "roles")]
mod files;
mod follow;
pub mod host;
#[cfg(feature = "roles")]
mod hosting;
#[cfg(feature = "roles")]
mod market;
pub mod message;
#[cfg(feature = "roles")]
mod money;
#[cfg(feature = "roles")]
mod overlays;
#[cfg(not(feature = "roles"))]
#[path = "guest.rs"]
mod overlays;
#[cfg(feature = "roles")]
mod records;
#[cfg(feature = "roles")]
mod ring;
mod route;
mod settings;
pub mod snapshot;
mod stall;
mod storage;
mod views;

use crate::address::Dialable;
use crate::discovery::connected::Connected;
use crate::ids::NodeId;
use crate::node::message::Message;
use crate::overlay::neighbours::{Hello, Neighbours, Room};
use crate::protocol::{Machine, Rng};
use crate::store::Store;
use crate::time::Time;
use crate::work::client::Client;
#[cfg(feature = "roles")]
use crate::work::keeper::Keeper;
use crate::work::owner::Owner;
use crate::work::runner::Runner;
use config::Config;
use host::{Host, NodeInput};
use std::collections::VecDeque;
use std::sync::Arc;

/// A Manyhands node: all protocols, no I/O.
///
/// # Contract
/// - Create it with [`Node::new`] from its id, its configuration, a seed and the current time.
/// - Call [`Node::drive`] with each [`NodeInput`] as it happens, and with [`NodeInput::Wake`]
///   once before anything else. One call takes one input and drains everything that follows
///   into the [`Host`]. Work beyond [`Bounds::steps`](crate::bounds::Bounds::steps) waits for the next call, which the
///   node asks for by [`Host::wake_at`].
/// - Each call may end with [`Host::wake_at`]: drive the node again with `Wake` at that time.
///   Late and needless wake-ups are harmless (tabs are throttled, laptops sleep). Time must
///   not go backwards; if it does, it is taken to stand still.
/// - Storage and engine requests may be answered in any order and at any later time, never
///   from within the host's methods.
/// - The queries (`nodes`, `jobs`, `units`, `work`, …) may be called between inputs.
/// - The same seed, configuration and inputs give the same effects, on every platform.
///
/// Nothing that a peer sends can make it panic; a peer's faults are events. A panic is our
/// bug.
pub struct Node {
    me: NodeId,
    config: Arc<Config>,
    now: Time,
    started: bool,
    wake: Option<Time>,
    alarms: alarms::Alarms,
    faults: faults::Faults,
    dials: dials::Dials,
    holds: follow::Holds,
    overlays: overlays::Overlays,
    #[cfg(feature = "roles")]
    money: Option<Box<money::Money>>,
    neighbours: Machine<Neighbours>,
    finder: Machine<Connected>,
    client: Machine<Client>,
    /// Gateways own jobs; on the ring, others own units of them.
    owner: Option<Box<Machine<Owner>>>,
    runner: Machine<Runner>,
    /// Pages keep nothing for others.
    #[cfg(feature = "roles")]
    keeper: Machine<Keeper>,
    store: Machine<Store>,
    steps: VecDeque<route::Step>,
    budget: budget::Budget,
}

impl Node {
    pub fn new(me: NodeId, config: impl Into<Arc<Config>>, seed: [u8; 32], now: Time) -> Node {
        let config = config.into();
        let hello = Hello {
            name: config.name.clone(),
            platform: config.platform,
            gateway: config.gateway,
            invite: config.invited_with.clone(),
            dialable: if config.port.is_some() { Dialable::Unknown } else { Dialable::No },
            seen: None,
            web: config.web.clone(),
            swarm: settings::settings_of(me, &config),
        };
        let (bounds, timing) = (&config.limits, &config.timing);
        let room = Room { peers: bounds.peers, guests: bounds.guests };
        let rng = |part| Rng::fork(&seed, part);
        let cache = (!config.gateway).then_some(bounds.cache_bytes);
        Node {
            me,
            now,
            started: false,
            wake: None,
            alarms: alarms::Alarms::default(),
            faults: faults::Faults::default(),
            dials: dials::Dials::default(),
            holds: follow::Holds::default(),
            overlays: overlays::Overlays::new(&config, &seed),
            #[cfg(feature = "roles")]
            money: config.bank.as_ref().map(|part| money::Money::new(part, timing.retry, &seed)),
            neighbours: Machine::new(Neighbours::new(hello, config.invite.clone(), room), rng("neighbours")),
            finder: Machine::new(Connected::default(), rng("finder")),
            client: Machine::new(Client::new(timing.retry), rng("client")),
            owner: (config.gateway || bounds.delegated_units > 0)
                .then(|| Machine::new(Owner::new(config.owner()), rng("owner")).into()),
            runner: Machine::new(Runner::new(config.runner()), rng("runner")),
            #[cfg(feature = "roles")]
            keeper: Machine::new(Keeper::new(config.keeper()), rng("keeper")),
            store: Machine::new(Store::new(cache, bounds.blob_bytes, timing.retry), rng("store")),
            steps: VecDeque::new(),
            budget: budget::Budget::default(),
            config,
        }
    }

    /// Takes one input, drains everything that follows from it into `host`, and tells the
    /// host the next deadline if it changed.
    pub fn drive(&mut self, now: Time, input: NodeInput, host: &mut impl Host) {
        self.now = self.now.max(now);
        self.budget.begin(&self.config.limits);
        if !self.started {
            self.started = true;
            self.start(host);
            self.drain(host);
        }
        self.input(input, host);
        let mut done = self.drain(host);
        while done && self.fire_due() {
            done = self.drain(host);
        }
        let wake = if done {
            // Room for a burst is not kept: most nodes are quiet most of the time.
            self.steps = VecDeque::new();
            self.alarms.earliest()
        } else {
            Some(self.put_off(host))
        };
        if wake != self.wake {
            self.wake = wake;
            host.wake_at(wake);
        }
    }

    /// Sends a message to a peer, or takes it in at once if it is for this node.
    fn send(&mut self, to: NodeId, message: Message, host: &mut impl Host) {
        if to == self.me {
            return self.deliver(to, message, host);
        }
        let channel = message.channel();
        match crate::wire::encode(&message) {
            Some(bytes) if self.dials.is_under_way(to) => self.dials.keep(to, channel, bytes),
            Some(bytes) => host.transmit(to, channel, bytes),
            None => host.event(host::NodeEvent::Trouble {
                what: format!(
                    "a message to {} was longer than {} bytes and was not sent; please report this",
                    to.short(),
                    crate::wire::MAX_FRAME
                ),
            }),
        }
    }
}
