//! Jobs with requirements: their units wait until a node claims them, which the finder has told of the job.

use super::{Event, Owner};
use crate::ids::{JobId, NodeId};
use crate::protocol::Cx;
use crate::work::book::State;
use crate::work::spec::Find;
use std::collections::BTreeMap;
use std::time::Duration;

impl Owner {
    /// Has the job's waiting units wait for nodes that have what it requires.
    pub(super) fn want(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let job = self.jobs.get(&id).filter(|job| job.is_active());
        let (requires, memory_bytes) = job.map_or_else(Default::default, |job| {
            (job.spec.requires.clone(), job.spec.template.limits.memory_bytes)
        });
        // Runners would not find content that is not here yet.
        let is_ready = job.is_some() && self.delegation.is_here(id);
        let units = if is_ready { self.book.open(id) } else { 0 };
        let submitter = job.map_or(cx.me, |job| job.client);
        let weight = self.config.submitters.get(&submitter).copied().unwrap_or(1);
        let since = job.map(|job| job.submitted_ms).filter(|since| *since > 0);
        let age = since.map_or(0, |since| self.wall_now(cx.now).saturating_sub(since));
        let age = Duration::from_millis(age);
        cx.emit(Event::Want { job: id, requires, memory_bytes, units, submitter, weight, age });
    }

    /// Units of the job wait no more, if they waited.
    pub(super) fn want_less(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        if self.jobs.get(&id).is_some_and(|job| job.spec.find == Find::Fitting) {
            self.want(id, cx);
        }
    }

    /// Tells how many units run for each submitter, if one has jobs that wait for nodes that have what they require.
    pub(super) fn tell_running(&mut self, cx: &mut Cx<'_, Self>) {
        let is_fitting = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.spec.find == Find::Fitting);
        let is_known = self.told_running.is_some_and(|told| cx.now.since(told) < super::LOOK_AGAIN);
        if is_known || !self.active.iter().any(is_fitting) {
            return;
        }
        self.told_running = Some(cx.now);
        let mut running = BTreeMap::new();
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.is_active()) {
            let units = self.book.units(*id).map_or(0, |units| units.count(State::Placed));
            if units > 0 {
                *running.entry(job.client).or_default() += units;
            }
        }
        cx.emit(Event::Running(running));
    }

    /// A node has claimed units of the job, and keeps slots for them.
    pub(super) fn claimed(&mut self, id: JobId, node: NodeId, units: u32, cx: &mut Cx<'_, Self>) {
        let job = self.jobs.get_mut(&id).filter(|job| job.is_active());
        let is_here = job.is_some();
        let is_avoided = job.is_some_and(|job| {
            job.avoided.claims(node);
            job.avoided.contains(node, cx.now)
        });
        let is_ready = is_here && self.delegation.is_here(id);
        let unused = if is_ready { self.grant(node, id, units, cx) } else { units };
        Self::unused(node, unused, cx);
        if is_avoided {
            cx.emit(Event::TurnsAway { job: id, node });
        }
        // The finder may have been told of more in the meantime than there are.
        self.want(id, cx);
        self.touch(id, cx);
    }

    /// Units of the job wait, for this reason.
    pub(super) fn short(&mut self, id: JobId, why: String, cx: &mut Cx<'_, Self>) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.shortage = Some(job.avoided.waits(why));
            self.touch(id, cx);
        }
    }
}
