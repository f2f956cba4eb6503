//! The root group: at most 2k members and no parent. One of them, the coordinator, writes it.
//!
//! Our choice: who loses the coordinator takes over after a wait by its rank, without a vote.
//! Two that believe they are it do no harm, since nobody follows a writer against its own
//! knowledge: the higher term wins as soon as they meet, and who is missing in it joins again.
//! A vote would make the group wait while half of all nodes are dying, and that is when it is
//! needed.

use super::group::{Group, Member};
use super::message::{Message, Record, Timer};
use super::{Contact, Link, Range, Root, Tcx, Tree};
use crate::address::Key;
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// More terms than that have not passed unheard: there is at most one a second.
pub(super) const TERMS_MAX: u64 = 1 << 20;

/// Until the first in rank takes over. Our choice: a lost connection may come back at once.
const TAKE_OVER: Duration = Duration::from_secs(1);

impl Tree {
    pub(super) fn to_record(&self) -> Option<Record> {
        let root = self.root()?;
        Some(Record {
            term: root.term,
            epoch: root.group.epoch,
            level: self.level,
            writer: root.writer,
            members: root.group.members.iter().map(|m| (m.contact, m.lo)).collect(),
            promoted: root.promoted,
        })
    }

    /// Whether a record can be one at all.
    pub(super) fn acceptable(&self, record: &Record) -> bool {
        let members = &record.members;
        let here = self.me.is_some_and(|me| members.iter().any(|(c, _)| c.id == me.id));
        let ordered = members.windows(2).all(|w| w[0].0.key() < w[1].0.key());
        let bounded = record.level == 0
            || members.windows(2).all(|w| w[0].0.key() < w[1].1 && w[1].1 <= w[1].0.key())
                && members.first().is_some_and(|(_, lo)| *lo == Key::FIRST);
        // The next coordinator has to be able to count on from these numbers.
        let countable = record.term < u64::MAX / 2 && record.epoch < u64::MAX / 2;
        here && ordered
            && bounded
            && countable
            && members.len() <= self.config.members_max()
            && members.iter().any(|(c, _)| c.id == record.writer)
    }

    /// Somebody has come, as the record says already. While leaves come one after the other to a
    /// root group of leaves, they are told in one, or a slow line has nothing else to carry than
    /// how it grows.
    pub(super) fn root_grew(&mut self, cx: &mut Tcx<'_>) {
        let members = self.root().map_or(0, |r| r.group.members.len()) as u32;
        if self.level > 0 || members <= 2 {
            return self.tell_root(cx);
        }
        self.root_changed(cx);
        cx.set_timer_by(Timer::Record, self.config.tell * members / 8);
    }

    /// Numbers what this coordinator has changed, and tells all members.
    pub(super) fn root_written(&mut self, cx: &mut Tcx<'_>) {
        let epoch = self.next_epoch(cx.now);
        if let Some(root) = self.root_mut().filter(|r| r.writer == cx.me) {
            root.group.epoch = epoch;
            self.tell_root(cx);
        }
    }

    pub(super) fn tell_root(&mut self, cx: &mut Tcx<'_>) {
        cx.cancel_timer(Timer::Record);
        let Some(record) = self.to_record().filter(|r| r.writer == cx.me) else { return };
        for (member, _) in &record.members {
            if member.id != cx.me {
                self.send(*member, Message::Root(Box::new(record.clone())), cx);
            }
        }
        self.root_changed(cx);
    }

    /// Adapts range, children and timers to a new record of the root group.
    fn root_changed(&mut self, cx: &mut Tcx<'_>) {
        self.changed = true;
        let range = self.root().and_then(|r| r.group.range_of_id(cx.me, &Range::ALL));
        let level = self.level;
        if level > 0 {
            self.set_range(range, cx);
            self.beside_changed(cx);
            self.upper_changed(cx);
        }
        cx.set_timer_by(Timer::Balance, self.config.balance);
        self.reach_peers(cx);
        let Some(root) = self.root() else { return };
        let promoted = root.promoted;
        let coordinates = root.writer == cx.me;
        if coordinates {
            cx.set_timer_by(Timer::Probe, self.config.probe / 2);
        }
        if let Some(promoted) = promoted
            && self.asking.as_ref().is_none_or(|a| a.hint != Some(promoted))
            && promoted.id != cx.me
        {
            self.seek(level, None, Some(promoted), cx);
        }
    }

    /// Becomes a member as the record says; it has been checked.
    pub(super) fn enter_root(&mut self, record: Record, cx: &mut Tcx<'_>) {
        let now = cx.now;
        let mut earlier = Vec::new();
        let mut missing: Vec<(NodeId, Option<Time>)> = Vec::new();
        if let Link::Root(old) = &mut self.link {
            earlier = std::mem::take(&mut old.earlier);
            missing = old.group.members.iter().map(|m| (m.id(), m.missing)).collect();
        }
        let members = record.members.iter().map(|(contact, lo)| {
            let mut member = Member::new(*contact, *lo, record.epoch, now);
            member.missing = missing.iter().find(|(id, _)| *id == contact.id).and_then(|(_, since)| *since);
            member
        });
        let group = Group { epoch: record.epoch, leaves: record.level == 0, members: members.collect() };
        self.link = Link::Root(Box::new(Root {
            term: record.term,
            writer: record.writer,
            promoted: record.promoted,
            group,
            nonce: 0,
            earlier,
            stays: Time::ZERO,
            claim: None,
            successor_root: None,
        }));
        if record.level == 0 {
            self.range = None;
        }
        self.clock = self.clock.max(record.epoch);
        self.near = Vec::new();
        self.upper.ancestors = Vec::new();
        self.upper.parent_siblings = Vec::new();
        self.upper.group = Range::ALL;
        self.root_changed(cx);
    }

    pub(super) fn record(&mut self, from: NodeId, record: Record, cx: &mut Tcx<'_>) {
        let from_parent = self.parent().is_some_and(|f| f.id == from);
        if record.writer != from && !from_parent {
            return self.held(from, record, cx);
        }
        let Some(mine) = self.root() else {
            // The parent was a lone root and gives way to its children, or an orphan is found.
            let orphan = !self.placed() && self.freed.is_none();
            if record.level == self.level && self.acceptable(&record) && (from_parent || orphan) {
                self.asking = None;
                self.link = Link::None;
                self.enter_root(record, cx);
                self.arm_refresh(cx);
            } else if self.placed()
                && (record.level == self.level
                    || self.asking.as_ref().is_none_or(|a| a.level != record.level))
            {
                // A place that this node has left. Who asks for one may yet be welcomed to it.
                cx.send(from, Message::Leave { epoch: record.epoch, root: true });
            }
            return;
        };
        // The higher term wins; with equal terms the lower id, and among one writer's records the later one.
        let rank = (mine.term, std::cmp::Reverse(mine.writer), mine.group.epoch);
        if (record.term, std::cmp::Reverse(record.writer), record.epoch) <= rank {
            return self.stands_by(from);
        }
        if record.level != self.level {
            // A place that this node has left without the coordinator's knowing.
            cx.send(from, Message::Leave { epoch: record.epoch, root: true });
            return;
        }
        if record.term > mine.term.saturating_add(TERMS_MAX) {
            return self.fault(from, "counts terms that cannot have been", cx);
        }
        if !self.doubted(&record, cx) {
            self.take_record(record, cx);
        }
    }

    /// Follows a record that goes before this member's own.
    pub(super) fn take_record(&mut self, record: Record, cx: &mut Tcx<'_>) {
        let Some(mine) = self.root() else { return };
        if self.acceptable(&record) {
            let gone: Vec<NodeId> = mine
                .group
                .members
                .iter()
                .map(|m| m.id())
                .filter(|id| !record.members.iter().any(|(c, _)| c.id == *id))
                .collect();
            cx.cancel_timer(Timer::Elect);
            let writer = record.writer;
            // A place in this group is no longer looked for; one under its promoted root still is.
            let here =
                |a: &super::Asking| a.for_.is_none() && (a.hint.is_none() || a.hint != record.promoted);
            if self.asking.as_deref().is_some_and(here) {
                self.asking = None;
            }
            self.enter_root(record, cx);
            for id in gone {
                self.release(id, cx);
            }
            if !self.is_up(writer) {
                // The writer's record arrived after its connection was lost.
                self.rank_myself(cx);
            }
        } else if record.members.iter().all(|(c, _)| c.id != cx.me) {
            // Left out: this branch has to come in again.
            let members: Vec<Contact> = record.members.iter().map(|(c, _)| *c).collect();
            self.near = members.into_iter().take(self.config.members_max()).collect();
            self.near.sort_by_key(|c| c.key());
            self.near.dedup_by_key(|c| c.key());
            self.asking = None;
            self.orphaned(cx);
        }
    }

    pub(super) fn root_down(&mut self, peer: NodeId, cx: &mut Tcx<'_>) {
        let (now, level, wait) = (cx.now, self.level, self.config.vacancy);
        let Some(root) = self.root_mut() else { return };
        if root.promoted.is_some_and(|c| c.id == peer) {
            root.promoted = None;
            if root.writer == cx.me {
                self.asking = None;
                self.root_written(cx);
            }
            return;
        }
        let writes = root.writer == cx.me;
        let Some(member) = root.group.get_mut(peer) else { return };
        if member.missing.is_none() {
            member.missing = Some(now);
            member.asked = Time::ZERO;
        }
        if writes {
            if level == 0 {
                root.group.remove(peer, &Range::ALL);
                self.root_written(cx);
            }
            cx.set_timer_by(Timer::Vacancy, wait);
        } else {
            if root.writer == peer {
                match root.claim.take() {
                    Some(claim) => self.take_record(claim.record, cx),
                    None => self.rank_myself(cx),
                }
            }
            cx.set_timer_by(Timer::Balance, self.config.balance);
        }
    }

    /// Members ask each other for slots. A connection that broke between two of them is no
    /// business of the coordinator's.
    pub(super) fn reach_peers(&self, cx: &mut Tcx<'_>) {
        for member in self.root().into_iter().flat_map(|r| &r.group.members) {
            self.reach(member.contact, cx);
        }
    }

    /// Waits for those before it to take the coordinator's place.
    fn rank_myself(&mut self, cx: &mut Tcx<'_>) {
        let Some(root) = self.root() else { return };
        let others = root.group.members.iter().filter(|m| m.missing.is_none() && m.id() != root.writer);
        let rank = others.take_while(|m| m.id() != cx.me).count() as u32;
        cx.set_timer_by(Timer::Elect, TAKE_OVER * (1 + 3 * rank));
    }

    pub(super) fn elect(&mut self, cx: &mut Tcx<'_>) {
        if let Some(claim) = self.root_mut().and_then(|r| r.claim.take()) {
            return self.decide(*claim, cx);
        }
        let (now, me, level) = (cx.now, cx.me, self.level);
        let Some(writer) = self.root().map(|r| r.writer) else { return };
        if writer == me || self.is_up(writer) {
            return;
        }
        let wait = self.config.vacancy;
        let Some(root) = self.root_mut() else { return };
        root.term += 1;
        root.writer = me;
        root.promoted = None;
        if level == 0 {
            root.group.remove(writer, &Range::ALL);
        } else if let Some(old) = root.group.get_mut(writer) {
            old.missing = Some(now);
        }
        for member in &mut root.group.members {
            member.heard = now;
        }
        cx.set_timer_by(Timer::Vacancy, wait);
        self.root_written(cx);
    }

    /// Places in the root group that nobody asked for. Says whether there are more.
    pub(super) fn root_vacancies(&mut self, cx: &mut Tcx<'_>) -> bool {
        let (now, wait) = (cx.now, self.config.vacancy);
        let Some(root) = self.root_mut() else { return false };
        if root.writer != cx.me {
            return false;
        }
        let members = &root.group.members;
        let gone: Vec<NodeId> = members.iter().filter(|m| m.given_up(now, wait)).map(|m| m.id()).collect();
        let more = members.iter().any(|m| m.missing.is_some() && !m.given_up(now, wait));
        for id in &gone {
            root.group.remove(*id, &Range::ALL);
        }
        if !gone.is_empty() {
            self.root_written(cx);
            for id in gone {
                self.release(id, cx);
            }
        }
        more
    }

    /// Members that have been silent for so long may have left, unheard: they are told again.
    pub(super) fn root_refresh(&mut self, silent: Duration, cx: &mut Tcx<'_>) {
        let Some(record) = self.to_record().filter(|r| r.writer == cx.me) else { return };
        let Some(root) = self.root_mut() else { return };
        let mut again = Vec::new();
        for member in root.group.members.iter_mut().filter(|m| m.missing.is_none() && m.id() != cx.me) {
            if cx.now.since(member.heard) > silent {
                member.heard = cx.now;
                again.push(member.contact);
            }
        }
        for member in again {
            self.send(member, Message::Root(Box::new(record.clone())), cx);
        }
    }

    /// A member says what it knows. False if it is none.
    pub(super) fn root_refreshed(&mut self, from: NodeId, epoch: u64, cx: &mut Tcx<'_>) -> bool {
        let now = cx.now;
        let Some(root) = self.root_mut() else { return false };
        if root.writer != cx.me {
            // It missed who writes now, or doubts it.
            let later = root.group.get(from).is_some() && epoch < root.group.epoch;
            let record = self.to_record().filter(|_| later);
            let told = record.is_some();
            if let Some(record) = record {
                cx.send(from, Message::Root(Box::new(record)));
            }
            return told;
        }
        let Some(member) = root.group.get_mut(from) else { return false };
        member.heard = now;
        member.missing = None;
        if epoch != root.group.epoch
            && let Some(record) = self.to_record()
        {
            cx.send(from, Message::Root(Box::new(record)));
        }
        true
    }

    /// A member says that it is none, or that it goes.
    pub(super) fn root_left_by(&mut self, from: NodeId, epoch: u64, cx: &mut Tcx<'_>) {
        let Some(root) = self.root_mut() else { return };
        if root.writer != cx.me || from == cx.me {
            return;
        }
        if root.group.get(from).is_some_and(|m| epoch >= m.since)
            && root.group.remove(from, &Range::ALL).is_some()
        {
            self.root_written(cx);
            self.release(from, cx);
            // Should it think otherwise by now, it hears of it at once.
            cx.send(from, Message::NotMine { into: None });
        }
    }

    /// Lets the next of the others write the root group.
    pub(super) fn abdicate(&mut self, cx: &mut Tcx<'_>) {
        let me = cx.me;
        let Some(root) = self.root_mut() else { return };
        let next = root.group.members.iter().find(|m| m.id() != me && m.missing.is_none()).map(|m| m.id());
        if root.writer == me
            && let Some(next) = next
        {
            let Some(to) = root.group.get(next).map(|m| m.contact) else { return };
            root.successor_root = Some(next);
            let Some(mut record) = self.to_record() else { return };
            record.writer = next;
            record.term += 1;
            // As written by the next one itself: it checks, takes it over and tells the others.
            self.send(to, Message::Abdicate(Box::new(record)), cx);
        }
    }

    /// The coordinator wants this member to be it.
    pub(super) fn abdicated(&mut self, from: NodeId, record: Record, cx: &mut Tcx<'_>) {
        let allowed = self.root().is_some_and(|r| r.writer == from && r.term < record.term);
        if !allowed || record.writer != cx.me || record.level != self.level || !self.acceptable(&record) {
            return;
        }
        self.enter_root(record, cx);
        self.root_written(cx);
    }
}
