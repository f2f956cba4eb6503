//! Refuses programs that could not run anywhere, before anybody waits for them.
//!
//! They are checked in a process of their own, with bounds of memory and processor time: the gateway itself
//! never reads them. One is checked at a time, those that come over the wire included.

use super::problem::Problem;
use crate::engine::Launcher;
use crate::engine::compiler::{Bounds, MAX_PROGRAM, Turn, Unchecked, check};
use crate::storage::Storage;
use node_core::content::BlobRef;
use node_core::ids::BlobId;
use sandbox::Limits;
use sandbox::module::Refusal;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Verdicts kept. Our choice: more programs than a gateway's users try in a day.
const KEPT: usize = 256;

/// Verdicts on programs, so that submitting one again does not read it again.
pub(super) struct Programs {
    /// The launcher of the process that checks.
    launcher: Launcher,
    bounds: Bounds,
    verdicts: Mutex<BTreeMap<BlobId, Verdict>>,
}

/// The memory that a program begins with, or why it cannot run.
type Verdict = Result<u64, String>;

impl Programs {
    pub(super) fn new(launcher: Launcher) -> Programs {
        Programs::bounded(launcher, Bounds::OF_CHECKS)
    }

    pub(super) fn bounded(launcher: Launcher, bounds: Bounds) -> Programs {
        Programs { launcher, bounds, verdicts: Mutex::default() }
    }

    fn known(&self, program: BlobId) -> Option<Verdict> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).get(&program).cloned()
    }

    /// Blocks: the program is read and walked through.
    pub(super) fn check(&self, storage: &Storage, program: BlobRef, limits: &Limits) -> Result<(), Problem> {
        let verdict = match self.known(program.id) {
            Some(verdict) => verdict,
            None => self.inspect(storage, program)?,
        };
        let needs = verdict.map_err(|reason| Problem::field("program", reason))?;
        if needs > limits.memory_bytes {
            let refusal = Refusal::MemoryOverLimit { needs, limit: limits.memory_bytes };
            return Err(Problem::field("memory_limit", format!("the program {refusal}")));
        }
        Ok(())
    }

    fn inspect(&self, storage: &Storage, program: BlobRef) -> Result<Verdict, Problem> {
        if program.len > MAX_PROGRAM {
            let message = format!("the file has {} bytes; a program has at most {MAX_PROGRAM}", program.len);
            return Err(Problem::field("program", message));
        }
        let Some((path, _)) = storage.blob(program.id) else {
            return Err(Problem::field("program", format!("blob {} is not here any more", program.id)));
        };
        let turn = Turn::wait();
        // Somebody else may have submitted it meanwhile.
        if let Some(verdict) = self.known(program.id) {
            return Ok(verdict);
        }
        let verdict = match check(&turn, &self.launcher, &path, &self.bounds) {
            Ok(memory_bytes) => Ok(memory_bytes),
            Err(Unchecked::Refused(why)) => Err(why),
            Err(Unchecked::Broken(why)) => return Err(Problem::unchecked(&why)),
        };
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if verdicts.len() >= KEPT {
            verdicts.pop_first(); // which one does not matter: ids are hashes
        }
        verdicts.insert(program.id, verdict.clone());
        Ok(verdict)
    }
}
