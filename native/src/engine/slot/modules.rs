//! Runnable programs: kept in memory, or made by the compile thread.

#[cfg(test)]
mod tests;

use super::compile::CompileThread;
use super::wasm::Compiled;
use node_core::ids::BlobId;
use sandbox::Limits;
use sandbox::module::PAGE;

/// Programs kept in memory. Our choice: a node rarely serves more jobs at once.
const KEPT: usize = 8;

pub(super) struct Modules {
    compiler: CompileThread,
    /// The most recently used, newest last. Refusals are kept too: they come for each unit.
    kept: Vec<(Known, Result<Compiled, String>)>,
}

/// What tells compilations of one build apart: the program, its memory limit in pages, its floats.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) program: BlobId,
    pub(super) pages: u64,
    pub(super) bit_exact: bool,
}

/// Why there is nothing to run.
pub(super) enum NoModule {
    /// No node can run this program.
    Refused(String),
    /// This one cannot, now.
    Broken(String),
}

impl Modules {
    pub(super) fn new(compiler: CompileThread) -> Self {
        Modules { compiler, kept: Vec::new() }
    }

    /// The program, ready to run. Calls `preparing` with true before and with false after
    /// anything that takes long.
    pub(super) fn get(
        &mut self,
        program: BlobId,
        limits: &Limits,
        bit_exact: bool,
        preparing: &dyn Fn(bool),
    ) -> Result<&Compiled, NoModule> {
        let known = Known { program, pages: limits.memory_bytes / PAGE, bit_exact };
        let at = match self.kept.iter().position(|(k, _)| *k == known) {
            Some(at) => at,
            None => {
                preparing(true);
                let made = self.compiler.make(known, limits).map_err(NoModule::Broken)?;
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
            Some((_, Err(why))) => Err(NoModule::Refused(why.clone())),
            None => Err(NoModule::Broken("the slot lost a program".into())),
        }
    }
}
