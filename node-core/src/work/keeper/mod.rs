//! The keeper: stores checkpoints of units that run elsewhere, for their owners.
//!
//! It is told of a checkpoint by the unit's runner, asks the unit's owner once a minute whether that one runs it
//! (`asking.rs`), pulls the parts, and says so. Of each unit it has the two newest of a placement, whole, and
//! those of three placements at most: a runner that was cut off must not push out what its successor goes on
//! from. Each owner has units of its own, also of the same name: nobody takes another's place. Nothing of this
//! is written down: after a restart the blobs are still there to be asked for, and the next checkpoint pins them
//! again.

mod asking;

use crate::content::BlobRef;
use crate::ids::{NodeId, UnitId};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use crate::work::KeeperConfig;
use crate::work::message::{self, Keep, Message, ToKeeper, ToOwner, ToRunner};
use litemap::LiteMap;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::progress::Version;

/// Complete versions of a line. Our choice: the newest, and the one before it in case that nobody can go on
/// from the newest.
const VERSIONS: usize = 2;

/// Placements of a unit whose checkpoints are kept beside each other. Our choice: the one that was
/// lost, the one that goes on from it, and one that is just beginning.
const LINES: usize = 3;

/// Parts of a checkpoint: itself and its base.
const PARTS: usize = 2;

/// Between two lists of what is kept for an owner. Our choice: a lost word costs ten minutes of
/// space.
const TELL: Duration = Duration::from_secs(600);

/// After this silence an owner has given up what is kept for it. Our choice: a gateway is mended
/// within a day.
const SILENCE: Duration = Duration::from_secs(24 * 3600);

/// How long space that was sold is kept free for its buyer. Our choice: four of the usual intervals. What
/// has come by then stays, and is what is paid for; what has not is seldom needed.
const SOLD: Duration = Duration::from_secs(120);

/// Sales at a time for which space is kept free; meanwhile no more is for sale. Our choice: of the smallest
/// size all that a node gives by default would be 16 times as many.
const SALES: usize = 1024;

/// The space for sale is announced in such parts of all that is given, so that not each checkpoint is news. Our
/// choice: by default a task's usual memory.
const PARTS_SOLD: u64 = 64;

/// The part of its room that a gateway keeps for units of its own. Our choice: a fourth; others have more keepers.
const OWN: u64 = 4;

/// Owners known at a time, connected or not; checkpoints of more are refused.
const OWNERS: usize = 256;

/// So long an owner's word about a placement holds. Our choice: a runner that was cut off keeps nothing for longer,
/// and a question a minute costs nothing.
const VOUCHED: Duration = Duration::from_secs(60);

/// Owners of one unit that are looked through for what its home drops. Our choice: more than a unit on the ring
/// has in a day.
const OWNERS_OF_UNIT: usize = 16;

/// A unit, and the owner for which it is kept.
type Key = (UnitId, NodeId);

#[derive(Debug)]
pub struct Keeper {
    config: KeeperConfig,
    owners: LiteMap<NodeId, Owner>,
    units: BTreeMap<Key, Kept>,
    tickets: BTreeMap<u64, (Key, Line)>,
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
struct Line {
    attempt: u32,
    sender: NodeId,
}

#[derive(Debug)]
struct Kept {
    /// Origin of the job: it is told what is kept, and may drop it as the owner may.
    home: NodeId,
    part_bytes: u64,
    /// The oldest first.
    versions: Vec<(Line, Stored)>,
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
    Answered { ticket: u64, result: Result<(), String> },
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
                message: Message::ToKeeper(ToKeeper::Granted { unit, runner, attempt, granted }),
            } => self.granted(from, (unit, runner, attempt), granted, cx),
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

    /// Bytes that it gives to this owner and others together. What this node owns itself finds room in any case.
    fn given_to(&self, owner: Option<NodeId>, me: NodeId) -> u64 {
        let given = self.config.limits.kept_bytes;
        let is_owner = self.owners.get(&me).is_some_and(|own| own.connected);
        if is_owner && owner != Some(me) { given - given / OWN } else { given }
    }

    /// Bytes that are taken if this owner has `bytes`. Each other owner counts with the larger of two numbers:
    /// bytes kept for it, and bytes kept free for it.
    fn taken(&self, owner: Option<NodeId>, bytes: u64) -> u64 {
        let mut free: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (buyer, bytes, _) in self.sold.iter().filter(|(buyer, ..)| Some(*buyer) != owner) {
            let its = free.entry(*buyer).or_default();
            *its = its.saturating_add(*bytes);
        }
        let had = |node: &NodeId| self.owners.get(node).map_or(0, |owner| owner.bytes);
        let free = free.iter().map(|(buyer, bytes)| bytes.saturating_sub(had(buyer)));
        let others = self.bytes - owner.map_or(0, |owner| had(&owner));
        free.fold(others.saturating_add(bytes), u64::saturating_add)
    }

    fn sold_is_free(&mut self, cx: &mut Cx<'_, Self>) {
        while self.sold.front().is_some_and(|(.., until)| *until <= cx.now) {
            self.sold.pop_front();
        }
        if let Some((.., until)) = self.sold.front() {
            cx.set_timer(Timer::Sold, until.since(cx.now));
        }
    }

    /// Says what can be sold, when that has changed.
    fn tell_room(&mut self, cx: &mut Cx<'_, Self>) {
        let given = self.given_to(None, cx.me);
        let part = (given / PARTS_SOLD).max(1);
        let can = self.sold.len() < SALES && self.units.len() < self.config.limits.kept_units;
        let room = match can {
            true => given.saturating_sub(self.taken(None, 0)) / part * part,
            false => 0,
        };
        if std::mem::replace(&mut self.told, room) != room {
            cx.emit(Event::Room(room));
        }
    }

    /// Units whose checkpoints are kept here, and bytes of them.
    pub fn load(&self) -> (usize, u64) {
        (self.units.len(), self.bytes)
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
    fn tell(&self, home: NodeId, cx: &mut Cx<'_, Self>) {
        let its = self.units.iter().filter(|(_, kept)| kept.home == home);
        let mut units: Vec<UnitId> = its.map(|((unit, _), _)| *unit).collect();
        units.dedup();
        if !units.is_empty() {
            cx.send(home, Message::ToOwner(ToOwner::Holding { units }));
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
        let line = Line { attempt: version.attempt, sender: from };
        let kept = self.units.get(&(unit, owner));
        let mut of_line = kept.iter().flat_map(|kept| &kept.versions).filter(|(of, _)| *of == line);
        let vouched = self.vouched((unit, owner), line);
        if let Some((_, stored)) = of_line.find(|(_, stored)| stored.version == version)
            && stored.parts == *parts
        {
            return match stored.here {
                true => Self::answer(from, relayed, ToRunner::Kept { unit, version }, cx),
                false => Self::answer(from, relayed, ToRunner::Keeping { unit, version }, cx),
            };
        }
        if let Err(reason) = self.check(from, &keep, cx.me) {
            return Self::answer(from, relayed, ToRunner::KeepRefused { unit, version, reason }, cx);
        }
        if from == owner {
            // In its own room: it says whose it is, and how large.
            let how = message::Kept { home: keep.home, part_bytes: u64::MAX };
            return self.take(from, keep, Some(how), cx);
        }
        match vouched.is_some_and(|vouched| cx.now.since(vouched) < VOUCHED) {
            true => self.take(from, keep, None, cx),
            false => self.ask(from, keep, cx),
        }
    }

    /// When its owner last said of a placement that it is there; `None` if nothing is kept of it.
    fn vouched(&self, key: Key, line: Line) -> Option<Time> {
        let kept = self.units.get(&key)?;
        kept.versions.iter().filter(|(of, _)| *of == line).map(|(_, stored)| stored.vouched).max()
    }

    /// Takes a checkpoint from whom its unit's owner named, or from that owner. `how`: as the owner has just said;
    /// else as it said before.
    fn take(&mut self, from: NodeId, keep: Keep, how: Option<message::Kept>, cx: &mut Cx<'_, Self>) {
        let Keep { unit, owner, version, parts, relayed, .. } = keep;
        let (key, line) = ((unit, owner), Line { attempt: version.attempt, sender: from });
        let before =
            self.units.get(&key).map(|kept| message::Kept { home: kept.home, part_bytes: kept.part_bytes });
        let Some(message::Kept { home, part_bytes }) = how.or(before) else { return };
        let vouched = if how.is_some() { cx.now } else { self.vouched(key, line).unwrap_or_default() };
        // Only the newest of those that its sender has not finished is of use, whatever it says how often it was
        // given the unit. Else checkpoints of no bytes would be counted by nothing.
        let stale = |(of, stored): &(Line, Stored)| {
            of.sender == from && (!stored.here || (*of == line && stored.version == version))
        };
        self.drop_where(key, stale, cx);
        let ticket = self.next;
        self.next += 1;
        self.tickets.insert(ticket, (key, line));
        let stored = Stored { version, parts: parts.clone(), ticket, here: false, vouched, relayed };
        let bytes = stored.bytes();
        self.bytes += bytes;
        self.make_room_for(owner);
        let new = !self.units.contains_key(&key);
        let known = self.owners.entry(owner).or_default();
        known.bytes += bytes;
        known.units += usize::from(new);
        known.heard = cx.now;
        let kept = self.units.entry(key).or_insert(Kept { home, part_bytes, versions: Vec::new() });
        (kept.home, kept.part_bytes) = (home, part_bytes);
        kept.versions.push((line, stored));
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

    /// The units' owner, or their home, needs these no more.
    fn dropped(&mut self, from: NodeId, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let all = (unit, NodeId([0; 32]))..=(unit, NodeId([255; 32]));
        let its = self.units.range(all).take(OWNERS_OF_UNIT).filter(|(_, kept)| kept.home == from);
        let mut keys: Vec<Key> = its.map(|(key, _)| *key).collect();
        keys.push((unit, from));
        keys.into_iter().for_each(|key| self.forget(key, cx));
    }

    fn check(&self, from: NodeId, keep: &Keep, me: NodeId) -> Result<(), String> {
        let Keep { unit, owner, parts, relayed, .. } = keep;
        let limits = &self.config.limits;
        let twice = parts.iter().enumerate().any(|(at, part)| parts[..at].contains(part));
        if parts.is_empty() || parts.len() > PARTS || twice || (*relayed && from != *owner) {
            return Err("this is no checkpoint".into());
        }
        let nobody = Owner::default();
        let known = self.owners.get(owner);
        if known.is_none() && self.owners.len() >= OWNERS && self.idle_owner().is_none() {
            return Err(format!("it keeps checkpoints for {OWNERS} owners, its bound"));
        }
        let known = known.unwrap_or(&nobody);
        if !self.units.contains_key(&(*unit, *owner)) {
            self.check_units(known.units, *owner == me)?;
        }
        let bound = self.units.get(&(*unit, *owner)).map_or(u64::MAX, |kept| kept.part_bytes);
        if from != *owner && parts.iter().any(|part| part.len > bound) {
            return Err(format!("it is larger than {bound} bytes, which the unit's owner allows"));
        }
        let bytes = parts.iter().map(|part| part.len).fold(0, u64::saturating_add);
        let full = |has: u64, bound: u64| has.checked_add(bytes).is_none_or(|sum| sum > bound);
        let taken = self.taken(Some(*owner), known.bytes);
        let given = self.given_to(Some(*owner), me);
        if full(taken, given) {
            return Err(format!("it keeps {taken} bytes of checkpoints and has room for {given}"));
        }
        let bought = self.sold.iter().filter(|(buyer, ..)| buyer == owner).map(|(_, bytes, _)| *bytes);
        let bought = bought.fold(0, u64::saturating_add);
        if full(known.bytes, limits.kept_bytes_per_owner.max(bought)) {
            return Err(format!(
                "it keeps {} bytes for this owner and gives each owner {}",
                known.bytes, limits.kept_bytes_per_owner
            ));
        }
        Ok(())
    }

    /// Whether one more unit is kept for an owner that has so many. Others leave room for what this node owns
    /// itself, and one leaves room for the next.
    fn check_units(&self, its: usize, own: bool) -> Result<(), String> {
        let most = self.config.limits.kept_units;
        if !own && self.units.len() >= most {
            return Err(format!("it keeps checkpoints of {most} units, its bound"));
        }
        let most = if own { most } else { most.div_ceil(2) };
        if its >= most {
            return Err(format!("it keeps checkpoints of {most} units for one owner, its bound"));
        }
        Ok(())
    }

    fn answered(&mut self, ticket: u64, result: Result<(), String>, cx: &mut Cx<'_, Self>) {
        let Some((key, line)) = self.tickets.get(&ticket).copied() else { return };
        let Some(kept) = self.units.get_mut(&key) else { return };
        let Some((_, stored)) = kept.versions.iter_mut().find(|(_, stored)| stored.ticket == ticket) else {
            return;
        };
        let (unit, version, relayed) = (key.0, stored.version, stored.relayed);
        let reason = match result {
            Ok(()) => {
                stored.here = true;
                self.trim(key, line, cx);
                if self.tickets.contains_key(&ticket) {
                    return Self::answer(line.sender, relayed, ToRunner::Kept { unit, version }, cx);
                }
                "it keeps those of later placements".into()
            }
            Err(error) => {
                self.drop_where(key, |(_, stored)| stored.ticket == ticket, cx);
                format!("it could not get it: {error}")
            }
        };
        Self::answer(line.sender, relayed, ToRunner::KeepRefused { unit, version, reason }, cx);
    }

    /// Drops all but the two newest versions of the line, and all lines but those of the latest placements. A
    /// version on its way is not yet of use, and pushes nothing out.
    fn trim(&mut self, key: Key, line: Line, cx: &mut Cx<'_, Self>) {
        let Some(kept) = self.units.get(&key) else { return };
        let here = || kept.versions.iter().filter(|(_, stored)| stored.here);
        let mut versions: Vec<Version> =
            here().filter(|(of, _)| *of == line).map(|(_, stored)| stored.version).collect();
        versions.sort_unstable();
        let oldest = versions.iter().rev().nth(VERSIONS - 1).copied();
        // Among lines of one attempt the one that was heard of last counts as later.
        let mut lines: Vec<Line> = Vec::new();
        for (of, _) in here().rev() {
            if !lines.contains(of) {
                lines.push(*of);
            }
        }
        lines.sort_by_key(|of| std::cmp::Reverse(of.attempt));
        // One a sender, whatever it says how often it was given the unit.
        let mut senders = Vec::new();
        lines.retain(|of| !senders.contains(&of.sender) && (senders.push(of.sender), true).1);
        lines.truncate(LINES);
        let spare = |(of, stored): &(Line, Stored)| {
            let old = *of == line && oldest.is_some_and(|oldest| stored.version < oldest);
            stored.here && (old || !lines.contains(of))
        };
        self.drop_where(key, spare, cx);
    }

    fn forget(&mut self, key: Key, cx: &mut Cx<'_, Self>) {
        self.drop_where(key, |_| true, cx);
    }

    fn drop_where(&mut self, key: Key, spare: impl Fn(&(Line, Stored)) -> bool, cx: &mut Cx<'_, Self>) {
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
