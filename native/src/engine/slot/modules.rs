//! Runnable programs: kept in memory, or loaded.

#[cfg(test)]
mod tests;

use super::super::wire::{Known, NotCompiled};
use super::loading::LoadThread;
use super::wasm::Compiled;
use node_core::ids::BlobId;
use sandbox::Limits;
use sandbox::module::{Form, PAGE};

/// Programs kept in memory. Our choice: a node rarely serves more jobs at once.
const KEPT: usize = 8;

pub(super) struct Modules {
    loader: LoadThread,
    /// The most recently used, newest last. Refusals are kept too: they come for each unit.
    kept: Vec<(Known, Result<Compiled, String>)>,
}

impl Modules {
    pub(super) fn new(loader: LoadThread) -> Self {
        Modules { loader, kept: Vec::new() }
    }

    /// The program of this run, ready to run. Calls `preparing` with true before and with false after
    /// anything that takes long.
    pub(super) fn get(
        &mut self,
        run: u64,
        program: BlobId,
        limits: &Limits,
        form: Form,
        preparing: &dyn Fn(bool),
    ) -> Result<&Compiled, NotCompiled> {
        let known = Known { program, pages: limits.memory_bytes / PAGE, form };
        let at = match self.kept.iter().position(|(k, _)| *k == known) {
            Some(at) => at,
            None => {
                preparing(true);
                let made = match self.loader.make(run, known) {
                    Ok(compiled) => Ok(compiled),
                    Err(NotCompiled::Refused(why)) => Err(why),
                    Err(broken) => return Err(broken),
                };
                preparing(false);
                if self.kept.len() == KEPT {
                    drop(self.kept.remove(0));
                }
                self.kept.push((known, made));
                self.kept.len() - 1
            }
        };
        if at + 1 != self.kept.len() {
            let used = self.kept.remove(at);
            self.kept.push(used);
        }
        match self.kept.last() {
            Some((_, Ok(compiled))) => Ok(compiled),
            Some((_, Err(why))) => Err(NotCompiled::Refused(why.clone())),
            None => Err(NotCompiled::Broken("the slot lost a program".into())),
        }
    }
}
