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
    /// Bytes that wait, by channel.
    waits: [usize; 2],
    limit: usize,
    /// Bytes that wait here, and bytes that the handler is writing, by channel: they count for all
    /// connections together.
    share: Share,
    in_hand: [usize; 2],
    end: Option<End>,
    /// The connection is the session.
    chosen: bool,
    /// The peer is to be told so, before all else.
    tells: bool,
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
            waits: [0; 2],
            limit,
            share,
            in_hand: [0; 2],
            end: None,
            chosen: false,
            tells: false,
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
            if inner.bytes() + cost > inner.limit {
                inner.overflow();
            } else if !inner.share.take(cost) {
                if channel == Channel::Blob {
                    return;
                }
                inner.overflow();
            } else {
                inner.waits[channel as usize] += cost;
                inner.of(channel).push_back(frame);
            }
        }
        self.handler.wake();
    }

    /// The connection is the session from now on. The peer is told by an empty frame, which comes first.
    pub(crate) fn choose(&self) {
        {
            let mut inner = locked(&self.inner);
            (inner.chosen, inner.tells) = (true, true);
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
        locked(&self.inner).waits[channel as usize]
    }

    /// Moves frames of about `bytes` bytes, at least one if there is any, into `out`. What was moved before
    /// has been written.
    pub(crate) fn take(&self, channel: Channel, bytes: usize, out: &mut Vec<Bytes>) {
        let mut inner = locked(&self.inner);
        if channel == Channel::Control && std::mem::take(&mut inner.tells) {
            out.push(Bytes::new());
        }
        let mut taken = 0;
        while taken < bytes {
            let Some(frame) = inner.of(channel).pop_front() else { break };
            taken += frame.len() + OVERHEAD;
            out.push(frame);
        }
        inner.waits[channel as usize] -= taken;
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
        let waited = self.bytes();
        self.end = Some(End::Overflow { bytes: waited });
        (self.control, self.blob) = (VecDeque::new(), VecDeque::new());
        self.waits = [0; 2];
        self.share.give(waited);
    }

    /// Bytes that wait, of both channels.
    fn bytes(&self) -> usize {
        self.waits.iter().sum()
    }

    fn of(&mut self, channel: Channel) -> &mut VecDeque<Bytes> {
        match channel {
            Channel::Control => &mut self.control,
            Channel::Blob => &mut self.blob,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn queue() -> Queue {
        Queue::new(1 << 20, Memory::new(4 << 20).share(None))
    }

    fn take(queue: &Queue, channel: Channel) -> Vec<usize> {
        let mut out = Vec::new();
        queue.take(channel, 100, &mut out);
        out.iter().map(Bytes::len).collect()
    }

    #[test]
    fn the_first_word_comes_first_and_leaves_the_count_of_what_waits_as_it_is() {
        let queue = queue();
        queue.push(Channel::Blob, Bytes::from_static(b"content"));
        queue.push(Channel::Control, Bytes::from_static(b"message"));
        queue.choose();
        assert_eq!(take(&queue, Channel::Control), [0, 7]);
        let waits = [Channel::Control, Channel::Blob].map(|channel| queue.waiting(channel));
        assert_eq!(waits, [0, 7 + OVERHEAD], "content waits, and no message does");
        assert_eq!(take(&queue, Channel::Control), [0; 0], "it is said once");
        assert_eq!(take(&queue, Channel::Blob), [7]);
        assert_eq!(queue.waiting(Channel::Blob), 0);
    }

    #[test]
    fn a_queue_above_its_limit_loses_all_and_says_how_much_waited() {
        let queue = queue();
        queue.push(Channel::Blob, Bytes::from(vec![0; 1 << 19]));
        queue.push(Channel::Control, Bytes::from(vec![0; 1 << 19]));
        assert_eq!(queue.end(), Some(End::Overflow { bytes: (1 << 19) + OVERHEAD }));
        assert_eq!(take(&queue, Channel::Blob), [0; 0]);
    }
}
