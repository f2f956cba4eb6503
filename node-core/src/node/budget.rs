//! The bound on the work of one call of [`Node::drive`].
//!
//! The machines of a node talk to each other, and to themselves, at one instant of time. If two of them
//! answered each other for ever, the node would hear nothing any more: neither its peers, nor the API,
//! nor the wish that it should end. So one drive takes a bounded number of steps. The other steps are
//! kept, in their order, and go on [`PAUSE`] later, with [`BEHIND`] steps a drive, so that new inputs
//! have their turn in between. Then a loop costs a processor and a message; the node goes on.

use super::Node;
use super::host::{Host, NodeEvent};
use crate::bounds::Bounds;
use crate::time::Time;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Time until steps beyond the bound go on. Our choice: nobody notices it, and what loops at one
/// instant sees other instants.
const PAUSE: Duration = Duration::from_millis(10);

/// Steps of a drive while older ones wait. Our choice: a few milliseconds, so that an API that
/// asks between two inputs is answered.
const BEHIND: u32 = 1_000;

/// Steps before the bound whose machines are counted. Our choice: many rounds of any loop.
const SAMPLE: u32 = 1_000;

/// Time between two messages about the same trouble. Our choice: a log stays readable.
const SILENCE: Duration = Duration::from_secs(600);

/// Steps beyond the bound that a panic shows. Our choice: a few rounds of any loop.
const SHOWN: usize = 60;

#[derive(Debug, Default)]
pub(super) struct Budget {
    /// Steps that this drive may still take.
    left: u32,
    /// Steps are left over from an earlier drive.
    behind: bool,
    /// How often each machine was given one of the last [`SAMPLE`] steps.
    busiest: BTreeMap<&'static str, u32>,
    /// Time of the last message about it.
    told: Option<Time>,
}

impl Budget {
    /// A drive begins.
    pub(super) fn begin(&mut self, bounds: &Bounds) {
        self.left = if self.behind { bounds.steps.min(BEHIND) } else { bounds.steps };
        self.behind = false;
        if !self.busiest.is_empty() {
            self.busiest.clear();
        }
    }

    /// Counts a step. `false` if the budget is spent.
    pub(super) fn take(&mut self, service: &'static str) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        if self.left < SAMPLE {
            *self.busiest.entry(service).or_default() += 1;
        }
        true
    }

    /// The machines that took most of the last steps, as `ring (600), market owner (400)`.
    fn busiest(&self) -> String {
        let mut all: Vec<_> = self.busiest.iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut text = String::new();
        for (name, count) in all.into_iter().take(5) {
            let comma = if text.is_empty() { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{comma}{name} ({count})");
        }
        text
    }
}

impl Node {
    /// The budget is spent, and steps are left: says so, and when they go on.
    pub(super) fn put_off(&mut self, host: &mut dyn Host) -> Time {
        if self.config.limits.overrun_panics {
            self.panic_with_last_steps(host);
        }
        self.budget.behind = true;
        // Timers have their turn, too: one a drive, behind the steps that wait.
        self.fire_due();
        if self.budget.told.is_none_or(|told| self.now.since(told) >= SILENCE) {
            self.budget.told = Some(self.now);
            host.event(NodeEvent::Trouble {
                what: format!(
                    "this node's machines keep each other busy: more than {} steps followed from one input. \
                     The rest waits for {} ms at a time, and this node is slow meanwhile. Busiest of the \
                     last steps: {}. If it does not pass, restart the node; please report this",
                    self.config.limits.steps,
                    PAUSE.as_millis(),
                    self.budget.busiest()
                ),
            });
        }
        self.now + PAUSE
    }

    /// In tests: a bug, shown by what goes round.
    fn panic_with_last_steps(&mut self, host: &mut dyn Host) {
        let mut shown = String::new();
        for _ in 0..SHOWN {
            let Some(step) = self.steps.pop_front() else { break };
            let step_shown = step.row.show.map_or_else(|| step.row.name.into(), |show| show(&*step.input));
            let _ = writeln!(shown, "  {step_shown}");
            (step.row.run)(self, step.input, host);
        }
        panic!(
            "{} took more than {} steps at {:?}; busiest of the last: {}; on it goes with\n{shown}",
            self.me.short(),
            self.config.limits.steps,
            self.now,
            self.budget.busiest()
        );
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
