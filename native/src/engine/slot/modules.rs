//! Programs made runnable: from memory, from the disk cache, or compiled.

#[cfg(test)]
mod tests;

use super::blobs::Blobs;
use super::cache::{Cache, Key};
use super::wasm::{Compiled, WasmerEngine};
use node_core::ids::BlobId;
use sandbox::instrument::Tuning;
use sandbox::module::{PAGE, prepare};
use sandbox::{Engine, Limits};
use std::path::PathBuf;

/// Programs kept in memory. Our choice: a node rarely serves more jobs at once.
const KEPT: usize = 8;

pub(super) struct Modules {
    cache: Cache,
    /// The most recently used, newest last. Refusals are kept too: they come for each unit.
    kept: Vec<(Known, Result<Compiled, String>)>,
}

/// What tells compilations of one build apart: the program, its memory limit in pages, its floats.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    program: BlobId,
    pages: u64,
    bit_exact: bool,
}

/// Why there is nothing to run.
pub(super) enum NoModule {
    /// No node can run this program.
    Refused(String),
    /// This one cannot, now.
    Broken(String),
}

impl Modules {
    pub(super) fn new(cache_dir: PathBuf) -> Self {
        Modules { cache: Cache::new(cache_dir), kept: Vec::new() }
    }

    /// The program, ready to run. Calls `preparing` with true before and with false after
    /// anything that takes long.
    pub(super) fn get(
        &mut self,
        program: BlobId,
        limits: &Limits,
        bit_exact: bool,
        engine: &mut WasmerEngine,
        blobs: &Blobs,
        preparing: &dyn Fn(bool),
    ) -> Result<&Compiled, NoModule> {
        let known = Known { program, pages: limits.memory_bytes / PAGE, bit_exact };
        let at = match self.kept.iter().position(|(k, _)| *k == known) {
            Some(at) => at,
            None => {
                preparing(true);
                let made = self.make(known, limits, engine, blobs).map_err(NoModule::Broken)?;
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

    /// The inner error is a refusal.
    fn make(
        &self,
        known: Known,
        limits: &Limits,
        engine: &mut WasmerEngine,
        blobs: &Blobs,
    ) -> Result<Result<Compiled, String>, String> {
        let key = Key::new(known.program, known.pages, known.bit_exact, engine.inner());
        if let Some(compiled) = self.cache.load(&key, engine.inner()) {
            return Ok(Ok(compiled));
        }
        // One compiles, the others wait for it and find it done.
        let _alone = self.cache.lock(&key);
        if let Some(compiled) = self.cache.load(&key, engine.inner()) {
            return Ok(Ok(compiled));
        }
        let bytes = blobs.read(known.program)?;
        let prepared = match prepare(&bytes, limits, Tuning::Wasmer, known.bit_exact) {
            Ok(prepared) => prepared,
            Err(refusal) => return Ok(Err(refusal.to_string())),
        };
        drop(bytes);
        let compiled = engine.compile(&prepared)?;
        self.cache.store(&key, &compiled);
        Ok(Ok(compiled))
    }
}
