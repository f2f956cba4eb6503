//! The relay: forwards what its guests say, and what is said to them.
//!
//! A guest speaks only to nodes that the relay has looked up for it, and to those that have spoken to it.
//!
//! A relay that goes takes nobody's place in the swarm with it: it names a second gateway to each guest, to which the
//! guest connects. That one offers to be the relay as well, and the guest turns to it when the first is gone.

use super::message::{self, LONGEST, Message, ToGuest, ToRelay};
use crate::address::{Contact, Ip};
use crate::bounds::GUESTS;
use crate::circle::Point;
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::money::Micro;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::rates::Rates;
use crate::requires::{GuestSlots, SLOTS_MAX, Stated};
use crate::ticket::ServiceId;
use crate::time::Time;
use crate::under_way::UnderWay;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Lookups of one guest at once; of more, the oldest is forgotten. Our choice: one a kind of goods.
const LOOKUPS: usize = 3;

/// Nodes that were looked up for a guest, and to which it may speak; of more, the oldest is forgotten. Our
/// choice: the markets where it is listed, and where it was.
const OWNERS: usize = 4;

/// Nodes that have spoken to a guest, and may be answered; of more, the oldest is forgotten. Our choice: a market
/// operator with its replicas, and buyers.
const ASKERS: usize = 16;

/// Messages of one node that are forwarded at once, and until one more is. Our choice: a buyer asks all guests of a
/// market, an owner opens 64 data channels with a dozen messages each in seconds, and a flood costs each of those that
/// it is for 0.8 MB a second at most.
const BURST: u32 = 512;
const AGAIN: Duration = Duration::from_millis(10);

/// Between two questions of a guest for its balance. Our choice: what an eye follows.
const BALANCE: Duration = Duration::from_secs(1);

/// From a guest's arrival to its second gateway, so that those that come together are named together. Our choice: a
/// page has connected and introduced itself by then, and most servers that can be dialled have been, and need none.
const SOON: Duration = Duration::from_secs(2);

/// Between two looks at whether all guests have their second gateway: it may have gone, or had no room. Our choice: as
/// often as a node that is a member is dialled back.
const LOOK: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Relay {
    me: Option<Contact>,
    guests: BTreeMap<NodeId, Guest>,
    /// Gateways that are some guest's second one, as far as they are there. A gateway has too many guests to look at all
    /// of them whenever a peer goes.
    seconds: BTreeSet<NodeId>,
    /// By guest and the guest's own number.
    lookups: UnderWay<(NodeId, u64)>,
    rates: Rates,
}

#[derive(Debug, Default)]
struct Guest {
    owners: VecDeque<Contact>,
    askers: VecDeque<NodeId>,
    asked_balance: Option<Time>,
    /// The gateway that was named to it, to which it may speak.
    second: Option<NodeId>,
    /// It has taken this node for its relay.
    chose: bool,
    /// Statement of what it can do.
    stated: Option<Stated>,
    /// Its slots, and how many are busy for whom.
    load: (u32, Vec<(NodeId, u32)>),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Where others dial this node; `None`: nowhere, and guests that come are not welcomed.
    Me(Option<Contact>),
    /// A node is connected that nobody can dial, or has dialled yet.
    Guest(NodeId),
    /// Another gateway is connected, and can be dialled.
    Gateway,
    /// Answers [`Event::Lookup`].
    Found { number: u64, owner: Option<Contact> },
    /// Balance of a guest, as the bank states it.
    Balance { of: NodeId, balance: Micro },
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Look this up on the ring of nodes; answered by [`Command::Found`].
    Lookup { number: u64, key: Point },
    /// Show this to the bank; answered by [`Command::Balance`].
    Balance(Signed),
    /// This guest has taken this node for its relay, or does so no longer, or can do something else.
    Chosen(NodeId),
    /// Slots of this guest have become busy or free.
    Load(NodeId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Guests that have come are to have a second gateway.
    Soon,
    /// All are.
    Look,
}

type Rcx<'a> = Cx<'a, Relay>;

impl Protocol for Relay {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Rcx<'_>) {
        match input {
            Input::Message { from, message: Message::ToRelay(message) } => self.message(from, message, cx),
            Input::Command(Command::Me(me)) => {
                if std::mem::replace(&mut self.me, me) != me {
                    self.guests.keys().for_each(|guest| self.welcome(*guest, cx));
                    cx.set_timer_by(Timer::Soon, SOON);
                }
            }
            Input::Command(Command::Guest(guest)) => {
                // One guest too many may work, and has no relay.
                if self.guests.len() < GUESTS && !self.guests.contains_key(&guest) {
                    self.guests.insert(guest, Guest::default());
                    self.welcome(guest, cx);
                    cx.set_timer_by(Timer::Soon, SOON);
                }
            }
            Input::Command(Command::Gateway) => self.name_seconds_soon(cx),
            Input::Timer(Timer::Soon) => self.name_seconds(false, cx),
            Input::Timer(Timer::Look) => self.name_seconds(true, cx),
            Input::Command(Command::Found { number, owner }) => self.found(number, owner, cx),
            Input::Command(Command::Balance { of, balance }) => {
                if self.guests.contains_key(&of) {
                    cx.send(of, Message::ToGuest(ToGuest::Balance(balance)));
                }
            }
            Input::Down(peer) | Input::Unreachable(peer) => {
                self.guests.remove(&peer);
                if self.seconds.remove(&peer) {
                    let its = |guest: &&mut Guest| guest.second == Some(peer);
                    self.guests.values_mut().filter(its).for_each(|guest| guest.second = None);
                    self.name_seconds_soon(cx);
                }
                self.lookups.retain(|(guest, _)| *guest != peer);
            }
            // Nothing that the route gives a relay, or nothing to be done.
            Input::Message { .. } | Input::Up(_) => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.guests.len() <= GUESTS && self.seconds.len() <= GUESTS, "guests are bounded");
        assert!(self.lookups.len() <= GUESTS * LOOKUPS, "lookups under way are bounded");
    }
}

impl Default for Relay {
    fn default() -> Relay {
        let lookups = UnderWay::new(GUESTS * LOOKUPS);
        Relay {
            me: None,
            guests: BTreeMap::new(),
            seconds: BTreeSet::new(),
            lookups,
            rates: Rates::new(BURST, AGAIN),
        }
    }
}

impl Relay {
    /// Whether this node is the relay of that guest, and not its second gateway.
    pub fn speaks_for(&self, guest: NodeId) -> bool {
        self.guests.get(&guest).is_some_and(|guest| guest.chose)
    }

    /// Guests of this node.
    pub fn guests(&self) -> impl Iterator<Item = NodeId> {
        self.guests.keys().copied()
    }

    /// Slots of a guest that runs jobs with requirements, if this node is its relay.
    pub fn slots_of(&self, guest: NodeId) -> Option<GuestSlots> {
        let guest = self.guests.get(&guest).filter(|guest| guest.chose && guest.load.0 > 0)?;
        let (slots, busy) = guest.load.clone();
        Some(GuestSlots { stated: guest.stated.clone()?, slots, busy })
    }

    fn welcome(&self, guest: NodeId, cx: &mut Rcx<'_>) {
        if let Some(me) = self.me {
            cx.send(guest, Message::ToGuest(ToGuest::Relay(me)));
        }
    }

    fn message(&mut self, from: NodeId, message: ToRelay, cx: &mut Rcx<'_>) {
        match message {
            ToRelay::Forward { to, frame } => self.forward(from, to, frame, cx),
            ToRelay::Locate { number, key } if self.guests.contains_key(&from) => {
                cx.emit(Event::Lookup { number: self.lookups.ask((from, number)), key });
                self.lookups.keep_newest((from, 0)..=(from, u64::MAX), LOOKUPS);
            }
            ToRelay::Locate { .. } => {}
            ToRelay::Chosen { relay, stated } => {
                if let Some(why) = stated.as_ref().and_then(|stated| stated.check().err()) {
                    return cx.fault(from, format!("states what no node may: {why}"));
                }
                let Some(guest) = self.guests.get_mut(&from) else { return };
                let before = std::mem::replace(&mut guest.chose, relay);
                if std::mem::replace(&mut guest.stated, stated) != guest.stated || before != relay {
                    cx.emit(Event::Chosen(from));
                }
            }
            ToRelay::Load { slots, busy } if busy.len() > message::OWNERS || slots > SLOTS_MAX => {
                cx.fault(from, "states more slots or owners than a guest has".into());
            }
            ToRelay::Load { slots, busy } => {
                let Some(guest) = self.guests.get_mut(&from) else { return };
                guest.load = (slots, busy);
                cx.emit(Event::Load(from));
            }
            ToRelay::Balance(leave) => {
                let Some(guest) = self.guests.get_mut(&from) else { return };
                let soon = guest.asked_balance.is_some_and(|at| cx.now.since(at) < BALANCE);
                if leave.by == from && !soon {
                    guest.asked_balance = Some(cx.now);
                    cx.emit(Event::Balance(leave));
                }
            }
        }
    }

    fn name_seconds_soon(&self, cx: &mut Rcx<'_>) {
        if self.guests.values().any(|guest| guest.second.is_none()) {
            cx.set_timer_by(Timer::Soon, SOON);
        }
    }

    /// Names another gateway to those guests that have not heard of one; to `all` of them, since theirs may have gone.
    /// One of the family of addresses by which the guest has come is taken, since its network may have no other. Of
    /// these the nearest id, so that the guests of one gateway are spread over all others, and each has the same one
    /// as long as that is there.
    fn name_seconds(&mut self, all: bool, cx: &mut Rcx<'_>) {
        if self.me.is_none() {
            return;
        }
        let relays = cx.peers.gateways().filter(|(_, it)| it.speaks.has(ServiceId::Relay));
        let gateways: Vec<Contact> = relays.filter_map(|(_, it)| it.dialable.contact()).collect();
        for (id, guest) in self.guests.iter_mut().filter(|(_, guest)| all || guest.second.is_none()) {
            let came_by_v6 = cx.peers.connection(*id).and_then(|it| it.ip).map(Ip::is_v6);
            let distance = |at: &&Contact| {
                let other_family = came_by_v6.is_some_and(|v6| v6 != at.ip.is_v6());
                (other_family, std::array::from_fn::<u8, 32, _>(|n| at.id.0[n] ^ id.0[n]))
            };
            let nearest = gateways.iter().min_by_key(distance);
            guest.second = nearest.map(|at| at.id);
            if let Some(at) = nearest {
                self.seconds.insert(at.id);
                cx.send(*id, Message::ToGuest(ToGuest::Second(*at)));
            }
        }
        if !self.guests.is_empty() {
            cx.set_timer_by(Timer::Look, LOOK);
        }
    }

    fn found(&mut self, number: u64, owner: Option<Contact>, cx: &mut Rcx<'_>) {
        let Some((id, its)) = self.lookups.answered(number) else { return };
        let Some(guest) = self.guests.get_mut(&id) else { return };
        if let Some(owner) = owner {
            guest.owners.retain(|known| known.id != owner.id);
            keep(&mut guest.owners, owner, OWNERS);
        }
        cx.send(id, Message::ToGuest(ToGuest::Owner { number: its, owner }));
    }

    fn forward(&mut self, from: NodeId, to: NodeId, frame: Bytes, cx: &mut Rcx<'_>) {
        if frame.len() > LONGEST {
            return cx.fault(from, format!("had {} bytes forwarded; {LONGEST} are allowed", frame.len()));
        }
        // More is lost, as on a line that is full: who speaks by way of a relay repeats what is not answered.
        if !self.rates.take(from, cx.now) {
            return;
        }
        if let Some(guest) = self.guests.get_mut(&to) {
            guest.askers.retain(|asker| *asker != from);
            keep(&mut guest.askers, from, ASKERS);
        } else {
            let owner = |guest: &Guest| guest.owners.iter().find(|owner| owner.id == to).copied();
            let known = |guest: &Guest| guest.askers.contains(&to) || guest.second == Some(to);
            match self.guests.get(&from).map(|guest| (owner(guest), known(guest))) {
                Some((Some(owner), _)) => cx.reach(owner),
                Some((None, true)) => {}
                // So that who spoke to a guest that has gone need not wait.
                Some((None, false)) | None => {
                    return cx.send(from, Message::ToGuest(ToGuest::Gone(to)));
                }
            }
        }
        cx.send(to, Message::ToGuest(ToGuest::Forwarded { from, frame }));
    }
}

/// Keeps the newest `most`.
fn keep<T>(list: &mut VecDeque<T>, one: T, most: usize) {
    if list.len() >= most {
        list.pop_front();
    }
    list.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Effect, Machine, Rng};

    const ME: NodeId = NodeId([1; 32]);
    const GUEST: NodeId = NodeId([2; 32]);
    const OPERATOR: NodeId = NodeId([3; 32]);
    const STRANGER: NodeId = NodeId([4; 32]);

    struct Story {
        relay: Machine<Relay>,
        now: Time,
        /// Messages since they were last looked at.
        sent: Vec<(NodeId, ToGuest)>,
        lookups: Vec<u64>,
        faults: Vec<NodeId>,
    }

    impl Story {
        /// A relay with one guest.
        fn new() -> Story {
            let relay = Machine::new(Relay::default(), Rng::from_seed([0; 32]));
            let now = Time(1_000_000);
            let mut story = Story { relay, now, sent: vec![], lookups: vec![], faults: vec![] };
            story.step(Input::Command(Command::Me(Some(contact(ME)))));
            story.step(Input::Command(Command::Guest(GUEST)));
            assert_eq!(story.sent(), [(GUEST, ToGuest::Relay(contact(ME)))]);
            story
        }

        fn step(&mut self, input: InputOf<Relay>) {
            for effect in self.relay.step(ME, self.now, input) {
                match effect {
                    Effect::Send { to, message: Message::ToGuest(message) } => self.sent.push((to, message)),
                    Effect::Emit(Event::Lookup { number, .. }) => self.lookups.push(number),
                    Effect::Fault { peer, .. } => self.faults.push(peer),
                    _ => {}
                }
            }
        }

        fn hear(&mut self, from: NodeId, message: ToRelay) {
            self.step(Input::Message { from, message: Message::ToRelay(message) });
        }

        fn forward(&mut self, from: NodeId, to: NodeId) -> Vec<(NodeId, ToGuest)> {
            self.hear(from, ToRelay::Forward { to, frame: Bytes::from_static(b"frame") });
            self.sent()
        }

        fn sent(&mut self) -> Vec<(NodeId, ToGuest)> {
            std::mem::take(&mut self.sent)
        }
    }

    fn contact(id: NodeId) -> Contact {
        Contact { ip: Ip([9; 16]), id, port: 4001 }
    }

    fn forwarded(from: NodeId) -> ToGuest {
        ToGuest::Forwarded { from, frame: Bytes::from_static(b"frame") }
    }

    #[test]
    fn a_guest_speaks_to_who_was_looked_up_for_it_and_to_who_has_spoken_to_it() {
        let mut story = Story::new();
        let unknown = |to| [(GUEST, ToGuest::Gone(to))];
        assert_eq!(story.forward(GUEST, OPERATOR), unknown(OPERATOR), "nobody knows each other yet");
        story.hear(GUEST, ToRelay::Locate { number: 7, key: Point(1) });
        let number = story.lookups[0];
        story.step(Input::Command(Command::Found { number, owner: Some(contact(OPERATOR)) }));
        let owner = ToGuest::Owner { number: 7, owner: Some(contact(OPERATOR)) };
        assert_eq!(story.sent(), [(GUEST, owner)]);
        assert_eq!(story.forward(GUEST, OPERATOR), [(OPERATOR, forwarded(GUEST))]);
        assert_eq!(story.forward(GUEST, STRANGER), unknown(STRANGER));
        assert_eq!(story.forward(STRANGER, GUEST), [(GUEST, forwarded(STRANGER))]);
        assert_eq!(story.forward(GUEST, STRANGER), [(STRANGER, forwarded(GUEST))]);
        // The first of many that speak to it is forgotten.
        for n in 0..ASKERS as u8 {
            story.forward(NodeId([100 + n; 32]), GUEST);
        }
        assert_eq!(story.forward(GUEST, STRANGER), unknown(STRANGER));
    }

    #[test]
    fn who_speaks_to_a_guest_that_has_gone_is_told_and_nobody_else_is_served() {
        let mut story = Story::new();
        story.step(Input::Down(GUEST));
        assert_eq!(story.forward(OPERATOR, GUEST), [(OPERATOR, ToGuest::Gone(GUEST))]);
        story.hear(STRANGER, ToRelay::Locate { number: 1, key: Point(1) });
        assert_eq!((story.sent(), story.lookups.len()), (vec![], 0));
        story.step(Input::Command(Command::Guest(GUEST)));
        story.sent();
        story.hear(OPERATOR, ToRelay::Forward { to: GUEST, frame: Bytes::from(vec![0; LONGEST + 1]) });
        assert_eq!((story.sent(), story.faults.clone()), (vec![], vec![OPERATOR]), "that is too long");
    }

    #[test]
    fn a_guest_that_floods_takes_nothing_from_others() {
        let mut story = Story::new();
        story.step(Input::Command(Command::Guest(OPERATOR)));
        story.sent();
        let flood =
            |story: &mut Story| (0..10_000).map(|_| story.forward(GUEST, OPERATOR).len()).sum::<usize>();
        assert_eq!(flood(&mut story), BURST as usize);
        assert_eq!(story.forward(STRANGER, OPERATOR), [(OPERATOR, forwarded(STRANGER))], "others are heard");
        story.now = story.now + AGAIN * 10;
        assert_eq!(flood(&mut story), 10, "so many a tenth of a second");
        assert!(story.faults.is_empty(), "a line that is full is nobody's fault");
    }

    #[test]
    fn lookups_of_a_guest_are_few_and_end_with_it() {
        let mut story = Story::new();
        (0..10).for_each(|number| story.hear(GUEST, ToRelay::Locate { number, key: Point(1) }));
        let lookups = std::mem::take(&mut story.lookups);
        for number in &lookups[..lookups.len() - LOOKUPS] {
            story.step(Input::Command(Command::Found { number: *number, owner: None }));
            assert_eq!(story.sent(), [], "of more than {LOOKUPS} the oldest are forgotten");
        }
        let last = *lookups.last().unwrap();
        story.step(Input::Command(Command::Found { number: last, owner: None }));
        assert_eq!(story.sent(), [(GUEST, ToGuest::Owner { number: 9, owner: None })]);
        story.step(Input::Down(GUEST));
        story.step(Input::Command(Command::Found { number: last - 1, owner: None }));
        assert_eq!(story.sent(), []);
    }
}
