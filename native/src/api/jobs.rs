//! Jobs: submit, look at, cancel.

use super::ApiState;
use super::extract::{self, Limit, Path, Query};
use super::find::{ALL_JOBS, find_job};
use super::model::{Job, JobList, Names, Unit, UnitList};
use super::problem::Problem;
use super::request::JobRequest;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use node_core::ids::{BlobId, JobId};
use node_core::work::spec::JobSpec;
use node_core::work::view::JobView;
use node_core::{Command, NodeEvent};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

/// Bytes of a job's JSON. Our choice: several hundred thousand units that are listed one by one.
const MAX_JSON: u64 = 64 << 20;

/// Jobs in one answer.
const JOBS: Limit = Limit { usual: 50, most: 1000 };

/// Units in one answer.
const UNITS: Limit = Limit { usual: 100, most: 1000 };

/// How long a cancellation is waited for before the answer shows the job as it stands.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Submit a job.
///
/// The job is durable when this answers. With an `Idempotency-Key`, repeating the same request
/// gives the same job instead of another one.
#[utoipa::path(
    post, operation_id = "submitJob", path = "/api/v1/jobs", tag = "jobs", security(("token" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters of your choice, one for each job you mean")),
    request_body = JobRequest,
    responses(
        (status = 201, body = Job, headers(("Location" = String, description = "Where the job is"))),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The key was used for another job"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "A field is at fault, or the program cannot run here"),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "It could not be stored"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn submit(State(state): State<ApiState>, request: Request) -> Result<Response, Problem> {
    let key = idempotency_key(request.headers())?;
    let asked: JobRequest = extract::json(request, MAX_JSON).await?;
    let checker = state.clone();
    let spec = super::blocking(move || {
        let mut lengths = BTreeMap::new();
        let storage = checker.node.storage();
        let mut stored =
            |id: BlobId| *lengths.entry(id).or_insert_with(|| storage.blob(id).map(|(_, len)| len));
        let spec = asked.check(&mut stored)?;
        checker.programs.check(storage, spec.template.program, &spec.template.limits)?;
        Ok(spec)
    })
    .await?;
    check_ready(&state).await?;
    let id = match &key {
        None => {
            let id = random_id()?;
            state.node.submit(id, spec).await?;
            id
        }
        Some(key) => {
            let id = id_of_key(&state.job_ids, key);
            check_same(&state, id, &spec).await?;
            // Also when the job is there: it may not be durable yet, and this waits for it.
            if let Err(refused) = state.node.submit(id, spec.clone()).await {
                // Perhaps because another request with this key was faster.
                check_same(&state, id, &spec).await?;
                return Err(refused.into());
            }
            id
        }
    };
    let job = read(&state, id).await?;
    let place = [(header::LOCATION, format!("/api/v1/jobs/{id}"))];
    Ok((StatusCode::CREATED, place, Json(job)).into_response())
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = key.as_bytes();
    if !(1..=255).contains(&key.len()) || !key.iter().all(u8::is_ascii_graphic) {
        return Err(Problem::bad_request("Idempotency-Key: give 1 to 255 visible ASCII characters"));
    }
    Ok(Some(String::from_utf8_lossy(key).into_owned()))
}

/// The job of a key. Keys may be as plain as `monday`: without the gateway's secret, whoever guesses one
/// could put another job under its id onto the ring first.
fn id_of_key(secret: &[u8; 32], key: &str) -> JobId {
    let hash = blake3::keyed_hash(secret, key.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash.as_bytes()[..16]);
    JobId(id)
}

fn random_id() -> Result<JobId, Problem> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| {
        let detail = format!("this machine gave no random numbers to name the job with: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    })?;
    Ok(JobId(id))
}

/// A job under this id is this very job, or the request is in conflict with it.
async fn check_same(state: &ApiState, id: JobId, spec: &JobSpec) -> Result<(), Problem> {
    let spec = spec.clone();
    let same = state.node.read(move |node, _| node.job_spec(id).is_none_or(|known| *known == spec)).await?;
    if same {
        return Ok(());
    }
    let detail = format!("this Idempotency-Key was used for another job, {id}; use a new key for a new job");
    Err(Problem::new(StatusCode::CONFLICT, detail))
}

/// Until its records are read, a gateway that restarted does not know which jobs it has.
pub(super) async fn check_ready(state: &ApiState) -> Result<(), Problem> {
    if state.node.read(|node, _| node.is_ready()).await? {
        return Ok(());
    }
    let detail = "the gateway is still reading the jobs that it kept; ask again in a moment";
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
}

/// The job as it stands.
pub(super) async fn read(state: &ApiState, id: JobId) -> Result<Job, Problem> {
    match state.node.read(move |node, _| Job::of(node, id)).await? {
        Some(job) => Ok(job),
        None => {
            check_ready(state).await?;
            Err(no_job(id))
        }
    }
}

pub(super) fn no_job(id: JobId) -> Problem {
    Problem::not_found(format!("there is no job {id}; {ALL_JOBS}"))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct JobsQuery {
    /// 1 to 1000, usually 50.
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// List jobs, newest first.
#[utoipa::path(
    get, operation_id = "listJobs", path = "/api/v1/jobs", tag = "jobs", security(("token" = [])), params(JobsQuery),
    responses(
        (status = 200, body = JobList),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    Query(query): Query<JobsQuery>,
) -> Result<Json<JobList>, Problem> {
    let limit = JOBS.of(query.limit)? as usize;
    let after = query.cursor.as_deref().map(Cursor::parse).transpose()?;
    check_ready(&state).await?;
    let list = state.node.read(move |node, _| {
        let (jobs, more) = page(node.jobs(), after.as_ref(), limit);
        let next = jobs.last().filter(|_| more).map(|job| Cursor::at(job).to_string());
        let names = Names::of(node);
        JobList { jobs: jobs.into_iter().map(|job| Job::new(job, &names)).collect(), next }
    });
    Ok(Json(list.await?))
}

/// The last job of a page: when it was submitted, and which it is.
#[derive(Debug, PartialEq, Eq)]
struct Cursor {
    submitted_ms: u64,
    id: JobId,
}

impl Cursor {
    fn at(job: &JobView) -> Self {
        Cursor { submitted_ms: job.submitted_ms, id: job.id }
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        let parsed = text.split_once('-').and_then(|(ms, id)| {
            Some(Cursor { submitted_ms: u64::from_str_radix(ms, 16).ok()?, id: id.parse().ok()? })
        });
        parsed.ok_or_else(|| Problem::bad_request("cursor: give the `next` of the page before, unchanged"))
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{}", self.submitted_ms, self.id)
    }
}

/// Up to `limit` jobs behind the cursor, and whether more follow. Jobs that came or went since
/// the page before do not shift the others.
fn page(jobs: Vec<JobView>, after: Option<&Cursor>, limit: usize) -> (Vec<JobView>, bool) {
    let start = match after {
        None => 0,
        Some(after) => match jobs.iter().position(|job| job.id == after.id) {
            Some(at) => at + 1,
            None => jobs.partition_point(|job| job.submitted_ms > after.submitted_ms),
        },
    };
    let more = jobs.len() > start + limit;
    (jobs.into_iter().skip(start).take(limit).collect(), more)
}

/// Look at a job.
#[utoipa::path(
    get, operation_id = "getJob", path = "/api/v1/jobs/{id}", tag = "jobs", security(("token" = [])),
    params(("id" = String, Path, description = "The id, its short form, or 4 or more of its first digits")),
    responses(
        (status = 200, body = Job),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn get(State(state): State<ApiState>, Path(id): Path<String>) -> Result<Json<Job>, Problem> {
    let id = find_job(&state, &id).await?;
    Ok(Json(read(&state, id).await?))
}

/// Cancel a job.
///
/// Units that have not ended are not run any more; results that came stay. Cancelling a job that
/// is over changes nothing.
#[utoipa::path(
    delete, operation_id = "cancelJob", path = "/api/v1/jobs/{id}", tag = "jobs", security(("token" = [])),
    params(("id" = String, Path, description = "The id, its short form, or 4 or more of its first digits")),
    responses(
        (status = 200, body = Job),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn cancel(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<Job>, Problem> {
    let id = find_job(&state, &id).await?;
    let mut events = state.node.events();
    let mut job = read(&state, id).await?;
    if !job.state.is_over() {
        state.node.command(Command::Cancel { job: id });
        let ended = async {
            loop {
                match events.recv().await {
                    Ok(NodeEvent::JobEnded { job }) if job == id => break,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_) | RecvError::Closed) => break,
                }
            }
        };
        // The answer shows the job as it is then, over or not.
        let _ = tokio::time::timeout(CANCEL_WAIT, ended).await;
        job = read(&state, id).await?;
    }
    Ok(Json(job))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RangeQuery {
    /// The first index, usually 0.
    pub(super) from: Option<u32>,
    /// 1 to 1000, usually 100.
    pub(super) limit: Option<u32>,
}

/// List a job's units.
#[utoipa::path(
    get, operation_id = "listUnits", path = "/api/v1/jobs/{id}/units", tag = "jobs", security(("token" = [])),
    params(("id" = String, Path, description = "The job's id, its short form, or 4 or more of its first digits"), RangeQuery),
    responses(
        (status = 200, body = UnitList),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn units(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Query(range): Query<RangeQuery>,
) -> Result<Json<UnitList>, Problem> {
    let limit = UNITS.of(range.limit)?;
    let from = range.from.unwrap_or(0);
    let id = find_job(&state, &id).await?;
    let list = state.node.read(move |node, _| {
        let total = node.job(id)?.units;
        let units = node.units(id, from, limit)?;
        let next = units.last().map(|unit| unit.index + 1).filter(|next| *next < total);
        Some(UnitList { units: units.into_iter().map(Unit::from).collect(), next })
    });
    match list.await? {
        Some(list) => Ok(Json(list)),
        None => {
            check_ready(&state).await?;
            Err(no_job(id))
        }
    }
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
