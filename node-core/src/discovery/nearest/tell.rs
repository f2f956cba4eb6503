//! Availability: who is told what, and when (paper `tree`, section 4).

use super::branch::News;
use super::message::LEVELS_MAX;
use super::state::State;
use super::{Above, Event, Message, Nearest, Status, Timer};
use crate::ids::NodeId;
use crate::protocol::Cx;
use std::time::Duration;

impl Nearest {
    /// This node's branch, itself included.
    pub(super) fn state(&self) -> State {
        let state = self.branch.state(self.own_slots.state(), &self.config);
        State { usual: self.usual.told(), ..state }
    }

    /// Tells the parent, or the peers in the root group, what has become important; all of it,
    /// or only what is urgent.
    pub(super) fn tell(&mut self, all: bool, cx: &mut Cx<'_, Self>) {
        let (state, config) = (self.state(), self.config.clone());
        let (mut soon, mut later) = (false, false);
        let returning = self.usual.returning();
        let level = self.level;
        let is_leaf = self.level == 0 && state.is_leaf();
        let up = self.parent.map(|parent| (parent.id, true, &mut self.branch.up));
        let beside = self.branch.peers.iter_mut().map(|p| (p.entry.contact.id, false, &mut p.told));
        let beside = beside.filter(|_| self.parent.is_none());
        for (to, is_up, told) in up.into_iter().chain(beside) {
            // Among the root group a word is one for each of them.
            let near = level == 0 || (level == 1 && is_up);
            if is_leaf && !all && returning > 0 && told.will_know(&state, returning) {
                continue;
            }
            match told.news(&state, &config) {
                News::Now if all || !config.quiet() || told.is_urgent(&state, is_leaf, near) => {
                    let got = told.tell(state, &config);
                    self.usual.said();
                    cx.send(to, Message::Status(Status { state, got, refresh: false }));
                }
                News::Now => soon = true,
                News::Later => later = true,
                News::None => {}
            }
        }
        if soon {
            cx.set_timer_by(Timer::Pace, config.pace * u32::from(self.level.clamp(1, 8)));
        }
        if later {
            self.settle_soon(cx);
        }
    }

    pub(super) fn settle_soon(&mut self, cx: &mut Cx<'_, Self>) {
        if self.parent.is_some() || !self.branch.peers.is_empty() || !self.branch.children.is_empty() {
            cx.set_timer_by(Timer::Settle, self.config.settle);
        }
    }

    /// Tells what could wait.
    pub(super) fn settle(&mut self, cx: &mut Cx<'_, Self>) {
        let (state, config) = (self.state(), self.config.clone());
        let waits = |told: &super::branch::Told| told.news(&state, &config) != News::None;
        if self.parent.is_some() && waits(&self.branch.up) {
            self.branch.up.doubt();
        }
        for peer in &mut self.branch.peers {
            if waits(&peer.told) {
                peer.told.doubt();
            }
        }
        if differ(&self.above_for_children(), &self.above_told) {
            self.tell_children(cx);
        }
        cx.emit(Event::Changed);
    }

    /// Tells the children how large the branches above them are.
    fn tell_children(&mut self, cx: &mut Cx<'_, Self>) {
        let slots = self.above_for_children();
        for child in self.branch.children.iter().filter(|c| !c.guest) {
            cx.send(child.contact.id, Message::Above(Above { slots: slots.clone(), tell: false }));
        }
        self.above_told = slots;
    }

    pub(super) fn next_refresh(&mut self, cx: &mut Cx<'_, Self>) {
        let micros = self.config.refresh.as_micros() as u64;
        // Jitter: the whole tree shall not speak at once.
        let after = micros / 2 + cx.rng.below(micros.max(1));
        cx.set_timer(Timer::Refresh, Duration::from_micros(after));
    }

    /// Tells all again, against what was lost.
    pub(super) fn refresh(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.joined && self.parent.is_none() {
            return;
        }
        self.next_refresh(cx);
        let (state, config) = (self.state(), self.config.clone());
        if let Some(parent) = self.parent {
            let got = self.branch.up.tell(state, &config);
            self.usual.said();
            cx.send(parent.id, Message::Status(Status { state, got, refresh: true }));
        } else {
            for peer in &mut self.branch.peers {
                let got = peer.told.tell(state, &config);
                cx.send(peer.entry.contact.id, Message::Status(Status { state, got, refresh: true }));
            }
        }
        for entry in &mut self.branch.children {
            entry.refusals /= 2;
        }
        if self.above_for_children() != self.above_told {
            self.tell_children(cx);
        }
    }

    pub(super) fn status(&mut self, from: NodeId, status: Status, cx: &mut Cx<'_, Self>) {
        let config = self.config.clone();
        let below = if self.branch.is_peer(from) { self.level } else { self.level.saturating_sub(1) };
        let most = config.slots_of_branch(below);
        let Some(entry) = self.branch.entry(from) else {
            return self.misplaced(from, "tells of a branch that is none of this node's", cx);
        };
        let state = status.state;
        let fault = state.impossible().or_else(|| {
            (state.slots > most).then(|| format!("tells of {} slots; its branch holds {most}", state.slots))
        });
        if let Some(fault) = fault {
            return cx.fault(from, fault);
        }
        let before = (entry.bounds, entry.state.slots);
        entry.told(state, status.got, status.refresh, &config);
        let after = (entry.bounds, entry.state.slots);
        if after != before {
            cx.emit(Event::Changed);
        }
        if after.1 != before.1 && differ(&self.above_for_children(), &self.above_told) {
            self.settle_soon(cx);
        }
        if let Some(peer) = self.branch.peer(from)
            && !std::mem::replace(&mut peer.heard, true)
        {
            // It did not know this node for a peer when it was told, and may have dropped that.
            peer.told.doubt();
        }
    }

    /// Declared slots of this node's branch and of those above; the whole network last.
    pub(super) fn above_for_children(&self) -> Vec<u32> {
        if !self.config.changes.straight || self.branch.children.is_empty() {
            return Vec::new();
        }
        let own = self.state().slots;
        let mut slots = vec![own];
        if self.is_at_the_top() {
            slots.push(self.network());
        } else {
            slots.extend(&self.above);
        }
        // A branch cannot have more slots than the one above it; the two are announced at different times.
        let mut least = 0;
        for n in &mut slots {
            least = least.max(*n);
            *n = least;
        }
        slots.truncate(LEVELS_MAX);
        slots
    }

    /// Declared slots of the whole network, as far as known.
    pub(super) fn network(&self) -> u32 {
        let known =
            self.branch.peers.iter().fold(self.state().slots, |n, p| n.saturating_add(p.entry.state.slots));
        if self.is_at_the_top() { known } else { self.above.last().copied().unwrap_or(0).max(known) }
    }

    pub(super) fn hear_above(&mut self, from: NodeId, above: Above, cx: &mut Cx<'_, Self>) {
        if !self.is_parent(from) {
            return self.misplaced(from, "speaks as a parent, and is not this node's", cx);
        }
        if above.slots.len() > LEVELS_MAX || !above.slots.is_sorted() {
            let fault = "tells of branches that are larger than what they are part of".into();
            return cx.fault(from, fault);
        }
        if above.tell {
            self.branch.up.doubt();
        }
        self.above = above.slots;
        self.above.shrink_to_fit();
        if differ(&self.above_for_children(), &self.above_told) {
            self.settle_soon(cx);
        }
    }
}

/// Whether children should hear of it soon: by a sixteenth. It only chooses where a large request
/// goes first, and who gets it sends it up if that was wrong; the refresh makes it exact.
fn differ(now: &[u32], told: &[u32]) -> bool {
    now.len() != told.len() || now.iter().zip(told).any(|(n, t)| n.abs_diff(*t) > t / 16)
}
