//! The node as people see it.

use super::Node;
use super::config::Config;
use super::snapshot::NodeView;
use crate::discovery::connected::Connected;
use crate::ids::{JobId, NodeId};
use crate::time::Time;
use crate::work::owner::Owner;
use crate::work::runner::Runner;
use crate::work::spec::JobSpec;
use crate::work::view::{JobView, Partial, ThreadView, UnitView, WorkView};
use std::collections::BTreeMap;

impl Node {
    pub fn id(&self) -> NodeId {
        self.me
    }

    fn owner(&self) -> Option<&Owner> {
        self.state()
    }

    /// Whether everything kept from an earlier life has been read.
    pub fn is_ready(&self) -> bool {
        self.owner().is_none_or(Owner::is_ready)
    }

    /// Whether nothing is held for others any more, not even a result.
    pub fn is_drained(&self) -> bool {
        self.state::<Runner>().is_none_or(Runner::is_empty) && self.is_left()
    }

    /// This node, then its neighbours.
    pub fn nodes(&self, now: Time) -> Vec<NodeView> {
        let view = |id, name: &str, platform, gateway, guest, silent_us| {
            let offer = self.state::<Connected>().and_then(|finder| finder.offer_of(id)).unwrap_or_default();
            let (held, units_done, cpu_us) = self.owner().map(|owner| owner.work_of(id)).unwrap_or_default();
            NodeView {
                id,
                name: name.into(),
                platform,
                gateway,
                guest,
                over: self.peers().connection(id).map(|peer| peer.over),
                via: self.relayed_by(id),
                me: id == self.me,
                slots: offer.slots,
                free: offer.free,
                held,
                units_done,
                cpu_us,
                silent_us,
            }
        };
        let Config { name, platform, gateway, .. } = &*self.config;
        let guest = self.contact().is_none();
        let mut me = view(self.me, name, *platform, *gateway, guest, 0);
        me.slots = self.state::<Runner>().map_or(0, Runner::slots);
        let mut all = vec![me];
        all.extend(self.peers().all().map(|(id, hello, heard)| {
            let silent_us = now.since(heard).as_micros() as u64;
            let guest = hello.dialable.contact().is_none();
            view(id, &hello.name, hello.platform, hello.gateway, guest, silent_us)
        }));
        all
    }

    /// Whether a gateway that this node was told to join, and is connected to, is reached under this host: its
    /// name, or its address. Anybody can say that it is a gateway of some name; others are not believed.
    pub fn has_gateway_at(&self, host: &str) -> bool {
        self.peers().joined_gateways().any(|hello| hello.is_reached_at(host))
    }

    /// Names by which people know nodes: those that are here, and those that left.
    pub fn names(&self) -> BTreeMap<NodeId, String> {
        let gone = self.neighbours.machine.state().names_of_the_gone();
        let here = self.peers().all().map(|(id, hello, _)| (id, &*hello.name));
        let me = (self.me, self.config.name.as_str());
        gone.chain(here).chain([me]).map(|(id, name)| (id, name.to_owned())).collect()
    }

    /// Jobs that this node owns, newest first.
    pub fn jobs(&self) -> Vec<JobView> {
        self.owner().map(Owner::jobs).unwrap_or_default()
    }

    pub fn job(&self, job: JobId) -> Option<JobView> {
        self.owner()?.job(job)
    }

    /// Units of the job that waited: when, in milliseconds since 1970, and how many from then on.
    pub fn job_queue(&self, job: JobId) -> &[(u64, u32)] {
        self.owner().map_or(&[], |owner| owner.queue(job))
    }

    /// Threads of a job that is a virtual computer, from number `from` on.
    pub fn threads(&self, job: JobId, from: u32, limit: u32) -> Option<Vec<ThreadView>> {
        self.owner()?.threads(job, from, limit)
    }

    /// Partial results of a job's threads from that number on, as far as they are kept; and how many there have been.
    pub fn partials(&self, job: JobId, from: u64) -> Option<(u64, Vec<Partial>)> {
        self.owner()?.partials(job, from)
    }

    pub fn job_spec(&self, job: JobId) -> Option<&JobSpec> {
        self.owner()?.spec(job)
    }

    /// Units `from..from + limit` of a job.
    pub fn units(&self, job: JobId, from: u32, limit: u32) -> Option<Vec<UnitView>> {
        self.owner()?.units(job, from, limit)
    }

    /// Work that this node does for others.
    pub fn work(&self, now: Time) -> WorkView {
        let Some(runner) = self.state::<Runner>() else { return WorkView::default() };
        let mut work = runner.work(now);
        // Others own units, too, if the ring has them do so.
        let gateway = |id| self.peers().get(id).is_some_and(|known| known.gateway);
        work.gateways.retain(|id| gateway(*id) || (*id == self.me && self.config.gateway));
        work.idle_reason = if work.busy > 0 {
            None
        } else if work.slots == 0 {
            Some("no slots are given".into())
        } else if runner.is_resting() {
            Some("units failed here one after the other; it rests before it takes more".into())
        } else if work.gateways.is_empty() {
            Some("not connected to a gateway".into())
        } else {
            Some("ready; nobody needs a unit computed right now".into())
        };
        work
    }
}
