//! The heap of events: what happens next, among millions.
//!
//! An event is one `u128`, its time above its number above what it is, so that comparing
//! integers is the whole order and equal times keep the order in which they were asked for. A
//! wheel of buckets keeps far events out of the heap: an event moves at most three times, and
//! the heap holds a millisecond or so.

use node_core::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Event of the queue, in 40 bits; larger things lie in the world's slab and are named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A node's deadline.
    Wake(u32),
    /// An entry of the slab.
    Slab(u32),
    /// Back to whoever runs the experiment, with what it said.
    Call(u32),
}

/// Widths of the wheel's levels, as powers of two of microseconds: 1 ms, 1 s, 18 min.
const NEAR: u32 = 10;
const FAR: u32 = 20;
const END: u32 = 30;
const BUCKETS: usize = 1 << 10;

/// Buckets that are kept for their room.
const SPARE: usize = 256;

const TIME_BITS: u32 = 48;
const NUMBER_BITS: u32 = 40;
const WHAT_BITS: u32 = 40;

pub struct Queue {
    /// Events of the open bucket.
    open: BinaryHeap<Reverse<u128>>,
    near: Vec<Vec<u128>>,
    far: Vec<Vec<u128>>,
    beyond: BinaryHeap<Reverse<u128>>,
    /// Number of the open bucket of the near level, since time 0.
    at: u64,
    number: u64,
    len: usize,
    near_len: usize,
    far_len: usize,
    /// Empty buckets with room.
    spare: Vec<Vec<u128>>,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            open: BinaryHeap::new(),
            near: vec![Vec::new(); BUCKETS],
            far: vec![Vec::new(); BUCKETS],
            beyond: BinaryHeap::new(),
            at: 0,
            number: 0,
            len: 0,
            near_len: 0,
            far_len: 0,
            spare: Vec::new(),
        }
    }
}

impl Queue {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `at` must not lie before the last event taken.
    pub fn push(&mut self, at: Time, what: What) {
        let (kind, index) = match what {
            What::Wake(index) => (0u64, index),
            What::Slab(index) => (1, index),
            What::Call(index) => (2, index),
        };
        // Nine years: longer than anybody simulates.
        let time = at.0.min((1 << TIME_BITS) - 1);
        self.number = (self.number + 1) & ((1 << NUMBER_BITS) - 1);
        let key = u128::from(time) << (NUMBER_BITS + WHAT_BITS)
            | u128::from(self.number) << WHAT_BITS
            | u128::from(kind << 32 | u64::from(index));
        self.len += 1;
        self.place(time, key);
    }

    fn place(&mut self, time: u64, key: u128) {
        let bucket = time >> NEAR;
        if bucket <= self.at {
            self.open.push(Reverse(key));
        } else if time >> FAR == self.at >> (FAR - NEAR) {
            let near = &mut self.near[bucket as usize % BUCKETS];
            if near.capacity() == 0 {
                *near = self.spare.pop().unwrap_or_default();
            }
            near.push(key);
            self.near_len += 1;
        } else if time >> END == self.at >> (END - NEAR) {
            self.far[(time >> FAR) as usize % BUCKETS].push(key);
            self.far_len += 1;
        } else {
            self.beyond.push(Reverse(key));
        }
    }

    /// When the next event is.
    pub fn next_at(&mut self) -> Option<Time> {
        self.open_next();
        self.open.peek().map(|Reverse(key)| time_of(*key))
    }

    pub fn pop(&mut self) -> Option<(Time, What)> {
        self.open_next();
        let Reverse(key) = self.open.pop()?;
        self.len -= 1;
        let index = key as u32;
        let what = match (key >> 32) as u8 {
            0 => What::Wake(index),
            1 => What::Slab(index),
            _ => What::Call(index),
        };
        Some((time_of(key), what))
    }

    /// Moves on to the next bucket that holds anything.
    fn open_next(&mut self) {
        while self.open.is_empty() && self.len > 0 {
            self.at = self.next_bucket();
            if self.at.is_multiple_of(1 << (END - NEAR)) {
                self.unpack_beyond();
            }
            if self.at.is_multiple_of(BUCKETS as u64) {
                self.unpack_far();
            }
            let mut bucket = std::mem::take(&mut self.near[self.at as usize % BUCKETS]);
            self.near_len -= bucket.len();
            self.open.extend(bucket.drain(..).map(Reverse));
            // Its room is used again, by the next bucket that has none.
            if bucket.capacity() > 0 && self.spare.len() < SPARE {
                self.spare.push(bucket);
            }
        }
    }

    /// The next one, or the end of a stretch in which nothing is.
    fn next_bucket(&self) -> u64 {
        const TURN: u64 = 1 << (END - NEAR);
        if self.near_len > 0 {
            self.at + 1
        } else if self.far_len > 0 {
            (self.at / BUCKETS as u64 + 1) * BUCKETS as u64
        } else {
            let first = self.beyond.peek().map_or(0, |Reverse(key)| time_of(*key).0 >> END);
            (self.at / TURN + 1).max(first) * TURN
        }
    }

    fn unpack_far(&mut self) {
        let slot = (self.at >> (FAR - NEAR)) as usize % BUCKETS;
        // It is long until this one is used again: its room is given back.
        let bucket = std::mem::take(&mut self.far[slot]);
        self.far_len -= bucket.len();
        for key in bucket {
            self.place(time_of(key).0, key);
        }
    }

    fn unpack_beyond(&mut self) {
        let turn = self.at >> (END - NEAR);
        while let Some(Reverse(key)) = self.beyond.peek()
            && time_of(*key).0 >> END <= turn
        {
            let key = *key;
            self.beyond.pop();
            // Into the far level even if it is in its open slot: that is unpacked next.
            self.far[(time_of(key).0 >> FAR) as usize % BUCKETS].push(key);
            self.far_len += 1;
        }
    }
}

fn time_of(key: u128) -> Time {
    Time((key >> (NUMBER_BITS + WHAT_BITS)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_asking() {
        let mut rng = Rng::new(1);
        let (mut queue, mut model) = (Queue::default(), BTreeMap::new());
        let mut now = 0;
        for number in 0..200_000u32 {
            let far = [1, 50, 5_000, 300_000, 60_000_000, 3_000_000_000, 90_000_000_000];
            let far = far[rng.below(7) as usize];
            let at = now + rng.below(far);
            queue.push(Time(at), What::Slab(number));
            model.insert((at, number), ());
            if rng.below(5) < 2 {
                let ((at, number), ()) = model.pop_first().unwrap();
                assert_eq!(queue.next_at(), Some(Time(at)));
                assert_eq!(queue.pop(), Some((Time(at), What::Slab(number))));
                now = at;
            }
        }
        while let Some(((at, number), ())) = model.pop_first() {
            assert_eq!(queue.pop(), Some((Time(at), What::Slab(number))));
        }
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    fn what_is_to_happen_comes_back_as_it_was_put() {
        let mut queue = Queue::default();
        for what in [What::Wake(u32::MAX), What::Slab(0), What::Call(7)] {
            queue.push(Time((1 << 48) - 1), what);
            assert_eq!(queue.pop().map(|(_, what)| what), Some(what));
        }
    }
}
