//! Refuses programs that could not run anywhere, before anybody waits for them.

use super::problem::Problem;
use crate::storage::Storage;
use node_core::ids::BlobId;
use node_core::work::spec::BlobRef;
use sandbox::Limits;
use sandbox::module::{self, Refusal};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Verdicts kept. Our choice: more programs than a gateway's users try in a day.
const KEPT: usize = 256;

/// Bytes of a program. Our choice: several times the largest that compilers make, and what this
/// process can hold in memory for a moment.
const MAX_PROGRAM: u64 = 256 << 20;

/// What is known of programs, so that submitting one again does not read it again.
#[derive(Default)]
pub(super) struct Programs(Mutex<BTreeMap<BlobId, Verdict>>);

/// The memory that a program begins with, or why it cannot run.
type Verdict = Result<u64, String>;

impl Programs {
    /// Blocks: the program is read and walked through.
    pub(super) fn check(&self, storage: &Storage, program: BlobRef, limits: &Limits) -> Result<(), Problem> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&program.id).cloned();
        let verdict = match known {
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
        let bytes = std::fs::read(&path);
        let bytes = bytes.map_err(|error| Problem::storage(format!("{}: {error}", path.display())))?;
        let verdict = module::inspect(&bytes)
            .map(|program| program.memory_bytes)
            .map_err(|refusal| refusal.to_string());
        let mut verdicts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if verdicts.len() >= KEPT {
            verdicts.pop_first(); // which one does not matter: ids are hashes
        }
        verdicts.insert(program.id, verdict.clone());
        Ok(verdict)
    }
}
