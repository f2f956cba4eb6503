//! Programs that nodes refuse. A refused unit is not tried again: each further node would have to compile
//! the program, which may be made to cost it a minute and gigabytes. After two nodes refused it, the job's
//! waiting units are held, until a unit of the job shows that the program runs somewhere.

use super::{Owner, nodes};
use crate::ids::{JobId, NodeId, UnitId};
use crate::platform::Platform;
use crate::protocol::Cx;
use std::collections::BTreeSet;

/// Native nodes that refuse a program before its job is held. Our choice: one may be short of memory or slow.
const NODES: usize = 2;

/// Nodes that refused a job's program.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    by: BTreeSet<NodeId>,
    /// The last words of such a node, for people.
    why: String,
    /// Why this node, which owns units of it for another gateway, found that no node can run it.
    pub(super) unfit: Option<String>,
    /// A unit has run somewhere: those who refuse speak for themselves.
    pub(super) runs: bool,
}

impl Refusals {
    /// Whether units of the job are placed nowhere.
    fn bars(&self) -> bool {
        !self.runs && (self.by.len() >= NODES || self.unfit.is_some())
    }

    /// Behind "unit 7".
    fn reason(&self) -> String {
        match &self.unfit {
            Some(why) => format!("is set aside by its owner: {why}"),
            None => format!(
                "is set aside: {NODES} nodes refused the job's program, the last of them because {}; it is \
                 placed once another unit of the job has run",
                self.why
            ),
        }
    }
}

impl Owner {
    /// Whether the job's program may run at others although this node refuses it: a unit has run already, or
    /// the node is a page. Pages differ from servers in what they compile, and refuse within a moment.
    pub(super) fn may_run_elsewhere(&self, from: NodeId, id: JobId, cx: &Cx<'_, Self>) -> bool {
        let is_page = || nodes::platform(from, cx.peers) == Platform::Browser;
        self.jobs.get(&id).is_some_and(|job| job.refusals.runs) || is_page()
    }

    /// A node refused the program of a unit that it was granted: the job's next units go elsewhere.
    pub(super) fn refused_by(&mut self, from: NodeId, id: JobId, why: &str, cx: &Cx<'_, Self>) {
        let may_run_elsewhere = self.may_run_elsewhere(from, id, cx);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let why: String = why.chars().take(super::lease::REASON_MAX).collect();
        job.avoided.failed(from, &format!("{} refused its program: {why}", from.short()), cx.now);
        if !may_run_elsewhere {
            if job.refusals.by.len() < NODES {
                job.refusals.by.insert(from);
            }
            job.refusals.why = why;
        }
    }

    /// Waiting units of a job whose program is refused are held.
    pub(super) fn hold_refused(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.is_active() && job.refusals.bars()) else {
            return;
        };
        let (mut held, why) = (Vec::new(), job.refusals.reason());
        while let Some(index) = self.book.next_waiting(id) {
            self.book.hold(UnitId { job: id, index }, why.clone(), true);
            held.push(index);
        }
        self.tell_held(id, &held, cx);
    }

    /// A unit of the job has run, at whatever node: the program is none that nobody can run.
    pub(super) fn has_run(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.refusals.runs) else { return };
        job.refusals.runs = true;
        self.delegation.runs(id);
        if self.release_refused(id, cx) {
            self.touch(id, cx);
            self.look(cx);
        }
    }

    /// Units that were held because of the program wait again, if they may. Whether there are any.
    pub(super) fn release_refused(&mut self, id: JobId, cx: &mut Cx<'_, Self>) -> bool {
        if self.jobs.get(&id).is_none_or(|job| job.refusals.bars()) {
            return false;
        }
        let released = self.book.release_barred(id);
        self.tell_held(id, &released, cx);
        !released.is_empty()
    }

    /// Announces which units of another gateway's job are held, by writing their records.
    fn tell_held(&mut self, id: JobId, units: &[u32], cx: &mut Cx<'_, Self>) {
        if self.jobs.get(&id).is_some_and(|job| !job.is_own()) {
            units.iter().for_each(|index| self.write_record(UnitId { job: id, index: *index }, cx));
        }
    }
}
