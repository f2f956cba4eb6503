//! A data channel as a stream of bytes.

use crate::stream::Stream;
use futures::io::{self, AsyncRead, AsyncWrite};
use futures::ready;
use js_sys::Function;
use send_wrapper::SendWrapper;
use std::pin::Pin;
use std::task::{Context, Poll};
use wasm_bindgen::prelude::*;
use web_sys::{Event, MessageEvent, RtcDataChannel, RtcDataChannelType};

/// Bytes of a message. RFC 8831, 6.6: what every end takes.
const MESSAGE: usize = 16 << 10;

/// Bytes that may wait to be sent before writers wait, and when they go on. Our choice: what the line takes while the
/// page is at something else.
const SEND_BUFFER: u32 = 256 << 10;
const GO_ON: u32 = SEND_BUFFER / 2;

/// One end. Used on one thread only, which [`SendWrapper`] sees to.
pub(crate) struct Channel {
    inner: SendWrapper<Inner>,
}

struct Inner {
    channel: RtcDataChannel,
    stream: Stream,
    /// Told when the end is no more.
    over: Option<Box<dyn FnOnce()>>,
    _calls: Calls,
}

/// Closures that the browser calls; they must live as long as the channel does.
type Calls = (Closure<dyn FnMut(Event)>, Closure<dyn FnMut(MessageEvent)>, Closure<dyn FnMut(Event)>);

impl Channel {
    /// Reads and writes `channel` from now on. `opened` is called once if it opens, `over` when this end is dropped.
    pub(crate) fn new(
        channel: RtcDataChannel,
        opened: impl Fn() + 'static,
        over: impl FnOnce() + 'static,
    ) -> Self {
        channel.set_binary_type(RtcDataChannelType::Arraybuffer);
        channel.set_buffered_amount_low_threshold(GO_ON);
        let stream = Stream::default();

        let state = stream.clone();
        let (on_open, call) = crate::browser::on(move |_: Event| {
            state.opened();
            opened();
        });
        channel.set_onopen(Some(&call));

        let state = stream.clone();
        let (on_message, call) = crate::browser::on(move |event: MessageEvent| state.message(&event));
        channel.set_onmessage(Some(&call));

        let state = stream.clone();
        let (on_event, call) = crate::browser::on(move |event: Event| match event.type_().as_str() {
            "bufferedamountlow" => state.drained(),
            // An error ends it, too.
            _ => state.close("the data channel was closed".into()),
        });
        channel.set_onbufferedamountlow(Some(&call));
        channel.set_onclose(Some(&call));

        let over: Option<Box<dyn FnOnce()>> = Some(Box::new(over));
        let inner = Inner { channel, stream, over, _calls: (on_open, on_message, on_event) };
        Channel { inner: SendWrapper::new(inner) }
    }
}

impl AsyncRead for Channel {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.inner.stream.poll_read(cx, into)
    }
}

impl AsyncWrite for Channel {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let inner = &*self.inner;
        ready!(inner.stream.poll_open(cx))?;
        if inner.channel.buffered_amount() >= SEND_BUFFER {
            inner.stream.wait_to_write(cx);
            return Poll::Pending;
        }
        let part = &bytes[..bytes.len().min(MESSAGE)];
        let sent = inner.channel.send_with_u8_array(part);
        Poll::Ready(sent.map(|()| part.len()).map_err(|_| inner.stream.broken()))
    }

    /// Browsers send at once.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.stream.poll_open(cx)
    }

    /// Browsers send what they have before they close.
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.channel.close();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let inner = &mut *self.inner;
        let nothing: Option<&Function> = None;
        inner.channel.set_onopen(nothing);
        inner.channel.set_onmessage(nothing);
        inner.channel.set_onbufferedamountlow(nothing);
        inner.channel.set_onclose(nothing);
        inner.channel.close();
        if let Some(over) = inner.over.take() {
            over();
        }
    }
}
