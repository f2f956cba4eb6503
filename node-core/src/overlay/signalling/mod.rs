//! Signalling: two nodes agree on a data channel by way of a peer that both know (RFC 8829 without SDP).
//!
//! The one that wants the channel offers, the other one answers, and both name the addresses at which they may
//! be reached, as they find them. The driver has the ends of channels and opens them; this machine says what is to
//! be said to whom, and bounds what strangers can cause. The handshake on the channel proves who
//! the peer is, as on every connection; what is signed here keeps others from having a node send packets to
//! addresses of their choice.

mod again;
mod edge;
mod limits;
mod message;
mod mirror;
mod outcomes;
#[cfg(test)]
mod tests;

pub use edge::{Command, Event, NotOpened, Reply, Request, Role};
pub use message::{
    At, BODY_MAX, CANDIDATES, Candidate, Description, Fingerprint, Kind, Message, NotTaken, Over, Said,
    SessionId, Uuid, What,
};

pub use outcomes::Outcomes;

use crate::address::{Address, Contact, Scope, Sender};
use crate::backoff::Backoff;
use crate::ids::NodeId;
use crate::keys::Secret;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::rates::Rates;
use crate::ticket::ServiceId;
use crate::time::Time;
use again::is_relayed;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Sessions of a page that are being opened. Our choice: a browser has 500 connections in all, and each of these may be
/// wasted.
pub const SESSIONS: usize = 8;

/// Those of a server. Our choice: an owner finds guests by the dozen, and those that it does not reach take a session
/// for as long as one may.
pub const SERVERS_SESSIONS: usize = 64;

/// Nodes that this one wants to connect to and that wait for a session. Our choice: as many as are dialled at once.
const WAITING: usize = 256;

/// Part of the sessions that one neighbour may have brought: a hostile one leaves room for others, and for this node's
/// own.
const BROUGHT: usize = 2;

/// Until an offer of the same peer replaces the one before. Our choice: a page is loaded anew in that time, and a
/// peer that offers without end costs an end of a channel a second.
const ANEW: Duration = Duration::from_secs(1);

/// Until an offer is answered. Our choice: three round trips around the world, and as much for a busy page.
const ANSWER: Duration = Duration::from_secs(3);

/// Until a channel is open, from the first offer on. Then the peer is reached in another way. Our choice: ICE tries
/// eight candidates of either side in 4 s, and sends each check three times.
const OPEN: Duration = Duration::from_secs(10);

/// Until the peer is to be reached in another way as well. Our choice: an owner takes a place for lost after 7 s
/// ([`crate::bounds::Timing`]), and most channels open within one.
const SLOW: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub struct Signalling {
    secret: Secret,
    /// Sessions at a time.
    most: usize,
    /// The donor wants no direct connections with strangers: they would learn this node's address.
    refuses: bool,
    sessions: BTreeMap<NodeId, Session>,
    /// Nodes for which there was no session, and since when they wait, the first one first.
    waiting: VecDeque<(Address, Time)>,
    /// Peers to which no channel could be opened.
    backoff: Backoff<NodeId>,
    rates: Rates,
    outcomes: Outcomes,
}

/// An attempt to open a channel with a peer, of which there is one at most.
#[derive(Debug)]
struct Session {
    id: SessionId,
    way: Way,
    role: Role,
    /// Where this node wanted to connect to, whoever has offered the channel. It hears if that does not open.
    wish: Option<Address>,
    /// The channel is open, and the handshake on it under way.
    open: bool,
    /// The peer knows this node's description, and so candidates may follow.
    described: bool,
    /// This node knows the peer's.
    heard: bool,
    /// Candidates of this node that were found before it was described.
    early: Vec<Candidate>,
    /// Candidates so far: of this node, and of the peer.
    told: usize,
    hears: usize,
    until: Time,
}

/// The way on which a session is spoken of.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The peer's address.
    To(Address),
    /// On which its offer came.
    Back(Sender),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Session(NodeId),
    Slow(NodeId),
    /// A channel is tried again, in place of a relay.
    Again(NodeId),
}

type Scx<'a> = Cx<'a, Signalling>;

impl Protocol for Signalling {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Scx<'_>) {
        match input {
            Input::Message { from, message } => self.heard(Sender::direct(from), message, cx),
            Input::Timer(Timer::Session(peer)) => self.late(peer, cx),
            Input::Timer(Timer::Again(peer)) => self.try_again(peer, cx),
            Input::Timer(Timer::Slow(peer)) => {
                let slow = self.sessions.get(&peer).filter(|session| session.wish.is_some() && !session.open);
                let waits = || self.waiting.iter().find(|(to, _)| to.id == peer).map(|(to, _)| to.relay());
                let relay = slow.map(|session| session.relay(cx)).or_else(waits);
                if let Some(relay) = relay.filter(|_| !cx.peers.is_connected(peer)) {
                    cx.emit(Event::Slow { peer, relay });
                }
            }
            Input::Command(command) => self.command(command, cx),
            Input::Up(peer) => self.up(peer, cx),
            // The node at the other end of the channel was not the peer.
            Input::Unreachable(peer) => {
                if self.sessions.get(&peer).is_some_and(|session| session.open) {
                    self.fail(peer, NotOpened::Unproven, cx);
                }
            }
            // An offer is not sent again: the node that wants the channel asks for another session.
            Input::Down(peer) => cx.cancel_timer(Timer::Again(peer)),
        }
    }

    fn check_invariants(&self) {
        assert!(self.sessions.len() <= self.most, "sessions are bounded");
        assert!(self.waiting.len() <= WAITING, "those that wait are bounded");
        assert!(self.waiting.is_empty() || self.sessions.len() == self.most, "nobody waits without a reason");
        for session in self.sessions.values() {
            assert!(session.told <= CANDIDATES && session.hears <= CANDIDATES, "candidates are bounded");
            assert!(session.early.is_empty() || !session.described, "nothing waits without a reason");
        }
    }
}

impl Signalling {
    /// `most`: sessions at a time.
    pub fn new(secret: Secret, most: usize) -> Signalling {
        Signalling {
            secret,
            most,
            refuses: false,
            sessions: BTreeMap::new(),
            waiting: VecDeque::new(),
            backoff: Backoff::new(limits::PAUSES, limits::FAILED),
            rates: limits::rates(most),
            outcomes: Outcomes::default(),
        }
    }

    pub fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// Whether others may open channels with this node.
    pub fn is_open(&self) -> bool {
        !self.refuses
    }

    /// Whether a channel to this node is wanted here, and is being opened or waits for its turn.
    pub fn is_opening(&self, peer: NodeId) -> bool {
        self.sessions.get(&peer).is_some_and(|session| session.wish.is_some())
            || self.waiting.iter().any(|(to, _)| to.id == peer)
    }

    /// Sessions that are being opened.
    pub fn under_way(&self) -> usize {
        self.sessions.len()
    }

    fn command(&mut self, command: Command, cx: &mut Scx<'_>) {
        match command {
            Command::Connect(to) => self.connect(to, cx),
            Command::Reply(reply) => self.reply(reply, cx),
            Command::Forwarded(sender, message) => self.heard(sender, message, cx),
            Command::Refuse(refuses) => self.refuses = refuses,
            Command::Gone { peer, by } => {
                let relay = |session: &Session| match session.way {
                    Way::To(address) => address.relay().map(|relay| relay.id),
                    Way::Back(sender) => sender.by,
                };
                // Anybody can say so.
                if self.sessions.get(&peer).is_some_and(|it| !it.heard && relay(it) == Some(by)) {
                    self.fail(peer, NotOpened::Gone, cx);
                }
            }
        }
    }

    fn reply(&mut self, reply: Reply, cx: &mut Scx<'_>) {
        let (Reply::Described(id, _) | Reply::Found(id, _) | Reply::Opened(id) | Reply::Failed(id)) = reply;
        // It may have been closed meanwhile.
        let Some(peer) = self.peer_of(id) else { return };
        match reply {
            Reply::Described(_, description) => self.described(peer, description, cx),
            Reply::Found(_, candidates) => self.found(peer, candidates, cx),
            Reply::Opened(_) if cx.peers.is_connected(peer) && !is_relayed(peer, cx) => {
                self.connected(peer, cx);
            }
            Reply::Opened(_) => {
                if let Some(session) = self.sessions.get_mut(&peer) {
                    session.open = true;
                    // For the handshake on it.
                    cx.set_timer(Timer::Session(peer), OPEN);
                }
            }
            Reply::Failed(_) => {
                self.say_over(peer, Over::Failed, cx);
                self.fail(peer, NotOpened::Driver, cx);
            }
        }
    }

    fn connect(&mut self, to: Address, cx: &mut Scx<'_>) {
        let peer = to.id;
        if peer == cx.me || cx.peers.is_connected(peer) {
            return;
        }
        if let Some(session) = self.sessions.get_mut(&peer) {
            session.wish = Some(to);
            // It was spoken of by a connection that has ended.
            if session.way.relay(cx).is_none() {
                session.way = Way::To(to);
            }
            cx.set_timer_by(Timer::Slow(peer), SLOW);
            return;
        }
        if self.waiting.iter().any(|(other, _)| other.id == peer) {
            return;
        }
        let is_full = self.sessions.len() >= self.most;
        let why_not = match () {
            () if self.refuses => Some(NotOpened::Unwanted),
            () if self.backoff.contains(peer, cx.now) => Some(NotOpened::Early),
            () if is_full && self.waiting.len() >= WAITING => Some(NotOpened::Busy),
            () => None,
        };
        if let Some(why) = why_not {
            return cx.emit(Event::NotOpened { peer, relay: to.relay(), why });
        }
        if is_full {
            // It may wait for long enough that another way is faster.
            cx.set_timer_by(Timer::Slow(peer), SLOW);
            return self.waiting.push_back((to, cx.now));
        }
        let id = Self::new_id(cx);
        self.begin(peer, id, Way::To(to), (Role::Offers, Some(to)), cx);
    }

    fn new_id(cx: &mut Scx<'_>) -> SessionId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&cx.rng.u64().to_be_bytes());
        id[8..].copy_from_slice(&cx.rng.u64().to_be_bytes());
        SessionId(id)
    }

    fn begin(
        &mut self,
        peer: NodeId,
        id: SessionId,
        way: Way,
        (role, wish): (Role, Option<Address>),
        cx: &mut Scx<'_>,
    ) {
        let session = Session {
            id,
            way,
            role,
            wish,
            open: false,
            described: false,
            heard: role == Role::Answers,
            early: Vec::new(),
            told: 0,
            hears: 0,
            until: cx.now + OPEN,
        };
        self.sessions.insert(peer, session);
        let patience = if role == Role::Offers { ANSWER } else { OPEN };
        cx.set_timer(Timer::Session(peer), patience);
        if wish.is_some() {
            cx.set_timer_by(Timer::Slow(peer), SLOW);
        }
        let mirror = mirror::of(peer, cx.peers);
        cx.emit(Event::Request(Request::Open { session: id, peer, role, mirror }));
    }

    fn described(&mut self, peer: NodeId, description: Description, cx: &mut Scx<'_>) {
        let Some(session) = self.sessions.get_mut(&peer).filter(|session| !session.described) else { return };
        if !description.is_well_formed() {
            self.say_over(peer, Over::Failed, cx);
            return self.fail(peer, NotOpened::Driver, cx);
        }
        session.described = true;
        let early = std::mem::take(&mut session.early);
        let what = match session.role {
            Role::Offers => What::Offer(description),
            Role::Answers => What::Answer(description),
        };
        self.say(peer, what, cx);
        if !early.is_empty() {
            self.say(peer, What::Candidates(early), cx);
        }
    }

    fn found(&mut self, peer: NodeId, mut candidates: Vec<Candidate>, cx: &mut Scx<'_>) {
        let Some(session) = self.sessions.get_mut(&peer) else { return };
        candidates.truncate(CANDIDATES - session.told);
        session.told += candidates.len();
        if !session.described {
            session.early.extend(candidates);
        } else if !candidates.is_empty() {
            self.say(peer, What::Candidates(candidates), cx);
        }
    }

    /// A message has come; `sender.by` has forwarded it, if anybody has.
    fn heard(&mut self, sender: Sender, message: Message, cx: &mut Scx<'_>) {
        // Neither a signature is checked nor an answer sent for one who asks too often.
        if !self.rates.take(sender.by.unwrap_or(sender.id), cx.now) {
            return;
        }
        match message {
            Message::Over { session, why } => {
                let is_its = self.sessions.get(&sender.id).is_some_and(|known| known.id == session);
                if is_its {
                    self.fail(sender.id, NotOpened::Refused(why), cx);
                }
            }
            Message::Said(signed) => match Said::open(&signed, sender.id, cx.me) {
                Ok(said) => self.said(sender, said, cx),
                // A relay does not read what it forwards, and may have made it up.
                Err(why) if sender.by.is_none() => cx.fault(sender.id, why.to_string()),
                Err(_) => {}
            },
        }
    }

    fn said(&mut self, sender: Sender, Said { session: id, what, .. }: Said, cx: &mut Scx<'_>) {
        let peer = sender.id;
        let known = self.sessions.get_mut(&peer);
        match what {
            What::Offer(description) => self.offered(sender, id, description, cx),
            What::Answer(description) => {
                let Some(session) = known.filter(|known| known.id == id && known.role == Role::Offers) else {
                    return;
                };
                if session.heard || !session.described {
                    return;
                }
                session.heard = true;
                cx.set_timer(Timer::Session(peer), session.until.since(cx.now));
                cx.emit(Event::Request(Request::Remote(id, description)));
            }
            What::Candidates(mut candidates) => {
                let Some(session) = known.filter(|known| known.id == id && known.heard) else { return };
                let on_this_machine = cx.peers.nearest() == Some(Scope::Machine);
                candidates.truncate(CANDIDATES - session.hears);
                // Those that are left out count, too.
                session.hears += candidates.len();
                candidates.retain(|candidate| candidate.may_be_tried(on_this_machine));
                if !candidates.is_empty() {
                    cx.emit(Event::Request(Request::Try(id, candidates)));
                }
            }
        }
    }

    fn offered(&mut self, sender: Sender, id: SessionId, description: Description, cx: &mut Scx<'_>) {
        let peer = sender.id;
        // Drivers know ends by their sessions: nobody takes another's.
        if self.peer_of(id).is_some_and(|other| other != peer) {
            return;
        }
        let mut wish = None;
        if let Some(session) = self.sessions.get(&peer) {
            // Both offer at once: the offer of the smaller id stands. Its node drops the other's just so.
            let crossing = session.role == Role::Offers && !session.heard;
            let soon = session.role == Role::Answers && session.until.since(cx.now) > OPEN - ANEW;
            if session.id == id || crossing && cx.me < peer || soon {
                return;
            }
            // Or the peer has begun anew.
            wish = session.wish;
            cx.emit(Event::Request(Request::Close(session.id)));
            // The other way is not to wait for longer because somebody sends kept offers again.
            cx.cancel_timer(Timer::Session(peer));
            self.sessions.remove(&peer);
            if wish.is_none() {
                self.next_turn(cx);
            }
        }
        let why_not = match () {
            () if self.refuses => Some(Over::Refused),
            () if self.sessions.len() >= self.most => Some(Over::Busy),
            () if self.brought_by(sender) >= self.most / BROUGHT => Some(Over::Busy),
            () => None,
        };
        if let Some(why) = why_not {
            if let Some(wish) = wish {
                let relay = wish.relay().or_else(|| Way::Back(sender).relay(cx));
                cx.cancel_timer(Timer::Slow(peer));
                cx.emit(Event::NotOpened { peer, relay, why: NotOpened::Busy });
            }
            cx.answer(sender, Message::Over { session: id, why });
            return self.next_turn(cx);
        }
        // One that waits for its turn has it now.
        let wish = self.forget_waiting(peer).or(wish);
        self.begin(peer, id, Way::Back(sender), (Role::Answers, wish), cx);
        cx.emit(Event::Request(Request::Remote(id, description)));
    }

    fn late(&mut self, peer: NodeId, cx: &mut Scx<'_>) {
        let Some(session) = self.sessions.get(&peer) else { return };
        let why = match (session.open, session.heard) {
            (true, _) => NotOpened::Unproven,
            (false, true) => NotOpened::Unreached,
            (false, false) => NotOpened::Unanswered,
        };
        self.say_over(peer, Over::Failed, cx);
        self.fail(peer, why, cx);
    }

    /// The session comes to nothing.
    fn fail(&mut self, peer: NodeId, why: NotOpened, cx: &mut Scx<'_>) {
        let Some(session) = self.end(peer, cx) else { return };
        // One that came by another way meanwhile needed none; by way of a relay it did.
        if !cx.peers.is_connected(peer) || is_relayed(peer, cx) {
            self.outcomes.count(why, session.heard);
        }
        cx.emit(Event::Request(Request::Close(session.id)));
        if session.role == Role::Offers {
            self.backoff.failed(peer, cx.now);
            // Unless the peer's donor wants no direct connections.
            if why != NotOpened::Refused(Over::Refused) && is_relayed(peer, cx) {
                self.try_again_later(peer, cx);
            }
        }
        if session.wish.is_some() {
            cx.emit(Event::NotOpened { peer, relay: session.relay(cx), why });
        }
    }

    /// The peer is connected, by its channel or by another way.
    fn up(&mut self, peer: NodeId, cx: &mut Scx<'_>) {
        self.forget_waiting(peer);
        if is_relayed(peer, cx) {
            // A channel that is being opened takes the relay's place.
            let opens = self.sessions.contains_key(&peer);
            let may = cx.peers.get(peer).is_some_and(|it| it.speaks.has(ServiceId::Signalling));
            if !opens && may {
                self.try_again_later(peer, cx);
            }
            return;
        }
        let Some(session) = self.sessions.get(&peer) else { return };
        match (session.open, session.heard) {
            (true, _) => self.connected(peer, cx),
            // It may be the very channel, of which the driver has not told yet.
            (false, true) => {}
            (false, false) => {
                let session = self.end(peer, cx);
                session.into_iter().for_each(|session| cx.emit(Event::Request(Request::Close(session.id))));
            }
        }
    }

    fn connected(&mut self, peer: NodeId, cx: &mut Scx<'_>) {
        self.backoff.succeeded(peer);
        self.outcomes.opened += u64::from(self.end(peer, cx).is_some());
    }

    fn end(&mut self, peer: NodeId, cx: &mut Scx<'_>) -> Option<Session> {
        let ended = self.drop_session(peer, cx);
        self.next_turn(cx);
        ended
    }

    fn next_turn(&mut self, cx: &mut Scx<'_>) {
        // Unless it has waited for as long as a session may take.
        while self.sessions.len() < self.most
            && let Some((to, since)) = self.waiting.pop_front()
        {
            match cx.now.since(since) < OPEN {
                true => self.connect(to, cx),
                false => {
                    let (peer, relay) = (to.id, to.relay());
                    cx.emit(Event::NotOpened { peer, relay, why: NotOpened::Busy });
                }
            }
        }
    }

    fn drop_session(&mut self, peer: NodeId, cx: &mut Scx<'_>) -> Option<Session> {
        cx.cancel_timer(Timer::Session(peer));
        cx.cancel_timer(Timer::Slow(peer));
        self.sessions.remove(&peer)
    }

    /// The peer does not wait for a session any more; where it was to be connected to, if it did.
    fn forget_waiting(&mut self, peer: NodeId) -> Option<Address> {
        let at = self.waiting.iter().position(|(to, _)| to.id == peer)?;
        self.waiting.remove(at).map(|(to, _)| to)
    }

    fn say_over(&self, peer: NodeId, why: Over, cx: &mut Scx<'_>) {
        let Some(session) = self.sessions.get(&peer) else { return };
        // A peer that has heard nothing of it need not hear that it is over.
        if session.described || session.role == Role::Answers {
            Self::send(session.way, Message::Over { session: session.id, why }, cx);
        }
    }

    fn say(&self, peer: NodeId, what: What, cx: &mut Scx<'_>) {
        let Some(session) = self.sessions.get(&peer) else { return };
        let said = Said { to: peer, session: session.id, what };
        match said.sign(&self.secret) {
            Some(message) => Self::send(session.way, message, cx),
            None => cx.trouble(
                "a signalling message was longer than it may be, and was not sent; please report this".into(),
            ),
        }
    }

    fn send(way: Way, message: Message, cx: &mut Scx<'_>) {
        match way {
            Way::To(address) => cx.send_to(address, message),
            Way::Back(sender) => cx.answer(sender, message),
        }
    }

    /// Sessions that came by the same neighbour.
    fn brought_by(&self, sender: Sender) -> usize {
        let neighbour = |of: Sender| of.by.unwrap_or(of.id);
        let by =
            |session: &Session| matches!(session.way, Way::Back(of) if neighbour(of) == neighbour(sender));
        self.sessions.values().filter(|session| by(session)).count()
    }

    fn peer_of(&self, id: SessionId) -> Option<NodeId> {
        self.sessions.iter().find(|(_, session)| session.id == id).map(|(peer, _)| *peer)
    }
}

impl Session {
    /// By way of whom the peer is to be reached if no channel opens. The relay that the address names is asked, not
    /// whoever brought an offer: anybody who has kept one can bring it.
    fn relay(&self, cx: &Scx<'_>) -> Option<Contact> {
        self.wish.and_then(|wish| wish.relay()).or_else(|| self.way.relay(cx))
    }
}

impl Way {
    /// The node by way of which the session is spoken of.
    fn relay(&self, cx: &Scx<'_>) -> Option<Contact> {
        match self {
            Way::To(address) => address.relay(),
            Way::Back(sender) => cx.peers.contact(sender.by?),
        }
    }
}
