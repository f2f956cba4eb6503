//! Messages of a parent to its children, and to the parents beside it.
//!
//! Children get what changed since they were told last: a newcomer everything, its siblings one
//! contact. Changes are gathered for a moment, so that a burst of joins costs one message each.

use super::message::{Message, NeighbourUpdate, Tell, Upper};
use super::{Children, Contact, Link, Range, Side, Tcx, Timer, Tree};
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// Changes that are remembered; who missed more is told everything.
const LOG_MAX: usize = 64;

/// Ancestors and siblings of the parent that are believed; the tree of all IPv4 addresses has 32 levels at m = 2.
const ABOVE_MAX: usize = 40;

impl Tree {
    /// A change of the group of children that they are to hear of.
    pub(super) fn touched(&mut self, id: NodeId, cx: &mut Tcx<'_>) -> u64 {
        let epoch = self.next_epoch(cx.now);
        let Some(children) = &mut self.children else { return epoch };
        children.group.epoch = epoch;
        children.log.push((epoch, id));
        if children.log.len() > LOG_MAX {
            let cut = children.log.len() / 2;
            children.floor = children.log.get(cut - 1).map_or(children.floor, |(epoch, _)| *epoch);
            children.log.drain(..cut);
        }
        self.tell_ranges(cx);
        self.tell_soon(cx);
        let updated = self.children.as_ref().map_or(Time::ZERO, |k| k.updated);
        cx.set_timer_by(Timer::Updates, gathering(self.config.updates, updated, cx.now));
        // A lone root does not give way while its children come and go.
        let stays = cx.now + self.config.settle;
        if let Some(root) = self.root_mut() {
            root.stays = root.stays.max(stays);
        }
        epoch
    }

    pub(super) fn note_gone(&mut self, id: NodeId, cx: &mut Tcx<'_>) {
        self.touched(id, cx);
        self.changed = true;
    }

    /// Notes that the nodes above the children have changed, and arms the next announcement.
    pub(super) fn upper_changed(&mut self, cx: &mut Tcx<'_>) {
        // With an epoch of its own, so that the refresh finds out who missed it.
        let epoch = self.next_epoch(cx.now);
        if let Some(children) = &mut self.children {
            children.group.epoch = epoch;
            children.group.members.iter_mut().for_each(|m| m.upper_told = false);
            self.tell_soon(cx);
        }
    }

    pub(super) fn tell_soon(&self, cx: &mut Tcx<'_>) {
        let told = self.children.as_ref().map_or(Time::ZERO, |k| k.told);
        cx.set_timer_by(Timer::Tell, gathering(self.config.tell, told, cx.now));
    }

    /// Tells children whose ranges changed at once: until they know, they take in what is not
    /// theirs any more.
    pub(super) fn tell_ranges(&mut self, cx: &mut Tcx<'_>) {
        let Some(children) = &self.children else { return };
        if children.group.leaves {
            return;
        }
        let due: Vec<usize> = children
            .group
            .members
            .iter()
            .enumerate()
            .filter(|(_, m)| !m.range_told && m.told > 0)
            .map(|(i, _)| i)
            .collect();
        for i in due {
            self.tell_one(i, cx);
        }
    }

    pub(super) fn tell(&mut self, cx: &mut Tcx<'_>) {
        let Some(children) = &mut self.children else { return };
        children.told = cx.now;
        let count = children.group.members.len();
        for i in 0..count {
            let due = self.children.as_ref().is_some_and(|children| {
                children.group.members.get(i).is_some_and(|m| {
                    let news = m.told < children.group.epoch || !m.upper_told || !m.range_told;
                    news && m.missing.is_none()
                })
            });
            if due {
                self.tell_one(i, cx);
            }
        }
        self.forget_what_all_know();
    }

    fn forget_what_all_know(&mut self) {
        let Some(children) = &mut self.children else { return };
        let Some(known) = children.group.members.iter().map(|m| m.told).min() else { return };
        children.log.retain(|(at, _)| *at > known);
        children.log.shrink_to_fit();
        children.floor = children.floor.max(known);
    }

    pub(super) fn upper_for_children(&self) -> Upper {
        let mut ancestors = Vec::new();
        if let Some(parent) = self.parent() {
            ancestors.push(parent);
            ancestors.extend(self.upper.ancestors.iter().take(ABOVE_MAX - 1));
        }
        let (left, right) = self.beside();
        let mut parent_siblings: Vec<Contact> = left.into_iter().chain(right).collect();
        if parent_siblings.len() < 2
            && let Some(root) = self.root()
        {
            // At the ends of the root group the ones at the other end do.
            let others = root.group.members.iter().map(|m| m.contact).rev();
            let more = others
                .filter(|c| Some(c.id) != self.me.map(|m| m.id) && !parent_siblings.contains(c))
                .take(1);
            parent_siblings.extend(more.collect::<Vec<_>>());
        }
        Upper { group: self.range.unwrap_or(Range::ALL), ancestors, parent_siblings }
    }

    fn tell_one(&mut self, i: usize, cx: &mut Tcx<'_>) {
        let above = self.upper_for_children();
        let Some(range) = self.range else { return };
        let Some(children) = &mut self.children else { return };
        let yours = children.group.range_of(i, &range).filter(|_| !children.group.leaves);
        let epoch = children.group.epoch;
        let Some(member) = children.group.members.get(i) else { return };
        let to = member.contact;
        let known = member.told >= children.floor && member.told > 0;
        let base = if known { member.told } else { 0 };
        let (mut add, mut drop) = (Vec::new(), Vec::new());
        if known {
            let mut ids: Vec<NodeId> =
                children.log.iter().filter(|(at, _)| *at > base).map(|(_, id)| *id).collect();
            ids.sort_unstable();
            ids.dedup();
            for id in ids.into_iter().filter(|id| *id != to.id) {
                match children.contact(id) {
                    Some(contact) => add.push(contact),
                    None => drop.push(id),
                }
            }
        } else {
            add.extend(children.contacts().filter(|c| c.id != to.id));
        }
        let upper = (!member.upper_told || !known).then_some(above);
        if let Some(member) = children.group.members.get_mut(i) {
            member.told = epoch;
            member.upper_told = true;
            member.range_told = true;
        }
        self.send(to, Message::Tell(Box::new(Tell { epoch, base, range: yours, add, drop, upper })), cx);
    }

    /// Somebody takes itself for the parent. When a place was asked for just now, the welcome may
    /// still be on its way.
    fn no_child_of(&self, from: NodeId, epoch: u64, cx: &mut Tcx<'_>) {
        if self.asking.as_ref().is_none_or(|a| a.tries > 2) {
            cx.send(from, Message::Leave { epoch, root: false });
        }
    }

    pub(super) fn told(&mut self, from: NodeId, tell: Tell, cx: &mut Tcx<'_>) {
        let (Link::Child { parent, epoch, .. }, key) = (&mut self.link, self.me.map(|me| me.key())) else {
            return self.no_child_of(from, tell.epoch, cx);
        };
        if parent.id != from {
            return self.no_child_of(from, tell.epoch, cx);
        }
        if tell.base > *epoch && tell.base != 0 {
            // Something before it was lost.
            return self.refresh_now(0, cx);
        }
        if tell.epoch < *epoch {
            return;
        }
        let most = 2 * self.config.members_max() + 2 * self.config.k();
        let above = tell.upper.as_ref().map_or(0, |u| u.ancestors.len().max(u.parent_siblings.len()));
        if tell.add.len() > most || tell.drop.len() > LOG_MAX || above > ABOVE_MAX {
            return self.fault(from, "told more than a group can have", cx);
        }
        if self.level > 0 && !tell.range.is_none_or(|r| key.is_some_and(|key| r.contains(key))) {
            return self.fault(from, "gave a range that does not have this node's key", cx);
        }
        *epoch = tell.epoch;
        let beside = self.beside();
        if tell.base == 0 {
            self.near.clear();
        }
        let mut incomplete = false;
        self.near.retain(|c| !tell.drop.contains(&c.id));
        for contact in tell.add.into_iter().filter(|c| c.id != cx.me) {
            match self.near.binary_search_by_key(&contact.key(), |c| c.key()) {
                Ok(at) => self.near[at] = contact,
                Err(at) if self.near.len() < most => self.near.insert(at, contact),
                // All of it again with the next one, when there are fewer.
                Err(_) => incomplete = true,
            }
        }
        if let (true, Link::Child { epoch, .. }) = (incomplete, &mut self.link) {
            *epoch = 0;
        }
        self.near.shrink_to_fit();
        let mut news = false;
        if let Some(upper) = tell.upper {
            news = self.upper != upper;
            self.changed |= self.upper.ancestors != upper.ancestors;
            self.upper = upper;
        }
        if self.level > 0 && tell.range.is_some() {
            self.set_range(tell.range, cx);
        }
        if beside != self.beside() {
            self.beside_changed(cx);
            news = true;
        }
        if news {
            self.upper_changed(cx);
        }
    }

    /// The range of this branch is another one: children outside of it have to go.
    pub(super) fn set_range(&mut self, range: Option<Range>, cx: &mut Tcx<'_>) {
        if self.level == 0 || range == self.range {
            return;
        }
        let old = self.range.unwrap_or(Range { lo: self.key(), hi: Some(self.key()) });
        self.range = range;
        let Some(children) = &mut self.children else { return };
        if let Some(range) = range {
            children.group.rebound(&old, &range);
        }
        children.rest = cx.now;
        self.upper_changed(cx);
        self.tell_ranges(cx);
        self.move_strangers(cx);
        cx.set_timer_by(Timer::Balance, self.config.balance);
    }

    /// Those next to this node are others now, and its children's neighbours with them.
    pub(super) fn beside_changed(&mut self, cx: &mut Tcx<'_>) {
        let (left, right) = self.beside();
        let Some(children) = &mut self.children else { return };
        // The children of the old neighbours stay until the new neighbours have sent theirs.
        for (side, now) in [(&mut children.left, left), (&mut children.right, right)] {
            match now {
                Some(contact) if side.as_ref().is_none_or(|s| s.id != contact.id) => {
                    let children = side.take().map(|s| s.children).unwrap_or_default();
                    *side = Some(Side { id: contact.id, count: 0, children, sent: 0, known: false });
                }
                _ => {}
            }
        }
        let gone: Vec<Contact> = [(&mut children.left, left), (&mut children.right, right)]
            .into_iter()
            .filter(|(_, now)| now.is_none())
            .flat_map(|(side, _)| side.take().map(|s| s.children).unwrap_or_default())
            .collect();
        for contact in gone {
            self.touched(contact.id, cx);
        }
        cx.set_timer_by(Timer::Updates, self.config.updates / 8);
    }

    pub(super) fn send_updates(&mut self, cx: &mut Tcx<'_>) {
        let Some(me) = self.me else { return };
        let (k, level) = (self.config.k(), self.level);
        let (left, right) = self.beside();
        let other = |side: &Option<Side>, now: Option<Contact>| {
            side.as_ref().map(|s| s.id) != now.map(|contact| contact.id)
        };
        if self.children.as_ref().is_some_and(|k| other(&k.left, left) || other(&k.right, right)) {
            self.beside_changed(cx);
        }
        let count = u16::try_from(self.child_count()).unwrap_or(u16::MAX);
        let Some(range) = self.range else { return };
        let mut letters = Vec::new();
        if let Some(children) = &mut self.children {
            children.updated = cx.now;
            let inside = children.group.inside(&range);
            let members = children.group.members.get(inside).unwrap_or_default();
            let first: Vec<Contact> = members.iter().take(k).map(|m| m.contact).collect();
            let last: Vec<Contact> =
                members.iter().skip(members.len().saturating_sub(k)).map(|m| m.contact).collect();
            for (side, to, mine) in [(&mut children.left, left, first), (&mut children.right, right, last)] {
                let (Some(side), Some(to)) = (side, to) else { continue };
                let digest = digest(&mine, count);
                if side.id == to.id && (side.sent != digest || !side.known) {
                    side.sent = digest;
                    let want = !side.known;
                    letters.push((to, NeighbourUpdate { from: me, level, count, children: mine, want }));
                }
            }
        }
        let again = letters.iter().any(|(_, e)| e.want);
        for (to, update) in letters {
            self.send(to, Message::Update(Box::new(update)), cx);
        }
        if again {
            cx.set_timer_by(Timer::Updates, 2 * self.config.updates);
        }
    }

    pub(super) fn on_update(&mut self, from: NodeId, update: NeighbourUpdate, cx: &mut Tcx<'_>) {
        if update.from.id != from {
            return self.fault(from, "spoke as another node", cx);
        }
        if update.children.len() > self.config.k()
            || update.children.windows(2).any(|w| w[0].key() >= w[1].key())
        {
            return self.fault(from, "named neighbours that are too many or out of order", cx);
        }
        let (left, right) = self.beside();
        let key = self.key();
        if update.level != self.level || self.level == 0 {
            return;
        }
        let Some(children) = &mut self.children else { return };
        let low = update.from.key() < key;
        let (side, beside) = if low { (&mut children.left, left) } else { (&mut children.right, right) };
        if beside.is_none_or(|b| b.id != from) {
            return;
        }
        let side = side.get_or_insert_with(|| Side {
            id: from,
            count: 0,
            children: Vec::new(),
            sent: 0,
            known: false,
        });
        if side.id != from {
            return;
        }
        // Some may lie in this node's range still: they will be told apart by the time they matter.
        let theirs = update.children;
        let old = std::mem::replace(&mut side.children, theirs.clone());
        side.count = update.count;
        side.known = true;
        if update.want {
            side.sent = 0;
            cx.set_timer_by(Timer::Updates, self.config.updates / 8);
        }
        let changed =
            old.iter().filter(|c| !theirs.contains(c)).chain(theirs.iter().filter(|c| !old.contains(c)));
        let changed: Vec<NodeId> = changed.map(|c| c.id).collect();
        for id in changed {
            self.touched(id, cx);
        }
        cx.set_timer_by(Timer::Balance, self.config.balance);
    }
}

impl Children {
    /// Children and neighbours.
    fn contacts(&self) -> impl Iterator<Item = Contact> {
        let neighbours = self.left.iter().chain(&self.right).flat_map(|s| s.children.iter().copied());
        self.group.members.iter().map(|m| m.contact).chain(neighbours)
    }

    fn contact(&self, id: NodeId) -> Option<Contact> {
        self.contacts().find(|c| c.id == id)
    }
}

/// How long changes are gathered before they are told. One that comes after a pause is told
/// nearly at once, since repair goes from neighbour to neighbour and from level to level; a burst
/// costs one message more.
fn gathering(period: Duration, told: Time, now: Time) -> Duration {
    period.saturating_sub(now.since(told)).max(period / 8)
}

fn digest(contacts: &[Contact], count: u16) -> u64 {
    contacts.iter().fold(u64::from(count) + 1, |sum, contact| {
        let id = contact.id.0;
        let word = u64::from_le_bytes(std::array::from_fn(|i| id[i]));
        (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    })
}
