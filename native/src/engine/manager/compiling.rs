//! Programs that slots wait for.

use super::mailbox::Mail;
use super::{Known, Manager, NotCompiled, ToSlot};

impl Manager {
    /// Has a program compiled for the slot at `at`, which waits for it.
    pub(super) fn compile(&mut self, known: Known, at: usize, run: u64) {
        match self.shop.ask(known, at, run) {
            Some(why) => self.tell_compiled(at, run, Err(why)),
            None => self.begin_compiling(),
        }
    }

    pub(super) fn begin_compiling(&mut self) {
        let mailbox = &self.mailbox;
        self.shop.begin(|| {
            let mailbox = mailbox.clone();
            Box::new(move |known, result| mailbox.put(Mail::Compiled(known, result)))
        });
    }

    pub(super) fn compiled(&mut self, known: Known, result: Result<(), NotCompiled>) {
        for (at, run) in self.shop.over(known, &result) {
            self.tell_compiled(at, run, result.clone());
        }
        self.begin_compiling();
    }

    pub(super) fn tell_compiled(&mut self, at: usize, run: u64, result: Result<(), NotCompiled>) {
        if let Some(Some(working)) = self.slots.get_mut(at)
            && working.given.jobs.front().is_some_and(|job| job.run == run)
        {
            working.tell(&ToSlot::Compiled { run, result });
        }
    }
}
