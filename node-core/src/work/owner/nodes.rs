//! Experience of an owner with connected nodes, and the choice of keepers among them: two dialable nodes for each runner
//! and job, by lot, so that the load spreads without a table. A node that has sold space for one of the job's
//! units comes before them (`work/payments`).

use super::Owner;
use crate::address::{Address, Contact};
use crate::ids::{JobId, NodeId};
use crate::peers::{Known, Peers};
use crate::platform::Platform;
use crate::progress::{Checkpoint, KEEPERS, Resume};
use crate::protocol::Cx;
use crate::ticket::ServiceId;
use crate::time::Time;
use crate::work::unit_record::UnitRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A keeper that a runner could not use is not named to it again for so long. Our choice: two of
/// the usual intervals.
const COOLDOWN: Duration = Duration::from_secs(60);

/// Such pairs of runner and keeper; more are forgotten at once, and named again.
const COOLING_MAX: usize = 4096;

/// Experience with connected nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// These could not reach others that have what they need: that comes through here.
    behind: BTreeSet<NodeId>,
    /// Data channels of these to others did not open: they are named nobody by one.
    shut: BTreeSet<NodeId>,
    /// Where this node is dialled, if it forwards what guests say to others.
    relays_at: Option<Contact>,
    /// By runner and keeper, so that no runner speaks ill of keepers to others.
    cooling: BTreeMap<(NodeId, NodeId), Time>,
}

/// How a unit begins on a runner.
pub(super) enum Start {
    Anew,
    From(Box<Resume>),
    /// The parts have to come here first: the runner can reach nobody else.
    Relay(Box<Checkpoint>, Vec<NodeId>),
    /// Nobody who has its checkpoint is here.
    Later,
}

/// Whether the node is connected, or this one.
pub(super) fn is_here(node: NodeId, cx: &Cx<'_, Owner>) -> bool {
    node == cx.me || cx.peers.knows(node)
}

/// The kind of its engine; native, if it is not connected.
pub(super) fn platform(node: NodeId, peers: &Peers) -> Platform {
    peers.get(node).map_or(Platform::Native, |known| known.platform)
}

pub(super) fn address(node: NodeId, peers: &Peers) -> Address {
    Address::of(node, peers.contact(node))
}

impl Nodes {
    pub(super) fn gone(&mut self, node: NodeId) {
        self.behind.remove(&node);
        self.shut.remove(&node);
    }

    /// Whether a runner reaches nobody else, as far as is known.
    pub(super) fn gets_all_from_here(&self, runner: NodeId, peers: &Peers) -> bool {
        platform(runner, peers) == Platform::Browser || self.behind.contains(&runner)
    }

    pub(super) fn relays_at(&mut self, me: Option<Contact>) {
        self.relays_at = me;
    }

    /// How a runner reaches another node that is connected here: a server dials one that can be dialled, and to one that
    /// cannot both open a data channel of which they speak by way of this node. What a server has comes to a page through
    /// here: a page's WebSocket is several times as fast as a data channel.
    fn way(&self, runner: NodeId, to: NodeId, peers: &Peers) -> Option<Address> {
        let is_server = platform(runner, peers) == Platform::Native;
        let dialled = peers.contact(to).filter(|_| is_server).map(Address::from);
        let has_channels = |node| peers.get(node).is_some_and(|it| it.speaks.has(ServiceId::Signalling));
        let may = !self.shut.contains(&runner) && has_channels(runner) && has_channels(to);
        let relay = self.relays_at.filter(|_| may && peers.contact(to).is_none());
        dialled.or_else(|| Some(Address::guest(to, relay?).with_channels(true)))
    }

    /// A connected node, or this one, could not reach others that have what it needs. It is named nobody any more;
    /// if it was named some by data channels, those alone are left out.
    pub(super) fn found_behind(&mut self, node: NodeId, record: Option<&UnitRecord>, cx: &Cx<'_, Owner>) {
        let holders = record.into_iter().flat_map(UnitRecord::all).flat_map(|held| &held.holders);
        let mut ways = holders.filter_map(|holder| self.way(node, *holder, cx.peers));
        let found = match ways.any(|way| way.has_channels()) {
            true => &mut self.shut,
            false => &mut self.behind,
        };
        if is_here(node, cx) {
            found.insert(node);
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
    pub(super) fn is_cooling(&self, runner: NodeId, keeper: NodeId, now: Time) -> bool {
        self.cooling.get(&(runner, keeper)).is_some_and(|until| *until > now)
    }

    /// Whether the runner can use this keeper.
    pub(super) fn can_keep(&self, runner: NodeId, keeper: NodeId, cx: &Cx<'_, Owner>) -> bool {
        !self.gets_all_from_here(runner, cx.peers) && !self.is_cooling(runner, keeper, cx.now)
    }

    /// Keepers for what `runner` runs of the job. The owner itself is one where there are too few others; alone,
    /// where nobody else can reach the runner. None that has just refused: it would be asked without a pause.
    pub(super) fn keepers_for(&self, job: JobId, runner: NodeId, cx: &Cx<'_, Owner>) -> Vec<Address> {
        let mut found = match self.gets_all_from_here(runner, cx.peers) {
            true => Vec::new(),
            false => self.best_keepers(job, runner, cx),
        };
        if found.len() < KEEPERS && runner != cx.me && !self.is_cooling(runner, cx.me, cx.now) {
            found.push(Address::here(cx.me));
        }
        found
    }

    /// Dialable nodes that are neither the runner nor the owner; each pair of job and runner has
    /// an order of its own (rendezvous hashing, paper `hrw`).
    pub(super) fn best_keepers(&self, job: JobId, runner: NodeId, cx: &Cx<'_, Owner>) -> Vec<Address> {
        let salt = salt(job, runner);
        let mut best: Vec<(u64, Address)> = Vec::with_capacity(KEEPERS + 1);
        for (node, known, _) in cx.peers.all() {
            let Some(contact) = known.dialable.contact().filter(|_| node != runner) else { continue };
            if self.is_cooling(runner, node, cx.now) {
                continue;
            }
            let rank = mix(word(&node.0) ^ salt);
            let at = best.partition_point(|(other, _)| *other < rank);
            if at < KEEPERS {
                best.insert(at, (rank, Address::from(contact)));
                best.truncate(KEEPERS);
            }
        }
        best.into_iter().map(|(_, source)| source).collect()
    }

    /// A page that keeps checkpoints, where there is no server: it closes at any time, so it is none of those that are
    /// named to runners, and nobody forgets anything since it has it.
    pub(super) fn best_page(&self, job: JobId, runner: NodeId, cx: &Cx<'_, Owner>) -> Option<NodeId> {
        let salt = salt(job, runner);
        let keeps = |node: NodeId, known: &Known| {
            known.platform == Platform::Browser
                && known.speaks.has(ServiceId::Keeper)
                && node != runner
                && !self.is_cooling(runner, node, cx.now)
        };
        let pages = cx.peers.all().filter(|(node, known, _)| keeps(*node, known)).map(|(node, ..)| node);
        pages.min_by_key(|node| mix(word(&node.0) ^ salt))
    }

    /// The newest checkpoint that somebody here has, and how `runner` gets it. `beside`: who has it
    /// beside those that are known to.
    pub(super) fn whence(
        &self,
        record: &UnitRecord,
        runner: NodeId,
        beside: Option<NodeId>,
        cx: &Cx<'_, Owner>,
    ) -> Option<Start> {
        let is_behind = self.behind.contains(&runner);
        let has = |node: &NodeId| *node == runner || is_here(*node, cx);
        for held in record.all() {
            let checkpoint = held.checkpoint;
            let others = beside.filter(|node| !held.holders.contains(node));
            let here: Vec<NodeId> = held.holders.iter().copied().chain(others).filter(has).collect();
            if here.is_empty() {
                continue;
            }
            // The runner that made it has it at hand; this node is asked last, everybody asks it.
            let mut sources: Vec<Address> = here
                .iter()
                .filter(|node| **node != cx.me && **node != runner && !is_behind)
                .filter_map(|node| self.way(runner, *node, cx.peers))
                .collect();
            sources.sort_by_key(|source| source.id != held.runner);
            if here.contains(&cx.me) {
                sources.push(Address::here(cx.me));
            }
            if sources.is_empty() && !here.contains(&runner) {
                return Some(Start::Relay(Box::new(checkpoint), here));
            }
            return Some(Start::From(Box::new(Resume { checkpoint, sources })));
        }
        None
    }
}

/// A number that gives each pair an order of keepers of its own.
fn salt(job: JobId, runner: NodeId) -> u64 {
    word(&job.0) ^ word(&runner.0).rotate_left(17)
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
