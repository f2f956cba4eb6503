//! Bytes that an end of a data channel has under way: as many as the way there holds, and few more.
//!
//! `str0m` sends whatever its peer's window admits, at once, and what a receiver's socket cannot hold is lost: 208 KiB
//! by default, of which SCTP's own window learns only by losses, each of which halves it. This window looks at time
//! instead, as TCP Vegas does (Brakmo and Peterson, 1995, section 3.2): while a round trip takes about what the
//! shortest took, it doubles; when bytes have begun to wait somewhere, it shrinks.

use std::time::{Duration, Instant};

/// Least and most that is under way, beside the message that fills it. Measured (`docs/benchmarks.md`): Chromium's
/// sockets receive 64 KiB, and with as much under way half of the rate goes into losses. The most is what 160 ms hold
/// at the rate below.
const LEAST: usize = 32 << 10;
pub(super) const MOST: usize = 4 << 20;

/// Bytes a millisecond that a way may hold: a short one needs no more than the least. Our choice: a quarter more than
/// is asked of a channel.
const RATE: usize = 25_000;

/// A round trip that takes longer than the shortest by this counts as one in which bytes wait: timers and schedulers
/// are that coarse.
const SLACK: Duration = Duration::from_millis(2);

/// The shortest round trip of so many, and of as many before them, counts: the way may have become another.
const REMEMBERED: u32 = 1000;

#[derive(Debug)]
pub(super) struct Window {
    /// Bytes that may be under way.
    size: usize,
    /// Bytes that were written, and of these the acknowledged ones, since the channel opened.
    written: u64,
    acknowledged: u64,
    /// A round trip that is being measured: it is over when so many bytes are acknowledged.
    round: Option<(u64, Instant)>,
    /// The shortest one of late, and of the time before.
    shortest: Duration,
    before: Duration,
    rounds: u32,
    /// The window was full in this round.
    full: bool,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            size: LEAST,
            written: 0,
            acknowledged: 0,
            round: None,
            shortest: Duration::MAX,
            before: Duration::MAX,
            rounds: 0,
            full: false,
        }
    }
}

impl Window {
    /// Whether more may be sent while `waits` bytes are not acknowledged.
    pub(super) fn has_room(&mut self, waits: usize) -> bool {
        let has = waits < self.size;
        self.full |= !has;
        has
    }

    /// Counts bytes that were sent.
    pub(super) fn sent(&mut self, bytes: usize, now: Instant) {
        self.written += bytes as u64;
        self.round.get_or_insert((self.written, now));
    }

    /// A round trip is being measured.
    pub(super) fn is_measuring(&self) -> bool {
        self.round.is_some()
    }

    /// Takes in how many of the sent bytes are not acknowledged.
    pub(super) fn acknowledged(&mut self, waits: usize, now: Instant) {
        self.acknowledged = self.written.saturating_sub(waits as u64);
        let Some((_, since)) = self.round.filter(|(until, _)| *until <= self.acknowledged) else {
            return;
        };
        self.round = None;
        self.over(now.saturating_duration_since(since));
    }

    fn over(&mut self, took: Duration) {
        self.rounds += 1;
        if self.rounds > REMEMBERED {
            (self.before, self.shortest, self.rounds) = (self.shortest, took, 0);
        }
        self.shortest = self.shortest.min(took);
        let shortest = self.shortest.min(self.before);
        // A window that was not used says nothing.
        let full = std::mem::take(&mut self.full);
        let size = match took {
            took if full && took > shortest * 2 + SLACK => self.size / 4 * 3,
            took if full && took <= shortest * 5 / 4 + SLACK => self.size * 2,
            _ => self.size,
        };
        let micros = usize::try_from(shortest.as_micros()).unwrap_or(usize::MAX);
        let holds = RATE.saturating_mul(micros) / 1000;
        self.size = size.min(holds).clamp(LEAST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way of so many bytes a second, with its distance there and back, on which the window is always used.
    fn after(rounds: usize, rate: f64, distance: Duration) -> usize {
        let (mut window, mut now) = (Window::default(), Instant::now());
        for _ in 0..rounds {
            let size = window.size;
            window.sent(size, now);
            assert!(!window.has_room(size));
            // Bytes that the way does not hold wait before it.
            let time = distance.max(Duration::from_secs_f64(size as f64 / rate));
            now += time;
            window.acknowledged(0, now);
        }
        window.size
    }

    #[test]
    fn the_window_grows_to_what_a_long_way_holds_and_stays_small_on_a_short_one() {
        // 25 MB/s over 40 ms are a million.
        let far = after(50, 50e6, Duration::from_millis(40));
        assert_eq!(far, 1_000_000);
        // On the machine itself the least takes longer than the distance.
        assert_eq!(after(50, 25e6, Duration::from_micros(500)), LEAST);
        assert_eq!(after(50, 1e9, Duration::from_millis(200)), MOST);
    }

    #[test]
    fn bytes_that_begin_to_wait_make_it_smaller() {
        let (mut window, mut now) = (Window::default(), Instant::now());
        window.size = 1 << 20;
        for ms in [20, 20, 90, 90] {
            window.sent(1000, now);
            assert!(!window.has_room(1 << 20));
            now += Duration::from_millis(ms);
            window.acknowledged(0, now);
        }
        // 20 ms hold 500,000 bytes.
        assert_eq!(window.size, 500_000 / 16 * 9);
    }

    #[test]
    fn a_window_that_is_not_used_stays_as_it_is() {
        let (mut window, mut now) = (Window::default(), Instant::now());
        window.size = 400_000;
        // It is looked at late, when something is sent again.
        for ms in [20, 20, 2000, 20, 2000] {
            window.sent(100, now);
            assert!(window.has_room(100));
            now += Duration::from_millis(ms);
            window.acknowledged(0, now);
        }
        assert_eq!(window.size, 400_000);
    }
}
