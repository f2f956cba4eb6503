use super::*;
mod waiting;

use crate::address::{Contact, Ip};
use crate::keys::Signed;
use crate::protocol::{Effect, Machine, Rng};
use bytes::Bytes;
use core::net::IpAddr;
use std::collections::VecDeque;

/// Two nodes and the relay by way of which they speak; each end of a channel describes itself when it is made.
struct Story {
    nodes: [Node; 2],
    /// Messages on their way: to which node, and what.
    wire: VecDeque<(usize, Message)>,
    now: Time,
}

struct Node {
    id: NodeId,
    secret: Secret,
    machine: Machine<Signalling>,
    /// Requests since they were last looked at.
    events: Vec<Request>,
    not_opened: Vec<NotOpened>,
    faults: Vec<String>,
}

const RELAY: NodeId = NodeId([77; 32]);

fn node(seed: u8) -> Node {
    let secret = Secret::from_bytes(&[seed; 32]);
    let machine = Machine::new(Signalling::new(secret.clone(), SESSIONS), Rng::from_seed([seed; 32]));
    Node { id: secret.node(), secret, machine, events: vec![], not_opened: vec![], faults: vec![] }
}

fn description(of: u8) -> Description {
    Description {
        ufrag: format!("frag{of:04}"),
        password: format!("password/with+enough{of:04}"),
        fingerprint: Fingerprint([of; 32]),
    }
}

fn candidate(ip: &str, port: u16) -> Candidate {
    let at = At::Ip(Ip::from(ip.parse::<IpAddr>().unwrap()));
    Candidate { at, port, kind: Kind::Host, priority: 1 }
}

fn relay() -> Contact {
    Contact { ip: Ip::from(IpAddr::from([192, 0, 2, 7])), id: RELAY, port: 4001 }
}

impl Story {
    /// The first node has the smaller id.
    fn new() -> Story {
        let (a, b) = (node(1), node(2));
        let nodes = if a.id < b.id { [a, b] } else { [b, a] };
        Story { nodes, wire: VecDeque::new(), now: Time(1_000_000) }
    }

    fn step(&mut self, at: usize, input: InputOf<Signalling>) {
        let (now, me) = (self.now, self.nodes[at].id);
        let effects = self.nodes[at].machine.step(me, now, input);
        self.take(at, effects);
    }

    fn take(&mut self, at: usize, effects: Vec<Effect<Signalling>>) {
        for effect in effects {
            match effect {
                Effect::Forward { by: RELAY, to, message } => {
                    assert_eq!(to, self.nodes[1 - at].id);
                    self.wire.push_back((1 - at, message));
                }
                Effect::Send { message, .. } => self.wire.push_back((1 - at, message)),
                Effect::Emit(Event::Request(request)) => self.nodes[at].events.push(request),
                Effect::Emit(Event::NotOpened { why, .. }) => self.nodes[at].not_opened.push(why),
                Effect::Fault { fault, .. } => self.nodes[at].faults.push(fault),
                _ => {}
            }
        }
    }

    fn command(&mut self, at: usize, command: Command) {
        self.step(at, Input::Command(command));
    }

    fn reply(&mut self, at: usize, reply: Reply) {
        self.command(at, Command::Reply(reply));
    }

    fn connect(&mut self, at: usize) {
        let to = Address::guest(self.nodes[1 - at].id, relay());
        self.command(at, Command::Connect(to));
    }

    /// `at` hears what somebody says to be the other's, by way of `by`.
    fn hear(&mut self, at: usize, by: Option<NodeId>, message: Message) {
        let sender = Sender { id: self.nodes[1 - at].id, by };
        self.hear_of(at, sender, message);
    }

    fn hear_of(&mut self, at: usize, sender: Sender, message: Message) {
        match sender.by {
            Some(_) => self.command(at, Command::Forwarded(sender, message)),
            None => self.step(at, Input::Message { from: sender.id, message }),
        }
    }

    /// Delivers one message, if there is one.
    fn deliver(&mut self) -> bool {
        let Some((to, message)) = self.wire.pop_front() else { return false };
        self.hear(to, Some(RELAY), message);
        true
    }

    /// The driver of `at` describes each end that it is to make.
    fn describe(&mut self, at: usize) -> Option<SessionId> {
        let open = |event: &Request| matches!(event, Request::Open { .. });
        let position = self.nodes[at].events.iter().position(open)?;
        let Request::Open { session, .. } = self.nodes[at].events.remove(position) else { return None };
        self.reply(at, Reply::Described(session, description(at as u8)));
        Some(session)
    }

    fn settle(&mut self) {
        while self.describe(0).is_some() || self.describe(1).is_some() || self.deliver() {}
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some((due, at)) = (0..2)
            .filter_map(|at| Some((self.nodes[at].machine.deadline()?, at)))
            .filter(|(due, _)| *due <= until)
            .min()
        {
            self.now = due.max(self.now);
            let timer = self.nodes[at].machine.due(self.now).unwrap();
            self.step(at, Input::Timer(timer));
        }
        self.now = until;
    }

    fn events(&mut self, at: usize) -> Vec<Request> {
        std::mem::take(&mut self.nodes[at].events)
    }

    fn why(&mut self, at: usize) -> Option<NotOpened> {
        self.nodes[at].not_opened.pop()
    }

    fn under_way(&self) -> [usize; 2] {
        [0, 1].map(|at| self.nodes[at].machine.state().under_way())
    }

    fn outcomes(&self) -> [Outcomes; 2] {
        [0, 1].map(|at| self.nodes[at].machine.state().outcomes())
    }

    fn offer(&self, from: usize, session: u8) -> Said {
        let what = What::Offer(description(from as u8));
        Said { to: self.nodes[1 - from].id, session: SessionId([session; 16]), what }
    }
}

#[test]
fn two_nodes_agree_on_a_channel_by_way_of_a_relay() {
    let mut story = Story::new();
    story.connect(0);
    let [Request::Open { session, peer, role: Role::Offers, .. }] = story.events(0)[..] else {
        panic!("it makes its end")
    };
    assert_eq!(peer, story.nodes[1].id);
    // Its first addresses are known before it is described: they follow the offer.
    story.reply(0, Reply::Found(session, vec![candidate("192.0.2.10", 5000)]));
    assert!(story.wire.is_empty());
    story.reply(0, Reply::Described(session, description(0)));
    story.settle();
    let answerer = story.events(1);
    assert_eq!(
        answerer,
        [
            Request::Remote(session, description(0)),
            Request::Try(session, vec![candidate("192.0.2.10", 5000)]),
        ]
    );
    assert_eq!(story.events(0), [Request::Remote(session, description(1))]);
    story.reply(1, Reply::Found(session, vec![candidate("198.51.100.4", 6000)]));
    story.settle();
    assert_eq!(story.events(0), [Request::Try(session, vec![candidate("198.51.100.4", 6000)])]);
    for at in [0, 1] {
        story.reply(at, Reply::Opened(session));
        let peer = story.nodes[1 - at].id;
        story.step(at, Input::Up(peer));
    }
    story.pass(Duration::from_secs(60));
    assert_eq!((story.under_way(), story.events(0), story.events(1)), ([0, 0], vec![], vec![]));
    let opened = Outcomes { opened: 1, ..Outcomes::default() };
    assert_eq!(story.outcomes(), [opened, opened]);
}

#[test]
fn crossing_offers_end_in_one_session_in_whatever_order_they_come() {
    for first in [0, 1] {
        let mut story = Story::new();
        story.connect(first);
        story.connect(1 - first);
        let ours = [0, 1].map(|at| match story.nodes[at].events[..] {
            [Request::Open { session, .. }] => session,
            _ => panic!("both offer"),
        });
        story.describe(0);
        story.describe(1);
        assert_eq!(story.wire.len(), 2, "both offers are on their way");
        if first == 1 {
            story.wire.swap(0, 1);
        }
        story.settle();
        assert_eq!(story.under_way(), [1, 1]);
        let (smaller, larger) = (story.events(0), story.events(1));
        assert_eq!(smaller, [Request::Remote(ours[0], description(1))], "the smaller id's offer stands");
        assert_eq!(larger, [Request::Close(ours[1]), Request::Remote(ours[0], description(0))]);
    }
}

#[test]
fn a_peer_that_does_not_answer_is_given_up_after_3_s_and_tried_ever_later() {
    let mut story = Story::new();
    story.connect(0);
    story.describe(0);
    story.wire.clear();
    story.pass(ANSWER - Duration::from_millis(1));
    assert_eq!(story.why(0), None);
    story.pass(Duration::from_millis(1));
    assert_eq!((story.why(0), story.under_way()), (Some(NotOpened::Unanswered), [0, 0]));
    story.connect(0);
    assert_eq!(story.why(0), Some(NotOpened::Early));
    // An attempt that was not made is not counted.
    assert_eq!(story.outcomes()[0], Outcomes { unanswered: 1, ..Outcomes::default() });
    story.pass(Duration::from_secs(10));
    story.connect(0);
    assert_eq!(story.under_way(), [1, 0]);
}

#[test]
fn two_that_do_not_reach_each_other_give_up_after_10_s() {
    let mut story = Story::new();
    story.connect(0);
    story.settle();
    story.pass(OPEN - Duration::from_millis(1));
    assert_eq!((story.why(0), story.under_way()), (None, [1, 1]));
    story.pass(Duration::from_millis(1));
    story.settle();
    assert_eq!((story.why(0), story.under_way()), (Some(NotOpened::Unreached), [0, 0]));
    assert_eq!(story.outcomes()[0], Outcomes { unreached: 1, ..Outcomes::default() });
    assert!(
        matches!(story.events(1)[..], [.., Request::Close(_)]),
        "the other end is closed, and nobody is told more"
    );
}

#[test]
fn a_relay_that_changes_or_makes_up_what_it_forwards_opens_nothing() {
    let (mallory, story) = (node(9), Story::new());
    let said = story.offer(0, 1);
    let Some(Message::Said(good)) = said.sign(&story.nodes[0].secret) else { panic!("it is short") };
    let swapped = {
        let what = What::Offer(Description { fingerprint: Fingerprint([9; 32]), ..description(0) });
        let body = Bytes::from(rmp_serde::to_vec(&Said { what, ..said.clone() }).unwrap());
        Signed { body, ..good.clone() }
    };
    let Some(Message::Said(others)) = said.sign(&mallory.secret) else { panic!("it is short") };
    let to_another = Said { to: mallory.id, ..said.clone() }.sign(&story.nodes[0].secret).unwrap();
    let long = Signed { body: Bytes::from(vec![0; BODY_MAX + 1]), ..good.clone() };
    let garbage = Signed { body: Bytes::from_static(b"\xc1"), ..good.clone() };
    let cases = [
        (Message::Said(swapped), NotTaken::Forged),
        (Message::Said(Signed { by: story.nodes[0].id, ..others.clone() }), NotTaken::Forged),
        (Message::Said(others), NotTaken::OtherNode),
        (to_another, NotTaken::OtherReceiver),
        (Message::Said(long), NotTaken::Long(BODY_MAX + 1)),
        (Message::Said(garbage), NotTaken::Garbage),
    ];
    for (message, why) in cases {
        let mut story = Story::new();
        story.hear(1, Some(RELAY), message.clone());
        assert_eq!((story.under_way(), story.events(1)), ([0, 0], vec![]), "{why:?}");
        assert_eq!(story.nodes[1].faults, [""; 0], "a relay reads nothing of it, and is not to blame");
        // A node that says it itself is.
        story.hear(1, None, message);
        assert_eq!((story.under_way(), &story.nodes[1].faults[..]), ([0, 0], &[why.to_string()][..]));
    }
    let mut story = Story::new();
    story.hear(1, Some(RELAY), Message::Said(good));
    assert_eq!(story.under_way(), [0, 1], "the true one opens a session");
}

#[test]
fn words_that_are_none_of_ice_reach_no_driver() {
    let injected = |ufrag: &str, password: &str| Description {
        ufrag: ufrag.into(),
        password: password.into(),
        ..description(0)
    };
    let (ufrag, password) = (description(0).ufrag, description(0).password);
    for wrong in [
        injected("abc", &password),
        injected(&"a".repeat(33), &password),
        injected("abcd\r\na=candidate:1", &password),
        injected("ab d", &password),
        injected("äbcd", &password),
        injected(&ufrag, "short"),
        injected(&ufrag, &format!("{password}\r\n")),
        injected(&ufrag, &"a".repeat(65)),
    ] {
        let mut story = Story::new();
        let said = Said { what: What::Offer(wrong), ..story.offer(0, 1) };
        let message = said.sign(&story.nodes[0].secret).unwrap();
        story.hear(1, None, message);
        assert_eq!(story.nodes[1].faults, [NotTaken::Words.to_string()]);
        assert_eq!(story.under_way(), [0, 0]);
    }
}

#[test]
fn addresses_of_groups_of_this_machine_and_of_nobody_are_not_tried() {
    let mut story = Story::new();
    story.connect(0);
    story.settle();
    let Some(Request::Remote(session, _)) = story.events(1).pop() else { panic!("it was offered") };
    let good = candidate("203.0.113.5", 7000);
    let hidden = Candidate { at: At::Mdns(Uuid([4; 16])), ..good };
    let wrong = ["127.0.0.1", "::1", "224.0.0.1", "ff02::1", "255.255.255.255", "0.0.0.0"];
    // Translators and tunnels lead to an address of IPv4 within.
    for within in ["64:ff9b::7f00:1", "2002:7f00:1::"] {
        assert!(!candidate(within, 7000).may_be_tried(false) && candidate(within, 7000).may_be_tried(true));
    }
    let mut all: Vec<Candidate> = wrong.iter().map(|ip| candidate(ip, 7000)).collect();
    all.push(good);
    all.push(hidden);
    story.reply(0, Reply::Found(session, all));
    // The rest, of more than eight, is not even said.
    story.reply(0, Reply::Found(session, vec![good; 3]));
    story.settle();
    assert_eq!(story.events(1), [Request::Try(session, vec![good, hidden])]);
    // One who says more counts on nobody.
    let said = Said { what: What::Candidates(vec![good; CANDIDATES]), ..Story::new().offer(0, 0) };
    let message = Said { session, ..said }.sign(&story.nodes[0].secret).unwrap();
    story.hear(1, Some(RELAY), message);
    assert_eq!(story.events(1), []);
}

#[test]
fn a_donor_who_wants_no_strangers_has_none() {
    let mut story = Story::new();
    story.command(1, Command::Refuse(true));
    story.connect(1);
    assert_eq!(story.why(1), Some(NotOpened::Unwanted));
    story.connect(0);
    story.settle();
    assert_eq!((story.why(0), story.under_way()), (Some(NotOpened::Refused(Over::Refused)), [0, 0]));
    assert_eq!(story.events(1), []);
}

#[test]
fn a_neighbour_that_offers_without_end_leaves_room_for_others() {
    let mut story = Story::new();
    let (mut ends, strangers): (usize, Vec<Node>) = (0, (10..200).map(node).collect());
    for second in 0..10u32 {
        for n in 0..10_000usize {
            let stranger = &strangers[n % strangers.len()];
            let (to, session) = (story.nodes[1].id, SessionId([(n / 190) as u8 ^ second as u8; 16]));
            let what = What::Offer(description(3));
            // It is not the signatures that are under test.
            if n < 400 {
                let message = Said { to, session, what }.sign(&stranger.secret).unwrap();
                story.hear_of(1, Sender { id: stranger.id, by: Some(NodeId([66; 32])) }, message);
            }
            ends += story.events(1).iter().filter(|event| matches!(event, Request::Open { .. })).count();
            assert!(story.under_way()[1] <= SESSIONS / BROUGHT);
        }
        story.wire.clear();
        story.pass(Duration::from_secs(1));
    }
    // Each of those who were let in may begin anew once a second.
    assert!(ends <= 11 * SESSIONS / BROUGHT, "{ends} ends of channels were made in 10 s");
    // Others are let in.
    story.connect(0);
    story.settle();
    assert!(
        story.events(1).iter().any(|event| matches!(event, Request::Remote(_, it) if *it == description(0)))
    );
}

#[test]
fn one_who_offers_anew_is_listened_to_once_a_second() {
    let mut story = Story::new();
    let offer = |story: &Story, n: u8| story.offer(0, n).sign(&story.nodes[0].secret).unwrap();
    for n in 0..50 {
        let message = offer(&story, n);
        story.hear(1, Some(RELAY), message);
    }
    let opened =
        |events: Vec<Request>| events.iter().filter(|event| matches!(event, Request::Open { .. })).count();
    assert_eq!(opened(story.events(1)), 1);
    story.pass(ANEW);
    let message = offer(&story, 60);
    story.hear(1, Some(RELAY), message);
    let events = story.events(1);
    assert!(matches!(events[0], Request::Close(SessionId([0, ..]))), "the page was loaded anew: {events:?}");
    assert_eq!((opened(events), story.under_way()), (1, [0, 1]));
}

/// Messages are lost, come twice and in any order; the drivers fail, or are slow.
#[test]
fn in_whatever_order_things_come_each_end_that_is_made_is_closed_or_open() {
    for seed in 0..300u64 {
        let mut story = Story::new();
        let mut rng = Rng::fork(&[seed as u8; 32], &seed.to_string());
        let mut ends: [Vec<SessionId>; 2] = [vec![], vec![]];
        for _ in 0..200 {
            let at = rng.below(2) as usize;
            match rng.below(12) {
                0 => story.connect(at),
                1 | 2 if !story.wire.is_empty() => {
                    let n = rng.below(story.wire.len() as u64) as usize;
                    let (to, message) = story.wire.remove(n).unwrap();
                    if rng.below(4) == 0 {
                        story.wire.push_back((to, message.clone()));
                    }
                    if rng.below(5) > 0 {
                        story.hear(to, Some(RELAY), message);
                    }
                }
                3 | 4 => {
                    if let Some(session) = ends[at].last().copied() {
                        story.reply(at, Reply::Described(session, description(at as u8)));
                    }
                }
                5 => {
                    if let Some(session) = ends[at].last().copied() {
                        story.reply(at, Reply::Found(session, vec![candidate("192.0.2.10", 5000)]));
                    }
                }
                6 => story.pass(Duration::from_millis(rng.below(4_000))),
                7 if rng.below(4) == 0 => {
                    if let Some(session) = ends[at].last().copied() {
                        story.reply(at, Reply::Opened(session));
                        if rng.below(2) == 0 {
                            let peer = story.nodes[1 - at].id;
                            story.step(at, Input::Up(peer));
                            ends[at].pop();
                        }
                    }
                }
                8 if rng.below(8) == 0 => {
                    if let Some(session) = ends[at].last().copied() {
                        story.reply(at, Reply::Failed(session));
                    }
                }
                9 if rng.below(8) == 0 => {
                    let peer = story.nodes[1 - at].id;
                    story.command(at, Command::Gone { peer, by: RELAY });
                }
                _ => {}
            }
            for (at, ends) in ends.iter_mut().enumerate() {
                for event in story.events(at) {
                    match event {
                        Request::Open { session, .. } => ends.push(session),
                        Request::Close(session) => {
                            assert!(ends.contains(&session), "seed {seed}: it closes what it made");
                            ends.retain(|end| *end != session);
                        }
                        Request::Remote(session, _) | Request::Try(session, _) => {
                            assert!(
                                ends.contains(&session),
                                "seed {seed}: nobody hears of an end that is none"
                            );
                        }
                    }
                }
                assert!(ends.len() <= 1, "seed {seed}: one end a peer");
                assert_eq!(ends.len(), story.nodes[at].machine.state().under_way(), "seed {seed}");
            }
        }
        story.pass(OPEN);
        assert_eq!(story.under_way(), [0, 0], "seed {seed}: nothing stays");
    }
}

#[test]
fn a_channel_that_this_node_wants_and_the_other_one_has_offered_is_told_of_when_it_fails() {
    let mut story = Story::new();
    // The smaller id offers; the other one wants the channel as well, before and after it has heard of that.
    for late in [false, true] {
        let mut story_of = Story::new();
        story_of.connect(0);
        story_of.describe(0);
        if !late {
            story_of.connect(1);
        }
        while story_of.deliver() {}
        if late {
            story_of.connect(1);
        }
        story_of.now = story_of.now + OPEN;
        let peer = story_of.nodes[0].id;
        story_of.step(1, Input::Timer(Timer::Session(peer)));
        assert_eq!(story_of.nodes[1].not_opened, [NotOpened::Unreached], "late: {late}");
    }
    story.connect(0);
    story.describe(0);
    while story.deliver() {}
    story.now = story.now + OPEN;
    let peer = story.nodes[0].id;
    story.step(1, Input::Timer(Timer::Session(peer)));
    assert_eq!(story.nodes[1].not_opened, [], "it did not want it");
}

#[test]
fn a_channel_on_which_nobody_proves_to_be_the_peer_is_told_of() {
    for refused in [true, false] {
        let mut story = Story::new();
        story.connect(0);
        let session = story.describe(0).expect("an end");
        story.reply(0, Reply::Opened(session));
        assert_eq!(story.nodes[0].not_opened, []);
        let peer = story.nodes[1].id;
        match refused {
            // The link found another node there.
            true => story.step(0, Input::Unreachable(peer)),
            false => {
                story.now = story.now + OPEN;
                story.step(0, Input::Timer(Timer::Session(peer)));
            }
        }
        assert_eq!(story.nodes[0].not_opened, [NotOpened::Unproven], "refused: {refused}");
        assert_eq!(story.nodes[0].machine.state().under_way(), 0);
    }
}
