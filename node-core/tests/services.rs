//! Stories of nodes that have not the same services: pages, and nodes of a version that is not there yet.

use bytes::Bytes;
use node_core::address::{Contact, Dialable};
use node_core::content::BlobRef;
use node_core::finding::Offer;
use node_core::node::message::Message;
use node_core::overlay::dialback;
use node_core::overlay::neighbours::{Hello, Message as Greeting};
use node_core::overlay::swarm::Swarm;
use node_core::platform::Platform;
use node_core::ticket::{ServiceId, Services};
use node_core::wire::VERSION;
use node_core::{
    BlobId, Carrier, Channel, Command, Config, EngineRequest, Host, Node, NodeEvent, NodeId, NodeInput,
};
use node_core::{StorageRequest, Time};
use simulator::World;
use std::time::Duration;

/// A gateway, and a page that has joined it.
fn gateway_and_page(seed: u64) -> (World, usize) {
    let mut world = World::seed(seed).swarm(0, 1);
    let page = world.add(Config { platform: Platform::Browser, ..Config::default() });
    world.connect(0, page);
    world.run_for(Duration::from_secs(1));
    assert!(world.nodes[page].is_page() && world.connected(0, page));
    (world, page)
}

fn hears(world: &mut World, at: usize, from: usize, frame: Bytes) {
    let from = world.nodes[from].id;
    world.drive(at, NodeInput::Received { from, channel: Channel::Control, bytes: frame });
}

#[test]
fn a_page_drops_frames_of_services_that_it_does_not_have_and_stays() {
    let (mut world, page) = gateway_and_page(1);
    let ask = Message::DialBack(dialback::Message::Ask { nonce: 1, port: 2 }).encode().expect("it is short");
    // Nor does it look whether they are messages.
    let garbage = Bytes::from(vec![VERSION, ServiceId::Ring as u8, 0xc1]);
    for frame in [ask, garbage] {
        (0..100).for_each(|_| hears(&mut world, page, 0, frame.clone()));
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.faults(page), Vec::<String>::new());
    let spec = world.sweep(0, 4);
    let job = world.submit(0, spec);
    world.run_until(Duration::from_secs(60), "the page works all the same", |w| w.is_over(job));
}

#[test]
fn a_service_that_nobody_has_yet_does_not_split_the_swarm() {
    let (mut world, page) = gateway_and_page(2);
    for service in [ServiceId::ALL.len() as u8, 200] {
        hears(&mut world, 0, page, Bytes::from(vec![VERSION, service, 0xc0]));
    }
    assert_eq!(world.faults(0), Vec::<String>::new());
    assert!(world.connected(0, page));
    // Frames for a service that the gateway has are read.
    hears(&mut world, 0, page, Bytes::from(vec![VERSION, ServiceId::Owner as u8, 0xc1]));
    assert_eq!(world.faults(0).len(), 1);
}

#[test]
fn a_message_for_another_service_than_its_frame_says_is_no_message() {
    let (mut world, page) = gateway_and_page(3);
    let offer = Message::Offer(Offer::default()).encode().expect("it is short");
    hears(&mut world, 0, page, offer.clone());
    assert_eq!(world.faults(0), Vec::<String>::new());
    let report = node_core::work::message::ToOwner::NotBegun { lease: 1, units: Vec::new() };
    let report = node_core::work::message::Message::ToOwner(report);
    let report = Message::Work(report).encode().expect("it is short");
    let readdressed = [&[VERSION, ServiceId::Client as u8], &report[2..]].concat();
    hears(&mut world, 0, page, readdressed.into());
    let faults = world.faults(0);
    assert!(faults[0].contains("that it is not for"), "{faults:?}");
}

/// Asks a node to bring content from another one.
fn brings(world: &mut World, at: usize, from: usize) {
    let contact = world.node(from).standing().dialable().contact().expect("it is a member");
    let blobs = vec![BlobRef { id: BlobId::of(b"elsewhere"), len: 9 }];
    let command = Command::Bring { number: 1, blobs, from: vec![contact] };
    world.drive(at, NodeInput::Command(command));
    world.run_for(Duration::from_secs(30));
}

#[test]
fn a_page_dials_nobody() {
    let mut world = World::seed(4);
    let port = Some(4001);
    world.add(Config { gateway: true, port, slots: 0, ..Config::default() });
    let member = world.add(Config { port, ..Config::default() });
    let guest = world.add(Config::default());
    let page = world.add(Config { platform: Platform::Browser, ..Config::default() });
    (1..4).for_each(|at| world.connect(0, at));
    world.run_for(Duration::from_secs(10));
    brings(&mut world, page, member);
    assert!(!world.connected(page, member) && world.refused_dials == 0, "a page has dialled");
    brings(&mut world, guest, member);
    assert!(world.connected(guest, member), "a server that nobody can dial does");
}

/// A host that counts frames.
#[derive(Default)]
struct Frames(usize);

impl Host for Frames {
    fn transmit(&mut self, _: NodeId, _: Channel, _: Bytes) {
        self.0 += 1;
    }
    fn dial(&mut self, _: Contact) {}
    fn probe(&mut self, _: u64, _: Contact) {}
    fn disconnect(&mut self, _: NodeId, _: &str) {}
    fn wake_at(&mut self, _: Option<Time>) {}
    fn storage(&mut self, _: StorageRequest) {}
    fn engine(&mut self, _: EngineRequest) {}
    fn event(&mut self, _: NodeEvent) {}
}

/// Frames that a worker sends to a gateway that speaks these.
fn frames_to(speaks: Services) -> usize {
    let (peer, mut host) = (NodeId([2; 32]), Frames::default());
    let mut node = Node::new(NodeId([1; 32]), Config::default(), [0; 32], Time(0));
    node.drive(Time(0), NodeInput::Wake, &mut host);
    node.drive(Time(0), NodeInput::Connected { peer, ip: None, joined: true, over: Carrier::Tcp }, &mut host);
    let hello = Message::Neighbours(Greeting::Hello(Hello {
        name: "gateway".into(),
        platform: Platform::Native,
        gateway: true,
        invite: None,
        dialable: Dialable::No,
        seen: None,
        web: None,
        swarm: Swarm::default(),
        speaks,
    }));
    let bytes = hello.encode().expect("it is short");
    let hello = NodeInput::Received { from: peer, channel: Channel::Control, bytes };
    node.drive(Time(0), hello, &mut host);
    host.0
}

#[test]
fn nothing_is_sent_to_services_that_a_peer_does_not_have() {
    let neighbours = [ServiceId::Neighbours].into_iter().collect();
    assert_eq!(frames_to(neighbours), 1, "it introduces itself, and no more");
    let and_finder = [ServiceId::Neighbours, ServiceId::Connected].into_iter().collect();
    assert_eq!(frames_to(and_finder), 2, "it says what it can take");
}
