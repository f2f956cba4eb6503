//! Moving units by hand.

use super::ApiState;
use super::extract::{self, Path};
use super::find::{find_job, find_node};
use super::jobs::{check_ready, no_job};
use super::model::Unit;
use super::problem::Problem;
use crate::driver::Unanswered;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use node_core::{Command, JobId, NodeEvent, UnitId};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// Bytes of a request's JSON. Our choice: an id and some spaces.
const MAX_JSON: u64 = 1024;

/// How long a move is waited for. Our choice: a gigabyte over a slow line.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where a unit should go on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MigrateRequest {
    /// A node's id, its short form or 4 or more of its first digits, or its name; any other node
    /// with room if absent.
    to: Option<String>,
}

/// Move a running unit to another node.
///
/// It runs on while the other node gets ready for it. Answers when it goes on there.
#[utoipa::path(
    post, operation_id = "migrateUnit", path = "/api/v1/jobs/{id}/units/{index}/migrate", tag = "jobs", security(("token" = [])),
    params(
        ("id" = String, Path, description = "The job's id, its short form, or 4 or more of its first digits"),
        ("index" = u32, Path, description = "The unit's index"),
    ),
    request_body = MigrateRequest,
    responses(
        (status = 200, body = Moved),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It could not be moved there, and goes on all the same"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn migrate(
    State(state): State<ApiState>,
    Path((id, index)): Path<(String, u32)>,
    request: Request,
) -> Result<Json<Moved>, Problem> {
    let asked: MigrateRequest = extract::json(request, MAX_JSON).await?;
    let unit = find_unit(&state, &id, index).await?;
    let to = match &asked.to {
        Some(text) => Some(find_node(&state, text).await?),
        None => None,
    };
    let moved = state.node.ask(Command::Migrate { unit, to }, PATIENCE, |event| match event {
        NodeEvent::Migrated { unit: moved, standstill, .. } if moved == unit => Some(Ok(standstill)),
        NodeEvent::MigrationFailed { unit: stayed, why } if stayed == unit => Some(Err(why)),
        _ => None,
    });
    match moved.await {
        Ok(Ok(standstill)) => {
            let Json(unit) = read(&state, unit).await?;
            Ok(Json(Moved { unit, standstill_ms: standstill.as_secs_f64() * 1e3 }))
        }
        Ok(Err(why)) => {
            let detail = format!("{} cannot be moved: {why}", name(unit));
            Err(Problem::new(StatusCode::CONFLICT, detail))
        }
        Err(Unanswered::Late) => {
            let detail = format!(
                "{} is still on its way after {} s; look at it again later",
                name(unit),
                PATIENCE.as_secs()
            );
            Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, detail))
        }
        Err(Unanswered::Stopped(stopped)) => Err(stopped.into()),
    }
}

/// A unit that has moved.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Moved {
    #[serde(flatten)]
    unit: Unit,
    /// Milliseconds from the word to stop on the old node to the first instruction on the new one.
    standstill_ms: f64,
}

/// Whether a unit should stand still.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PauseRequest {
    paused: bool,
}

/// Let a unit stand still, or go on.
///
/// It keeps its slot and its memory.
#[utoipa::path(
    post, operation_id = "pauseUnit", path = "/api/v1/jobs/{id}/units/{index}/pause", tag = "jobs", security(("token" = [])),
    params(
        ("id" = String, Path, description = "The job's id, its short form, or 4 or more of its first digits"),
        ("index" = u32, Path, description = "The unit's index"),
    ),
    request_body = PauseRequest,
    responses(
        (status = 200, body = Unit),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It has ended"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn pause(
    State(state): State<ApiState>,
    Path((id, index)): Path<(String, u32)>,
    request: Request,
) -> Result<Json<Unit>, Problem> {
    let asked: PauseRequest = extract::json(request, MAX_JSON).await?;
    let unit = find_unit(&state, &id, index).await?;
    state.node.command(Command::PauseUnit { unit, paused: asked.paused });
    // Read after the command: the unit may have ended meanwhile.
    let Json(found) = read(&state, unit).await?;
    match found.end() {
        None => Ok(Json(found)),
        Some(end) => {
            let name = name(unit);
            let word = if asked.paused { "paused" } else { "resumed" };
            let detail = format!(
                "{name} has ended ({end}) and cannot be {word}; `manyhands unit {name}` shows how it ended"
            );
            Err(Problem::new(StatusCode::CONFLICT, detail))
        }
    }
}

/// The unit as commands name it.
fn name(unit: UnitId) -> String {
    format!("{}/{}", unit.job.short(), unit.index)
}

/// A unit, as it stands and how it came there.
#[utoipa::path(
    get, operation_id = "getUnit", path = "/api/v1/jobs/{id}/units/{index}", tag = "jobs", security(("token" = [])),
    params(
        ("id" = String, Path, description = "The job's id, its short form, or 4 or more of its first digits"),
        ("index" = u32, Path, description = "The unit's index"),
    ),
    responses(
        (status = 200, body = Unit),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn unit(
    State(state): State<ApiState>,
    Path((id, index)): Path<(String, u32)>,
) -> Result<Json<Unit>, Problem> {
    let unit = find_unit(&state, &id, index).await?;
    read(&state, unit).await
}

async fn find_unit(state: &ApiState, id: &str, index: u32) -> Result<UnitId, Problem> {
    let job = find_job(state, id).await?;
    let units = state.node.read(move |node, _| node.job(job).map(|job| job.units)).await?;
    match units {
        Some(units) if index < units => Ok(UnitId { job, index }),
        Some(units) => {
            Err(Problem::not_found(format!("{} has units 0 to {}, and no {index}", job.short(), units - 1)))
        }
        None => Err(unknown(state, job).await),
    }
}

async fn read(state: &ApiState, unit: UnitId) -> Result<Json<Unit>, Problem> {
    let found = state.node.read(move |node, _| node.units(unit.job, unit.index, 1)?.into_iter().next());
    match found.await? {
        Some(unit) => Ok(Json(unit.into())),
        None => Err(unknown(state, unit.job).await),
    }
}

async fn unknown(state: &ApiState, job: JobId) -> Problem {
    match check_ready(state).await {
        Ok(()) => no_job(job),
        Err(problem) => problem,
    }
}
