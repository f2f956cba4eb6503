//! How much memory others' units take here by what is said of them. Their number is bounded
//! ([`crate::node::config::Bounds::wards`]), and one of them may have a description of a MiB.

use super::Owner;
use crate::ids::JobId;
use crate::work::ward::{Part, Ward};
use crate::work::weight::{of_template, of_unit};

/// Bytes of descriptions. Our choice: 1,000 units of files' names and arguments of 64 KiB each; a gateway
/// whose units find no room on the ring keeps them.
const DESCRIPTIONS: u64 = 64 << 20;

/// A description below this is not weighed: the number of units bounds it, to as many bytes again.
const LIGHT: u64 = 2 << 10;

pub(super) const NO_ROOM: &str = "descriptions of units take as much of its memory as they may";

fn of_ward(ward: &Ward) -> u64 {
    ward.spec.as_ref().map_or(0, of_unit)
}

impl Owner {
    /// Whether a unit of another gateway's may be known here, its own or as a copy.
    pub(super) fn has_room_for(&self, job: JobId, part: &Part, ward: &Ward) -> bool {
        let known = |job: &JobId| self.jobs.contains_key(job) || self.wards.parts.contains_key(job);
        let of_part = if known(&job) { 0 } else { of_template(&part.template) };
        let new = of_part + of_ward(ward);
        new < LIGHT || new.saturating_add(self.descriptions()) <= DESCRIPTIONS
    }

    fn descriptions(&self) -> u64 {
        let owned = self.jobs.values().filter_map(|job| Some((job, job.ward.as_ref()?)));
        let owned = owned.map(|(job, wardship)| {
            of_template(&job.spec.template) + wardship.wards.values().map(of_ward).sum::<u64>()
        });
        let parts = self.wards.parts.values().map(|part| of_template(&part.template));
        let copies = self.wards.replicas.values().map(|copy| {
            let next = copy.next.as_ref().map(|next| of_ward(&next.1) + of_template(&next.2.template));
            of_ward(&copy.ward) + next.unwrap_or(0)
        });
        owned.chain(parts).chain(copies).sum()
    }
}
