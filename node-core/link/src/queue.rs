//! Frames that wait for one peer.

use crate::events::locked;
use crate::memory::Share;
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
    /// Bytes that wait: of both channels, and of content.
    bytes: usize,
    blob_bytes: usize,
    limit: usize,
    /// Bytes that wait here, and bytes that the handler is writing, by channel: they count for all
    /// connections together.
    share: Share,
    in_hand: [usize; 2],
    end: Option<End>,
    /// The connection is the session.
    chosen: bool,
}

/// Why nothing more is put into a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Queued frames are still written, then the connection is closed.
    Close(String),
    /// The peer reads too slowly: what is queued is lost.
    Overflow { bytes: usize },
}

/// Cost of a frame beside its bytes, so that empty frames are bounded as well.
const OVERHEAD: usize = 32;

impl Queue {
    pub(crate) fn new(limit: usize, share: Share) -> Self {
        let inner = Inner {
            control: VecDeque::new(),
            blob: VecDeque::new(),
            bytes: 0,
            blob_bytes: 0,
            limit,
            share,
            in_hand: [0; 2],
            end: None,
            chosen: false,
        };
        Queue { inner: Mutex::new(inner), handler: AtomicWaker::new() }
    }

    /// Queues a frame. After the end it is swallowed; above the limit it is the end. If all peers together
    /// leave no memory for it, content is dropped, for which the peer asks again, and a message is the end.
    pub(crate) fn push(&self, channel: Channel, frame: Bytes) {
        {
            let mut inner = locked(&self.inner);
            if inner.end.is_some() {
                return;
            }
            let cost = frame.len() + OVERHEAD;
            let is_content = channel == Channel::Blob;
            if inner.bytes + cost > inner.limit {
                inner.overflow();
            } else if !inner.share.take(cost) {
                if is_content {
                    return;
                }
                inner.overflow();
            } else {
                inner.bytes += cost;
                inner.blob_bytes += if is_content { cost } else { 0 };
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

    /// Bytes that wait here for a channel.
    pub(crate) fn waiting(&self, channel: Channel) -> usize {
        let inner = locked(&self.inner);
        match channel {
            Channel::Control => inner.bytes - inner.blob_bytes,
            Channel::Blob => inner.blob_bytes,
        }
    }

    /// Moves frames of about `bytes` bytes, at least one if there is any, into `out`. What was moved before
    /// has been written.
    pub(crate) fn take(&self, channel: Channel, bytes: usize, out: &mut Vec<Bytes>) {
        let mut inner = locked(&self.inner);
        let mut taken = 0;
        while taken < bytes {
            let Some(frame) = inner.of(channel).pop_front() else { break };
            taken += frame.len() + OVERHEAD;
            out.push(frame);
        }
        inner.bytes = inner.bytes.saturating_sub(taken);
        if channel == Channel::Blob {
            inner.blob_bytes = inner.blob_bytes.saturating_sub(taken);
        }
        let written = std::mem::replace(&mut inner.in_hand[channel as usize], taken);
        inner.share.give(written);
    }

    /// Wakes this waker at the next push or close. Register, then look.
    pub(crate) fn register(&self, waker: &Waker) {
        self.handler.register(waker);
    }
}

impl Inner {
    fn overflow(&mut self) {
        self.end = Some(End::Overflow { bytes: self.bytes });
        (self.control, self.blob) = (VecDeque::new(), VecDeque::new());
        let waited = std::mem::take(&mut self.bytes);
        self.blob_bytes = 0;
        self.share.give(waited);
    }

    fn of(&mut self, channel: Channel) -> &mut VecDeque<Bytes> {
        match channel {
            Channel::Control => &mut self.control,
            Channel::Blob => &mut self.blob,
        }
    }
}
