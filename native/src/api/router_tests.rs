use super::fixture::{Answer, Gateway, PROGRAM, TOKEN, event, listen, request};
use super::*;
use axum::body::{Body, Bytes};
use axum::http::Method;
use axum::routing::get;
use futures::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tower::ServiceExt;

/// Every operation of the OpenAPI document: method, path with values, whether it is guarded.
fn operations(document: &Value) -> Vec<(Method, String, bool)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let path = path.replace("{index}", "0").replace("{path}", "x").replace("{id}", &"ab".repeat(16));
        for (method, operation) in item.as_object().unwrap() {
            let method = method.to_ascii_uppercase().parse().unwrap();
            all.push((method, path.clone(), operation.get("security").is_some()));
        }
    }
    all
}

#[tokio::test]
async fn everything_documented_is_there_and_guarded_as_documented() {
    let gateway = Gateway::start().await;
    let document = gateway.get("/api/v1/openapi.json").await.json();
    let operations = operations(&document);
    assert_eq!(operations.len(), 42);
    for (method, path, guarded) in operations {
        let open = gateway.send(request(method.clone(), &path), Body::empty()).await;
        assert_eq!(open.status == 401, guarded, "{method} {path}: {}", open.status);
        if path == "/api/v1/events" {
            continue; // It never ends.
        }
        let known = gateway.ask(method.clone(), &path, Body::empty()).await;
        assert_ne!(known.status, 405, "{method} {path}");
        assert!(known.status != 404 || !known.problem().contains("there is nothing"), "{method} {path}");
    }
}

#[tokio::test]
async fn jobs_blobs_and_events_need_the_token() {
    let gateway = Gateway::start().await;
    for value in
        [None, Some("Bearer wrong"), Some(TOKEN), Some("Basic YTpi"), Some("Bearer a token for test")]
    {
        for (method, path) in [
            (Method::GET, "/api/v1/jobs"),
            (Method::POST, "/api/v1/jobs"),
            (Method::DELETE, "/api/v1/jobs/abcd"),
            (Method::POST, "/api/v1/blobs"),
            (Method::GET, "/api/v1/events"),
            (Method::GET, "/api/v1/policy"),
            (Method::PUT, "/api/v1/policy"),
        ] {
            let mut request = request(method, path);
            if let Some(value) = value {
                request = request.header("authorization", value);
            }
            let answer = gateway.send(request, Body::empty()).await;
            assert_eq!(answer.status, 401, "{path} {value:?}");
            assert!(answer.header("www-authenticate").starts_with("Bearer"));
            assert!(answer.problem().contains("Bearer") || answer.problem().contains("token"));
        }
    }
}

#[tokio::test]
async fn a_second_token_beside_the_right_one_is_no_request() {
    let gateway = Gateway::start().await;
    let (right, wrong) = (format!("Bearer {TOKEN}"), "Bearer wrong".to_owned());
    for (first, second) in [(&right, &wrong), (&wrong, &right), (&right, &right)] {
        let twice = request(Method::GET, "/api/v1/jobs");
        let twice = twice.header("authorization", first).header("authorization", second);
        let answer = gateway.send(twice, Body::empty()).await;
        assert_eq!(answer.status, 400);
        assert!(answer.problem().contains("more than one authorization header"), "{}", answer.problem());
    }
}

#[tokio::test]
async fn a_rebound_name_and_a_foreign_page_reach_nothing() {
    let gateway = Gateway::start().await;
    let authorized = |method: &Method, path: &str| {
        let request = axum::http::Request::builder().method(method.clone()).uri(path);
        request.header("authorization", format!("Bearer {TOKEN}"))
    };
    for method in [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        for path in ["/", "/dashboard", "/metrics", "/healthz", "/api/v1/network", "/api/v1/jobs", "/nothing"]
        {
            let rebound = authorized(&method, path).header("host", "evil.example:8080");
            let rebound = gateway.send(rebound, Body::empty()).await;
            assert_eq!(rebound.status, 403, "{method} {path}");
            let foreign = authorized(&method, path).header("host", "localhost:8080");
            let foreign = foreign.header("origin", "http://evil.example");
            assert_eq!(gateway.send(foreign, Body::empty()).await.status, 403, "{method} {path}");
        }
    }
    let rebound = authorized(&Method::GET, "/").header("host", "evil.example");
    assert!(gateway.send(rebound, Body::empty()).await.problem().contains("--public-host evil.example"));
    let own = authorized(&Method::GET, "/api/v1/jobs").header("host", "localhost:8080");
    let own = own.header("origin", "http://localhost:8080");
    assert_eq!(gateway.send(own, Body::empty()).await.status, 200);
}

#[tokio::test]
async fn mistakes_in_a_request_are_explained() {
    let gateway = Gateway::start().await;
    for (method, path, status, words) in [
        (Method::GET, "/nothing", 404, "/nothing"),
        (Method::GET, "/api/v1/nothing", 404, "openapi.json"),
        (Method::PUT, "/api/v1/jobs", 405, "does not take PUT"),
        (Method::POST, "/metrics", 405, "does not take POST"),
        (Method::OPTIONS, "/api/v1/jobs", 405, "Allow"),
        (Method::GET, "/api/v1/jobs?limt=3", 400, "unknown field `limt`"),
        (Method::GET, "/api/v1/jobs?limit=0", 400, "1 to 1000"),
        (Method::GET, "/api/v1/jobs?limit=1001", 400, "1 to 1000"),
        (Method::GET, "/api/v1/jobs?limit=many", 400, "limit"),
        (Method::GET, "/api/v1/jobs?cursor=what", 400, "cursor"),
        (Method::GET, "/api/v1/jobs/xyz", 400, "does not name a job"),
        (Method::GET, "/api/v1/jobs/abcdef", 404, "no job abcdef"),
        (Method::GET, "/api/v1/jobs/%FF", 400, "path"),
        (Method::GET, "/api/v1/jobs/abababababababababababababababab/units?from=-1", 400, "from"),
        (Method::GET, "/api/v1/jobs/abababababababababababababababab/results/x/stdout", 400, "path"),
        (Method::GET, "/api/v1/jobs/abababababababababababababababab/results/0/stdout", 404, "no job"),
        (Method::DELETE, "/api/v1/jobs/abababababababababababababababab", 404, "no job"),
        (Method::GET, "/api/v1/blobs/abc", 400, "64 hexadecimal digits"),
        (Method::POST, "/api/v1/jobs", 415, "application/json"),
    ] {
        let answer = gateway.ask(method.clone(), path, Body::empty()).await;
        assert_eq!(answer.status, status, "{method} {path}: {:?}", answer.body);
        assert!(answer.problem().contains(words), "{method} {path}: {}", answer.problem());
    }
    let allowed = gateway.ask(Method::PUT, "/api/v1/jobs", Body::empty()).await;
    assert_eq!(allowed.header("allow"), "POST,GET,HEAD");
    assert_eq!(gateway.ask(Method::PUT, "/api/v1/network", Body::empty()).await.header("allow"), "GET,HEAD");
}

#[tokio::test]
async fn every_answer_carries_the_headers_that_protect_a_browser() {
    let gateway = Gateway::start().await;
    for path in ["/", "/nothing", "/api/v1/jobs", "/api/v1/network", "/metrics"] {
        let answer = gateway.get(path).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        let policy = answer.header("content-security-policy");
        assert!(
            policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(policy.contains("'wasm-unsafe-eval'") && policy.contains("ws: wss:"), "{policy}");
    }
    assert_eq!(gateway.get("/api/v1/jobs").await.header("cache-control"), "no-store");
}

#[tokio::test]
async fn a_blob_comes_back_as_it_went_in() {
    let gateway = Gateway::start().await;
    let pieces = ["one ", "two ", "three"].map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
    let body = Body::from_stream(futures::stream::iter(pieces));
    let stored = gateway.ask(Method::POST, "/api/v1/blobs", body).await;
    assert_eq!(stored.status, 201);
    let id = node_core::BlobId::of(b"one two three").to_string();
    assert_eq!(stored.json(), json!({"id": id, "len": 13}));
    let path = format!("/api/v1/blobs/{id}");
    assert_eq!(stored.header("location"), path);

    let read = gateway.get(&path).await;
    assert_eq!((read.status, &read.body[..]), (200, &b"one two three"[..]));
    assert_eq!(read.header("content-type"), "application/octet-stream");
    assert!(read.header("content-security-policy").contains("sandbox"));
    assert!(read.header("cache-control").contains("immutable"));
    let head = gateway.ask(Method::HEAD, &path, Body::empty()).await;
    assert_eq!((head.status, head.header("content-length")), (200, "13"));
    let known = request(Method::GET, &path)
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("if-none-match", read.header("etag"));
    assert_eq!(gateway.send(known, Body::empty()).await.status, 304);
    // Again is harmless.
    assert_eq!(gateway.store(b"one two three").await, id);
}

#[tokio::test]
async fn a_blob_that_is_too_large_or_breaks_off_leaves_nothing() {
    let gateway = Gateway::with(|options| options.max_upload = 10).await;
    let said = request(Method::POST, "/api/v1/blobs")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-length", "11");
    let said = gateway.send(said, Body::empty()).await;
    assert_eq!(said.status, 413);
    assert!(said.problem().contains("10 bytes"));

    let pieces = || futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from("12345")));
    let unsaid = gateway.ask(Method::POST, "/api/v1/blobs", Body::from_stream(pieces().take(3))).await;
    assert_eq!((unsaid.status, unsaid.problem().contains("10 bytes")), (413, true));

    let broken = futures::stream::iter([Ok(Bytes::from("123")), Err(std::io::Error::other("cable pulled"))]);
    let broken = gateway.ask(Method::POST, "/api/v1/blobs", Body::from_stream(broken)).await;
    assert_eq!((broken.status, broken.problem().contains("after 3 bytes")), (400, true));

    assert_eq!(gateway.node.storage().blobs(), []);
    gateway.store(b"0123456789").await;
    assert_eq!(gateway.node.storage().blobs().len(), 1);
}

#[tokio::test]
async fn a_job_is_taken_listed_shown_and_cancelled() {
    let gateway = Gateway::start().await;
    let job = gateway.submit(json!({"name": "first", "sweep": {"count": 3}})).await;
    assert_eq!(job["state"], "waiting");
    assert_eq!(
        job["units"],
        json!({"total": 3, "waiting": 3, "placed": 0, "done": 0, "failed": 0, "held": 0})
    );
    assert!(job["submitted_at"].as_str().unwrap().ends_with('Z'));
    let id = job["id"].as_str().unwrap();

    for name in [id, &id[..8], job["short"].as_str().unwrap()] {
        assert_eq!(gateway.get(&format!("/api/v1/jobs/{name}")).await.json()["id"], id);
    }
    let units = gateway.get(&format!("/api/v1/jobs/{id}/units?from=1&limit=1")).await.json();
    assert_eq!((&units["units"][0]["index"], &units["next"]), (&json!(1), &json!(2)));
    let units = gateway.get(&format!("/api/v1/jobs/{id}/units?from=2")).await.json();
    assert_eq!((&units["units"][0]["state"], &units["next"]), (&json!("waiting"), &Value::Null));
    let results = gateway.get(&format!("/api/v1/jobs/{id}/results")).await.json();
    assert_eq!(results, json!({"results": [], "next": null}));
    let missing = gateway.get(&format!("/api/v1/jobs/{id}/results/0/stdout")).await;
    assert_eq!((missing.status, missing.problem().contains("no result yet")), (404, true));

    let cancelled = gateway.ask(Method::DELETE, &format!("/api/v1/jobs/{id}"), Body::empty()).await;
    assert_eq!((cancelled.status, &cancelled.json()["state"]), (200, &json!("cancelled")));
    let again = gateway.ask(Method::DELETE, &format!("/api/v1/jobs/{id}"), Body::empty()).await;
    assert_eq!((again.status, &again.json()["state"]), (200, &json!("cancelled")));
}

#[tokio::test]
async fn a_unit_that_has_ended_can_be_neither_paused_nor_resumed() {
    let gateway = Gateway::start().await;
    let job = gateway.submit(json!({})).await;
    let path = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    let pause = async |paused: bool| {
        let body = json!({"paused": paused}).to_string();
        let request = request(Method::POST, &format!("{path}/units/0/pause"))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json");
        gateway.send(request, body).await
    };
    assert_eq!((pause(true).await.status, pause(false).await.status), (200, 200), "it waits");
    gateway.ask(Method::DELETE, &path, Body::empty()).await;
    for (paused, word) in [(true, "paused"), (false, "resumed")] {
        let answer = pause(paused).await;
        let words = format!("has ended (cancelled) and cannot be {word}");
        assert_eq!((answer.status, answer.problem().contains(&words)), (409, true), "{}", answer.problem());
    }
}

#[tokio::test]
async fn a_list_of_jobs_is_walked_page_by_page() {
    let gateway = Gateway::start().await;
    let mut submitted = BTreeSet::new();
    for n in 0..5 {
        submitted.insert(gateway.submit(json!({"name": format!("job {n}")})).await["id"].to_string());
    }
    let (mut seen, mut path, mut pages) = (BTreeSet::new(), "/api/v1/jobs?limit=2".to_owned(), 0);
    loop {
        let page = gateway.get(&path).await.json();
        seen.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["id"].to_string()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => path = format!("/api/v1/jobs?limit=2&cursor={next}"),
            None => break,
        }
    }
    assert_eq!((seen, pages), (submitted, 3));
}

#[tokio::test]
async fn programs_that_cannot_run_are_refused_with_the_reason() {
    let gateway = Gateway::start().await;
    for (program, words) in [
        (&b"\x7fELF\x02\x01\x01"[..], "not a WebAssembly module"),
        (b"", "not a WebAssembly module"),
        (b"\0asm\x01\0\0\0", "_start"),
        (&PROGRAM[..PROGRAM.len() - 3], "not a valid WebAssembly module"),
    ] {
        let job = json!({"program": gateway.store(program).await});
        for _ in 0..2 {
            let refused = gateway.submit_with(None, &job).await;
            assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("program")));
            assert!(refused.problem().contains(words), "{}", refused.problem());
        }
    }
    let good = gateway.store(PROGRAM).await;
    assert_eq!(gateway.submit_with(None, &json!({"program": good, "memory_limit": 65536})).await.status, 201);
    assert_eq!(gateway.get("/api/v1/jobs").await.json()["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_repeated_submission_is_the_same_job_and_another_one_a_conflict() {
    let gateway = Gateway::start().await;
    let job = json!({"program": gateway.store(PROGRAM).await, "arguments": ["1"]});
    let other = json!({"program": gateway.store(PROGRAM).await, "arguments": ["2"]});
    // Both at once, as a client does that lost patience.
    let (one, two) =
        tokio::join!(gateway.submit_with(Some("monday"), &job), gateway.submit_with(Some("monday"), &job));
    assert_eq!((one.status, two.status), (201, 201));
    assert_eq!(one.json()["id"], two.json()["id"]);
    assert_eq!(one.header("location"), format!("/api/v1/jobs/{}", one.json()["id"].as_str().unwrap()));

    let conflict = gateway.submit_with(Some("monday"), &other).await;
    assert_eq!(conflict.status, 409);
    assert!(conflict.problem().contains("new key"), "{}", conflict.problem());
    let new = gateway.submit_with(Some("tuesday"), &other).await;
    assert_eq!(new.status, 201);
    assert_ne!(new.json()["id"], one.json()["id"]);
    assert_eq!(gateway.get("/api/v1/jobs").await.json()["jobs"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_job_is_followed_to_its_end() {
    let gateway = Gateway::start().await;
    let job = gateway.submit(json!({})).await;
    let path = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    let mut events = listen(&gateway, &format!("{path}/events")).await;
    let (name, first) = event(&mut events).await.unwrap();
    assert_eq!((name.as_str(), &first["state"]), ("job", &json!("waiting")));

    gateway.ask(Method::DELETE, &path, Body::empty()).await;
    let mut last = first;
    while let Some((_, next)) = event(&mut events).await {
        last = next;
    }
    assert_eq!(last["state"], "cancelled");

    // One that is over is shown once.
    let mut events = listen(&gateway, &format!("{path}/events")).await;
    assert_eq!(event(&mut events).await.unwrap().1["state"], "cancelled");
    assert_eq!(event(&mut events).await, None);
}

#[tokio::test]
async fn hints_say_which_list_to_get_again_until_the_gateway_closes() {
    let gateway = Gateway::start().await;
    let mut events = listen(&gateway, "/api/v1/events").await;
    assert_eq!(event(&mut events).await, Some(("nodes".into(), json!({}))));
    assert_eq!(event(&mut events).await, Some(("jobs".into(), json!({}))));
    assert_eq!(event(&mut events).await, Some(("market".into(), json!({}))));
    assert_eq!(event(&mut events).await, Some(("wallet".into(), json!({}))));
    gateway.submit(json!({})).await;
    assert_eq!(event(&mut events).await, Some(("jobs".into(), json!({}))));
    gateway.close.send(true).unwrap();
    while let Some((name, _)) = event(&mut events).await {
        assert_eq!(name, "jobs");
    }
}

#[tokio::test]
async fn the_gateway_says_how_it_is_and_how_to_join() {
    let gateway = Gateway::with(|options| {
        options.name = "here".into();
        options.invite_required = true;
    })
    .await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(gateway.get(path).await.json(), json!({"status": "ok"}), "{path}");
    }
    let network = gateway.get("/api/v1/network").await.json();
    assert_eq!(network["node"], gateway.node.id().to_string());
    assert!(network["peer_id"].as_str().unwrap().starts_with("12D3KooW"));
    assert_eq!((&network["name"], &network["invite_required"]), (&json!("here"), &json!(true)));
    let nodes = gateway.get("/api/v1/nodes").await.json();
    assert_eq!(nodes["nodes"][0]["me"], true);
    assert_eq!(nodes["nodes"][0]["platform"], "native");

    gateway.node.stop();
    gateway.node.submit(node_core::JobId([0; 16]), spec()).await.unwrap_err();
    let stopped = gateway.get("/healthz").await;
    assert_eq!((stopped.status, stopped.problem().contains("shutting down")), (503, true));
}

#[tokio::test]
async fn a_node_that_does_not_turn_is_said_while_the_api_lives() {
    let gateway = Gateway::start().await;
    let (go_on, held) = std::sync::mpsc::channel::<()>();
    // The node's thread stands still in here.
    let node = gateway.node.clone();
    let (stands, stands_still) = tokio::sync::oneshot::channel();
    let stuck = tokio::spawn(async move {
        let read = move |_: &node_core::Node, _| {
            let _ = stands.send(());
            held.recv().is_ok()
        };
        node.read(read).await
    });
    stands_still.await.unwrap();
    let mut answer = gateway.get("/healthz").await;
    while !answer.problem().contains("has been at one input for") {
        assert_eq!(answer.status, 503);
        answer = gateway.get("/healthz").await;
    }
    assert_eq!(gateway.get("/readyz").await.status, 503);
    assert_eq!(gateway.get("/api/v1/openapi.json").await.status, 200, "what needs no node is answered");
    drop(go_on);
    stuck.await.unwrap().unwrap();
    assert_eq!(gateway.get("/healthz").await.json(), json!({"status": "ok"}));
}

fn spec() -> node_core::work::spec::JobSpec {
    use node_core::content::{BlobRef, Data};
    use node_core::work::spec::{Find, JobSpec, OwnedBy, Template, Units};
    JobSpec {
        name: String::new(),
        template: Template {
            program: BlobRef { id: node_core::BlobId([0; 32]), len: 1 },
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: Data::EMPTY,
            files: Vec::new(),
            limits: sandbox::Limits::default(),
            bit_exact: false,
            checkpoint: Default::default(),
            on_loss: Default::default(),
            threads: None,
        },
        units: Units::ONE,
        priority: 0,
        max_retries: 0,
        find: Find::Nearest,
        owner: OwnedBy::Gateway,
        requires: Default::default(),
    }
}

#[tokio::test]
async fn requests_are_counted_by_route_not_by_path() {
    let gateway = Gateway::start().await;
    gateway.get("/api/v1/network").await;
    for n in 0..20 {
        gateway.get(&format!("/nothing/{n}")).await;
        gateway.get(&format!("/api/v1/jobs/{n}{n}{n}{n}")).await;
    }
    let page = gateway.get("/metrics").await;
    assert!(page.header("content-type").starts_with("application/openmetrics-text"));
    let text = String::from_utf8(page.body.to_vec()).unwrap();
    for line in [
        "manyhands_http_requests_total{route=\"/api/v1/network\",status=\"2xx\"} 1",
        "manyhands_http_requests_total{route=\"/api/v1/jobs/{id}\",status=\"4xx\"} 20",
        "manyhands_http_requests_total{route=\"(page)\",status=\"4xx\"} 20",
        "manyhands_nodes{platform=\"native\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("manyhands_http_requests_total")).count(), 3);
}

#[tokio::test]
async fn a_handler_that_panics_is_an_answer_too() {
    let router: Router = Router::new()
        .route(
            "/boom",
            get(|| async {
                if true {
                    panic!("boom")
                }
            }),
        )
        .layer(from_fn(problem::cover));
    let request = request(Method::GET, "/boom").body(Body::empty()).unwrap();
    let answer = Answer::read(router.oneshot(request).await.unwrap()).await;
    assert_eq!((answer.status, answer.problem().contains("bug")), (500, true));
}
