//! A connection's bytes, given up when the reader at the other end takes none.

use super::doors::Visit;
use socket2::SockRef;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// Bytes that wait to be written go on within this time, or the connection is given up. Our choice: longer than
/// any hiccup of a network. A slow reader goes on with every byte that it takes.
pub(super) const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that the system may have beyond what is on the way to the reader. Our choice: fills any line, and so
/// little that a reader of 4 kB/s shows within [`WRITE_PATIENCE`] that it reads.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 128 << 10;

/// Watches the bytes of one connection.
pub(super) struct Watched {
    stream: TcpStream,
    visit: Arc<Visit>,
    /// Runs while something waits to be written.
    patience: Pin<Box<Sleep>>,
    waits: bool,
}

impl Watched {
    pub(super) fn new(stream: TcpStream, visit: Arc<Visit>) -> Watched {
        // Small answers should not wait for each other.
        let _ = stream.set_nodelay(true);
        #[cfg(target_os = "linux")]
        let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
        Watched { stream, visit, patience: Box::pin(sleep(WRITE_PATIENCE)), waits: false }
    }

    fn written(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if done.is_ready() {
            self.waits = false;
            self.visit.moved();
            return done;
        }
        if !self.waits {
            self.waits = true;
            self.patience.as_mut().reset(Instant::now() + WRITE_PATIENCE);
        }
        ready!(self.patience.as_mut().poll(cx));
        let secs = WRITE_PATIENCE.as_secs();
        let why = format!("the reader took nothing for {secs} s");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.waits {
            // Nobody reads what the system still holds: it is to be let go of at once.
            let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        // A client that sends more and takes no answers stands still.
        if buf.filled().len() > before && !self.waits {
            self.visit.moved();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
