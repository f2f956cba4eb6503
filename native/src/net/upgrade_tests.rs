use super::*;
use futures::io::Cursor;

/// A client's view of a socket: its request, and the answer.
struct Client {
    sends: Cursor<Vec<u8>>,
    answer: Vec<u8>,
}

impl AsyncRead for Client {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        // One byte at a time: nothing may depend on how it comes.
        Pin::new(&mut self.sends).poll_read(cx, &mut buf[..1])
    }
}

impl AsyncWrite for Client {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.answer).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn pages(public: &[&str]) -> Pages {
    let public: Vec<String> = public.iter().map(ToString::to_string).collect();
    Pages { hosts: Hosts::new("127.0.0.1:0".parse().unwrap(), &public).unwrap(), ..Pages::default() }
}

/// The answer to a request with these headers; empty if it is let in, with all that it sent.
async fn answer(pages: &Pages, headers: &str) -> String {
    let sends = format!("GET / HTTP/1.1\r\n{headers}Upgrade: websocket\r\n\r\n").into_bytes();
    let mut client = Client { sends: Cursor::new(sends.clone()), answer: Vec::new() };
    match check(&mut client, pages).await {
        Ok(mut replayed) => {
            let mut all = Vec::new();
            replayed.read_to_end(&mut all).await.unwrap();
            assert_eq!(all, sends);
        }
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
    }
    String::from_utf8(client.answer).unwrap()
}

async fn from(pages: &Pages, host: &str, origin: &str) -> bool {
    let answer = answer(pages, &format!("Host: {host}\r\norigin: {origin}\r\n")).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 403 "), "{answer}");
    answer.is_empty()
}

#[tokio::test]
async fn pages_of_other_sites_stay_outside() {
    let pages = pages(&["compute.example.org:8443"]);
    for origin in [
        "https://evil.example",
        "http://evil.example:8080",
        "http://localhost.evil.example",
        "http://203.0.113.9",
        "null",
        "file://",
        "chrome-extension://abcdef",
        "127.0.0.1",
        "",
    ] {
        for host in ["127.0.0.1:4002", "localhost:4002", "compute.example.org:4002", "192.0.2.1:4002"] {
            assert!(!from(&pages, host, origin).await, "{origin:?} at {host}");
        }
    }
    assert!(!from(&pages, "192.0.2.1:4002", "http://localhost:8080").await, "a visitor's own server");
    let why = answer(&pages, "Host: 127.0.0.1:4002\r\nOrigin: https://evil.example\r\n").await;
    assert!(why.contains("a page of \"evil.example\" may not connect"), "{why}");
}

#[tokio::test]
async fn names_that_are_not_the_gateways_are_refused_even_without_an_origin() {
    let pages = pages(&[]);
    for host in ["evil.example:4002", "localhost.evil.example", "127.0.0.1.evil.example"] {
        assert!(!from(&pages, host, &format!("http://{host}")).await, "{host}");
        let alone = answer(&pages, &format!("Host: {host}\r\n")).await;
        assert!(alone.starts_with("HTTP/1.1 403 ") && alone.contains("--public-host"), "{alone}");
    }
}

#[tokio::test]
async fn pages_of_the_gateways_own_names_come_in_at_any_port() {
    let pages = pages(&["compute.example.org:8443"]);
    for (host, origin) in [
        ("127.0.0.1:4002", "http://127.0.0.1:8080"),
        ("127.0.0.1:4002", "http://localhost:8080"),
        ("[::1]:4002", "http://localhost"),
        ("192.0.2.1:4002", "http://192.0.2.1:8080"),
        ("[2001:db8::1]:4002", "http://[2001:db8::1]:8080"),
        ("[2001:db8::1]:4002", "http://[2001:DB8:0::1]:8080"),
        ("[::ffff:192.0.2.1]:4002", "http://192.0.2.1:8080"),
        ("compute.example.org:4002", "http://Compute.example.org:8443"),
        ("compute.example.org", "https://compute.example.org"),
        // Behind a proxy that passes its own idea of the host.
        ("127.0.0.1:4002", "https://compute.example.org:8443"),
    ] {
        assert!(from(&pages, host, origin).await, "{origin} at {host}");
    }
}

#[tokio::test]
async fn nodes_come_without_an_origin() {
    for host in ["127.0.0.1:4002", "192.0.2.1:4002", "[2001:db8::1]:4002", "localhost:4002"] {
        assert_eq!(answer(&pages(&[]), &format!("Host: {host}\r\n")).await, "");
    }
}

#[tokio::test]
async fn one_host_and_one_origin_in_one_small_head() {
    let pages = pages(&[]);
    let fat = format!("X: {}\r\nHost: localhost\r\n", "x".repeat(2 * HEAD_BYTES));
    let many = format!("{}Host: localhost\r\n", "X: y\r\n".repeat(2 * HEAD_LINES));
    for headers in [
        "",
        "Host: localhost\r\nhost: evil.example\r\n",
        "Host: localhost\r\nOrigin: http://localhost\r\nOrigin: https://evil.example\r\n",
        "Host: localhost\r\nno header\r\n",
        &fat,
        &many,
    ] {
        let answer = answer(&pages, headers).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}

#[tokio::test]
async fn a_head_that_does_not_end_is_given_up() {
    /// Always about to send something.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }

    impl AsyncWrite for Endless {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    let error = check_within(Duration::from_millis(1), Endless, &pages(&[])).await.err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
