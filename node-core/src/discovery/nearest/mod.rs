//! Nearest free slots, by the tree of all nodes (paper `tree`, sections 3 and 4).
//!
//! The tree itself is another machine's; it tells where this node is by a
//! [`Placement`]. On it run two protocols. *Availability*: every node knows how much is free in
//! the branches below it, and tells its parent what matters (`branch`). *Discovery*: a
//! request for n tasks takes what a node has itself, spreads over its branches, and what is
//! left goes up (`request`, `answer`). Both follow the paper or are improved
//! (`Changes`); what is a departure says "Modification".
//!
//! Nothing depends on timing for safety: the slots are those of `own_slots`, and whoever asks for
//! one that is not free is refused, which corrects what led it there.

mod answer;
mod branch;
mod config;
mod message;
mod own_slots;
mod place;
mod predict;
mod query;
mod request;
mod single;
mod state;
mod tell;
mod view;

pub use config::{Changes, NearestConfig, Policy, Way};
pub use message::{
    Above, Ack, Answer, Ask, Gone, Message, NotFound, Packed, Places, Refuse, Status, Taken, Toward,
};
pub use own_slots::Load;
pub use state::{NOWHERE, SIZES, State, UNUSUAL};
pub use view::{BranchLine, BranchView};

use crate::address::{Contact, Ip};
use crate::finding::{Found, Query};
use crate::ids::NodeId;
use crate::placement::Placement;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use answer::Pending;
use branch::Branch;
use own_slots::OwnSlots;
use query::Asked;
use single::Unacked;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Requests that are known again when they are repeated. Our choice: more than come in the
/// time that a repetition takes.
const RECENT_MAX: usize = 64;

/// Former neighbours in the tree, whose late messages are no faults.
const FORMER_MAX: usize = 32;

#[derive(Debug)]
pub struct Nearest {
    /// Shared by all nodes of a process.
    config: Arc<NearestConfig>,
    me: Option<Contact>,
    joined: bool,
    level: u8,
    parent: Option<Contact>,
    /// The gateway that a node outside of the tree asks instead of a parent.
    host: Option<Contact>,
    ancestors: Vec<Contact>,
    /// Declared slots of the branches above: the parent's first, the whole network last.
    above: Vec<u32>,
    /// Value of `above` that the children were told.
    above_told: Vec<u32>,
    own_slots: OwnSlots,
    branch: Branch,
    /// Requests in hand whose answers are gathered here.
    pending: BTreeMap<u32, Pending>,
    /// Queries of this node.
    queries: BTreeMap<u64, Asked>,
    /// Places whose origin has not acknowledged them (the paper's way).
    unacked: BTreeMap<u32, Unacked>,
    next: u32,
    recent: VecDeque<u64>,
    former: VecDeque<NodeId>,
    placed_at: Time,
    /// Nodes that did not take what they had offered.
    cooling: Vec<(NodeId, Time)>,
    /// The tree had nothing left; until then it is not asked again.
    dry_until: Time,
    dry: Duration,
    usual: predict::Usual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A reservation ends.
    Lease,
    /// Changes that may wait are told.
    Settle,
    /// Changes that may wait a little are told.
    Pace,
    /// Slots that were taken count as free again.
    Returns,
    /// All is told again.
    Refresh,
    /// The time for parts of this request is over.
    Pending(u32),
    /// The time for a query of this node's own is over.
    Query(u64),
    /// An answer is repeated (the paper's way).
    Again(u32),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// This node as others see it.
    Me(Contact),
    /// The tree has put it there.
    Placed(Placement),
    /// The gateway that this node asks while it is not in the tree, since nobody has dialled it.
    Host(Contact),
    /// The runner's slots and its work.
    Load(Load),
    /// A guest of this gateway; none: it is gone. Afterwards it may tell its state itself.
    Guest {
        guest: NodeId,
        load: Option<Load>,
    },
    Find(Query),
    /// A node that was found did not take its units.
    Refused {
        node: NodeId,
    },
    /// Have a node that is at hand keep slots for this one.
    Reserve {
        node: NodeId,
        slots: u32,
    },
    /// A node that did not take its units has given credit since.
    Welcome {
        node: NodeId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Found(Found),
    /// Slots of this node are kept for units of this owner, which was so many hops away.
    Reserved {
        for_owner: Contact,
        slots: u32,
        until: Time,
        hops: u8,
    },
    /// This owner does not use so many of the slots that are kept for it.
    Released {
        owner: NodeId,
        slots: u32,
    },
    /// The figures of the branch that people are shown have changed.
    Changed,
}

impl Protocol for Nearest {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Message { from, message } => self.hear(from, message, cx),
            Input::Command(command) => self.command(command, cx),
            Input::Timer(timer) => self.fire(timer, cx),
            Input::Up(peer) => self.up(peer, cx),
            Input::Down(peer) | Input::Unreachable(peer) => self.down(peer, cx),
        }
        self.watch_work(cx);
        self.tell(false, cx);
        self.watch_leases(cx);
    }

    fn check_invariants(&self) {
        self.own_slots.check();
        for pending in self.pending.values() {
            pending.check();
        }
    }
}

impl Nearest {
    pub fn new(config: impl Into<Arc<NearestConfig>>) -> Nearest {
        Nearest {
            config: config.into(),
            me: None,
            joined: false,
            level: 0,
            parent: None,
            host: None,
            ancestors: Vec::new(),
            above: Vec::new(),
            above_told: Vec::new(),
            own_slots: OwnSlots::default(),
            branch: Branch::default(),
            pending: BTreeMap::new(),
            queries: BTreeMap::new(),
            unacked: BTreeMap::new(),
            next: 0,
            recent: VecDeque::new(),
            former: VecDeque::new(),
            placed_at: Time::ZERO,
            cooling: Vec::new(),
            dry_until: Time::ZERO,
            dry: Duration::ZERO,
            usual: predict::Usual::default(),
        }
    }

    fn hear(&mut self, from: NodeId, message: Message, cx: &mut Cx<'_, Self>) {
        match message {
            Message::Status(status) => self.status(from, status, cx),
            Message::Above(above) => self.hear_above(from, above, cx),
            Message::Ask(ask) => self.ask(from, ask, cx),
            Message::Answer(answer) => self.answered(from, answer, cx),
            Message::Refuse(refuse) => self.refused(from, refuse, cx),
            Message::Gone(gone) => self.gone(from, gone, cx),
            Message::Places(places) => self.places(from, places, cx),
            Message::Taken(taken) => self.taken(from, taken, cx),
            Message::Ack(ack) => self.ack(from, ack, cx),
            Message::NotFound(none) => self.not_found(from, none, cx),
            Message::Reserve(slots) => self.keep_slots(from, slots, cx),
            Message::Release(slots) => self.release(from, slots, cx),
        }
    }

    fn command(&mut self, command: Command, cx: &mut Cx<'_, Self>) {
        match command {
            Command::Me(contact) => {
                self.me = Some(contact);
                // Guests are reached through this node.
                for entry in self.branch.children.iter_mut().filter(|entry| entry.guest) {
                    entry.contact = Contact { id: entry.contact.id, ..contact };
                }
            }
            Command::Placed(placement) => self.placed(placement, cx),
            Command::Host(host) => self.host = Some(host),
            Command::Load(load) => {
                self.own_slots.load(load);
                cx.emit(Event::Changed);
            }
            Command::Guest { guest, load } => self.guest(guest, load, cx),
            Command::Find(query) => self.find(query, cx),
            Command::Refused { node } => self.cool_down(node, cx),
            Command::Reserve { node, slots } => cx.send(node, Message::Reserve(slots)),
            Command::Welcome { node } => self.welcome(node),
        }
    }

    fn fire(&mut self, timer: Timer, cx: &mut Cx<'_, Self>) {
        match timer {
            Timer::Lease => {
                self.own_slots.expire(cx.now);
                cx.emit(Event::Changed);
            }
            Timer::Settle => self.settle(cx),
            Timer::Pace => self.tell(true, cx),
            Timer::Returns => self.return_slots(cx),
            Timer::Refresh => self.refresh(cx),
            Timer::Pending(key) => self.out_of_time(key, cx),
            Timer::Query(id) => self.query_is_late(id, cx),
            Timer::Again(number) => self.take_again(number, cx),
        }
    }

    /// Own contact; without an address nobody can answer but along the way that the request
    /// went.
    fn contact(&self, me: NodeId) -> Contact {
        self.me.unwrap_or(nowhere(me))
    }

    fn is_parent(&self, id: NodeId) -> bool {
        self.parent.is_some_and(|f| f.id == id)
    }

    /// In the root group, or alone.
    fn is_at_the_top(&self) -> bool {
        self.parent.is_none()
    }

    /// A message from who is not, or no longer, what it claims to be. Just after a change of the tree that is a race,
    /// and so it is of a peer that has just come, of which the parent tells in a moment; otherwise it is a fault.
    fn misplaced(&mut self, from: NodeId, what: &str, cx: &mut Cx<'_, Self>) {
        let is_new = cx.peers.connection(from).is_some_and(|peer| cx.now.since(peer.since) < RACE);
        let race = is_new || self.former.contains(&from) || cx.now.since(self.placed_at) < RACE;
        if !race {
            cx.fault(from, what.into());
        }
    }

    fn watch_leases(&mut self, cx: &mut Cx<'_, Self>) {
        match self.own_slots.next_end() {
            Some(end) => {
                if !cx.timer_is_set(Timer::Lease) {
                    cx.set_timer(Timer::Lease, end.since(cx.now));
                }
            }
            None => cx.cancel_timer(Timer::Lease),
        }
    }

    /// Whether a request, by its sender's name for it, is here for the first time.
    fn is_new(&mut self, from: NodeId, id: u64, part: u32) -> bool {
        let (start, _) = from.0.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        let mark = id ^ u64::from_le_bytes(*start) ^ u64::from(part).rotate_right(16);
        if self.recent.contains(&mark) {
            return false;
        }
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(mark);
        true
    }

    fn next(&mut self) -> u32 {
        self.next = (self.next + 1) & 0x00ff_ffff;
        self.next
    }
}

/// Contact of a node that has no address, or whose address does not matter: it is connected.
fn nowhere(id: NodeId) -> Contact {
    Contact { ip: Ip([0; 16]), id, port: 0 }
}

/// How long after a change of the tree others may not have heard of it. Our choice: a few hops
/// and a connection's death.
const RACE: Duration = Duration::from_secs(15);
