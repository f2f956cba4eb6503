//! Stories of nodes that meddle with the connections of others: they make up circuits, send kept offers again, and take
//! more of a relay than its donor gives.

use crate::far_guests::{PAGES, config, page, secret, swarm};
use bytes::Bytes;
use node_core::address::{Address, Contact};
use node_core::ids::JobId;
use node_core::keys::Secret;
use node_core::node::message::Message;
use node_core::overlay::circuits::{self, PIECE, Piece, ToEnd, ToRelay};
use node_core::overlay::dialback::Standing;
use node_core::overlay::guests::{self, ToGuest};
use node_core::overlay::signalling::{Description, Fingerprint, Said, SessionId, What};
use node_core::trust::policy::Policy;
use node_core::{Command, Config, NodeId, NodeInput};
use simulator::World;
use simulator::liar::{Liar, Lie};
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

/// Nodes without slots, connected to `at`, of whose circuits and sessions the story speaks.
fn meddlers(world: &mut World, at: usize, count: usize) -> Vec<usize> {
    let mut all = Vec::new();
    for _ in 0..count {
        let n = world.nodes.len();
        let it = Config { slots: 0, nearest: Arc::default(), ring: None, market: None, ..config(n, false) };
        world.add_keyed(it, &secret(n));
        world.liars.insert(n, Liar::new(Lie::Quiet, JobId([7; 16]), 0));
        world.visit(n, at);
        all.push(n);
    }
    world.run_for(Duration::from_secs(30));
    all
}

fn member(world: &World, at: usize) -> Contact {
    let Standing::Member(contact) = world.node(at).standing() else { panic!("others dial it") };
    contact
}

/// Where the first page is reached.
fn page_at(world: &World) -> Address {
    Address::guest(world.nodes[PAGES[0]].id, member(world, 0)).with_channels(true)
}

fn of_circuits(world: &mut World, from: usize, to: usize, message: circuits::Message) {
    let to = world.nodes[to].id;
    world.tell(from, to, &Message::Circuits(message));
}

/// Says that a node has asked for a circuit, as its relay would.
fn make_up(world: &mut World, meddler: usize, to: usize, circuit: u64, from: NodeId) {
    of_circuits(world, meddler, to, circuits::Message::ToEnd(ToEnd::Incoming { circuit, from }));
}

/// An offer of this node, of that session.
fn offer(of: &Secret, to: NodeId, session: u64) -> Message {
    let mut id = [9; 16];
    id[..8].copy_from_slice(&session.to_be_bytes());
    let description = Description {
        ufrag: "abcdefgh".into(),
        password: "0123456789abcdefghijklmn".into(),
        fingerprint: Fingerprint([3; 32]),
    };
    let said = Said { to, session: SessionId(id), what: What::Offer(description) };
    Message::Signalling(said.sign(of).expect("it is short"))
}

/// Brings a message as one that the node `from` had this one forward.
fn bring(world: &mut World, meddler: usize, to: usize, from: NodeId, message: &Message) {
    let frame = message.encode().expect("it fits");
    let to = world.nodes[to].id;
    world.tell(meddler, to, &Message::Guests(guests::Message::ToGuest(ToGuest::Forwarded { from, frame })));
}

#[test]
fn a_neighbour_that_makes_up_circuits_keeps_nobody_from_the_real_relay() {
    for seed in 10..13 {
        let (mut world, owner) = swarm(seed);
        PAGES.into_iter().for_each(|page| world.wall(owner, page));
        let meddler = meddlers(&mut world, owner, 1)[0];
        let spec = world.sweep(owner, 20);
        let job = world.submit(owner, spec);
        let pages = PAGES.map(|at| world.nodes[at].id);
        let mut circuit = 0;
        for _ in 0..300 {
            for page in pages {
                circuit += 1;
                make_up(&mut world, meddler, owner, circuit, page);
            }
            world.run_for(Duration::from_millis(200));
        }
        let job = world.node(owner).job(job).expect("it is known");
        assert_eq!((job.done, job.failed), (20, 0), "seed {seed}");
    }
}

#[test]
fn relays_that_make_up_circuits_leave_a_node_some_for_what_it_wants() {
    let (mut world, owner) = swarm(12);
    world.wall(owner, PAGES[0]);
    let all = meddlers(&mut world, owner, 4);
    let mut number = 0_u64;
    let mut round = |world: &mut World| {
        for meddler in &all {
            number += 1;
            let mut nobody = [0xee; 32];
            nobody[..8].copy_from_slice(&number.to_be_bytes());
            make_up(world, *meddler, owner, number, NodeId(nobody));
        }
        world.run_for(Duration::from_millis(50));
    };
    (0..600).for_each(|_| round(&mut world));
    let to = page_at(&world);
    world.drive(owner, NodeInput::Command(Command::Connect(to)));
    (0..400).for_each(|_| round(&mut world));
    assert!(world.connected(owner, PAGES[0]), "within 20 s");
}

#[test]
fn an_offer_that_is_sent_again_and_again_does_not_keep_two_nodes_apart() {
    for seed in 14..17 {
        let (mut world, owner) = swarm(seed);
        world.wall(owner, PAGES[0]);
        let meddler = meddlers(&mut world, owner, 1)[0];
        let page = world.nodes[PAGES[0]].id;
        let kept = offer(&secret(PAGES[0]), world.nodes[owner].id, 1);
        let to = page_at(&world);
        for round in 0..60 {
            bring(&mut world, meddler, owner, page, &kept);
            if round == 20 {
                world.drive(owner, NodeInput::Command(Command::Connect(to)));
            }
            world.run_for(Duration::from_millis(500));
        }
        assert!(world.connected(owner, PAGES[0]), "seed {seed}: within 20 s");
    }
}

#[test]
fn who_renews_its_sessions_without_end_leaves_turns_to_those_that_wait() {
    for seed in 17..20 {
        let (mut world, owner) = swarm(seed);
        let all = meddlers(&mut world, owner, 2);
        let me = world.nodes[owner].id;
        let strangers: Vec<Secret> = (0..64).map(|n| Secret::from_bytes(&[100 + n; 32])).collect();
        let to = page_at(&world);
        let mut session = 0;
        for round in 0..600 {
            for (n, meddler) in all.iter().enumerate() {
                session += 1;
                let stranger = &strangers[round % 32 + 32 * n];
                bring(&mut world, *meddler, owner, stranger.node(), &offer(stranger, me, session));
            }
            if round == 400 {
                world.drive(owner, NodeInput::Command(Command::Connect(to)));
            }
            world.run_for(Duration::from_millis(50));
        }
        assert!(world.connected_straight(owner, PAGES[0]), "seed {seed}: within 10 s");
    }
}

#[test]
fn circuits_of_one_network_give_way_to_those_of_another() {
    let (mut world, owner) = swarm(13);
    world.wall(owner, PAGES[0]);
    let all = meddlers(&mut world, 0, 34);
    for (n, from) in all.iter().enumerate() {
        for to in &all[n + 1..] {
            let to = world.nodes[*to].id;
            of_circuits(&mut world, *from, 0, circuits::Message::ToRelay(ToRelay::Open { to }));
        }
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.node(0).relayed().map(|(circuits, _)| circuits), Some(circuits::relay::CIRCUITS));
    let to = page_at(&world);
    world.drive(owner, NodeInput::Command(Command::Connect(to)));
    world.run_for(Duration::from_secs(6));
    assert!(world.connected(owner, PAGES[0]));
}

#[test]
fn circuits_that_are_opened_anew_carry_no_more_than_the_donor_gives() {
    let (mut world, _) = swarm(16);
    let pair = meddlers(&mut world, 0, 2);
    let rate = 0.1;
    let policy = Arc::new(Policy { relay_mb_per_s: rate, ..Policy::default() });
    world.drive(0, NodeInput::Command(Command::Terms { memory_bytes: 1 << 30, policy }));
    let passed = |world: &World| world.node(0).relayed().expect("it is a relay").1;
    let (before, began) = (passed(&world), world.now);
    // Circuits have numbers, one after the other.
    let mut last = world.node(0).relayed().expect("it is a relay").0 as u64;
    let piece = Bytes::from(vec![7; PIECE]);
    for _ in 0..600 {
        for (from, to) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            let to = world.nodes[to].id;
            of_circuits(&mut world, from, 0, circuits::Message::ToRelay(ToRelay::Open { to }));
            world.run_for(Duration::from_millis(50));
            let now = passed(&world);
            for from in &pair {
                for _ in 0..3 {
                    let on = ToRelay::On { circuit: last + 1, piece: Piece::Data(piece.clone()) };
                    of_circuits(&mut world, *from, 0, circuits::Message::ToRelay(on));
                }
            }
            world.run_for(Duration::from_millis(50));
            last += u64::from(passed(&world) > now);
        }
    }
    // Nobody has to make up for the first windows beforehand.
    let most = rate * 1e6 * world.now.since(began).as_secs_f64() + 4.0 * f64::from(circuits::WINDOW);
    let passed = (passed(&world) - before) as f64;
    assert!(passed > most / 4.0 && passed <= most, "{passed} bytes of {most}");
}

#[test]
fn wrong_invites_by_way_of_one_relay_shut_out_nobody_who_comes_by_another() {
    let mut world = World::seed(17);
    let word = || Some("word".to_owned());
    for at in 0..2 {
        let gateway = Config { founds: at == 0, invite: word(), invited_with: word(), ..config(at, true) };
        world.add_keyed(gateway, &secret(at));
        if at > 0 {
            world.connect(at, 0);
        }
    }
    world.run_for(A_MINUTE);
    world.add_keyed(Config { invited_with: word(), signalling: None, ..page(2) }, &secret(2));
    world.connect(2, 1);
    // A worker that was let in, and asks nobody for an invite.
    world.add_keyed(Config { invited_with: word(), ..config(3, false) }, &secret(3));
    world.connect(3, 0);
    world.run_for(A_MINUTE);
    for n in 0..12 {
        let at = world.nodes.len();
        let guess = Some(format!("guess {n}"));
        let outsider =
            Config { slots: 0, port: None, relay_rate: None, invited_with: guess, ..config(at, false) };
        world.add_keyed(outsider, &secret(at));
        world.visit(at, 3);
        world.run_for(Duration::from_secs(5));
        let to = Address::guest(world.nodes[0].id, member(&world, 3)).with_channels(true);
        world.drive(at, NodeInput::Command(Command::Connect(to)));
        world.run_for(Duration::from_secs(7));
    }
    let to = Address::guest(world.nodes[2].id, member(&world, 1)).with_channels(true);
    world.drive(0, NodeInput::Command(Command::Connect(to)));
    world.run_for(Duration::from_secs(20));
    assert!(world.connected(0, 2), "{:?}", world.closed);
}
