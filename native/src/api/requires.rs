//! Requirements of a job on the nodes that run it, from its JSON.

use super::problem::Problem;
use node_core::discovery::fitting::View;
use node_core::ids::{JobId, NodeId};
use node_core::requires::{Requires, processor, system};
use node_core::work::spec::Find;
use node_core::work::submission::MEMORY;
use node_core::{Node, Platform};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Requirements on a node that runs a unit; whatever is left out, any node has. For `find: fitting`.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Requires)]
pub(super) struct RequiresRequest {
    /// Bytes of memory that it gives a unit. It gives at least the job's `memory_limit` in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<u64>,
    /// Speed of a slot, fuel a second, as the node has measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<u64>,
    /// Bytes on disk that a unit may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<u64>,
    /// The kind of engine.
    #[serde(default)]
    platform: PlatformAsked,
    /// Operating system, as `linux`, `macos` or `windows`.
    #[schema(example = "linux")]
    #[serde(skip_serializing_if = "Option::is_none")]
    os: Option<String>,
    /// Processor, as `x86_64` or `aarch64`.
    #[schema(example = "x86_64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<String>,
    /// Labels that its donor has given it, at most 16; words of 1 to 64 letters, digits, `-`, `_`, `.` or `/`.
    #[schema(example = json!({"site": "graz"}))]
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum PlatformAsked {
    /// Servers and pages.
    #[default]
    Either,
    Native,
    Browser,
}

impl RequiresRequest {
    pub(super) fn check(self) -> Result<Requires, Problem> {
        if let Some(bytes) = self.memory.filter(|bytes| !MEMORY.contains(bytes)) {
            let (low, high) = (MEMORY.start(), MEMORY.end());
            let message = format!("{bytes} bytes are not possible; give {low} to {high}");
            return Err(Problem::field("requires.memory", message));
        }
        let requires = Requires {
            speed: self.speed.unwrap_or_default(),
            disk_bytes: self.disk.unwrap_or_default(),
            platform: match self.platform {
                PlatformAsked::Either => None,
                PlatformAsked::Native => Some(Platform::Native),
                PlatformAsked::Browser => Some(Platform::Browser),
            },
            os: self.os.as_deref().map(system),
            arch: self.arch.as_deref().map(processor),
            labels: self.labels.into_iter().collect(),
            memory_bytes: self.memory.unwrap_or_default(),
        };
        match requires.check() {
            Ok(()) => Ok(requires),
            Err(why) => Err(Problem::field("requires", why.to_string())),
        }
    }
}

impl From<&Requires> for RequiresRequest {
    fn from(requires: &Requires) -> RequiresRequest {
        let some = |amount: u64| Some(amount).filter(|amount| *amount > 0);
        RequiresRequest {
            memory: some(requires.memory_bytes),
            speed: some(requires.speed),
            disk: some(requires.disk_bytes),
            platform: match requires.platform {
                None => PlatformAsked::Either,
                Some(Platform::Native) => PlatformAsked::Native,
                Some(Platform::Browser) => PlatformAsked::Browser,
            },
            os: requires.os.clone(),
            arch: requires.arch.clone(),
            labels: requires.labels.iter().cloned().collect(),
        }
    }
}

/// Standing of a job with requirements among the nodes of the swarm.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Fitting {
    requires: RequiresRequest,
    /// While units wait; else missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Waits>,
}

/// Nodes that may run a job, and where they learn of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Waits {
    /// Nodes of the swarm that run something, when the job began to wait.
    nodes: u32,
    /// About so many of them have what it requires.
    able: u32,
    /// Meeting nodes where it is marked, 64 hexadecimal digits each.
    #[serde(serialize_with = "texts")]
    #[schema(value_type = Vec<String>)]
    meetings: Vec<NodeId>,
    /// Nodes that have what it requires, or gateways of such pages, where it is marked, too.
    #[serde(serialize_with = "texts")]
    #[schema(value_type = Vec<String>)]
    capable: Vec<NodeId>,
    /// Units that run for its submitter, of all jobs that the submitter has at this node. The more there are beside
    /// those of others, the longer it waits.
    running: u32,
    /// Weight of its submitter: with twice the weight, twice the units run.
    weight: u16,
}

fn texts<S: Serializer>(nodes: &[NodeId], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(nodes.iter().map(ToString::to_string))
}

impl Fitting {
    /// Standing of a job of this node; none if it is found otherwise.
    pub(super) fn of(node: &Node, job: JobId) -> Option<Fitting> {
        let spec = node.job_spec(job).filter(|spec| spec.find == Find::Fitting)?;
        let view = node.fitting().and_then(|fitting| fitting.view(job));
        let waits = view.map(|View { nodes, able, meetings, running, weight, capable, .. }| Waits {
            nodes,
            able,
            meetings,
            capable,
            running,
            weight,
        });
        Some(Fitting { requires: RequiresRequest::from(&*spec.requires), waits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Requires, String> {
        let request: RequiresRequest = serde_json::from_str(json).map_err(|e| e.to_string())?;
        request.check().map_err(|problem| problem.parts().1.to_owned())
    }

    #[test]
    fn each_word_asks_for_what_it_says_and_none_for_nothing() {
        assert_eq!(read("{}"), Ok(Requires::default()));
        assert_eq!(read(r#"{"platform": "either"}"#), Ok(Requires::default()));
        let all = r#"{"memory": 1048576, "speed": 7, "disk": 9, "platform": "native", "os": "linux",
            "arch": "x86_64", "labels": {"site": "graz"}}"#;
        let asked = Requires {
            speed: 7,
            disk_bytes: 9,
            platform: Some(Platform::Native),
            os: Some("linux".into()),
            arch: Some("x86_64".into()),
            labels: vec![("site".into(), "graz".into())],
            memory_bytes: 1 << 20,
        };
        let sent = serde_json::to_string(&RequiresRequest::from(&asked)).unwrap();
        assert_eq!(read(&sent).as_ref(), Ok(&asked), "it is told as it was asked for");
        assert_eq!(read(all), Ok(asked));
        let other =
            Requires { os: Some("macos".into()), arch: Some("aarch64".into()), ..Requires::default() };
        assert_eq!(read(r#"{"os": "Darwin", "arch": "arm64"}"#), Ok(other), "by the names that nodes state");
    }

    #[test]
    fn what_nobody_could_have_is_refused_and_named() {
        for (json, words) in [
            (r#"{"memory": 1}"#, ["requires.memory", "65536"]),
            (r#"{"labels": {"a b": "c"}}"#, ["requires", "a b"]),
            (r#"{"os": ""}"#, ["requires", "1 to 64"]),
            (r#"{"platform": "phone"}"#, ["phone", "native"]),
            (r#"{"cores": 4}"#, ["cores", "memory"]),
        ] {
            let why = read(json).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{json}: {why}");
        }
    }
}
