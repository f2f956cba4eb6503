//! Records that are not taken, each with its outcome.

use super::*;
use node_core::NodeId;
use node_core::address::{Contact, Ip};
use node_core::circle::Range;
use node_core::keys::Signed;
use node_core::protocol::{Effect, Input, Machine, Protocol, Rng};
use node_core::records::{self, Copied, Message, Record, Records};
use node_core::replicas::Keys;
use node_core::time::Time;

const NOW: u64 = 1_700_000_000_000;

const PURPOSE: &str = "manyhands 2026-11 record on the ring";

fn record(key: Key, number: u64, text: &str) -> Record {
    let value = Some(Bytes::copy_from_slice(text.as_bytes()));
    Record { key, number, expires_ms: NOW + 3_600_000, value }
}

fn signed(by: usize, record: &Record) -> Signed {
    Signed::new(&secret(by), PURPOSE, rmp_serde::to_vec(record).expect("plain").into())
}

fn prize(by: usize, number: u64, text: &str) -> Signed {
    signed(by, &record(name("prize"), number, text))
}

/// One machine, with one successor, that owns all keys or none.
struct Home {
    machine: Machine<Records>,
    now: Time,
}

const ME: NodeId = NodeId([9; 32]);
const SUCCESSOR: NodeId = NodeId([8; 32]);
/// It owned all keys until a moment ago, if they are the machine's now.
const FORMER: NodeId = NodeId([4; 32]);
const STRANGER: NodeId = NodeId([3; 32]);

fn contact(id: NodeId) -> Contact {
    Contact { ip: Ip([1; 16]), id, port: 1 }
}

/// The nearest nodes before the machine, of 256: the nearest one owns almost all keys.
fn predecessors() -> Vec<NodeId> {
    let mut all: Vec<NodeId> = (0..=255).map(|n| NodeId([n; 32])).filter(|id| *id != ME).collect();
    all.sort_by_key(|id| Point::of_node(*id).to(Point::of_node(ME)));
    all
}

impl Home {
    fn new(config: RecordsConfig, owns: bool) -> Home {
        let records = Records::new(config, secret(9));
        let mut home = Home { machine: Machine::new(records, Rng::from_seed([1; 32])), now: Time::ZERO };
        home.tell(records::Command::WallClock(NOW));
        home.tell(records::Command::Keys(Keys::Successors(vec![contact(SUCCESSOR)])));
        if owns {
            let all = Range { after: Point(0), upto: Point(0) };
            home.tell(records::Command::Keys(Keys::Gained { range: all, from: Some(contact(FORMER)) }));
        } else {
            home.tell(records::Command::Predecessors(vec![predecessors()[0]]));
        }
        home
    }

    fn step(&mut self, input: Input<Message, records::Timer, records::Command>) -> Vec<Effect<Records>> {
        let effects = self.machine.step(ME, self.now, input);
        self.machine.state().check_invariants();
        effects
    }

    fn tell(&mut self, command: records::Command) {
        self.step(Input::Command(command));
    }

    fn hear(&mut self, from: NodeId, message: Message) -> Vec<Effect<Records>> {
        self.step(Input::Message { from, message })
    }

    fn put(&mut self, record: Signed) -> Option<Refused> {
        let message = Message::Put { ticket: 7, signed: Box::new(record) };
        let effects = self.hear(STRANGER, message);
        let done = effects.into_iter().find_map(|effect| match effect {
            Effect::Send { message: Message::Done { ticket: 7, refused }, .. } => Some(refused),
            _ => None,
        });
        done.expect("every record is answered")
    }

    /// As one that the node has which the ring names; its faults.
    fn copy(&mut self, record: Signed, since_ms: u64) -> Vec<String> {
        self.copy_from(FORMER, record.clone(), since_ms)
            .into_iter()
            .chain(self.copy_from(predecessors()[0], record, since_ms))
            .collect()
    }

    fn copy_from(&mut self, from: NodeId, record: Signed, since_ms: u64) -> Vec<String> {
        let copies = Message::Copies(vec![Copied { signed: record, since_ms }]);
        let effects = self.hear(from, copies);
        let fault = |effect| match effect {
            Effect::Fault { fault, .. } => Some(fault),
            _ => None,
        };
        effects.into_iter().filter_map(fault).collect()
    }

    fn get(&mut self, key: Key) -> Option<Vec<(NodeId, u64)>> {
        let effects = self.hear(STRANGER, Message::Get { ticket: 8, key });
        let have = effects.into_iter().find_map(|effect| match effect {
            Effect::Send { message: Message::Have { ticket: 8, found }, .. } => Some(found),
            _ => None,
        });
        let open = |signed: Signed| {
            let record = Record::open(&signed, &RecordsConfig::default(), NOW).expect("it is good");
            (signed.by, record.number)
        };
        have.expect("every question is answered").map(|all| all.into_iter().map(open).collect())
    }
}

fn home() -> Home {
    Home::new(RecordsConfig::default(), true)
}

#[test]
fn what_another_key_signed_or_changed_is_forged() {
    let mut home = home();
    let good = prize(1, 5, "mine");
    let as_another = Signed { by: secret(2).node(), ..good.clone() };
    assert_eq!(home.put(as_another.clone()), Some(Refused::Forged));
    let mut body = good.body.to_vec();
    let at = body.len() - 2;
    body[at] ^= 1;
    assert_eq!(home.put(Signed { body: body.into(), ..good.clone() }), Some(Refused::Forged));
    let listing = Signed::new(&secret(1), "manyhands 2026-11 listing in a market", good.body.clone());
    assert_eq!(home.put(listing), Some(Refused::Forged));
    assert_eq!(home.copy(as_another, NOW).len(), 1, "a copy of it is its sender's fault");
    assert_eq!(home.get(name("prize")), Some(vec![]), "nothing of it was taken");
    assert_eq!(home.put(good), None);
}

#[test]
fn what_was_said_before_is_not_said_again_and_one_number_has_one_text() {
    let mut home = home();
    assert_eq!(home.put(prize(1, 5, "old")), None);
    assert_eq!(home.put(prize(1, 6, "new")), None);
    assert_eq!(home.put(prize(1, 5, "old")), Some(Refused::Old(5)), "a replay");
    assert_eq!(home.put(prize(1, 6, "new")), None, "a repetition");
    assert_eq!(home.put(prize(1, 6, "another")), Some(Refused::Twice));
    let given_up = Record { value: None, ..record(name("prize"), 7, "") };
    assert_eq!(home.put(signed(1, &given_up)), None);
    assert_eq!(home.put(prize(1, 6, "new")), Some(Refused::Old(6)), "it was given up");
    assert_eq!(home.get(name("prize")), Some(vec![]));
    assert_eq!(home.put(prize(2, 1, "another's")), None, "what was given up is free");
    assert_eq!(home.put(prize(1, 6, "new")), Some(Refused::Old(6)), "and stays given up");
}

#[test]
fn a_name_is_its_first_publishers() {
    let mut home = home();
    assert_eq!(home.put(prize(1, 5, "mine")), None);
    assert_eq!(home.put(prize(2, 99, "mine")), Some(Refused::Taken(secret(1).node())));
    assert_eq!(home.get(name("prize")), Some(vec![(secret(1).node(), 5)]));
    // Several publishers may say that they keep the same content.
    let key = || Key::Keepers(node_core::BlobId([5; 32]));
    assert_eq!(home.put(signed(1, &record(key(), 5, "1"))), None);
    assert_eq!(home.put(signed(2, &record(key(), 6, "2"))), None);
    assert_eq!(home.get(key()).map(|all| all.len()), Some(2));
}

#[test]
fn what_is_over_too_far_ahead_or_too_long_is_not_taken() {
    let mut home = home();
    let at = |expires_ms| signed(1, &Record { expires_ms, ..record(name("prize"), 5, "x") });
    assert_eq!(home.put(at(NOW)), Some(Refused::Expired));
    assert_eq!(home.put(at(NOW + 2 * 24 * 3_600_000)), Some(Refused::TooFar));
    let long = "x".repeat(records::VALUE + 1);
    assert_eq!(home.put(prize(1, 5, &long)), Some(Refused::Unreadable));
    assert_eq!(home.put(prize(1, 5, &"x".repeat(100_000))), Some(Refused::Unreadable));
    let garbage = Signed::new(&secret(1), PURPOSE, Bytes::from_static(b"\x94\xff\xff"));
    assert_eq!(home.put(garbage), Some(Refused::Unreadable));
    for bad in ["", " x", "x ", "a\nb", &"n".repeat(node_core::record::NAME + 1)] {
        assert_eq!(home.put(signed(1, &record(name(bad), 5, "x"))), Some(Refused::BadName), "{bad:?}");
    }
    assert_eq!(home.machine.state().here().count(), 0);
}

#[test]
fn a_full_node_takes_its_own_in_place_of_copies_and_then_none() {
    let config = || RecordsConfig { records: 4, per_publisher: 3, per_key: 2, ..RecordsConfig::default() };
    let mut home = Home::new(config(), true);
    for n in 0..3 {
        assert_eq!(home.put(signed(1, &record(name(&format!("{n}")), 1, "x"))), None);
    }
    assert_eq!(home.put(prize(1, 1, "x")), Some(Refused::TooMany), "of one publisher");
    assert_eq!(home.put(prize(2, 1, "x")), None);
    assert_eq!(home.put(signed(3, &record(name("more"), 1, "x"))), Some(Refused::Full));
    assert_eq!(home.put(signed(1, &record(name("0"), 2, "y"))), None, "what is there can be renewed");

    let mut home = Home::new(config(), false);
    assert_eq!(home.put(prize(2, 1, "x")), Some(Refused::NotMine));
    for n in 0..4 {
        assert_eq!(home.copy(signed(n, &record(name(&format!("{n}")), 1, "x")), NOW).len(), 0);
    }
    home.copy(signed(5, &record(name("one more"), 1, "x")), NOW);
    assert_eq!(home.machine.state().here().count(), 4, "copies are bounded");
    let point = name("prize").point();
    let range = Range { after: Point(point.0.wrapping_sub(1)), upto: point };
    home.tell(records::Command::Keys(Keys::Gained { range, from: None }));
    assert_eq!(home.put(prize(2, 1, "x")), None, "in place of a copy");
    assert_eq!(home.get(name("prize")).map(|all| all.len()), Some(1));
    assert_eq!(home.machine.state().here().count(), 4);
}

#[test]
fn copies_that_differ_end_as_the_same_in_whatever_order_they_come() {
    let numbers = [prize(1, 5, "one"), prize(1, 5, "two")];
    let names = [prize(1, 5, "one"), prize(2, 9, "two")];
    for (two, since) in [(numbers, [NOW, NOW]), (names, [NOW - 5, NOW - 9])] {
        let (mut first, mut second) = (home(), home());
        for at in [0, 1] {
            first.copy(two[at].clone(), since[at]);
            second.copy(two[1 - at].clone(), since[1 - at]);
        }
        let kept = |home: &mut Home| {
            let effects = home.hear(STRANGER, Message::Get { ticket: 8, key: name("prize") });
            effects.into_iter().find_map(|effect| match effect {
                Effect::Send { message: Message::Have { found, .. }, .. } => found,
                _ => None,
            })
        };
        let there = kept(&mut first).expect("it has one");
        assert_eq!(there.len(), 1);
        assert_eq!(kept(&mut second), Some(there));
    }
}

#[test]
fn what_is_taken_is_copied_at_once() {
    let mut home = home();
    let message = Message::Put { ticket: 7, signed: Box::new(prize(1, 5, "x")) };
    let effects = home.hear(NodeId([3; 32]), message);
    let copied = effects.iter().any(|effect| {
        matches!(effect, Effect::Send { to: SUCCESSOR, message: Message::Copies(copies) } if copies.len() == 1)
    });
    assert!(copied);
}

#[test]
fn who_pulls_twice_gets_the_records_at_once_and_once_more_a_little_later() {
    let mut home = home();
    home.put(prize(1, 5, "x"));
    let sent = |effects: Vec<Effect<Records>>| {
        let copies = |effect: &&Effect<Records>| {
            matches!(effect, Effect::Send { to: STRANGER, message: Message::Copies(_) })
        };
        effects.iter().filter(copies).count()
    };
    let pull = || Message::Pull(Range { after: Point(0), upto: Point(0) });
    assert_eq!(sent(home.hear(STRANGER, pull())), 1);
    // It restarted, or wants to draw more than the network carries.
    for _ in 0..100 {
        assert_eq!(sent(home.hear(STRANGER, pull())), 0);
    }
    let mut later = Vec::new();
    for second in 1..=60 {
        home.now = Time::ZERO + Duration::from_secs(second);
        while let Some(timer) = home.machine.due(home.now) {
            later.extend(std::iter::repeat_n(second, sent(home.step(Input::Timer(timer)))));
        }
    }
    assert_eq!(later, [10]);
}

#[test]
fn a_copy_from_a_node_that_the_ring_does_not_name_does_not_count() {
    for owns in [true, false] {
        let mut home = Home::new(RecordsConfig::default(), owns);
        home.copy_from(STRANGER, prize(1, 5, "x"), 0);
        assert_eq!(home.machine.state().here().count(), 0, "owner: {owns}");
        assert_eq!(home.copy_from(STRANGER, Signed { by: ME, ..prize(1, 5, "x") }, 0).len(), 0);
    }
}

/// The copies say who was first, which nobody can prove.
#[test]
fn an_owner_believes_who_was_first_from_the_owner_before_it_and_for_a_minute() {
    let published = || {
        let mut home = home();
        assert_eq!(home.put(prize(1, 5, "mine")), None);
        home
    };
    let mut home = published();
    for from in [STRANGER, SUCCESSOR] {
        home.copy_from(from, prize(2, 9, "stolen"), 0);
    }
    home.now = Time::ZERO + Duration::from_secs(61);
    home.copy_from(FORMER, prize(2, 9, "stolen"), 0);
    assert_eq!(home.get(name("prize")), Some(vec![(secret(1).node(), 5)]));
    // It was published there while the copies of the first were on their way.
    let mut home = published();
    home.copy_from(FORMER, prize(2, 9, "the first's"), NOW - 1);
    assert_eq!(home.get(name("prize")), Some(vec![(secret(2).node(), 9)]));
}

#[test]
fn a_node_that_keeps_copies_fills_in_what_the_owner_lacks() {
    let mut home = home();
    home.copy_from(SUCCESSOR, prize(1, 5, "mine"), NOW - 1);
    assert_eq!(home.get(name("prize")), Some(vec![(secret(1).node(), 5)]));
    home.copy_from(SUCCESSOR, prize(1, 6, "newer"), NOW - 1);
    assert_eq!(home.get(name("prize")), Some(vec![(secret(1).node(), 6)]));
}

#[test]
fn a_node_keeps_copies_of_what_its_predecessors_own_each_of_its_own_arc() {
    let mut home = Home::new(RecordsConfig::default(), false);
    let before = predecessors();
    home.tell(records::Command::Predecessors(before[..16].to_vec()));
    let arc = |n: usize| Range { after: Point::of_node(before[n + 1]), upto: Point::of_node(before[n]) };
    let keys = (0..100_000).map(|n| name(&format!("{n}")));
    let inside =
        |n: usize| keys.clone().find(|key| arc(n).contains(key.point())).expect("arcs are not that short");
    for n in [0, 3] {
        let key = inside(n);
        let record = |by: usize| signed(by, &record(key.clone(), 5, "x"));
        home.copy_from(before[n], record(1), NOW);
        assert_eq!(home.get(key.clone()), Some(vec![(secret(1).node(), 5)]), "the owner is {n} before");
        for other in [before[n + 1], before[n + 2], STRANGER] {
            home.copy_from(other, record(2), 0);
        }
        assert_eq!(home.get(key.clone()), Some(vec![(secret(1).node(), 5)]), "others do not own it");
        let pulled = |home: &mut Home, from: NodeId, range: Range| {
            let effects = home.hear(from, Message::Compare { range, count: 9, digest: 9 });
            effects.iter().any(|effect| matches!(effect, Effect::Send { message: Message::Pull(_), .. }))
        };
        assert!(
            !pulled(&mut home, before[n], Range { after: arc(n + 1).after, upto: arc(n).upto }),
            "too wide"
        );
        assert!(!pulled(&mut home, STRANGER, arc(n)));
        assert!(pulled(&mut home, before[n], arc(n)));
    }
    // Too far for copies of its records.
    home.copy_from(before[9], signed(1, &record(inside(9), 5, "x")), NOW);
    assert_eq!(home.get(inside(9)), None);
}
