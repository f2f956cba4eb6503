//! One node with a disk and an engine that do as they are told, and peers that are not.

use crate::golden;
use bytes::Bytes;
use node_core::address::{Contact, Dialable, Ip};
use node_core::bounds::Bounds;
use node_core::content::BlobRef;
use node_core::disk::StorageRequest;
use node_core::engine::{NoSnapshot, NotRunnable, Taken};
use node_core::files::FilesConfig;
use node_core::goods::Goods;
use node_core::goods::Kind;
use node_core::keys::Secret;
use node_core::ledger::books::Rules;
use node_core::market::MarketConfig;
use node_core::money::{Micro, Price};
use node_core::node::config::{BankPart, MarketPart, RecordsPart};
use node_core::node::host::Host;
use node_core::node::message::Message;
use node_core::overlay::neighbours::{Hello, Message as Greeting};
use node_core::overlay::ring::RingConfig;
use node_core::overlay::swarm::Swarm;
use node_core::records::RecordsConfig;
use node_core::ticket::Services;
use node_core::work::message::{Message as Work, ToOwner};
use node_core::work::spec::{CheckpointEvery, JobSpec, OwnedBy, Units};
use node_core::{
    BlobId, Carrier, Channel, Command, Config, EngineReply, EngineRequest, JobId, Node, NodeEvent, NodeId,
    NodeInput, Platform, RunId, Time,
};
use sandbox::{End, Outcome};
use simulator::disk::Disk;
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub(crate) const CLOCK: u64 = 1_700_000_000_000;

/// The job of the golden frames.
pub(crate) const JOB: JobId = JobId([2; 16]);

/// Wake-ups of a node in one wait: more is a timer that fires itself.
const WAKES: u32 = 20_000;

/// Peers beside the node. The first is a gateway, the second can be dialled, the last is a guest.
pub(crate) const PEERS: usize = 3;

static SECRETS: LazyLock<Vec<Secret>> =
    LazyLock::new(|| (0..=PEERS as u8).map(|n| Secret::from_bytes(&[n + 1; 32])).collect());

/// The node's own is 0.
pub(crate) fn secret(who: usize) -> &'static Secret {
    &SECRETS[who % SECRETS.len()]
}

pub(crate) fn cast() -> &'static [NodeId] {
    static IDS: LazyLock<Vec<NodeId>> = LazyLock::new(|| SECRETS.iter().map(Secret::node).collect());
    &IDS
}

pub(crate) fn contact(who: usize) -> Contact {
    let ip = Ip::from(IpAddr::from([10, 0, 0, who as u8 + 1]));
    Contact { ip, id: cast()[who], port: 4001 }
}

/// The role of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Everything at once: gateway with jobs, bank, owner of all markets, of the ring and of all records.
    Gateway,
    /// Runs units of the first peer's, sells, keeps checkpoints and files.
    Runner,
    /// Owns units on the ring, and has left something for its next life.
    Member,
    /// A page.
    Guest,
}

impl State {
    pub(crate) const ALL: [State; 4] = [State::Gateway, State::Runner, State::Member, State::Guest];

    pub(crate) fn config(self) -> Config {
        let gateway = self == State::Gateway;
        let guest = self == State::Guest;
        let market = MarketPart { config: Arc::new(MarketConfig::default()), secret: secret(0).clone() };
        let bank = cast()[if gateway { 0 } else { 1 }];
        let bank = BankPart {
            secret: secret(0).clone(),
            bank: Some(bank),
            rules: gateway.then(|| Rules { stewards: [cast()[2]].into(), ..Rules::default() }),
        };
        let records = RecordsPart { config: Arc::new(RecordsConfig::default()), secret: secret(0).clone() };
        let port = (!guest).then_some(4001);
        let limits = Bounds {
            delegated_units: 100,
            left_bytes: if gateway { 0 } else { 1 << 20 },
            kept_bytes: 1 << 20,
            kept_bytes_per_owner: 1 << 19,
            overrun_panics: true,
            ..Bounds::default()
        };
        Config {
            name: "desk".into(),
            platform: if guest { Platform::Browser } else { Platform::Native },
            gateway,
            founds: gateway,
            first_ip: gateway.then(|| contact(0).ip),
            port,
            slots: if gateway { 1 } else { 4 },
            ring: Some(Arc::new(RingConfig::default())),
            market: Some(market),
            bank: Some(bank),
            records: Some(records),
            signalling: Some(secret(0).clone()),
            files: Some(Arc::new(FilesConfig::giving(1 << 20))),
            limits: limits.into(),
            ..Config::default()
        }
    }
}

pub(crate) struct Desk {
    pub(crate) node: Node,
    pub(crate) around: Around,
    pub(crate) now: Time,
    pub(crate) state: State,
}

/// A driver that does as the node wants.
#[derive(Default)]
pub(crate) struct Around {
    pub(crate) disk: Disk,
    replies: VecDeque<NodeInput>,
    runs: VecDeque<(RunId, bool)>,
    /// Peers that are connected.
    pub(crate) here: BTreeSet<NodeId>,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) dialled: u64,
    pub(crate) probed: u64,
    pub(crate) events: u64,
    pub(crate) faults: u64,
    /// Bytes that are said of faults and troubles.
    pub(crate) said: u64,
    wake: Option<Time>,
}

impl Host for Around {
    fn transmit(&mut self, to: NodeId, _: Channel, bytes: Bytes) {
        if self.here.contains(&to) {
            self.frames += 1;
            self.bytes += bytes.len() as u64;
        }
    }

    fn dial(&mut self, contact: Contact) {
        self.dialled += 1;
        self.replies.push_back(NodeInput::DialFailed { peer: contact.id });
    }

    fn probe(&mut self, number: u64, _: Contact) {
        self.probed += 1;
        self.replies.push_back(NodeInput::Probed { number, reached: number.is_multiple_of(2) });
    }

    fn disconnect(&mut self, peer: NodeId, reason: &str) {
        self.said += reason.len() as u64;
        if self.here.remove(&peer) {
            self.replies.push_back(NodeInput::Disconnected { peer, reason: reason.into() });
        }
    }

    fn wake_at(&mut self, at: Option<Time>) {
        self.wake = at;
    }

    fn storage(&mut self, request: StorageRequest) {
        if let Some(reply) = self.disk.take(request) {
            self.disk.sync(&reply);
            self.replies.push_back(NodeInput::Storage(reply));
        }
    }

    fn engine(&mut self, request: EngineRequest) {
        match request {
            EngineRequest::Run { run, .. } => self.runs.push_back((run, false)),
            EngineRequest::Prepare { run, .. } => self.runs.push_back((run, true)),
            EngineRequest::Kill { run } => self.runs.retain(|(known, _)| *known != run),
            EngineRequest::Snapshot { run, stop } => {
                let taken = match run.0 % 3 {
                    0 => Err(NoSnapshot::NotBegun),
                    1 => Err(NoSnapshot::Immobile("not now".into())),
                    _ => {
                        let bytes = Bytes::from(run.0.to_le_bytes().to_vec());
                        Ok(Taken {
                            blob: BlobRef::of(&bytes),
                            bytes,
                            base: None,
                            root: [3; 32],
                            fuel: 7,
                            pause_us: 9,
                            marks: None,
                        })
                    }
                };
                let stopped = stop && !matches!(taken, Err(NoSnapshot::Immobile(_)));
                if stopped {
                    self.runs.retain(|(known, _)| *known != run);
                }
                let reply = EngineReply::Snapshot { run, taken, stopped };
                self.replies.push_back(NodeInput::Engine(reply));
            }
            EngineRequest::Inspect { number, program, .. } => {
                let result =
                    if program.0[0] % 2 == 1 { Ok(()) } else { Err(NotRunnable::Refused("is none".into())) };
                self.replies.push_back(NodeInput::Engine(EngineReply::Inspected { number, result }));
            }
            EngineRequest::Pause { .. } | EngineRequest::Slots(_) | EngineRequest::Letters { .. } => {}
        }
    }

    fn event(&mut self, event: NodeEvent) {
        self.events += 1;
        match event {
            NodeEvent::PeerFault { fault, .. } => {
                self.faults += 1;
                self.said += fault.len() as u64;
            }
            NodeEvent::Trouble { what } => self.said += what.len() as u64,
            NodeEvent::Rejected { reason, .. } => self.said += reason.len() as u64,
            _ => {}
        }
    }
}

impl Desk {
    /// A node that has read its disk, with its peers around it.
    pub(crate) fn new(state: State) -> Desk {
        let mut desk = Desk::bare(state, Disk::default());
        for who in 1..=PEERS {
            desk.comes(who);
        }
        desk.has_work();
        desk.wait(Duration::from_secs(1));
        desk
    }

    /// The node alone, on this disk.
    pub(crate) fn bare(state: State, disk: Disk) -> Desk {
        let now = Time(1_000_000);
        let node = Node::new(cast()[0], state.config(), [7; 32], now);
        let mut desk = Desk { node, around: Around { disk, ..Around::default() }, now, state };
        desk.drive(NodeInput::WallClock(CLOCK));
        desk
    }

    pub(crate) fn drive(&mut self, input: NodeInput) {
        self.node.drive(self.now, input, &mut self.around);
        while let Some(reply) = self.around.replies.pop_front() {
            self.node.drive(self.now, reply, &mut self.around);
        }
    }

    /// The peer connects and introduces itself.
    pub(crate) fn comes(&mut self, who: usize) {
        let peer = cast()[who];
        if !self.around.here.insert(peer) {
            return;
        }
        self.drive(NodeInput::Connected {
            peer,
            ip: Some(contact(who).ip),
            joined: who == 1,
            over: Carrier::Tcp,
        });
        let guest = who == PEERS;
        let hello = Hello {
            name: "peer".into(),
            platform: if guest { Platform::Browser } else { Platform::Native },
            gateway: who == 1,
            invite: None,
            dialable: if guest { Dialable::No } else { Dialable::At(contact(who)) },
            seen: Some(contact(0).ip),
            web: None,
            swarm: Swarm::default(),
            speaks: Services::ALL,
        };
        self.says(who, &Message::Neighbours(Greeting::Hello(hello)));
    }

    pub(crate) fn goes(&mut self, who: usize) {
        let peer = cast()[who];
        if self.around.here.remove(&peer) {
            self.drive(NodeInput::Disconnected { peer, reason: "it went".into() });
        }
    }

    pub(crate) fn says(&mut self, who: usize, message: &Message) {
        let bytes = message.encode().expect("it is short");
        self.hears(who, message.channel(), bytes);
    }

    pub(crate) fn hears(&mut self, who: usize, channel: Channel, bytes: Bytes) {
        let from = cast()[who];
        if self.around.here.contains(&from) {
            self.drive(NodeInput::Received { from, channel, bytes });
        }
    }

    /// Jobs at a gateway, goods at a seller.
    fn has_work(&mut self) {
        let content = [1, 3, 5, 7, 8].map(|n| (BlobId([n; 32]), if n == 1 { 77 } else { u64::from(n) }));
        for (id, len) in content {
            self.around.disk.put_blob(id, vec![0; len as usize].into());
        }
        self.drive(NodeInput::Command(Command::BlobsStored(content.into())));
        if self.state == State::Gateway {
            for (job, owner) in [(JOB, OwnedBy::Gateway), (JobId([9; 16]), OwnedBy::Ring)] {
                let spec = JobSpec { owner, ..spec() };
                self.drive(NodeInput::Command(Command::Submit { job, spec }));
            }
            self.drive(NodeInput::Command(Command::Invite { number: 1, amount: Micro(1_000_000) }));
        }
        let goods = Goods {
            kind: Kind::Cycles,
            capacity: 1 << 30,
            units: 4,
            minutes: 30,
            cost: Price(5),
            engine: Platform::Native,
            memory_mib: 2048,
        };
        self.drive(NodeInput::Command(Command::Sell(goods)));
    }

    /// Time passes, with all that is due.
    pub(crate) fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        let mut wakes = 0;
        while let Some(at) = self.around.wake.filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.around.wake = None;
            self.drive(NodeInput::Wake);
            wakes += 1;
            assert!(wakes < WAKES, "a timer fires itself: {wakes} wake-ups by {:?}", self.now);
        }
        self.now = until;
    }

    /// Ends the run that has run longest.
    pub(crate) fn ends(&mut self, how: u8) {
        let Some((run, prepared)) = self.around.runs.pop_front() else { return };
        let reply = match how % 4 {
            _ if prepared && how % 4 < 3 => EngineReply::Prepared { run },
            0 | 1 => EngineReply::Ended { run, outcome: Outcome::of(End::Exited(0)) },
            2 => EngineReply::Ended { run, outcome: Outcome::of(End::Trapped("it fell".into())) },
            _ => EngineReply::Broken { run, error: "it broke".into() },
        };
        self.drive(NodeInput::Engine(reply));
    }
}

/// The job of the golden frames, of twenty units that nobody pays for.
fn spec() -> JobSpec {
    let submit = golden::all().iter().find_map(|golden| match &golden.message {
        Message::Work(Work::ToOwner(ToOwner::Submit { spec, .. })) => Some((**spec).clone()),
        _ => None,
    });
    let spec = submit.expect("there is one that submits");
    let mut spec = JobSpec { units: Units::Sweep { first: 0, count: 20 }, find: Default::default(), ..spec };
    spec.template.checkpoint = CheckpointEvery(2_000_000);
    spec.template.limits = sandbox::Limits::default();
    spec
}
