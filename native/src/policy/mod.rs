//! The donor's policy at work: read from `policy.toml`, held against what the machine is at every
//! few seconds, and acted on.
//!
//! - [`file`]: the settings, as they lie in the data folder.
//! - [`machine`]: what the system says of time, load, battery and terminals.
//! - [`view`]: what is shown, and why, in words.
//!
//! [`node_core::trust::policy`] makes the decisions, as pure functions. This module carries them out: slots,
//! and whether any are given ([`Command::SetDonating`]: running units are handed on); the share of a processor; the
//! memory of a task and whose work is taken ([`Command::Terms`]); which nodes are refused (the driver). Space
//! counts when the node starts, since its bounds are part of the node's configuration.

pub(crate) mod file;
pub(crate) mod machine;
pub(crate) mod view;

use crate::driver::NodeHandle;
use file::{PolicyFile, Stamp};
use node_core::Command;
use node_core::bounds::Bounds;
use node_core::trust::policy::{Conditions, Decision, Policy};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use view::View;

/// Between two looks at the machine. Our choice: a person who comes back does not wait for it, and
/// a look takes less than a millisecond.
const TICK: Duration = Duration::from_secs(2);

/// Memory that a slot should have for its task: what a unit may use unless its submitter says
/// otherwise. Fewer slots are given rather than some that hardly anything fits into.
const USUAL_TASK: u64 = 256 << 20;

/// Resources that a node would give without a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) slots: u32,
    /// Percent of a processor that each unit gets.
    pub(crate) cpu_share: u8,
    /// Memory of one unit, bytes.
    pub(crate) memory_bytes: u64,
}

/// Resources that a decision gives on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) lends: bool,
    /// Tasks at once, if any are given.
    pub(crate) slots: u32,
    pub(crate) cpu_share: u8,
    /// Memory of one task, bytes.
    pub(crate) memory_bytes: u64,
}

impl Measure {
    pub(crate) fn of(now: &Conditions, decision: &Decision, given: &Given) -> Measure {
        let lends = decision.reasons.is_empty();
        // A donor who asked for more slots than there are processors meant it: a policy that allows all
        // processors takes none away.
        let most = if lends && decision.slots < now.processors { decision.slots } else { u32::MAX };
        let memory = decision.memory_bytes.unwrap_or(u64::MAX);
        let fit = u32::try_from(memory / USUAL_TASK).unwrap_or(u32::MAX).max(1);
        let slots = given.slots.min(most).min(fit);
        Measure {
            lends,
            slots,
            cpu_share: given.cpu_share.min(u8::try_from(decision.cpu_pct).unwrap_or(100)),
            memory_bytes: given.memory_bytes.min(memory / u64::from(slots.max(1))),
        }
    }
}

/// Parts of a policy that a market needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SaleTerms {
    pub(crate) works: bool,
    pub(crate) slots: u32,
    pub(crate) cpu_share: u8,
    pub(crate) memory_bytes: u64,
    /// Micro-credits for 10^9 of fuel.
    pub(crate) marginal_cost: u64,
    pub(crate) min_price: u64,
}

/// Bounds on what is kept for others, so that all of it fits `space` bytes.
pub(crate) fn within(mut bounds: Bounds, space: Option<u64>) -> Bounds {
    let Some(space) = space else { return bounds };
    // Programs and inputs are had again, checkpoints are not: those get what is left.
    bounds.cache_bytes = bounds.cache_bytes.min(space / 4);
    // Needed by units while they are here.
    bounds.content_bytes = bounds.content_bytes.min(space / 4);
    let kept = bounds.kept_bytes.min(space - bounds.cache_bytes - bounds.content_bytes);
    // As much of the whole as by default.
    bounds.kept_bytes_per_owner = bounds.kept_bytes_per_owner.min(kept / 4 * 3);
    bounds.kept_bytes = kept;
    bounds
}

/// Source of the machine's conditions; made up in tests.
pub(crate) trait Sensors: Send + 'static {
    fn read(&mut self) -> Conditions;
}

/// A handle to the policy of a running node; clones share it.
#[derive(Clone)]
pub(crate) struct Enforcer(Arc<Shared>);

struct Shared {
    file: PolicyFile,
    given: Given,
    node: NodeHandle,
    state: Mutex<State>,
    sensors: Mutex<Box<dyn Sensors>>,
}

struct State {
    policy: Arc<Policy>,
    stamp: Stamp,
    /// Why the file as it is now does not count.
    trouble: Option<String>,
    now: Conditions,
    decision: Decision,
    done: Measure,
    /// Policy and measure that the node was told last.
    told: Option<(Arc<Policy>, Measure)>,
}

impl Enforcer {
    /// Acts on the policy at once, and from then on every [`TICK`] until the node stops.
    pub(crate) fn start(
        file: PolicyFile,
        policy: Policy,
        given: Given,
        node: NodeHandle,
        mut sensors: Box<dyn Sensors>,
    ) -> Enforcer {
        let stamp = file.stamp();
        let now = sensors.read();
        let decision = policy.decide(&now);
        let done = Measure::of(&now, &decision, &given);
        let policy = Arc::new(policy);
        let state = State { policy, stamp, trouble: None, now, decision, done, told: None };
        let shared = Shared { file, given, node, state: Mutex::new(state), sensors: Mutex::new(sensors) };
        let enforcer = Enforcer(Arc::new(shared));
        enforcer.act(&mut enforcer.state());
        let ticking = enforcer.clone();
        tokio::spawn(async move { ticking.watch().await });
        enforcer
    }

    async fn watch(self) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let looking = self.clone();
            // A disk that hangs must not hold the node.
            if tokio::task::spawn_blocking(move || looking.look()).await.is_err() || self.0.node.has_stopped()
            {
                return;
            }
        }
    }

    /// Reads what changed, decides, and acts.
    fn look(&self) {
        let now = self.sensors().read();
        let stamp = self.0.file.stamp();
        let mut state = self.state();
        if stamp != state.stamp {
            state.stamp = stamp;
            match self.0.file.read() {
                Ok((policy, _)) => (state.policy, state.trouble) = (Arc::new(policy), None),
                Err(why) => {
                    tracing::warn!("{why}; the policy before that change holds");
                    state.trouble = Some(why);
                }
            }
        }
        state.now = now;
        self.decide(state);
    }

    fn decide(&self, mut state: MutexGuard<'_, State>) {
        state.decision = state.policy.decide(&state.now);
        state.done = Measure::of(&state.now, &state.decision, &self.0.given);
        self.act(&mut state);
    }

    /// Tells the node what it does not know yet.
    fn act(&self, state: &mut State) {
        let (policy, done, node) = (state.policy.clone(), state.done, &self.0.node);
        let told = state.told.replace((policy.clone(), done));
        let was = told.as_ref().map(|(_, measure)| *measure);
        let is_new = told.as_ref().is_none_or(|(old, _)| !Arc::ptr_eq(old, &policy));
        if is_new {
            node.refuse_by(policy.clone());
        }
        if is_new || was.is_none_or(|was| was.memory_bytes != done.memory_bytes) {
            node.command(Command::Terms { memory_bytes: done.memory_bytes, policy });
        }
        if was.map_or(self.0.given.slots, |was| was.slots) != done.slots {
            node.command(Command::SetSlots(done.slots));
        }
        if was.map_or(self.0.given.cpu_share, |was| was.cpu_share) != done.cpu_share {
            node.share(done.cpu_share);
        }
        // A node that starts gives.
        if was.is_none_or(|was| was.lends) != done.lends {
            node.command(Command::SetDonating(done.lends));
            let why: Vec<String> = state.decision.reasons.iter().map(ToString::to_string).collect();
            match done.lends {
                true => tracing::info!("working: the policy allows it again"),
                false => tracing::info!("not working now: {}", why.join("; ")),
            }
        }
    }

    /// On which terms the node sells, as they are now.
    pub(crate) fn terms(&self) -> SaleTerms {
        let state = self.state();
        SaleTerms {
            works: state.done.lends,
            slots: state.done.slots,
            cpu_share: state.done.cpu_share,
            memory_bytes: state.done.memory_bytes,
            marginal_cost: state.policy.marginal_cost,
            min_price: state.policy.min_price,
        }
    }

    pub(crate) fn view(&self) -> View {
        let set = self.0.file.read().map(|(_, set)| set).unwrap_or_default();
        let state = self.state();
        let slots = Some(self.0.given.slots);
        View::new(&state.policy, set, &state.now, &state.decision, state.done, slots)
            .with_trouble(state.trouble.clone())
    }

    /// Writes these settings down in place of those that are there, and acts on them.
    pub(crate) fn replace(&self, set: &toml::Table) -> Result<(), file::Refused> {
        let policy = self.0.file.write(set)?;
        let mut state = self.state();
        (state.policy, state.trouble, state.stamp) = (Arc::new(policy), None, self.0.file.stamp());
        self.decide(state);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sensors(&self) -> MutexGuard<'_, Box<dyn Sensors>> {
        self.0.sensors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
