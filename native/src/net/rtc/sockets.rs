//! UDP sockets, one for each address of this machine, so that a packet leaves from where its end says it is.

use super::routes::{Datagram, Routes};
use super::stun;
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use str0m::ice::StunMessage;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// Sockets at once. Our choice: as many addresses as an end may name, with room for what a router makes of one of each
/// family.
const SOCKETS: usize = node_core::overlay::signalling::CANDIDATES - 2;

/// Room that is asked for packets in the system; it gives what it allows. Our choice: what 20 MB/s bring in 200 ms.
const BUFFER: usize = 4 << 20;

/// The longest packet that is read. Ends send at most 1,200 bytes; browsers do the same.
const LONGEST: usize = 2048;

/// Questions of STUN that one socket answers within a second. Our choice: a thousand guests that come at once.
const QUESTIONS: u32 = 1000;

pub(super) struct Sockets {
    routes: Routes,
    port: Option<u16>,
    open: BTreeMap<IpAddr, Open>,
}

struct Open {
    socket: Arc<UdpSocket>,
    at: SocketAddr,
    reader: JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Sockets {
    pub(super) fn new(routes: Routes, port: Option<u16>) -> Sockets {
        Sockets { routes, port, open: BTreeMap::new() }
    }

    /// Has a socket at each of these addresses, and at no others.
    pub(super) fn listen(&mut self, ips: &[IpAddr]) {
        self.open.retain(|ip, open| ips.contains(ip) && !open.reader.is_finished());
        // Others are reached from farther away than loopback.
        let mut ips = ips.to_vec();
        ips.sort_by_key(|ip| (ip.is_loopback(), *ip));
        ips.dedup();
        for ip in ips {
            if self.open.len() >= SOCKETS || self.open.contains_key(&ip) {
                continue;
            }
            match self.bind(ip) {
                Ok(open) => drop(self.open.insert(ip, open)),
                Err(error) => tracing::warn!(%ip, %error, "no UDP socket at this address"),
            }
        }
    }

    /// Each with its address.
    pub(super) fn all(&self) -> Vec<(SocketAddr, Arc<UdpSocket>)> {
        self.open.values().map(|open| (open.at, Arc::clone(&open.socket))).collect()
    }

    fn bind(&self, ip: IpAddr) -> io::Result<Open> {
        let socket = match self.port.map(|port| bind(SocketAddr::new(ip, port))) {
            Some(Ok(socket)) => socket,
            Some(Err(error)) => {
                tracing::info!(%ip, port = self.port, %error, "this UDP port is in use: another one serves data channels, and nobody is answered by STUN at this one");
                bind(SocketAddr::new(ip, 0))?
            }
            None => bind(SocketAddr::new(ip, 0))?,
        };
        let socket = Arc::new(UdpSocket::from_std(socket.into())?);
        let at = socket.local_addr()?;
        let reader = tokio::spawn(read(Arc::clone(&socket), at, self.routes.clone()));
        Ok(Open { socket, at, reader })
    }
}

/// Addresses of this machine from which it reaches others, and its own.
pub(super) fn of_routes() -> Vec<IpAddr> {
    // For documentation (RFC 5737, RFC 3849): the system says by which address it would go, and nothing is sent.
    let to: [(IpAddr, IpAddr); 2] = [
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()),
    ];
    let from = to.into_iter().filter_map(|(any, to)| {
        let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
        socket.connect((to, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    from.chain([Ipv4Addr::LOCALHOST.into()]).collect()
}

fn bind(at: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    // Less than was asked for is no error.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    socket.bind(&at.into())?;
    Ok(socket)
}

async fn read(socket: Arc<UdpSocket>, at: SocketAddr, routes: Routes) {
    let mut buffer = [0; LONGEST];
    let (mut second, mut questions) = (Instant::now(), 0);
    loop {
        let (len, source) = match socket.recv_from(&mut buffer).await {
            Ok(read) => read,
            // A packet that was sent before found nobody.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return tracing::warn!(%at, %error, "the UDP socket cannot be read any more"),
        };
        let bytes = &buffer[..len];
        if let Some(id) = stun::question_in(bytes) {
            if second.elapsed() > Duration::from_secs(1) {
                (second, questions) = (Instant::now(), 0);
            }
            questions += 1;
            if questions <= QUESTIONS {
                // One that is lost is asked again.
                drop(socket.try_send_to(&stun::answer(id, source), source));
            }
            continue;
        }
        // The first packets of an end come from anywhere, and say for whom they are. RFC 7983: STUN begins with 0 to 3;
        // nearly all packets are of DTLS.
        let is_stun = bytes.first().is_some_and(|first| *first < 4);
        let of_ice = if is_stun { StunMessage::parse(bytes).ok() } else { None };
        let name = of_ice.as_ref().filter(|it| it.is_binding_request()).and_then(StunMessage::split_username);
        let name = name.map(|(ours, _)| ours);
        // ICE's answers look like a gateway's; only the questions differ.
        let asker = stun::answer_in(bytes).and_then(|(question, _)| routes.asker(question));
        if let Some(inbox) = asker.or_else(|| routes.find(name, at, source)) {
            // One that is full loses it, as a socket does.
            drop(inbox.try_send(Datagram {
                source,
                destination: at,
                at: Instant::now(),
                bytes: bytes.to_vec(),
            }));
        }
    }
}
