//! The node: owns all machines and is driven from outside.

mod able;
mod alarms;
mod budget;
mod commands;
pub mod config;
mod dials;
mod faults;
mod follow;
mod gateways;
pub mod host;
mod membership;
pub mod message;
mod notes;
mod route;
mod search;
mod services;
mod settings;
pub mod snapshot;
mod storage;
mod table;
mod views;

use crate::address::Dialable;
use crate::ids::NodeId;
use crate::overlay::neighbours::{Hello, Neighbours, Room};
use crate::overlay::swarm::Swarm;
use crate::peers::Peers;
use crate::ticket::ServiceId;
use crate::time::Time;
use crate::wire::{self, Framed};
use config::Config;
use host::{Host, NodeInput};
use std::collections::VecDeque;
use std::sync::Arc;
use table::{HasRow, Row, Seated, Step, Table};

/// A Manyhands node: all protocols, no I/O.
///
/// # Contract
/// - Create it with [`Node::new`], or [`Node::guest`] where nobody can dial it, from its id, its
///   configuration, a seed and the current time.
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
    /// `None`: this node dials nobody; its driver finds the way to a gateway.
    dials: Option<dials::Dials>,
    holds: follow::Holds,
    neighbours: Seated<Neighbours>,
    table: Table,
    searches: search::Searches,
    steps: VecDeque<Step>,
    budget: budget::Budget,
    able: able::Able,
}

impl Node {
    /// A node with all services that its configuration has.
    pub fn new(me: NodeId, config: impl Into<Arc<Config>>, seed: [u8; 32], now: Time) -> Node {
        let config = config.into();
        let table = Table::of(services::FULL, &config, &seed);
        let swarm = settings::settings_of(me, &config);
        Node { dials: Some(dials::Dials::default()), ..Node::with(me, config, seed, now, table, swarm) }
    }

    /// A node for where nobody can dial it, and it dials nobody but its gateway: a page. It lends, sells, and
    /// is found through its gateway.
    pub fn guest(me: NodeId, config: impl Into<Arc<Config>>, seed: [u8; 32], now: Time) -> Node {
        let config = config.into();
        let table = Table::of(services::GUEST, &config, &seed);
        let swarm = settings::settings_of_guest(&config);
        Node::with(me, config, seed, now, table, swarm)
    }

    fn with(me: NodeId, config: Arc<Config>, seed: [u8; 32], now: Time, table: Table, swarm: Swarm) -> Node {
        let hello = Hello {
            name: config.name.clone(),
            platform: config.platform,
            gateway: config.gateway,
            invite: config.invited_with.clone(),
            dialable: if config.port.is_some() { Dialable::Unknown } else { Dialable::No },
            seen: None,
            web: config.web.clone(),
            swarm,
            speaks: table.services(),
        };
        let room = Room { peers: config.limits.peers, guests: config.limits.guests };
        let neighbours = Neighbours::new(hello, config.invite.clone(), room);
        Node {
            me,
            now,
            started: false,
            wake: None,
            alarms: alarms::Alarms::default(),
            faults: faults::Faults::default(),
            dials: None,
            holds: follow::Holds::default(),
            neighbours: Seated::new(neighbours, &seed),
            table,
            searches: search::Searches::default(),
            steps: VecDeque::new(),
            budget: budget::Budget::default(),
            able: able::Able::of(&config),
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

    fn row(&self, of: ServiceId) -> Option<&'static Row> {
        match of {
            ServiceId::Neighbours => Some(&Neighbours::ROW),
            of => self.table.row(of),
        }
    }

    fn peers(&self) -> &Peers {
        self.neighbours.machine.state().peers()
    }

    /// Sends a message to a peer, or takes it in at once if it is for this node.
    fn send<M: Framed + Send + 'static>(&mut self, to: NodeId, message: M, host: &mut dyn Host) {
        let service = message.service();
        if to == self.me {
            if let Some(row) = self.row(service) {
                (row.from_self)(self, Box::new(message), host);
            }
            return;
        }
        if self.peers().get(to).is_some_and(|known| !known.speaks.has(service)) {
            // It would drop the frame.
            return;
        }
        match wire::encode(service, &message) {
            Some(bytes) => self.transmit(to, service, bytes, host),
            None => host.event(host::NodeEvent::Trouble {
                what: format!(
                    "a message to {} was longer than {} bytes and was not sent; please report this",
                    to.short(),
                    wire::MAX_FRAME
                ),
            }),
        }
    }

    fn transmit(&mut self, to: NodeId, service: ServiceId, frame: bytes::Bytes, host: &mut dyn Host) {
        match self.dials.as_mut().filter(|dials| dials.is_under_way(to)) {
            Some(dials) => dials.keep(to, service.channel(), frame),
            None => host.transmit(to, service.channel(), frame),
        }
    }
}
