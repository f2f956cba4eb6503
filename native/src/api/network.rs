//! The swarm: how to join, who takes part, whether this gateway is well.

use super::ApiState;
use super::jobs::check_ready;
use super::model::{Network, NodeInfo, NodeList};
use super::problem::Problem;
use crate::driver::STALL;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use libp2p::PeerId;
use libp2p::identity::ed25519;
use node_core::Carrier;
use node_core::overlay::dialback::Standing;
use node_core::overlay::signalling::Outcomes;
use serde::Serialize;
use std::net::SocketAddr;
use std::time::Duration;
use utoipa::ToSchema;

/// For an answer of a node that counts as stalled: it may have gone on this moment.
const DOUBT: Duration = Duration::from_millis(500);

/// Attempts at data channels with this gateway since its start, whoever wanted them, by how they ended.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DataChannels {
    opened: u64,
    /// The two found no way to each other.
    unreached: u64,
    /// The peer, or the node that forwards to it, said nothing.
    unanswered: u64,
    /// The peer did not want one, or had too many.
    refused: u64,
    /// One of the two could not make its end, or was not the node that it should be.
    failed: u64,
    /// Nodes that this gateway then reached by way of another node, which passes on what it cannot read.
    relayed: u64,
}

impl DataChannels {
    fn of(it: Outcomes, relayed: u64) -> Self {
        let Outcomes { opened, unreached, unanswered, refused, failed } = it;
        DataChannels { opened, unreached, unanswered, refused, failed, relayed }
    }
}

/// Work of this gateway for others that cannot connect directly: it passes on what they write to each other.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Relaying {
    /// Connections that it passes on now.
    circuits: usize,
    /// Bytes passed on since its start.
    bytes: u64,
}

/// Carrier of a connection.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Connection {
    Tcp,
    WebSocket,
    /// A data channel, by UDP.
    WebRtc,
    /// By way of another node, which passes on what it cannot read.
    Relay,
}

impl From<Carrier> for Connection {
    fn from(carrier: Carrier) -> Self {
        match carrier {
            Carrier::Tcp => Connection::Tcp,
            Carrier::WebSocket => Connection::WebSocket,
            Carrier::DataChannel => Connection::WebRtc,
            Carrier::Relay => Connection::Relay,
        }
    }
}

/// How to join.
///
/// Everything a node has to know to take part; open to anybody.
#[utoipa::path(
    get, operation_id = "getNetwork", path = "/api/v1/network", tag = "swarm",
    responses(
        (status = 200, body = Network),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn network(State(state): State<ApiState>) -> Result<Json<Network>, Problem> {
    let node = state.node.id();
    let peer_id = ed25519::PublicKey::try_from_bytes(&node.0)
        .map(|key| PeerId::from_public_key(&key.into()).to_string())
        .map_err(|error| {
            let detail = format!("this gateway's own key is broken: {error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
        })?;
    let seen = state.node.read(|node, _| {
        let channels = node.data_channels().map(|it| DataChannels::of(it, node.relayed_connections()));
        let relaying = node.relayed().map(|(circuits, bytes)| Relaying { circuits, bytes });
        (node.standing(), channels, relaying)
    });
    let (standing, data_channels, relaying) = seen.await?;
    let (reached_at, guest_because) = match standing {
        Standing::Member(at) => (Some(SocketAddr::new(at.ip.into(), at.port).to_string()), None),
        Standing::Guest(why) if !state.node.addresses().is_empty() => (None, Some(why.to_string())),
        Standing::Guest(_) | Standing::Unknown => (None, None),
    };
    Ok(Json(Network {
        reached_at,
        guest_because,
        node,
        peer_id,
        name: state.name.clone(),
        gateway: state.gateway,
        version: env!("CARGO_PKG_VERSION"),
        addresses: state.node.addresses().iter().map(ToString::to_string).collect(),
        invite_required: state.invite_required,
        data_channels,
        relaying,
    }))
}

/// List nodes.
///
/// Those that take part now, the gateway first; open to anybody.
#[utoipa::path(
    get, operation_id = "listNodes", path = "/api/v1/nodes", tag = "swarm",
    responses(
        (status = 200, body = NodeList),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn nodes(State(state): State<ApiState>) -> Result<Json<NodeList>, Problem> {
    let nodes = state.node.read(|node, now| node.nodes(now)).await?;
    Ok(Json(NodeList { nodes: nodes.into_iter().map(NodeInfo::from).collect() }))
}

/// How this gateway is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `ok`; anything else is a problem document.
    #[schema(value_type = String)]
    status: &'static str,
}

const OK: Json<Health> = Json(Health { status: "ok" });

/// Whether the process runs and its node answers.
#[utoipa::path(
    get, operation_id = "getHealth", path = "/healthz", tag = "operation",
    responses(
        (status = 200, body = Health),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Restart it"),
    )
)]
pub(super) async fn health(State(state): State<ApiState>) -> Result<Json<Health>, Problem> {
    ask(&state).await.map(|()| OK)
}

/// Whether it has read what it kept and takes jobs.
#[utoipa::path(
    get, operation_id = "getReadiness", path = "/readyz", tag = "operation",
    responses(
        (status = 200, body = Health),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Wait for it"),
    )
)]
pub(super) async fn readiness(State(state): State<ApiState>) -> Result<Json<Health>, Problem> {
    ask(&state).await?;
    check_ready(&state).await.map(|()| OK)
}

/// The node's thread turns.
async fn ask(state: &ApiState) -> Result<(), Problem> {
    let patience = if state.node.stalled().is_some() { DOUBT } else { STALL };
    match tokio::time::timeout(patience, state.node.read(|_, _| ())).await {
        Ok(answer) => Ok(answer?),
        Err(_) => {
            let detail = match state.node.stalled() {
                Some(since) => format!(
                    "the node's thread has been at one input for {} s; restart this gateway if it does not \
                     go on, and report this with its log",
                    since.as_secs()
                ),
                None => format!("the node has not answered for {} s; it is very busy", STALL.as_secs()),
            };
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
        }
    }
}
