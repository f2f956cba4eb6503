//! How much credit a runner gives each owner: enough that no slot waits for the wire, no more than it
//! can soon do.

use super::{Event, Runner, UnitState};
use crate::finding::Offer;
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::SHORT;
use std::time::Duration;

/// Work queued in the node for each slot. Our choice: several times a far peer's round trip,
/// and short enough that a job's end is not delayed by a queue.
const QUEUE: Duration = Duration::from_millis(250);

/// Work queued in the engine itself, and one unit at least. Our choice: hides the hop to the
/// engine's process, and a killed engine loses next to nothing.
const ENGINE_QUEUE: Duration = Duration::from_millis(4);

/// How long units have been taking, per slot.
#[derive(Debug, Default)]
pub(super) struct UnitTimes {
    /// Moving average, nanoseconds; none before the first end.
    unit_ns: Option<u64>,
    last_end: Time,
}

impl UnitTimes {
    /// A unit ended that was handed over at `since`; how long it took, as far as that shows.
    pub(super) fn ended(&mut self, now: Time, since: Time, slots: u32) -> Duration {
        // In a busy engine the distance of ends tells more than the time since the hand-over,
        // which includes the engine's queue.
        let gap = now.since(self.last_end).as_nanos() as u64 * u64::from(slots.max(1));
        let sample = gap.min(now.since(since).as_nanos() as u64);
        self.last_end = now;
        self.unit_ns = Some(match self.unit_ns {
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

    /// Short units are queued, behind others of this node, and one of them at least.
    fn queued(&self, time: Duration, most: u64) -> u64 {
        if self.is_short() { self.fit(time, most).max(1) } else { 0 }
    }

    fn is_short(&self) -> bool {
        self.unit_ns.is_some_and(|ns| Duration::from_nanos(ns) <= SHORT)
    }

    /// Units have waited for so long that no slot was free.
    pub(super) fn waited(&mut self, time: Duration) {
        let ns = time.as_nanos() as u64;
        self.unit_ns = Some(self.unit_ns.map_or(ns, |old| old.max(ns)));
    }

    pub(super) fn engine_depth(&self, slots: u32) -> usize {
        slots as usize * (1 + self.queued(ENGINE_QUEUE, 127) as usize)
    }

    /// Whether a slot that is busy is free again soon. Our choice: half of what a place that was bought
    /// is kept.
    pub(super) fn is_quick(&self) -> bool {
        self.unit_ns.is_some_and(|ns| ns <= 5_000_000_000)
    }

    /// Units that this node wants to have: without experience, or when they are long, one a slot.
    fn target(&self, slots: u32) -> u32 {
        slots.saturating_mul(1 + self.queued(QUEUE, 1 << 20) as u32)
    }
}

impl Runner {
    /// Tells each owner how many units it may place here in all, if that is news.
    ///
    /// Credit is raised at any time, and what was given is honoured. It is lowered only when nothing
    /// at all can be taken from that owner any more.
    pub(super) fn offer(&mut self, cx: &mut Cx<'_, Self>) {
        let slots = if self.is_closed() { 0 } else { self.slots };
        let idle =
            |owner_state: &super::owners::OwnerState| owner_state.suspended + owner_state.outbox.len() as u32;
        let ended: u32 = self.owners.values().map(|owner_state| idle(owner_state)).sum();
        let held = self.units.len() as u32;
        let unfinished = held - ended.min(held);
        let target = if slots == 0 { 0 } else { self.pace.target(slots) };
        // An owner can have this at most: 250 ms of units of 20 us are more than a runner holds.
        let window = target.min(self.config.limits.held_units);
        let room = (target + self.fetching(slots, unfinished)).saturating_sub(unfinished);
        let room = room.min(self.config.limits.held_units.saturating_sub(held));
        let kept = u32::from(self.engaged.has_room(cx.now));
        let free = slots.saturating_sub(unfinished + kept);
        let memory_bytes = self.terms.memory_bytes;
        let (engaged, terms) = (&self.engaged, &self.terms);
        for (owner, owner_state) in self.owners.iter_mut().filter(|(_, owner_state)| owner_state.connected) {
            let works_for = terms.work_for(*owner, cx.me);
            let welcome = works_for && !owner_state.refused;
            let (slots, free) = (if works_for { slots } else { 0 }, if welcome { free } else { 0 });
            let room = if welcome && engaged.takes(*owner, owner_state, (cx.me, cx.now)) {
                engaged.left_for(*owner, room, cx.now)
            } else {
                0
            };
            // Credit that was given, and for which no unit has come yet.
            let open =
                u32::try_from(owner_state.credit.saturating_sub(owner_state.received)).unwrap_or(u32::MAX);
            let news = owner_state.offered.is_none_or(|last| {
                let since = u32::try_from(owner_state.received - last.received).unwrap_or(u32::MAX);
                let known_free = last.free.saturating_sub(since);
                let more = room.saturating_sub(open);
                last.slots != slots
                    || last.memory_bytes != memory_bytes
                    || (open > 0 && room == 0)
                    // Raised when a good part of the window has been used, or a slot would idle.
                    || more >= (window / 4).max(1)
                    || (more > 0 && free > open)
                    // Units of unknown length go to free slots only; and people see who idles.
                    || (free > 0 && known_free == 0)
                    || (room == 0 && free == 0 && known_free > 0)
            });
            if news {
                let open = if room == 0 { 0 } else { room.max(open) };
                owner_state.credit = owner_state.received + u64::from(open);
                owner_state.promised = owner_state.promised.max(owner_state.credit);
                let (credit, received) = (owner_state.credit, owner_state.received);
                let offer = Offer { slots, free, credit, received, memory_bytes };
                owner_state.offered = Some(offer);
                cx.emit(Event::Offer { to: *owner, offer });
            }
        }
    }

    /// Units that wait for their content and leave a slot idle meanwhile: as many may come behind them, at
    /// most two a slot, so that a large input does not keep small units from a slot that has nothing to do.
    fn fetching(&self, slots: u32, unfinished: u32) -> u32 {
        // With more units than that, some of them have content; those that have ended are not counted.
        if unfinished > slots.saturating_mul(4) {
            return 0;
        }
        let fetching = self.units.values().filter(|unit| matches!(unit.state, UnitState::Fetching)).count();
        (fetching as u32).min(slots.saturating_mul(2))
    }

    /// Units handed to the engine, at most one a slot counted.
    pub(super) fn busy(&self) -> u32 {
        let running =
            self.units.values().filter(|u| matches!(u.state, UnitState::Running { .. })).count() as u32;
        running.min(self.slots.max(1))
    }
}
