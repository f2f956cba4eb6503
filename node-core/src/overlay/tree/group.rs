//! A group of siblings as its writer holds it: members in the order of keys, whose ranges
//! partition the range of the group.

use super::range::Range;
use crate::address::{Contact, Key};
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// A place that so many times the usual wait did not fill is given up though it is asked for:
/// those who ask may be unable to take it.
const LONG: u32 = 4;

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) contact: Contact,
    /// Where its range begins; it ends where the next one's begins. Means nothing at level 0.
    pub(super) lo: Key,
    /// The epoch at which it came.
    pub(super) since: u64,
    /// The epoch that it was told last; 0 for nothing.
    pub(super) told: u64,
    pub(super) range_told: bool,
    pub(super) upper_told: bool,
    /// When its connection was lost, or it said that it wants to go.
    pub(super) missing: Option<Time>,
    /// When somebody was asked to take its place.
    pub(super) asked: Time,
    pub(super) heard: Time,
}

impl Member {
    pub(super) fn new(contact: Contact, lo: Key, since: u64, now: Time) -> Member {
        Member {
            contact,
            lo,
            since,
            told: 0,
            range_told: true,
            upper_told: false,
            missing: None,
            asked: Time::ZERO,
            heard: now,
        }
    }

    pub(super) fn id(&self) -> NodeId {
        self.contact.id
    }

    pub(super) fn key(&self) -> Key {
        self.contact.key()
    }

    /// Whether its place has been vacant for so long that nobody waits for it any more. While
    /// somebody is on the way there it stays open, but not for ever.
    pub(super) fn given_up(&self, now: Time, wait: Duration) -> bool {
        let Some(vacant) = self.missing.map(|since| now.since(since)) else { return false };
        let asked = now.since(self.asked) < wait / 2 && vacant < LONG * wait;
        vacant >= wait && !asked
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) epoch: u64,
    /// The members are leaves: nobody asks for their ranges.
    pub(super) leaves: bool,
    pub(super) members: Vec<Member>,
}

impl Group {
    pub(super) fn get(&self, id: NodeId) -> Option<&Member> {
        self.members.iter().find(|m| m.id() == id)
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> Option<&mut Member> {
        self.members.iter_mut().find(|m| m.id() == id)
    }

    /// The members whose keys lie in the group's range, as indices: the others are on their way
    /// out. They are together, since keys are in order.
    pub(super) fn inside(&self, range: &Range) -> std::ops::Range<usize> {
        let from = self.members.partition_point(|m| m.key() < range.lo);
        let to = range.hi.map_or(self.members.len(), |hi| self.members.partition_point(|m| m.key() < hi));
        from..to.max(from)
    }

    pub(super) fn range_of(&self, i: usize, range: &Range) -> Option<Range> {
        let inside = self.inside(range);
        if !inside.contains(&i) {
            return None;
        }
        let hi = if i + 1 < inside.end { Some(self.members.get(i + 1)?.lo) } else { range.hi };
        Some(Range { lo: self.members.get(i)?.lo, hi })
    }

    /// The members, each with its range; none for leaves and for who lies outside.
    pub(super) fn with_ranges(&self, range: Range) -> impl Iterator<Item = (Contact, Option<Range>)> + '_ {
        let inside = if self.leaves { 0..0 } else { self.inside(&range) };
        self.members.iter().enumerate().map(move |(i, member)| {
            let next = self.members.get(i + 1).filter(|_| i + 1 < inside.end);
            let hi = next.map_or(range.hi, |next| Some(next.lo));
            (member.contact, inside.contains(&i).then_some(Range { lo: member.lo, hi }))
        })
    }

    pub(super) fn range_of_id(&self, id: NodeId, range: &Range) -> Option<Range> {
        self.range_of(self.members.iter().position(|m| m.id() == id)?, range)
    }

    /// The member whose range has `key`.
    pub(super) fn covering(&self, key: Key, range: &Range) -> Option<&Member> {
        let inside = self.inside(range);
        let members = self.members.get(inside)?;
        let after = members.partition_point(|m| m.lo <= key);
        members.get(after.checked_sub(1)?)
    }

    /// Makes the ranges a partition of `range` again: bounds stay where they are if they can.
    /// Says whose range changed by clearing their `range_told`.
    fn changing(&mut self, range: &Range, change: impl FnOnce(&mut Group)) {
        if self.leaves {
            return change(self);
        }
        let before: Vec<(NodeId, Option<Range>)> =
            (0..self.members.len()).map(|i| (self.members[i].id(), self.range_of(i, range))).collect();
        change(self);
        let mut floor = range.lo;
        for i in self.inside(range) {
            let first = i == self.inside(range).start;
            let member = &mut self.members[i];
            let key = member.key();
            member.lo = if first { range.lo } else { member.lo.max(floor).min(key) };
            floor = after(key);
        }
        for i in 0..self.members.len() {
            let now = self.range_of(i, range);
            let id = self.members[i].id();
            let same = before.iter().any(|(old, was)| *old == id && *was == now);
            if !same && now.is_some() {
                self.members[i].range_told = false;
            }
        }
    }

    pub(super) fn rebound(&mut self, old: &Range, range: &Range) {
        if self.leaves {
            return;
        }
        if old != range {
            let told: Vec<Option<Range>> = (0..self.members.len()).map(|i| self.range_of(i, old)).collect();
            self.changing(range, |_| {});
            for (i, was) in told.into_iter().enumerate() {
                if self.range_of(i, range) != was {
                    self.members[i].range_told = false;
                }
            }
        }
    }

    /// Puts `member` in by its key. Its range is what it claims, as far as the keys of its new
    /// neighbours allow.
    pub(super) fn insert(&mut self, mut member: Member, claim: Option<Range>, range: &Range) {
        self.changing(range, |group| {
            let key = member.key();
            let at = group.members.partition_point(|m| m.key() < key);
            let inside = group.inside(range);
            // If the next one's range has the key, what lies below the key is taken from it.
            let next = group.members.get(at).filter(|_| at < inside.end).map(|m| (m.lo, m.key()));
            match next {
                Some((lo, next_key)) if lo <= key => {
                    member.lo = lo;
                    let hi = claim.and_then(|c| c.hi).unwrap_or(next_key);
                    group.members[at].lo = hi.max(after(key)).min(next_key);
                }
                _ => {
                    let floor = match at.checked_sub(1).filter(|i| inside.contains(i)) {
                        Some(i) => after(group.members[i].key()),
                        None => range.lo,
                    };
                    member.lo = claim.map_or(key, |c| c.lo).max(floor).min(key);
                }
            }
            group.members.insert(at, member);
        });
    }

    pub(super) fn remove(&mut self, id: NodeId, range: &Range) -> Option<Member> {
        let at = self.members.iter().position(|m| m.id() == id)?;
        let mut gone = None;
        self.changing(range, |group| gone = Some(group.members.remove(at)));
        gone
    }

    /// Removes a member and gives its range to the one next to it.
    pub(super) fn merge(&mut self, id: NodeId, into: NodeId, range: &Range) -> bool {
        let Some(at) = self.members.iter().position(|m| m.id() == id) else { return false };
        let Some(to) = self.members.iter().position(|m| m.id() == into) else { return false };
        let inside = self.inside(range);
        if at.abs_diff(to) != 1 || !inside.contains(&at) || !inside.contains(&to) {
            return false;
        }
        let lo = self.members[at].lo;
        self.changing(range, |group| {
            if to > at {
                group.members[to].lo = lo;
            }
            group.members.remove(at);
        });
        true
    }

    /// Moves the bound between two that are next to each other.
    pub(super) fn redistribute(&mut self, id: NodeId, with: NodeId, bound: Key, range: &Range) -> bool {
        let Some(at) = self.members.iter().position(|m| m.id() == id) else { return false };
        let Some(to) = self.members.iter().position(|m| m.id() == with) else { return false };
        let inside = self.inside(range);
        let (low, high) = (at.min(to), at.max(to));
        let fits = high - low == 1
            && inside.contains(&low)
            && inside.contains(&high)
            && self.members[low].key() < bound
            && bound <= self.members[high].key();
        if fits {
            self.changing(range, |group| group.members[high].lo = bound);
        }
        fits
    }

    /// Lets a leaf take a place because of `for_`: its own if it is missing, else a part of its
    /// range, which it gives up by splitting. False if there is no such place (any more).
    pub(super) fn take_place(
        &mut self,
        who: Member,
        for_: NodeId,
        claim: Option<Range>,
        range: &Range,
    ) -> bool {
        let Some(at) = self.members.iter().position(|m| m.id() == for_) else { return false };
        let Some(place) = self.range_of(at, range) else { return false };
        if !place.contains(who.key()) || who.id() == for_ {
            return false;
        }
        let (lo, key) = (self.members[at].lo, self.members[at].key());
        if self.members[at].missing.is_some() {
            self.changing(range, |group| {
                let mut who = who;
                who.lo = lo;
                who.range_told = false;
                group.members[at] = who;
            });
            return true;
        }
        let part = claim.is_some_and(|c| place.encloses(&c) && !c.contains(key) && c.contains(who.key()));
        if part {
            self.insert(who, claim, range);
        }
        part
    }
}

/// The key behind this one.
pub(super) fn after(key: Key) -> Key {
    let mut next = key;
    for byte in next.id.0.iter_mut().rev().chain(next.ip.0.iter_mut().rev()) {
        let (sum, carry) = byte.overflowing_add(1);
        *byte = sum;
        if !carry {
            return next;
        }
    }
    key
}
