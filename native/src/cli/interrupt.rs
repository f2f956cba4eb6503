//! Ctrl-C while a command waits.

use super::failure::INTERRUPTED;
use std::sync::atomic::{AtomicBool, Ordering};

/// The process is ending on its user's wish.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);

/// Before a process ends with an error: if it is ending on its user's wish, what went wrong
/// meanwhile is a consequence, and the wish says how it ends.
pub(crate) fn first() {
    while UNDER_WAY.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// From now on Ctrl-C (and a polite kill) first does this, then ends the process. A second
/// one ends it at once.
pub(crate) fn on_interrupt(act: impl FnOnce() + Send + 'static) {
    let waits = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            // Without it Ctrl-C does what it always does.
            return;
        };
        runtime.block_on(async {
            let Ok(mut ends) = Ends::listen() else { return };
            ends.next().await;
            UNDER_WAY.store(true, Ordering::SeqCst);
            tokio::select! {
                _ = tokio::task::spawn_blocking(act) => {}
                _ = ends.next() => {}
            }
            std::process::exit(INTERRUPTED.into());
        });
    };
    // Failing to start it leaves the usual Ctrl-C.
    let _ = std::thread::Builder::new().name("interrupt".into()).spawn(waits);
}

/// Wishes that this process should end: Ctrl-C, SIGTERM. Once listened to, they do nothing
/// else any more.
pub(crate) struct Ends {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl Ends {
    pub(crate) fn listen() -> std::io::Result<Ends> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Ends { signals: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?] })
        }
        #[cfg(not(unix))]
        Ok(Ends {})
    }

    /// Ready at the next wish.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        {
            let [interrupt, terminate] = &mut self.signals;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
