//! Proofs that a runner was granted a unit.
//!
//! A grant carries a message authentication code over its addressee and its attempt. What a runner says of a
//! unit later (its result, its return after a lost lease) carries the code again, so that an owner knows
//! without a table whom the unit was ever granted to, in an earlier life or by an earlier owner too. The code
//! is of no use to anybody else: the connection tells who the sender is.

use crate::ids::NodeId;
use serde::{Deserialize, Serialize};

/// The key for proofs of one unit's grants. The job's origin and the unit's owners know it, runners never do.
/// Not shown in logs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantKey([u8; 32]);

impl std::fmt::Debug for GrantKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GrantKey(..)")
    }
}

/// Shows that one runner was granted one unit, in one attempt. The default proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantProof(u128);

impl GrantKey {
    /// The key of unit `index` of the job that has this secret. Another context than that of the key that
    /// seals the unit's snapshots, which runners are given.
    pub fn of(secret: &[u8; 32], index: u32) -> GrantKey {
        let mut hash = blake3::Hasher::new_keyed(secret);
        hash.update(b"grant");
        hash.update(&index.to_be_bytes());
        GrantKey(*hash.finalize().as_bytes())
    }

    pub fn proof(&self, runner: NodeId, attempt: u32) -> GrantProof {
        let mut hash = blake3::Hasher::new_keyed(&self.0);
        hash.update(&runner.0);
        hash.update(&attempt.to_be_bytes());
        let code = hash.finalize();
        GrantProof(code.as_bytes().first_chunk().copied().map_or(0, u128::from_be_bytes))
    }

    /// Whether `runner` was granted the unit in this attempt.
    pub fn accepts(&self, runner: NodeId, attempt: u32, proof: GrantProof) -> bool {
        // One comparison of 16 bytes; a peer learns nothing from its time over a network.
        self.proof(runner, attempt) == proof
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_unit_its_runner_and_its_attempt_alone() {
        let (secret, runner) = ([7; 32], NodeId([1; 32]));
        let key = GrantKey::of(&secret, 3);
        let proof = key.proof(runner, 2);
        assert!(key.accepts(runner, 2, proof));
        assert!(!key.accepts(runner, 1, proof), "another attempt");
        assert!(!key.accepts(NodeId([2; 32]), 2, proof), "another runner");
        assert!(!GrantKey::of(&secret, 4).accepts(runner, 2, proof), "another unit");
        assert!(!GrantKey::of(&[8; 32], 3).accepts(runner, 2, proof), "another job");
        assert!(!key.accepts(runner, 2, GrantProof::default()));
    }
}
