//! One end of a data channel, in a task of its own.

use super::Answer;
use super::mirror::Mirror;
use super::routes::{Datagram, Inbox, Routes, WAITING};
use super::window::Window;
use link::{Flooded, Link, Piping, Received};
use node_core::NodeId;
use node_core::address::Ip;
use node_core::overlay::signalling::{
    At, CANDIDATES, Candidate, Description, Fingerprint, Kind, Reply, Role, SessionId,
};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use str0m::channel::{ChannelConfig, ChannelId};
use str0m::net::{Protocol, Receive};
use str0m::{Event, IceConnectionState, IceCreds, Input, Output, Rtc, RtcConfig, RtcError};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio_util::compat::TokioAsyncReadCompatExt;

/// Orders that wait: the peer's description, and its candidates one by one.
pub(super) const ORDERS: usize = CANDIDATES + 1;

/// Pairs of addresses that packets are sent between. Our choice: all candidates from all sockets, and those that the
/// peer's own checks show.
const ADDRESSES: usize = 128;

/// Bytes of a message. RFC 8831, 6.6: what every end takes.
const MESSAGE: usize = 16 << 10;

/// Bytes that `str0m` takes and that are not acknowledged. The window says how many there really are.
const TAKEN: usize = super::window::MOST + MESSAGE;

/// Bytes that wait between the channel and the link, each way.
const PIPE: usize = 64 << 10;

/// How long an end that is over may take to bring its last bytes to where they belong. Our choice: a few round trips
/// to the other side of the world, with a loss.
const LAST: Duration = Duration::from_secs(2);

/// Word of the node on this end.
pub(super) enum Order {
    Remote(Description),
    Try(Vec<Candidate>),
}

pub(super) struct End {
    session: SessionId,
    peer: NodeId,
    role: Role,
    rtc: Rtc,
    channel: ChannelId,
    net: Net,
    inbox: Inbox,
    packets: mpsc::Receiver<Datagram>,
    /// Addresses that packets went to, each from a socket.
    sent_to: HashSet<(SocketAddr, SocketAddr)>,
    /// Where the peer is: what was sent there last.
    at: Option<IpAddr>,
    links: (Link, Piping),
    answer: Answer,
    pipe: Option<Ends>,
}

/// Ways out of this machine.
pub(super) struct Net {
    /// Each with its address.
    pub(super) sockets: Vec<(SocketAddr, Arc<UdpSocket>)>,
    pub(super) routes: Routes,
    pub(super) mirror: Option<Mirror>,
}

/// The link's end of the channel, seen from here.
struct Ends {
    from_link: ReadHalf<DuplexStream>,
    to_link: WriteHalf<DuplexStream>,
    /// A message of the link.
    buffer: Box<[u8]>,
    /// Bytes of it that the channel has had no room for. Nothing is read of the link meanwhile.
    unsent: usize,
    window: Window,
    /// Messages that the link has not read. Packets are read all the same: what this end has sent is acknowledged in
    /// them.
    received: Received,
    /// The link reads no more.
    deaf: bool,
}

/// Reason why an end ends.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the node gave it up")]
    GivenUp,
    #[error("the peer is gone")]
    Gone,
    #[error("the link closed it")]
    Closed,
    #[error("{0}")]
    Flooded(#[from] Flooded),
    #[error("{0}")]
    Failed(#[from] RtcError),
    #[error("{0}")]
    NotPiped(String),
}

/// Something to do for an end.
enum Turn {
    Order(Option<Order>),
    Packet(Datagram),
    Late,
    /// The link has put this many bytes into the buffer; none when it has closed.
    FromLink(usize),
    /// The link took so many bytes; none when it has closed.
    ToLink(usize),
}

impl End {
    pub(super) fn new(
        (session, peer, role): (SessionId, NodeId, Role),
        mut net: Net,
        links: (Link, Piping),
        answer: Answer,
    ) -> End {
        let mut rtc = RtcConfig::new()
            .clear_codecs()
            .set_sctp_max_buffered_amount(TAKEN)
            .set_crypto_provider(Arc::new(str0m::crypto::from_feature_flags()))
            .build(Instant::now());
        // Both ends have it from the beginning, so that no message has to open it.
        let channel =
            rtc.direct_api().create_data_channel(ChannelConfig { negotiated: Some(0), ..Default::default() });
        let (inbox, packets) = mpsc::channel(WAITING);
        if let Some(mirror) = &mut net.mirror {
            mirror.ask_from(&net.sockets, &inbox);
        }
        End {
            session,
            peer,
            role,
            rtc,
            channel,
            net,
            inbox,
            packets,
            sent_to: HashSet::new(),
            at: None,
            links,
            answer,
            pipe: None,
        }
    }

    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        self.describe();
        let ended = self.run_until_over(&mut orders).await;
        tracing::debug!(peer = %self.peer.short(), %ended, "a data channel has ended");
        if self.pipe.is_none() && !matches!(ended, Ended::GivenUp) {
            (self.answer)(Reply::Failed(self.session));
        }
        let last = async {
            match ended {
                Ended::Gone => self.give_last().await,
                Ended::Closed => self.send_last().await,
                _ => {}
            }
        };
        // Bytes that have not arrived by then are lost.
        let _ = tokio::time::timeout(LAST, last).await;
        // The peer hears of it, if the packet gets through; else of nothing, and gives up after its silence.
        if self.pipe.take().is_some() && self.rtc.close().is_ok() {
            while let Ok(Output::Transmit(packet)) = self.rtc.poll_output() {
                self.transmit(&packet);
            }
        }
    }

    /// The peer is gone: the link reads what had come before.
    async fn give_last(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        while let Some(rest) = pipe.received.next() {
            let bytes = rest.len();
            if pipe.to_link.write_all(rest).await.is_err() {
                return;
            }
            pipe.received.consume(bytes);
        }
        // The link has heard it all, and of the end.
        let _ = pipe.to_link.shutdown().await;
    }

    /// The link has closed: the peer gets what it had written before. The link itself would not wait for it.
    async fn send_last(&mut self) {
        while let Ok(due) = self.settle() {
            let waiting = self.rtc.channel(self.channel).map_or(0, |mut channel| channel.buffered_amount());
            if waiting == 0 {
                return;
            }
            let done = tokio::select! {
                Some(packet) = self.packets.recv() => self.packet(&packet),
                () = tokio::time::sleep_until(due.into()) => {
                    self.rtc.handle_input(Input::Timeout(Instant::now())).map_err(Ended::from)
                }
            };
            if done.is_err() {
                return;
            }
        }
    }

    /// Says how this end is recognised, and where.
    fn describe(&mut self) {
        let api = self.rtc.direct_api();
        let IceCreds { ufrag, pass } = api.local_ice_credentials();
        let Ok(fingerprint) = <[u8; 32]>::try_from(&api.local_dtls_fingerprint().bytes[..]) else {
            return (self.answer)(Reply::Failed(self.session));
        };
        self.net.routes.name(ufrag.clone(), self.inbox.clone());
        let description = Description { ufrag, password: pass, fingerprint: Fingerprint(fingerprint) };
        (self.answer)(Reply::Described(self.session, description));
        let mut found = Vec::new();
        for (at, _) in &self.net.sockets {
            let Ok(candidate) = str0m::Candidate::host(*at, Protocol::Udp) else { continue };
            let added = self.rtc.add_local_candidate(candidate);
            found.extend(added.map(|added| named(*at, Kind::Host, added)));
        }
        (self.answer)(Reply::Found(self.session, found));
    }

    /// The socket at `from` is seen at this address from outside.
    fn seen(&mut self, from: SocketAddr, at: SocketAddr) {
        // Without a router between it is the same one, which the peer knows.
        let Ok(candidate) = str0m::Candidate::server_reflexive(at, from, Protocol::Udp) else { return };
        if from != at
            && let Some(added) = self.rtc.add_local_candidate(candidate)
        {
            (self.answer)(Reply::Found(self.session, vec![named(at, Kind::Reflexive, added)]));
        }
    }

    /// Works until the channel is over.
    async fn run_until_over(&mut self, orders: &mut mpsc::Receiver<Order>) -> Ended {
        loop {
            let mut due = match self.settle() {
                Ok(due) => due,
                Err(ended) => return ended,
            };
            if let Some(mirror) = self.net.mirror.as_mut().filter(|_| self.pipe.is_none()) {
                mirror.ask(Instant::now());
                due = mirror.due().map_or(due, |again| due.min(again));
            }
            let turn = self.turn(orders, due).await;
            let done = match turn {
                Turn::Order(Some(order)) => self.order(order),
                // After that the node has forgotten the session; an open channel is the link's.
                Turn::Order(None) if self.pipe.is_none() => Err(Ended::GivenUp),
                Turn::Order(None) => Ok(()),
                Turn::Packet(packet) => self.packet(&packet),
                Turn::Late => self.rtc.handle_input(Input::Timeout(Instant::now())).map_err(Ended::from),
                Turn::FromLink(0) => Err(Ended::Closed),
                Turn::FromLink(bytes) => self.send(bytes),
                // It reads no more, and may have written last words.
                Turn::ToLink(0) => {
                    self.pipe.as_mut().into_iter().for_each(Ends::stop_giving);
                    Ok(())
                }
                Turn::ToLink(bytes) => {
                    self.pipe.as_mut().into_iter().for_each(|pipe| pipe.received.consume(bytes));
                    Ok(())
                }
            };
            if let Err(ended) = done {
                return ended;
            }
        }
    }

    /// Waits for the next thing to do.
    async fn turn(&mut self, orders: &mut mpsc::Receiver<Order>, due: Instant) -> Turn {
        let Some(pipe) = &mut self.pipe else {
            return tokio::select! {
                order = orders.recv() => Turn::Order(order),
                Some(packet) = self.packets.recv() => Turn::Packet(packet),
                () = tokio::time::sleep_until(due.into()) => Turn::Late,
            };
        };
        let waits = pipe.received.next();
        let give = async {
            match waits {
                Some(rest) => pipe.to_link.write(rest).await.unwrap_or(0),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(packet) = self.packets.recv() => Turn::Packet(packet),
            given = give => Turn::ToLink(given),
            read = pipe.from_link.read(&mut pipe.buffer), if pipe.unsent == 0 => {
                Turn::FromLink(read.unwrap_or(0))
            }
            () = tokio::time::sleep_until(due.into()) => Turn::Late,
        }
    }

    /// Does what `str0m` wants done; gives the time at which it wants to be asked again.
    fn settle(&mut self) -> Result<Instant, Ended> {
        loop {
            match self.rtc.poll_output()? {
                // Acknowledged bytes have made room.
                Output::Timeout(_) if self.send_rest()? => {}
                Output::Timeout(due) if self.rtc.is_alive() => return Ok(due),
                Output::Timeout(_) => return Err(Ended::Gone),
                Output::Transmit(packet) => self.transmit(&packet),
                Output::Event(event) => self.event(event)?,
            }
            if !self.rtc.is_alive() {
                return Err(Ended::Gone);
            }
        }
    }

    fn event(&mut self, event: Event) -> Result<(), Ended> {
        match event {
            Event::ChannelOpen(..) => self.open(),
            Event::ChannelData(data) => {
                let Some(pipe) = &mut self.pipe else { return Ok(()) };
                if pipe.deaf {
                    return Ok(());
                }
                pipe.received.push(data.data).map_err(Ended::from)
            }
            Event::ChannelClose(_) | Event::Closed => Err(Ended::Gone),
            // Before that more addresses may come, and the node gives up in time.
            Event::IceConnectionStateChange(IceConnectionState::Disconnected) if self.pipe.is_some() => {
                Err(Ended::Gone)
            }
            _ => Ok(()),
        }
    }

    /// The channel is open: from now on it is the link's.
    fn open(&mut self) -> Result<(), Ended> {
        if self.pipe.is_some() {
            return Ok(());
        }
        let (here, there) = tokio::io::duplex(PIPE);
        let (from_link, to_link) = tokio::io::split(here);
        let (link, piping) = &self.links;
        match self.role {
            Role::Offers => {
                let to = piping.dial(there.compat(), self.at);
                let to = link::peer_id(&self.peer).and_then(|peer| to.with_p2p(peer).ok());
                let to = to.ok_or_else(|| Ended::NotPiped("the peer's id is no key".into()))?;
                link.dial(to).map_err(|busy| Ended::NotPiped(busy.to_string()))?;
            }
            Role::Answers => {
                piping.accept(there.compat(), self.at).map_err(|why| Ended::NotPiped(why.to_string()))?;
            }
        }
        let buffer = vec![0; MESSAGE].into_boxed_slice();
        self.pipe = Some(Ends {
            from_link,
            to_link,
            buffer,
            unsent: 0,
            window: Window::default(),
            received: Received::default(),
            deaf: false,
        });
        (self.answer)(Reply::Opened(self.session));
        Ok(())
    }

    fn order(&mut self, order: Order) -> Result<(), Ended> {
        match order {
            Order::Remote(Description { ufrag, password, fingerprint }) => {
                let offers = self.role == Role::Offers;
                let mut api = self.rtc.direct_api();
                api.set_remote_ice_credentials(IceCreds { ufrag, pass: password });
                api.set_remote_fingerprint(str0m::crypto::Fingerprint {
                    hash_func: "sha-256".into(),
                    bytes: fingerprint.0.to_vec(),
                });
                // RFC 8842, 5: who answers is the client of DTLS. RFC 8445, 6.1.1: who offers decides on the pair.
                api.set_ice_controlling(offers);
                api.start_dtls(!offers)?;
                api.start_sctp(!offers);
            }
            Order::Try(candidates) => {
                for Candidate { at, port, .. } in candidates {
                    // Names of mDNS are not looked up: the peer's own checks show where it is.
                    let At::Ip(ip) = at else { continue };
                    let at = SocketAddr::new(ip.into(), port);
                    if let Ok(candidate) = str0m::Candidate::host(at, Protocol::Udp) {
                        self.rtc.add_remote_candidate(candidate);
                    }
                }
            }
        }
        Ok(())
    }

    fn packet(&mut self, packet: &Datagram) -> Result<(), Ended> {
        let Datagram { source, destination, at, bytes } = packet;
        if let Some((from, at)) = self.net.mirror.as_mut().and_then(|mirror| mirror.answered(bytes)) {
            self.seen(from, at);
            return Ok(());
        }
        let Ok(contents) = bytes.as_slice().try_into() else { return Ok(()) };
        let received = Receive { proto: Protocol::Udp, source: *source, destination: *destination, contents };
        self.rtc.handle_input(Input::Receive(*at, received)).map_err(Ended::from)
    }

    fn transmit(&mut self, packet: &str0m::net::Transmit) {
        let (from, to) = (packet.source, packet.destination);
        // RFC 7983: DTLS begins with 20 to 63, and goes to the pair that was chosen; checks go where the peer says.
        if packet.contents.first().is_some_and(|first| (20..64).contains(first)) {
            self.at = Some(to.ip());
        }
        if self.sent_to.len() < ADDRESSES && self.sent_to.insert((from, to)) {
            self.net.routes.peer(from, to, self.peer, self.inbox.clone());
        }
        if !self.sent_to.contains(&(from, to)) {
            return;
        }
        if let Some((_, socket)) = self.net.sockets.iter().find(|(at, _)| *at == from) {
            // A packet for which there is no room is lost, and sent again.
            drop(socket.try_send_to(&packet.contents, to));
        }
    }

    /// Sends so many bytes of the buffer to the peer, or keeps them until there is room.
    fn send(&mut self, bytes: usize) -> Result<(), Ended> {
        let Some(pipe) = self.pipe.as_mut().filter(|_| bytes > 0) else { return Ok(()) };
        let Some(mut channel) = self.rtc.channel(self.channel) else { return Err(Ended::Gone) };
        let waits = channel.buffered_amount();
        let now = Instant::now();
        pipe.window.acknowledged(waits, now);
        let sent = pipe.window.has_room(waits) && channel.write(true, &pipe.buffer[..bytes])?;
        if sent {
            pipe.window.sent(bytes, now);
        }
        pipe.unsent = if sent { 0 } else { bytes };
        Ok(())
    }

    /// Sends what has waited for room; whether there was any.
    fn send_rest(&mut self) -> Result<bool, Ended> {
        if let Some(pipe) = self.pipe.as_mut().filter(|pipe| pipe.window.is_measuring())
            && let Some(mut channel) = self.rtc.channel(self.channel)
        {
            pipe.window.acknowledged(channel.buffered_amount(), Instant::now());
        }
        let unsent = |it: &End| it.pipe.as_ref().map_or(0, |pipe| pipe.unsent);
        let waits = unsent(self);
        self.send(waits)?;
        Ok(waits > 0 && unsent(self) == 0)
    }
}

impl Ends {
    /// Drops what has come, and what comes.
    fn stop_giving(&mut self) {
        self.received.clear();
        self.deaf = true;
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.net.routes.forget(&self.inbox);
    }
}

/// A candidate of this end, as it is signalled.
fn named(at: SocketAddr, kind: Kind, of: &str0m::Candidate) -> Candidate {
    Candidate { at: At::Ip(Ip::from(at.ip())), port: at.port(), kind, priority: of.prio() }
}
