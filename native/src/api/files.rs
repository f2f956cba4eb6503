//! Files: kept by other nodes, found by their content id or by a published name.

use super::ApiState;
use super::extract::{Path, Query, json};
use super::intake::{PIECES_AHEAD, take_in};
use super::model::{Blob, Names, text};
use super::problem::Problem;
use crate::driver::number;
use crate::files::cut::Cutter;
use crate::files::read::{Incoming, NoFile, Opened, PATIENCE, open};
use crate::files::seal::Seal;
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use node_core::content::BlobRef;
use node_core::files::owner::{FileView, KeeperView, NotPut};
use node_core::files::{CHUNK, CHUNKS, NAME};
use node_core::money::Micro;
use node_core::{BlobId, Command, NodeEvent, NodeId};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::sync::Arc;
use tokio::sync::mpsc;
use utoipa::ToSchema;

/// Bytes that are given to a connection at a time.
const PIECE: usize = 64 << 10;

/// Copies of a file whose request names no number. Our choice: the file survives the loss of two keepers at
/// once.
const COPIES: u8 = 3;

const MAX_JSON: u64 = 64 << 10;

/// All files of this gateway, and what it keeps for others.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FileList {
    /// In the order in which they were put.
    files: Vec<File>,
    kept: KeptHere,
    /// For whom others encrypt what this gateway is to read; null if it cannot.
    recipient: Option<String>,
}

/// What this gateway keeps of others' files.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeptHere {
    files: usize,
    /// Bytes of them.
    bytes: u64,
    /// Bytes that are given.
    given: u64,
}

/// A file that this gateway owns.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct File {
    /// Its content id: the hash of its manifest, 64 hexadecimal digits.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    id: BlobId,
    /// Whether others keep it as wished: `kept`, or `placing` while some are missing.
    state: &'static str,
    /// For people.
    name: Option<String>,
    /// Bytes, as they are kept.
    len: u64,
    chunks: u32,
    encrypted: bool,
    /// How many others are to keep it.
    copies: u8,
    /// How many have all of it.
    kept: u8,
    /// Milliseconds since 1970.
    put_ms: u64,
    /// Under which it is published.
    names: Vec<String>,
    keepers: Vec<Keeper>,
    /// Why it stands where it stands, in words; empty if all is well.
    reason: String,
    /// Keepers that went, the last one last.
    lost: Vec<Lost>,
    /// What all copies may cost for a term of two days, market operators' parts included, micro-credits.
    max_price: u64,
    /// What the bank holds for its keepers, micro-credits; what they do not prove to have kept comes back.
    held: u64,
    /// What it has cost until now, micro-credits: keepers are paid when their term or their keeping ends.
    paid: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Keeper {
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    node: NodeId,
    short: String,
    /// Empty if this gateway never met it.
    name: String,
    /// Whether it has all of it.
    kept: bool,
    /// Chunks that it has.
    chunks: u32,
    /// Until when it keeps it unless it is asked again, milliseconds since 1970.
    until_ms: u64,
    /// Micro-credits for 10^9 byte-seconds; null: for nothing.
    price: Option<u64>,
    /// What it has to be paid by now for what it has proved, the market operator's part included, micro-credits.
    due: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Lost {
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    node: NodeId,
    short: String,
    name: String,
    why: String,
}

impl File {
    fn of(view: FileView, names: &Names) -> File {
        let keeper = |keeper: KeeperView| Keeper {
            node: keeper.node,
            short: keeper.node.short(),
            name: names.get(keeper.node),
            kept: keeper.kept,
            chunks: keeper.chunks,
            until_ms: keeper.until_ms,
            price: keeper.price.map(|price| price.0),
            due: keeper.due.0,
        };
        let lost =
            |(node, why): (NodeId, String)| Lost { node, short: node.short(), name: names.get(node), why };
        File {
            id: view.id,
            state: if view.kept >= view.copies { "kept" } else { "placing" },
            name: view.name,
            len: view.len,
            chunks: view.chunks,
            encrypted: view.encrypted,
            copies: view.copies,
            kept: view.kept,
            put_ms: view.put_ms,
            names: view.names,
            keepers: view.keepers.into_iter().map(keeper).collect(),
            reason: view.reason,
            lost: view.lost.into_iter().map(lost).collect(),
            max_price: view.max_price.0,
            held: view.held.0,
            paid: view.paid.0,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wishes {
    name: Option<String>,
    copies: Option<u8>,
    max_price: Option<u64>,
    #[serde(default)]
    encrypt: bool,
    /// Separated by commas.
    recipients: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reading {
    #[serde(default)]
    raw: bool,
}

/// A name to publish a file under.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewName {
    /// At most 200 bytes.
    name: String,
}

impl From<NoFile> for Problem {
    fn from(e: NoFile) -> Problem {
        match e {
            NoFile::Unknown(_) => Problem::not_found(format!("{e}; {OWN_FILES}")),
            NoFile::Unanswered(..) | NoFile::Unavailable(_) => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, e.to_string())
            }
            NoFile::Stopped(stopped) => stopped.into(),
        }
    }
}

/// Put a file.
///
/// The request's body is the file. It is cut into chunks of 4 MiB, encrypted before if that is wished,
/// and written down when this answers; others pull it then, and `kept` grows.
#[utoipa::path(
    post, operation_id = "putFile", path = "/api/v1/files", tag = "files", security(("token" = [])),
    params(
        ("name" = Option<String>, Query, description = "For people, at most 255 bytes"),
        ("copies" = Option<u8>, Query, description = "How many others keep it, 1 to 8; 3 by default"),
        ("max_price" = Option<u64>, Query, description = "What all copies may cost for a term of two days, micro-credits; 0: only as a gift; about a credit a copy for a GiB and a day by default"),
        ("encrypt" = Option<bool>, Query, description = "With this gateway's key, in the format of age"),
        ("recipients" = Option<String>, Query, description = "Others who can read it: age1…, separated by commas"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = File),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "It could not be stored"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn put(
    State(state): State<ApiState>,
    Query(wishes): Query<Wishes>,
    request: Request,
) -> Result<Response, Problem> {
    let copies = wishes.copies.unwrap_or(COPIES);
    if !(1..=8).contains(&copies) {
        return Err(Problem::bad_request(format!("copies: {copies} is not possible; give 1 to 8")));
    }
    let max_price = wishes.max_price.map(Micro);
    if max_price > Some(Micro::MAX) {
        return Err(Problem::bad_request(format!(
            "max_price: an amount is at most {} micro-credits",
            Micro::MAX.0
        )));
    }
    if wishes.name.as_ref().is_some_and(|name| name.len() > NAME) {
        return Err(Problem::bad_request(format!("the name is longer than {NAME} bytes")));
    }
    if wishes.name.as_ref().is_some_and(|name| name.chars().any(char::is_control)) {
        return Err(Problem::bad_request("the name has characters that cannot be shown; give it others"));
    }
    let recipients: Vec<String> =
        wishes.recipients.iter().flat_map(|list| list.split(',')).map(str::to_owned).collect();
    let sealed = wishes.encrypt || !recipients.is_empty();
    let encryptor = match sealed {
        true => Some(seal(&state)?.encryptor(&recipients).map_err(Problem::bad_request)?),
        false => None,
    };
    let (storage, name) = (state.node.storage().clone(), wishes.name);
    let cut = take_in(request, "the file", CHUNKS as u64 * CHUNK, move |mut intake| {
        let mut cutter = Cutter::new(storage);
        let whole = match encryptor {
            None => intake.pour(|bytes| cutter.write_all(bytes)).map_err(|e| e.to_string())?,
            Some(encryptor) => {
                let mut sealing = encryptor.wrap_output(&mut cutter).map_err(|e| e.to_string())?;
                let whole = intake.pour(|bytes| sealing.write_all(bytes)).map_err(|e| e.to_string())?;
                sealing.finish().map_err(|e| e.to_string())?;
                whole
            }
        };
        // One that broke off is dropped.
        if whole { cutter.finish(sealed, name).map(Some) } else { Ok(None) }
    });
    let cut = cut.await?;
    let (number, id) = (number(), cut.id);
    state.node.command(Command::BlobsStored(cut.blobs()));
    let (manifest, shared) = (Box::new(cut.manifest), cut.shared);
    let command = Command::PutFile { number, id, manifest, copies, max_price, shared };
    let refused = ask(&state, command, |event| match event {
        NodeEvent::FilePut { number: of, refused } if of == number => Some(refused),
        _ => None,
    });
    if let Some(why) = refused.await? {
        let status = match why {
            NotPut::Full { .. } | NotPut::NotWritten(_) => StatusCode::INSUFFICIENT_STORAGE,
            NotPut::NoFiles => StatusCode::CONFLICT,
        };
        return Err(Problem::new(status, format!("the file was not taken: {why}")));
    }
    let place = [(header::LOCATION, format!("/api/v1/files/{}", id.id))];
    Ok((StatusCode::CREATED, place, Json(one(&state, id.id).await?)).into_response())
}

/// List files.
#[utoipa::path(
    get, operation_id = "listFiles", path = "/api/v1/files", tag = "files", security(("token" = [])),
    responses(
        (status = 200, body = FileList),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn list(State(state): State<ApiState>) -> Result<Json<FileList>, Problem> {
    let recipient = state.seal.as_ref().map(|seal| seal.recipient());
    let list = state.node.read(move |node, _| {
        let names = Names::of(node);
        let files = node.files(None).into_iter().map(|file| File::of(file, &names)).collect();
        let (kept, bytes, given) = node.kept_files().map(|kept| kept.load()).unwrap_or_default();
        FileList { files, kept: KeptHere { files: kept, bytes, given }, recipient }
    });
    Ok(Json(list.await?))
}

/// Show a file of this gateway.
#[utoipa::path(
    get, operation_id = "getFile", path = "/api/v1/files/{id}", tag = "files", security(("token" = [])),
    params(("id" = String, Path, description = "64 hexadecimal digits")),
    responses(
        (status = 200, body = File),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn get(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<File>, Problem> {
    Ok(Json(one(&state, own(&id)?).await?))
}

/// Read a file, of any gateway.
///
/// By its content id, or by a published name. It comes chunk by chunk, from here or from whoever keeps
/// it, and what was encrypted for this gateway is decrypted.
#[utoipa::path(
    get, operation_id = "getFileContent", path = "/api/v1/files/{id}/content", tag = "files", security(("token" = [])),
    params(
        ("id" = String, Path, description = "64 hexadecimal digits, or a published name"),
        ("raw" = Option<bool>, Query, description = "As it is kept: what is encrypted stays so"),
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It is encrypted for others"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Nobody who has it answers now"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn content(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Query(Reading { raw }): Query<Reading>,
) -> Result<Response, Problem> {
    let opened = open(&state.node, &id).await?;
    let plain = raw || !opened.manifest.encrypted;
    let pieces = if plain { opened.content(state.node.clone()) } else { decrypted(&state, &opened).await? };
    let pieces = stream::unfold(pieces, |mut pieces| async move { Some((pieces.recv().await?, pieces)) });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    if plain {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(opened.manifest.len));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    let policy = "default-src 'none'; sandbox; frame-ancestors 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    Ok(response)
}

/// Make a blob of a file, for jobs.
///
/// Programs and inputs of jobs are blobs. This brings a file of any gateway here, decrypts it if this
/// gateway can, and stores it as one.
#[utoipa::path(
    post, operation_id = "makeFileBlob", path = "/api/v1/files/{id}/blob", tag = "files", security(("token" = [])),
    params(("id" = String, Path, description = "64 hexadecimal digits, or a published name")),
    responses(
        (status = 200, body = Blob),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "Larger than a blob may be"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn blob(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<Blob>, Problem> {
    let opened = open(&state.node, &id).await?;
    let most = state.max_upload;
    if opened.manifest.len > most {
        return Err(Problem::too_large("the file", most));
    }
    let pieces = match opened.manifest.encrypted {
        true => decrypted(&state, &opened).await?,
        false => opened.content(state.node.clone()),
    };
    let storage = state.node.storage().clone();
    let stored = super::blocking(move || {
        let mut upload = storage.upload().map_err(Problem::storage)?;
        let mut buffer = vec![0; PIECE];
        let mut incoming = Incoming::new(pieces);
        loop {
            let len = incoming.read(&mut buffer);
            match len.map_err(|e| Problem::new(StatusCode::SERVICE_UNAVAILABLE, e.to_string()))? {
                0 => return upload.finish().map_err(Problem::storage),
                len => upload.write(&buffer[..len]).map_err(Problem::storage)?,
            }
        }
    });
    let stored: BlobRef = stored.await?;
    state.node.blob_stored(stored);
    Ok(Json(stored.into()))
}

/// Remove a file.
///
/// Others need not keep it any more, and its names are free.
#[utoipa::path(
    delete, operation_id = "removeFile", path = "/api/v1/files/{id}", tag = "files", security(("token" = [])),
    params(("id" = String, Path, description = "64 hexadecimal digits")),
    responses(
        (status = 200, body = File, description = "As it was"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn remove(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<File>, Problem> {
    let id = own(&id)?;
    let file = one(&state, id).await?;
    let number = number();
    let known = ask(&state, Command::DropFile { number, file: id }, |event| match event {
        NodeEvent::FileDropped { number: of, known } if of == number => Some(known),
        _ => None,
    });
    if known.await? { Ok(Json(file)) } else { Err(unknown(id)) }
}

/// Publish a file under a name.
///
/// A name is its first publisher's, as long as that gateway is there to refresh it, day by day.
#[utoipa::path(
    post, operation_id = "publishFile", path = "/api/v1/files/{id}/names", tag = "files", security(("token" = [])),
    params(("id" = String, Path, description = "64 hexadecimal digits")),
    request_body = NewName,
    responses(
        (status = 200, body = File),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The name is another's, or cannot be one"),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any other error"),
    )
)]
pub(super) async fn publish(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<File>, Problem> {
    let file = own(&id)?;
    let NewName { name } = json(request, MAX_JSON).await?;
    one(&state, file).await?;
    let number = number();
    let refused = ask(&state, Command::NameFile { number, file, name: name.clone() }, |event| match event {
        NodeEvent::FileNamed { number: of, refused } if of == number => Some(refused),
        _ => None,
    });
    match refused.await? {
        None => Ok(Json(one(&state, file).await?)),
        Some(why) => Err(Problem::new(StatusCode::CONFLICT, format!("{name:?} is not published: {why}"))),
    }
}

async fn ask<T>(
    state: &ApiState,
    command: Command,
    pick: impl Fn(NodeEvent) -> Option<T>,
) -> Result<T, Problem> {
    Ok(state.node.ask(command, PATIENCE, pick).await.map_err(NoFile::from)?)
}

/// Advice for whoever names a file that is not there.
const OWN_FILES: &str = "`manyhands files list` lists this gateway's own";

fn own(id: &str) -> Result<BlobId, Problem> {
    id.parse().map_err(|error| Problem::bad_request(format!("{error}; {OWN_FILES}")))
}

fn unknown(id: BlobId) -> Problem {
    Problem::not_found(format!("this gateway does not own a file {id}; {OWN_FILES}"))
}

async fn one(state: &ApiState, id: BlobId) -> Result<File, Problem> {
    let found = state.node.read(move |node, _| {
        let names = Names::of(node);
        node.files(Some(id)).pop().map(|file| File::of(file, &names))
    });
    found.await?.ok_or_else(|| unknown(id))
}

fn seal(state: &ApiState) -> Result<Arc<Seal>, Problem> {
    state.seal.clone().ok_or_else(|| {
        let detail = "this gateway has no key for files; a node that `manyhands up` runs has one";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    })
}

/// The content of a file that was encrypted for this gateway.
async fn decrypted(state: &ApiState, opened: &Opened) -> Result<mpsc::Receiver<io::Result<Bytes>>, Problem> {
    let seal = seal(state)?;
    let sealed = Incoming::new(opened.content(state.node.clone()));
    let id = opened.id.id;
    let mut content = super::blocking(move || {
        // It reads the head, and says whether it can be opened.
        seal.open(sealed).map_err(|why| {
            if let age::DecryptError::Io(why) = &why {
                return Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{id}: {why}"));
            }
            let detail = format!(
                "{id} is encrypted, and not for this gateway ({why}); read it as it is kept (raw) and decrypt it with age"
            );
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
        })
    })
    .await?;
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; PIECE];
        loop {
            let piece = match content.read(&mut buffer) {
                Ok(0) => return,
                Ok(len) => Ok(Bytes::copy_from_slice(&buffer[..len])),
                Err(e) => Err(e),
            };
            let failed = piece.is_err();
            if sender.blocking_send(piece).is_err() || failed {
                return;
            }
        }
    });
    Ok(receiver)
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
