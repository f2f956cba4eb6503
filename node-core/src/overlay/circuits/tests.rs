//! Stories of a relay between two ends, message by message.

use super::ends::{self, Circuits, Event, NotOpened, Reply, Request, Role};
use super::relay::{self, CIRCUITS, CircuitRelay, EACH};
use super::{CircuitId, Message, PIECE, Piece, Refusal, ToEnd, ToRelay, WINDOW, cost};
use crate::address::{Contact, Dialable, Ip};
use crate::ids::NodeId;
use crate::peers::{Known, Peer, Peers};
use crate::platform::Platform;
use crate::protocol::{Effect, Input, InputOf, Machine, Rng};
use crate::ticket::Services;
use crate::time::Time;
use bytes::Bytes;
use std::time::Duration;

const RELAY: NodeId = NodeId([1; 32]);
const ADA: NodeId = NodeId([2; 32]);
const BOB: NodeId = NodeId([3; 32]);
const EVE: NodeId = NodeId([4; 32]);

/// Bytes a second of relays without a bound that matters.
const FAST: u64 = 1 << 40;

fn peers(of: &[NodeId]) -> Peers {
    let mut peers = Peers::new();
    for id in of {
        let hello = Known {
            name: "peer".into(),
            platform: Platform::Native,
            gateway: false,
            dialable: Dialable::No,
            speaks: Services::ALL,
            web: None,
        };
        peers.insert(*id, Peer { hello: Some(hello), ..Peer::new(None, Time::ZERO) });
    }
    peers
}

/// A relay, and what it has said since somebody looked.
struct Middle {
    machine: Machine<CircuitRelay>,
    peers: Peers,
    now: Time,
    said: Vec<(NodeId, ToEnd)>,
    faults: Vec<NodeId>,
}

impl Middle {
    fn new(rate: u64) -> Middle {
        let machine = Machine::new(CircuitRelay::new(rate), Rng::from_seed([0; 32]));
        let peers = peers(&[ADA, BOB, EVE]);
        Middle { machine, peers, now: Time(1_000_000), said: vec![], faults: vec![] }
    }

    fn step(&mut self, input: InputOf<CircuitRelay>) {
        for effect in self.machine.step_among(&self.peers, RELAY, self.now, input) {
            match effect {
                Effect::Send { to, message: Message::ToEnd(message) } => self.said.push((to, message)),
                Effect::Fault { peer, .. } => self.faults.push(peer),
                _ => panic!("a relay has no other effects"),
            }
        }
    }

    fn hear(&mut self, from: NodeId, message: ToRelay) -> Vec<(NodeId, ToEnd)> {
        self.step(Input::Message { from, message: Message::ToRelay(message) });
        std::mem::take(&mut self.said)
    }

    fn on(&mut self, from: NodeId, circuit: u64, piece: Piece) -> Vec<(NodeId, ToEnd)> {
        self.hear(from, ToRelay::On { circuit, piece })
    }

    fn open(&mut self, from: NodeId, to: NodeId) -> u64 {
        match &self.hear(from, ToRelay::Open { to })[..] {
            [(other, ToEnd::Incoming { circuit, from: named }), (opener, ToEnd::Opened { .. })] => {
                assert_eq!((*other, *named, *opener), (to, from, from));
                *circuit
            }
            other => panic!("{other:?}"),
        }
    }

    /// Lets time pass, with its timers.
    fn wait(&mut self, time: Duration) -> Vec<(NodeId, ToEnd)> {
        let end = self.now + time;
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            self.now = at;
            while let Some(timer) = self.machine.due(at) {
                self.step(Input::Timer(timer));
            }
        }
        self.now = end;
        std::mem::take(&mut self.said)
    }
}

fn data(bytes: usize) -> Piece {
    Piece::Data(Bytes::from(vec![7; bytes]))
}

fn on(circuit: u64, piece: Piece) -> ToEnd {
    ToEnd::On { circuit, piece }
}

#[test]
fn what_one_end_writes_comes_to_the_other_and_no_more_than_it_reads() {
    let mut relay = Middle::new(FAST);
    let circuit = relay.open(ADA, BOB);
    assert_eq!(relay.on(BOB, circuit, data(5)), [(ADA, on(circuit, data(5)))]);
    let whole = cost(PIECE);
    for _ in 0..WINDOW / whole {
        assert_eq!(relay.on(ADA, circuit, data(PIECE)), [(BOB, on(circuit, data(PIECE)))]);
    }
    assert_eq!(relay.on(BOB, circuit, Piece::Room(whole)), [(ADA, on(circuit, Piece::Room(whole)))]);
    assert_eq!(relay.on(ADA, circuit, data(PIECE)).len(), 1, "it may send that again");
    assert!(relay.faults.is_empty());
    let closed = relay.on(ADA, circuit, data(PIECE));
    assert_eq!(
        (closed, relay.faults),
        (vec![(ADA, on(circuit, Piece::Close)), (BOB, on(circuit, Piece::Close))], vec![ADA])
    );
}

#[test]
fn nobody_writes_on_a_circuit_of_others_or_reads_what_has_not_come() {
    let mut relay = Middle::new(FAST);
    let circuit = relay.open(ADA, BOB);
    assert_eq!(relay.on(EVE, circuit, data(5)), []);
    assert_eq!(relay.on(EVE, circuit, Piece::Close), []);
    assert_eq!(relay.faults, [EVE, EVE]);
    assert_eq!(relay.on(BOB, circuit, Piece::Room(1)).len(), 2, "both hear that it is closed");
    assert_eq!(relay.on(ADA, circuit, data(5)), [], "nothing goes on");
    for piece in [data(0), data(PIECE + 1)] {
        let circuit = relay.open(ADA, BOB);
        assert_eq!(relay.on(ADA, circuit, piece).len(), 2);
    }
    assert_eq!(relay.faults, [EVE, EVE, BOB, ADA, ADA]);
}

#[test]
fn a_circuit_is_refused_with_a_reason_and_of_two_that_cross_one_stands() {
    let mut relay = Middle::new(0);
    let refused = |to, why| ToEnd::Refused { to, why };
    assert_eq!(relay.hear(ADA, ToRelay::Open { to: BOB }), [(ADA, refused(BOB, Refusal::NotRelaying))]);
    relay.step(Input::Command(relay::Command::Rate(FAST)));
    let nobody = NodeId([9; 32]);
    assert_eq!(relay.hear(ADA, ToRelay::Open { to: nobody }), [(ADA, refused(nobody, Refusal::NotHere))]);
    let first = relay.open(ADA, BOB);
    assert_eq!(relay.hear(BOB, ToRelay::Open { to: ADA }), [], "it hears of the other one");
    // Ada has lost it.
    let again = relay.hear(ADA, ToRelay::Open { to: BOB });
    assert_eq!((again.len(), &again[0]), (3, &(BOB, on(first, Piece::Close))));
    relay.step(Input::Command(relay::Command::Rate(0)));
    assert_eq!(std::mem::take(&mut relay.said).len(), 2, "its donor has changed their mind");
    assert!(relay.machine.state().is_empty());
}

#[test]
fn a_relay_whose_donor_gives_nothing_more_has_nothing_left_to_look_at() {
    let mut relay = Middle::new(1000);
    let circuit = relay.open(ADA, BOB);
    // Ada waits for room, of which there is none for some time.
    for _ in 0..WINDOW / cost(PIECE) {
        relay.on(ADA, circuit, data(PIECE));
        relay.on(BOB, circuit, Piece::Room(cost(PIECE)));
    }
    assert!(relay.machine.deadline().is_some());
    relay.step(Input::Command(relay::Command::Rate(0)));
    relay.now = relay.now + Duration::from_secs(1);
    while let Some(timer) = relay.machine.due(relay.now) {
        relay.step(Input::Timer(timer));
    }
    assert_eq!(relay.machine.deadline(), None);
}

#[test]
fn circuits_end_with_either_node_and_are_bounded() {
    let mut relay = Middle::new(FAST);
    let circuit = relay.open(ADA, BOB);
    relay.step(Input::Down(BOB));
    assert_eq!(std::mem::take(&mut relay.said), [(ADA, on(circuit, Piece::Close))]);
    let many: Vec<NodeId> = (0..200).map(|n| NodeId([n as u8 + 50; 32])).collect();
    relay.peers = peers(&[&[ADA, BOB, EVE][..], &many].concat());
    let opened = |relay: &mut Middle, from, to: &[NodeId]| {
        to.iter().filter(|to| relay.hear(from, ToRelay::Open { to: **to }).len() == 2).count()
    };
    let mut first = opened(&mut relay, ADA, &many[..100]);
    // It may ask as often again.
    relay.now = relay.now + Duration::from_secs(60);
    first += opened(&mut relay, ADA, &many[100..]);
    assert_eq!(first, EACH);
    let others = [BOB, EVE, many[197], many[198], many[199]];
    let all: usize = others.map(|from| opened(&mut relay, from, &many[..150])).iter().sum();
    assert_eq!(first + all, CIRCUITS, "others have room, as far as it goes");
    // Ten thousand are asked for at once.
    let mut opens = 0;
    for _ in 0..10_000 {
        opens +=
            relay.hear(ADA, ToRelay::Open { to: many[0] }).iter().filter(|(to, _)| *to == many[0]).count();
    }
    assert!(opens < EACH, "{opens}: its opens of this moment are used up");
}

#[test]
fn nodes_share_the_rate_whichever_number_of_circuits_they_have() {
    let rate = 10_000_000;
    let mut relay = Middle::new(rate);
    let many: Vec<NodeId> = (0..9).map(|n| NodeId([n + 50; 32])).collect();
    relay.peers = peers(&[&[ADA, BOB, EVE][..], &many].concat());
    // Ada writes on nine circuits, Eve on one.
    let mut circuits: Vec<(NodeId, NodeId, u64)> =
        many.iter().map(|to| (ADA, *to, relay.open(ADA, *to))).collect();
    circuits.push((EVE, BOB, relay.open(EVE, BOB)));
    let mut room: Vec<u32> = vec![WINDOW; circuits.len()];
    let mut written = [0_u64; 2];
    for _ in 0..1000 {
        for (at, (from, to, circuit)) in circuits.clone().into_iter().enumerate() {
            while room[at] >= cost(PIECE) {
                relay.on(from, circuit, data(PIECE));
                room[at] -= cost(PIECE);
                written[usize::from(from == EVE)] += PIECE as u64;
                // The other end reads at once.
                take(relay.on(to, circuit, Piece::Room(cost(PIECE))), &circuits, &mut room);
            }
        }
        take(relay.wait(Duration::from_millis(10)), &circuits, &mut room);
    }
    let most = 10 * rate + circuits.len() as u64 * u64::from(WINDOW) + rate;
    let all = written[0] + written[1];
    assert!(all <= most && all > 9 * rate, "{all} bytes in ten seconds");
    let share = written[1] as f64 / all as f64;
    assert!((0.4..0.6).contains(&share), "Eve has {share}");
    assert!(relay.faults.is_empty());
}

fn take(said: Vec<(NodeId, ToEnd)>, circuits: &[(NodeId, NodeId, u64)], room: &mut [u32]) {
    for (to, message) in said {
        let ToEnd::On { circuit, piece: Piece::Room(more) } = message else { continue };
        let at = circuits.iter().position(|(from, _, of)| (*from, *of) == (to, circuit)).unwrap();
        room[at] += more;
    }
}

/// The ends at Ada's, and what they have wished and said since somebody looked.
struct Ada {
    machine: Machine<Circuits>,
    peers: Peers,
    now: Time,
    said: Vec<ToRelay>,
    wishes: Vec<Request>,
    not_opened: Vec<NotOpened>,
    faults: usize,
}

impl Ada {
    fn new() -> Ada {
        let machine = Machine::new(Circuits::default(), Rng::from_seed([0; 32]));
        let (said, wishes, not_opened) = (vec![], vec![], vec![]);
        Ada { machine, peers: peers(&[RELAY]), now: Time(1_000_000), said, wishes, not_opened, faults: 0 }
    }

    fn step(&mut self, input: InputOf<Circuits>) {
        for effect in self.machine.step_among(&self.peers, ADA, self.now, input) {
            match effect {
                Effect::Send { to: RELAY, message: Message::ToRelay(message) } => self.said.push(message),
                Effect::Emit(Event::Request(wish)) => self.wishes.push(wish),
                Effect::Emit(Event::NotOpened { peer: BOB, why }) => self.not_opened.push(why),
                Effect::Fault { peer: RELAY, .. } => self.faults += 1,
                Effect::Reach(_) => {}
                _ => panic!("an end has no other effects"),
            }
        }
    }

    fn hear(&mut self, message: ToEnd) {
        self.step(Input::Message { from: RELAY, message: Message::ToEnd(message) });
    }

    fn connect(&mut self) {
        let relay = Contact { ip: Ip([9; 16]), id: RELAY, port: 4001 };
        self.step(Input::Command(ends::Command::Connect { peer: BOB, relay }));
    }

    fn reply(&mut self, reply: Reply) {
        self.step(Input::Command(ends::Command::Reply(reply)));
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            self.now = at;
            while let Some(timer) = self.machine.due(at) {
                self.step(Input::Timer(timer));
            }
        }
        self.now = end;
    }

    fn wishes(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.wishes)
    }

    fn said(&mut self) -> Vec<ToRelay> {
        std::mem::take(&mut self.said)
    }
}

fn circuit(number: u64) -> CircuitId {
    CircuitId { relay: RELAY, number }
}

#[test]
fn a_circuit_that_is_opened_is_the_drivers_until_either_end_closes_it() {
    let mut ada = Ada::new();
    ada.connect();
    assert_eq!(ada.said(), [ToRelay::Open { to: BOB }]);
    ada.hear(ToEnd::Opened { circuit: 7, to: BOB });
    assert_eq!(ada.wishes(), [Request::Open { circuit: circuit(7), peer: BOB, role: Role::Dials }]);
    ada.reply(Reply::Bytes(circuit(7), Bytes::from_static(b"hello")));
    ada.hear(on(7, data(3)));
    ada.reply(Reply::Read(circuit(7), cost(3)));
    let written = Piece::Data(Bytes::from_static(b"hello"));
    let said = [written, Piece::Room(cost(3))].map(|piece| ToRelay::On { circuit: 7, piece });
    assert_eq!(ada.said(), said);
    assert_eq!(ada.wishes(), [Request::Bytes(circuit(7), Bytes::from(vec![7; 3]))]);
    ada.hear(on(7, Piece::Close));
    assert_eq!(
        (ada.wishes(), ada.not_opened.clone()),
        (vec![Request::Close(circuit(7))], vec![NotOpened::Unproven])
    );
    ada.hear(on(7, data(3)));
    assert_eq!((ada.wishes(), ada.said()), (vec![], vec![]), "it is over");
}

#[test]
fn a_wish_ends_with_a_reason_whatever_the_relay_does() {
    let mut ada = Ada::new();
    let whys = |ada: &mut Ada| std::mem::take(&mut ada.not_opened);
    ada.connect();
    ada.wait(Duration::from_secs(6));
    assert_eq!(whys(&mut ada), [NotOpened::Unanswered]);
    ada.hear(ToEnd::Opened { circuit: 1, to: BOB });
    let close = |circuit| ToRelay::On { circuit, piece: Piece::Close };
    assert_eq!((ada.said()[1..].to_vec(), ada.wishes()), (vec![close(1)], vec![]), "that comes too late");
    ada.connect();
    ada.hear(ToEnd::Refused { to: BOB, why: Refusal::NotHere });
    assert_eq!(whys(&mut ada), [NotOpened::Refused(Refusal::NotHere)]);
    ada.connect();
    ada.step(Input::Down(RELAY));
    assert_eq!(whys(&mut ada), [NotOpened::Gone]);
    ada.connect();
    ada.hear(ToEnd::Opened { circuit: 2, to: BOB });
    ada.wait(Duration::from_secs(11));
    assert_eq!(whys(&mut ada), [NotOpened::Unproven], "nobody at its other end shakes hands");
    ada.connect();
    ada.hear(ToEnd::Opened { circuit: 3, to: BOB });
    ada.step(Input::Unreachable(BOB));
    assert_eq!(whys(&mut ada), [NotOpened::Gone], "it was another node");
    ada.connect();
    ada.hear(ToEnd::Opened { circuit: 4, to: BOB });
    ada.step(Input::Unreachable(RELAY));
    assert_eq!(whys(&mut ada), [NotOpened::Gone]);
}

#[test]
fn of_two_that_want_to_connect_at_once_both_take_the_circuit_that_came_first() {
    let mut ada = Ada::new();
    ada.connect();
    ada.hear(ToEnd::Incoming { circuit: 5, from: BOB });
    assert_eq!(ada.wishes(), [Request::Open { circuit: circuit(5), peer: BOB, role: Role::Answers }]);
    ada.reply(Reply::Closed(circuit(5)));
    assert_eq!(ada.not_opened, [NotOpened::Unproven], "it was wanted here, too");
}

#[test]
fn the_end_of_an_older_connection_does_not_end_the_new_circuit() {
    let mut ada = Ada::new();
    ada.hear(ToEnd::Incoming { circuit: 5, from: BOB });
    ada.step(Input::Up(BOB));
    ada.hear(ToEnd::Incoming { circuit: 6, from: BOB });
    ada.wishes();
    ada.step(Input::Down(BOB));
    assert_eq!(ada.wishes(), [Request::Close(circuit(5))]);
    ada.step(Input::Up(BOB));
    assert_eq!(ada.machine.state().brings(BOB), Some(RELAY));
}

#[test]
fn a_wish_for_a_peer_that_has_just_gone_is_asked_of_the_relay() {
    let mut ada = Ada::new();
    ada.connect();
    ada.hear(ToEnd::Opened { circuit: 5, to: BOB });
    ada.step(Input::Up(BOB));
    ada.said();
    // The connection has ended, and nobody has told this machine yet.
    ada.connect();
    assert_eq!(ada.said(), [ToRelay::Open { to: BOB }]);
    ada.step(Input::Down(BOB));
    ada.hear(ToEnd::Refused { to: BOB, why: Refusal::NotHere });
    assert_eq!(ada.not_opened, [NotOpened::Refused(Refusal::NotHere)]);
}

#[test]
fn a_relay_that_floods_is_bounded_and_blamed() {
    let mut ada = Ada::new();
    let taken = |ada: &mut Ada, from: std::ops::Range<u64>| {
        from.for_each(|number| ada.hear(ToEnd::Incoming { circuit: number, from: BOB }));
        ada.wishes().iter().filter(|wish| matches!(wish, Request::Open { .. })).count()
    };
    let first = taken(&mut ada, 0..10_000);
    assert!((10..=64).contains(&first), "{first} circuits");
    ada.hear(on(0, data(PIECE)));
    assert_eq!(ada.faults, 0);
    (0..4).for_each(|_| ada.hear(on(0, data(PIECE))));
    assert_eq!(ada.faults, 1, "it has passed on more than a window");
    ada.hear(on(1, Piece::Room(1)));
    assert_eq!(ada.faults, 2, "nothing was written");
    // Each circuit that ends makes room for one that comes in its time.
    for number in 2..64 {
        ada.hear(on(number, Piece::Close));
    }
    ada.wishes();
    let again = taken(&mut ada, 10_000..20_000);
    assert!(again <= 1, "{again} at once");
}
