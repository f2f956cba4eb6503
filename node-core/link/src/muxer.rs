//! A bound on how long a connection may take to say goodbye.
//!
//! libp2p closes politely: what is queued goes out first. A peer that froze with a full
//! receive window never takes it, and the connection would stay for ever.

use futures::FutureExt;
use futures_timer::Delay;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerBox, StreamMuxerEvent};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Our choice: two round trips to the far side of the world, with loss.
const FAREWELL: Duration = Duration::from_secs(2);

pub(crate) struct Polite {
    inner: StreamMuxerBox,
    farewell: Option<Delay>,
}

impl Polite {
    pub(crate) fn new(inner: StreamMuxerBox) -> Self {
        Polite { inner, farewell: None }
    }
}

type Inner = StreamMuxerBox;

impl StreamMuxer for Polite {
    type Substream = <Inner as StreamMuxer>::Substream;
    type Error = io::Error;

    fn poll_inbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Self::Substream>> {
        Pin::new(&mut self.inner).poll_inbound(cx)
    }

    fn poll_outbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Self::Substream>> {
        Pin::new(&mut self.inner).poll_outbound(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(done) = Pin::new(&mut self.inner).poll_close(cx) {
            return Poll::Ready(done);
        }
        let farewell = self.farewell.get_or_insert_with(|| Delay::new(FAREWELL));
        farewell.poll_unpin(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        Pin::new(&mut self.inner).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::poll_fn;

    /// A connection whose peer takes nothing any more.
    struct Frozen;

    impl StreamMuxer for Frozen {
        type Substream = futures::io::Cursor<Vec<u8>>;
        type Error = io::Error;

        fn poll_inbound(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<Self::Substream>> {
            Poll::Pending
        }
        fn poll_outbound(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<Self::Substream>> {
            Poll::Pending
        }
        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
            Poll::Pending
        }
    }

    #[test]
    fn closing_a_frozen_connection_ends() {
        let mut muxer = Polite::new(StreamMuxerBox::new(Frozen));
        let closed = futures::executor::block_on(poll_fn(|cx| Pin::new(&mut muxer).poll_close(cx)));
        assert_eq!(closed.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
