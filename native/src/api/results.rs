//! Results of units.

use super::ApiState;
use super::blobs::respond;
use super::extract::{Limit, Path, Query};
use super::find::find_job;
use super::jobs::read;
use super::model::{ResultList, UnitOutcome};
use super::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use node_core::content::Data;
use node_core::ids::JobId;
use node_core::work::spec::UnitResult;
use serde::Deserialize;

/// Results in one answer.
const RESULTS: Limit = Limit { usual: 100, most: 1000 };

/// About how many bytes an answer may have: it ends early instead, and `next` goes on. Our
/// choice: a few moments of any connection, and nothing for this process to hold.
const MAX_ANSWER: usize = 8 << 20;

/// Content of a result that comes within an answer unless more is asked for. Our choice: what a
/// person reads on a screen.
const INLINE: u32 = 4 << 10;

/// The most that comes so: what a result has in the gateway's records.
const INLINE_MAX: u32 = Data::INLINE_MAX as u32;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ResultsQuery {
    /// The first index, usually 0.
    from: Option<u32>,
    /// 1 to 1000, usually 100.
    limit: Option<u32>,
    /// Bytes of content that come within each result, as base64: 0 to 65536, usually 4096. What is
    /// more has to be read from its `url`.
    inline: Option<u32>,
}

/// List results.
///
/// Only units that ended have one: ask again for the rest while the job runs.
#[utoipa::path(
    get, operation_id = "listResults", path = "/api/v1/jobs/{id}/results", tag = "results", security(("token" = [])),
    params(("id" = String, Path, description = "The job's id, its short form, or 4 or more of its first digits"), ResultsQuery),
    responses(
        (status = 200, body = ResultList),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Query(query): Query<ResultsQuery>,
) -> Result<Json<ResultList>, Problem> {
    let limit = RESULTS.of(query.limit)? as usize;
    let from = query.from.unwrap_or(0);
    let inline = query.inline.unwrap_or(INLINE);
    if inline > INLINE_MAX {
        let detail = format!("inline: {inline} is not possible; give 0 to {INLINE_MAX}");
        return Err(Problem::bad_request(detail));
    }
    let job = find_job(&state, &id).await?;
    read(&state, job).await?;
    let storage = state.node.storage().clone();
    let list = super::blocking(move || {
        let found = storage.results(job, from, (limit, MAX_ANSWER)).map_err(Problem::storage)?;
        Ok(collect(job, found, (inline as usize, MAX_ANSWER)))
    });
    Ok(Json(list.await?))
}

/// `more`: the found ones may not be the last. `inline`: bytes of content within each result; `budget`: bytes of the whole answer, about.
fn collect(
    job: JobId,
    (found, more): (Vec<(u32, UnitResult)>, bool),
    (inline, budget): (usize, usize),
) -> ResultList {
    let mut results = Vec::with_capacity(found.len());
    let (mut weight, mut next) = (0, None);
    for (index, result) in found {
        let outcome = UnitOutcome::new(job, index, result, inline);
        weight += outcome.weight();
        if weight > budget && !results.is_empty() {
            return ResultList { results, next: Some(index) };
        }
        next = index.checked_add(1);
        results.push(outcome);
    }
    ResultList { results, next: next.filter(|_| more) }
}

async fn result(state: &ApiState, id: &str, index: u32) -> Result<UnitResult, Problem> {
    let job = find_job(state, id).await?;
    let storage = state.node.storage().clone();
    let result = super::blocking(move || storage.result(job, index).map_err(Problem::storage)).await?;
    if let Some(result) = result {
        return Ok(result);
    }
    read(state, job).await?;
    Err(Problem::not_found(format!("unit {index} of job {job} has no result yet, or does not exist")))
}

/// Read what a unit wrote to its standard output.
#[utoipa::path(
    get, operation_id = "readStdout", path = "/api/v1/jobs/{id}/results/{index}/stdout", tag = "results", security(("token" = [])),
    params(("id" = String, Path, description = "The job"), ("index" = u32, Path, description = "The unit")),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn stdout(
    State(state): State<ApiState>,
    Path((id, index)): Path<(String, u32)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    respond(&state, &headers, &result(&state, &id, index).await?.stdout).await
}

/// Read what a unit wrote to its standard error.
#[utoipa::path(
    get, operation_id = "readStderr", path = "/api/v1/jobs/{id}/results/{index}/stderr", tag = "results", security(("token" = [])),
    params(("id" = String, Path, description = "The job"), ("index" = u32, Path, description = "The unit")),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn stderr(
    State(state): State<ApiState>,
    Path((id, index)): Path<(String, u32)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    respond(&state, &headers, &result(&state, &id, index).await?.stderr).await
}

/// Read a file that a unit made or changed.
#[utoipa::path(
    get, operation_id = "readFile", path = "/api/v1/jobs/{id}/results/{index}/files/{*path}", tag = "results", security(("token" = [])),
    params(
        ("id" = String, Path, description = "The job"),
        ("index" = u32, Path, description = "The unit"),
        ("path" = String, Path, description = "The file's path, its slashes as they are"),
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn file(
    State(state): State<ApiState>,
    Path((id, index, path)): Path<(String, u32, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let result = result(&state, &id, index).await?;
    match result.files.iter().find(|file| file.path == path) {
        Some(file) => respond(&state, &headers, &file.data).await,
        None => {
            let names: Vec<_> = result.files.iter().take(10).map(|file| file.path.as_str()).collect();
            let has = if names.is_empty() {
                "it wrote no files".into()
            } else {
                format!("it has {}", names.join(", "))
            };
            Err(Problem::not_found(format!("unit {index} left no file {path:?}; {has}")))
        }
    }
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
