//! A donor's policy: the resources that are shared, when, with whom and at which price.
//!
//! The words are BOINC's where it has them, so that its users know them; `check` finds what
//! contradicts itself, `decide` says what may be used now and why not more, `explain` until when, `admit` whose work
//! is taken. All of it is plain data and functions of it: a driver reads clocks, batteries and loads,
//! and the same policy means the same on a server and in a tab.

mod admit;
mod check;
mod decide;
mod explain;
mod hours;
mod texts;

pub use admit::{Asking, Rejection};
pub use check::Contradiction;
pub use decide::{Conditions, Decision, Reason};
pub use hours::{BadHours, Day, Hours, Week};

use crate::ids::NodeId;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Entries of a list. Our choice: a scan of it at each request is not felt.
pub(crate) const LIST_MAX: usize = 10_000;

/// A donor's preferences. Fractions and percents as BOINC has them: percents from 0 to 100.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Whether tasks of others run here at all.
    pub share_cycles: bool,
    /// Whether files and checkpoints of others are kept here.
    pub share_space: bool,

    /// Percent of the processors that are used while somebody uses this computer.
    pub max_ncpus_pct: f64,
    /// Percent of the processors while nobody uses the machine; `max_ncpus_pct` if absent.
    pub niu_max_ncpus_pct: Option<f64>,
    /// Percent of the time that each of them computes.
    pub cpu_usage_limit: f64,
    pub niu_cpu_usage_limit: Option<f64>,
    /// Nothing runs while other programs take more than this percent of the processors; 0: whatever
    /// they take.
    pub suspend_cpu_usage: f64,
    pub niu_suspend_cpu_usage: Option<f64>,

    /// Whether anything runs while somebody uses this computer.
    pub run_if_user_active: bool,
    /// Minutes without a key or a mouse after which nobody does.
    pub idle_time_to_run: f64,
    /// Minutes without a key or a mouse after which nothing runs, so that the computer can sleep; 0:
    /// never.
    pub suspend_if_no_recent_input: f64,

    /// Whether anything runs on a battery.
    pub run_on_batteries: bool,
    /// Least charge of the battery, percent.
    pub battery_charge_min_pct: f64,

    /// Percent of memory that tasks may have while somebody uses this computer.
    pub ram_max_used_busy_pct: f64,
    pub ram_max_used_idle_pct: f64,

    /// Most that is kept for others, gigabytes (10^9); no bound of its own if absent.
    pub disk_max_used_gb: Option<f64>,
    /// Percent of the disk.
    pub disk_max_used_pct: f64,
    /// Space of the disk that stays free in any case, 10^9 bytes.
    pub disk_min_free_gb: f64,

    /// When anything runs: `start_hour` to `end_hour` local time, over midnight too; all day if they
    /// are equal.
    pub start_hour: f64,
    pub end_hour: f64,
    /// Other hours on some days of the week.
    pub days: Week,

    /// Longest time limit of a task that is taken, seconds.
    pub max_task_seconds: Option<u64>,
    /// Most memory that one task is given, megabytes (2^20).
    pub max_task_memory_mb: Option<u64>,

    /// Peers that nothing is done for, and nothing asked of.
    #[serde(with = "texts")]
    pub refused_peers: Vec<NodeId>,
    /// Networks whose nodes are refused.
    pub refused_addresses: Vec<IpNet>,
    /// Whether nodes that can neither dial this one nor be dialled connect to it by data channels. They learn its
    /// address, as it learns theirs; without, they connect by circuits.
    pub direct_connections: bool,
    /// Most that is passed on between others that cannot connect directly, 10^6 bytes a second; 0: nothing. Only
    /// nodes that others can dial are asked to.
    pub relay_mb_per_s: f64,
    /// If there are any, nobody else's work is taken.
    #[serde(with = "texts")]
    pub allowed_submitters: Vec<NodeId>,

    /// Cost of 10^9 units of fuel for this donor, micro-credits. Markets want at least 1.
    pub marginal_cost: u64,
    /// Below it no paid work is taken, micro-credits for 10^9 units of fuel. 0: gifts too.
    pub min_price: u64,
    /// Percent of the slots that are kept for gifts; the rest does paid work first.
    pub gift_share_pct: f64,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            share_cycles: true,
            share_space: true,
            // Starting a node is a decision to share; BOINC's own default is all processors too.
            max_ncpus_pct: 100.0,
            niu_max_ncpus_pct: None,
            cpu_usage_limit: 100.0,
            niu_cpu_usage_limit: None,
            // BOINC's is 25. Here tasks have the lowest priority, so others get what they want in any
            // case; and nodes on one machine, or a build beside one, would stop it unasked.
            suspend_cpu_usage: 0.0,
            niu_suspend_cpu_usage: None,
            // BOINC's is false for a screen saver's heritage; here a person has pressed Start, or
            // has started a server, and tasks have the lowest priority.
            run_if_user_active: true,
            // BOINC's, as the next ones.
            idle_time_to_run: 3.0,
            suspend_if_no_recent_input: 0.0,
            run_on_batteries: false,
            battery_charge_min_pct: 90.0,
            ram_max_used_busy_pct: 50.0,
            ram_max_used_idle_pct: 90.0,
            disk_max_used_gb: None,
            disk_max_used_pct: 90.0,
            // BOINC's: 1 GB, less than which other programs begin to fail.
            disk_min_free_gb: 1.0,
            start_hour: 0.0,
            end_hour: 0.0,
            days: Week::default(),
            max_task_seconds: None,
            max_task_memory_mb: None,
            refused_peers: Vec::new(),
            refused_addresses: Vec::new(),
            // Gateways and their members learn addresses anyway; without it others reach a tab by circuits.
            direct_connections: true,
            // Our choice: a tenth of a usual server's line.
            relay_mb_per_s: 10.0,
            allowed_submitters: Vec::new(),
            // The least that a market knows; paper `market` lets a seller name its own.
            marginal_cost: 1,
            min_price: 0,
            gift_share_pct: 0.0,
        }
    }
}
