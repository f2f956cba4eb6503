//! Parts of requests, with problems in place of axum's own rejections.

use super::problem::Problem;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How long a body may pause. Our choice: longer than any hiccup of a network, short enough
/// that a client which went away does not hold a connection for good.
const BODY_PAUSE: Duration = Duration::from_secs(30);

/// Parameters behind the `?`.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match axum::extract::Query::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(query)) => Ok(Query(query)),
            Err(rejection) => {
                let text = rejection.body_text();
                let reason = text.rsplit_once("query string: ").map_or(text.as_str(), |(_, reason)| reason);
                Err(Problem::bad_request(format!("the parameters behind `?` are not understood: {reason}")))
            }
        }
    }
}

/// Parts of the path.
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Path(path)),
            Err(rejection) => {
                let detail =
                    format!("the path {} is not understood: {}", parts.uri.path(), rejection.body_text());
                Err(Problem::bad_request(detail))
            }
        }
    }
}

/// Number of entries on a page of a list: the usual and the largest one.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    pub(super) usual: u32,
    pub(super) most: u32,
}

impl Limit {
    /// The number of entries to give when `asked` for.
    pub(super) fn of(self, asked: Option<u32>) -> Result<u32, Problem> {
        match asked {
            None => Ok(self.usual),
            Some(n) if (1..=self.most).contains(&n) => Ok(n),
            Some(n) => {
                Err(Problem::bad_request(format!("limit: {n} is not possible; give 1 to {}", self.most)))
            }
        }
    }
}

/// Refuses a body that says beforehand that it is too large.
pub(super) fn check_length(headers: &HeaderMap, what: &str, limit: u64) -> Result<(), Problem> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|len| len > limit) { Err(Problem::too_large(what, limit)) } else { Ok(()) }
}

/// Reads a body piece by piece, never more than `limit` bytes of it.
pub(super) struct Pieces {
    body: axum::body::BodyDataStream,
    what: &'static str,
    limit: u64,
    seen: u64,
}

impl Pieces {
    pub(super) fn new(
        headers: &HeaderMap,
        body: Body,
        what: &'static str,
        limit: u64,
    ) -> Result<Self, Problem> {
        check_length(headers, what, limit)?;
        Ok(Pieces { body: body.into_data_stream(), what, limit, seen: 0 })
    }

    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        match tokio::time::timeout(BODY_PAUSE, self.body.next()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(bytes))) => {
                self.seen += bytes.len() as u64;
                if self.seen > self.limit {
                    return Err(Problem::too_large(self.what, self.limit));
                }
                Ok(Some(bytes))
            }
            Ok(Some(Err(error))) => Err(Problem::bad_request(format!(
                "{} broke off after {} bytes: {error}",
                self.what, self.seen
            ))),
            Err(_) => Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                format!("{} paused for {} s after {} bytes", self.what, BODY_PAUSE.as_secs(), self.seen),
            )),
        }
    }

    async fn all(mut self) -> Result<BytesMut, Problem> {
        let mut all = BytesMut::new();
        while let Some(bytes) = self.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }
}

/// Reads a JSON body; a problem names the field at fault.
pub(super) async fn json<T: DeserializeOwned>(request: Request, limit: u64) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let essence = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    // Besides being clear, this keeps forms out: a form cannot name this type.
    if essence != "application/json" && !(essence.starts_with("application/") && essence.ends_with("+json")) {
        let detail = format!("the body has to be application/json, and the request says {kind:?}");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let bytes = Pieces::new(&parts.headers, body, "the JSON body", limit)?.all().await?;
    parse(&bytes)
}

pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Serde would also take a list of the fields' values, in an order that nobody knows.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::bad_request("the body has to be a JSON object, and it is a list"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        match error.classify() {
            serde_json::error::Category::Data if path != "." => Problem::field(path, error),
            serde_json::error::Category::Data => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
            }
            _ => Problem::bad_request(format!("the body is not JSON: {error}")),
        }
    })?;
    json.end().map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))?;
    Ok(value)
}
