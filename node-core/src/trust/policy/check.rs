//! Check of a policy before its use: contradictions are refused in words.

use super::{Day, Hours, LIST_MAX, Policy};

/// A setting that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    #[error("{name} is {value}: it is a percentage, from {least} to 100")]
    Percent { name: &'static str, value: String, least: u8 },
    #[error("{name} is {value}: it cannot be negative, nor without end")]
    Amount { name: &'static str, value: String },
    #[error("start_hour = {start} and end_hour = {end}: hours are from 0 to 24")]
    Hours { start: String, end: String },
    #[error(
        "the hours exclude every day, so nothing would ever run; if that is meant, say share_cycles = false"
    )]
    Never,
    #[error(
        "run_if_user_active = false runs after {idle} minutes without input, and suspend_if_no_recent_input = \
         {no_input} stops before that, so nothing would ever run; make the second the longer one, or 0"
    )]
    IdleAndAsleep { idle: String, no_input: String },
    #[error(
        "min_price = {min_price} is below marginal_cost = {cost}: paid work would be done at a loss; raise the one or lower the other"
    )]
    AtALoss { min_price: u64, cost: u64 },
    #[error("marginal_cost is 0: markets know no free seller; 1 is the least")]
    NoCost,
    #[error(
        "gift_share_pct = {share} keeps slots for gifts, and min_price = {min_price} takes none; set one of them to 0"
    )]
    NoGifts { share: String, min_price: u64 },
    #[error("{node} is both in allowed_submitters and in refused_peers; leave it in one of them")]
    AllowedAndRefused { node: String },
    #[error("{name} has {len} entries; {most} are allowed, use ranges of addresses")]
    TooLong { name: &'static str, len: usize, most: usize },
    #[error(
        "nothing is shared: share_cycles and share_space are both false; share one of them, or do not run a node"
    )]
    Nothing,
    #[error(
        "{name} = 0 would take no task at all; leave it out for no bound of its own, or say share_cycles = false"
    )]
    NoTask { name: &'static str },
}

impl Policy {
    /// All that cannot be meant; nothing of such a policy should be used.
    pub fn check(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        self.percents(&mut found);
        self.amounts(&mut found);
        self.times(&mut found);
        self.trade(&mut found);
        if !self.share_cycles && !self.share_space {
            found.push(Contradiction::Nothing);
        }
        let lists = [
            ("refused_peers", self.refused_peers.len()),
            ("refused_addresses", self.refused_addresses.len()),
            ("allowed_submitters", self.allowed_submitters.len()),
        ];
        for (name, len) in lists.into_iter().filter(|(_, len)| *len > LIST_MAX) {
            found.push(Contradiction::TooLong { name, len, most: LIST_MAX });
        }
        for node in self.allowed_submitters.iter().filter(|node| self.refused_peers.contains(node)) {
            found.push(Contradiction::AllowedAndRefused { node: node.to_string() });
        }
        found
    }

    fn percents(&self, found: &mut Vec<Contradiction>) {
        // None of those that would mean "nothing": there is a word for that.
        let positive = [
            ("max_ncpus_pct", Some(self.max_ncpus_pct)),
            ("niu_max_ncpus_pct", self.niu_max_ncpus_pct),
            ("cpu_usage_limit", Some(self.cpu_usage_limit)),
            ("niu_cpu_usage_limit", self.niu_cpu_usage_limit),
            ("ram_max_used_busy_pct", Some(self.ram_max_used_busy_pct)),
            ("ram_max_used_idle_pct", Some(self.ram_max_used_idle_pct)),
        ];
        let others = [
            ("suspend_cpu_usage", Some(self.suspend_cpu_usage)),
            ("niu_suspend_cpu_usage", self.niu_suspend_cpu_usage),
            ("battery_charge_min_pct", Some(self.battery_charge_min_pct)),
            ("disk_max_used_pct", Some(self.disk_max_used_pct)),
            ("gift_share_pct", Some(self.gift_share_pct)),
        ];
        let all = positive.map(|of| (of, 1)).into_iter().chain(others.map(|of| (of, 0)));
        for ((name, value), least) in all {
            if let Some(value) = value.filter(|value| !(f64::from(least)..=100.0).contains(value)) {
                found.push(Contradiction::Percent { name, value: value.to_string(), least });
            }
        }
    }

    fn amounts(&self, found: &mut Vec<Contradiction>) {
        let amounts = [
            ("idle_time_to_run", Some(self.idle_time_to_run)),
            ("suspend_if_no_recent_input", Some(self.suspend_if_no_recent_input)),
            ("disk_max_used_gb", self.disk_max_used_gb),
            ("disk_min_free_gb", Some(self.disk_min_free_gb)),
            ("relay_mb_per_s", Some(self.relay_mb_per_s)),
        ];
        for (name, value) in amounts {
            if let Some(value) = value.filter(|value| !value.is_finite() || *value < 0.0) {
                found.push(Contradiction::Amount { name, value: value.to_string() });
            }
        }
        let tasks =
            [("max_task_seconds", self.max_task_seconds), ("max_task_memory_mb", self.max_task_memory_mb)];
        for (name, _) in tasks.into_iter().filter(|(_, value)| *value == Some(0)) {
            found.push(Contradiction::NoTask { name });
        }
    }

    fn times(&self, found: &mut Vec<Contradiction>) {
        let Some(usual) = self.usual_hours() else {
            let (start, end) = (self.start_hour.to_string(), self.end_hour.to_string());
            return found.push(Contradiction::Hours { start, end });
        };
        if self.share_cycles && Day::ALL.iter().all(|day| self.days.hours(*day, usual) == Hours::None) {
            found.push(Contradiction::Never);
        }
        let (idle, no_input) = (self.idle_time_to_run, self.suspend_if_no_recent_input);
        if !self.run_if_user_active && no_input > 0.0 && no_input <= idle {
            let (idle, no_input) = (idle.to_string(), no_input.to_string());
            found.push(Contradiction::IdleAndAsleep { idle, no_input });
        }
    }

    fn trade(&self, found: &mut Vec<Contradiction>) {
        let (min_price, cost) = (self.min_price, self.marginal_cost);
        if cost == 0 {
            found.push(Contradiction::NoCost);
        }
        if min_price > 0 && min_price < cost {
            found.push(Contradiction::AtALoss { min_price, cost });
        }
        if self.gift_share_pct > 0.0 && min_price > 0 {
            found.push(Contradiction::NoGifts { share: self.gift_share_pct.to_string(), min_price });
        }
    }

    /// The hours of days that have none of their own; none if they are no hours.
    pub(super) fn usual_hours(&self) -> Option<Hours> {
        Hours::of(self.start_hour, self.end_hour)
    }
}
