//! The host as part of a snapshot: all that the task changed, and nothing of what it was given,
//! which the job still has.

use super::fds::Fds;
use super::fs::Tree;
use super::moment::Clock;
use super::output::Output;
use super::process::Random;
use super::{BadTask, Host};
use crate::task::Task;
use crate::unpack;
use serde::{Deserialize, Serialize};

/// A host's state that no task of this kind can have come to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadState {
    #[error("{0}")]
    Task(#[from] BadTask),
    #[error("the state of its files and streams cannot be read")]
    Unreadable,
    #[error("{0}")]
    Wrong(&'static str),
}

#[derive(Serialize)]
struct Saved<'a>(&'a Clock, &'a Random, &'a Output, &'a Tree, &'a Fds);

#[derive(Deserialize)]
struct Loaded(Clock, Random, Output, Tree, Fds);

impl Host {
    /// Encodes the host's state: equal states give equal bytes, in every engine.
    pub fn save(&self) -> Vec<u8> {
        let saved = Saved(&self.clock, &self.random, &self.output, &self.tree, &self.fds);
        // Only maps and sequences of known length: rmp cannot fail on them.
        rmp_serde::to_vec(&saved).unwrap_or_default()
    }

    /// The host of `task` as it was saved; whatever the bytes say, it stays within the task's
    /// bounds.
    pub fn load(task: &Task, bytes: &[u8]) -> Result<Host, BadState> {
        let loaded = unpack::from_slice(bytes).map_err(|_| BadState::Unreadable)?;
        let Loaded(clock, random, mut output, mut tree, fds) = loaded;
        tree.give_again(&task.files).map_err(BadState::Wrong)?;
        fds.check(&tree).map_err(BadState::Wrong)?;
        tree.count_descriptors(fds.inos());
        output.account(task.limits.output_bytes, tree.charged()).map_err(BadState::Wrong)?;
        let fresh = Host::new(&Task { files: Vec::new(), ..task.clone() })?;
        Ok(Host { clock, random, output, tree, fds, ..fresh })
    }
}
