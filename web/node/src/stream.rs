//! A stream of bytes that the browser brings in messages: what its calls, the readers and the writers share.

use futures::io;
use js_sys::Uint8Array;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use web_sys::MessageEvent;

/// Bytes that may wait to be read. A browser cannot make the sender wait; yamux's windows do,
/// and who ignores them is disconnected.
const RECEIVE_BUFFER: usize = 64 << 20;

/// Messages of these, since each takes some memory of its own. Our choice: as a native node has it.
const MESSAGES: usize = 1 << 16;

/// Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Stream(Rc<RefCell<Shared>>);

#[derive(Default)]
struct Shared {
    is_open: bool,
    /// Why it is over.
    closed: Option<String>,
    received: VecDeque<Vec<u8>>,
    /// Bytes read of the first of `received`.
    read: usize,
    bytes: usize,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Shared {
    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }

    fn close(&mut self, reason: String) {
        self.closed.get_or_insert(reason);
        self.wake();
    }

    fn broken(&self) -> io::Error {
        let reason = self.closed.as_deref().unwrap_or("the connection is closed");
        io::Error::new(io::ErrorKind::BrokenPipe, reason)
    }
}

impl Stream {
    pub(crate) fn opened(&self) {
        let mut shared = self.0.borrow_mut();
        shared.is_open = true;
        shared.wake();
    }

    pub(crate) fn close(&self, reason: String) {
        self.0.borrow_mut().close(reason);
    }

    pub(crate) fn message(&self, event: &MessageEvent) {
        let bytes = Uint8Array::new(&event.data()).to_vec();
        let mut shared = self.0.borrow_mut();
        if bytes.is_empty() || shared.closed.is_some() {
            return;
        }
        shared.bytes += bytes.len();
        if shared.bytes > RECEIVE_BUFFER || shared.received.len() >= MESSAGES {
            shared.received.clear();
            return shared.close("the peer sends faster than this page can read".into());
        }
        shared.received.push_back(bytes);
        if let Some(reader) = shared.reader.take() {
            reader.wake();
        }
    }

    /// There may be room to send again.
    pub(crate) fn drained(&self) {
        if let Some(writer) = self.0.borrow_mut().writer.take() {
            writer.wake();
        }
    }

    pub(crate) fn broken(&self) -> io::Error {
        self.0.borrow().broken()
    }

    /// Wakes the task when something has changed for writers.
    pub(crate) fn wait_to_write(&self, cx: &Context<'_>) {
        self.0.borrow_mut().writer = Some(cx.waker().clone());
    }

    pub(crate) fn poll_open(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.0.borrow_mut();
        if shared.closed.is_some() {
            return Poll::Ready(Err(shared.broken()));
        }
        if shared.is_open {
            return Poll::Ready(Ok(()));
        }
        shared.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn poll_read(&self, cx: &Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut guard = self.0.borrow_mut();
        let shared = &mut *guard;
        let Some(first) = shared.received.front() else {
            if shared.closed.is_some() {
                return Poll::Ready(Err(shared.broken()));
            }
            shared.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let rest = &first[shared.read..];
        let n = rest.len().min(into.len());
        into[..n].copy_from_slice(&rest[..n]);
        shared.read += n;
        shared.bytes -= n;
        if shared.read == first.len() {
            shared.received.pop_front();
            shared.read = 0;
        }
        Poll::Ready(Ok(n))
    }
}
