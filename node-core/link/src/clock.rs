//! Timers for both platforms.

use futures::FutureExt;
use futures_timer::Delay;
use std::task::{Context, Poll};
use std::time::Duration;

/// Fires again and again. Late polls give one tick, not several: after a sleep nothing piles up.
pub(crate) struct Ticks {
    every: Duration,
    delay: Delay,
}

impl Ticks {
    pub(crate) fn new(every: Duration) -> Self {
        Ticks { every, delay: Delay::new(every) }
    }

    pub(crate) fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        futures::ready!(self.delay.poll_unpin(cx));
        self.delay.reset(self.every);
        // Registers the waker with the new deadline.
        if self.delay.poll_unpin(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(())
    }
}
