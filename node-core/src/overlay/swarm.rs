//! Settings that all nodes of a swarm share.
//!
//! Each node states in its introduction what it knows of them. A node learns from its peers what it
//! was not told itself. Two nodes that state different values are of different swarms, and part.

use crate::goods::Rule;
use crate::goods::Scheme;
use crate::ids::NodeId;
use crate::requires::Matchmaking;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Degrees of the tree that a node takes from a peer (paper `tree` measures 4 to 10).
pub const DEGREES: std::ops::RangeInclusive<u8> = 2..=64;

/// Settings of a swarm; `None` for each that is not known yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swarm {
    /// Node that keeps the books.
    pub bank: Option<NodeId>,
    /// Way in which markets are found.
    pub scheme: Option<Scheme>,
    /// Rule by which a sale is priced.
    pub pricing: Option<Rule>,
    /// Least size of a group of siblings in the tree: m of paper `tree`, section 5.
    pub degree: Option<u8>,
    /// Way in which jobs with requirements find nodes.
    pub matchmaking: Option<Matchmaking>,
}

/// A setting for which two nodes have different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub name: &'static str,
    /// Flag of `manyhands up` that sets it.
    pub flag: &'static str,
    pub here: String,
    pub there: String,
}

impl Swarm {
    /// Takes over what `other` knows and this does not. Returns whether there was something.
    pub fn learn(&mut self, other: &Swarm) -> bool {
        let before = *self;
        self.bank = self.bank.or(other.bank);
        self.scheme = self.scheme.or(other.scheme);
        self.pricing = self.pricing.or(other.pricing);
        self.degree = self.degree.or(other.degree);
        self.matchmaking = self.matchmaking.or(other.matchmaking);
        *self != before
    }

    /// Whether a node could have been set to this.
    pub fn is_possible(&self) -> bool {
        self.degree.is_none_or(|degree| DEGREES.contains(&degree))
    }

    /// First setting for which both know a value, and not the same one.
    pub fn conflict(&self, other: &Swarm) -> Option<Conflict> {
        fn differ<T: PartialEq>(
            (name, flag): (&'static str, &'static str),
            here: Option<T>,
            there: Option<T>,
            show: impl Fn(T) -> String,
        ) -> Option<Conflict> {
            let (here, there) = here.zip(there).filter(|(here, there)| here != there)?;
            Some(Conflict { name, flag, here: show(here), there: show(there) })
        }
        fn plain(value: impl Display) -> String {
            value.to_string()
        }
        differ(("bank", "--bank"), self.bank, other.bank, plain)
            .or_else(|| {
                differ(("market scheme", "--market"), self.scheme, other.scheme, |it| scheme_name(it).into())
            })
            .or_else(|| {
                differ(("pricing", "--pricing"), self.pricing, other.pricing, |it| rule_name(it).into())
            })
            .or_else(|| differ(("tree degree", "--tree-degree"), self.degree, other.degree, plain))
            .or_else(|| {
                let name = ("matchmaking", "--matchmaking");
                differ(name, self.matchmaking, other.matchmaking, |it| matchmaking_name(it).into())
            })
    }
}

/// The scheme as people set it.
pub fn scheme_name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Processor => "processor",
        Scheme::Single => "single",
    }
}

/// The rule as people set it.
pub fn rule_name(rule: Rule) -> &'static str {
    match rule {
        Rule::ReverseVickrey => "vickrey",
        Rule::MaxMin => "max-min",
    }
}

/// The way as people set it.
pub fn matchmaking_name(way: Matchmaking) -> &'static str {
    match way {
        Matchmaking::None => "none",
        Matchmaking::RnTree => "rn-tree",
        Matchmaking::Can => "can",
    }
}

impl Conflict {
    /// Sentence for the people of the other node.
    pub fn for_peer(&self) -> String {
        let Conflict { name, flag, here, there } = self;
        format!(
            "this swarm has the {name} {here} and your node is set to {there}: start your node with {flag} {here}, \
             or without {flag} and without the file swarm.json in its data folder"
        )
    }

    /// Sentence for the people of this node.
    pub fn for_us(&self) -> String {
        let Conflict { name, flag, here, there } = self;
        format!(
            "it belongs to a swarm with the {name} {there} and this node is set to {here}: to join that swarm, \
             start this node with {flag} {there}, or without {flag} and without the file swarm.json in its \
             data folder"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bank(n: u8) -> Swarm {
        Swarm { bank: Some(NodeId([n; 32])), ..Swarm::default() }
    }

    #[test]
    fn a_node_learns_what_it_does_not_know_and_keeps_what_it_knows() {
        let mut swarm = Swarm { degree: Some(10), ..Swarm::default() };
        assert!(swarm.learn(&Swarm { degree: Some(4), ..bank(1) }));
        assert_eq!(swarm, Swarm { degree: Some(10), ..bank(1) });
        assert!(!swarm.learn(&bank(2)));
    }

    #[test]
    fn only_two_known_values_conflict_and_the_sentence_names_both_and_the_flag() {
        assert_eq!(bank(1).conflict(&Swarm::default()), None);
        assert_eq!(bank(1).conflict(&bank(1)), None);
        let ours = Swarm { pricing: Some(Rule::MaxMin), ..bank(1) };
        let theirs = Swarm { pricing: Some(Rule::ReverseVickrey), ..bank(1) };
        let conflict = ours.conflict(&theirs).unwrap();
        for words in [conflict.for_peer(), conflict.for_us()] {
            assert!(["--pricing", "max-min", "vickrey"].iter().all(|word| words.contains(word)), "{words}");
        }
        assert!(conflict.for_peer().contains("--pricing max-min"));
        assert!(conflict.for_us().contains("--pricing vickrey"));
    }

    #[test]
    fn a_degree_that_no_tree_can_have_is_not_believed() {
        let of = |degree| Swarm { degree: Some(degree), ..Swarm::default() };
        assert!(of(2).is_possible() && of(64).is_possible() && Swarm::default().is_possible());
        assert!(!of(1).is_possible() && !of(65).is_possible());
    }
}
