//! Stories of peers that are strangers, out of date, or hostile.

use bytes::Bytes;
use node_core::address::{Dialable, Ip, Scope};
use node_core::content::Data;
use node_core::finding::Offer;
use node_core::ids::{JobId, NodeId, UnitId};
use node_core::node::message::Message;
use node_core::overlay::neighbours::{Hello, Message as Greeting};
use node_core::overlay::swarm::Swarm;
use node_core::peers::{Peer, Peers};
use node_core::platform::Platform;
use node_core::store::Message as Content;
use node_core::ticket::{ServiceId, Services};
use node_core::time::Time;
use node_core::wire::{MAX_FRAME, VERSION};
use node_core::work::message::{Message as Work, Report, ToOwner};
use node_core::work::spec::UnitResult;
use node_core::{Carrier, Channel, Config, NodeEvent, NodeInput};
use simulator::World;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const OWNER: u8 = ServiceId::Owner as u8;

/// A gateway with one honest worker, and a stranger that is connected and says what it likes.
fn with_stranger(seed: u64) -> (World, usize) {
    let mut world = World::seed(seed).swarm(1, 1);
    let stranger = world.add(Config::default());
    world.nodes[stranger].node = None;
    world.run_for(Duration::from_secs(1));
    (world, stranger)
}

fn say(world: &mut World, stranger: usize, message: &Message) {
    let bytes = message.encode().unwrap();
    hear(world, stranger, message.channel(), bytes);
}

fn hear(world: &mut World, stranger: usize, channel: Channel, bytes: Bytes) {
    let from = world.nodes[stranger].id;
    world.drive(0, NodeInput::Received { from, channel, bytes });
}

fn introduce(world: &mut World, stranger: usize, invite: Option<&str>) {
    let peer = world.nodes[stranger].id;
    world.drive(0, NodeInput::Connected { peer, ip: None, joined: true, over: Carrier::Tcp });
    let hello = Hello {
        name: "x".repeat(1000),
        platform: Platform::Native,
        gateway: false,
        invite: invite.map(String::from),
        dialable: Dialable::No,
        seen: None,
        web: None,
        swarm: Swarm::default(),
        speaks: Services::ALL,
    };
    say(world, stranger, &Message::Neighbours(Greeting::Hello(hello)));
}

#[test]
fn garbage_and_other_versions_are_named_and_nothing_breaks() {
    let (mut world, stranger) = with_stranger(1);
    introduce(&mut world, stranger, None);
    let (later, ours) = (VERSION + 1, format!("this node version {VERSION}"));
    let cases: [(&[u8], &str); 5] = [
        (&[], "empty frame"),
        (&[later, 0xc0], &ours),
        (&[VERSION, OWNER, 0xc1, 0xff, 0xff], "not a message"),
        (&[VERSION, OWNER, 0xdd, 0xff, 0xff, 0xff, 0xff], "not a message"),
        (&[VERSION], "not a message"),
    ];
    for (bytes, words) in cases {
        hear(&mut world, stranger, Channel::Control, Bytes::copy_from_slice(bytes));
        let fault = world.faults(0).pop().expect("a fault was told");
        assert!(fault.contains(words), "{fault:?} names {words:?}");
    }
    hear(&mut world, stranger, Channel::Control, Bytes::from(vec![VERSION; MAX_FRAME + 1]));
    assert!(world.faults(0).pop().unwrap().contains("1048577 bytes"));
    let deep = [&[VERSION, OWNER][..], &[0x91; 200_000][..]].concat();
    hear(&mut world, stranger, Channel::Control, Bytes::from(deep));

    let spec = world.sweep(0, 20);
    let job = world.submit(0, spec);
    world.run_until(Duration::from_secs(20), "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 20);
}

#[test]
fn nobody_is_heard_before_it_has_introduced_itself() {
    let (mut world, stranger) = with_stranger(2);
    let peer = world.nodes[stranger].id;
    world.drive(0, NodeInput::Connected { peer, ip: None, joined: true, over: Carrier::Tcp });
    say(&mut world, stranger, &Message::Offer(Offer { slots: 9, free: 9, credit: 9, ..Offer::default() }));
    assert_eq!(world.faults(0), ["spoke before it was let in"]);
    assert_eq!(world.node(0).nodes(world.now).len(), 2, "it is not among the nodes");
}

#[test]
fn a_message_on_the_wrong_channel_is_a_fault() {
    let (mut world, stranger) = with_stranger(3);
    introduce(&mut world, stranger, None);
    let bytes = Message::Offer(Offer::default()).encode().unwrap();
    hear(&mut world, stranger, Channel::Blob, bytes);
    assert_eq!(world.faults(0), ["sent a message on the wrong channel"]);
}

#[test]
fn an_invite_is_asked_for_and_a_wrong_one_is_refused_in_words() {
    let mut world = World::seed(4);
    let invited = Config { invited_with: Some("friend".into()), ..Config::default() };
    world.add(Config { gateway: true, invite: Some("friend".into()), ..Config::default() });
    let wrong = Config { invited_with: Some("fiend".into()), ..Config::default() };
    for config in [Config::default(), wrong, invited] {
        let at = world.add(config);
        world.connect(0, at);
    }
    world.run_for(Duration::from_secs(1));
    let told = |at: usize| {
        world.told.iter().find_map(|(_, node, event)| match event {
            NodeEvent::Rejected { reason, .. } if *node == at => Some(reason.clone()),
            _ => None,
        })
    };
    assert!(told(1).unwrap().contains("--invite"));
    assert!(told(2).unwrap().contains("the invite is wrong"));
    assert_eq!(told(3), None);
    let names: Vec<bool> = world.node(0).nodes(world.now).iter().map(|n| n.id == world.nodes[3].id).collect();
    assert_eq!(names, [false, true], "only the invited one is in");
}

#[test]
fn the_invite_of_a_swarm_is_not_guessed_from_one_address() {
    let mut world = World::seed(9);
    world.add(Config { gateway: true, invite: Some("friend".into()), ..Config::default() });
    let ip = |n: u8| Some(Ip::from(std::net::IpAddr::from([203, 0, 113, n])));
    let mut strangers = 0u32;
    let mut shows = |world: &mut World, word: &str, ip| {
        strangers += 1;
        let mut peer = node_core::NodeId([77; 32]);
        peer.0[..4].copy_from_slice(&(1000 + strangers).to_be_bytes());
        world.drive(0, NodeInput::Connected { peer, ip, joined: false, over: Carrier::Tcp });
        let hello = Message::Neighbours(Greeting::Hello(Hello {
            name: "stranger".into(),
            platform: Platform::Native,
            gateway: false,
            invite: Some(word.into()),
            dialable: Dialable::No,
            seen: None,
            web: None,
            swarm: Swarm::default(),
            speaks: Services::ALL,
        }));
        let bytes = hello.encode().unwrap();
        world.drive(0, NodeInput::Received { from: peer, channel: Channel::Control, bytes });
        let is_in = world.node(0).nodes(world.now).iter().any(|node| node.id == peer);
        world.drive(0, NodeInput::Disconnected { peer, reason: "it goes".into() });
        is_in
    };
    for n in 0..10 {
        assert!(!shows(&mut world, &format!("word {n}"), ip(1)));
    }
    assert!(!shows(&mut world, "friend", ip(1)), "after ten wrong ones none is looked at");
    assert!(shows(&mut world, "friend", ip(2)), "others are let in meanwhile");
    world.run_for(Duration::from_secs(601));
    assert!(shows(&mut world, "friend", ip(1)), "ten minutes later it is");
    // Addresses without end are forgotten in their order.
    for n in 0..5_000u32 {
        let ip = Ip::from(std::net::IpAddr::from((0x0b00_0000 + n).to_be_bytes()));
        assert!(!shows(&mut world, "fiend", Some(ip)));
    }
    assert!(shows(&mut world, "friend", ip(3)));
}

#[test]
fn of_a_bad_frame_a_line_is_said_and_not_what_the_peer_wrote() {
    let (mut world, stranger) = with_stranger(10);
    introduce(&mut world, stranger, None);
    let name = "x".repeat(MAX_FRAME - 100);
    let mut frame = vec![VERSION, OWNER, 0x81, 0xdb];
    frame.extend((name.len() as u32).to_be_bytes());
    frame.extend(name.as_bytes());
    hear(&mut world, stranger, Channel::Control, frame.into());
    let said = world.faults(0).pop().expect("a fault was told");
    assert!(said.contains("not a message") && said.len() < 300, "{} bytes", said.len());
}

#[test]
fn impossible_results_are_faults_and_count_for_nothing() {
    let (mut world, stranger) = with_stranger(5);
    introduce(&mut world, stranger, None);
    let spec = world.sweep(0, 3);
    world.crash(1);
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(1));
    let report = |job, index| {
        let result = UnitResult {
            end: sandbox::End::Exited(0),
            stdout: Data::EMPTY,
            stderr: Data::EMPTY,
            files: vec![],
            cpu_us: 0,
            runner: node_core::NodeId([0; 32]),
            attempts: 1,
            fuel: 0,
            journey: None,
            paid: Default::default(),
        };
        let results = vec![Report {
            unit: UnitId { job, index },
            attempt: 1,
            proof: Default::default(),
            began: 0,
            result,
        }];
        Message::Work(Work::ToOwner(ToOwner::Report { seq: u64::from(index), results }))
    };
    say(&mut world, stranger, &report(job, 3));
    say(&mut world, stranger, &report(job, u32::MAX));
    say(&mut world, stranger, &report(JobId([9; 16]), 0));
    say(&mut world, stranger, &Message::Work(Work::ToOwner(ToOwner::Cancel { job })));
    world.run_for(Duration::from_secs(1));
    let view = world.job(job).unwrap();
    assert_eq!((view.done, view.waiting), (0, 3));
    let faults = world.faults(0);
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(faults[0].contains("the job has 3 units") && faults[2].contains("not its job"));
}

#[test]
fn a_peer_that_makes_faults_a_habit_is_disconnected() {
    let (mut world, stranger) = with_stranger(6);
    introduce(&mut world, stranger, None);
    let spec = world.sweep(0, 1);
    world.crash(1);
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(1));
    world.connect(0, 1);
    for _ in 0..20 {
        say(&mut world, stranger, &Message::Work(Work::ToOwner(ToOwner::Cancel { job })));
    }
    assert!(world.closed.iter().any(|(at, peer, why)| {
        *at == 0 && *peer == world.nodes[stranger].id && why.contains("10 faults")
    }));
}

#[test]
fn faults_are_counted_over_reconnections_and_one_is_forgotten_each_minute() {
    let mut world = World::seed(11).swarm(1, 1);
    let spec = world.sweep(0, 1);
    world.crash(1);
    let job = world.submit(0, spec);
    let (stranger, other) = (world.add(Config::default()), world.add(Config::default()));
    let come = |world: &mut World, at: usize| {
        world.visit(at, 0);
        world.run_for(Duration::from_secs(1));
        world.connected(at, 0)
    };
    let cancel = Message::Work(Work::ToOwner(ToOwner::Cancel { job }));
    let faults = |world: &mut World, count: usize| {
        (0..count).for_each(|_| say(world, stranger, &cancel));
        world.run_for(Duration::from_secs(1));
        world.connected(stranger, 0)
    };
    assert!(come(&mut world, stranger) && !faults(&mut world, 10));
    // A node with this key comes again and is told why it is refused; another key is let in.
    assert!(!come(&mut world, stranger) && come(&mut world, other));
    let told = |(_, at, event): &(_, usize, NodeEvent)| match event {
        NodeEvent::Rejected { reason, .. } if *at == stranger => Some(reason.clone()),
        _ => None,
    };
    let why = world.told.iter().find_map(told).expect("it is told");
    assert!(why.contains("10 faults") && why.contains(" s"), "{why}");
    // Each minute it is heard again, for one fault.
    for _ in 0..3 {
        world.run_for(Duration::from_secs(61));
        assert!(come(&mut world, stranger));
        assert!(!faults(&mut world, 1));
    }
    // Others' faults do not make it forgotten.
    for key in 0..3_000u32 {
        let mut peer = node_core::NodeId([99; 32]);
        peer.0[..4].copy_from_slice(&(1_000 + key).to_be_bytes());
        let hello = Message::Offer(Offer::default()).encode().unwrap();
        world.drive(0, NodeInput::Received { from: peer, channel: Channel::Control, bytes: hello });
    }
    assert!(!come(&mut world, stranger));
    world.run_for(Duration::from_secs(600));
    assert!(come(&mut world, stranger));
    assert!(faults(&mut world, 9), "its old faults are forgotten");
}

#[test]
fn a_keeper_of_content_that_lies_is_found_out_at_the_first_chunk() {
    let mut world = World::seed(7).swarm(1, 1);
    let mut spec = world.sweep(0, 1);
    let input: Vec<u8> = (0..900_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    let blob = world.upload(0, &input);
    spec.template.stdin = Data::Blob(blob);
    // The gateway's own disk has gone bad under it.
    world.nodes[0].disk.corrupt_blob(blob.id);
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(5));
    assert!(world.faults(1).iter().any(|fault| fault.contains("hash tree that does not belong")));
    let view = world.job(job).unwrap();
    assert_eq!(view.done, 0);
    assert!(view.reason.contains("could not get the job's content"), "{}", view.reason);
}

#[test]
fn a_stranger_asking_for_content_gets_what_there_is_and_no_more() {
    let (mut world, stranger) = with_stranger(8);
    introduce(&mut world, stranger, None);
    let blob = world.upload(0, &[5; 600_000]);
    for index in [3, u32::MAX] {
        say(&mut world, stranger, &Message::Store(Content::Get { id: blob.id, index }));
    }
    assert_eq!(world.faults(0).len(), 2);
    say(&mut world, stranger, &Message::Store(Content::Get { id: node_core::BlobId([1; 32]), index: 0 }));
    say(&mut world, stranger, &Message::Store(Content::GetTree { id: blob.id }));
    world.run_for(Duration::from_secs(1));
}

/// A proxy with TLS is on the gateway's machine, and those who come through it are anywhere.
#[test]
fn who_comes_by_websocket_does_not_make_this_machine_near() {
    let mut peers = Peers::default();
    let here = Ip::from(IpAddr::from(Ipv4Addr::LOCALHOST));
    let peer = |over, joined| Peer { over, joined, ..Peer::new(Some(here), Time::ZERO) };
    peers.insert(NodeId([1; 32]), peer(Carrier::WebSocket, false));
    assert_eq!(peers.nearest(), None);
    // A page's own gateway, which it has dialled.
    peers.insert(NodeId([2; 32]), peer(Carrier::WebSocket, true));
    assert_eq!(peers.nearest(), Some(Scope::Machine));
    peers.remove(NodeId([2; 32]));
    peers.insert(NodeId([3; 32]), peer(Carrier::Tcp, false));
    assert_eq!(peers.nearest(), Some(Scope::Machine));
}

/// A node tells its neighbours in the tree of itself, who may hear of it a moment later from their parent.
#[test]
fn nodes_that_join_one_after_the_other_are_blamed_for_nothing() {
    for seed in 0..20 {
        let mut world = World::seed(seed);
        let config = |gateway| Config { gateway, slots: 1, port: Some(4001), ..Config::default() };
        world.add(config(true));
        for n in 1..=6 {
            world.run_for(Duration::from_secs(40));
            world.add(config(false));
            world.connect(0, n);
        }
        world.run_for(Duration::from_secs(40));
        for at in 0..=6 {
            assert!(world.faults(at).is_empty(), "seed {seed}, {at}: {:?}", world.faults(at));
        }
    }
}
