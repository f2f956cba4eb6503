//! Strangers who knock without end, and what they find closed.

use crate::world::{Node, World, until_so};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// An address that is not 127.0.0.1, and one more. All of 127.0.0.0/8 is this machine.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const THIRD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// A story opens more files than shells allow by default.
fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Connects from this address, with as little room for what comes as the system allows.
fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

fn http_address(node: &Node) -> SocketAddr {
    node.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// The socket behind the node's address that is, or is not, for WebSocket.
fn peer_address(node: &Node, ws: bool) -> SocketAddr {
    let address = node.addresses.iter().find(|text| text.contains("/ws") == ws).unwrap();
    let parts: Vec<&str> = address.split('/').collect();
    format!("{}:{}", parts[2], parts[4]).parse().unwrap()
}

/// The answer to this, up to the end of the connection; empty if it is refused without a word.
fn ask(from: Ipv4Addr, to: SocketAddr, request: &str) -> String {
    let mut stream = connect(from, to);
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut answer = Vec::new();
    // Refused connections may end before all is written or read.
    let _ = stream.write_all(request.as_bytes());
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn is_healthy(from: Ipv4Addr, to: SocketAddr) -> bool {
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
    ask(from, to, &request).starts_with("HTTP/1.1 200 ")
}

/// Whether the other side has let go of it, also if bytes that came before lie unread.
fn is_over(stream: &TcpStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut polled = [PollFd::new(stream, ends)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).unwrap();
    polled[0].revents().intersects(ends)
}

/// Requests for more than all buffers on the way hold.
fn much(at: SocketAddr) -> String {
    format!("GET /api/v1/openapi.json HTTP/1.1\r\nHost: {at}\r\n\r\n").repeat(64)
}

#[test]
fn readers_that_do_not_read_keep_out_nobody() {
    allow_many_files();
    let world = World::new();
    let gateway = world.gateway(0);
    let at = http_address(&gateway);

    // A slow reader goes on all the while.
    let mut slow = connect(THIRD, at);
    slow.write_all(much(at).as_bytes()).unwrap();
    let slow = std::thread::spawn(move || {
        let (began, mut bytes) = (Instant::now(), [0; 8 << 10]);
        while began.elapsed() < Duration::from_secs(36) {
            slow.read_exact(&mut bytes)?;
            std::thread::sleep(Duration::from_millis(400));
        }
        std::io::Result::Ok(())
    });

    let stuck: Vec<TcpStream> = (0..600)
        .map(|_| {
            let mut stream = connect(Ipv4Addr::LOCALHOST, at);
            let _ = stream.write_all(much(at).as_bytes());
            stream
        })
        .collect();
    let began = Instant::now();
    assert!(is_healthy(ELSEWHERE, at), "another address has room at once");
    until_so("its own address has room again", || is_healthy(Ipv4Addr::LOCALHOST, at));
    // Most of those that nobody needed the place of are closed in time as well.
    until_so("all that do not read are given up", || stuck.iter().all(is_over));
    assert!(began.elapsed() < Duration::from_secs(40), "after {:?}", began.elapsed());
    slow.join().unwrap().expect("a slow reader is served");
}

#[test]
fn uploads_and_streams_without_end_leave_room_to_look() {
    allow_many_files();
    let world = World::new();
    let gateway = world.gateway(0);
    let (at, token) = (http_address(&gateway), &gateway.token);
    let head = format!("HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}\r\n");
    let begin = |what: String| {
        let mut stream = connect(ELSEWHERE, at);
        stream.write_all(what.as_bytes()).unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> =
        (0..150).map(|_| begin(format!("GET /api/v1/events {head}\r\n"))).collect();
    let answers: Vec<String> = streams
        .iter_mut()
        .map(|stream| {
            let mut status = [0; 12];
            stream.read_exact(&mut status).unwrap();
            String::from_utf8_lossy(&status).into_owned()
        })
        .collect();
    let open = answers.iter().filter(|answer| *answer == "HTTP/1.1 200").count();
    let refused = answers.iter().filter(|answer| *answer == "HTTP/1.1 503").count();
    assert_eq!((open, refused), (128, 22));
    let _uploads: Vec<TcpStream> = (0..100)
        .map(|_| begin(format!("POST /api/v1/blobs {head}Content-Length: 1000000\r\n\r\nslow")))
        .collect();
    assert!(is_healthy(Ipv4Addr::LOCALHOST, at));
    world.run(["jobs"]).ok();
}

#[test]
fn a_page_of_another_site_cannot_open_a_websocket() {
    let world = World::new();
    let gateway = world.up(
        "data",
        &[
            "--gateway",
            "--http-port",
            "0",
            "--p2p-port",
            "0",
            "--bind",
            "127.0.0.1",
            "--public-host",
            "grid.example",
        ],
    );
    let at = peer_address(&gateway, true);
    let upgrade = |host: &str, origin: &str| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {host}\r\n{origin}Upgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let mut stream = connect(Ipv4Addr::LOCALHOST, at);
        stream.write_all(request.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        String::from_utf8_lossy(&status[9..]).into_owned()
    };
    let own = at.to_string();
    let site = |origin: &str| format!("Origin: {origin}\r\n");
    assert_eq!(upgrade(&own, &site("https://evil.example")), "403");
    assert_eq!(upgrade("evil.example", &site("https://evil.example")), "403");
    assert_eq!(upgrade("evil.example", ""), "403");
    assert_eq!(upgrade(&own, &site(&gateway.url)), "101");
    assert_eq!(upgrade(&own, &site("https://grid.example")), "101");
    assert_eq!(upgrade("grid.example:4002", &site("http://grid.example:8080")), "101");
    assert_eq!(upgrade(&own, ""), "101", "a node sends no origin");
}

/// Connections that say nothing, and come again whenever they are closed.
struct Flood {
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Flood {
    /// More of them than a node has places for handshakes.
    fn start(to: SocketAddr) -> Flood {
        let ends = Arc::new(AtomicBool::new(false));
        let mut silent: Vec<TcpStream> = (0..600).map(|_| connect(ELSEWHERE, to)).collect();
        let ended = ends.clone();
        let renew = move || {
            while !ended.load(Relaxed) {
                let over = silent.iter_mut().filter(|stream| is_over(stream));
                over.for_each(|stream| *stream = connect(ELSEWHERE, to));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        Flood { ends, thread: Some(std::thread::spawn(renew)) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        drop(self.thread.take().map(|thread| thread.join()));
    }
}

#[test]
fn strangers_who_never_finish_a_handshake_keep_no_node_out() {
    allow_many_files();
    let world = World::new();
    let gateway = world.gateway(0);
    for (name, ws) in [("of-nodes", false), ("of-pages", true)] {
        let _flood = Flood::start(peer_address(&gateway, ws));
        let worker = world.up(name, &["--join", &gateway.url, "--slots", "0", "--fail-fast"]);
        until_so("the gateway has the worker", || {
            let nodes = world.run(["nodes", "--output", "json"]).ok().json();
            nodes["nodes"].as_array().unwrap().iter().any(|node| node["id"] == worker.id.as_str())
        });
    }
}
