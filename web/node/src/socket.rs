//! The browser's WebSockets as a libp2p transport.
//!
//! Ours instead of `libp2p-websocket-websys`, which looks ten times a second whether it may go
//! on: connecting took 200 ms of such waits, and a connection that was closed was noticed by
//! silence only. Here everything happens when the browser says so.

use crate::stream::Stream;
use futures::io::{self, AsyncRead, AsyncWrite};
use futures::ready;
use futures_timer::Delay;
use js_sys::Function;
use libp2p::Multiaddr;
use libp2p::core::transport::{DialOpts, ListenerId, Transport, TransportError, TransportEvent};
use libp2p::multiaddr::Protocol;
use send_wrapper::SendWrapper;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use wasm_bindgen::prelude::*;
use web_sys::{BinaryType, CloseEvent, Event, MessageEvent, WebSocket};

/// Bytes that may wait to be sent before writers wait. Our choice: some of the largest frames,
/// so that a fast line never runs dry.
const SEND_BUFFER: u32 = 4 << 20;

/// How often a full buffer is looked at: browsers do not tell when it empties.
const SEND_POLL: Duration = Duration::from_millis(5);

/// Dials only: a browser cannot listen.
pub(crate) struct WebSockets;

impl Transport for WebSockets {
    type Output = Socket;
    type Error = io::Error;
    type ListenerUpgrade = std::future::Pending<Result<Socket, io::Error>>;
    type Dial = SendWrapper<Pin<Box<dyn Future<Output = Result<Socket, io::Error>>>>>;

    fn listen_on(&mut self, _: ListenerId, address: Multiaddr) -> Result<(), TransportError<io::Error>> {
        Err(TransportError::MultiaddrNotSupported(address))
    }

    fn remove_listener(&mut self, _: ListenerId) -> bool {
        false
    }

    fn dial(&mut self, address: Multiaddr, _: DialOpts) -> Result<Self::Dial, TransportError<io::Error>> {
        let url = url_of(&address).ok_or(TransportError::MultiaddrNotSupported(address))?;
        Ok(SendWrapper::new(Box::pin(open(url))))
    }

    fn poll(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, io::Error>> {
        Poll::Pending
    }
}

/// The address in a text, if it is one that [`url_of`] knows. `Multiaddr` reads more kinds, and
/// the tables for those weigh a fiftieth of what a page loads.
pub(crate) fn address_of(text: &str) -> Option<Multiaddr> {
    let mut parts = text.strip_prefix('/')?.split('/');
    let mut address = Multiaddr::empty();
    while let Some(kind) = parts.next() {
        let mut value = || parts.next();
        address.push(match kind {
            "ip4" => Protocol::Ip4(value()?.parse().ok()?),
            "ip6" => Protocol::Ip6(value()?.parse().ok()?),
            "dns" => Protocol::Dns(value()?.into()),
            "dns4" => Protocol::Dns4(value()?.into()),
            "dns6" => Protocol::Dns6(value()?.into()),
            "tcp" => Protocol::Tcp(value()?.parse().ok()?),
            "tls" => Protocol::Tls,
            "ws" => Protocol::Ws("/".into()),
            "wss" => Protocol::Wss("/".into()),
            "p2p" => Protocol::P2p(value()?.parse().ok()?),
            _ => return None,
        });
    }
    Some(address)
}

pub(crate) fn url_of(address: &Multiaddr) -> Option<String> {
    let mut parts = address.iter();
    let host = match parts.next()? {
        Protocol::Ip4(ip) => ip.to_string(),
        Protocol::Ip6(ip) => format!("[{ip}]"),
        Protocol::Dns(name) | Protocol::Dns4(name) | Protocol::Dns6(name) => name.into_owned(),
        _ => return None,
    };
    let Protocol::Tcp(port) = parts.next()? else { return None };
    let (scheme, path) = match (parts.next()?, parts.next()) {
        (Protocol::Ws(path), _) => ("ws", path),
        (Protocol::Wss(path), _) | (Protocol::Tls, Some(Protocol::Ws(path))) => ("wss", path),
        _ => return None,
    };
    Some(format!("{scheme}://{host}:{port}{path}"))
}

pub(crate) async fn open(url: String) -> io::Result<Socket> {
    let error = |e: JsValue| io::Error::other(format!("{url}: {}", crate::browser::text(&e)));
    let socket = Socket::new(&url).map_err(error)?;
    poll_fn(|cx| socket.inner.stream.poll_open(cx)).await.map_err(|_| {
        // Browsers hide the reason from pages on purpose.
        io::Error::new(io::ErrorKind::ConnectionRefused, format!("nobody answers at {url}"))
    })?;
    Ok(socket)
}

/// A connection. Used on one thread only, which [`SendWrapper`] sees to.
pub(crate) struct Socket {
    inner: SendWrapper<Inner>,
}

struct Inner {
    socket: WebSocket,
    stream: Stream,
    /// Runs while the send buffer is full.
    pause: Option<Delay>,
    _calls: Calls,
}

/// Closures that the browser calls; they must live as long as the socket does.
type Calls = (Closure<dyn FnMut(Event)>, Closure<dyn FnMut(MessageEvent)>, Closure<dyn FnMut(CloseEvent)>);

impl Socket {
    fn new(url: &str) -> Result<Socket, JsValue> {
        let socket = WebSocket::new(url)?;
        socket.set_binary_type(BinaryType::Arraybuffer);
        let stream = Stream::default();

        let state = stream.clone();
        let (on_open, call) = crate::browser::on(move |_: Event| state.opened());
        socket.set_onopen(Some(&call));

        let state = stream.clone();
        let (on_message, call) = crate::browser::on(move |event: MessageEvent| state.message(&event));
        socket.set_onmessage(Some(&call));

        let state = stream.clone();
        let (on_close, call) = crate::browser::on(move |event: CloseEvent| {
            let mut words = match event.code() {
                1000 | 1001 | 1005 => "the other end closed it".to_owned(),
                // Browsers give 1006 when there was no closing handshake.
                1006 => "the other end is gone".to_owned(),
                code => format!("it was closed with code {code}"),
            };
            if !event.reason().is_empty() {
                words = format!("{words}: {}", event.reason());
            }
            state.close(words);
        });
        // An error event says nothing and is always followed by a close event.
        socket.set_onclose(Some(&call));

        let inner = Inner { socket, stream, pause: None, _calls: (on_open, on_message, on_close) };
        Ok(Socket { inner: SendWrapper::new(inner) })
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.inner.stream.poll_read(cx, into)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.inner.stream.poll_open(cx))?;
        let inner = &mut *self.inner;
        while inner.socket.buffered_amount() > SEND_BUFFER {
            let pause = inner.pause.get_or_insert_with(|| Delay::new(SEND_POLL));
            ready!(Pin::new(pause).poll(cx));
            inner.pause = None;
        }
        let sent = inner.socket.send_with_u8_array(bytes);
        Poll::Ready(sent.map(|()| bytes.len()).map_err(|_| inner.stream.broken()))
    }

    /// Browsers send at once.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.stream.poll_open(cx)
    }

    /// Browsers send what they have before they close.
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        close(&self.inner.socket);
        Poll::Ready(Ok(()))
    }
}

fn close(socket: &WebSocket) {
    // Fails on codes that browsers reserve, and 1000 is none of them.
    drop(socket.close_with_code(1000));
}

impl Drop for Socket {
    fn drop(&mut self) {
        let socket = &self.inner.socket;
        let nothing: Option<&Function> = None;
        socket.set_onopen(nothing);
        socket.set_onmessage(nothing);
        socket.set_onclose(nothing);
        close(socket);
    }
}
