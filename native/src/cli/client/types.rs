//! The API's objects, as far as commands use them. Fields that a newer gateway adds are
//! ignored; what an older one leaves out takes its default.

use crate::cli::job_settings::JobSettings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Network {
    pub(crate) node: String,
    #[serde(default = "yes")]
    pub(crate) gateway: bool,
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    #[serde(default)]
    pub(crate) invite_required: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Node {
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) short: String,
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) platform: String,
    #[serde(default)]
    pub(crate) gateway: bool,
    /// Others cannot dial it.
    #[serde(default)]
    pub(crate) guest: bool,
    pub(crate) connection: Option<String>,
    /// The node that relays it.
    #[serde(default)]
    pub(crate) via: Option<String>,
    #[serde(default)]
    pub(crate) me: bool,
    pub(crate) slots: u32,
    #[serde(default)]
    pub(crate) free: u32,
    #[serde(default)]
    pub(crate) held: u32,
    #[serde(default)]
    pub(crate) units_done: u64,
    #[serde(default)]
    pub(crate) cpu_s: f64,
    #[serde(default)]
    pub(crate) silent_s: f64,
}

/// Standing of a job with requirements.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Fitting {
    #[serde(default)]
    pub(crate) requires: serde_json::Map<String, serde_json::Value>,
    pub(crate) waits: Option<FittingWaits>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FittingWaits {
    pub(crate) nodes: u32,
    pub(crate) able: u32,
    pub(crate) running: u32,
    pub(crate) weight: u16,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Files {
    pub(crate) files: Vec<File>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct File {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) len: u64,
    pub(crate) encrypted: bool,
    pub(crate) copies: u8,
    pub(crate) kept: u8,
    pub(crate) names: Vec<String>,
    pub(crate) reason: String,
    /// Micro-credits.
    pub(crate) paid: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Blobs {
    pub(crate) blobs: Vec<Blob>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Blob {
    pub(crate) id: String,
    pub(crate) len: u64,
}

/// An account at the bank; amounts in micro-credits.
#[derive(Debug, Deserialize)]
pub(crate) struct Wallet {
    pub(crate) balance: u64,
    pub(crate) held: u64,
    #[serde(default)]
    pub(crate) pending: u64,
    #[serde(default)]
    pub(crate) first: u64,
    #[serde(default)]
    pub(crate) all: u64,
    #[serde(default)]
    pub(crate) statement: Vec<StatementLine>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct StatementLine {
    pub(crate) at: String,
    pub(crate) amount: i64,
    pub(crate) balance: u64,
    pub(crate) why: String,
    pub(crate) with: Option<String>,
    pub(crate) job: Option<String>,
    pub(crate) unit: Option<u32>,
    pub(crate) file: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Invite {
    pub(crate) code: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Market {
    pub(crate) scheme: Option<String>,
    #[serde(default)]
    pub(crate) commodities: Vec<Commodity>,
    #[serde(default)]
    pub(crate) looks: Vec<Looked>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Looked {
    pub(crate) kind: String,
    pub(crate) whole: bool,
    pub(crate) age_s: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Commodity {
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) least: u64,
    #[serde(default)]
    pub(crate) sellers: u32,
    #[serde(default)]
    pub(crate) units: u32,
    pub(crate) cheapest: Option<u64>,
    pub(crate) dearest: Option<u64>,
    pub(crate) last: Option<Paid>,
    pub(crate) age_s: Option<u64>,
    #[serde(default)]
    pub(crate) offers: Vec<Offer>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Paid {
    pub(crate) price: u64,
    pub(crate) ago_s: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Offer {
    pub(crate) seller: String,
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) capacity: u64,
    pub(crate) units: u16,
    pub(crate) cost: u64,
    pub(crate) engine: String,
}

/// The body of a submission.
#[derive(Debug, Default, Serialize)]
pub(crate) struct NewJob {
    pub(crate) name: String,
    pub(crate) program: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) arguments: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) environment: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdin: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<NewFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sweep: Option<Sweep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) units: Option<Vec<NewUnit>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) find: Option<String>,
    #[serde(flatten)]
    pub(crate) settings: JobSettings,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NewFile {
    pub(crate) path: String,
    #[serde(flatten)]
    pub(crate) content: NewContent,
}

/// Content of a job: uploaded before, or part of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NewContent {
    Blob(String),
    Base64(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sweep {
    #[serde(default)]
    pub(crate) first: u64,
    pub(crate) count: u32,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct NewUnit {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdin: Option<String>,
    /// In place of `stdin`, when it is small.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdin_base64: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<NewFile>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Threads {
    pub(crate) threads: Vec<Thread>,
    pub(crate) next: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Thread {
    pub(crate) number: u32,
    pub(crate) state: String,
    pub(crate) node: Option<String>,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Partials {
    pub(crate) partials: Vec<PartialResult>,
    pub(crate) next: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct PartialResult {
    pub(crate) number: u64,
    pub(crate) thread: u32,
    pub(crate) at: String,
    pub(crate) base64: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) short: String,
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) state: JobState,
    #[serde(default)]
    pub(crate) reason: String,
    pub(crate) units: Counts,
    #[serde(default)]
    pub(crate) duplicates: u64,
    #[serde(default)]
    pub(crate) lost_placements: u64,
    #[serde(default)]
    pub(crate) cpu_s: f64,
    #[serde(default)]
    pub(crate) by_node: Vec<Share>,
    pub(crate) fitting: Option<Fitting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobState {
    Waiting,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl JobState {
    pub(crate) fn is_over(self) -> bool {
        matches!(self, JobState::Done | JobState::Failed | JobState::Cancelled)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            JobState::Waiting => "waiting",
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    pub(crate) total: u32,
    pub(crate) waiting: u32,
    pub(crate) placed: u32,
    pub(crate) done: u32,
    pub(crate) failed: u32,
    pub(crate) held: u32,
}

/// Part of a job that one node computed.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Share {
    pub(crate) node: String,
    #[serde(default)]
    pub(crate) short: String,
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) units: u64,
    #[serde(default)]
    pub(crate) cpu_s: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Jobs {
    pub(crate) jobs: Vec<Job>,
    #[serde(default)]
    pub(crate) next: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Units {
    pub(crate) units: Vec<Unit>,
    #[serde(default)]
    pub(crate) next: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Unit {
    pub(crate) index: u32,
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) runner: Option<String>,
    #[serde(default)]
    pub(crate) attempts: u32,
    #[serde(default)]
    pub(crate) paused: bool,
    #[serde(default)]
    pub(crate) fuel: u64,
    #[serde(default)]
    pub(crate) lost_fuel: u64,
    #[serde(default)]
    pub(crate) owner: Option<String>,
    #[serde(default)]
    pub(crate) checkpoint_fuel: Option<u64>,
    #[serde(default)]
    pub(crate) journey: Vec<Stop>,
    #[serde(default)]
    pub(crate) checkpoints: u32,
    #[serde(default)]
    pub(crate) checkpoint_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) keepers: Vec<String>,
    /// Downtime of a unit that has just moved, milliseconds.
    #[serde(default)]
    pub(crate) standstill_ms: Option<f64>,
}

/// Part of a unit that one node computed.
#[derive(Debug, Deserialize)]
pub(crate) struct Stop {
    pub(crate) runner: String,
    pub(crate) platform: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Results {
    pub(crate) results: Vec<UnitResult>,
    #[serde(default)]
    pub(crate) next: Option<u32>,
}

/// How one unit ended, with its output or where that is.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct UnitResult {
    pub(crate) index: u32,
    pub(crate) success: bool,
    /// None when the program did not come to its own end.
    #[serde(default)]
    pub(crate) exit_code: Option<u32>,
    #[serde(default)]
    pub(crate) message: String,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    #[serde(default)]
    pub(crate) files: Vec<OutputFile>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Output {
    pub(crate) len: u64,
    /// The content itself, when it is small.
    #[serde(default)]
    pub(crate) base64: Option<String>,
    pub(crate) url: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct OutputFile {
    pub(crate) path: String,
    pub(crate) len: u64,
    /// The content itself, when it is small.
    #[serde(default)]
    pub(crate) base64: Option<String>,
    pub(crate) url: String,
}

/// RFC 9457.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    pub(crate) title: String,
    pub(crate) detail: String,
}
