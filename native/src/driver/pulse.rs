//! Whether the node's thread turns, seen from outside of it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time at one input after which the driver counts as stalled. Our choice: no input takes a tenth of it,
/// also beside other load, and peers wait for 7 s before they give a lease up.
pub(crate) const STALL: Duration = Duration::from_secs(5);

/// How often the watchdog looks. Our choice: short beside [`STALL`].
const LOOK: Duration = Duration::from_secs(1);

/// Set by the driver at each input, and at least once a second; clones share it.
#[derive(Clone)]
pub(super) struct Pulse {
    epoch: Instant,
    /// Milliseconds from `epoch` to the last beat.
    last: Arc<AtomicU64>,
    /// Longest time at one input, microseconds.
    longest: Arc<AtomicU64>,
}

impl Pulse {
    pub(super) fn new() -> Pulse {
        Pulse { epoch: Instant::now(), last: Arc::default(), longest: Arc::default() }
    }

    /// The driver takes its next input.
    pub(super) fn beat(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    /// The driver is done with an input that it took then.
    pub(super) fn done(&self, taken: Instant) {
        let micros = u64::try_from(taken.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.longest.fetch_max(micros, Ordering::Relaxed);
    }

    /// Longest time that one input has taken since the start.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }

    /// Time since the last beat if that is [`STALL`] or more.
    pub(super) fn stalled(&self) -> Option<Duration> {
        let since = self.now().saturating_sub(self.last.load(Ordering::Relaxed));
        Some(Duration::from_millis(since)).filter(|since| *since >= STALL)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Says in the log when the driver stalls and when it turns again, until the other end of `ended` is
/// dropped.
pub(super) fn watch(pulse: &Pulse, ended: &Receiver<Infallible>) {
    let mut said = false;
    loop {
        let looked = Instant::now();
        if !matches!(ended.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
            return;
        }
        // The whole process stood still: a closed lid, SIGSTOP.
        if looked.elapsed() > 3 * LOOK {
            continue;
        }
        match pulse.stalled() {
            Some(since) if !said => {
                said = true;
                tracing::error!(
                    "the node's thread has been at one input for {} s: it hears no peers and answers no \
                     requests; restart this node if it does not go on, and report this",
                    since.as_secs()
                );
            }
            None if said => {
                said = false;
                tracing::warn!("the node's thread goes on");
            }
            _ => {}
        }
    }
}
