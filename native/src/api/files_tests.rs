//! Files at a gateway without peers: what is put can be read, and mistakes are explained.

use super::super::fixture::Gateway;
use axum::body::{Body, Bytes};
use axum::http::Method;
use futures::stream;
use node_core::files::{CHUNK, FilesConfig};

fn content() -> Vec<u8> {
    (0..2 * CHUNK + 5).map(|at| (at ^ at >> 8) as u8).collect()
}

async fn gateway() -> Gateway {
    Gateway::with_files(FilesConfig::giving(1 << 20)).await
}

#[tokio::test]
async fn a_file_comes_back_in_its_chunks_and_goes_when_it_is_removed() {
    let gateway = gateway().await;
    let pieces =
        content().chunks(100_000).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect::<Vec<_>>();
    let body = Body::from_stream(stream::iter(pieces));
    let put = gateway.ask(Method::POST, "/api/v1/files?name=a%20file&copies=2", body).await;
    assert_eq!(put.status, 201, "{:?}", put.body);
    let file = put.json();
    assert_eq!((file["name"].as_str(), file["len"].as_u64()), (Some("a file"), Some(2 * CHUNK + 5)));
    assert_eq!((file["chunks"].as_u64(), file["state"].as_str()), (Some(3), Some("placing")));
    let path = format!("/api/v1/files/{}", file["id"].as_str().unwrap());
    assert_eq!(put.header("location"), path);

    let read = gateway.get(&format!("{path}/content")).await;
    assert_eq!(read.header("content-length"), (2 * CHUNK + 5).to_string());
    assert!(read.header("content-security-policy").contains("sandbox"));
    assert!(read.status == 200 && read.body == content());
    let blob = gateway.ask(Method::POST, &format!("{path}/blob"), Body::empty()).await.json();
    assert_eq!(blob["id"], node_core::BlobId::of(&content()).to_string());

    let list = gateway.get("/api/v1/files").await.json();
    assert_eq!((list["files"].as_array().unwrap().len(), list["kept"]["given"].as_u64()), (1, Some(1 << 20)));
    assert_eq!(gateway.ask(Method::DELETE, &path, Body::empty()).await.status, 200);
    assert_eq!(gateway.ask(Method::DELETE, &path, Body::empty()).await.status, 404);
    assert_eq!(gateway.get(&path).await.status, 404);
}

#[tokio::test]
async fn mistakes_with_files_are_explained() {
    let gateway = gateway().await;
    let id = "ab".repeat(32);
    for (method, path, body, status, words) in [
        (Method::POST, "/api/v1/files?copies=9".into(), "x", 400, "give 1 to 8"),
        (Method::POST, "/api/v1/files?copys=2".into(), "x", 400, "unknown field `copys`"),
        (Method::POST, "/api/v1/files?encrypt=true".into(), "x", 422, "no key for files"),
        (Method::GET, "/api/v1/files/xyz".into(), "", 400, "64 hexadecimal digits"),
        (Method::GET, format!("/api/v1/files/{id}"), "", 404, "does not own"),
        (
            Method::GET,
            format!("/api/v1/files/{id}/content"),
            "",
            503,
            "nobody who keeps such records answered",
        ),
        (Method::DELETE, format!("/api/v1/files/{id}"), "", 404, "does not own"),
        (Method::POST, format!("/api/v1/files/{id}/names"), "{}", 415, "application/json"),
    ] {
        let answer = gateway.ask(method.clone(), &path, Bytes::from_static(body.as_bytes())).await;
        assert_eq!(answer.status, status, "{method} {path}: {:?}", answer.body);
        assert!(answer.problem().contains(words), "{method} {path}: {}", answer.problem());
    }
}
