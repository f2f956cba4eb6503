//! Decision of what may be used now, and why not more.

use super::{Day, Hours, Policy};
use std::fmt;

/// A driver's knowledge of its machine. `None`: it cannot know; this stops nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Local time: the day, and the minute of it.
    pub day: Day,
    pub minute: u16,
    pub processors: u32,
    /// Share of the processors that other programs take, percent.
    pub others_cpu_pct: Option<f64>,
    /// Minutes since the last key or mouse.
    pub no_input_minutes: Option<f64>,
    /// No battery is none to run on.
    pub on_battery: Option<bool>,
    pub charge_pct: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub disk_bytes: Option<u64>,
    /// Free for us: what is kept for others already counts as free.
    pub disk_free_bytes: Option<u64>,
}

/// Resources that may be used now.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Tasks at once; 0 if nothing may run.
    pub slots: u32,
    /// Percent of the time that each may compute, 1 to 100.
    pub cpu_pct: u32,
    /// Memory that all tasks may have together, as far as it is known.
    pub memory_bytes: Option<u64>,
    /// Bytes that may be kept for others; `None`: not bounded.
    pub disk_bytes: Option<u64>,
    /// Why nothing runs, in the order in which a person would mend it; empty if something does.
    pub reasons: Vec<Reason>,
}

/// Why nothing runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    NotShared,
    /// Minutes until the hours begin.
    Hours {
        wait: Option<u32>,
    },
    OnBattery,
    Charge {
        now: f64,
        least: f64,
    },
    InUse {
        minutes: f64,
    },
    NoInput {
        minutes: f64,
    },
    Load {
        now: f64,
        most: f64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotShared => f.write_str("cycles are not shared (share_cycles = false)"),
            Reason::Hours { wait: Some(wait) } => {
                let (hours, minutes) = (wait / 60, wait % 60);
                write!(f, "it is outside of its hours; they begin in {hours} h {minutes:02} min")
            }
            Reason::Hours { wait: None } => f.write_str("it is outside of its hours"),
            Reason::OnBattery => f.write_str("it runs on its battery (run_on_batteries = false)"),
            Reason::Charge { now, least } => {
                write!(f, "its battery is at {now:.0} % (battery_charge_min_pct = {least:.0})")
            }
            Reason::InUse { minutes } => {
                write!(f, "somebody used it {minutes:.0} min ago (run_if_user_active = false)")
            }
            Reason::NoInput { minutes } => {
                write!(
                    f,
                    "nobody has used it for {minutes:.0} min, and it may want to sleep (suspend_if_no_recent_input)"
                )
            }
            Reason::Load { now, most } => {
                write!(f, "other programs take {now:.0} % of its processors (suspend_cpu_usage = {most:.0})")
            }
        }
    }
}

impl Policy {
    /// Resources that may be used under these conditions. The policy has been checked.
    pub fn decide(&self, now: &Conditions) -> Decision {
        let in_use = now.no_input_minutes.is_some_and(|minutes| minutes < self.idle_time_to_run);
        let pick = |used: f64, unused: Option<f64>| if in_use { used } else { unused.unwrap_or(used) };
        let reasons = self.reasons(now, in_use, pick(self.suspend_cpu_usage, self.niu_suspend_cpu_usage));
        let share = pick(self.max_ncpus_pct, self.niu_max_ncpus_pct);
        // A part of a processor is one: who shares at all shares that much.
        let most = (f64::from(now.processors) * share / 100.0).floor().max(1.0) as u32;
        let ram = if in_use { self.ram_max_used_busy_pct } else { self.ram_max_used_idle_pct };
        Decision {
            slots: if reasons.is_empty() { most } else { 0 },
            cpu_pct: (pick(self.cpu_usage_limit, self.niu_cpu_usage_limit).round() as u32).clamp(1, 100),
            memory_bytes: now.memory_bytes.map(|all| percent(all, ram)),
            disk_bytes: self.disk(now),
            reasons,
        }
    }

    fn reasons(&self, now: &Conditions, in_use: bool, load_most: f64) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if !self.share_cycles {
            reasons.push(Reason::NotShared);
        }
        let usual = self.usual_hours().unwrap_or(Hours::All);
        if !self.days.allows(now.day, now.minute, usual) {
            reasons.push(Reason::Hours { wait: self.days.wait(now.day, now.minute, usual) });
        }
        if now.on_battery == Some(true) {
            match now.charge_pct {
                _ if !self.run_on_batteries => reasons.push(Reason::OnBattery),
                Some(charge) if charge < self.battery_charge_min_pct => {
                    reasons.push(Reason::Charge { now: charge, least: self.battery_charge_min_pct });
                }
                _ => {}
            }
        }
        if let Some(minutes) = now.no_input_minutes {
            if in_use && !self.run_if_user_active {
                reasons.push(Reason::InUse { minutes });
            }
            let most = self.suspend_if_no_recent_input;
            if most > 0.0 && minutes >= most {
                reasons.push(Reason::NoInput { minutes });
            }
        }
        if let Some(load) = now.others_cpu_pct.filter(|load| load_most > 0.0 && *load > load_most) {
            reasons.push(Reason::Load { now: load, most: load_most });
        }
        reasons
    }

    /// The least of all bounds on space.
    fn disk(&self, now: &Conditions) -> Option<u64> {
        if !self.share_space {
            return Some(0);
        }
        let gb = |gb: f64| (gb * 1e9) as u64;
        let absolute = self.disk_max_used_gb.map(gb);
        let of_all = now.disk_bytes.map(|all| percent(all, self.disk_max_used_pct));
        let beside = now.disk_free_bytes.map(|free| free.saturating_sub(gb(self.disk_min_free_gb)));
        [absolute, of_all, beside].into_iter().flatten().min()
    }
}

fn percent(of: u64, percent: f64) -> u64 {
    (of as f64 * percent / 100.0) as u64
}
