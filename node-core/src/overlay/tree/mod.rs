//! The tree of all dialable nodes, ordered by address (paper `tree`, section 5).
//!
//! Every node is one member of a group of siblings; groups have between m and 2m. A node above
//! the leaves is parent of one group below it and knows the range of keys of its branch, its own
//! key included.
//!
//! | file | what it knows |
//! |---|---|
//! | `group` | a group as its writer holds it: members in order, ranges that partition |
//! | `join` | being let in: routed by key, by a parent or by the root group |
//! | `seat` | what a node does when it is let in, and how it looks for a parent |
//! | `tell` | what parents tell their children, and each other |
//! | `split`, `merge` | groups above 2m and below m |
//! | `repair` | failures, refresh, vacant places |
//! | `root`, `promote` | the root group: its coordinator, new levels, collapse, two roots |
//! | `claim` | who says that it is the coordinator while another one lives |
//! | `leave` | going of one's own accord |
//!
//! # Who decides what
//! Our choice; the paper leaves it open. Three rules make every step safe by itself, so that
//! messages may be lost, doubled, late or out of order and nodes may die between any two:
//!
//! 1. *A parent is the only writer of its group*: who is in it, and where the range of each
//!    begins. The coordinator of the root group writes that one. Each change is one step of one
//!    node, and ranges partition the parent's range after each.
//! 2. *A child alone decides who its parent is*, at the moment it is welcomed. So it has one at
//!    most; parents that still count it hear from it that they are wrong.
//! 3. *A child outside of its parent's range looks for the place where it belongs*, by key. So
//!    a split is nothing but a new member of the grandparent's group, with a part of the range,
//!    and a merge one less: what has to move moves by itself, however often it is interrupted.
//!
//! A branch that lost its parent is inserted anew at its level by the same join as a single
//! node, and two trees become one by joining the branches of one to the other.

mod balance;
pub mod check;
mod claim;
mod config;
mod group;
mod join;
mod leave;
mod merge;
mod message;
mod promote;
mod range;
mod repair;
mod root;
mod seat;
mod split;
mod tell;
mod view;

pub use config::TreeConfig;
pub use message::{
    Command, Event, Join, Message, NeighbourUpdate, Record, RequestLeaf, Tell, Timer, Upper, Welcome,
};
pub use range::Range;
pub use view::{RootView, TreeView};

use crate::address::{Contact, Key};
use crate::ids::NodeId;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use group::Group;
use std::sync::Arc;

/// A node's part of the tree.
#[derive(Debug)]
pub struct Tree {
    config: Arc<TreeConfig>,
    me: Option<Contact>,
    /// Levels below: 0 for a leaf.
    level: u8,
    link: Link,
    /// Range of this branch, as the parent wrote it. `None` for leaves, and for a node that gave up its
    /// place.
    range: Option<Range>,
    /// Siblings, and neighbours with other parents, in order of keys.
    near: Vec<Contact>,
    upper: Upper,
    children: Option<Box<Children>>,
    asking: Option<Box<Asking>>,
    /// Peers that are connected, in order.
    up: Vec<NodeId>,
    via: Vec<NodeId>,
    /// Grows with every group that this node ever writes.
    clock: u64,
    /// Since when there has been no parent.
    lost: Time,
    /// The sibling that has this branch now: all children are to move there.
    freed: Option<Contact>,
    leaving: bool,
    /// The placement has changed since it was told.
    changed: bool,
}

/// The node's tie to the tree.
#[derive(Debug)]
enum Link {
    /// Nothing: outside, or the head of a branch that lost its parent.
    None,
    Child {
        parent: Contact,
        /// The epoch of its welcome.
        since: u64,
        /// The epoch that it told last; 0 for nothing.
        epoch: u64,
    },
    Root(Box<Root>),
}

/// The root group, whole at each of its members.
#[derive(Debug)]
struct Root {
    term: u64,
    /// The coordinator.
    writer: NodeId,
    promoted: Option<Contact>,
    group: Group,
    nonce: u64,
    /// Nodes of an earlier life of the tree, which may know of another root.
    earlier: Vec<Contact>,
    /// Not before then does a lone root give way.
    stays: Time,
    claim: Option<Box<Claim>>,
    /// To whom this coordinator has abdicated.
    successor_root: Option<NodeId>,
}

/// A record of who says that it is the coordinator, while another one seems to live.
#[derive(Debug)]
struct Claim {
    record: Record,
    /// Members that stand by this coordinator.
    votes: Vec<NodeId>,
}

/// The children of a node above the leaves.
#[derive(Debug)]
struct Children {
    group: Group,
    /// Members that changed, each with the epoch, for children that were told earlier; starts behind `floor`.
    log: Vec<(u64, NodeId)>,
    floor: u64,
    left: Option<Side>,
    right: Option<Side>,
    /// Outside of 2m or m, and nothing is to be asked before then.
    rest: Time,
    underflow: Option<Time>,
    underflows: u8,
    /// When the children, and the parents beside this one, were told last.
    told: Time,
    updated: Time,
    /// When a parent for a half was looked for last.
    split: Time,
    /// The siblings have been asked how many children they have, once for this trouble.
    asked: bool,
}

/// Knowledge of the parent beside this one, on one side.
#[derive(Debug)]
struct Side {
    id: NodeId,
    count: u16,
    children: Vec<Contact>,
    /// A digest of what it was told last.
    sent: u64,
    known: bool,
}

/// A place that is being asked for.
#[derive(Debug)]
struct Asking {
    ticket: u32,
    level: u8,
    claim: Option<Range>,
    for_: Option<NodeId>,
    /// Node to ask first.
    hint: Option<Contact>,
    tries: u32,
    asked: Option<NodeId>,
    too_tall: u8,
}

type Tcx<'a> = Cx<'a, Tree>;

impl Protocol for Tree {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Tcx<'_>) {
        match input {
            Input::Message { from, message } if self.me.is_some() => self.message(from, message, cx),
            Input::Message { .. } => {}
            Input::Timer(timer) => self.timer(timer, cx),
            Input::Command(Command::Join { me, via }) => self.begin(me, via, cx),
            Input::Command(Command::Degree(m)) => {
                if self.me.is_none() && self.config.m != m {
                    let config = Arc::make_mut(&mut self.config);
                    (config.m, config.k) = (m, m);
                }
            }
            Input::Command(Command::Leave) => self.leave(cx),
            Input::Command(Command::Via(via)) => self.via = via,
            Input::Up(peer) => {
                if let Err(at) = self.up.binary_search(&peer) {
                    // A gateway has thousands, most nodes a handful.
                    if self.up.len() < 64 {
                        self.up.reserve_exact(1);
                    }
                    self.up.insert(at, peer);
                    self.answers(peer, true, cx);
                }
            }
            Input::Down(peer) | Input::Unreachable(peer) => {
                if let Ok(at) = self.up.binary_search(&peer) {
                    self.up.remove(at);
                }
                self.down(peer, cx);
            }
        }
        if self.changed {
            self.changed = false;
            cx.emit(Event::Placed(Box::new(self.placement())));
        }
    }

    fn check_invariants(&self) {
        assert_eq!(
            self.level > 0,
            self.children.is_some(),
            "who is above the leaves has a group, and only who is"
        );
        let groups = self.children.iter().map(|k| &k.group).chain(match &self.link {
            Link::Root(root) => Some(&root.group),
            _ => None,
        });
        for group in groups {
            assert!(group.members.windows(2).all(|w| w[0].key() < w[1].key()), "members are in order");
        }
        assert!(self.near.windows(2).all(|w| w[0].key() < w[1].key()), "references are in order");
    }
}

impl Tree {
    pub fn new(config: impl Into<Arc<TreeConfig>>) -> Tree {
        Tree {
            config: config.into(),
            me: None,
            level: 0,
            link: Link::None,
            range: None,
            near: Vec::new(),
            upper: Upper { group: Range::ALL, ancestors: Vec::new(), parent_siblings: Vec::new() },
            children: None,
            asking: None,
            up: Vec::new(),
            via: Vec::new(),
            clock: 0,
            lost: Time::ZERO,
            freed: None,
            leaving: false,
            changed: false,
        }
    }

    fn message(&mut self, from: NodeId, message: Message, cx: &mut Tcx<'_>) {
        match message {
            Message::Join(join) => self.join(from, *join, cx),
            Message::Welcome(welcome) => self.welcome(from, *welcome, cx),
            Message::TooTall { ticket } => self.too_tall(from, ticket, cx),
            Message::Tell(tell) => self.told(from, *tell, cx),
            Message::Refresh { epoch, level, count } => self.refreshed(from, epoch, level, count, cx),
            Message::NotMine { into } => self.not_mine(from, into, cx),
            Message::Leave { epoch, root } => self.left_by(from, epoch, root, cx),
            Message::Resign { epoch } => self.resigned(from, epoch, cx),
            Message::Move { via, epoch } => self.moved(from, via, epoch, cx),
            Message::Update(update) => self.on_update(from, *update, cx),
            Message::RequestLeaf(request) => self.on_request_leaf(from, *request, cx),
            Message::Redistribute { with, bound } => self.redistribute(from, with, bound, cx),
            Message::Merge { into } => self.merge(from, into, cx),
            Message::Underflow { count } => self.on_underflow(from, count, cx),
            Message::Root(record) => self.record(from, *record, cx),
            Message::Abdicate(record) => self.abdicated(from, *record, cx),
            Message::Probe { root, level, term, nonce } => self.probed(from, root, level, term, nonce, cx),
            Message::Found { root, nonce } => self.found(from, root, nonce, cx),
        }
    }

    fn timer(&mut self, timer: Timer, cx: &mut Tcx<'_>) {
        match timer {
            Timer::Join => self.ask_again(cx),
            Timer::Tell => self.tell(cx),
            Timer::Updates => self.send_updates(cx),
            Timer::Refresh => self.refresh(cx),
            Timer::Balance => self.balance(cx),
            Timer::Vacancy => self.vacancies(cx),
            Timer::Elect => self.elect(cx),
            Timer::Probe => self.probe(cx),
            Timer::Record => self.tell_root(cx),
        }
    }

    /// Whether it has a parent or is in the root group.
    fn placed(&self) -> bool {
        !matches!(self.link, Link::None)
    }

    fn key(&self) -> Key {
        self.me.map_or(Key::FIRST, |me| me.key())
    }

    fn is_up(&self, id: NodeId) -> bool {
        self.up.binary_search(&id).is_ok()
    }

    fn parent(&self) -> Option<Contact> {
        match &self.link {
            Link::Child { parent, .. } => Some(*parent),
            _ => None,
        }
    }

    fn root(&self) -> Option<&Root> {
        match &self.link {
            Link::Root(root) => Some(root),
            _ => None,
        }
    }

    fn root_mut(&mut self) -> Option<&mut Root> {
        match &mut self.link {
            Link::Root(root) => Some(root),
            _ => None,
        }
    }

    /// The one who writes the group that this node is in.
    fn writer(&self) -> Option<Contact> {
        match &self.link {
            Link::None => None,
            Link::Child { parent, .. } => Some(*parent),
            Link::Root(root) => root.group.get(root.writer).map(|m| m.contact),
        }
    }

    fn child_count(&self) -> usize {
        match (&self.children, &self.range) {
            (Some(children), Some(range)) => children.group.inside(range).len(),
            _ => 0,
        }
    }

    /// Sends to a node that may not be connected yet.
    fn send(&self, to: Contact, message: Message, cx: &mut Tcx<'_>) {
        self.reach(to, cx);
        cx.send(to.id, message);
    }

    fn reach(&self, to: Contact, cx: &mut Tcx<'_>) {
        if to.id != cx.me && !self.is_up(to.id) {
            cx.hold(to);
        }
    }

    /// The tree has nothing more to do with it, unless it stands elsewhere too.
    fn release(&self, id: NodeId, cx: &mut Tcx<'_>) {
        let held = self.parent().is_some_and(|f| f.id == id)
            || self.children.as_ref().is_some_and(|k| k.group.get(id).is_some())
            || self.root().is_some_and(|r| r.group.get(id).is_some());
        if !held && id != cx.me {
            cx.release(id);
        }
    }

    fn fault(&self, peer: NodeId, fault: &str, cx: &mut Tcx<'_>) {
        cx.fault(peer, fault.to_string());
    }

    /// The next epoch of anything this node writes. It never goes back, not even for a node
    /// that starts again.
    fn next_epoch(&mut self, now: Time) -> u64 {
        self.clock = (self.clock + 1).max(now.0);
        self.clock
    }

    /// The two next to this node at its level.
    fn beside(&self) -> (Option<Contact>, Option<Contact>) {
        let key = self.key();
        match self.root() {
            Some(root) => {
                let members = &root.group.members;
                let at = members.partition_point(|m| m.key() < key);
                let left = at.checked_sub(1).and_then(|i| members.get(i));
                let right = members[at..].iter().find(|m| m.key() > key);
                (left.map(|m| m.contact), right.map(|m| m.contact))
            }
            None => {
                let at = self.near.partition_point(|c| c.key() < key);
                let left = at.checked_sub(1).and_then(|i| self.near.get(i));
                (left.copied(), self.near.get(at).copied())
            }
        }
    }
}
