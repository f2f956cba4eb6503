//! A policy as it is shown: what is set, what may be used now, and if nothing, why and until when.

use super::Measure;
use node_core::trust::policy::{Conditions, Decision, Policy};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use utoipa::ToSchema;

/// The donor's policy, and what it comes to now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct View {
    /// All settings, defaults included, by BOINC's names where it has them.
    #[schema(value_type = Object)]
    pub(crate) policy: serde_json::Value,
    /// What of it is set: the rest is default.
    #[schema(value_type = Object)]
    pub(crate) set: toml::Table,
    /// Why the policy file does not count as it is now; the one before holds.
    pub(crate) trouble: Option<String>,
    pub(crate) now: Now,
}

/// What may be used now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Now {
    /// Whether tasks run.
    pub(crate) works: bool,
    /// Tasks at once; 0 if none run.
    pub(crate) slots: u32,
    /// Slots that the node was started with; null if no node was asked.
    pub(crate) slots_given: Option<u32>,
    /// Percent of a processor that each task gets.
    pub(crate) cpu_share: u8,
    /// Memory of one task, at most.
    pub(crate) task_memory_bytes: u64,
    /// What may be kept for others, as counted when the node started; null if it is not bounded.
    pub(crate) space_bytes: Option<u64>,
    /// Why none run, in the order in which a person would mend it.
    pub(crate) reasons: Vec<Why>,
    /// Seconds until tasks run again, if time alone brings it about.
    pub(crate) wait_s: Option<u64>,
    /// What the machine does not say, and what follows from that.
    pub(crate) unknown: Vec<String>,
}

/// Why nothing runs, and when it will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Why {
    #[schema(example = "it runs on its battery (run_on_batteries = false)")]
    pub(crate) reason: String,
    #[schema(example = "as soon as it is plugged in")]
    pub(crate) until: String,
}

impl View {
    pub(crate) fn new(
        policy: &Policy,
        set: toml::Table,
        now: &Conditions,
        decision: &Decision,
        done: Measure,
        slots_given: Option<u32>,
    ) -> View {
        let reasons = decision.reasons.iter();
        let reasons =
            reasons.map(|reason| Why { reason: reason.to_string(), until: reason.until(policy, now) });
        let now = Now {
            works: done.lends && done.slots > 0,
            slots: if done.lends { done.slots } else { 0 },
            slots_given,
            cpu_share: done.cpu_share,
            task_memory_bytes: done.memory_bytes,
            space_bytes: decision.disk_bytes,
            reasons: reasons.collect(),
            wait_s: decision.wait_s(),
            unknown: unknown(policy, now),
        };
        // It is plain data, which JSON has words for.
        let policy = serde_json::to_value(policy).unwrap_or_default();
        View { policy, set, trouble: None, now }
    }

    pub(crate) fn with_trouble(self, trouble: Option<String>) -> View {
        View { trouble, ..self }
    }

    /// For people: whether it works, why not, and until when.
    pub(crate) fn explanation(&self) -> String {
        let mut text = String::new();
        let now = &self.now;
        if now.works {
            let slots = match (now.slots, now.slots_given) {
                (1, Some(1)) => "its slot".into(),
                (slots, Some(given)) if slots == given => format!("all {given} slots"),
                (slots, Some(given)) => format!("{slots} of {given} slots"),
                (1, None) => "at most 1 slot".into(),
                (slots, None) => format!("at most {slots} slots"),
            };
            let (share, memory) = (now.cpu_share, now.task_memory_bytes >> 20);
            let _ = writeln!(
                text,
                "working: {slots}, {share} % of a processor and at most {memory} MiB for each task"
            );
            text.push_str(&self.gifts());
        } else if now.reasons.is_empty() {
            text.push_str("not working: the node was started without slots (`up --slots`)\n");
        } else {
            text.push_str("not working now:\n");
            for Why { reason, until } in &now.reasons {
                let _ = writeln!(text, "  {reason}\n    until: {until}");
            }
            match (now.wait_s, &now.reasons[..]) {
                (Some(wait), _) => {
                    let _ = writeln!(text, "it works again in {}, if nothing else stops it then", span(wait));
                }
                (None, [_]) => {}
                (None, _) => text.push_str("it works again when none of these holds any more\n"),
            }
        }
        for line in self
            .trouble
            .iter()
            .map(|why| format!("the policy before holds: {why}"))
            .chain(now.unknown.clone())
        {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Sentence on the order of paid work and gifts.
    fn gifts(&self) -> String {
        let share = self.policy["gift_share_pct"].as_f64().unwrap_or_default();
        let least = self.policy["min_price"].as_u64().unwrap_or_default();
        match (share > 0.0, least) {
            (true, _) => format!("paid work goes first, but {share} % stay for gifts while there are any\n"),
            (false, 0) => "paid work goes first, gifts have the rest\n".into(),
            (false, least) => format!("it does nothing for less than {least} µcr a 10^9 fuel\n"),
        }
    }
}

/// Settings that ask for what this machine does not say.
fn unknown(policy: &Policy, now: &Conditions) -> Vec<String> {
    let mut told = Vec::new();
    let mut tell = |asks: bool, known: bool, what: &str| {
        if asks && !known {
            told.push(what.to_owned());
        }
    };
    let input = !policy.run_if_user_active || policy.suspend_if_no_recent_input > 0.0;
    tell(
        input,
        now.no_input_minutes.is_some(),
        "whether somebody uses this computer is not known here (only text terminals are seen), so nothing waits for that",
    );
    let load = policy.suspend_cpu_usage > 0.0 || policy.niu_suspend_cpu_usage.is_some_and(|most| most > 0.0);
    tell(
        load,
        now.others_cpu_pct.is_some(),
        "what other programs take of the processors is not known yet, so nothing waits for that",
    );
    told
}

/// Whole minutes, rounded up.
fn span(seconds: u64) -> String {
    let minutes = seconds.div_ceil(60);
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes:02} min"),
    }
}
