//! Answers of the API, as they stand in the OpenAPI document.

use super::network::{Connection, DataChannels, Relaying};
use super::queue::QueueStep;
use super::requires::Fitting;
use super::time::{rfc3339, seconds};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use node_core::content::{BlobRef, Data, NamedData};
use node_core::ids::{BlobId, JobId, NodeId};
use node_core::node::snapshot::NodeView;
use node_core::progress::Span;
use node_core::work::spec::UnitResult;
use node_core::work::view::{JobState, JobView, UnitState, UnitView};
use node_core::{Node, Platform};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sandbox::End;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Enough to join: what `manyhands up --join` and the donate page ask for first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Network {
    /// Id of the node that answers, 64 hexadecimal digits.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    pub(super) node: NodeId,
    /// The same as libp2p writes it.
    #[schema(example = "12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo")]
    pub(super) peer_id: String,
    pub(super) name: String,
    /// Whether it takes in pages and nodes. One that does not serves its own user on its own machine.
    pub(super) gateway: bool,
    /// Of the software.
    pub(super) version: &'static str,
    /// Multiaddresses to dial, each with its peer id.
    #[schema(example = json!(["/ip4/127.0.0.1/tcp/4001/p2p/12D3KooW…", "/ip4/127.0.0.1/tcp/4002/ws/p2p/12D3KooW…"]))]
    pub(super) addresses: Vec<String>,
    /// Whether a node has to show an invite to take part.
    pub(super) invite_required: bool,
    /// Where peers have dialled this gateway back; missing while none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "203.0.113.7:4001")]
    pub(super) reached_at: Option<String>,
    /// Why this gateway is a guest of another one, and what to do about it; missing if it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) guest_because: Option<String>,
    /// Missing if it can have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data_channels: Option<DataChannels>,
    /// Missing if it is no relay: others cannot dial it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) relaying: Option<Relaying>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NodeList {
    /// The gateway first.
    pub(super) nodes: Vec<NodeInfo>,
}

/// A node, as this gateway sees it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Node)]
pub(super) struct NodeInfo {
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    id: NodeId,
    /// The id's beginning, for people.
    #[schema(example = "n-1a2b3c4d")]
    short: String,
    name: String,
    platform: PlatformName,
    gateway: bool,
    /// It takes no connections: a page, or a node behind a wall. Its gateway is its host.
    guest: bool,
    /// Others can dial it, as far as is known.
    reachable: bool,
    /// How this gateway is connected to it; `null` for the gateway itself.
    connection: Option<Connection>,
    /// The node that relays this connection; missing if none does.
    #[serde(serialize_with = "text_or_null", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    via: Option<NodeId>,
    /// It is the gateway that answers.
    me: bool,
    /// Tasks that it runs at once.
    slots: u32,
    /// Of them, without work.
    free: u32,
    /// Units that it holds for this gateway, queued or running.
    held: u32,
    units_done: u64,
    /// Processor time given to this gateway's jobs, seconds.
    cpu_s: f64,
    /// Seconds since it was last heard of.
    silent_s: f64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Platform)]
pub(super) enum PlatformName {
    Native,
    Browser,
}

impl From<Platform> for PlatformName {
    fn from(platform: Platform) -> Self {
        match platform {
            Platform::Native => PlatformName::Native,
            Platform::Browser => PlatformName::Browser,
        }
    }
}

impl From<NodeView> for NodeInfo {
    fn from(node: NodeView) -> Self {
        NodeInfo {
            id: node.id,
            short: node.id.short(),
            name: node.name,
            platform: node.platform.into(),
            gateway: node.gateway,
            guest: node.guest,
            reachable: !node.guest,
            connection: node.over.map(Connection::from),
            via: node.via,
            me: node.me,
            slots: node.slots,
            free: node.free,
            held: node.held,
            units_done: node.units_done,
            cpu_s: seconds(node.cpu_us),
            silent_s: seconds(node.silent_us),
        }
    }
}

/// A stored blob.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Blob {
    /// The blake3 hash of its bytes, 64 hexadecimal digits.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    id: BlobId,
    /// Bytes.
    len: u64,
}

impl From<BlobRef> for Blob {
    fn from(blob: BlobRef) -> Self {
        Blob { id: blob.id, len: blob.len }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BlobList {
    /// In the order in which they were sent.
    pub(super) blobs: Vec<Blob>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobList {
    /// Newest first.
    pub(super) jobs: Vec<Job>,
    /// Give it as `cursor` to get the next page; null on the last.
    pub(super) next: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Job {
    /// 32 hexadecimal digits.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    pub(super) id: JobId,
    /// The id's beginning, for people.
    #[schema(example = "j-1a2b3c4d")]
    short: String,
    name: String,
    pub(super) state: JobStateName,
    /// Why it stands where it stands, in words.
    reason: String,
    units: UnitCounts,
    /// Results that came again for a unit that had ended, and were not counted.
    duplicates: u64,
    /// Placements lost with the node that had them; the units ran elsewhere.
    lost_placements: u64,
    /// Processor time of counted results, seconds.
    cpu_s: f64,
    /// RFC 3339, UTC.
    #[schema(format = DateTime)]
    submitted_at: String,
    /// RFC 3339, UTC.
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    /// What its places cost, if it buys them.
    cost: Option<JobCost>,
    /// Who computed how much.
    by_node: Vec<NodeShare>,
    /// Its requirements, if it is found by them. Missing in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    fitting: Option<Fitting>,
    /// Units that waited for a node since the node's start, at most 64 steps, each of which lasts until the next.
    /// Missing in lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue: Vec<QueueStep>,
}

/// What a job costs, micro-credits.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobCost {
    /// It will never be more.
    most: u64,
    /// Put aside at the bank for units that have not ended.
    held: u64,
    paid: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = JobState)]
pub(super) enum JobStateName {
    /// No unit is placed.
    Waiting,
    Running,
    /// All units ended well.
    Done,
    /// All units ended, some not well.
    Failed,
    Cancelled,
}

impl JobStateName {
    pub(super) fn is_over(self) -> bool {
        !matches!(self, JobStateName::Waiting | JobStateName::Running)
    }
}

impl From<JobState> for JobStateName {
    fn from(state: JobState) -> Self {
        match state {
            JobState::Waiting => JobStateName::Waiting,
            JobState::Running => JobStateName::Running,
            JobState::Done => JobStateName::Done,
            JobState::Failed => JobStateName::Failed,
            JobState::Cancelled => JobStateName::Cancelled,
        }
    }
}

/// A job's units by state.
#[derive(Debug, Serialize, ToSchema)]
struct UnitCounts {
    total: u32,
    waiting: u32,
    /// On a node, queued or running there.
    placed: u32,
    done: u32,
    failed: u32,
    held: u32,
}

/// What one node did for a job.
#[derive(Debug, Serialize, ToSchema)]
struct NodeShare {
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    node: NodeId,
    short: String,
    /// Empty when the node is not connected any more.
    name: String,
    units: u64,
    cpu_s: f64,
}

impl Job {
    pub(super) fn new(job: JobView, names: &Names) -> Self {
        Job {
            id: job.id,
            short: job.id.short(),
            name: job.name,
            state: job.state.into(),
            reason: job.reason,
            units: UnitCounts {
                total: job.units,
                waiting: job.waiting,
                placed: job.placed,
                done: job.done,
                failed: job.failed,
                held: job.held,
            },
            duplicates: job.duplicates,
            lost_placements: job.lost_placements,
            cpu_s: seconds(job.cpu_us),
            submitted_at: rfc3339(job.submitted_ms),
            ended_at: job.ended_ms.map(rfc3339),
            cost: job.cost.map(|cost| JobCost { most: cost.most.0, held: cost.held.0, paid: cost.paid.0 }),
            by_node: job.by_node.into_iter().map(|share| names.share(share)).collect(),
            fitting: None,
            queue: Vec::new(),
        }
    }

    /// A job of this node, if it has it.
    pub(super) fn of(node: &Node, id: JobId) -> Option<Self> {
        let job = node.job(id)?;
        // Most looks at a job come before anybody computed for it.
        let names = if job.by_node.is_empty() { Names::default() } else { Names::of(node) };
        let queue = QueueStep::all_of(node, id);
        Some(Job { fitting: Fitting::of(node, id), queue, ..Job::new(job, &names) })
    }
}

/// The names of nodes that are known, here or gone.
#[derive(Default)]
pub(super) struct Names(BTreeMap<NodeId, String>);

impl Names {
    pub(super) fn of(node: &Node) -> Self {
        Names(node.names())
    }

    /// Empty if nobody of that id was here.
    pub(super) fn get(&self, node: NodeId) -> String {
        self.0.get(&node).cloned().unwrap_or_default()
    }

    fn share(&self, (node, units, cpu_us): (NodeId, u64, u64)) -> NodeShare {
        NodeShare { node, short: node.short(), name: self.get(node), units, cpu_s: seconds(cpu_us) }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UnitList {
    /// In the order of their indexes.
    pub(super) units: Vec<Unit>,
    /// Give it as `from` to get the next page; null on the last.
    pub(super) next: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Unit {
    index: u32,
    state: UnitStateName,
    /// Why it stands where it stands, in words.
    reason: String,
    /// The id of the node that has it or had it last.
    #[serde(serialize_with = "text_or_null")]
    #[schema(value_type = Option<String>)]
    runner: Option<NodeId>,
    /// How often it was placed.
    attempts: u32,
    /// At which its runner sold the place, micro-credits for 10^9 of fuel, until that is settled; null
    /// of a gift.
    price: Option<u64>,
    /// It stands still on somebody's wish.
    paused: bool,
    /// Fuel that it is known to have used: of its newest checkpoint, or of its result.
    fuel: u64,
    /// Which nodes brought it there, in order; empty when one node did it all.
    journey: Vec<JourneySpan>,
    /// There were more nodes than `journey` names.
    journey_is_cut: bool,
    checkpoints: u32,
    /// Where it would go on if its node was lost now; null: at its beginning.
    checkpoint_fuel: Option<u64>,
    /// Bytes of that checkpoint, without what it is relative to.
    checkpoint_bytes: Option<u64>,
    /// Ids of the nodes that keep that checkpoint.
    #[schema(value_type = Vec<String>)]
    #[serde(serialize_with = "texts")]
    keepers: Vec<NodeId>,
    /// Fuel that was used in vain, as far as it is known.
    lost_fuel: u64,
    /// The id of the node that owns it, if the ring has it at another than this gateway.
    #[serde(serialize_with = "text_or_null")]
    #[schema(value_type = Option<String>)]
    owner: Option<NodeId>,
}

/// What one node did of a unit.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JourneySpan {
    /// A node's id.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    runner: NodeId,
    platform: PlatformName,
    /// Fuel that had been used when it took the unit over.
    from: u64,
    /// And when it handed it on.
    to: u64,
}

impl From<Span> for JourneySpan {
    fn from(span: Span) -> Self {
        JourneySpan { runner: span.runner, platform: span.platform.into(), from: span.from, to: span.to }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = UnitState)]
pub(super) enum UnitStateName {
    Waiting,
    Placed,
    Done,
    Failed,
    Held,
    Cancelled,
}

impl Unit {
    /// How the unit has ended; `None` if it has not.
    pub(super) fn end(&self) -> Option<&'static str> {
        match self.state {
            UnitStateName::Waiting | UnitStateName::Placed | UnitStateName::Held => None,
            UnitStateName::Done => Some("done"),
            UnitStateName::Failed => Some("failed"),
            UnitStateName::Cancelled => Some("cancelled"),
        }
    }
}

impl From<UnitView> for Unit {
    fn from(unit: UnitView) -> Self {
        Unit {
            index: unit.index,
            state: match unit.state {
                UnitState::Waiting => UnitStateName::Waiting,
                UnitState::Placed => UnitStateName::Placed,
                UnitState::Done => UnitStateName::Done,
                UnitState::Failed => UnitStateName::Failed,
                UnitState::Held => UnitStateName::Held,
                UnitState::Cancelled => UnitStateName::Cancelled,
            },
            reason: unit.reason,
            runner: unit.runner,
            attempts: unit.attempts,
            price: unit.price.map(|price| price.0),
            paused: unit.paused,
            fuel: unit.fuel,
            journey: unit.journey.into_iter().map(JourneySpan::from).collect(),
            journey_is_cut: unit.merged,
            checkpoints: unit.checkpoints,
            checkpoint_fuel: unit.checkpoint_fuel,
            checkpoint_bytes: unit.checkpoint_bytes,
            keepers: unit.keepers,
            lost_fuel: unit.lost_fuel,
            owner: unit.owner,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ResultList {
    /// Of units that ended, in the order of their indexes. While a job runs, there are gaps.
    pub(super) results: Vec<UnitOutcome>,
    /// Give it as `from` to get the next page; null when there is no more for now.
    pub(super) next: Option<u32>,
}

/// What a unit left behind.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Result)]
pub(super) struct UnitOutcome {
    index: u32,
    /// The program ended by itself with code 0.
    success: bool,
    /// Null when it did not end by itself.
    exit_code: Option<u32>,
    /// How it ended, in words.
    #[schema(example = "exited with code 0")]
    message: String,
    attempts: u32,
    /// The id of the node that computed it.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    runner: NodeId,
    cpu_s: f64,
    /// Fuel that it used, the same on every node.
    fuel: u64,
    /// What its places cost, all legs together, micro-credits; 0 of a gift.
    paid: u64,
    /// Which nodes computed it, in order; empty when `runner` did it all. A result is as trusted as
    /// the least trusted of them.
    journey: Vec<JourneySpan>,
    stdout: Output,
    stderr: Output,
    /// Files that the program made or changed.
    files: Vec<OutputFile>,
}

/// Bytes that a unit wrote.
#[derive(Debug, Serialize, ToSchema)]
struct Output {
    len: u64,
    /// The bytes themselves when they are few, else null.
    base64: Option<String>,
    /// Where the bytes are, always.
    url: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct OutputFile {
    path: String,
    len: u64,
    /// The bytes themselves when they are few, else null.
    base64: Option<String>,
    url: String,
}

impl UnitOutcome {
    /// Content of up to `inline` bytes is part of it, all together, if the gateway has it in its
    /// records.
    pub(super) fn new(job: JobId, index: u32, result: UnitResult, inline: usize) -> Self {
        let base = format!("/api/v1/jobs/{job}/results/{index}");
        let mut room = inline;
        let mut small = |data: &Data| match data {
            Data::Inline(bytes) if bytes.len() <= room => {
                room -= bytes.len();
                Some(BASE64.encode(bytes))
            }
            _ => None,
        };
        let mut output = |name: &str, data: &Data| Output {
            len: data.len(),
            base64: small(data),
            url: format!("{base}/{name}"),
        };
        let (stdout, stderr) = (output("stdout", &result.stdout), output("stderr", &result.stderr));
        let file = |file: &NamedData| OutputFile {
            url: format!("{base}/files/{}", utf8_percent_encode(&file.path, IN_PATH)),
            path: file.path.clone(),
            len: file.data.len(),
            base64: small(&file.data),
        };
        UnitOutcome {
            index,
            success: result.end.is_success(),
            exit_code: match result.end {
                End::Exited(code) => Some(code),
                _ => None,
            },
            message: result.end.to_string(),
            attempts: result.attempts,
            paid: result.paid.0,
            runner: result.runner,
            cpu_s: seconds(result.cpu_us),
            fuel: result.fuel,
            journey: result
                .journey
                .iter()
                .flat_map(|journey| &journey.spans)
                .copied()
                .map(JourneySpan::from)
                .collect(),
            stdout,
            stderr,
            files: result.files.iter().map(file).collect(),
        }
    }

    /// About how many bytes this takes in an answer.
    pub(super) fn weight(&self) -> usize {
        let inline = |base64: &Option<String>| base64.as_ref().map_or(0, String::len);
        let file = |file: &OutputFile| 2 * file.path.len() + 200 + inline(&file.base64);
        let files: usize = self.files.iter().map(file).sum();
        600 + self.message.len() + inline(&self.stdout.base64) + inline(&self.stderr.base64) + files
    }
}

/// Characters that are encoded in a path: all but `/` and the unreserved ones (RFC 3986).
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(super) fn text<T: std::fmt::Display, S: Serializer>(id: &T, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(id)
}

fn texts<T: std::fmt::Display, S: Serializer>(ids: &[T], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(ids.iter().map(ToString::to_string))
}

pub(super) fn text_or_null<T: std::fmt::Display, S: Serializer>(
    id: &Option<T>,
    s: S,
) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => s.collect_str(id),
        None => s.serialize_none(),
    }
}
