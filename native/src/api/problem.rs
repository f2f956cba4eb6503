//! Errors as RFC 9457 problem documents: what happened, to what, what to do next.

use crate::driver::{Stopped, SubmitError};
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use node_core::work::client::NotAccepted;
use serde::Serialize;
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Longest text of a problem, and longest name of a field in it, bytes: both may repeat what a request said. Our choice: a
/// screen of text.
const DETAIL_MAX: usize = 2000;
const FIELD_MAX: usize = 200;

/// Why a request was not fulfilled (RFC 9457).
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Problem {
    /// Always `about:blank`: the status says which kind of problem it is.
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "about:blank")]
    kind: &'static str,
    /// The status in words.
    #[schema(value_type = String, example = "Unprocessable Entity")]
    title: &'static str,
    /// The HTTP status.
    #[schema(value_type = u16, example = 422)]
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    /// What happened, to what, and what to do next.
    #[schema(value_type = String, example = "`time_limit`: 0 is not a time; give seconds above 0")]
    detail: Cow<'static, str>,
    /// The field of the request's body that is at fault, when it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "time_limit")]
    field: Option<String>,
}

fn as_number<S: serde::Serializer>(status: &StatusCode, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_u16(status.as_u16())
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Problem { kind: "about:blank", title, status, detail: detail.into(), field: None }
    }

    pub(super) fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn not_found(detail: impl Into<Cow<'static, str>>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    /// `what` holds more than `limit` bytes.
    pub(super) fn too_large(what: &str, limit: u64) -> Self {
        let detail = format!("{what} is larger than the {limit} bytes that this gateway takes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    /// A field of the body is understood and cannot be followed.
    pub(super) fn field(field: impl Into<String>, message: impl std::fmt::Display) -> Self {
        let field = field.into();
        let detail = format!("`{field}`: {message}");
        Problem { field: Some(field), ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    /// [`Problem::field`] with a text that names the field already, or others too.
    pub(super) fn about(field: String, detail: String) -> Self {
        Problem { field: Some(field), ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    /// This gateway's own disk, not the request, is at fault.
    pub(super) fn storage(error: impl std::fmt::Display) -> Self {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the gateway's storage failed: {error}"))
    }

    /// A program could not be checked, and the program is not at fault.
    pub(super) fn unchecked(why: &str) -> Self {
        let detail = format!("the program could not be checked: {why}; submit it again");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> (u16, &str, Option<&str>) {
        (self.status.as_u16(), &self.detail, self.field.as_deref())
    }
}

impl From<Stopped> for Problem {
    fn from(_: Stopped) -> Self {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the gateway is shutting down; try again when it has restarted",
        )
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Refused(why) => {
                let status = match why {
                    NotAccepted::Refused(_) | NotAccepted::NotOnRing | NotAccepted::NoMatchmaking => {
                        StatusCode::UNPROCESSABLE_ENTITY
                    }
                    NotAccepted::NotStored(_) => StatusCode::INSUFFICIENT_STORAGE,
                    // The job is not at fault.
                    NotAccepted::Guest | NotAccepted::Busy | NotAccepted::NoOwner => {
                        StatusCode::SERVICE_UNAVAILABLE
                    }
                };
                Problem::new(status, format!("the job was refused: {why}"))
            }
            SubmitError::Stopped(stopped) => stopped.into(),
        }
    }
}

/// The beginning of the text, if it is longer than `most` bytes.
fn bounded(text: Cow<'static, str>, most: usize) -> Cow<'static, str> {
    if text.len() <= most {
        return text;
    }
    let cut = text.floor_char_boundary(most);
    format!("{}…", &text[..cut]).into()
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let bounded = Problem {
            detail: bounded(self.detail, DETAIL_MAX),
            field: self.field.map(|field| bounded(field.into(), FIELD_MAX).into_owned()),
            ..self
        };
        let mut response = (bounded.status, Json(&bounded)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        if bounded.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"manyhands\""));
        }
        response
    }
}

/// Gives a problem document to every error that has none: those of the router itself, and a
/// panic in a handler, which must not take the connection down without a word.
pub(super) async fn cover(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let Ok(response) = AssertUnwindSafe(next.run(request)).catch_unwind().await else {
        tracing::error!(%method, path, "a request handler panicked; this is a bug");
        let detail = format!("{method} {path} met a bug in this gateway; its log has the details");
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response();
    };
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || response.headers().get(header::CONTENT_TYPE) == Some(&PROBLEM_JSON) {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    let detail = match status {
        // The router adds that header further out.
        StatusCode::METHOD_NOT_ALLOWED => {
            format!("{path} does not take {method}; the Allow header names what it takes")
        }
        StatusCode::NOT_FOUND => {
            format!("there is nothing at {path}; /api/v1/openapi.json lists what there is")
        }
        _ => format!("{method} {path} was refused: {status}"),
    };
    let (problem, body) = Problem::new(status, detail).into_response().into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(problem.headers);
    Response::from_parts(parts, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_problem_repeats_the_beginning_of_what_was_said_and_no_more() {
        let long = "ä".repeat(1 << 20);
        let response = Problem::field(long.clone(), format!("{long} is no key")).into_response();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(body.len() < 3000, "{} bytes", body.len());
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert!(said["field"].as_str().is_some_and(|field| field.ends_with("ä…")), "{said}");
    }
}
