//! The HTTP API and the pages of a gateway.
//!
//! `/api/v1` for programs and the dashboard (its OpenAPI document at `/api/v1/openapi.json` is
//! gathered from the handlers), `/metrics`, `/healthz` and `/readyz` for operators, everything
//! else a page out of the binary.
//!
//! Each request passes, from the outside in: the headers that every answer carries
//! ([`guard::secure`]), the count ([`metrics::count`]), the problem document for what went wrong
//! ([`problem::cover`]), Host and Origin ([`guard::check_host`]), and on everything that reads
//! or changes jobs the token ([`guard::check_token`]). No handler holds state: all of it lies in
//! the node and its storage.

mod batch;
mod blobs;
mod bodies;
mod doors;
mod events;
mod extract;
mod files;
mod find;
#[cfg(test)]
mod fixture;
mod guard;
mod intake;
mod jobs;
mod market;
mod metrics;
mod model;
mod moving;
mod network;
mod openapi;
mod pages;
mod placing;
mod policy;
mod problem;
mod program;
mod queue;
mod request;
mod requires;
mod results;
mod ring;
mod serve;
mod stream;
mod threads;
mod time;
mod tree;
mod wallet;

pub(crate) use guard::{Caller, Hosts, public_host};
pub(crate) use serve::serve;

use crate::driver::NodeHandle;
use crate::engine::Launcher;
use crate::files::seal::Seal;
use crate::policy::Enforcer;
use crate::token;
use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use bodies::Lasting;
use doors::Doors;
use metrics::Metrics;
use pages::Pages;
use problem::Problem;
use program::Programs;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Settings of the API that an operator decides about.
pub(crate) struct ApiOptions {
    /// Shown to who joins.
    pub(crate) name: String,
    /// Pages and nodes join the swarm here.
    pub(crate) gateway: bool,
    /// Guards jobs, blobs and events.
    pub(crate) token: String,
    /// Where the token lies; `None` for one that stays what it is.
    pub(crate) token_file: Option<PathBuf>,
    /// Names beside loopback's under which people reach this gateway, each with or without a
    /// port (see [`public_host`]).
    pub(crate) public_hosts: Vec<String>,
    /// Whether the node asks joining nodes for an invite.
    pub(crate) invite_required: bool,
    /// Bytes of one uploaded blob, at most.
    pub(crate) max_upload: u64,
    /// Policy of the donor; `None` for a node that lives in a command.
    pub(crate) policy: Option<Enforcer>,
    /// Key that files are encrypted with; `None` for a node that lives in a command.
    pub(crate) seal: Option<Arc<Seal>>,
    /// The launcher of the process that checks programs.
    pub(crate) launcher: Launcher,
}

impl ApiOptions {
    pub(crate) fn new(token: String) -> Self {
        ApiOptions {
            name: String::new(),
            gateway: true,
            token,
            token_file: None,
            public_hosts: Vec::new(),
            invite_required: false,
            max_upload: node_core::bounds::Bounds::default().blob_bytes,
            policy: None,
            seal: None,
            launcher: Launcher::itself(),
        }
    }
}

/// State that handlers work with; clones share it.
#[derive(Clone)]
pub(crate) struct ApiState(Arc<Shared>);

pub(crate) struct Shared {
    node: NodeHandle,
    name: String,
    gateway: bool,
    token: token::Guard,
    doors: Doors,
    lasting: Lasting,
    hosts: Hosts,
    invite_required: bool,
    max_upload: u64,
    policy: Option<Enforcer>,
    seal: Option<Arc<Seal>>,
    /// Turns an `Idempotency-Key` into an id that nobody else can foretell.
    job_ids: [u8; 32],
    metrics: Metrics,
    programs: Programs,
    closed: watch::Receiver<bool>,
}

impl Deref for ApiState {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl ApiState {
    /// `bound` is the address that is listened on; streams end when `closed` turns true. Fails
    /// when a public host is not a host name.
    pub(crate) fn new(
        options: ApiOptions,
        node: NodeHandle,
        bound: SocketAddr,
        closed: watch::Receiver<bool>,
    ) -> Result<Self, String> {
        const JOB_IDS: &str = "Manyhands 2026-11 job ids of a gateway";
        let job_ids = match &options.seal {
            Some(seal) => seal.derived(JOB_IDS),
            None => blake3::derive_key(JOB_IDS, options.token.as_bytes()),
        };
        Ok(ApiState(Arc::new(Shared {
            node,
            name: options.name,
            gateway: options.gateway,
            token: token::Guard::new(&options.token, options.token_file),
            doors: Doors::new(),
            lasting: Lasting::new(),
            hosts: Hosts::new(bound, &options.public_hosts)?,
            invite_required: options.invite_required,
            max_upload: options.max_upload,
            policy: options.policy,
            seal: options.seal,
            job_ids,
            metrics: Metrics::new(),
            programs: Programs::new(options.launcher),
            closed,
        })))
    }

    /// Ready when the gateway stops serving, or the token that counts now is replaced.
    fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closed = self.closed.clone();
        let replaced = self.token.replaced();
        async move {
            tokio::select! {
                _ = closed.wait_for(|closed| *closed) => {}
                () = replaced => {}
            }
        }
    }
}

/// Routes that read or change jobs, files, credit or the policy: they need the token. Path and method of each
/// stand at its handler, and the API's description is gathered from these two lists too.
fn guarded() -> OpenApiRouter<ApiState> {
    OpenApiRouter::default()
        .routes(routes!(blobs::upload))
        .routes(routes!(batch::upload))
        .routes(routes!(blobs::download))
        .routes(routes!(jobs::submit, jobs::list))
        .routes(routes!(jobs::get, jobs::cancel))
        .routes(routes!(jobs::units))
        .routes(routes!(moving::unit))
        .routes(routes!(moving::migrate))
        .routes(routes!(moving::pause))
        .routes(routes!(results::list))
        .routes(routes!(threads::list))
        .routes(routes!(threads::partials))
        .routes(routes!(results::stdout))
        .routes(routes!(results::stderr))
        .routes(routes!(results::file))
        .routes(routes!(events::job))
        .routes(routes!(events::all))
        .routes(routes!(ring::owner))
        .routes(routes!(wallet::get))
        .routes(routes!(wallet::invite))
        .routes(routes!(wallet::redeem))
        .routes(routes!(wallet::transfer))
        .routes(routes!(files::put, files::list))
        .routes(routes!(files::get, files::remove))
        .routes(routes!(files::content))
        .routes(routes!(files::blob))
        .routes(routes!(files::publish))
        .routes(routes!(policy::get, policy::put))
}

/// Routes that everybody may read.
fn open() -> OpenApiRouter<ApiState> {
    OpenApiRouter::default()
        .routes(routes!(network::network))
        .routes(routes!(network::nodes))
        .routes(routes!(tree::tree))
        .routes(routes!(ring::ring))
        .routes(routes!(market::market))
        .routes(routes!(openapi::document))
        .routes(routes!(metrics::scrape))
        .routes(routes!(network::health))
        .routes(routes!(network::readiness))
}

/// The whole of what a gateway serves.
pub(crate) fn router(state: ApiState) -> Router {
    let guarded = Router::from(guarded())
        .route_layer(from_fn_with_state(state.clone(), bodies::bound))
        .route_layer(from_fn_with_state(state.clone(), guard::check_token));
    let pages = Pages::embedded(state.gateway);
    Router::from(open())
        .merge(guarded)
        .fallback(move |request: Request| pages.clone().respond(request))
        .layer(from_fn_with_state(state.clone(), guard::check_host))
        .layer(from_fn(problem::cover))
        .layer(from_fn_with_state(state.clone(), metrics::count))
        .layer(from_fn(guard::secure))
        .with_state(state)
}

/// Runs what waits for the disk where it holds up nobody.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, Problem> + Send + 'static,
) -> Result<R, Problem> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request's work panicked; this is a bug");
        let detail = "this request met a bug in the gateway; its log has the details";
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail))
    })
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
