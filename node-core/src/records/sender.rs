//! Nodes whose copies count. The signature on a record proves its publisher, and not that the publisher was
//! first: so a copy counts only from a node that the ring of nodes names for its key.

use super::table::From;
use super::{Rcx, Records};
use crate::circle::{Point, Range};
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// How long copies from the previous owner of an arc may say who was first. Our choice: a dial, a
/// question and its answers on a slow line.
const HANDOVER: Duration = Duration::from_secs(60);

/// Handovers that are remembered; the oldest makes room. Our choice: more than neighbours that come
/// and go within that time.
const HANDOVERS: usize = 16;

/// An arc that this node took over.
#[derive(Debug)]
pub(super) struct Handover {
    from: NodeId,
    range: Range,
    at: Time,
}

impl Records {
    /// The role of a sender for a key; `None`: the ring does not name it, and its copies do not count.
    pub(super) fn role(&self, from: NodeId, key: Point, cx: &Rcx<'_>) -> Option<From> {
        if !self.share.owns(key) {
            return self.arc_of(from, cx.me).filter(|arc| arc.contains(key)).map(|_| From::Owner);
        }
        let gave = |it: &Handover| it.from == from && it.range.contains(key) && is_recent(it, cx.now);
        if self.handovers.iter().any(gave) {
            return Some(From::PreviousOwner);
        }
        self.share.has_replica_at(from).then_some(From::Replica)
    }

    /// Whether copies of this sender count for any key.
    pub(super) fn has_a_role(&self, from: NodeId, cx: &Rcx<'_>) -> bool {
        self.handovers.iter().any(|it| it.from == from && is_recent(it, cx.now))
            || self.share.has_replica_at(from)
            || self.arc_of(from, cx.me).is_some()
    }

    /// The arc of a node of which this one keeps copies.
    pub(super) fn arc_of(&self, node: NodeId, me: NodeId) -> Option<Range> {
        // Twice as far as copies go: dead members stand in between for a moment.
        let near = 2 * self.config.copies;
        let at = self.predecessors.iter().take(near).position(|other| *other == node)?;
        // The last that is known reaches around to this node.
        let after = self.predecessors.get(at + 1).copied().unwrap_or(me);
        Some(Range { after: Point::of_node(after), upto: Point::of_node(node) })
    }

    pub(super) fn hands_over(&mut self, from: NodeId, range: Range, now: Time) {
        self.handovers.retain(|it| is_recent(it, now));
        if self.handovers.len() >= HANDOVERS {
            self.handovers.remove(0);
        }
        self.handovers.push(Handover { from, range, at: now });
    }
}

fn is_recent(handover: &Handover, now: Time) -> bool {
    now.since(handover.at) <= HANDOVER
}
