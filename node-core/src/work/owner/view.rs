//! The owner's jobs as people see them.

use super::Owner;
use super::delegation::Out;
use super::job::{Job, Phase, SlotState};
use crate::ids::{JobId, NodeId};
use crate::work::spec::JobSpec;
use crate::work::view::{CostView, JobState, JobView, UnitState, UnitView};

impl Owner {
    /// Newest first.
    pub fn jobs(&self) -> Vec<JobView> {
        let mut jobs: Vec<JobView> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.phase != Phase::Accepting && job.delegated.is_none())
            .map(|(id, job)| view(*id, job))
            .collect();
        jobs.sort_by_key(|job| (std::cmp::Reverse(job.submitted_ms), job.id));
        jobs
    }

    pub fn job(&self, id: JobId) -> Option<JobView> {
        let job = self.own(id)?;
        (job.phase != Phase::Accepting).then(|| view(id, job))
    }

    pub fn spec(&self, id: JobId) -> Option<&JobSpec> {
        self.own(id).map(|job| &job.spec)
    }

    /// A job of this node's, not one of which it owns some units for another.
    fn own(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).filter(|job| job.delegated.is_none())
    }

    pub fn units(&self, id: JobId, from: u32, limit: u32) -> Option<Vec<UnitView>> {
        let job = self.own(id)?;
        let to = from.saturating_add(limit).min(job.units());
        Some((from..to).filter_map(|index| unit_view(job, index)).collect())
    }

    /// Units that `node` holds, units it ended, and the processor time it gave to those.
    pub fn work_of(&self, node: NodeId) -> (u32, u64, u64) {
        let held = self.leases.get(&node).map_or(0, |held| held.count());
        let given = self.jobs.values().filter_map(|job| job.by_node.get(&node));
        let (units, cpu_us) =
            given.fold((0, 0), |(u, c): (u64, u64), (units, cpu)| (u + units, c.saturating_add(*cpu)));
        (held, units, cpu_us)
    }
}

fn state(job: &Job) -> JobState {
    match job.phase {
        Phase::Over { cancelled: true } => JobState::Cancelled,
        Phase::Over { cancelled: false } if job.failed > 0 => JobState::Failed,
        Phase::Over { cancelled: false } => JobState::Done,
        _ if placed(job) > 0 => JobState::Running,
        _ => JobState::Waiting,
    }
}

/// Units that run or are queued somewhere.
fn placed(job: &Job) -> u32 {
    job.placed + job.storing + job.ring.as_ref().map_or(0, |ring| ring.placed())
}

/// Units that their owners on the ring do not place any more.
fn held_elsewhere(job: &Job) -> u32 {
    job.ring.as_ref().map_or(0, |ring| ring.held().count() as u32).min(job.elsewhere)
}

fn view(id: JobId, job: &Job) -> JobView {
    let over = matches!(job.phase, Phase::Over { .. });
    let held = held_elsewhere(job);
    let elsewhere = job.ring.as_ref().map_or(0, |ring| ring.placed()).min(job.elsewhere - held);
    JobView {
        id,
        name: job.spec.name.clone(),
        state: state(job),
        reason: reason(job),
        units: job.units(),
        waiting: if over { 0 } else { job.waiting() + job.away + job.elsewhere - elsewhere - held },
        placed: if over { 0 } else { job.placed + job.storing + elsewhere },
        done: job.done,
        failed: job.failed,
        held: if over { 0 } else { job.held + held },
        duplicates: job.duplicates,
        lost_placements: job.lost_placements,
        cpu_us: job.cpu_us,
        submitted_ms: job.submitted_ms,
        ended_ms: job.ended_ms,
        cost: job.deals.as_ref().map(|deals| CostView {
            most: deals.most,
            held: deals.held,
            paid: deals.paid,
        }),
        by_node: job.by_node.iter().map(|(node, (units, cpu))| (*node, *units, *cpu)).collect(),
    }
}

fn reason(job: &Job) -> String {
    let first_note = || {
        let here = job.reasons.first_key_value().map(|(index, reason)| (*index, reason.as_str()));
        match here.or_else(|| job.ring.as_ref()?.held().next()) {
            Some((index, reason)) => format!("unit {index} {reason}"),
            None => "a unit failed".into(),
        }
    };
    let held = job.held + held_elsewhere(job);
    match state(job) {
        JobState::Cancelled => {
            format!("cancelled with {} of {} units ended", job.done + job.failed, job.units())
        }
        JobState::Failed if job.units() == 1 => first_note(),
        JobState::Failed => format!("{} of {} units failed; {}", job.failed, job.units(), first_note()),
        JobState::Done if job.units() == 1 => "its one unit ended well".into(),
        JobState::Done => format!("all {} units ended well", job.units()),
        JobState::Running => {
            let mut text = match placed(job) {
                1 => "1 unit is placed".to_owned(),
                placed => format!("{placed} units are placed"),
            };
            if let Some(shortage) = job.shortage.as_ref().filter(|_| job.waiting() > 0) {
                text += &format!(", {} wait: {shortage}", job.waiting());
            }
            text
        }
        JobState::Waiting if held > 0 && job.waiting() + job.elsewhere + job.held == held => match held {
            1 => format!("1 unit is held; {}", first_note()),
            _ => format!("{held} units are held; {}", first_note()),
        },
        JobState::Waiting => {
            job.shortage.clone().unwrap_or_else(|| "it has just come in; a place is looked for".into())
        }
    }
}

fn newest_is_missing(job: &Job, index: u32) -> bool {
    job.records.get(&index).is_some_and(|record| record.missing.is_some())
}

fn unit_view(job: &Job, index: u32) -> Option<UnitView> {
    let slot = job.slot(index)?;
    let out =
        job.ring.as_ref().and_then(|ring| ring.of(index)).filter(|_| slot.state == SlotState::Elsewhere);
    let runner = out.and_then(|out| Some(out.runner?.id)).or_else(|| job.runner_of(index));
    let owner = out.and_then(|out| out.owner());
    let over = matches!(job.phase, Phase::Over { .. });
    let who = || runner.map_or_else(|| "a node".into(), |r| r.short());
    let (state, reason) = match slot.state {
        SlotState::Done => (UnitState::Done, "ended well".into()),
        SlotState::Failed => (
            UnitState::Failed,
            job.reasons.get(&index).cloned().unwrap_or_else(|| "failed; see its result".into()),
        ),
        _ if over => (UnitState::Cancelled, "the job was cancelled".into()),
        SlotState::Placed | SlotState::Away if job.coming.contains_key(&index) => {
            let from = job.coming.get(&index).map_or_else(who, |node| node.short());
            let state = if slot.state == SlotState::Placed { UnitState::Placed } else { UnitState::Waiting };
            (state, format!("{from} has computed it; what it left is on its way"))
        }
        SlotState::Placed => (UnitState::Placed, format!("on {}, queued or running there", who())),
        SlotState::Storing => {
            (UnitState::Placed, format!("{} has computed it; it is being written down", who()))
        }
        SlotState::Held => (
            UnitState::Held,
            job.reasons.get(&index).cloned().unwrap_or_else(|| "held after repeated losses".into()),
        ),
        SlotState::Away if job.deals.as_ref().is_some_and(|deals| deals.is_buying(index)) => {
            (UnitState::Waiting, "a place is being bought for it".into())
        }
        SlotState::Away => (
            UnitState::Waiting,
            match newest_is_missing(job, index) {
                true => "nodes that keep its checkpoint are away; they are waited for".into(),
                false => format!("{} went silent; it is waited for", who()),
            },
        ),
        SlotState::Elsewhere => elsewhere(out, owner),
        SlotState::Waiting if slot.losses > 0 => (
            UnitState::Waiting,
            format!("came back from {} without a result; a new place is looked for", who()),
        ),
        SlotState::Waiting if slot.failures > 0 => {
            (UnitState::Waiting, format!("failed {} times; it will be tried again", slot.failures))
        }
        SlotState::Waiting => {
            (UnitState::Waiting, job.shortage.clone().unwrap_or_else(|| "a place is looked for".into()))
        }
    };
    let record = job.records.get(&index);
    let newest = record.and_then(|record| record.newest.as_ref());
    let journey = record.map(|record| &record.journey).or(job.journeys.get(&index).map(|journey| &**journey));
    let fuel = journey.and_then(|journey| journey.spans.last()).map_or(0, |span| span.to);
    Some(UnitView {
        index,
        state,
        reason,
        runner,
        attempts: slot.attempts,
        price: runner.and_then(|runner| job.deals.as_ref()?.price(index, runner)),
        paused: job.paused.contains(&index) && !slot.state.has_ended(),
        journey: journey.map(|journey| journey.spans.clone()).unwrap_or_default(),
        merged: journey.is_some_and(|journey| journey.merged),
        checkpoints: journey.map_or(0, |journey| journey.checkpoints),
        fuel,
        checkpoint_fuel: newest.map(|held| held.checkpoint.snapshot.fuel),
        checkpoint_bytes: newest.map(|held| held.checkpoint.snapshot.blob.len),
        keepers: newest.map(|held| held.holders.clone()).unwrap_or_default(),
        lost_fuel: journey.map_or(0, |journey| journey.lost_fuel),
        owner,
    })
}

/// A unit that another node owns.
fn elsewhere(out: Option<&Out>, owner: Option<NodeId>) -> (UnitState, String) {
    let Some((out, owner)) = out.zip(owner) else {
        return (UnitState::Waiting, "its owner on the ring is looked for".into());
    };
    let owner = owner.short();
    match (&out.held, out.runner) {
        (Some(why), _) => (UnitState::Held, why.clone()),
        (None, Some(runner)) => {
            (UnitState::Placed, format!("on {}, says {owner}, which owns it", runner.id.short()))
        }
        (None, None) => (UnitState::Waiting, format!("{owner} owns it and looks for a place")),
    }
}
