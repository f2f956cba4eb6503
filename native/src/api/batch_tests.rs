use crate::api::fixture::Gateway;
use axum::http::Method;
use node_core::ids::BlobId;

fn body(blobs: &[&[u8]]) -> Vec<u8> {
    let with_length = |blob: &&[u8]| [&(blob.len() as u64).to_be_bytes()[..], blob].concat();
    blobs.iter().flat_map(with_length).collect()
}

#[tokio::test]
async fn a_batch_is_stored_blob_by_blob() {
    let gateway = Gateway::start().await;
    let many: Vec<Vec<u8>> = (0..150u32).map(|n| n.to_be_bytes().repeat(n as usize)).collect();
    let many: Vec<&[u8]> = many.iter().map(|blob| &blob[..]).collect();
    let answer = gateway.ask(Method::POST, "/api/v1/blobs/batch", body(&many)).await;
    assert_eq!(answer.status, 201);
    let stored = answer.json();
    let stored = stored["blobs"].as_array().unwrap();
    assert_eq!(stored.len(), many.len());
    for (blob, told) in many.iter().zip(stored) {
        assert_eq!(told["id"], BlobId::of(blob).to_string());
        assert_eq!(told["len"], blob.len());
        let read = gateway.get(&format!("/api/v1/blobs/{}", BlobId::of(blob))).await;
        assert_eq!((read.status, &read.body[..]), (200, *blob));
    }
}

#[tokio::test]
async fn a_batch_that_is_cut_short_or_lies_about_lengths_is_refused() {
    let gateway = Gateway::start().await;
    let whole = body(&[b"one", b"two"]);
    let endless = [&u64::MAX.to_be_bytes()[..], b"few"].concat();
    for bad in [&whole[..whole.len() - 1], &whole[..5], &endless[..]] {
        let answer = gateway.ask(Method::POST, "/api/v1/blobs/batch", bad.to_vec()).await;
        assert_eq!(answer.status, 400);
        assert!(answer.problem().contains("within a blob"));
    }
    assert_eq!(gateway.ask(Method::POST, "/api/v1/blobs/batch", whole).await.status, 201);
}
