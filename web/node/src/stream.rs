//! A stream of bytes that the browser brings in messages: what its calls, the readers and the writers share.

use futures::io;
use js_sys::Uint8Array;
use link::Received;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use web_sys::MessageEvent;

/// Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Stream(Rc<RefCell<Shared>>);

#[derive(Default)]
struct Shared {
    is_open: bool,
    /// Why it is over.
    closed: Option<String>,
    received: Received,
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
        if shared.closed.is_some() {
            return;
        }
        if let Err(flooded) = shared.received.push(bytes) {
            shared.received.clear();
            return shared.close(flooded.to_string());
        }
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
        let Some(next) = shared.received.next() else {
            if shared.closed.is_some() {
                return Poll::Ready(Err(shared.broken()));
            }
            shared.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let n = next.len().min(into.len());
        into[..n].copy_from_slice(&next[..n]);
        shared.received.consume(n);
        Poll::Ready(Ok(n))
    }
}
