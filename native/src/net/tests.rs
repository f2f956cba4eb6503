use super::*;
use bytes::Bytes;
use libp2p::multiaddr::Protocol;
use link::LinkEvent;
use node_core::{Channel, NodeId};
use std::time::Duration;

async fn node(listen: &[&str]) -> (Link, Events) {
    let listen = listen.iter().map(|a| a.parse().unwrap()).collect();
    let options = NetOptions { listen, ..NetOptions::default() };
    let net = start(&Keypair::generate_ed25519(), options).await.unwrap();
    (net.link, net.events)
}

async fn fails(listen: &str) -> String {
    let options = NetOptions { listen: vec![listen.parse().unwrap()], ..NetOptions::default() };
    match start(&Keypair::generate_ed25519(), options).await {
        Err(e) => e.to_string(),
        Ok(net) => panic!("{listen} was listened on as {:?}", net.link.addresses()),
    }
}

async fn until<T>(events: &mut Events, mut wanted: impl FnMut(LinkEvent) -> Option<T>) -> T {
    let found = async {
        loop {
            let event = events.recv().await.expect("the links ended");
            if let Some(found) = wanted(event) {
                return found;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.expect("nothing happened")
}

async fn connected(events: &mut Events) -> NodeId {
    until(events, |e| if let LinkEvent::Connected { peer, .. } = e { Some(peer) } else { None }).await
}

fn port(address: &Multiaddr) -> u16 {
    address.iter().find_map(|p| if let Protocol::Tcp(port) = p { Some(port) } else { None }).unwrap()
}

#[tokio::test]
async fn a_gateway_is_reached_over_tcp_and_over_websocket() {
    let (gateway, mut of_gateway) = node(&["/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/tcp/0/ws"]).await;
    let addresses = gateway.addresses();
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    for address in addresses {
        assert!(port(&address) != 0 && matches!(address.iter().last(), Some(Protocol::P2p(_))), "{address}");
        let (worker, mut of_worker) = node(&[]).await;
        worker.join(vec![address]).unwrap();
        assert_eq!(connected(&mut of_worker).await, gateway.id());
        assert_eq!(connected(&mut of_gateway).await, worker.id());
        gateway.send(worker.id(), Channel::Control, Bytes::from_static(b"welcome"));
        let heard = until(&mut of_worker, |e| match e {
            LinkEvent::Frame { bytes, .. } => Some(bytes),
            _ => None,
        });
        assert_eq!(&heard.await[..], b"welcome");
    }
}

#[tokio::test]
async fn a_name_is_resolved() {
    let (gateway, _events) = node(&["/ip4/127.0.0.1/tcp/0"]).await;
    let (worker, mut of_worker) = node(&[]).await;
    let address = format!("/dns4/localhost/tcp/{}", port(&gateway.addresses()[0]));
    worker.join(vec![address.parse().unwrap()]).unwrap();
    assert_eq!(connected(&mut of_worker).await, gateway.id());
}

#[tokio::test]
async fn a_port_that_another_node_has_is_refused() {
    let (gateway, _events) = node(&["/ip4/127.0.0.1/tcp/0"]).await;
    let taken = port(&gateway.addresses()[0]);
    let error = fails(&format!("/ip4/127.0.0.1/tcp/{taken}")).await;
    let expected = format!("cannot listen on 127.0.0.1:{taken}: another program does already");
    assert!(error.starts_with(&expected), "{error}");
}

#[tokio::test]
async fn addresses_that_are_not_ours_or_no_addresses_are_refused() {
    let error = fails("/ip4/203.0.113.7/tcp/0").await;
    assert!(error.contains("this machine does not have that address"), "{error}");
    let error = fails("/ip4/127.0.0.1/udp/4001/quic-v1").await;
    assert!(error.contains("is no address to listen at"), "{error}");
    let error = fails("/ip4/127.0.0.1/tcp/0/http").await;
    assert!(error.starts_with("cannot listen on 127.0.0.1:0"), "{error}");
}

#[tokio::test]
async fn a_node_whose_links_are_dropped_frees_its_port() {
    let (gateway, events) = node(&["/ip4/127.0.0.1/tcp/0"]).await;
    let address = format!("/ip4/127.0.0.1/tcp/{}", port(&gateway.addresses()[0]));
    drop((gateway, events));
    let freed = async {
        while probe::free(&address.parse().unwrap()).is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), freed).await.expect("the port stays taken");
}

#[tokio::test]
async fn all_interfaces_are_those_of_both_families_at_one_port() {
    let listen = ["/ip4/0.0.0.0/tcp/0", "/ip6/::/tcp/0", "/ip4/0.0.0.0/tcp/0/ws", "/ip6/::/tcp/0/ws"];
    let (link, mut events) = node(&listen).await;
    let is = |address: &Multiaddr, ws: bool, v6: bool| {
        address.iter().any(|part| matches!(part, Protocol::Ws(_))) == ws
            && matches!(address.iter().next(), Some(Protocol::Ip6(_))) == v6
    };
    // A machine without IPv6 has one family only.
    let both = std::net::TcpListener::bind("[::1]:0").is_ok();
    for ws in [false, true] {
        let first = |v6| link.addresses().iter().find(|address| is(address, ws, v6)).map(port);
        let v4 = first(false).expect("there is an address of IPv4");
        while both && first(true).is_none() {
            until(&mut events, |e| matches!(e, LinkEvent::Listening { .. }).then_some(())).await;
        }
        if both {
            assert_eq!(first(true), Some(v4));
        }
    }
}

#[test]
fn a_founder_begins_at_an_address_that_it_listens_at() {
    let begins = |listen: &[&str]| {
        let listen: Vec<Multiaddr> = listen.iter().map(|text| text.parse().unwrap()).collect();
        own_ip(&listen).map(|ip| ip.to_string())
    };
    let at = |ip: &str| Some(ip.to_string());
    assert_eq!(begins(&["/ip4/0.0.0.0/tcp/1", "/ip6/::/tcp/1", "/ip4/0.0.0.0/tcp/2/ws"]), at("127.0.0.1"));
    assert_eq!(begins(&["/ip6/::/tcp/1"]), at("::1"));
    assert_eq!(begins(&["/ip4/10.0.0.7/tcp/1", "/ip4/10.0.0.7/tcp/2/ws"]), at("10.0.0.7"));
    assert_eq!(begins(&["/ip4/127.0.0.1/tcp/2/ws"]), None);
}
