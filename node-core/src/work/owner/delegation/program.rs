//! Programs of other gateways' units are looked into before any node is given one, as the program of a job
//! that comes over the wire is (`owner/accept`).

use super::Owner;
use crate::ids::JobId;
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::owner::{Event, Pending};
use std::time::Duration;

/// A program that was refused is looked into again after this time: the check itself may have failed, for
/// lack of memory, say. Our choice: the verdict on a bad program is known by then and costs nothing.
const AGAIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Checked {
    #[default]
    Not,
    Asked,
    Fit,
    /// Refused then.
    Unfit(Time),
}

impl Checked {
    fn is_due(self, now: Time) -> bool {
        match self {
            Checked::Not => true,
            Checked::Asked | Checked::Fit => false,
            Checked::Unfit(at) => now.since(at) >= AGAIN,
        }
    }
}

impl Owner {
    /// Looks into the program of another gateway's units, if it is here.
    pub(super) fn look_into(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (program, memory_bytes) = (job.spec.template.program.id, job.spec.template.limits.memory_bytes);
        let Some(ownership) =
            job.delegated.as_mut().filter(|it| it.has_content() && it.program.is_due(cx.now))
        else {
            return;
        };
        ownership.program = Checked::Asked;
        let ticket = self.ticket(Pending::DelegatedProgram(id));
        cx.emit(Event::Inspect { ticket, program, memory_bytes });
    }

    /// The program can run, or why not: its units are held then, and their home is told.
    pub(in crate::work::owner) fn looked_into(
        &mut self,
        id: JobId,
        result: Result<(), String>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(ownership) = &mut job.delegated else { return };
        ownership.program = match &result {
            Ok(()) => Checked::Fit,
            Err(_) => Checked::Unfit(cx.now),
        };
        job.refusals.unfit = result.err();
        self.release_refused(id, cx);
        self.touch(id, cx);
        self.look(cx);
    }

    /// Programs that were refused a while ago are looked into again.
    pub(super) fn look_into_again(&mut self, cx: &mut Cx<'_, Self>) {
        let refused = |ownership: &super::Ownership| matches!(ownership.program, Checked::Unfit(_));
        let jobs = self.jobs.iter().filter(|(_, job)| job.delegated.as_deref().is_some_and(refused));
        let jobs: Vec<JobId> = jobs.map(|(id, _)| *id).collect();
        jobs.into_iter().for_each(|id| self.look_into(id, cx));
    }
}
