//! The node's thread.

use super::host::NativeHost;
use super::pulse::Pulse;
use super::refusals::Refusals;
use super::{Item, Parts};
use link::{Events, LinkEvent};
use node_core::address::Ip;
use node_core::{Command, Node, NodeEvent, NodeId, NodeInput, Time};
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{broadcast, mpsc};

/// Items taken from the queue at a time, so that links get their turn.
const BATCH: usize = 256;

/// Link events taken at a time, likewise.
const EVENTS: usize = 64;

/// How often the node is told the wall clock, which only people's records use.
const WALL_CLOCK: Duration = Duration::from_secs(1);

/// Why a connection ends that the policy forbids.
const REFUSED: &str = "the donor's policy refuses this peer";

pub(super) async fn run(
    parts: Parts,
    mut queue: mpsc::UnboundedReceiver<Item>,
    events: broadcast::Sender<NodeEvent>,
    pulse: Pulse,
) {
    let Parts { id, config, seed, storage, engine, net } = parts;
    let (link, mut link_events, channels, circuits) = match net {
        Some(net) => (Some(net.link), Some(net.events), net.channels, net.circuits),
        None => (None, None, None, None),
    };
    let epoch = Instant::now();
    let blobs = storage.blobs();
    let mut driver = Driver {
        epoch,
        node: Node::new(id, config, seed, Time::ZERO),
        host: NativeHost {
            storage,
            engine,
            link,
            channels,
            circuits,
            events,
            wake: None,
            not_dialled: Vec::new(),
            not_probed: Vec::new(),
            refusals: Refusals::default(),
            submitting: HashMap::new(),
        },
        unreached: HashMap::new(),
        pulse,
    };
    driver.drive(wall_clock());
    let stored = blobs.into_iter().map(|blob| (blob.id, blob.len)).collect();
    driver.drive(NodeInput::Command(Command::BlobsStored(stored)));

    let mut clock = tokio::time::interval(WALL_CLOCK);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            taken = queue.recv_many(&mut batch, BATCH) => {
                if taken == 0 {
                    break;
                }
                for item in batch.drain(..) {
                    if driver.item(item).is_break() {
                        driver.host.engine.stop();
                        return;
                    }
                }
            }
            event = next(&mut link_events) => {
                match event {
                    None => link_events = None,
                    Some(event) => {
                        driver.link(event);
                        for _ in 1..EVENTS {
                            let Some(event) = link_events.as_mut().and_then(Events::try_recv) else { break };
                            driver.link(event);
                        }
                    }
                }
            }
            () = sleep_until(driver.wake()) => driver.drive(NodeInput::Wake),
            _ = clock.tick() => driver.drive(wall_clock()),
        }
    }
    driver.host.engine.stop();
}

struct Driver {
    epoch: Instant,
    node: Node,
    host: NativeHost,
    /// Why nobody was reached at an address, so that it is told once and not at each try.
    unreached: HashMap<String, String>,
    pulse: Pulse,
}

impl Driver {
    fn now(&self) -> Time {
        Time(u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn wake(&self) -> Option<Instant> {
        self.host.wake.map(|at| self.epoch + Duration::from_micros(at.0))
    }

    fn drive(&mut self, input: NodeInput) {
        self.pulse.beat();
        let (taken, now) = (Instant::now(), self.now());
        self.node.drive(now, input, &mut self.host);
        while let Some(peer) = self.host.not_dialled.pop() {
            self.node.drive(now, NodeInput::DialFailed { peer }, &mut self.host);
        }
        while let Some(number) = self.host.not_probed.pop() {
            self.node.drive(now, NodeInput::Probed { number, reached: false }, &mut self.host);
        }
        self.pulse.done(taken);
    }

    fn item(&mut self, item: Item) -> std::ops::ControlFlow<()> {
        match item {
            Item::Storage(reply) => self.drive(NodeInput::Storage(reply)),
            Item::Engine(reply) => self.drive(NodeInput::Engine(reply)),
            Item::Circuit(reply) => self.drive(NodeInput::Circuit(reply)),
            Item::DataChannel(reply) => self.drive(NodeInput::DataChannel(reply)),
            Item::Command(command) => self.drive(NodeInput::Command(command)),
            Item::Submit { job, spec, answer } => {
                self.host.submitting.entry(job).or_default().push(answer);
                // To the millisecond, so that lists show jobs in the order in which they came.
                self.drive(wall_clock());
                self.drive(NodeInput::Command(Command::Submit { job, spec: *spec }));
            }
            Item::Read(read) => {
                self.pulse.beat();
                read(&self.node, self.now());
            }
            Item::Share(percent) => self.host.engine.share(percent),
            Item::Refuse(policy) => {
                for peer in self.host.refusals.go_by(policy) {
                    self.let_go(peer);
                }
            }
            Item::Stop => return std::ops::ControlFlow::Break(()),
        }
        std::ops::ControlFlow::Continue(())
    }

    /// Told once in a log of everything: who is refused tries again and again.
    fn let_go(&self, peer: NodeId) {
        tracing::debug!(peer = %peer.short(), REFUSED);
        if let Some(link) = &self.host.link {
            link.disconnect(peer, REFUSED);
        }
    }

    fn link(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Frame { from, .. } if self.host.refusals.is_unheard(from) => {}
            LinkEvent::Frame { from, channel, bytes } => {
                if let Some(link) = &self.host.link {
                    super::lies::heard(link, from, channel, &bytes);
                }
                self.drive(NodeInput::Received { from, channel, bytes });
            }
            LinkEvent::Connected { peer, ip, joined, over } => {
                let ip = ip.map(Ip::from);
                if self.host.refusals.connected(peer, ip) {
                    self.let_go(peer);
                    return;
                }
                tracing::info!(peer = %peer.short(), ?over, "connected");
                self.unreached.clear();
                self.drive(NodeInput::Connected { peer, ip, joined, over });
            }
            LinkEvent::Quiet { peer } => self.drive(NodeInput::Quiet { peer }),
            LinkEvent::Disconnected { peer, reason } => {
                if self.host.refusals.disconnected(peer) {
                    return;
                }
                tracing::info!(peer = %peer.short(), reason, "disconnected");
                self.drive(NodeInput::Disconnected { peer, reason });
            }
            LinkEvent::Probed { number, reached } => self.drive(NodeInput::Probed { number, reached }),
            LinkEvent::Fault { peer, what } => tracing::warn!(peer = %peer.short(), what, "a peer's fault"),
            LinkEvent::Listening { addr } => tracing::debug!(%addr, "listening"),
            LinkEvent::ListeningEnded { addr, reason } => {
                tracing::warn!(%addr, reason, "not listening any more");
            }
            LinkEvent::DialFailed { addr, peer, reason, retry_in } => {
                if let Some(peer) = peer.filter(|_| !link::is_relayed(&addr)) {
                    self.drive(NodeInput::DialFailed { peer });
                }
                if link::is_pipe(&addr) {
                    return tracing::debug!(peer = ?peer.map(|peer| peer.short()), reason, "no connection");
                }
                // As many addresses as there are to join.
                let before = self.unreached.insert(addr.to_string(), reason.clone());
                match retry_in {
                    _ if before.as_ref() == Some(&reason) => {
                        tracing::debug!(%addr, reason, ?retry_in, "nobody reached");
                    }
                    Some(retry_in) => tracing::warn!(%addr, reason, ?retry_in, "nobody reached; trying on"),
                    None => tracing::warn!(%addr, reason, "nobody reached"),
                }
            }
        }
    }
}

fn wall_clock() -> NodeInput {
    // A clock before 1970 is a clock that was never set; records then show 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    NodeInput::WallClock(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

async fn next(events: &mut Option<Events>) -> Option<LinkEvent> {
    match events {
        Some(events) => events.recv().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
