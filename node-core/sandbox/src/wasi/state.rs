//! The host as part of a snapshot: all that the task changed, and nothing of what it was given,
//! which the job still has.

use super::fds::Fds;
use super::fs::Tree;
use super::moment::Clock;
use super::output::Output;
use super::process::Random;
use super::{BadTask, Host};
use crate::swarm::Swarm;
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
        match &self.swarm {
            None => rmp_serde::to_vec(&saved).unwrap_or_default(),
            Some(swarm) => rmp_serde::to_vec(&(saved, swarm)).unwrap_or_default(),
        }
    }

    /// The host of `task` as it was saved; whatever the bytes say, it stays within the task's
    /// bounds.
    pub fn load(task: &Task, bytes: &[u8]) -> Result<Host, BadState> {
        let unreadable = |_| BadState::Unreadable;
        let (loaded, swarm) = match task.thread {
            None => (unpack::from_slice(bytes).map_err(unreadable)?, None),
            Some(_) => unpack::from_slice::<(Loaded, Option<Swarm>)>(bytes).map_err(unreadable)?,
        };
        let Loaded(clock, random, mut output, mut tree, fds) = loaded;
        if swarm.as_ref().map(Swarm::thread) != task.thread {
            return Err(BadState::Wrong("it is of another thread"));
        }
        if !swarm.as_ref().is_none_or(Swarm::is_sound) {
            return Err(BadState::Wrong("its messages are more, or others, than a thread has"));
        }
        tree.give_again(&task.files).map_err(BadState::Wrong)?;
        fds.check(&tree, swarm.is_some()).map_err(BadState::Wrong)?;
        tree.count_descriptors(fds.inos());
        let reported = swarm.as_ref().map_or(0, Swarm::reports);
        let charged = tree.charged().saturating_add(reported);
        output.account(task.limits.output_bytes, charged).map_err(BadState::Wrong)?;
        let fresh = Host::new(&Task { files: Vec::new(), ..task.clone() })?;
        Ok(Host { clock, random, output, tree, fds, swarm, ..fresh })
    }
}
