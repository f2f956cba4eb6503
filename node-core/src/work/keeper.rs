//! The keeper: stores checkpoints of units that run elsewhere, for their owners.
//!
//! It is told of a checkpoint by the unit's runner, pulls the parts, and says so. Of each unit it
//! has the two newest of a placement, whole, and those of three placements at most: a runner that was cut
//! off must not push out what its successor goes on from. Nothing of this is written down: after
//! a restart the blobs are still there to be asked for, and the next checkpoint pins them again.

use crate::content::BlobRef;
use crate::ids::{NodeId, UnitId};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use crate::work::KeeperConfig;
use crate::work::message::{Keep, Message, ToKeeper, ToOwner, ToRunner};
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

/// What is for sale is told in such parts of all that is given, so that not each checkpoint is news. Our
/// choice: by default a task's usual memory.
const PARTS_SOLD: u64 = 64;

/// Owners known at a time, connected or not; checkpoints of more are refused.
const OWNERS: usize = 256;

#[derive(Debug)]
pub struct Keeper {
    config: KeeperConfig,
    owners: LiteMap<NodeId, Owner>,
    units: BTreeMap<UnitId, Kept>,
    tickets: BTreeMap<u64, (UnitId, Line)>,
    next: u64,
    /// Of all that is kept or on its way.
    bytes: u64,
    /// Bought by these owners, and kept free for them until then.
    sold: VecDeque<(NodeId, u64, Time)>,
    /// What was last told to be for sale.
    told: u64,
}

#[derive(Debug, Default)]
struct Owner {
    connected: bool,
    heard: Time,
    bytes: u64,
}

/// Which placement of the unit it was, and on whose word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    attempt: u32,
    sender: NodeId,
}

#[derive(Debug)]
struct Kept {
    owner: NodeId,
    /// The oldest first.
    versions: Vec<(Line, Stored)>,
}

#[derive(Debug)]
struct Stored {
    version: Version,
    parts: Vec<BlobRef>,
    ticket: u64,
    here: bool,
    /// Whom to answer, and as what.
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
    /// What was sold first is free again.
    Sold,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// A gateway is connected, or is this node.
    OwnerUp(NodeId),
    /// This owner has bought so many bytes.
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
    /// So many bytes can be sold.
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
                for unit in units {
                    if self.units.get(&unit).is_some_and(|kept| kept.owner == from) {
                        self.forget(unit, cx);
                    }
                }
            }
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
            }
            Input::Timer(Timer::Tell) => self.tell_all(cx),
            Input::Timer(Timer::Sold) => self.sold_is_free(cx),
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
        for (id, kept) in &self.units {
            assert!(!kept.versions.is_empty(), "{id}: nothing is kept for nothing");
        }
    }
}

impl Keeper {
    pub fn new(config: KeeperConfig) -> Keeper {
        Keeper {
            config,
            owners: LiteMap::new(),
            units: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next: 1,
            bytes: 0,
            sold: VecDeque::new(),
            told: 0,
        }
    }

    /// What is taken with so many bytes of this owner's: of each owner what is kept for it, or kept free.
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
        let given = self.config.limits.kept_bytes;
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
        if self.owners.len() >= OWNERS && !self.owners.contains_key(&owner) {
            return;
        }
        let known = self.owners.entry(owner).or_default();
        (known.connected, known.heard) = (true, cx.now);
        self.tell(owner, cx);
    }

    /// Says what is kept for an owner, so that it can say what has ended meanwhile.
    fn tell(&self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        let its = self.units.iter().filter(|(_, kept)| kept.owner == owner);
        let units: Vec<UnitId> = its.map(|(id, _)| *id).collect();
        if !units.is_empty() {
            cx.send(owner, Message::ToOwner(ToOwner::Holding { units }));
        }
    }

    fn tell_all(&mut self, cx: &mut Cx<'_, Self>) {
        let silent = |owner: &Owner| !owner.connected && cx.now.since(owner.heard) >= SILENCE;
        let gone: Vec<NodeId> =
            self.owners.iter().filter(|(_, owner)| silent(owner)).map(|(id, _)| *id).collect();
        let units = self.units.iter().filter(|(_, kept)| gone.contains(&kept.owner));
        let units: Vec<UnitId> = units.map(|(id, _)| *id).collect();
        units.into_iter().for_each(|unit| self.forget(unit, cx));
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
        let Keep { unit, owner, version, parts, relayed } = keep;
        let line = Line { attempt: version.attempt, sender: from };
        let known = self.units.get_mut(&unit).and_then(|kept| {
            let same = |(of, stored): &&mut (Line, Stored)| *of == line && stored.version == version;
            kept.versions.iter_mut().find(same).map(|(_, stored)| stored)
        });
        if let Some(stored) = known
            && stored.parts == parts
        {
            return match stored.here {
                true => Self::answer(from, relayed, ToRunner::Kept { unit, version }, cx),
                false => Self::answer(from, relayed, ToRunner::Keeping { unit, version }, cx),
            };
        }
        self.hear_of(owner, cx);
        if let Err(reason) = self.check(from, unit, owner, &parts, relayed) {
            return Self::answer(from, relayed, ToRunner::KeepRefused { unit, version, reason }, cx);
        }
        // Only the newest of those that its sender has not finished is of use, whatever it says how often it was
        // given the unit. Else checkpoints of no bytes would be counted by nothing.
        let stale = |(of, stored): &(Line, Stored)| {
            of.sender == from && (!stored.here || (*of == line && stored.version == version))
        };
        self.drop_where(unit, stale, cx);
        let ticket = self.next;
        self.next += 1;
        self.tickets.insert(ticket, (unit, line));
        let stored = Stored { version, parts: parts.clone(), ticket, here: false, relayed };
        let bytes = stored.bytes();
        self.bytes += bytes;
        if let Some(owner) = self.owners.get_mut(&owner) {
            owner.bytes += bytes;
        }
        let kept = self.units.entry(unit).or_insert(Kept { owner, versions: Vec::new() });
        kept.versions.push((line, stored));
        cx.set_timer_by(Timer::Tell, TELL);
        cx.emit(Event::Fetch { ticket, blobs: parts, from });
    }

    /// An owner that this node is not connected to: the home of units on the ring. Whom nothing is kept
    /// for gives way.
    fn hear_of(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        if self.owners.len() >= OWNERS && !self.owners.contains_key(&owner) {
            let idle = self.owners.iter().find(|(_, known)| !known.connected && known.bytes == 0);
            let Some(idle) = idle.map(|(id, _)| *id) else { return };
            self.owners.remove(&idle);
        }
        self.owners.entry(owner).or_default().heard = cx.now;
    }

    fn check(
        &self,
        from: NodeId,
        unit: UnitId,
        owner: NodeId,
        parts: &[BlobRef],
        relayed: bool,
    ) -> Result<(), String> {
        let limits = &self.config.limits;
        let Some(known) = self.owners.get(&owner) else {
            return Err(format!("it does not know the unit's owner {}", owner.short()));
        };
        if parts.is_empty() || parts.len() > PARTS || (relayed && from != owner) {
            return Err("this is no checkpoint".into());
        }
        match self.units.get(&unit) {
            Some(kept) if kept.owner != owner => return Err("another owner has a unit of this name".into()),
            None if self.units.len() >= limits.kept_units => {
                return Err(format!("it keeps checkpoints of {} units, its bound", limits.kept_units));
            }
            _ => {}
        }
        let bytes = parts.iter().map(|part| part.len).fold(0, u64::saturating_add);
        let full = |has: u64, bound: u64| has.checked_add(bytes).is_none_or(|sum| sum > bound);
        let taken = self.taken(Some(owner), known.bytes);
        if full(taken, limits.kept_bytes) {
            return Err(format!(
                "it keeps {taken} bytes of checkpoints and has room for {}",
                limits.kept_bytes
            ));
        }
        let bought = self.sold.iter().filter(|(buyer, ..)| *buyer == owner).map(|(_, bytes, _)| *bytes);
        let bought = bought.fold(0, u64::saturating_add);
        if full(known.bytes, limits.kept_bytes_per_owner.max(bought)) {
            return Err(format!(
                "it keeps {} bytes for this owner and gives each owner {}",
                known.bytes, limits.kept_bytes_per_owner
            ));
        }
        Ok(())
    }

    fn answered(&mut self, ticket: u64, result: Result<(), String>, cx: &mut Cx<'_, Self>) {
        let Some((unit, line)) = self.tickets.get(&ticket).copied() else { return };
        let Some(kept) = self.units.get_mut(&unit) else { return };
        let Some((_, stored)) = kept.versions.iter_mut().find(|(_, stored)| stored.ticket == ticket) else {
            return;
        };
        let (version, relayed) = (stored.version, stored.relayed);
        match result {
            Ok(()) => {
                stored.here = true;
                self.trim(unit, line, cx);
                Self::answer(line.sender, relayed, ToRunner::Kept { unit, version }, cx);
            }
            Err(error) => {
                self.drop_where(unit, |(_, stored)| stored.ticket == ticket, cx);
                let reason = format!("it could not get it: {error}");
                Self::answer(line.sender, relayed, ToRunner::KeepRefused { unit, version, reason }, cx);
            }
        }
    }

    /// Of a line the two newest stay, and of the lines those of the latest placements.
    fn trim(&mut self, unit: UnitId, line: Line, cx: &mut Cx<'_, Self>) {
        let Some(kept) = self.units.get(&unit) else { return };
        let mut versions: Vec<Version> =
            kept.versions.iter().filter(|(of, s)| *of == line && s.here).map(|(_, s)| s.version).collect();
        versions.sort_unstable();
        let oldest = versions.iter().rev().nth(VERSIONS - 1).copied();
        // Of lines of one attempt the one that was heard of last counts as later.
        let mut lines: Vec<Line> = Vec::new();
        for (of, _) in kept.versions.iter().rev() {
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
            let old = *of == line && stored.here && oldest.is_some_and(|oldest| stored.version < oldest);
            old || !lines.contains(of)
        };
        self.drop_where(unit, spare, cx);
    }

    fn forget(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        self.drop_where(unit, |_| true, cx);
    }

    fn drop_where(&mut self, unit: UnitId, spare: impl Fn(&(Line, Stored)) -> bool, cx: &mut Cx<'_, Self>) {
        let Some(kept) = self.units.get_mut(&unit) else { return };
        let (gone, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut kept.versions).into_iter().partition(|entry| spare(entry));
        kept.versions = left;
        let owner = kept.owner;
        if kept.versions.is_empty() {
            self.units.remove(&unit);
        }
        for (_, stored) in gone {
            self.bytes -= stored.bytes();
            if let Some(owner) = self.owners.get_mut(&owner) {
                owner.bytes -= stored.bytes();
            }
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
