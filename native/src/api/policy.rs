//! The donor's policy: what is set, what may be used now and why not more.

use super::ApiState;
use super::extract::json;
use super::problem::Problem;
use crate::policy::Enforcer;
use crate::policy::file::Refused;
use crate::policy::view::View;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;

/// Bytes of a policy, at most: as those of the file.
const MAX_POLICY: u64 = 4 << 20;

/// Read the policy.
///
/// That of this gateway's own slots: all settings, which of them are set, and what they come to now.
/// Where nothing runs, each reason with what would end it.
#[utoipa::path(
    get, operation_id = "getPolicy", path = "/api/v1/policy", tag = "operation", security(("token" = [])),
    responses(
        (status = 200, body = View),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn get(State(state): State<ApiState>) -> Result<Json<View>, Problem> {
    let enforcer = enforcer(&state)?;
    Ok(Json(super::blocking(move || Ok(enforcer.view())).await?))
}

/// Replace the policy.
///
/// With the settings in the body; those it leaves out have their defaults. They are written down and
/// count at once, space aside, which counts when the node starts. Settings that contradict each other
/// change nothing.
#[utoipa::path(
    put, operation_id = "setPolicy", path = "/api/v1/policy", tag = "operation", security(("token" = [])),
    request_body(content = Object, description = "Settings as in `set`"),
    responses(
        (status = 200, body = View),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn put(State(state): State<ApiState>, request: Request) -> Result<Json<View>, Problem> {
    let enforcer = enforcer(&state)?;
    let set: toml::Table = json(request, MAX_POLICY).await?;
    let replaced = super::blocking(move || {
        enforcer.replace(&set).map_err(|refused| match refused {
            Refused::Settings { key: Some(key), why } => Problem::about(key, why),
            Refused::Settings { key: None, why } => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why),
            Refused::Unwritable(why) => Problem::storage(why),
        })?;
        Ok(enforcer.view())
    });
    Ok(Json(replaced.await?))
}

fn enforcer(state: &ApiState) -> Result<Enforcer, Problem> {
    state.policy.clone().ok_or_else(|| {
        Problem::not_found(
            "this node has no policy: it lives in a command and goes with it; see `manyhands up`",
        )
    })
}
