//! `bench link`: what a connection carries, by what it runs over.
//!
//! Two nodes' networks in this process, and in tabs of a real Chromium ([`super::link_tabs`]), on this machine's own
//! address: sockets, handshake and framing are real, and there is no distance between them.

use super::link_tabs::Tabs;
use super::{least, median, most, report, rounded};
use crate::cli::args::BenchCommon;
use crate::cli::failure::Failure;
use crate::cli::progress::say;
use crate::net::{Answer, Channels, Net, NetOptions, introduce};
use libp2p::Multiaddr;
use libp2p::identity::Keypair;
use link::trial::{self, Figures};
use link::{Events, Link, LinkEvent};
use node_core::Carrier;
use node_core::overlay::signalling::{Reply, Request, Role, SessionId};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const RUNS: u32 = 10;
/// A connection that takes longer carries nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// The ends of a connection, and what it runs over.
#[derive(Clone, Copy)]
enum Pair {
    Native(Carrier),
    /// A data channel to a tab, or between two.
    NativeTab,
    TabTab,
}

const NATIVE: [(&str, Pair); 4] = [
    ("tcp", Pair::Native(Carrier::Tcp)),
    ("ws", Pair::Native(Carrier::WebSocket)),
    ("webrtc native-native", Pair::Native(Carrier::DataChannel)),
    ("relay", Pair::Native(Carrier::Relay)),
];
const TABS: [(&str, Pair); 2] = [("webrtc native-tab", Pair::NativeTab), ("webrtc tab-tab", Pair::TabTab)];

pub(super) fn run(browser: bool, common: &BenchCommon) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::failed(format!("this system gives no threads for the benchmark: {e}")))?;
    let mut tabs = browser.then(Tabs::open).transpose()?;
    let pairs = NATIVE.iter().chain(TABS.iter().filter(|_| browser));
    let mut rows = Vec::new();
    for (name, pair) in pairs {
        let mut runs = Vec::new();
        for _ in 0..common.runs.unwrap_or(RUNS) {
            let measured = async { tokio::time::timeout(PATIENCE, measure(*pair, tabs.as_mut())).await };
            let late = |_| Failure::failed(format!("{name}: nothing came within {} s", PATIENCE.as_secs()));
            runs.push(runtime.block_on(measured).map_err(late)??);
        }
        let all = |pick: fn(&Measured) -> f64| -> Vec<f64> { runs.iter().map(pick).collect() };
        let (rates, rtts) = (all(|it| it.figures.mb_per_s), all(|it| it.figures.rtt_ms));
        let connects = all(|it| it.connect_ms);
        if !common.json {
            say(&format!("{name}: {:.1} MB/s", median(rates.clone())));
        }
        rows.push(json!({
            "carrier": name,
            "mb_per_s": rounded(median(rates.clone()), 1),
            "mb_per_s_min": rounded(least(&rates), 1),
            "rtt_ms": rounded(median(rtts), 3),
            "connect_ms": rounded(median(connects.clone()), 1),
            "connect_ms_max": rounded(most(&connects), 1),
        }));
    }
    report(&[("rows", Value::Array(rows))], common)
}

/// Numbers of one run.
pub(super) struct Measured {
    pub(super) figures: Figures,
    pub(super) connect_ms: f64,
}

/// Network of a node, with the words of its data channels.
pub(super) struct Side {
    pub(super) link: Link,
    pub(super) events: Source,
    pub(super) channels: Option<Channels>,
    pub(super) replies: UnboundedReceiver<Reply>,
}

/// Where events of the side's link come from.
pub(super) enum Source {
    Link(Events),
    /// Those that the task with its ends of circuits leaves.
    Task(UnboundedReceiver<LinkEvent>),
}

impl Source {
    pub(super) async fn recv(&mut self) -> Option<LinkEvent> {
        match self {
            Source::Link(events) => events.recv().await,
            Source::Task(events) => events.recv().await,
        }
    }
}

pub(super) async fn side() -> Result<Side, Failure> {
    let (sender, replies) = unbounded_channel();
    let answer: Answer = Arc::new(move |reply| drop(sender.send(reply)));
    let listen = ["/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/tcp/0/ws"].map(str::parse::<Multiaddr>);
    let options = NetOptions {
        listen: listen.into_iter().flatten().collect(),
        channels: Some(answer),
        ..NetOptions::default()
    };
    let net = crate::net::start(&Keypair::generate_ed25519(), options).await;
    let Net { link, events, channels, .. } = net.map_err(|e| Failure::failed(e.to_string()))?;
    Ok(Side { link, events: Source::Link(events), channels, replies })
}

async fn measure(pair: Pair, tabs: Option<&mut Tabs>) -> Result<Measured, Failure> {
    let carrier = match (pair, tabs) {
        (Pair::Native(carrier), _) => carrier,
        (Pair::NativeTab, Some(tabs)) => return tabs.with_native(side().await?).await,
        (Pair::TabTab, Some(tabs)) => return tabs.between(),
        (_, None) => return Err(Failure::failed("no browser was started")),
    };
    if carrier == Carrier::Relay {
        let (relay, a, b) = super::relay::start().await?;
        let [mut a, mut b] = [a, b].map(|(link, events)| {
            let (_, replies) = unbounded_channel();
            Side { link, events: Source::Task(events), channels: None, replies }
        });
        let began = Instant::now();
        relay.connect();
        return exchange(began, &mut a, &mut b).await;
    }
    let (mut a, mut b) = (side().await?, side().await?);
    let began = Instant::now();
    connect(carrier, &mut a, &mut b).await?;
    exchange(began, &mut a, &mut b).await
}

/// Measures what goes over between the two, which are being connected since `began`.
async fn exchange(began: Instant, a: &mut Side, b: &mut Side) -> Result<Measured, Failure> {
    let (of_a, of_b) = (a.link.id(), b.link.id());
    trial::connected(async || a.events.recv().await).await.map_err(Failure::failed)?;
    trial::connected(async || b.events.recv().await).await.map_err(Failure::failed)?;
    let connect_ms = millis(began);
    let leads = trial::lead(&a.link, of_b, async || a.events.recv().await, || millis(began));
    let follows = trial::follow(&b.link, of_a, async || b.events.recv().await);
    let (figures, ()) = tokio::try_join!(leads, follows).map_err(Failure::failed)?;
    Ok(Measured { figures, connect_ms })
}

pub(super) fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

async fn connect(carrier: Carrier, a: &mut Side, b: &mut Side) -> Result<(), Failure> {
    if carrier == Carrier::DataChannel {
        let (Some(of_a), Some(of_b)) = (&a.channels, &b.channels) else {
            return Err(Failure::failed("this node has no data channels"));
        };
        let session = SessionId([1; 16]);
        of_a.request(Request::Open { session, peer: b.link.id(), role: Role::Offers, mirror: None });
        of_b.request(Request::Open { session, peer: a.link.id(), role: Role::Answers, mirror: None });
        introduce((of_a, &mut a.replies), (of_b, &mut b.replies), |said| said).await;
        return Ok(());
    }
    let port = match carrier {
        Carrier::WebSocket => crate::net::ws_port,
        _ => crate::net::tcp_port,
    };
    let addresses = b.link.addresses();
    let to = addresses.iter().find(|address| port(address).is_some()).cloned();
    let to = to.ok_or_else(|| Failure::failed("a node does not listen there"))?;
    a.link.dial(to).map_err(|busy| Failure::failed(busy.to_string()))
}
