//! A sample of all nodes, which each tells to one other now and then: how many nodes there are, and which share of them
//! covers given needs.
//!
//! Each node has a ticket, a hash of its id; the sample has the nodes with the lowest tickets. It is the same whichever
//! way it was put together, and the highest ticket in it says how many nodes there are.

use crate::capability::Capability;
use crate::ids::NodeId;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Nodes of the sample. Our choice: the number of nodes is then known to within a fifth, and a message has 1 KB.
const SAMPLE: usize = 32;

/// Time after which a node that was not heard of is left out, as it may be gone. Our choice: word goes through 1,000
/// nodes in a minute.
const LAPSE: Duration = Duration::from_secs(300);

/// One node of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sampled {
    ticket: u32,
    /// Seconds since it said so itself.
    age: u16,
    capability: Capability,
}

/// A sample as it is sent, in the order of the tickets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sketch(Vec<Sampled>);

/// A sample as it is kept, and when each node said so.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample(Vec<(Sampled, Time)>);

impl Sketch {
    /// Whether a correct node could have sent it.
    pub fn is_valid(&self) -> bool {
        let ordered = self.0.windows(2).all(|pair| pair[0].ticket < pair[1].ticket);
        let fresh = |one: &Sampled| u64::from(one.age) < LAPSE.as_secs();
        self.0.len() <= SAMPLE && ordered && self.0.iter().all(fresh)
    }
}

impl Sample {
    /// Takes in what this node itself can do.
    pub(super) fn note(&mut self, node: NodeId, capability: Option<Capability>, now: Time) {
        let ticket = ticket(node);
        self.0.retain(|(one, _)| one.ticket != ticket);
        if let Some(capability) = capability {
            self.add(Sampled { ticket, age: 0, capability }, now);
        }
        self.tidy(now);
    }

    pub(super) fn merge(&mut self, sketch: &Sketch, now: Time) {
        for one in &sketch.0 {
            self.add(*one, now - Duration::from_secs(one.age.into()));
        }
        self.tidy(now);
    }

    fn add(&mut self, one: Sampled, said: Time) {
        match self.0.iter_mut().find(|(known, _)| known.ticket == one.ticket) {
            Some(known) if known.1 < said => *known = (one, said),
            Some(_) => {}
            None => self.0.push((one, said)),
        }
    }

    fn tidy(&mut self, now: Time) {
        self.0.retain(|(_, said)| now.since(*said) < LAPSE);
        self.0.sort_unstable_by_key(|(one, _)| one.ticket);
        self.0.truncate(SAMPLE);
    }

    pub(super) fn sketch(&self, now: Time) -> Sketch {
        let aged = |said: Time| now.since(said).as_secs().min(LAPSE.as_secs()) as u16;
        let all = self.0.iter().map(|(one, said)| Sampled { age: aged(*said), ..*one });
        Sketch(all.filter(|one| u64::from(one.age) < LAPSE.as_secs()).collect())
    }

    /// Nodes that run something, as the sample has it: exact up to 31, to within a fifth or so beyond, and behind by
    /// up to 5 minutes where nodes have left.
    pub(super) fn nodes(&self) -> u32 {
        match self.0.last() {
            Some((last, _)) if self.0.len() >= SAMPLE => {
                let all = (SAMPLE as u64 - 1) << 32;
                u32::try_from(all / u64::from(last.ticket.max(1))).unwrap_or(u32::MAX)
            }
            _ => self.0.len() as u32,
        }
    }

    /// Whether it has all nodes, as far as word of them has come.
    pub(super) fn is_whole(&self) -> bool {
        self.0.len() < SAMPLE
    }

    /// Share of the nodes that cover these needs, 0.0 to 1.0, to within a tenth or so. At least half a node of the
    /// sample, unless it has all: rare nodes may be outside it.
    pub(super) fn share(&self, needs: &Capability) -> f64 {
        let all = self.0.len().max(1) as f64;
        let capable = self.0.iter().filter(|(one, _)| one.capability.covers(needs)).count() as f64;
        let least = if self.is_whole() { 0.0 } else { 0.5 };
        capable.max(least) / all
    }
}

/// A number of the node that is drawn like a lottery ticket, once for all.
fn ticket(node: NodeId) -> u32 {
    let hash = blake3::derive_key("manyhands 2026-11 ticket of a sample", &node.0);
    u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(at: u64) -> NodeId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&at.to_le_bytes());
        NodeId(id)
    }

    fn sample(of: std::ops::Range<u64>, now: Time) -> Sample {
        let mut all = Sample::default();
        for at in of {
            all.note(id(at), Some(Capability { memory: at as u32 % 10, ..Capability::default() }), now);
        }
        all
    }

    #[test]
    fn a_sample_says_how_many_nodes_there_are_and_which_share_is_capable() {
        let now = Time(1 << 40);
        for (nodes, most) in [(1, 0), (31, 0), (200, 80), (1_000, 400)] {
            let mut all = sample(0..nodes / 2, now);
            all.merge(&sample(nodes / 3..nodes, now).sketch(now), now);
            assert!(all.nodes().abs_diff(nodes as u32) <= most, "{} for {nodes}", all.nodes());
        }
        let all = sample(0..1_000, now);
        let needs = Capability { memory: 5, ..Capability::default() };
        assert!((all.share(&needs) - 0.5).abs() < 0.25);
        let none = Capability { memory: 50, ..needs };
        assert!(all.share(&none) > 0.0, "one may be outside it");
        let few = sample(0..10, now);
        assert_eq!((few.is_whole(), few.share(&needs), few.share(&none)), (true, 0.5, 0.0));
    }

    #[test]
    fn nodes_that_say_nothing_any_more_are_left_out() {
        let start = Time(1 << 40);
        let mut one = sample(0..10, start);
        let later = start + LAPSE / 2;
        one.note(id(3), None, later);
        let mut other = Sample::default();
        other.merge(&one.sketch(later), later);
        assert_eq!((one.nodes(), other.nodes()), (9, 9));
        other.note(id(20), Some(Capability::default()), start + LAPSE);
        assert_eq!(other.nodes(), 1, "their age travels with them");
    }

    #[test]
    fn forged_samples_are_told_from_true_ones() {
        let now = Time(1 << 40);
        let good = sample(0..40, now).sketch(now);
        assert!(good.is_valid() && Sketch::default().is_valid());
        let mut turned = good.clone();
        turned.0.reverse();
        let mut old = good.clone();
        old.0[0].age = 300;
        let wide = Sketch([good.0.clone(), good.0].concat());
        assert!(!turned.is_valid() && !old.is_valid() && !wide.is_valid());
    }
}
