//! `bench link`: what a connection carries, by what it runs over.
//!
//! Two nodes' networks in this process, on this machine's own address: sockets, handshake and framing are real,
//! and there is no distance between them.

use super::{least, median, most, report, rounded};
use crate::cli::args::BenchCommon;
use crate::cli::failure::Failure;
use crate::cli::progress::say;
use crate::net::{Answer, Channels, Net, NetOptions, introduce};
use bytes::Bytes;
use libp2p::Multiaddr;
use libp2p::identity::Keypair;
use link::{Events, Link, LinkEvent};
use node_core::overlay::signalling::{Reply, Request, Role, SessionId};
use node_core::{Carrier, Channel};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const RUNS: u32 = 5;
/// Frames of 1 MiB, the largest there are, one way: some seconds on the slowest carrier.
const FRAMES: usize = 64;
/// Frames of 64 bytes, there and back one after the other.
const ECHOES: usize = 200;
/// A connection that takes longer carries nothing.
const PATIENCE: Duration = Duration::from_secs(60);

const CARRIERS: [(&str, Carrier); 4] = [
    ("tcp", Carrier::Tcp),
    ("ws", Carrier::WebSocket),
    ("webrtc native-native", Carrier::DataChannel),
    ("relay", Carrier::Relay),
];

pub(super) fn run(common: &BenchCommon) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::failed(format!("this system gives no threads for the benchmark: {e}")))?;
    let mut rows = Vec::new();
    for (name, carrier) in CARRIERS {
        let mut runs = Vec::new();
        for _ in 0..common.runs.unwrap_or(RUNS) {
            let measured = runtime.block_on(async { tokio::time::timeout(PATIENCE, measure(carrier)).await });
            let late = |_| Failure::failed(format!("{name}: nothing came within {} s", PATIENCE.as_secs()));
            runs.push(measured.map_err(late)??);
        }
        let all = |pick: fn(&Measured) -> f64| -> Vec<f64> { runs.iter().map(pick).collect() };
        let (rates, rtts, connects) = (all(|it| it.mb_per_s), all(|it| it.rtt_ms), all(|it| it.connect_ms));
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
struct Measured {
    mb_per_s: f64,
    rtt_ms: f64,
    connect_ms: f64,
}

/// Network of a node, with the words of its data channels.
struct Side {
    link: Link,
    events: Source,
    channels: Option<Channels>,
    replies: UnboundedReceiver<Reply>,
}

/// Where events of the side's link come from.
enum Source {
    Link(Events),
    /// Those that the task with its ends of circuits leaves.
    Task(UnboundedReceiver<LinkEvent>),
}

impl Source {
    async fn recv(&mut self) -> Option<LinkEvent> {
        match self {
            Source::Link(events) => events.recv().await,
            Source::Task(events) => events.recv().await,
        }
    }
}

async fn side() -> Result<Side, Failure> {
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

async fn measure(carrier: Carrier) -> Result<Measured, Failure> {
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
    next(a, |event| matches!(event, LinkEvent::Connected { .. })).await?;
    next(b, |event| matches!(event, LinkEvent::Connected { .. })).await?;
    let connect_ms = began.elapsed().as_secs_f64() * 1e3;

    let (of_a, of_b) = (a.link.id(), b.link.id());
    let mut rtts = Vec::with_capacity(ECHOES);
    for _ in 0..ECHOES {
        let began = Instant::now();
        a.link.send(of_b, Channel::Control, Bytes::from_static(&[7; 64]));
        next(b, is_frame).await?;
        b.link.send(of_a, Channel::Control, Bytes::from_static(&[8; 64]));
        next(a, is_frame).await?;
        rtts.push(began.elapsed().as_secs_f64() * 1e3);
    }

    let frame = Bytes::from(vec![9; 1 << 20]);
    let began = Instant::now();
    let (mut sent, mut received) = (0, 0);
    while received < FRAMES {
        // As much as a peer asks for at a time.
        while sent < FRAMES && sent < received + 8 {
            a.link.send(of_b, Channel::Blob, frame.clone());
            sent += 1;
        }
        next(b, is_frame).await?;
        received += 1;
    }
    let mb_per_s = (FRAMES << 20) as f64 / 1e6 / began.elapsed().as_secs_f64();
    Ok(Measured { mb_per_s, rtt_ms: median(rtts), connect_ms })
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

fn is_frame(event: &LinkEvent) -> bool {
    matches!(event, LinkEvent::Frame { .. })
}

/// Waits for such an event of the side's link.
async fn next(side: &mut Side, wanted: impl Fn(&LinkEvent) -> bool) -> Result<(), Failure> {
    loop {
        match side.events.recv().await {
            Some(LinkEvent::Disconnected { reason, .. } | LinkEvent::DialFailed { reason, .. }) => {
                return Err(Failure::failed(format!("the connection failed: {reason}")));
            }
            Some(event) if wanted(&event) => return Ok(()),
            Some(_) => {}
            None => return Err(Failure::failed("the link has ended")),
        }
    }
}
