//! One task owns the node; links, Workers, timers and the page talk to it.

#[cfg(feature = "submits")]
pub(crate) mod jobs;
mod start;

pub(crate) use start::start;

use crate::browser;
use crate::host::WebHost;
use crate::settings;
use crate::socket::address_of;
use crate::workers::Heard;
use futures::channel::mpsc;
use futures::future::poll_fn;
use futures::{FutureExt, StreamExt, ready, select_biased};
use gloo_timers::future::TimeoutFuture;
use link::{Events, LinkEvent};
use node_core::address::Ip;
use node_core::money::Micro;
use node_core::overlay::circuits::ends as circuits;
use node_core::overlay::signalling::SessionId;
use node_core::{BlobId, Carrier, Command, EngineReply, Node, NodeEvent, NodeInput, StorageReply, Time};
use std::task::{Context, Poll};
use std::time::Duration;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use web_driver::join::{Join, Step};
use web_driver::policy::{Known, Setting, Tab};
use web_driver::pool::MAX_SLOTS;
use web_driver::speed::Measure;
use web_driver::status::{self, Sales, State, Throttle};

/// Events of one kind handled before others get their turn.
const BATCH: usize = 64;

/// While units run, the page is told of their progress though nothing else happens.
const PROGRESS: Duration = Duration::from_secs(1);

/// Time for which an error stays on the page, unless another one replaces it.
const TROUBLE_SHOWN: Duration = Duration::from_secs(30);

/// Shown while another gateway speaks for this node.
const OWN_GATEWAY_AWAY: &str =
    "The gateway of this page cannot be reached. The tab works for others, and goes on trying.";

/// Between two looks at the clock. Our choice: hours count in minutes, and a tab that rests should
/// seldom wake.
const LOOK: Duration = Duration::from_secs(5);

/// Between two looks at what is on its account, and until one after a unit has ended: its owner
/// settles within a second or two.
const BALANCE: Duration = Duration::from_secs(60);
const PAID: Duration = Duration::from_secs(3);

/// Good-byes and last results have this long once nothing is left to hand on. The page waits
/// 300 ms longer than it said.
const GOODBYE: Duration = Duration::from_millis(200);

/// Longest time for handing work on. Our choice: a person who pressed Stop waits for it.
const MAX_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Options {
    pub(crate) gateway: String,
    pub(crate) slots: u32,
    pub(crate) name: String,
    pub(crate) invite: Option<String>,
    pub(crate) policy: Vec<(String, Setting)>,
    pub(crate) known: Known,
    /// Speed of a slot, fuel a second; `None` if it is to be measured.
    pub(crate) speed: Option<u64>,
    /// The page makes data channels.
    pub(crate) channels: bool,
}

/// Inputs of the node's task beside links and Workers.
pub(crate) enum Input {
    Slots(u32),
    Policy(Vec<(String, Setting)>),
    Known(Known),
    /// Hand everything on and end, after this time at the latest.
    Stop(Duration),
    /// The gateway's addresses.
    Asked(Result<Vec<String>, String>),
    /// The page's word on an end of a data channel.
    Channel(JsValue),
    /// The channel of this session is open.
    Opened(SessionId),
    /// The link's word on an end of a circuit.
    Circuit(circuits::Reply),
    /// The answer of storage, now that its changes are durable.
    Saved(StorageReply),
    /// The person's word on a job of its own.
    #[cfg(feature = "submits")]
    Job(jobs::Wish),
}

struct Driver {
    /// Policy of the donor, and when it was last held against the clock.
    tab: Tab,
    looked: Option<Time>,
    /// How fast a slot is, is still to be measured.
    measure: Option<Measure>,
    /// Balance of the node's account, when to ask again, and units done when the node last asked.
    balance: Option<Micro>,
    ask: Option<Time>,
    done: u64,
    node: Node,
    host: WebHost,
    join: Join,
    gateway: String,
    throttle: Throttle,
    /// When the page was last told.
    told: Time,
    /// Last error with units in this tab, and when it came.
    trouble: Option<(Time, String)>,
    /// It takes no more work, and ends when it has none, or then.
    leaves: Option<Time>,
    inputs: mpsc::UnboundedSender<Input>,
    #[cfg(feature = "submits")]
    jobs: jobs::Jobs,
}

impl Driver {
    async fn run(
        mut self,
        mut events: Events,
        mut heard: mpsc::UnboundedReceiver<Heard>,
        mut inputs: mpsc::UnboundedReceiver<Input>,
        blobs: Vec<(BlobId, u64)>,
    ) {
        let stored = NodeInput::Command(Command::BlobsStored(blobs));
        // An owner has blobs wait until it has read its jobs, and finds them here then. Without one, those of units
        // that ran here are asked for first, so that they are not taken for spare ones.
        let first =
            if cfg!(feature = "submits") { [stored, NodeInput::Wake] } else { [NodeInput::Wake, stored] };
        first.into_iter().for_each(|input| self.drive(input));
        self.drive(NodeInput::WallClock(browser::wall_clock_ms()));
        self.throttle.touch();
        let mut alarm = Alarm::default();
        loop {
            self.wake();
            if self.is_through() {
                return self.end(events).await;
            }
            alarm.set(browser::now(), self.deadline());
            let mut rings = poll_fn(|cx| alarm.poll(cx)).fuse();
            select_biased! {
                input = inputs.next() => match input {
                    Some(Input::Slots(n)) => {
                        self.tab.give(n.min(MAX_SLOTS));
                        self.look();
                    }
                    Some(Input::Policy(set)) => {
                        self.tab.set(set);
                        self.look();
                    }
                    Some(Input::Known(known)) => {
                        self.tab.know(known);
                        self.look();
                    }
                    Some(Input::Asked(answer)) => {
                        let answer = answer.map(|addresses| canonical(&addresses));
                        let step = self.join.asked(browser::now(), browser::random_u32(), answer);
                        self.step(step);
                    }
                    Some(Input::Channel(message)) => {
                        let reply = self.host.channels.said(&message);
                        self.host.inputs.extend(reply.map(NodeInput::DataChannel));
                        self.feed();
                    }
                    Some(Input::Opened(session)) => {
                        let reply = self.host.channels.opened(session);
                        self.host.inputs.extend(reply.map(NodeInput::DataChannel));
                        self.feed();
                    }
                    Some(Input::Circuit(reply)) => self.drive(NodeInput::Circuit(reply)),
                    Some(Input::Saved(reply)) => self.drive(NodeInput::Storage(reply)),
                    #[cfg(feature = "submits")]
                    Some(Input::Job(wish)) => self.wish(wish),
                    Some(Input::Stop(patience)) => self.leave(patience.min(MAX_PATIENCE)),
                    None => return self.end(events).await,
                },
                said = heard.next() => {
                    let mut next = said;
                    for _ in 0..BATCH {
                        let Some(said) = next else { break };
                        self.host.heard(browser::now(), said);
                        next = heard.try_recv().ok();
                    }
                    self.feed();
                }
                event = events.next().fuse() => {
                    let Some(event) = event else { return };
                    self.link(event);
                    for _ in 1..BATCH {
                        let Some(event) = events.try_recv() else { break };
                        self.link(event);
                    }
                    self.feed();
                }
                () = rings => {}
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        let progress = self.host.is_busy().then(|| self.told + PROGRESS);
        let look = self.looked.map_or(Time::ZERO, |at| at + LOOK);
        let all = [
            self.host.deadline(),
            self.join.deadline(),
            self.throttle.deadline(),
            progress,
            self.leaves,
            Some(look),
            self.node.relay().and(self.ask),
        ];
        all.into_iter().flatten().min()
    }

    /// Does whatever is due.
    fn wake(&mut self) {
        let now = browser::now();
        if self.host.wake.is_some_and(|at| at <= now) {
            self.drive(NodeInput::Wake);
        }
        self.host.wake_pool(now);
        self.feed();
        if self.looked.is_none_or(|at| at + LOOK <= now) {
            self.look();
        }
        let step = self.join.wake(now, browser::random_u32());
        self.step(step);
        self.trade(now);
        if self.host.is_busy() && now >= self.told + PROGRESS {
            self.throttle.touch();
        }
        if self.throttle.take(now) {
            self.told = now;
            let work = self.node.work(now);
            let trouble = self.trouble.as_ref().filter(|(at, _)| *at + TROUBLE_SHOWN > now);
            let (state, detail) = match (self.join.state(), trouble) {
                (State::Connected, Some((_, what))) => (State::Connected, what.as_str()),
                (State::Connecting | State::Offline, _) if self.node.relay().is_some() => {
                    (State::Connected, OWN_GATEWAY_AWAY)
                }
                (state, _) => (state, self.join.detail()),
            };
            browser::post_json(&status::to_json(state, detail, self.node.id(), &work, self.sales()));
            #[cfg(feature = "submits")]
            self.show_jobs();
        }
    }

    /// Does the work of a node whose gateway sells for it: measure the speed, ask for the balance.
    fn trade(&mut self, now: Time) {
        while let Some(reply) = self.host.measured.pop_front() {
            self.measured(now, &reply);
        }
        if self.node.relay().is_none() {
            // The next gateway is asked for the balance at once.
            self.ask = None;
            return;
        }
        // In a pause, so that it takes nothing from anybody.
        let pause = !self.host.is_busy() && self.tab.lends();
        if let Some(measure) = self.measure.as_mut().filter(|measure| pause && measure.is_new()) {
            let run = measure.again();
            self.host.measure(now, run);
            self.feed();
        }
        let done = self.node.work(now).units_done;
        if done != self.done {
            self.done = done;
            self.ask = Some(self.ask.map_or(now, |ask| ask.min(now + PAID)));
        }
        if self.ask.is_none_or(|ask| ask <= now) {
            self.ask = Some(now + BALANCE);
            self.drive(NodeInput::Command(Command::Balance));
        }
    }

    fn measured(&mut self, now: Time, reply: &EngineReply) {
        let Some(measure) = &mut self.measure else { return };
        match measure.ended(reply) {
            Ok(Err(run)) => self.host.measure(now, run),
            Ok(Ok(speed)) => {
                self.measure = None;
                self.tab.measured(speed);
                self.look();
            }
            Err(why) => {
                self.measure = None;
                browser::warn(&format!(
                    "this tab sells nothing, since its speed could not be measured: {why}"
                ));
            }
        }
        self.feed();
    }

    fn sales(&self) -> Option<Sales> {
        let cost = self.tab.sells_at().filter(|_| self.node.relay().is_some())?;
        let balance = self.balance.map(|balance| balance.0);
        Some(Sales { cost, listed: self.node.is_listed(), balance })
    }

    fn drive(&mut self, input: NodeInput) {
        self.host.inputs.push_back(input);
        self.feed();
    }

    /// Feeds the node until nothing is left.
    fn feed(&mut self) {
        loop {
            let now = browser::now();
            while let Some(input) = self.host.inputs.pop_front() {
                self.host.now = now;
                self.node.drive(now, input, &mut self.host);
            }
            self.host.settle(now);
            if self.host.inputs.is_empty() {
                break;
            }
        }
        while let Some(event) = self.host.events.pop_front() {
            self.event(event);
        }
    }

    fn event(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::WorkChanged => {}
            NodeEvent::Balance(balance) => {
                self.balance = Some(balance);
                #[cfg(feature = "submits")]
                self.jobs.change();
            }
            NodeEvent::NodesChanged => {
                if !self.node.work(browser::now()).gateways.is_empty() {
                    self.join.accepted();
                }
            }
            NodeEvent::Rejected { reason, .. } => self.join.rejected(&reason),
            NodeEvent::Full { gateways, .. } => {
                let addresses = gateways.iter().filter_map(|it| {
                    let peer = link::peer_id(&it.contact.id)?;
                    Some(format!("{}/p2p/{peer}", it.for_pages()?))
                });
                let addresses: Vec<String> = addresses.collect();
                self.join.full(canonical(&addresses));
            }
            NodeEvent::Trouble { what } => {
                browser::warn(&what);
                self.trouble = Some((browser::now(), what));
            }
            NodeEvent::PeerFault { peer, fault } => {
                return browser::warn(&format!("{}: {fault}", peer.short()));
            }
            #[cfg(feature = "submits")]
            event if self.is_of_a_job(&event) => {}
            _ => return,
        }
        self.throttle.touch();
    }

    fn link(&mut self, event: LinkEvent) {
        let (now, random) = (browser::now(), browser::random_u32());
        match event {
            LinkEvent::Frame { from, channel, bytes } => {
                return self.host.inputs.push_back(NodeInput::Received { from, channel, bytes });
            }
            LinkEvent::Connected { peer, over: over @ (Carrier::DataChannel | Carrier::Relay), .. } => {
                self.host.channels.connected(peer, true);
                self.host.inputs.push_back(NodeInput::Connected { peer, ip: None, joined: false, over });
            }
            LinkEvent::Quiet { peer } => self.host.inputs.push_back(NodeInput::Quiet { peer }),
            LinkEvent::Disconnected { peer, reason } if self.host.channels.has(peer) => {
                self.host.channels.gone(peer);
                self.drive(NodeInput::Disconnected { peer, reason }); // before a next connection takes its frames
            }
            LinkEvent::DialFailed { addr, .. } if link::is_relayed(&addr) => {}
            LinkEvent::DialFailed { peer: Some(peer), addr, .. } if link::is_pipe(&addr) => {
                self.host.inputs.push_back(NodeInput::DialFailed { peer });
            }
            LinkEvent::Connected { peer, ip, over, .. } => {
                self.host.channels.connected(peer, false);
                self.join.connected();
                self.host.inputs.push_back(NodeInput::Connected {
                    peer,
                    ip: ip.map(Ip::from),
                    joined: true,
                    over,
                });
            }
            LinkEvent::Disconnected { peer, reason } => {
                // The node may have said why before: that is worth more than what follows.
                self.drive(NodeInput::Disconnected { peer, reason: reason.clone() });
                let step = self.join.disconnected(now, random, &reason);
                self.step(step);
            }
            LinkEvent::Fault { what, .. } => {
                let step = self.join.dial_failed(now, random, &what, None);
                self.step(step);
            }
            LinkEvent::DialFailed { addr, reason, .. } => {
                let step = self.join.dial_failed(now, random, &reason, Some(&addr.to_string()));
                self.step(step);
            }
            LinkEvent::Probed { .. } | LinkEvent::Listening { .. } | LinkEvent::ListeningEnded { .. } => {
                return;
            }
        }
        self.throttle.touch();
    }

    fn step(&mut self, step: Option<Step>) {
        let Some(step) = step else { return };
        self.throttle.touch();
        match step {
            Step::Ask => {
                let (gateway, inputs) = (self.gateway.clone(), self.inputs.clone());
                spawn_local(async move {
                    let answer = browser::ask_gateway(&gateway).await;
                    drop(inputs.unbounded_send(Input::Asked(answer)));
                });
            }
            Step::Dial(address) => {
                let dialled = match address_of(&address) {
                    Some(parsed) => self.host.link.dial(parsed).map_err(|e| e.to_string()),
                    None => Err("this is no address that a browser can dial".into()),
                };
                if let Err(reason) = dialled {
                    let random = browser::random_u32();
                    let step = self.join.dial_failed(browser::now(), random, &reason, None);
                    self.step(step);
                }
            }
        }
    }

    /// Holds the donor's policy against what is known now, and does what follows.
    fn look(&mut self) {
        self.looked = Some(browser::now());
        let acts = self.tab.act(settings::clock());
        if let Some(percent) = acts.share {
            self.host.set_share(percent);
        }
        for command in acts.commands {
            self.drive(NodeInput::Command(command));
            self.throttle.touch();
        }
        if let Some(message) = acts.message {
            browser::post_json(&message);
        }
    }

    /// Hands everything on. Tasks compute until they are suspended.
    fn leave(&mut self, patience: Duration) {
        let until = browser::now() + patience;
        if self.leaves.is_none() {
            self.drive(NodeInput::Command(Command::Drain));
        }
        self.leaves = Some(self.leaves.map_or(until, |leaves| leaves.min(until)));
    }

    /// Whether it is to leave, and nothing is left here that could still be handed on.
    fn is_through(&self) -> bool {
        let Some(until) = self.leaves else { return false };
        let now = browser::now();
        now >= until || self.node.is_drained() || self.node.work(now).gateways.is_empty()
    }

    /// Ends whatever still runs, and says good-bye.
    async fn end(mut self, mut events: Events) {
        self.host.end_workers();
        for gateway in self.node.work(browser::now()).gateways {
            self.host.link.disconnect(gateway, "its person stopped it");
        }
        let mut patience = browser::delay(GOODBYE).fuse();
        while !self.node.work(browser::now()).gateways.is_empty() {
            // Queued messages go out before a connection ends.
            select_biased! {
                event = events.next().fuse() => {
                    if matches!(event, None | Some(LinkEvent::Disconnected { .. })) {
                        break;
                    }
                }
                () = patience => break,
            }
        }
        browser::post_stopped();
    }
}

/// One timer for the earliest deadline.
#[derive(Default)]
struct Alarm {
    set: Option<(Time, TimeoutFuture)>,
}

impl Alarm {
    /// Rings at `at` or earlier: a timer that is set is kept, since making one costs more than
    /// a needless wake-up.
    fn set(&mut self, now: Time, at: Option<Time>) {
        let Some(at) = at else { return };
        if self.set.as_ref().is_none_or(|(set, _)| *set > at || *set <= now) {
            self.set = Some((at, browser::delay(at.since(now))));
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((_, delay)) = &mut self.set else { return Poll::Pending };
        ready!(delay.poll_unpin(cx));
        self.set = None;
        Poll::Ready(())
    }
}

/// As the links write them, so that a failure is recognised.
fn canonical(addresses: &[String]) -> Vec<String> {
    addresses.iter().filter_map(|a| address_of(a)).map(|a| a.to_string()).collect()
}
