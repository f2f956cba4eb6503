//! How much a runner takes: enough that no slot waits for the wire, no more than it can soon do.

use super::{Event, Runner, UnitState};
use crate::discovery::Offer;
use crate::protocol::Cx;
use crate::time::Time;
use std::time::Duration;

/// Work queued in the node for each slot. Our choice: several times a far peer's round trip,
/// and short enough that a job's end is not delayed by a queue.
const QUEUE: Duration = Duration::from_millis(250);

/// Work queued in the engine itself, and one unit at least. Our choice: hides the hop to the
/// engine's process, and a killed engine loses next to nothing.
const ENGINE_QUEUE: Duration = Duration::from_millis(4);

/// How long units have been taking, per slot.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Moving average, nanoseconds; none before the first end.
    unit_ns: Option<u64>,
    last_end: Time,
}

impl Pace {
    /// A unit ended that was handed over at `since`; how long it took, as far as that shows.
    pub(super) fn ended(&mut self, now: Time, since: Time, slots: u32) -> Duration {
        // In a busy engine the distance of ends tells more than the time since the hand-over,
        // which includes the engine's queue.
        let gap = now.since(self.last_end).as_nanos() as u64 * u64::from(slots.max(1));
        let sample = gap.min(now.since(since).as_nanos() as u64);
        self.last_end = now;
        self.unit_ns = Some(match self.unit_ns {
            // From few samples the larger is believed, so that long units are not hoarded.
            None => sample,
            Some(old) => (old * 15 + sample) / 16,
        });
        Duration::from_nanos(sample)
    }

    /// How many units of the usual length fill `time`, at most `most`.
    fn fit(&self, time: Duration, most: u64) -> u64 {
        match self.unit_ns {
            None => 0,
            Some(ns) => (time.as_nanos() as u64 / ns.max(1)).min(most),
        }
    }

    pub(super) fn engine_depth(&self, slots: u32) -> usize {
        slots as usize * (1 + self.fit(ENGINE_QUEUE, 127).max(1) as usize)
    }

    /// Whether a slot that is busy is free again soon. Our choice: half of what a place that was bought
    /// is kept.
    pub(super) fn is_quick(&self) -> bool {
        self.unit_ns.is_some_and(|ns| ns <= 5_000_000_000)
    }

    fn queue(&self, slots: u32) -> u32 {
        // Without experience: one to run and one to follow it.
        slots.saturating_mul(1 + self.fit(QUEUE, 1 << 20).max(1) as u32)
    }
}

impl Runner {
    /// Tells each owner what this node would take now, if that is news.
    pub(super) fn offer(&mut self, cx: &mut Cx<'_, Self>) {
        let slots = if self.is_closed() { 0 } else { self.slots };
        let idle = |ledger: &super::owners::Ledger| ledger.suspended + ledger.outbox.len() as u32;
        let ended: u32 = self.owners.values().map(|ledger| idle(ledger)).sum();
        let held = self.units.len() as u32;
        let busy = held - ended.min(held);
        let target = if slots == 0 { 0 } else { self.pace.queue(slots) };
        let room = target.saturating_sub(busy).min(self.config.limits.held_units.saturating_sub(held));
        let free = slots.saturating_sub(busy);
        let memory_bytes = self.terms.memory_bytes;
        let (engaged, terms) = (&self.engaged, &self.terms);
        for (owner, ledger) in self.owners.iter_mut().filter(|(_, ledger)| ledger.connected) {
            let works_for = terms.work_for(*owner, cx.me);
            let welcome = works_for && !ledger.turned_away;
            let (slots, free) = (if works_for { slots } else { 0 }, if welcome { free } else { 0 });
            let room = if welcome && engaged.takes(*owner, cx.me, ledger.units) {
                engaged.left_for(*owner, room, cx.now)
            } else {
                0
            };
            let known = ledger.offered.map(|offer| {
                let since = u32::try_from(ledger.received - offer.received).unwrap_or(u32::MAX);
                let left = (offer.room.saturating_sub(since), offer.free.saturating_sub(since));
                (offer.slots, left.0, left.1, offer.memory_bytes)
            });
            let news = match known {
                None => true,
                // Told again only when a good part of the queue has run off, or a slot idles.
                Some((known_slots, known_room, known_free, known_memory)) => {
                    known_slots != slots
                        || known_memory != memory_bytes
                        || (room < known_room && room == 0)
                        || room.saturating_sub(known_room) >= (target / 4).max(1)
                        || (free > known_free && known_room == 0 && room > 0)
                        // Whom it does not work for hears only whether it is idle.
                        || (room == 0 && (free == 0) != (known_free == 0))
                }
            };
            if news {
                let offer = Offer { slots, free, room, received: ledger.received, memory_bytes };
                ledger.offered = Some(offer);
                cx.emit(Event::Offer { to: *owner, offer });
            }
        }
    }

    /// Units handed to the engine, at most one a slot counted.
    pub(super) fn busy(&self) -> u32 {
        let running =
            self.units.values().filter(|u| matches!(u.state, UnitState::Running { .. })).count() as u32;
        running.min(self.slots.max(1))
    }
}
