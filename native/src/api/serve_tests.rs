use super::super::fixture::Gateway;
use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

/// A gateway that really listens, and what ends it.
async fn listening()
-> (Gateway, std::net::SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<io::Result<()>>) {
    let gateway = Gateway::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let options = ApiOptions::new("word".into());
    let serving = serve(options, gateway.node.clone(), listener, async { drop(stopped.await) });
    (gateway, address, stop, tokio::spawn(serving))
}

async fn send(address: std::net::SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Everything up to the end, or to the reset that follows when not all was read over there.
async fn all(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn it_answers_over_a_connection() {
    let (_gateway, address, _stop, _serving) = listening().await;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let answer = all(send(address, &request).await).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("{\"status\":\"ok\"}"), "{answer}");
}

#[tokio::test]
async fn noise_closes_its_own_connection_only() {
    let (_gateway, address, _stop, _serving) = listening().await;
    let noise = all(send(address, "\x16\x03\x01 not HTTP at all\r\n\r\n").await).await;
    assert!(noise.is_empty() || noise.starts_with("HTTP/1.1 400"), "{noise}");
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(200_000));
    let long = all(send(address, &long).await).await;
    assert!(long.is_empty() || long.starts_with("HTTP/1.1 4"), "{long}");
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    assert!(all(send(address, &request).await).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_stream_that_would_never_end_does_not_hold_up_the_end() {
    let (_gateway, address, stop, serving) = listening().await;
    let request =
        format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer word\r\n\r\n");
    let mut stream = send(address, &request).await;
    let mut first = [0; 15];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    // A client that has not sent its whole request does not hold up the end either.
    let silent = send(address, "GET / HT").await;

    stop.send(()).unwrap();
    let rest = all(stream).await;
    assert!(rest.ends_with("0\r\n\r\n"), "the stream was cut, not ended: {rest}");
    serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
    drop(silent);
}
