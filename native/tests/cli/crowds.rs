//! Thousands of connections from one address to the peers' ports.

use crate::doors::{ELSEWHERE, HOME, allow_many_files, connect, is_over, peer_address};
use crate::world::{World, until_so};
use libp2p::identity::Keypair;
use libp2p::swarm;
use libp2p::tcp;
use link::{LinkEvent, LinkOptions};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Connections that stay silent. The story's process and the gateway's may each have as many files open as the
/// system allows; some of them are for everything else.
const SILENT: u64 = 6_000;
const OTHER_FILES: u64 = 2_500;

/// Peers that finish the handshake, and then say nothing either.
const PEERS: usize = 300;

/// Handshakes under way that a node gives one address (`LinkOptions::handshakes_per_block`).
const HANDSHAKES: usize = 128;

/// For a handshake, which none of the silent ones finishes (`LinkOptions::connect_timeout`).
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Bytes by which the gateway may grow meanwhile. Measured: 20 MB, nearly all of it for the peers that finished
/// the handshake. 6,000 connections that it kept would be several times as much.
const GROWTH: u64 = 48 << 20;

/// Bytes, by the name that Linux has for them.
fn memory(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// A way to `to` on which all come from [`ELSEWHERE`].
fn relay(runtime: &Runtime, to: SocketAddr) -> SocketAddr {
    let listener = runtime.block_on(tokio::net::TcpListener::bind((HOME, 0))).unwrap();
    let at = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let socket = tokio::net::TcpSocket::new_v4()?;
                socket.bind((ELSEWHERE, 0).into())?;
                let mut far = socket.connect(to).await?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            });
        }
    });
    at
}

/// Correct links that are no node: they have a key, and introduce themselves to nobody.
fn peers(runtime: &Runtime, to: SocketAddr) -> Vec<(link::Link, link::Events)> {
    let address: libp2p::Multiaddr = format!("/ip4/{}/tcp/{}", to.ip(), to.port()).parse().unwrap();
    let peer = |_| {
        runtime.block_on(async {
            let transport = tcp::tokio::Transport::new(tcp::Config::default());
            let executor = swarm::Config::with_tokio_executor();
            let key = Keypair::generate_ed25519();
            let (link, mut events, runner) =
                link::start(&key, transport, executor, LinkOptions::default()).unwrap();
            tokio::spawn(runner.run());
            link.dial(address.clone()).unwrap();
            let connected = async {
                match events.recv().await {
                    Some(LinkEvent::Connected { .. }) => {}
                    other => panic!("{other:?}"),
                }
            };
            tokio::time::timeout(Duration::from_secs(30), connected).await.expect("a handshake");
            (link, events)
        })
    };
    (0..PEERS).map(peer).collect()
}

#[test]
fn thousands_of_connections_from_one_address_cost_little_and_keep_no_node_out() {
    let silent = allow_many_files().saturating_sub(OTHER_FILES).min(SILENT) as usize;
    assert!(silent >= 1_000, "this system allows too few open files for the story; raise `ulimit -Hn`");
    if silent < SILENT as usize {
        eprintln!("with {silent} connections: this system allows no more open files");
    }
    let world = World::new();
    let gateway = world.gateway(0);
    let (tcp, ws) = (peer_address(&gateway, false), peer_address(&gateway, true));
    let before = memory(gateway.pid(), "VmRSS");

    let runtime = Runtime::new().unwrap();
    let _peers = peers(&runtime, relay(&runtime, tcp));
    let began = Instant::now();
    let mut crowd: Vec<TcpStream> =
        (0..silent).map(|n| connect(ELSEWHERE, if n % 2 == 0 { tcp } else { ws })).collect();
    let refused = std::thread::spawn(move || {
        until_so("no more of them stand than may", || {
            crowd.retain(|stream| !is_over(stream));
            crowd.len() <= HANDSHAKES
        });
        (began.elapsed(), crowd)
    });
    let worker = world.up("worker", &["--join", &gateway.url, "--slots", "0", "--fail-fast"]);
    until_so("the gateway has the worker", || {
        let nodes = world.run(["nodes", "--output", "json"]).ok().json();
        nodes["nodes"].as_array().unwrap().iter().any(|node| node["id"] == worker.id.as_str())
    });
    let (after, _crowd) = refused.join().unwrap();
    assert!(after < HANDSHAKE_TIME, "they were refused as they came, not when their time was up: {after:?}");
    let grown = memory(gateway.pid(), "VmHWM").saturating_sub(before);
    assert!(grown <= GROWTH, "the gateway has grown by {grown} bytes");
}
