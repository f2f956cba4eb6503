//! The door of the WebSocket listener: which pages may come in.
//!
//! A page anywhere on the web can let its visitor's browser open a WebSocket to this node, also where the
//! page's own server could not connect. Browsers say which page it is (`Origin`) and under which name they
//! came (`Host`). `libp2p-websocket` looks at neither, so the head of each request is read before it, checked
//! as the API checks its requests, and handed on.

use crate::api::{Caller, Hosts};
use crate::driver::NodeHandle;
use futures::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

/// Bytes of the request for an upgrade. Our choice: what libp2p-websocket's own parser takes, and several
/// times what browsers send.
const HEAD_BYTES: usize = 8 << 10;

/// Header lines; as many as libp2p-websocket takes.
const HEAD_LINES: usize = 32;

/// For the whole head, however slowly it comes. Our choice: half of what a connection has to be set up.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// For the node to say whether it has joined a page's gateway.
const NODE_TIME: Duration = Duration::from_secs(2);

/// Decides which pages are let in.
#[derive(Clone, Default)]
pub(crate) struct Pages {
    pub(crate) hosts: Hosts,
    /// Set once the node runs; it knows the gateways that it has joined.
    pub(crate) node: Arc<OnceLock<NodeHandle>>,
}

impl Pages {
    /// Why a request with these headers is refused: a status line and a sentence.
    async fn refusal(&self, headers: &[httparse::Header<'_>]) -> Option<(&'static str, String)> {
        let bad = |why: String| Some(("400 Bad Request", why));
        let forbidden = |why: String| Some(("403 Forbidden", why));
        let host = match single(headers, "host") {
            Ok(Some(host)) => host,
            Ok(None) => return bad("the request has no Host header".into()),
            Err(why) => return bad(why),
        };
        let origin = match single(headers, "origin") {
            Ok(origin) => origin,
            Err(why) => return bad(why),
        };
        match self.hosts.check_upgrade(host, origin) {
            Ok(Caller::Own) => None,
            Ok(Caller::PageOf(name)) if self.is_of_the_swarm(&name).await => None,
            Ok(Caller::PageOf(name)) => forbidden(format!(
                "a page of {name:?} may not connect to this node; only pages of its own names, and of gateways \
                 that it was told to join, may. If it is one of its names, start it with --public-host {name}"
            )),
            Err(why) => forbidden(why),
        }
    }

    /// Whether a gateway that this node was told to join, and is connected to, serves its pages under this name.
    /// A gateway that is full sends its pages to gateways that it is connected to, and those that joined it let
    /// them in. Names of others are not believed: any peer can say that it is a gateway.
    async fn is_of_the_swarm(&self, name: &str) -> bool {
        let Some(node) = self.node.get() else { return false };
        let name = name.to_owned();
        let asked = node.read(move |node, _| node.has_gateway_at(&name));
        matches!(tokio::time::timeout(NODE_TIME, asked).await, Ok(Ok(true)))
    }
}

fn single<'a>(headers: &[httparse::Header<'a>], name: &str) -> Result<Option<&'a str>, String> {
    let mut values = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    let Some(header) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(format!("the request has more than one {name} header"));
    }
    std::str::from_utf8(header.value).map(Some).map_err(|_| format!("the {name} header is not text"))
}

/// Reads the head of the request and checks it. A refused one is answered before this fails.
pub(super) async fn check<S>(stream: S, pages: &Pages) -> io::Result<Replayed<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    check_within(HEAD_TIME, stream, pages).await
}

async fn check_within<S>(time: Duration, mut stream: S, pages: &Pages) -> io::Result<Replayed<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let checked = async {
        let head = read_head(&mut stream).await?;
        let mut lines = [httparse::EMPTY_HEADER; HEAD_LINES];
        let mut request = httparse::Request::new(&mut lines);
        let refusal = match request.parse(&head) {
            Ok(httparse::Status::Complete(_)) => pages.refusal(request.headers).await,
            Ok(httparse::Status::Partial) => Some(("400 Bad Request", "the request is cut off".into())),
            Err(e) => Some(("400 Bad Request", format!("this is no request for a WebSocket: {e}"))),
        };
        let Some((status, why)) = refusal else { return Ok(head) };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{why}",
            why.len()
        );
        stream.write_all(answer.as_bytes()).await?;
        stream.close().await?;
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no whole request for a WebSocket came");
    let head = tokio::time::timeout(time, checked).await.map_err(late)??;
    Ok(Replayed { head, at: 0, stream })
}

/// Everything up to the empty line, and what came with it.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let n = stream.read(&mut piece).await?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The empty line may be cut in two by a piece's border.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(&piece[..n]);
        if head[from..].windows(4).any(|four| four == b"\r\n\r\n") || head.len() > HEAD_BYTES {
            return Ok(head);
        }
    }
}

/// A stream of which some bytes have been read already, as if they had not.
pub(super) struct Replayed<S> {
    head: Vec<u8>,
    at: usize,
    stream: S,
}

impl<S> Replayed<S> {
    /// A stream of which nothing has been read.
    pub(super) fn whole(stream: S) -> Self {
        Replayed { head: Vec::new(), at: 0, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Replayed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let rest = this.head.get(this.at..).unwrap_or_default();
        if rest.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        this.at += n;
        if this.at == this.head.len() {
            (this.head, this.at) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(n))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Replayed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
