//! Early binding, as in paper `match`, section 2: the owner chooses the node that is to run a job among some that can, by
//! the lengths of their queues, and the job waits there, first come first served. It is here for comparison: no command
//! sets it.
//!
//! The queue of a run node is one of marks, each of which is left with that node alone. Paper `match` has the run node send
//! a heartbeat for each job in its queue; here the owner keeps the connection to it, and chooses anew when that ends.

use super::message::{Ability, Message, ToMeeting, ToNode, ToOwner};
use super::{Event, Fcx, Fitting, Timer};
use crate::address::{Address, Contact};
use crate::capability::Capability;
use crate::ids::{JobId, NodeId};
use crate::requires::Binding;
use std::collections::BTreeMap;
use std::time::Duration;

/// Nodes among which the owner chooses (k of the paper, which names no number). Our choice: with 2 jobs waited far longer in
/// a model, and with more than 8 the search finds strong nodes first.
const CANDIDATES: u16 = 8;

/// Time for which the lengths of queues are waited for. Our choice: two round trips around the world, and a dial.
const ANSWERS: Duration = Duration::from_secs(3);

/// Time after which nodes are searched for again if there was none. Our choice: the tree knows of one after several
/// seconds.
const AGAIN: Duration = Duration::from_secs(30);

/// Choice of a run node for a job.
#[derive(Debug, Default)]
pub(super) struct Choice {
    waits: BTreeMap<NodeId, Contact>,
    best: Option<(u32, Contact)>,
}

impl Fitting {
    pub(super) fn binds_early(&self) -> bool {
        self.binding != Binding::Pull
    }

    /// Has nodes searched for that can run the job.
    pub(super) fn bind_early(&mut self, job: JobId, cx: &mut Fcx<'_>) {
        let Some(waiting) = self.waiting.get(&job) else { return };
        let needs = waiting.asks().needs;
        let number = self.searches.ask(job);
        cx.set_timer(Timer::Renew(job), AGAIN);
        cx.emit(Event::Search { number, job, needs, wanted: CANDIDATES });
    }

    /// These can run it: they are asked for the lengths of their queues.
    pub(super) fn choose(&mut self, job: JobId, capable: &[Address], cx: &mut Fcx<'_>) {
        let hops = capable.iter().filter_map(Address::first_hop);
        let waits: BTreeMap<NodeId, Contact> = hops.map(|hop| (hop.id, hop)).collect();
        if waits.is_empty() || !self.waiting.contains_key(&job) {
            return;
        }
        if let (Some(only), 1) = (waits.values().next(), waits.len()) {
            // Somebody else has chosen it.
            self.choices.insert(job, Choice { best: Some((0, *only)), ..Choice::default() });
            return self.bind(job, cx);
        }
        waits.values().for_each(|hop| cx.send_to(*hop, Message::ToMeeting(ToMeeting::Ask { job })));
        self.choices.insert(job, Choice { waits, best: None });
        cx.set_timer(Timer::Choose(job), ANSWERS);
    }

    /// Jobs before one that would come to this node now.
    pub(super) fn queue(&self) -> u32 {
        u32::try_from(self.marks.len()).unwrap_or(u32::MAX).saturating_add(self.own.taken())
    }

    pub(super) fn queue_is(&mut self, from: NodeId, job: JobId, length: u32, cx: &mut Fcx<'_>) {
        let Some(choice) = self.choices.get_mut(&job) else { return };
        let Some(contact) = choice.waits.remove(&from) else { return };
        let is_shorter = choice.best.is_none_or(|(shortest, _)| length < shortest);
        if is_shorter {
            choice.best = Some((length, contact));
        }
        if choice.waits.is_empty() {
            self.bind(job, cx);
        }
    }

    /// All have answered, or no more are waited for: the job goes to the node with the shortest queue.
    pub(super) fn bind(&mut self, job: JobId, cx: &mut Fcx<'_>) {
        cx.cancel_timer(Timer::Choose(job));
        if let Some((_, contact)) = self.choices.remove(&job).and_then(|choice| choice.best) {
            cx.cancel_timer(Timer::Renew(job));
            self.mark_with(job, vec![contact.into()], cx);
            self.hold_meetings(cx);
        }
    }

    /// The node is gone: others are chosen for the jobs in its queue.
    pub(super) fn run_node_gone(&mut self, node: NodeId, cx: &mut Fcx<'_>) {
        if !self.binds_early() {
            return;
        }
        let bound = |at: &Contact| at.id == node;
        let lost = self.waiting.iter().filter(|(_, job)| job.capable().iter().any(bound));
        let lost: Vec<JobId> = lost.map(|(job, _)| *job).collect();
        lost.into_iter().for_each(|job| self.bind_early(job, cx));
    }

    /// Run nodes of jobs that are bound, whose connections are kept.
    pub(super) fn run_nodes(&self) -> impl Iterator<Item = Contact> {
        // With pull all jobs that wait would be gone through for nothing, at each mark.
        let bound = self.binds_early().then(|| self.waiting.values());
        bound.into_iter().flatten().flat_map(|job| job.capable().iter().copied())
    }

    /// Tells how many jobs wait here or run, if that has changed.
    pub(super) fn tell_queue(&mut self, cx: &mut Fcx<'_>) {
        if !self.binds_early() {
            return;
        }
        let now = self.queue();
        if std::mem::replace(&mut self.told_queue, now) != now {
            cx.emit(Event::Queue(now));
        }
    }

    /// An idle node is told of a job in the queue of this one, which it may claim.
    pub(super) fn stolen(&mut self, by: Contact, capability: &Capability, cx: &mut Fcx<'_>) {
        let able = Ability { capability: *capability, ..Ability::default() };
        let lines = self.marks.best_for(&able, cx.now);
        if !lines.is_empty() {
            cx.send_to(by, Message::ToNode(ToNode::Lines { meeting: u8::MAX, node: by.id, lines }));
        }
    }

    pub(super) fn ask_queue(&mut self, from: NodeId, job: JobId, cx: &mut Fcx<'_>) {
        let length = self.queue();
        cx.send(from, Message::ToOwner(ToOwner::Queue { job, length }));
    }
}
