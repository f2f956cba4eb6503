//! The API's own description, gathered from the routes and their handlers.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use std::sync::LazyLock;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Manyhands",
        description = "Submit WebAssembly programs to a swarm of nodes and browser tabs, and get their results. \
            Errors are RFC 9457 problem documents. Requests need a Host header that names this gateway, and \
            browsers' requests an Origin that equals it.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "jobs", description = "What is computed"),
        (name = "results", description = "What came out"),
        (name = "blobs", description = "Programs and inputs, named by their hash"),
        (name = "files", description = "What other nodes keep, found by content id or by name"),
        (name = "events", description = "What changes, as server-sent events"),
        (name = "swarm", description = "Who takes part, and how to join"),
        (name = "operation", description = "For whoever runs the gateway"),
    ),
    modifiers(&Token),
)]
struct Api;

struct Token;

impl Modify for Token {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("`manyhands up` prints it and keeps it in the file `token` of its data folder"))
            .build();
        api.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// The document, made once. It holds nothing that could fail to be written.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let mut api = Api::openapi();
    api.merge(super::guarded().into_openapi());
    api.merge(super::open().into_openapi());
    // The router's sign for "the rest of the path", which OpenAPI does not have.
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    api.to_json().unwrap_or_default()
});

/// This description.
#[utoipa::path(
    get, operation_id = "getDocument", path = "/api/v1/openapi.json", tag = "operation",
    responses((status = 200, body = Object, content_type = "application/json", description = "OpenAPI 3.1"))
)]
pub(super) async fn document() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT.as_str())
        .into_response()
}

#[cfg(test)]
#[path = "openapi_tests.rs"]
mod tests;
