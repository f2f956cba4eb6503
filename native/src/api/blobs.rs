//! Blobs: programs, inputs and outputs, named by their hash.

use super::ApiState;
use super::extract::Path;
use super::intake::take_in;
use super::model::Blob;
use super::problem::Problem;
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use node_core::content::{BlobRef, Data};
use node_core::ids::BlobId;
use tokio_util::io::ReaderStream;

/// Store a blob.
///
/// The request's body is the blob, of any type. It is stored piece by piece, and is durable when
/// this answers. Storing it again is harmless.
#[utoipa::path(
    post, operation_id = "storeBlob", path = "/api/v1/blobs", tag = "blobs", security(("token" = [])),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = Blob),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "Larger than this gateway takes"),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "It could not be stored"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn upload(State(state): State<ApiState>, request: Request) -> Result<Response, Problem> {
    let storage = state.node.storage().clone();
    let stored = take_in(request, "the blob", state.max_upload, move |mut intake| {
        let mut upload = storage.upload()?;
        // One that broke off is dropped, and leaves nothing behind.
        if intake.pour(|bytes| upload.write(bytes))? { upload.finish().map(Some) } else { Ok(None) }
    });
    let blob = stored.await?;
    state.node.blob_stored(blob);
    let place = [(header::LOCATION, format!("/api/v1/blobs/{}", blob.id))];
    Ok((StatusCode::CREATED, place, Json(Blob::from(blob))).into_response())
}

/// Read a blob.
#[utoipa::path(
    get, operation_id = "readBlob", path = "/api/v1/blobs/{id}", tag = "blobs", security(("token" = [])),
    params(("id" = String, Path, description = "64 hexadecimal digits")),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "You have it: a blob never changes"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn download(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id: BlobId = id.parse().map_err(|error| Problem::bad_request(format!("{error}")))?;
    let Some((_, len)) = state.node.storage().blob(id) else {
        return Err(Problem::not_found(format!("blob {id} is not here")));
    };
    let mut response = respond(&state, &headers, &Data::Blob(BlobRef { id, len })).await?;
    // The bytes under a hash are always the same; what a job's result is called by may be reused.
    let lasting = HeaderValue::from_static("private, max-age=31536000, immutable");
    response.headers_mut().insert(header::CACHE_CONTROL, lasting);
    Ok(response)
}

/// Answers with bytes that a program made or reads. A browser is told to run none of it.
pub(super) async fn respond(state: &ApiState, asked: &HeaderMap, data: &Data) -> Result<Response, Problem> {
    let etag = match data {
        Data::Inline(bytes) => format!("\"{}\"", BlobId::of(bytes)),
        Data::Blob(blob) => format!("\"{}\"", blob.id),
    };
    let mut response = if asked.get(header::IF_NONE_MATCH).is_some_and(|known| known == etag.as_str()) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(match data {
            Data::Inline(bytes) => Body::from(bytes.clone()),
            Data::Blob(blob) => file(state, blob).await?,
        });
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(data.len()));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
        response
    };
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::try_from(etag) {
        headers.insert(header::ETAG, etag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    let policy = "default-src 'none'; sandbox; frame-ancestors 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    Ok(response)
}

async fn file(state: &ApiState, blob: &BlobRef) -> Result<Body, Problem> {
    let id = blob.id;
    let Some((path, _)) = state.node.storage().blob(id) else {
        return Err(Problem::not_found(format!(
            "blob {id} is not on this gateway any more; its {} bytes have to be uploaded or computed again",
            blob.len
        )));
    };
    let file = tokio::fs::File::open(&path).await;
    let file = file.map_err(|error| Problem::storage(format!("{}: {error}", path.display())))?;
    Ok(Body::from_stream(ReaderStream::with_capacity(file, 64 << 10)))
}
