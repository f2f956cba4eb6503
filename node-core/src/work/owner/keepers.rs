//! Choice of keepers: two dialable nodes for each runner and job, by lot, so that the load spreads without a
//! table. A node that has sold space for one of the job's units comes before them (`keeping`).

use super::{Owner, Peer};
use crate::address::Address;
use crate::ids::{JobId, NodeId};
use crate::platform::Platform;
use crate::progress::KEEPERS;
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::message::ToRunner;
use std::collections::BTreeMap;
use std::time::Duration;

/// A keeper that a runner could not use is not named to it again for so long. Our choice: two of
/// the usual intervals.
const COOLDOWN: Duration = Duration::from_secs(60);

/// Such pairs of runner and keeper; more are forgotten at once, and named again.
const COOLING_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Keepers {
    /// By runner and keeper, so that no runner speaks ill of keepers to others.
    cooling: BTreeMap<(NodeId, NodeId), Time>,
}

impl Owner {
    /// Keepers for what `runner` runs of the job. The owner itself is one where there are too few
    /// others; alone, where nobody else can reach the runner.
    pub(super) fn keepers_for(&self, job: JobId, runner: NodeId, cx: &Cx<'_, Self>) -> Vec<Address> {
        let mut found = match self.gets_all_from_here(runner) {
            true => Vec::new(),
            false => self.best_keepers(job, runner, cx),
        };
        if found.len() < KEEPERS && runner != cx.me {
            found.push(Address::here(cx.me));
        }
        found
    }

    /// Dialable nodes that are neither the runner nor the owner; each pair of job and runner has
    /// an order of its own (rendezvous hashing, paper `hrw`).
    pub(super) fn best_keepers(&self, job: JobId, runner: NodeId, cx: &Cx<'_, Self>) -> Vec<Address> {
        let salt = word(&job.0) ^ word(&runner.0).rotate_left(17);
        let mut best: Vec<(u64, Address)> = Vec::with_capacity(KEEPERS + 1);
        for (node, Peer { contact, .. }) in &self.nodes {
            let is_cooling = || self.is_cooling(runner, *node, cx.now);
            if contact.is_none() || *node == runner || *node == cx.me || is_cooling() {
                continue;
            }
            let rank = mix(word(&node.0) ^ salt);
            let at = best.partition_point(|(other, _)| *other < rank);
            if at < KEEPERS {
                best.insert(at, (rank, Address::of(*node, *contact)));
                best.truncate(KEEPERS);
            }
        }
        best.into_iter().map(|(_, source)| source).collect()
    }

    /// Whether a runner reaches nobody else, as far as is known.
    pub(super) fn gets_all_from_here(&self, runner: NodeId) -> bool {
        self.is_page(runner) || self.nodes.get(&runner).is_some_and(|peer| peer.behind)
    }

    /// A node could not reach others that have what it needs.
    pub(super) fn found_behind(&mut self, node: NodeId) {
        if let Some(peer) = self.nodes.get_mut(&node) {
            peer.behind = true;
        }
    }

    /// Whether it reaches nobody else by its kind.
    pub(super) fn is_page(&self, runner: NodeId) -> bool {
        self.nodes.get(&runner).is_some_and(|peer| peer.platform == Platform::Browser)
    }

    /// Whether the runner could not use this keeper lately.
    pub(super) fn is_cooling(&self, runner: NodeId, keeper: NodeId, now: Time) -> bool {
        self.keepers.cooling.get(&(runner, keeper)).is_some_and(|until| *until > now)
    }

    /// Keepers of the job's units at `from` are of no use, or too few.
    pub(super) fn need_keepers(
        &mut self,
        from: NodeId,
        id: JobId,
        lost: &[(NodeId, String)],
        cx: &mut Cx<'_, Self>,
    ) {
        if !self.book.has_job(from, id) {
            return;
        }
        let cooling = &mut self.keepers.cooling;
        cooling.retain(|_, until| *until > cx.now);
        for (keeper, _) in lost.iter().take(KEEPERS) {
            if cooling.len() < COOLING_MAX {
                cooling.insert((from, *keeper), cx.now + COOLDOWN);
            }
        }
        let keepers = self.keepers_for(id, from, cx);
        Self::to_runner(from, ToRunner::Keepers { job: id, keepers }, cx);
    }
}

fn word(id: &[u8]) -> u64 {
    id.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// A number that has nothing of its order left (the finaliser of SplitMix64, paper `splitmix`).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
