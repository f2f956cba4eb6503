//! Leader conflict: a second node says that it is the coordinator of the root group while the first seems to
//! live.
//!
//! Our choice: a member asks the coordinator that it follows, and a coordinator asks its members. A
//! coordinator that does not answer, or that most members do not stand by, gives way, as it must when it and
//! the others have lost each other. So no node becomes coordinator by saying so while the old one lives and
//! is heard, and nothing waits for ever.

use super::message::{Message, Record, Timer};
use super::root::TERMS_MAX;
use super::{Claim, Tcx, Tree};
use crate::ids::NodeId;
use std::time::Duration;

/// Until a claim holds that nobody spoke against. Our choice: there and back on a slow line.
const SPEAK_UP: Duration = Duration::from_secs(2);

impl Tree {
    /// Keeps a record of another coordinator back, if this member's own may know better.
    pub(super) fn doubted(&mut self, record: &Record, cx: &mut Tcx<'_>) -> bool {
        let Some(root) = self.root() else { return false };
        let writes = root.writer == cx.me;
        let expected = record.writer == root.writer || root.successor_root == Some(record.writer);
        if expected || !writes && !self.is_up(root.writer) {
            return false;
        }
        let ask: Vec<NodeId> = if writes { self.electors(record.writer, cx.me) } else { vec![root.writer] };
        if ask.is_empty() {
            return false;
        }
        let Some(root) = self.root_mut() else { return false };
        if let Some(claim) = &mut root.claim {
            claim.record = record.clone();
            return true;
        }
        root.claim = Some(Box::new(Claim { record: record.clone(), votes: Vec::new() }));
        for id in ask {
            cx.send(id, Message::Refresh { epoch: 0, level: self.level, count: 0 });
        }
        cx.set_timer(Timer::Elect, SPEAK_UP);
        true
    }

    /// The members that can be asked.
    fn electors(&self, claims: NodeId, me: NodeId) -> Vec<NodeId> {
        let members = self.root().into_iter().flat_map(|r| &r.group.members).map(|m| m.id());
        members.filter(|id| *id != me && *id != claims && self.is_up(*id)).collect()
    }

    /// The coordinator that is followed says that it is there.
    pub(super) fn stands_by(&mut self, from: NodeId) {
        if let Some(root) = self.root_mut().filter(|r| r.writer == from) {
            root.claim = None;
        }
    }

    /// Somebody who is not the coordinator says whom it follows.
    pub(super) fn held(&mut self, from: NodeId, record: Record, cx: &mut Tcx<'_>) {
        let level = self.level;
        let Some(root) = self.root_mut().filter(|r| r.group.get(from).is_some()) else {
            return self.fault(from, "wrote for another coordinator", cx);
        };
        if root.writer == from {
            // It is not the coordinator any more.
            let later =
                (record.term, std::cmp::Reverse(record.writer)) > (root.term, std::cmp::Reverse(root.writer));
            let counted = record.term <= root.term.saturating_add(TERMS_MAX);
            let newer = record.epoch > root.group.epoch;
            let claim = root.claim.take().map(|c| c.record);
            if let Some(record) = Some(record).filter(|r| later && counted && r.level == level).or(claim) {
                self.take_record(record, cx);
            } else if newer {
                // It came in again, to a group that does not go before: so must this one.
                self.asking = None;
                self.orphaned(cx);
            }
        } else if let Some(claim) = &mut root.claim
            && record.writer == cx.me
            && !claim.votes.contains(&from)
        {
            claim.votes.push(from);
        }
    }

    /// The time to speak against a claim is over.
    pub(super) fn decide(&mut self, claim: Claim, cx: &mut Tcx<'_>) {
        let electors = self.electors(claim.record.writer, cx.me);
        let votes = claim.votes.iter().filter(|id| electors.contains(id)).count();
        let Some(root) = self.root_mut() else { return };
        if root.writer != cx.me || 2 * votes <= electors.len() {
            return self.take_record(claim.record, cx);
        }
        root.term = root.term.max(claim.record.term.saturating_add(1));
        self.root_written(cx);
    }
}
