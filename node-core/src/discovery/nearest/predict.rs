//! Modification: leaves that are taken for a short time only need not say that they are free
//! again.
//!
//! A leaf tells how long it is usually at work, with whatever it tells. Its parent then counts it
//! as free again after twice that time, and says so when it gives it tasks; only a leaf that is
//! still at work by then says a word. While few are free, the parent wants to know at once.

use super::state::UNUSUAL;
use super::{Nearest, Timer};
use crate::ids::NodeId;
use crate::protocol::Cx;
use crate::time::Time;
use std::time::Duration;

const EIGHTH: Duration = Duration::from_millis(125);

/// The longest usual time that is predicted, in eighths of a second. Our choice: for what takes
/// longer, a message is nothing.
const USUAL_MAX: u8 = 40;

/// Added at the parent: there and back on a bad line, so that a leaf's word comes before.
const SLACK: Duration = Duration::from_millis(500);

/// How long this node is at work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    since: Option<Time>,
    mean: Option<Duration>,
    /// So many slots count as free again at that time, if nothing is said.
    returns: Option<(Time, u32)>,
}

impl Usual {
    pub(super) fn told(&self) -> u8 {
        let eighths = self.mean.map_or(u128::MAX, |mean| mean.as_millis() / EIGHTH.as_millis() + 1);
        u8::try_from(eighths).unwrap_or(UNUSUAL)
    }

    pub(super) fn returning(&self) -> u32 {
        self.returns.map_or(0, |(_, slots)| slots)
    }

    /// The parent knows how it stands.
    pub(super) fn said(&mut self) {
        self.returns = None;
    }
}

impl Nearest {
    /// Learns how long it is at work.
    pub(super) fn watch_work(&mut self, cx: &Cx<'_, Self>) {
        let idle = self.own_slots.free() == self.own_slots.slots();
        match self.usual.since {
            Some(since) if idle => {
                let took = cx.now.since(since);
                self.usual.since = None;
                self.usual.mean = Some(self.usual.mean.map_or(took, |mean| (mean * 3 + took) / 4));
            }
            None if !idle => self.usual.since = Some(cx.now),
            _ => {}
        }
    }

    /// Whether at least two fifths of what is below are free. Our choice: with less, places that are free
    /// and not counted so send requests up.
    pub(super) fn has_plenty(&self) -> bool {
        let (free, slots) = self.branch.children.iter().fold((0u64, 0u64), |(free, slots), e| {
            (free + u64::from(e.bounds.high), slots + u64::from(e.state.slots))
        });
        free * 5 >= slots * 2
    }

    /// A leaf is given tasks: after how many eighths of a second it counts as free again.
    pub(super) fn predict(&mut self, leaf: NodeId, tasks: u32, cx: &mut Cx<'_, Self>) -> u8 {
        let Some(entry) = self.branch.child(leaf).filter(|e| e.state.usual <= USUAL_MAX) else { return 0 };
        let back = entry.state.usual * 2;
        let after = EIGHTH * u32::from(back) + SLACK;
        entry.predict(cx.now + after, tasks);
        cx.set_timer_by(Timer::Returns, after);
        back
    }

    /// A guest that hears of nothing: without units it is free again after the lease.
    pub(super) fn keep_for_guest(&mut self, guest: NodeId, tasks: u32, asked: u32, cx: &mut Cx<'_, Self>) {
        let after = self.config.lease_for(asked);
        if let Some(entry) = self.branch.child(guest) {
            entry.predict(cx.now + after, tasks);
            cx.set_timer_by(Timer::Returns, after);
        }
    }

    /// The leaf's side.
    pub(super) fn will_return(&mut self, slots: u32, back: u8, cx: &mut Cx<'_, Self>) {
        if back > 0 {
            let after = EIGHTH * u32::from(back);
            let slots = slots.saturating_add(self.usual.returning());
            self.usual.returns = Some((cx.now + after, slots));
            cx.set_timer(Timer::Returns, after);
        }
    }

    pub(super) fn return_slots(&mut self, cx: &mut Cx<'_, Self>) {
        if let Some((_, slots)) = self.usual.returns.take_if(|(at, _)| *at <= cx.now) {
            self.branch.up.come_back(slots);
            // If it is still at work, that is news now.
            self.tell(true, cx);
        }
        for entry in &mut self.branch.children {
            entry.come_back(cx.now);
        }
        let next = self.branch.children.iter().filter_map(|e| e.returns_at());
        if let Some(next) = next.chain(self.usual.returns.map(|(at, _)| at)).min() {
            cx.set_timer(Timer::Returns, next.since(cx.now));
        }
    }
}
