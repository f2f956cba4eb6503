//! The ring of nodes, as far as this gateway knows it.

use super::ApiState;
use super::extract::Query;
use super::model::{Names, text};
use super::problem::Problem;
use crate::driver::{Unanswered, number};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use node_core::circle::{Peer, Point};
use node_core::overlay::ring::MemberView;
use node_core::{Command, Node, NodeEvent, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::time::Duration;
use utoipa::ToSchema;

/// Longer than a lookup's own deadline.
const PATIENCE: Duration = Duration::from_secs(40);

/// Bytes of a name. Our choice: a path.
const MAX_NAME: usize = 4096;

/// Where this gateway is on the ring, and whom it knows there.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RingState {
    /// Whether this gateway has its place on it.
    joined: bool,
    me: RingNode,
    /// It owns the keys behind this point, up to its own; null while it is not sure of any.
    after: Option<String>,
    predecessor: Option<RingNode>,
    /// In order, the next one first.
    successors: Vec<RingNode>,
    /// Members far away, for lookups.
    fingers: Vec<RingNode>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RingNode {
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    id: NodeId,
    /// The id's beginning, for people.
    short: String,
    /// Empty if this gateway never met it.
    name: String,
    /// 32 hexadecimal digits.
    point: String,
}

/// Who owns a key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Owner {
    key: String,
    owner: RingNode,
    /// Who keeps what it owns, in case it dies.
    replicas: Vec<RingNode>,
    /// Messages toward the owner; 0 if this gateway owns it.
    hops: u8,
}

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    name: String,
}

/// Look at the ring of nodes.
///
/// Names are found on it (docs/protocols/ring.md); open to anybody.
#[utoipa::path(
    get, operation_id = "getRing", path = "/api/v1/ring", tag = "swarm",
    responses(
        (status = 200, body = RingState),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn ring(State(state): State<ApiState>) -> Result<Json<RingState>, Problem> {
    Ok(Json(state.node.read(RingState::of).await?))
}

/// Look up who owns a name on the ring.
#[utoipa::path(
    get, operation_id = "getRingOwner", path = "/api/v1/ring/owner", tag = "swarm", security(("token" = [])),
    params(("name" = String, Query, description = "At most 4,096 bytes")),
    responses(
        (status = 200, body = Owner),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Nobody answers for it now"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn owner(
    State(state): State<ApiState>,
    Query(Asked { name }): Query<Asked>,
) -> Result<Json<Owner>, Problem> {
    if name.len() > MAX_NAME {
        return Err(Problem::bad_request(format!(
            "the name has {} bytes; {MAX_NAME} are allowed",
            name.len()
        )));
    }
    let (number, key) = (number(), Point::of_name(name.as_bytes()));
    let found = state.node.ask(Command::Locate { number, key }, PATIENCE, |event| match event {
        NodeEvent::Located { number: of, found } if of == number => Some(found),
        _ => None,
    });
    let missing = |why: &dyn Display| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the owner of `{name}` is not found: {why}"))
    };
    let found = match found.await {
        Ok(Ok(found)) => found,
        Ok(Err(why)) => return Err(missing(&why)),
        Err(Unanswered::Late) => return Err(missing(&"there was no answer in time; try again")),
        Err(Unanswered::Stopped(stopped)) => return Err(stopped.into()),
    };
    let names = state.node.read(|node, _| Names::of(node)).await?;
    Ok(Json(Owner {
        key: hex(key),
        owner: RingNode::of(found.owner, &names),
        replicas: found.replicas.iter().map(|peer| RingNode::of(*peer, &names)).collect(),
        hops: found.hops,
    }))
}

fn hex(point: Point) -> String {
    format!("{:032x}", point.0)
}

impl RingNode {
    fn of(peer: Peer, names: &Names) -> RingNode {
        let id = peer.id();
        RingNode { id, short: id.short(), name: names.get(id), point: hex(peer.point) }
    }
}

impl RingState {
    fn of(node: &Node, now: node_core::Time) -> RingState {
        let names = Names::of(node);
        let member = node.ring().and_then(|ring| ring.members().next());
        let of = |peer: Peer| RingNode::of(peer, &names);
        let (me, point) = (node.id(), Point::of_node(node.id()));
        RingState {
            joined: member.is_some_and(MemberView::joined),
            me: RingNode { id: me, short: me.short(), name: names.get(me), point: hex(point) },
            after: member.and_then(|member| member.answers_for(now)).map(|range| hex(range.after)),
            predecessor: member.and_then(MemberView::predecessor).map(of),
            successors: member
                .map(|member| member.successors().iter().copied().map(of).collect())
                .unwrap_or_default(),
            fingers: member
                .map(|member| member.fingers().map(|(_, peer)| of(peer)).collect())
                .unwrap_or_default(),
        }
    }
}
