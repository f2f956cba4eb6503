//! Units of a job that waited, over time.

use super::time::rfc3339;
use node_core::Node;
use node_core::ids::JobId;
use serde::Serialize;
use utoipa::ToSchema;

/// Units of a job that waited from some time on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct QueueStep {
    /// RFC 3339, UTC.
    #[schema(format = DateTime)]
    at: String,
    waiting: u32,
}

impl QueueStep {
    pub(super) fn all_of(node: &Node, job: JobId) -> Vec<QueueStep> {
        let steps = node.job_queue(job).iter();
        steps.map(|(at, waiting)| QueueStep { at: rfc3339(*at), waiting: *waiting }).collect()
    }
}
