//! The keeper: stores checkpoints of units that run elsewhere, for their owners.
//!
//! It is told of a checkpoint by the unit's runner, asks the unit's owner once a minute whether that one runs it
//! (`asking.rs`), pulls the parts, and says so. Of each unit it has the two newest of a placement, whole, and
//! those of three placements at most: a runner that was cut off must not push out what its successor goes on
//! from. Each owner has units of its own, also of the same name: nobody takes another's place. Nothing of this
//! is written down: after a restart the blobs are still there to be asked for, and the next checkpoint pins them
//! again.

mod asking;
mod room;

use crate::content::{BlobRef, NotFetched};
use crate::ids::{NodeId, UnitId};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use crate::work::KeeperConfig;
use crate::work::message::{Keep, KeepTerms, Message, ToKeeper, ToOwner, ToRunner};
use litemap::LiteMap;
use room::{SALES, SOLD};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::progress::Version;

/// Complete versions of a placement. Our choice: the newest, and the one before it in case that nobody can go on
/// from the newest.
const VERSIONS: usize = 2;

/// Placements of a unit whose checkpoints are kept beside each other. Our choice: the one that was
/// lost, the one that goes on from it, and one that is just beginning.
const PLACEMENTS: usize = 3;

/// Parts of a checkpoint: itself and its base.
const PARTS: usize = 2;

/// Between two lists of what is kept for an owner. Our choice: a lost word costs ten minutes of
/// space.
const TELL: Duration = Duration::from_secs(600);

/// After this silence an owner has given up what is kept for it. Our choice: a gateway is mended
/// within a day.
const SILENCE: Duration = Duration::from_secs(24 * 3600);

/// Owners known at a time, connected or not; checkpoints of more are refused.
const OWNERS: usize = 256;

/// So long an owner's word about a placement holds. Our choice: a runner that was cut off keeps nothing for longer,
/// and a question a minute costs nothing.
const VOUCHED: Duration = Duration::from_secs(60);

/// Owners of one unit that are looked through for what its origin drops. Our choice: more than a unit on the ring
/// has in a day.
const OWNERS_OF_UNIT: usize = 16;

/// A unit, and the owner for which it is kept.
type Key = (UnitId, NodeId);

#[derive(Debug)]
pub struct Keeper {
    config: KeeperConfig,
    owners: LiteMap<NodeId, Owner>,
    units: BTreeMap<Key, Kept>,
    tickets: BTreeMap<u64, (Key, Placement)>,
    asking: asking::Asking,
    next: u64,
    /// Bytes of all that is kept or on its way.
    bytes: u64,
    /// Bought by these owners, and kept free for them until then.
    sold: VecDeque<(NodeId, u64, Time)>,
    /// Bytes for sale that were last announced.
    told: u64,
}

#[derive(Debug, Default)]
struct Owner {
    connected: bool,
    heard: Time,
    bytes: u64,
    units: usize,
}

/// Which placement of the unit it was, and on whose word; its owner has said that it was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Placement {
    attempt: u32,
    sender: NodeId,
}

#[derive(Debug)]
struct Kept {
    /// The job's origin is told what is kept, and may drop it as the owner may.
    terms: KeepTerms,
    /// The oldest first.
    versions: Vec<(Placement, Stored)>,
}

#[derive(Debug)]
struct Stored {
    version: Version,
    parts: Vec<BlobRef>,
    ticket: u64,
    here: bool,
    /// When the owner last said of this placement that it is there.
    vouched: Time,
    /// Whether the sender is the owner, which relays the checkpoint and wants the answer.
    relayed: bool,
}

impl Stored {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len).fold(0, u64::saturating_add)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Tell,
    /// The space that was sold first is free again.
    Sold,
    /// Owners that were asked about a runner have not answered.
    Asked,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// A gateway is connected, or is this node.
    OwnerUp(NodeId),
    /// `buyer` has bought space for its checkpoints.
    Sold { buyer: NodeId, bytes: u64 },
    /// Answers [`Event::Fetch`].
    Answered { ticket: u64, result: Result<(), NotFetched> },
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Bring these here and keep them until the ticket is released.
    Fetch {
        ticket: u64,
        blobs: Vec<BlobRef>,
        from: NodeId,
    },
    Release {
        ticket: u64,
    },
    /// Bytes that can be sold now.
    Room(u64),
}

impl Protocol for Keeper {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Message { from, message: Message::ToKeeper(ToKeeper::Keep(keep)) } => {
                self.keep(from, keep, cx);
            }
            Input::Message { from, message: Message::ToKeeper(ToKeeper::Drop { units }) } => {
                units.into_iter().for_each(|unit| self.dropped(from, unit, cx));
            }
            Input::Message {
                from,
                message: Message::ToKeeper(ToKeeper::Granted { unit, runner, attempt, terms }),
            } => self.granted(from, (unit, runner, attempt), terms, cx),
            Input::Command(Command::OwnerUp(owner)) => self.owner_up(owner, cx),
            Input::Command(Command::Answered { ticket, result }) => self.answered(ticket, result, cx),
            Input::Command(Command::Sold { buyer, bytes }) => {
                self.sold.push_back((buyer, bytes, cx.now + SOLD));
                cx.set_timer_by(Timer::Sold, SOLD);
            }
            Input::Down(peer) => {
                if let Some(owner) = self.owners.get_mut(&peer).filter(|_| peer != cx.me) {
                    (owner.connected, owner.heard) = (false, cx.now);
                }
                self.asking.forget(peer);
            }
            // It was not connected.
            Input::Unreachable(_) => {}
            Input::Timer(Timer::Tell) => self.tell_all(cx),
            Input::Timer(Timer::Sold) => self.sold_is_free(cx),
            Input::Timer(Timer::Asked) => self.not_answered(cx),
            // The route gives a keeper nothing else.
            Input::Message { .. } | Input::Up(_) => {}
        }
        self.tell_room(cx);
    }

    fn check_invariants(&self) {
        let all = self.units.values().flat_map(|kept| &kept.versions);
        assert_eq!(self.bytes, all.map(|(_, stored)| stored.bytes()).sum::<u64>(), "bytes are counted");
        assert!(self.bytes <= self.config.limits.kept_bytes, "and bounded");
        assert!(self.sold.len() <= SALES, "sales are bounded, too");
        assert_eq!(self.bytes, self.owners.values().map(|owner| owner.bytes).sum::<u64>(), "by owner, too");
        for ((id, owner), kept) in &self.units {
            assert!(!kept.versions.is_empty(), "{id}: nothing is kept for nothing");
            assert!(self.owners.contains_key(owner), "{id}: its owner is known");
        }
        let counted = self.owners.values().map(|owner| owner.units).sum::<usize>();
        assert_eq!(self.units.len(), counted, "units are counted by owner");
        self.asking.check();
    }
}

impl Keeper {
    pub fn new(config: KeeperConfig) -> Keeper {
        Keeper {
            config,
            owners: LiteMap::new(),
            units: BTreeMap::new(),
            tickets: BTreeMap::new(),
            asking: asking::Asking::default(),
            next: 1,
            bytes: 0,
            sold: VecDeque::new(),
            told: 0,
        }
    }

    /// Units whose checkpoints are kept here, and bytes of them.
    pub fn load(&self) -> (usize, u64) {
        (self.units.len(), self.bytes)
    }

    /// Whether anything is kept for this owner, or of its jobs.
    pub fn keeps_for(&self, owner: NodeId) -> bool {
        self.owners.contains_key(&owner) || self.units.values().any(|kept| kept.terms.origin == owner)
    }

    fn owner_up(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        self.make_room_for(owner);
        if self.owners.len() >= OWNERS && !self.owners.contains_key(&owner) {
            return;
        }
        let known = self.owners.entry(owner).or_default();
        (known.connected, known.heard) = (true, cx.now);
        self.tell(owner, cx);
    }

    /// Says what is kept of a gateway's jobs, so that it can say what has ended meanwhile.
    fn tell(&self, origin: NodeId, cx: &mut Cx<'_, Self>) {
        let its = self.units.iter().filter(|(_, kept)| kept.terms.origin == origin);
        let mut units: Vec<UnitId> = its.map(|((unit, _), _)| *unit).collect();
        units.dedup();
        if !units.is_empty() {
            cx.send(origin, Message::ToOwner(ToOwner::Holding { units }));
        }
    }

    fn tell_all(&mut self, cx: &mut Cx<'_, Self>) {
        let silent = |owner: &Owner| !owner.connected && cx.now.since(owner.heard) >= SILENCE;
        let gone: Vec<NodeId> =
            self.owners.iter().filter(|(_, owner)| silent(owner)).map(|(id, _)| *id).collect();
        let units = self.units.keys().filter(|(_, owner)| gone.contains(owner));
        let units: Vec<Key> = units.copied().collect();
        units.into_iter().for_each(|key| self.forget(key, cx));
        for owner in &gone {
            self.owners.remove(owner);
        }
        let here: Vec<NodeId> =
            self.owners.iter().filter(|(_, owner)| owner.connected).map(|(id, _)| *id).collect();
        here.into_iter().for_each(|owner| self.tell(owner, cx));
        if !self.units.is_empty() {
            cx.set_timer(Timer::Tell, TELL);
        }
    }

    fn keep(&mut self, from: NodeId, keep: Keep, cx: &mut Cx<'_, Self>) {
        let Keep { unit, owner, version, ref parts, relayed, .. } = keep;
        let placement = Placement { attempt: version.attempt, sender: from };
        let kept = self.units.get(&(unit, owner));
        let mut of_placement = kept.iter().flat_map(|kept| &kept.versions).filter(|(of, _)| *of == placement);
        let vouched = self.vouched((unit, owner), placement);
        if let Some((_, stored)) = of_placement.find(|(_, stored)| stored.version == version)
            && stored.parts == *parts
        {
            return match stored.here {
                true => Self::answer(from, relayed, ToRunner::Kept { unit, version }, cx),
                false => Self::answer(from, relayed, ToRunner::Keeping { unit, version }, cx),
            };
        }
        if let Err(why) = self.check(from, &keep, cx.me) {
            let reason = why.to_string();
            return Self::answer(from, relayed, ToRunner::KeepRefused { unit, version, reason }, cx);
        }
        if from == owner {
            // In its own room: it says whose it is, and how large.
            let terms = KeepTerms { origin: keep.origin, part_bytes: u64::MAX };
            return self.take(from, keep, Some(terms), cx);
        }
        match vouched.is_some_and(|vouched| cx.now.since(vouched) < VOUCHED) {
            true => self.take(from, keep, None, cx),
            false => self.ask(from, keep, cx),
        }
    }

    /// When its owner last said of a placement that it is there; `None` if nothing is kept of it.
    fn vouched(&self, key: Key, placement: Placement) -> Option<Time> {
        let kept = self.units.get(&key)?;
        kept.versions.iter().filter(|(of, _)| *of == placement).map(|(_, stored)| stored.vouched).max()
    }

    /// Takes a checkpoint from whom its unit's owner named, or from that owner, on the terms that the owner has just
    /// named, or those that it named before.
    fn take(&mut self, from: NodeId, keep: Keep, terms: Option<KeepTerms>, cx: &mut Cx<'_, Self>) {
        let Keep { unit, owner, version, parts, relayed, .. } = keep;
        let (key, placement) = ((unit, owner), Placement { attempt: version.attempt, sender: from });
        let vouched = if terms.is_some() { cx.now } else { self.vouched(key, placement).unwrap_or_default() };
        let Some(terms) = terms.or_else(|| self.units.get(&key).map(|kept| kept.terms)) else { return };
        // Only the newest of those that its sender has not finished is of use, whatever it says how often it was
        // given the unit. Else checkpoints of no bytes would be counted by nothing.
        let stale = |(of, stored): &(Placement, Stored)| {
            of.sender == from && (!stored.here || (*of == placement && stored.version == version))
        };
        self.drop_where(key, stale, cx);
        let ticket = self.next;
        self.next += 1;
        self.tickets.insert(ticket, (key, placement));
        let stored = Stored { version, parts: parts.clone(), ticket, here: false, vouched, relayed };
        let bytes = stored.bytes();
        self.bytes += bytes;
        self.make_room_for(owner);
        let new = !self.units.contains_key(&key);
        let known = self.owners.entry(owner).or_default();
        known.bytes += bytes;
        known.units += usize::from(new);
        known.heard = cx.now;
        let kept = self.units.entry(key).or_insert(Kept { terms, versions: Vec::new() });
        kept.terms = terms;
        kept.versions.push((placement, stored));
        cx.set_timer_by(Timer::Tell, TELL);
        cx.emit(Event::Fetch { ticket, blobs: parts, from });
    }

    /// An owner that this node is not connected to is known as long as something is kept for it; another for
    /// which nothing is kept gives way to a new one.
    fn make_room_for(&mut self, owner: NodeId) {
        if self.owners.len() >= OWNERS
            && !self.owners.contains_key(&owner)
            && let Some(idle) = self.idle_owner()
        {
            self.owners.remove(&idle);
        }
    }

    fn idle_owner(&self) -> Option<NodeId> {
        self.owners.iter().find(|(_, known)| !known.connected && known.units == 0).map(|(id, _)| *id)
    }

    /// The units' owner, or their origin, needs these no more.
    fn dropped(&mut self, from: NodeId, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let all = (unit, NodeId([0; 32]))..=(unit, NodeId([255; 32]));
        let its = self.units.range(all).take(OWNERS_OF_UNIT).filter(|(_, kept)| kept.terms.origin == from);
        let mut keys: Vec<Key> = its.map(|(key, _)| *key).collect();
        keys.push((unit, from));
        keys.into_iter().for_each(|key| self.forget(key, cx));
    }

    fn answered(&mut self, ticket: u64, result: Result<(), NotFetched>, cx: &mut Cx<'_, Self>) {
        let Some((key, placement)) = self.tickets.get(&ticket).copied() else { return };
        let Some(kept) = self.units.get_mut(&key) else { return };
        let Some((_, stored)) = kept.versions.iter_mut().find(|(_, stored)| stored.ticket == ticket) else {
            return;
        };
        let (unit, version, relayed) = (key.0, stored.version, stored.relayed);
        let reason = match result {
            Ok(()) => {
                stored.here = true;
                self.trim(key, placement, cx);
                if self.tickets.contains_key(&ticket) {
                    return Self::answer(placement.sender, relayed, ToRunner::Kept { unit, version }, cx);
                }
                "it keeps those of later placements".into()
            }
            Err(error) => {
                self.drop_where(key, |(_, stored)| stored.ticket == ticket, cx);
                format!("it could not get it: {error}")
            }
        };
        Self::answer(placement.sender, relayed, ToRunner::KeepRefused { unit, version, reason }, cx);
    }

    /// Drops all but the two newest versions of the placement, and placements before the latest three. A version on
    /// its way is not yet of use, and pushes nothing out.
    fn trim(&mut self, key: Key, placement: Placement, cx: &mut Cx<'_, Self>) {
        let Some(kept) = self.units.get(&key) else { return };
        let here = || kept.versions.iter().filter(|(_, stored)| stored.here);
        let mut versions: Vec<Version> =
            here().filter(|(of, _)| *of == placement).map(|(_, stored)| stored.version).collect();
        versions.sort_unstable();
        let oldest = versions.iter().rev().nth(VERSIONS - 1).copied();
        // Among placements of one attempt the one that was heard of last counts as later.
        let mut placements: Vec<Placement> = Vec::new();
        for (of, _) in here().rev() {
            if !placements.contains(of) {
                placements.push(*of);
            }
        }
        placements.sort_by_key(|of| std::cmp::Reverse(of.attempt));
        // One a sender, whatever it says how often it was given the unit.
        let mut senders = Vec::new();
        placements.retain(|of| !senders.contains(&of.sender) && (senders.push(of.sender), true).1);
        placements.truncate(PLACEMENTS);
        let spare = |(of, stored): &(Placement, Stored)| {
            let old = *of == placement && oldest.is_some_and(|oldest| stored.version < oldest);
            stored.here && (old || !placements.contains(of))
        };
        self.drop_where(key, spare, cx);
    }

    fn forget(&mut self, key: Key, cx: &mut Cx<'_, Self>) {
        self.drop_where(key, |_| true, cx);
    }

    fn drop_where(&mut self, key: Key, spare: impl Fn(&(Placement, Stored)) -> bool, cx: &mut Cx<'_, Self>) {
        let Some(kept) = self.units.get_mut(&key) else { return };
        let (gone, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut kept.versions).into_iter().partition(|entry| spare(entry));
        kept.versions = left;
        let ended = kept.versions.is_empty();
        let bytes = gone.iter().map(|(_, stored)| stored.bytes()).sum::<u64>();
        if ended {
            self.units.remove(&key);
        }
        self.bytes -= bytes;
        if let Some(owner) = self.owners.get_mut(&key.1) {
            owner.bytes -= bytes;
            owner.units -= usize::from(ended);
        }
        for (_, stored) in gone {
            self.tickets.remove(&stored.ticket);
            cx.emit(Event::Release { ticket: stored.ticket });
        }
    }

    /// A runner hears how it goes; an owner that passes something on, only that it is done.
    fn answer(to: NodeId, relayed: bool, answer: ToRunner, cx: &mut Cx<'_, Self>) {
        match answer {
            ToRunner::Kept { unit, version } if relayed => {
                cx.send(to, Message::ToOwner(ToOwner::Kept { unit, version }));
            }
            _ if relayed => {}
            answer => cx.send(to, Message::ToRunner(answer)),
        }
    }
}
