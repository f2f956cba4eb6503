//! The owner's jobs as people see them.

use super::job::{Job, Phase};
use crate::ids::{JobId, NodeId};
use crate::work::book::{State, Unit, Units};
use crate::work::delegation::{OnRing, Out};
use crate::work::payments::Deals;
use crate::work::view::{CostView, JobState, JobView, UnitState, UnitView};

/// A job, where its units stand, what was bought for them, and who owns them on the ring.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) job: &'a Job,
    pub(super) units: &'a Units,
    pub(super) deals: Option<&'a Deals>,
    pub(super) ring: Option<&'a OnRing>,
}

fn state(seen: Seen<'_>) -> JobState {
    match seen.job.phase {
        Phase::Over { cancelled: true } => JobState::Cancelled,
        Phase::Over { cancelled: false } if has_failed(seen) => JobState::Failed,
        Phase::Over { cancelled: false } => JobState::Done,
        _ if placed(seen) > 0 => JobState::Running,
        _ => JobState::Waiting,
    }
}

/// A job with threads ends as its first one does.
fn has_failed(Seen { job, units, .. }: Seen<'_>) -> bool {
    match job.spec.template.threads {
        Some(_) => units.get(0).is_some_and(|first| first.state == State::Failed),
        None => units.count(State::Failed) > 0,
    }
}

/// Units that run or are queued somewhere.
fn placed(Seen { units, ring, .. }: Seen<'_>) -> u32 {
    units.count(State::Placed) + units.count(State::Storing) + ring.map_or(0, OnRing::placed)
}

/// Units that their owners on the ring do not place any more.
fn held_elsewhere(Seen { units, ring, .. }: Seen<'_>) -> u32 {
    ring.map_or(0, |ring| ring.held().count() as u32).min(units.count(State::Elsewhere))
}

pub(super) fn view(id: JobId, seen: Seen<'_>) -> JobView {
    let Seen { job, units, deals, .. } = seen;
    let over = matches!(job.phase, Phase::Over { .. });
    let of = |state| units.count(state);
    let held = held_elsewhere(seen);
    let elsewhere = placed_elsewhere(seen);
    JobView {
        id,
        name: job.spec.name.clone(),
        state: state(seen),
        reason: reason(seen),
        units: units.len(),
        waiting: if over { 0 } else { waiting(seen) },
        placed: if over { 0 } else { of(State::Placed) + of(State::Storing) + elsewhere },
        done: of(State::Done),
        failed: of(State::Failed),
        held: if over { 0 } else { of(State::Held) + held },
        duplicates: job.duplicates,
        lost_placements: units.lost_placements(),
        cpu_us: job.cpu_us,
        submitted_ms: job.submitted_ms,
        ended_ms: job.ended_ms,
        cost: deals.map(|deals| CostView { most: deals.most, held: deals.held, paid: deals.paid }),
        by_node: job.by_node.iter().map(|(node, (units, cpu))| (*node, *units, *cpu)).collect(),
    }
}

/// Units without a place, wherever their owners are.
pub(super) fn waiting(seen: Seen<'_>) -> u32 {
    let of = |state| seen.units.count(state);
    let here = of(State::Waiting) + of(State::Away);
    here + of(State::Elsewhere) - placed_elsewhere(seen) - held_elsewhere(seen)
}

/// Units that other owners have placed, as far as this node has heard.
fn placed_elsewhere(seen: Seen<'_>) -> u32 {
    let most = seen.units.count(State::Elsewhere) - held_elsewhere(seen);
    seen.ring.map_or(0, OnRing::placed).min(most)
}

fn reason(seen: Seen<'_>) -> String {
    let Seen { job, units, ring, .. } = seen;
    let (of, waiting) = (|state| units.count(state), units.count(State::Waiting));
    let first_note = || match units.first_reason().or_else(|| ring?.held().next()) {
        Some((index, reason)) => format!("unit {index} {reason}"),
        None => "a unit failed".into(),
    };
    let held = of(State::Held) + held_elsewhere(seen);
    match state(seen) {
        JobState::Cancelled => {
            format!("cancelled with {} of {} units ended", units.ended(), units.len())
        }
        JobState::Failed | JobState::Done if job.spec.template.threads.is_some() => {
            let how = units.reason(0).map_or("ended well".into(), |why| format!("failed: {why}"));
            let left = units.len() - units.ended();
            let others =
                if left > 0 { format!(", and with it {left} that still ran") } else { String::new() };
            format!("the first of its {} threads {how}{others}", units.len())
        }
        JobState::Failed if units.len() == 1 => first_note(),
        JobState::Failed => {
            format!("{} of {} units failed; {}", of(State::Failed), units.len(), first_note())
        }
        JobState::Done if units.len() == 1 => "its one unit ended well".into(),
        JobState::Done => format!("all {} units ended well", units.len()),
        JobState::Running | JobState::Waiting if job.stuck.is_some() => job.stuck.clone().unwrap_or_default(),
        JobState::Running => {
            let mut text = match placed(seen) {
                1 => "1 unit is placed".to_owned(),
                placed => format!("{placed} units are placed"),
            };
            let is_placed = |index: &&u32| units.get(**index).is_some_and(|it| it.state == State::Placed);
            match job.paused.iter().filter(is_placed).count() {
                0 => {}
                1 if placed(seen) == 1 => text += " and paused",
                paused => text += &format!(" ({paused} of them paused)"),
            }
            if let Some(shortage) = job.shortage.as_ref().filter(|_| waiting > 0) {
                text += &format!(", {waiting} wait: {shortage}");
            }
            if let Some(why) = &job.not_kept {
                text += &format!("; {why}");
            }
            text
        }
        JobState::Waiting if held > 0 && waiting + of(State::Elsewhere) + of(State::Held) == held => {
            match held {
                1 => format!("1 unit is held; {}", first_note()),
                _ => format!("{held} units are held; {}", first_note()),
            }
        }
        JobState::Waiting => {
            let waits = || Some(ring?.waits()?.1.to_owned());
            let why = job.not_kept.clone().or_else(|| job.shortage.clone()).or_else(waits);
            why.unwrap_or_else(|| "it has just come in; a place is looked for".into())
        }
    }
}

fn newest_is_missing(job: &Job, index: u32) -> bool {
    job.records.get(&index).is_some_and(|record| record.missing.is_some())
}

pub(super) fn unit_view(Seen { job, units, deals, ring }: Seen<'_>, index: u32) -> Option<UnitView> {
    let unit: Unit = units.get(index)?;
    let out = ring.and_then(|ring| ring.of(index)).filter(|_| unit.state == State::Elsewhere);
    let runner = out.and_then(|out| Some(out.runner?.id)).or_else(|| units.last_runner(index));
    let owner = out.and_then(|out| out.owner());
    let over = matches!(job.phase, Phase::Over { .. });
    let who = || runner.map_or_else(|| "a node".into(), |r| r.short());
    let (state, reason) = match unit.state {
        State::Done => (UnitState::Done, "ended well".into()),
        State::Failed => {
            (UnitState::Failed, units.reason(index).unwrap_or("failed; see its result").to_owned())
        }
        _ if over => (UnitState::Cancelled, "the job was cancelled".into()),
        State::Placed | State::Away if job.coming.contains_key(&index) => {
            let from = job.coming.get(&index).map_or_else(who, |node| node.short());
            let state = if unit.state == State::Placed { UnitState::Placed } else { UnitState::Waiting };
            (state, format!("{from} has computed it; what it left is on its way"))
        }
        State::Placed if job.paused.contains(&index) => (UnitState::Placed, format!("on {}, paused", who())),
        State::Placed => (UnitState::Placed, format!("on {}, queued or running there", who())),
        State::Storing => (UnitState::Placed, format!("{} has computed it; it is being written down", who())),
        State::Held => {
            (UnitState::Held, units.reason(index).unwrap_or("held after repeated losses").to_owned())
        }
        State::Away if deals.is_some_and(|deals| deals.is_buying(index)) => {
            (UnitState::Waiting, "a place is being bought for it".into())
        }
        State::Away => (
            UnitState::Waiting,
            match newest_is_missing(job, index) {
                true => {
                    "nodes that keep its checkpoint are away; they are waited for, 2 minutes at most".into()
                }
                false => format!("{} went silent; it is waited for", who()),
            },
        ),
        State::Elsewhere => elsewhere(out, owner, ring.and_then(OnRing::waits)),
        State::Waiting if unit.losses > 0 => (
            UnitState::Waiting,
            format!("came back from {} without a result; a new place is looked for", who()),
        ),
        State::Waiting if unit.failures > 0 => {
            (UnitState::Waiting, format!("failed {} times; it will be tried again", unit.failures))
        }
        State::Waiting => {
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
        attempts: unit.attempts,
        price: runner.and_then(|runner| deals?.price(index, runner)),
        paused: job.paused.contains(&index) && !over && !unit.state.has_ended(),
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
fn elsewhere(out: Option<&Out>, owner: Option<NodeId>, waits: Option<(NodeId, &str)>) -> (UnitState, String) {
    let Some((out, owner)) = out.zip(owner) else {
        return (UnitState::Waiting, "its owner on the ring is looked for".into());
    };
    let waits = waits.filter(|(of, _)| *of == owner);
    let owner = owner.short();
    match (&out.held, out.runner) {
        (Some(why), _) => (UnitState::Held, why.clone()),
        (None, Some(runner)) => {
            (UnitState::Placed, format!("on {}, says {owner}, which owns it", runner.id.short()))
        }
        (None, None) => {
            let text = format!("{owner} owns it and looks for a place");
            (UnitState::Waiting, waits.map_or(text.clone(), |(_, why)| format!("{text}: {why}")))
        }
    }
}
