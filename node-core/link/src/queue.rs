//! Frames that wait for one peer.

use crate::events::locked;
use bytes::Bytes;
use futures::task::AtomicWaker;
use node_core::Channel;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::Waker;

/// The frames of one connection that are not yet written: the driver puts them in, the
/// connection's handler takes them out.
#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    handler: AtomicWaker,
}

#[derive(Debug)]
struct Inner {
    control: VecDeque<Bytes>,
    blob: VecDeque<Bytes>,
    bytes: usize,
    limit: usize,
    end: Option<End>,
    /// The connection is the session.
    chosen: bool,
}

/// Why nothing more is put into a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// What is queued is still written, then the connection is closed.
    Close(String),
    /// The peer reads too slowly: what is queued is lost.
    Overflow { bytes: usize },
}

/// What a frame costs beside its bytes, so that empty frames are bounded as well.
const OVERHEAD: usize = 32;

impl Queue {
    pub(crate) fn new(limit: usize) -> Self {
        let inner = Inner {
            control: VecDeque::new(),
            blob: VecDeque::new(),
            bytes: 0,
            limit,
            end: None,
            chosen: false,
        };
        Queue { inner: Mutex::new(inner), handler: AtomicWaker::new() }
    }

    /// Queues a frame. After the end it is swallowed; above the limit it is the end.
    pub(crate) fn push(&self, channel: Channel, frame: Bytes) {
        {
            let mut inner = locked(&self.inner);
            if inner.end.is_some() {
                return;
            }
            let bytes = inner.bytes + frame.len() + OVERHEAD;
            if bytes > inner.limit {
                inner.control = VecDeque::new();
                inner.blob = VecDeque::new();
                inner.end = Some(End::Overflow { bytes: inner.bytes });
            } else {
                inner.bytes = bytes;
                inner.of(channel).push_back(frame);
            }
        }
        self.handler.wake();
    }

    /// The connection is the session from now on. The peer is told by an empty frame, which comes first.
    pub(crate) fn choose(&self) {
        {
            let mut inner = locked(&self.inner);
            inner.chosen = true;
            inner.control.push_front(Bytes::new());
        }
        self.handler.wake();
    }

    pub(crate) fn is_chosen(&self) -> bool {
        locked(&self.inner).chosen
    }

    /// Ends the session after what is queued.
    pub(crate) fn close(&self, reason: String) {
        locked(&self.inner).end.get_or_insert(End::Close(reason));
        self.handler.wake();
    }

    pub(crate) fn end(&self) -> Option<End> {
        locked(&self.inner).end.clone()
    }

    /// Moves frames of about `bytes` bytes, at least one if there is any, into `out`.
    pub(crate) fn take(&self, channel: Channel, bytes: usize, out: &mut Vec<Bytes>) {
        let mut inner = locked(&self.inner);
        let mut taken = 0;
        while taken < bytes {
            let Some(frame) = inner.of(channel).pop_front() else { break };
            taken += frame.len() + OVERHEAD;
            out.push(frame);
        }
        inner.bytes = inner.bytes.saturating_sub(taken);
    }

    /// Wakes this waker at the next push or close. Register, then look.
    pub(crate) fn register(&self, waker: &Waker) {
        self.handler.register(waker);
    }
}

impl Inner {
    fn of(&mut self, channel: Channel) -> &mut VecDeque<Bytes> {
        match channel {
            Channel::Control => &mut self.control,
            Channel::Blob => &mut self.blob,
        }
    }
}
