//! Ctrl-C and SIGTERM: while a command waits, and for a node that has to end.

use super::failure::{INTERRUPTED, STUCK};
use super::progress::say;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

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

/// For the usual way out, after a second wish, to end the process before the deadline's thread does.
const USUAL: Duration = Duration::from_secs(1);

/// For a message on standard error, which may be a pipe that nobody reads.
const MESSAGE: Duration = Duration::from_secs(1);

/// Ends this process a while after the first wish that it should end, whatever its other threads do.
/// Nothing is lost: jobs, results and files are on the disk before they are confirmed.
pub(crate) struct Deadline(mpsc::UnboundedSender<()>);

impl Deadline {
    /// From now on Ctrl-C and SIGTERM start the deadline, and do nothing else by themselves.
    ///
    /// # Errors
    /// If the system gives no thread, or the signals cannot be listened to.
    pub(crate) fn start(limit: Duration) -> std::io::Result<Deadline> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut ends = {
            let _context = runtime.enter();
            Ends::listen()?
        };
        let (begins, mut begun) = mpsc::unbounded_channel();
        // A thread and a runtime of its own: those that it is to end may not turn any more.
        std::thread::Builder::new().name("deadline".into()).spawn(move || {
            runtime.block_on(async {
                let by_signal = tokio::select! {
                    () = ends.next() => true,
                    Some(()) = begun.recv() => false,
                };
                let hurried = async {
                    // In a terminal, Ctrl-C reaches both whoever started this process and the process.
                    if !by_signal {
                        ends.next().await;
                    }
                    ends.next().await;
                };
                tokio::select! {
                    () = hurried => tokio::time::sleep(USUAL).await,
                    () = tokio::time::sleep(limit) => {
                        let told = tokio::task::spawn_blocking(move || {
                            say(&format!(
                                "this node did not end within {} s and is ended now; jobs and results are on \
                                 its disk. Please report this with its log",
                                limit.as_secs()
                            ));
                        });
                        let _ = tokio::time::timeout(MESSAGE, told).await;
                        std::process::exit(STUCK.into());
                    }
                }
                std::process::exit(INTERRUPTED.into());
            });
        })?;
        Ok(Deadline(begins))
    }

    /// The process begins to end for another reason than a signal.
    pub(crate) fn begin(&self) {
        // Its thread is there as long as the process.
        let _ = self.0.send(());
    }
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    const STANDS: &str = "cli::interrupt::tests::a_process_whose_main_thread_stands_still";

    /// Started by the stories below as a process of its own.
    #[test]
    #[ignore = "it never ends by itself"]
    fn a_process_whose_main_thread_stands_still() {
        let deadline = Deadline::start(Duration::from_millis(100)).unwrap();
        println!("\nstands still");
        let mut word = String::new();
        std::io::stdin().read_line(&mut word).unwrap();
        deadline.begin();
        loop {
            std::thread::park();
        }
    }

    fn standing() -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", STANDS, "--ignored", "--nocapture"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("stands still")), "it starts");
        child
    }

    #[test]
    fn a_process_that_is_told_to_end_ends_although_its_main_thread_stands_still() {
        for signal in [Signal::TERM, Signal::INT] {
            let mut child = standing();
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(STUCK.into()), "{signal:?}");
        }
        let mut child = standing();
        // Without a signal: whoever started it has closed its standard input.
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(STUCK.into()));
    }
}
