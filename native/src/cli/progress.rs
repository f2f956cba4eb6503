//! One progress bar on standard error, when a person watches; and lines that go around it.

use super::client::types::Job;
use crate::text::{printable, readable};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

/// The bar that is on the screen now: everything else that is written has to go around it.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// A bar, gone when dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn start(what: &str, total: u64) -> Progress {
        Progress::new(what, total, std::io::stderr().is_terminal())
    }

    /// A bar that is counted and never drawn.
    pub(crate) fn hidden() -> Progress {
        Progress::new("", 0, false)
    }

    fn new(what: &str, total: u64, visible: bool) -> Progress {
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        // The template is a constant; if it were wrong, the default bar would do.
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg} {eta}") {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        bar.set_prefix(printable(what));
        if visible {
            *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
        }
        Progress { bar }
    }

    pub(crate) fn advance(&self) {
        self.bar.inc(1);
    }

    /// Shows where a job stands.
    pub(crate) fn show(&self, job: &Job) {
        let units = &job.units;
        self.bar.set_length(units.total.into());
        self.bar.set_position((units.done + units.failed).into());
        let mut message = match (units.placed, units.done + units.failed) {
            (0, 0) if !job.reason.is_empty() => job.reason.clone(),
            (placed, _) => format!("{placed} placed"),
        };
        if units.failed > 0 {
            message.push_str(&format!(", {} failed", units.failed));
        }
        self.bar.set_message(printable(&message));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Does some writing while the bar is off the screen.
pub(crate) fn around<R>(write: impl FnOnce() -> R) -> R {
    let bar = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// A line for the person, on standard error.
pub(crate) fn say(line: &str) {
    // Nobody can be told that standard error is closed.
    around(|| drop(writeln!(std::io::stderr(), "manyhands: {}", readable(line))));
}
