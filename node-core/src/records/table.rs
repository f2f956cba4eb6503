//! The records that lie on one node.

use super::config::RecordsConfig;
use super::message::Copied;
use super::record::Record;
use crate::circle::{Point, Range};
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::record::{Key, Refused};
use crate::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub signed: Signed,
    pub number: u64,
    pub expires_ms: u64,
    pub given_up: bool,
    pub since_ms: u64,
    /// When its owner was heard last, if that is another node.
    pub heard: Time,
}

impl Entry {
    pub(super) fn copied(&self) -> Copied {
        Copied { signed: self.signed.clone(), since_ms: self.since_ms }
    }
}

/// Sender of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The publisher, to the owner of the key.
    Publisher,
    /// The previous owner; this node has taken the key over a moment ago.
    PreviousOwner,
    /// A node that keeps replicas, to the owner of the key.
    Replica,
    /// The owner; this node keeps a replica.
    Owner,
}

#[derive(Debug)]
pub(super) struct Table {
    config: Arc<RecordsConfig>,
    keys: BTreeMap<(Point, Key), Vec<Entry>>,
    of: BTreeMap<NodeId, usize>,
    count: usize,
}

impl Table {
    pub(super) fn new(config: Arc<RecordsConfig>) -> Table {
        Table { config, keys: BTreeMap::new(), of: BTreeMap::new(), count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn get(&self, key: &Key) -> &[Entry] {
        self.keys.get(&(key.point(), key.clone())).map_or(&[], Vec::as_slice)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.keys.iter().flat_map(|((_, key), entries)| entries.iter().map(move |entry| (key, entry)))
    }

    pub(super) fn within(&self, range: Range) -> impl Iterator<Item = &Entry> {
        let inside = self.keys.iter().filter(move |((point, _), _)| range.contains(*point));
        inside.flat_map(|(_, entries)| entries)
    }

    /// Count and digest of the records in a range: equal on two nodes that have the same records.
    pub(super) fn digest(&self, range: Range) -> (u32, u64) {
        self.within(range).fold((0, 0), |(count, digest), entry| {
            let word = entry.signed.signature.first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
            (count + 1, digest ^ word)
        })
    }

    /// Takes a record that is good by itself; whether anything is new, or why it is not taken.
    pub(super) fn put(
        &mut self,
        signed: Signed,
        record: Record,
        since_ms: u64,
        from: From,
        arc: Option<Range>,
        now: Time,
    ) -> Result<bool, Refused> {
        let (by, Record { key, number, expires_ms, value }) = (signed.by, record);
        let given_up = value.is_none();
        let new = Entry { signed, number, expires_ms, given_up, since_ms, heard: now };
        let known = self.get(&key);
        if let Some(old) = known.iter().find(|old| old.signed.by == by) {
            if old.number > number {
                return Err(Refused::Old(number));
            }
            if old.number == number && old.signed.body == new.signed.body {
                self.each(&key, by, |old| {
                    old.heard = now;
                    old.since_ms = old.since_ms.min(since_ms);
                });
                return Ok(false);
            }
            if old.number == number && from == From::Publisher {
                return Err(Refused::Twice);
            }
            // A publisher signed two texts under one number: on every node the lower text counts.
            if old.number == number && old.signed.body <= new.signed.body {
                return Ok(false);
            }
            let since_ms = old.since_ms.min(since_ms);
            self.each(&key, by, |old| *old = Entry { since_ms, ..new.clone() });
            return Ok(true);
        }
        if key.has_one_publisher()
            && let Some(other) = known.iter().find(|other| !other.given_up && other.expires_ms > since_ms)
        {
            let earlier = (other.since_ms, other.signed.by) <= (since_ms, by);
            let taken = Refused::Taken(other.signed.by);
            match from {
                // Nobody can prove when it was first: a copy fills in what is missing, no more.
                From::Publisher | From::Replica => return Err(taken),
                From::PreviousOwner if earlier => return Err(taken),
                From::PreviousOwner | From::Owner => {}
            }
        }
        if self.of.get(&by).is_some_and(|count| *count >= self.config.per_publisher) {
            return Err(Refused::TooMany);
        }
        if known.len() >= self.config.per_key {
            return Err(Refused::Crowded);
        }
        if key.has_one_publisher() && !known.is_empty() {
            // Records that were given up stay, so that nobody can publish them again.
            self.retain(|other, entry| *other != key || entry.given_up);
        }
        if self.count >= self.config.records && !(from != From::Owner && self.drop_a_copy(arc)) {
            return Err(Refused::Full);
        }
        self.keys.entry((key.point(), key)).or_default().push(new);
        *self.of.entry(by).or_default() += 1;
        self.count += 1;
        Ok(true)
    }

    fn each(&mut self, key: &Key, by: NodeId, change: impl FnOnce(&mut Entry)) {
        let entries = self.keys.get_mut(&(key.point(), key.clone()));
        if let Some(entry) = entries.and_then(|all| all.iter_mut().find(|entry| entry.signed.by == by)) {
            change(entry);
        }
    }

    fn drop_a_copy(&mut self, arc: Option<Range>) -> bool {
        let is_copy = |point: &Point| arc.is_none_or(|arc| !arc.contains(*point));
        let Some(key) = self.keys.keys().find(|(point, _)| is_copy(point)).map(|(_, key)| key.clone()) else {
            return false;
        };
        self.retain(|other, _| *other != key);
        true
    }

    /// The owner of this arc was heard.
    pub(super) fn hear(&mut self, range: Range, now: Time) {
        let inside = self.keys.iter_mut().filter(|((point, _), _)| range.contains(*point));
        inside.flat_map(|(_, entries)| entries).for_each(|entry| entry.heard = now);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Key, &Entry) -> bool) {
        let of = &mut self.of;
        let mut gone = 0;
        self.keys.retain(|(_, key), entries| {
            entries.retain(|entry| {
                let stays = keep(key, entry);
                if !stays {
                    gone += 1;
                    let left = of.get(&entry.signed.by).map_or(0, |count| count.saturating_sub(1));
                    match left {
                        0 => of.remove(&entry.signed.by),
                        left => of.insert(entry.signed.by, left),
                    };
                }
                stays
            });
            !entries.is_empty()
        });
        self.count -= gone;
    }
}
