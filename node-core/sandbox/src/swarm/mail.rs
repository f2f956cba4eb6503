//! Messages of a thread: those that others may not have yet, and those that it has not read.

use super::{Ask, KEPT_MAX, MESSAGE_MAX, MESSAGES, NUMBERS, UNREAD_MAX};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Mail {
    sent: BTreeMap<u32, Sent>,
    /// Messages in all of them, and their bytes.
    kept: (usize, usize),
    received: BTreeMap<u32, Received>,
    unread: (usize, usize),
    /// From whom the messages are that wait, in the order in which they came.
    order: BTreeMap<u64, u32>,
    came: u64,
}

/// Messages to one thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Sent {
    /// Number of the first that is kept.
    first: u64,
    /// Each with the tells before it.
    kept: VecDeque<(Bytes, u64)>,
    /// Those below were handed to who carries them.
    #[serde(skip)]
    gone: u64,
}

/// Messages of one thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Received {
    /// Number of the next to come.
    next: u64,
    /// Each with its place in the order of all.
    unread: VecDeque<(Bytes, u64)>,
    /// No more will come.
    ended: bool,
}

/// Messages and questions that a checkpoint of a thread covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// For each thread that has sent some, the number of the next message.
    pub received: BTreeMap<u32, u64>,
    /// Questions that were asked.
    pub questions: u64,
    /// Words that were told.
    pub told: u64,
}

impl Mail {
    /// Whether a thread can have come to this state.
    pub(super) fn is_sound(&self) -> bool {
        let sum = |all: &mut dyn Iterator<Item = usize>| {
            all.fold((0, 0usize), |(count, bytes), len| (count + 1, bytes.saturating_add(len)))
        };
        let mut sent = self.sent.values().flat_map(|sent| &sent.kept).map(|(message, _)| message.len());
        let mut unread = self.received.values().flat_map(|it| &it.unread).map(|(message, _)| message.len());
        let order =
            self.received.iter().flat_map(|(from, it)| it.unread.iter().map(|(_, came)| (*came, *from)));
        let fits =
            |(messages, bytes): (usize, usize), most| messages <= MESSAGES + 1 && bytes <= most + MESSAGE_MAX;
        sum(&mut sent) == self.kept
            && sum(&mut unread) == self.unread
            && fits(self.kept, KEPT_MAX)
            && fits(self.unread, UNREAD_MAX)
            && order.collect::<BTreeMap<_, _>>() == self.order
            && self.order.keys().all(|came| *came < self.came)
            && self.sent.values().all(|sent| sent.first < NUMBERS)
            && self.received.values().all(|it| it.next < NUMBERS)
            && self.came < NUMBERS
    }

    pub(super) fn send(&mut self, to: u32, message: Bytes, told: u64) -> bool {
        let (messages, bytes) = self.kept;
        let fits = messages == 0 || (messages < MESSAGES && bytes + message.len() <= KEPT_MAX);
        if fits {
            self.kept = (messages + 1, bytes + message.len());
            self.sent.entry(to).or_default().kept.push_back((message, told));
        }
        fits
    }

    /// Those that were not handed out yet.
    pub(super) fn sends(&mut self, asks: &mut Vec<Ask>) {
        for (to, sent) in &mut self.sent {
            let kept = (sent.first..).zip(&sent.kept).filter(|(number, _)| *number >= sent.gone);
            asks.extend(kept.map(|(number, (message, told))| Ask::Send {
                to: *to,
                number,
                message: message.clone(),
                told: *told,
            }));
            sent.gone = sent.first + sent.kept.len() as u64;
        }
    }

    pub(super) fn covered(&mut self, to: u32, below: u64) {
        let Some(sent) = self.sent.get_mut(&to) else { return };
        while sent.first < below
            && let Some((message, _)) = sent.kept.pop_front()
        {
            sent.first += 1;
            self.kept = (self.kept.0.saturating_sub(1), self.kept.1.saturating_sub(message.len()));
        }
    }

    /// `is_awaited`: the thread reads nothing else before it. There is always room for one of those.
    pub(super) fn receive(&mut self, from: u32, number: u64, message: Bytes, is_awaited: bool) -> bool {
        let (messages, bytes) = self.unread;
        let next = self.received.get(&from).map_or(0, |received| received.next);
        if number < next {
            return true;
        }
        let fits =
            is_awaited || messages == 0 || (messages < MESSAGES && bytes + message.len() <= UNREAD_MAX);
        if number > next || !fits {
            return false;
        }
        let received = self.received.entry(from).or_default();
        // Nothing comes after an end.
        if !received.ended {
            self.unread = (messages + 1, bytes + message.len());
            received.next += 1;
            received.unread.push_back((message, self.came));
            self.order.insert(self.came, from);
            self.came += 1;
        }
        true
    }

    pub(super) fn ended(&mut self, from: u32, sent: u64) -> bool {
        let received = self.received.entry(from).or_default();
        let is_all = received.next >= sent;
        received.ended |= is_all;
        is_all
    }

    pub(super) fn length(&self, from: u32) -> Option<usize> {
        let received = self.received.get(&from)?;
        let first = received.unread.front().map(|(message, _)| message.len());
        first.or(received.ended.then_some(0))
    }

    /// The next message of that thread; none: it has ended, or nothing is there.
    pub(super) fn take(&mut self, from: u32) -> Option<Bytes> {
        let (message, came) = self.received.get_mut(&from)?.unread.pop_front()?;
        self.order.remove(&came);
        self.unread = (self.unread.0.saturating_sub(1), self.unread.1.saturating_sub(message.len()));
        Some(message)
    }

    pub(super) fn first(&self) -> Option<u32> {
        self.order.first_key_value().map(|(_, from)| *from)
    }

    /// Whether there are messages that others may not have.
    pub(super) fn has_kept(&self) -> bool {
        self.kept.0 > 0
    }

    pub(super) fn sent(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.sent.iter().map(|(to, sent)| (*to, sent.first + sent.kept.len() as u64))
    }

    /// That thread has lost the messages from this number on.
    pub(super) fn again(&mut self, to: u32, from: u64) {
        if let Some(sent) = self.sent.get_mut(&to) {
            sent.gone = sent.gone.min(from);
        }
    }

    /// All of them are lost on their way.
    pub(super) fn all_again(&mut self) {
        self.sent.values_mut().for_each(|sent| sent.gone = 0);
    }

    pub(super) fn marks(&self, questions: u64, told: u64) -> Marks {
        let received = self.received.iter().map(|(from, received)| (*from, received.next));
        Marks { received: received.collect(), questions, told }
    }
}
