//! Summaries of what a subtree can do, in little space.

use crate::capability::Capability;
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};

/// Vectors of a summary. *Departure:* the paper has the maximum of each resource. Those come from different nodes, so
/// that a subtree without any capable node is searched: with jobs and nodes of all kinds 32 nodes are visited for 8
/// capable ones in place of 20.
const VECTORS: usize = 8;

/// Nodes of a sample. Our choice: a share of capable nodes is then known to within a tenth or so.
const SAMPLE: usize = 32;

/// Nodes that any summary may speak of; no swarm is larger.
const NODES: u32 = 1 << 24;

/// Summary of a subtree: what its nodes can do at most, and what some of them can do. By default of no node: one that
/// runs nothing counts for none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    nodes: u32,
    /// Each node is covered by one of these, and none covers another. The surplus is joined to its like, so it hides no
    /// node but may promise what none can do.
    most: Vec<Capability>,
    /// Capabilities of the nodes whose tickets are lowest, in the order of the tickets: a sample that is the same
    /// whichever way it was put together.
    sample: Vec<(u32, Capability)>,
}

impl Summary {
    /// Summary of one node.
    pub fn of(node: NodeId, capability: Capability) -> Summary {
        Summary { nodes: 1, most: vec![capability], sample: vec![(ticket(node), capability)] }
    }

    /// Takes in another subtree.
    pub fn add(&mut self, other: &Summary) {
        self.nodes = self.nodes.saturating_add(other.nodes).min(NODES);
        other.most.iter().for_each(|one| self.cover(*one));
        self.sample.extend(&other.sample);
        self.sample.sort_unstable();
        self.sample.dedup();
        self.sample.truncate(SAMPLE);
    }

    /// Nodes of the subtree.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Whether a node of it may cover these needs; false is certain.
    pub fn may_cover(&self, needs: &Capability) -> bool {
        self.most.iter().any(|most| most.covers(needs))
    }

    /// Share of its nodes that cover these needs, as its sample has it: 0 only if none can.
    pub fn share(&self, needs: &Capability) -> f64 {
        if !self.may_cover(needs) {
            return 0.0;
        }
        let capable = self.sample.iter().filter(|(_, one)| one.covers(needs)).count() as f64;
        let has_all = self.sample.len() >= self.nodes as usize;
        let least = if has_all { 0.0 } else { 0.5 };
        capable.max(least) / self.sample.len().max(1) as f64
    }

    /// Whether a correct node could have said it.
    pub fn is_valid(&self) -> bool {
        let ordered = self.sample.windows(2).all(|pair| pair[0] < pair[1]);
        let sizes = self.most.len() <= VECTORS && self.sample.len() <= SAMPLE;
        let all_or_none =
            self.most.is_empty() == (self.nodes == 0) && self.sample.is_empty() == (self.nodes == 0);
        let covered = || self.sample.iter().all(|(_, one)| self.may_cover(one));
        sizes
            && all_or_none
            && (self.sample.len()..=NODES as usize).contains(&(self.nodes as usize))
            && ordered
            && covered()
    }

    fn cover(&mut self, one: Capability) {
        if self.may_cover(&one) {
            return;
        }
        self.most.retain(|known| !one.covers(known));
        self.most.push(one);
        if self.most.len() > VECTORS {
            self.join_nearest();
        }
        self.most.sort_unstable();
    }

    /// Replaces the two vectors that are most alike by what covers both.
    fn join_nearest(&mut self) {
        let pairs = (1..self.most.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let nearest = pairs.min_by_key(|(a, b)| distance(&self.most[*a], &self.most[*b]));
        let Some((a, b)) = nearest else { return };
        let joined = self.most[a].join(&self.most[b]);
        self.most.retain(|known| !joined.covers(known));
        self.most.push(joined);
    }
}

/// A number of the node that is drawn like a lottery ticket, once for all.
fn ticket(node: NodeId) -> u32 {
    let hash = blake3::derive_key("manyhands 2026-11 ticket of a sample", &node.0);
    u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// How far two vectors are apart: thousandths by which each size differs, and a hundred for each word.
fn distance(a: &Capability, b: &Capability) -> u64 {
    let sizes = a.sizes().into_iter().zip(b.sizes());
    let apart = sizes.map(|(a, b)| u64::from(a.abs_diff(b)) * 1000 / u64::from(a.max(b).max(1)));
    apart.sum::<u64>() + 100 * u64::from((a.words.0 ^ b.words.0).count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Rng;

    fn node(at: u64) -> NodeId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&at.to_le_bytes());
        NodeId(id)
    }

    fn capability(rng: &mut Rng) -> Capability {
        let mut size = || 1 + rng.below(100) as u32;
        Capability { memory: size(), speed: size(), disk: size(), ..Capability::default() }
    }

    #[test]
    fn a_summary_hides_no_node_and_stays_small() {
        for seed in 0..20 {
            let mut rng = Rng::from_seed([seed; 32]);
            let all: Vec<Capability> = (0..200).map(|_| capability(&mut rng)).collect();
            let mut whole = Summary::of(node(0), all[0]);
            for (at, one) in all.iter().enumerate().skip(1) {
                whole.add(&Summary::of(node(at as u64), *one));
                assert!(whole.is_valid());
            }
            assert!(all.iter().all(|one| whole.may_cover(one)));
            assert_eq!((whole.nodes(), whole.sample.len()), (200, SAMPLE));
            let needs = Capability { memory: 50, ..Capability::default() };
            let capable = all.iter().filter(|one| one.covers(&needs)).count() as f64 / 200.0;
            assert!((whole.share(&needs) - capable).abs() < 0.3);
            let impossible = Capability { memory: 101, ..Capability::default() };
            assert_eq!((whole.may_cover(&impossible), whole.share(&impossible)), (false, 0.0));
        }
    }

    #[test]
    fn equal_nodes_are_told_by_one_vector() {
        let one = Capability { memory: 20, speed: 20, disk: 20, ..Capability::default() };
        let more = Capability { disk: 40, ..one };
        let mut summary = Summary::of(node(0), one);
        (1..50).for_each(|at| summary.add(&Summary::of(node(at), one)));
        assert_eq!(summary.most, [one]);
        summary.add(&Summary::of(node(50), more));
        assert_eq!(summary.most, [more]);
        assert!(summary.share(&more) > 0.0, "the one node may be outside the sample");
        let mut three = Summary::of(node(0), Capability { memory: 40, ..one });
        (1..3).for_each(|at| three.add(&Summary::of(node(at), more)));
        let both = Capability { memory: 40, ..more };
        assert_eq!((three.share(&more), three.share(&both)), (2.0 / 3.0, 0.0), "all of them are in it");
    }

    #[test]
    fn the_sample_is_the_same_whichever_way_it_is_put_together() {
        let mut rng = Rng::from_seed([9; 32]);
        let mut all: Vec<Summary> = (0..100).map(|at| Summary::of(node(at), capability(&mut rng))).collect();
        let sum = |all: &[Summary]| {
            let mut sum = all[0].clone();
            all[1..].iter().for_each(|one| sum.add(one));
            sum
        };
        let one_by_one = sum(&all);
        let mut halves = [sum(&all[..50]), sum(&all[50..])];
        halves.reverse();
        assert_eq!(sum(&halves).sample, one_by_one.sample);
        all.reverse();
        assert_eq!(sum(&all).sample, one_by_one.sample);
    }

    #[test]
    fn forged_summaries_are_told_from_true_ones() {
        let good = Summary::of(node(1), Capability { memory: 5, ..Capability::default() });
        assert!(good.is_valid() && Summary::default().is_valid());
        let none = Summary { most: Vec::new(), ..good.clone() };
        let empty = Summary { nodes: 0, ..good.clone() };
        let huge = Summary { nodes: NODES + 1, ..good.clone() };
        let unordered =
            Summary { sample: vec![(2, good.most[0]), (1, good.most[0])], nodes: 2, ..good.clone() };
        let more = Capability { memory: 6, ..Capability::default() };
        let uncovered = Summary { sample: vec![(1, more)], ..good.clone() };
        let wide = Summary { most: vec![good.most[0]; VECTORS + 1], ..good };
        for forged in [none, empty, huge, unordered, uncovered, wide] {
            assert!(!forged.is_valid(), "{forged:?}");
        }
    }
}
