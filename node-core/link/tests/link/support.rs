//! Peers for the stories: correct ones, hostile ones, and a cable that can be pulled.

use bytes::Bytes;
use futures::{AsyncWriteExt, StreamExt};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{
    Multiaddr, PeerId, StreamProtocol, Swarm, SwarmBuilder, identify, noise, swarm, tcp, websocket, yamux,
};
use link::{Events, Link, LinkEvent, LinkOptions};
use node_core::{Channel, NodeId};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::copy;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Longer than anything here takes; a story that needs it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const ANYWHERE: &str = "/ip4/127.0.0.1/tcp/0";

/// Quick to notice and to dial again.
pub(crate) fn hasty() -> LinkOptions {
    LinkOptions {
        heartbeat: Duration::from_millis(100),
        redial_min: Duration::from_millis(20),
        redial_max: Duration::from_millis(200),
        ..LinkOptions::default()
    }
}

/// A correct node and its driver's end.
pub(crate) struct Peer {
    pub(crate) link: Link,
    pub(crate) events: Events,
    pub(crate) id: NodeId,
    pub(crate) address: Multiaddr,
    pub(crate) key: Keypair,
    runner: JoinHandle<()>,
}

impl Peer {
    pub(crate) async fn start(options: LinkOptions) -> Peer {
        Peer::start_as(Keypair::generate_ed25519(), ANYWHERE, options).await
    }

    pub(crate) async fn start_as(key: Keypair, listen: &str, options: LinkOptions) -> Peer {
        let tcp = || tcp::tokio::Transport::new(tcp::Config::default().nodelay(true));
        let executor = swarm::Config::with_tokio_executor;
        let listen: Multiaddr = listen.parse().unwrap();
        let (link, mut events, mut runner) = if listen.iter().any(|p| matches!(p, Protocol::Ws(_))) {
            link::start(&key, websocket::Config::new(tcp()), executor(), options).unwrap()
        } else {
            link::start(&key, tcp(), executor(), options).unwrap()
        };
        runner.listen(&listen).unwrap();
        let runner = tokio::spawn(runner.run());
        let address = match tokio::time::timeout(PATIENCE, events.recv()).await {
            Ok(Some(LinkEvent::Listening { addr })) => addr,
            other => panic!("expected an address, got {other:?}"),
        };
        Peer { id: link.id(), link, events, address, key, runner }
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> LinkEvent {
        tokio::time::timeout(PATIENCE, self.events.recv())
            .await
            .expect("nothing happened")
            .expect("the runner ended")
    }

    /// Passes over events until one is wanted.
    pub(crate) async fn until<T>(&mut self, mut wanted: impl FnMut(&LinkEvent) -> Option<T>) -> T {
        loop {
            let event = self.next().await;
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    }

    pub(crate) async fn connected(&mut self) -> NodeId {
        self.until(|e| if let LinkEvent::Connected { peer, .. } = e { Some(*peer) } else { None }).await
    }

    pub(crate) async fn disconnected(&mut self) -> String {
        self.until(
            |e| if let LinkEvent::Disconnected { reason, .. } = e { Some(reason.clone()) } else { None },
        )
        .await
    }

    pub(crate) async fn fault(&mut self) -> String {
        self.until(|e| if let LinkEvent::Fault { what, .. } = e { Some(what.clone()) } else { None }).await
    }

    pub(crate) async fn frame(&mut self) -> (Channel, Bytes) {
        self.until(|e| match e {
            LinkEvent::Frame { channel, bytes, .. } => Some((*channel, bytes.clone())),
            _ => None,
        })
        .await
    }

    pub(crate) fn send(&self, to: NodeId, text: &str) {
        self.link.send(to, Channel::Control, Bytes::copy_from_slice(text.as_bytes()));
    }

    /// Ends like a killed process: sockets close, nobody says goodbye.
    pub(crate) async fn kill(self) -> (Keypair, Multiaddr) {
        self.runner.abort();
        let _ = self.runner.await;
        (self.key, self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        port(&self.address)
    }
}

pub(crate) fn port(address: &Multiaddr) -> u16 {
    address.iter().find_map(|p| if let Protocol::Tcp(port) = p { Some(port) } else { None }).unwrap()
}

/// Two connected peers.
pub(crate) async fn pair(options: LinkOptions) -> (Peer, Peer) {
    let mut a = Peer::start(options.clone()).await;
    let mut b = Peer::start(options).await;
    a.link.dial(b.address.clone()).unwrap();
    assert_eq!(a.connected().await, b.id);
    assert_eq!(b.connected().await, a.id);
    (a, b)
}

/// A libp2p node that does what it is told on raw streams.
pub(crate) struct Hostile {
    pub(crate) control: libp2p_stream::Control,
    pub(crate) peer: PeerId,
    pub(crate) streams: Vec<swarm::Stream>,
    _accepted: Vec<JoinHandle<()>>,
    swarm: JoinHandle<()>,
}

#[derive(NetworkBehaviour)]
struct HostileBehaviour {
    identify: identify::Behaviour,
    streams: libp2p_stream::Behaviour,
}

impl Hostile {
    /// Dials `target` and accepts streams of `speaks`, reading nothing from them.
    pub(crate) async fn dial(target: &Peer, speaks: &[&str]) -> Hostile {
        // The end with the smaller id chooses the session: the target.
        let keys = std::iter::repeat_with(Keypair::generate_ed25519);
        let follows = |key: &Keypair| link::node_id(&key.public().to_peer_id()).unwrap() > target.id;
        let key = { keys }.find(follows).unwrap();
        let mut swarm = SwarmBuilder::with_existing_identity(key)
            .with_tokio()
            .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
            .unwrap()
            .with_behaviour(|key| HostileBehaviour {
                identify: identify::Behaviour::new(identify::Config::new("/x/1".into(), key.public())),
                streams: libp2p_stream::Behaviour::new(),
            })
            .unwrap()
            .with_swarm_config(|c| c.with_idle_connection_timeout(PATIENCE))
            .build();
        let mut control = swarm.behaviour().streams.new_control();
        let mut accepted = Vec::new();
        for name in speaks {
            let mut incoming =
                control.accept(StreamProtocol::try_from_owned(name.to_string()).unwrap()).unwrap();
            accepted.push(tokio::spawn(async move {
                let mut kept = Vec::new();
                while let Some(stream) = incoming.next().await {
                    kept.push(stream);
                }
            }));
        }
        swarm.dial(target.address.clone()).unwrap();
        let peer = loop {
            if let SwarmEvent::ConnectionEstablished { peer_id, .. } = swarm.select_next_some().await {
                break peer_id;
            }
        };
        let task = tokio::spawn(run(swarm));
        Hostile { control, peer, streams: Vec::new(), _accepted: accepted, swarm: task }
    }

    /// One that opens a control and a blob stream as a correct node would.
    pub(crate) async fn dial_as_node(target: &Peer) -> Hostile {
        let mut hostile = Hostile::dial(target, &[link::CONTROL_PROTOCOL, link::BLOB_PROTOCOL]).await;
        for name in [link::CONTROL_PROTOCOL, link::BLOB_PROTOCOL] {
            hostile.open(name).await;
        }
        hostile
    }

    pub(crate) async fn open(&mut self, name: &'static str) {
        let stream = self.try_open(name).await.unwrap();
        self.streams.push(stream);
    }

    pub(crate) async fn try_open(
        &mut self,
        name: &'static str,
    ) -> Result<swarm::Stream, libp2p_stream::OpenStreamError> {
        self.control.open_stream(self.peer, StreamProtocol::new(name)).await
    }

    /// Ends like a killed process.
    pub(crate) async fn kill(self) {
        self.swarm.abort();
        let _ = self.swarm.await;
    }

    /// Writes raw bytes to the control stream.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.streams[0].write_all(bytes).await.unwrap();
        self.streams[0].flush().await.unwrap();
    }
}

async fn run(mut swarm: Swarm<HostileBehaviour>) {
    loop {
        swarm.select_next_some().await;
    }
}

/// A cable between a dialler and `target` that can be pulled: sockets stay, bytes stop.
pub(crate) struct Cable {
    pub(crate) address: Multiaddr,
    pulled: watch::Sender<bool>,
    _task: JoinHandle<()>,
}

impl Cable {
    pub(crate) async fn to(target: &Peer) -> Cable {
        Cable::from(Ipv4Addr::LOCALHOST, target).await
    }

    /// The target sees whoever dials from this address, which all of 127.0.0.0/8 is one of.
    pub(crate) async fn from(source: Ipv4Addr, target: &Peer) -> Cable {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let to = target.port();
        let (pulled, watch) = watch::channel(false);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind((source, 0).into()).unwrap();
                let far = socket.connect((Ipv4Addr::LOCALHOST, to).into()).await.unwrap();
                tokio::spawn(carry(near, far, watch.clone()));
            }
        });
        let address = format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap();
        Cable { address, pulled, _task: task }
    }

    pub(crate) fn pull(&self) {
        self.pulled.send(true).unwrap();
    }
}

async fn carry(near: TcpStream, far: TcpStream, mut pulled: watch::Receiver<bool>) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    tokio::select! {
        _ = copy(&mut near_in, &mut far_out) => return,
        _ = copy(&mut far_in, &mut near_out) => return,
        _ = async { drop(pulled.wait_for(|p| *p).await) } => {}
    }
    std::future::pending().await // keeps the sockets open
}
