//! Connected nodes as an owner sees them, and the choice of keepers among them: two dialable nodes for each runner
//! and job, by lot, so that the load spreads without a table. A node that has sold space for one of the job's
//! units comes before them (`work/payments`).

use crate::address::{Address, Contact};
use crate::ids::{JobId, NodeId};
use crate::platform::Platform;
use crate::progress::KEEPERS;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// A keeper that a runner could not use is not named to it again for so long. Our choice: two of
/// the usual intervals.
const COOLDOWN: Duration = Duration::from_secs(60);

/// Such pairs of runner and keeper; more are forgotten at once, and named again.
const COOLING_MAX: usize = 4096;

/// Connected nodes, this node included.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    all: BTreeMap<NodeId, Peer>,
    /// By runner and keeper, so that no runner speaks ill of keepers to others.
    cooling: BTreeMap<(NodeId, NodeId), Time>,
}

/// A connected node.
#[derive(Clone, Copy, Debug)]
struct Peer {
    platform: Platform,
    /// Where others can dial it.
    contact: Option<Contact>,
    /// It could not reach others that have what it needs: that comes through here.
    behind: bool,
}

impl Nodes {
    /// A node has introduced itself.
    pub(super) fn met(&mut self, node: NodeId, platform: Platform, contact: Option<Contact>) {
        let behind = self.all.get(&node).is_some_and(|peer| peer.behind);
        self.all.insert(node, Peer { platform, contact, behind });
    }

    pub(super) fn gone(&mut self, node: NodeId) {
        self.all.remove(&node);
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.all.contains_key(&node)
    }

    /// Where others can dial the node, if it is connected.
    pub(super) fn contact(&self, node: NodeId) -> Option<Contact> {
        self.all.get(&node)?.contact
    }

    pub(super) fn address(&self, node: NodeId) -> Address {
        Address::of(node, self.contact(node))
    }

    /// The kind of its engine; native, if it is not connected.
    pub(super) fn platform(&self, node: NodeId) -> Platform {
        self.all.get(&node).map_or(Platform::Native, |peer| peer.platform)
    }

    /// Whether a runner reaches nobody else, as far as is known.
    pub(super) fn gets_all_from_here(&self, runner: NodeId) -> bool {
        self.platform(runner) == Platform::Browser || self.all.get(&runner).is_some_and(|peer| peer.behind)
    }

    /// A node could not reach others that have what it needs.
    pub(super) fn found_behind(&mut self, node: NodeId) {
        if let Some(peer) = self.all.get_mut(&node) {
            peer.behind = true;
        }
    }

    /// The runner could not use these keepers.
    pub(super) fn cool(&mut self, runner: NodeId, keepers: impl Iterator<Item = NodeId>, now: Time) {
        self.cooling.retain(|_, until| *until > now);
        for keeper in keepers.take(KEEPERS) {
            if self.cooling.len() < COOLING_MAX {
                self.cooling.insert((runner, keeper), now + COOLDOWN);
            }
        }
    }

    /// Whether the runner could not use this keeper lately.
    fn is_cooling(&self, runner: NodeId, keeper: NodeId, now: Time) -> bool {
        self.cooling.get(&(runner, keeper)).is_some_and(|until| *until > now)
    }

    /// Whether the runner can use this keeper.
    pub(super) fn can_keep(&self, runner: NodeId, keeper: NodeId, now: Time) -> bool {
        !self.gets_all_from_here(runner) && !self.is_cooling(runner, keeper, now)
    }

    /// Keepers for what `runner` runs of the job. The owner, `me`, is one where there are too few others; alone,
    /// where nobody else can reach the runner.
    pub(super) fn keepers_for(&self, job: JobId, runner: NodeId, me: NodeId, now: Time) -> Vec<Address> {
        let mut found = match self.gets_all_from_here(runner) {
            true => Vec::new(),
            false => self.best_keepers(job, runner, me, now),
        };
        if found.len() < KEEPERS && runner != me {
            found.push(Address::here(me));
        }
        found
    }

    /// Dialable nodes that are neither the runner nor the owner; each pair of job and runner has
    /// an order of its own (rendezvous hashing, paper `hrw`).
    pub(super) fn best_keepers(&self, job: JobId, runner: NodeId, me: NodeId, now: Time) -> Vec<Address> {
        let salt = word(&job.0) ^ word(&runner.0).rotate_left(17);
        let mut best: Vec<(u64, Address)> = Vec::with_capacity(KEEPERS + 1);
        for (node, Peer { contact, .. }) in &self.all {
            let is_cooling = || self.is_cooling(runner, *node, now);
            if contact.is_none() || *node == runner || *node == me || is_cooling() {
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
