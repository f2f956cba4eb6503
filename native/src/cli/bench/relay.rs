//! A relay of circuits between two nodes in this process: sockets, handshakes, framing and the protocol are real.

use crate::cli::failure::Failure;
use crate::net::{Net, NetOptions};
use bytes::Bytes;
use libp2p::Multiaddr;
use libp2p::identity::Keypair;
use link::{Link, LinkEvent};
use node_core::address::{Contact, Dialable, Ip};
use node_core::overlay::circuits::Message;
use node_core::overlay::circuits::ends::{self, Command, Event};
use node_core::overlay::circuits::relay::CircuitRelay;
use node_core::peers::{Known, Peer, Peers};
use node_core::protocol::{Effect, Input, Machine, Rng};
use node_core::ticket::Services;
use node_core::wire::{self, Framed};
use node_core::{Channel, NodeId, Platform, Time};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Bytes a second: no bound that matters here.
const RATE: u64 = 1 << 40;

/// Has the first of the two connect to the second.
pub(super) struct Relay {
    connect: UnboundedSender<Word>,
    peer: NodeId,
    at: Contact,
}

enum Word {
    Connect(Command),
    Reply(ends::Reply),
}

/// An end, and events that do not concern the circuit itself.
type End = (Link, UnboundedReceiver<LinkEvent>);

impl Relay {
    pub(super) fn connect(&self) {
        let connect = Command::Connect { peer: self.peer, relay: self.at };
        drop(self.connect.send(Word::Connect(connect)));
    }
}

/// A relay and two nodes that are connected to it.
pub(super) async fn start() -> Result<(Relay, End, End), Failure> {
    let middle = net(None).await?;
    let (id, at) = (middle.link.id(), middle.link.addresses());
    let at = at.first().cloned().ok_or_else(|| Failure::failed("the relay does not listen"))?;
    let (knows, mut known) = unbounded_channel();
    tokio::spawn(relay(middle, knows));
    let (connect, a) = end(id, &at).await?;
    let (_, b) = end(id, &at).await?;
    // Until then it refuses circuits to either.
    for _ in [&a, &b] {
        known.recv().await;
    }
    let contact = Contact { ip: Ip([0; 16]), id, port: 1 };
    Ok((Relay { connect, peer: b.0.id(), at: contact }, a, b))
}

async fn net(circuits: Option<link::ToNode>) -> Result<Net, Failure> {
    let listen = "/ip4/127.0.0.1/tcp/0".parse::<Multiaddr>().into_iter().collect();
    let options = NetOptions { listen, circuits, ..NetOptions::default() };
    let net = crate::net::start(&Keypair::generate_ed25519(), options).await;
    net.map_err(|e| Failure::failed(e.to_string()))
}

/// Connections of one of the three, which have all introduced themselves.
fn introduced(peers: &mut Peers, peer: NodeId) {
    let hello = Known {
        name: "".into(),
        platform: Platform::Native,
        gateway: false,
        dialable: Dialable::No,
        speaks: Services::ALL,
        web: None,
    };
    peers.insert(peer, Peer { hello: Some(hello), ..Peer::new(None, Time::ZERO) });
}

fn read(channel: Channel, bytes: &Bytes) -> Option<Message> {
    wire::open(bytes, channel).ok().and_then(|(_, body)| wire::read(body).ok())
}

fn send(link: &Link, to: NodeId, message: &Message) {
    if let Some(frame) = wire::encode(message.service(), message) {
        link.send(to, Channel::Blob, frame);
    }
}

/// Relays, and tells of each node that it knows from then on.
async fn relay(Net { link, mut events, .. }: Net, knows: UnboundedSender<()>) {
    let began = Instant::now();
    let mut machine = Machine::new(CircuitRelay::new(RATE), Rng::from_seed([0; 32]));
    let mut peers = Peers::new();
    let mut look = tokio::time::interval(Duration::from_millis(10));
    loop {
        let now = Time(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        let input = tokio::select! {
            event = events.recv() => match event {
                Some(LinkEvent::Frame { from, channel, bytes }) => {
                    read(channel, &bytes).map(|message| Input::Message { from, message })
                }
                Some(LinkEvent::Connected { peer, .. }) => {
                    introduced(&mut peers, peer);
                    // Nobody waits for a third.
                    let _ = knows.send(());
                    None
                }
                Some(_) => None,
                None => return,
            },
            _ = look.tick() => machine.due(now).map(Input::Timer),
        };
        let Some(input) = input else { continue };
        for effect in machine.step_among(&peers, link.id(), now, input) {
            if let Effect::Send { to, message } = effect {
                send(&link, to, &message);
            }
        }
    }
}

async fn end(relay: NodeId, at: &Multiaddr) -> Result<(UnboundedSender<Word>, End), Failure> {
    let (words, mut heard) = unbounded_channel();
    let replies = words.clone();
    let net = net(Some(Arc::new(move |reply| drop(replies.send(Word::Reply(reply)))))).await?;
    let Net { link, mut events, circuits, .. } = net;
    let Some(mut circuits) = circuits else { return Err(Failure::failed("the link has no circuits")) };
    link.dial(at.clone()).map_err(|busy| Failure::failed(busy.to_string()))?;
    while !matches!(events.recv().await, Some(LinkEvent::Connected { .. }) | None) {}
    let (others, left) = unbounded_channel();
    let mut peers = Peers::new();
    introduced(&mut peers, relay);
    let mut machine = Machine::new(ends::Circuits::default(), Rng::from_seed([0; 32]));
    let this = link.clone();
    tokio::spawn(async move {
        loop {
            let input = tokio::select! {
                word = heard.recv() => match word {
                    Some(Word::Connect(connect)) => Input::Command(connect),
                    Some(Word::Reply(reply)) => Input::Command(Command::Reply(reply)),
                    None => return,
                },
                event = events.recv() => match event {
                    Some(LinkEvent::Frame { from, channel, bytes }) if from == relay => {
                        match read(channel, &bytes) {
                            Some(message) => Input::Message { from, message },
                            None => continue,
                        }
                    }
                    Some(event) => {
                        // The measurement may have ended.
                        drop(others.send(event));
                        continue;
                    }
                    None => return,
                },
            };
            for effect in machine.step_among(&peers, this.id(), Time::ZERO, input) {
                match effect {
                    Effect::Send { to, message } => send(&this, to, &message),
                    Effect::Emit(Event::Request(request)) => circuits.request(request),
                    _ => {}
                }
            }
        }
    });
    Ok((words, (link, left)))
}
