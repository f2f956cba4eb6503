//! Threads that do one thing after the other beside the runner. They begin before a slot gets its first task:
//! later a slot starts none ([`super::super::wall::no_more_threads`]).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

type Work = Box<dyn FnOnce() + Send>;

/// A handle to such a thread, which ends when this is dropped.
pub(super) struct Beside {
    work: Sender<Work>,
}

/// The result of some work there.
pub(super) struct Awaited<T>(Receiver<T>);

impl Beside {
    /// The thread has the lowest priority.
    pub(super) fn start(name: &str) -> io::Result<Beside> {
        let (work, given) = channel::<Work>();
        std::thread::Builder::new().name(name.into()).spawn(move || {
            super::loading::lower_thread();
            for work in given {
                // A caller that waits sees that nothing comes; the thread goes on.
                drop(catch_unwind(AssertUnwindSafe(work)));
            }
        })?;
        Ok(Beside { work })
    }

    /// Has this done when what was given before is done.
    pub(super) fn give<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Awaited<T> {
        let (done, awaited) = channel();
        // Nobody has to be left to hear of it. A thread that is gone hears nothing, and its caller sees that.
        drop(self.work.send(Box::new(move || drop(done.send(work())))));
        Awaited(awaited)
    }
}

impl<T> Awaited<T> {
    /// `None` while it is under way; `Some(None)` if it panicked.
    pub(super) fn poll(&self) -> Option<Option<T>> {
        match self.0.try_recv() {
            Ok(done) => Some(Some(done)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(None),
        }
    }

    /// `None` if it panicked.
    pub(super) fn wait(self) -> Option<T> {
        self.0.recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_its_order_and_a_panic_ends_its_own_work_alone() {
        let beside = Beside::start("beside").unwrap();
        let (go, wait) = channel();
        let first = beside.give(move || wait.recv().is_ok());
        let second = beside.give(|| panic!("as a bug would"));
        let third = beside.give(|| 7);
        assert_eq!(third.poll(), None, "the first is under way");
        go.send(()).unwrap();
        assert_eq!(third.wait(), Some(7));
        assert_eq!((first.poll(), second.poll()), (Some(Some(true)), Some(None::<()>)));
    }
}
