//! A gateway for tests: a real node behind the router, without slots, links and peers.

use super::{ApiOptions, ApiState, router};
use crate::driver::{Inbox, NodeHandle, Parts, start};
use crate::engine::{Engine, EngineOptions};
use crate::storage::Storage;
use axum::Router;
use axum::body::{Body, BodyDataStream, Bytes, to_bytes};
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use futures::StreamExt;
use node_core::files::FilesConfig;
use node_core::{Config, NodeId};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

pub(super) const TOKEN: &str = "a token for tests";

/// The smallest command: a memory, and a `_start` that returns at once.
pub(super) const PROGRAM: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x04\x01\x60\0\0\
    \x03\x02\x01\0\
    \x05\x03\x01\0\x01\
    \x07\x13\x02\x06memory\x02\0\x06_start\0\0\
    \x0a\x04\x01\x02\0\x0b";

/// Jobs stay waiting in it.
pub(super) struct Gateway {
    pub(super) router: Router,
    pub(super) node: NodeHandle,
    pub(super) close: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

impl Gateway {
    pub(super) async fn start() -> Gateway {
        Gateway::with(|_| {}).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut ApiOptions)) -> Gateway {
        Gateway::of(Config::default(), change).await
    }

    pub(super) async fn with_files(files: FilesConfig) -> Gateway {
        Gateway::of(Config { files: Some(files.into()), ..Config::default() }, |_| {}).await
    }

    async fn of(config: Config, change: impl FnOnce(&mut ApiOptions)) -> Gateway {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::new();
        let storage = Storage::open(folder.path(), inbox.storage()).unwrap();
        let engine = EngineOptions {
            exe: "/dev/null".into(),
            blob_dir: storage.blob_dir(),
            staging: storage.staging(),
            cache_dir: folder.path().join("cache"),
            slots: 0,
            cpu_share: 100,
            background: false,
        };
        let engine = Engine::start(engine, inbox.engine());
        let key = libp2p::identity::ed25519::Keypair::generate().public();
        let config = Config { gateway: true, slots: 0, ..config };
        let parts = Parts { id: NodeId(key.to_bytes()), config, seed: [7; 32], storage, engine, net: None };
        let node = start(parts, inbox).unwrap();
        node.ready().await.unwrap();
        let mut options = ApiOptions::new(TOKEN.into());
        change(&mut options);
        let (close, closed) = watch::channel(false);
        let state = ApiState::new(options, node.clone(), "127.0.0.1:8080".parse().unwrap(), closed).unwrap();
        Gateway { router: router(state), node, close, _folder: folder }
    }

    /// With the token, from this machine.
    pub(super) async fn ask(&self, method: Method, path: &str, body: impl Into<Body>) -> Answer {
        self.send(request(method, path).header("authorization", format!("Bearer {TOKEN}")), body).await
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, Body::empty()).await
    }

    pub(super) async fn send(&self, request: axum::http::request::Builder, body: impl Into<Body>) -> Answer {
        let response = self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        Answer::read(response).await
    }

    pub(super) async fn submit_with(&self, key: Option<&str>, job: &Value) -> Answer {
        let mut request = request(Method::POST, "/api/v1/jobs")
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        self.send(request, job.to_string()).await
    }

    pub(super) async fn store(&self, bytes: &'static [u8]) -> String {
        let answer = self.ask(Method::POST, "/api/v1/blobs", bytes).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Submits the smallest job with these fields.
    pub(super) async fn submit(&self, more: Value) -> Value {
        let mut job = json!({"program": self.store(PROGRAM).await});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.submit_with(None, &job).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        answer.json()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.node.stop();
    }
}

pub(super) fn request(method: Method, path: &str) -> axum::http::request::Builder {
    axum::http::Request::builder().method(method).uri(path).header("host", "localhost:8080")
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) async fn read(response: Response) -> Answer {
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 16 << 20).await.unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {:?}", self.body))
    }

    /// Text of the problem, which is checked to be a whole problem document.
    pub(super) fn problem(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "{} {:?}",
            self.status,
            self.body
        );
        let problem = self.json();
        assert_eq!(problem["type"], "about:blank");
        assert_eq!(problem["status"], self.status);
        assert!(problem["title"].as_str().is_some_and(|title| !title.is_empty()));
        problem["detail"].as_str().unwrap().to_owned()
    }
}

/// The next event of a stream: its name and data. None at its end.
pub(super) async fn event(stream: &mut BodyDataStream) -> Option<(String, Value)> {
    // Each event comes as one piece.
    let piece = stream.next().await?.unwrap();
    let text = std::str::from_utf8(&piece).unwrap();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    Some((field("event:").to_owned(), serde_json::from_str(field("data:")).unwrap()))
}

pub(super) async fn listen(gateway: &Gateway, path: &str) -> BodyDataStream {
    let request = request(Method::GET, path).header("authorization", format!("Bearer {TOKEN}"));
    let response = gateway.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response.into_body().into_data_stream()
}
