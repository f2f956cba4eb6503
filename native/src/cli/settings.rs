//! Settings of the swarm that a data folder belongs to: flags, the file `swarm.json`, and what peers tell.

use super::failure::Failure;
use crate::config::{self, MarketScheme, Pricing, UpConfig};
use crate::driver::NodeHandle;
use crate::paths::{DataFolder, write_private};
use node_core::goods::Rule;
use node_core::goods::Scheme;
use node_core::node::config::Open;
use node_core::overlay::swarm::{Conflict, DEGREES, Swarm, matchmaking_name, rule_name, scheme_name};
use node_core::requires::Matchmaking;
use node_core::{NodeEvent, NodeId};
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::sync::broadcast::error::RecvError;

/// The tree's degree of a new swarm: paper `tree` measures 4 to 10 and is fastest with the last.
const DEGREE: u8 = 10;

/// The file in which a node remembers the settings of its swarm.
#[derive(Clone, Debug)]
pub(crate) struct SwarmFile(PathBuf);

impl SwarmFile {
    pub(crate) fn of(folder: &DataFolder) -> SwarmFile {
        SwarmFile(folder.swarm())
    }

    /// Settings that an earlier life of the node learnt; none if there is no file.
    pub(crate) fn read(&self) -> Result<Swarm, Failure> {
        let path = self.0.display();
        let text = match std::fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Swarm::default()),
            Err(e) => {
                return Err(Failure::failed(format!("cannot read the swarm's settings in {path}: {e}")));
            }
        };
        let broken = || {
            Failure::failed(format!(
                "{path} does not hold settings of a swarm: remove it, and the node learns them again"
            ))
        };
        let value: Value = serde_json::from_str(&text).map_err(|_| broken())?;
        from_json(&value).ok_or_else(broken)
    }

    fn write(&self, swarm: &Swarm) {
        let text = format!("{:#}\n", to_json(swarm));
        if let Err(e) = write_private(&self.0, text.as_bytes(), true) {
            tracing::warn!("the swarm's settings are not remembered: {e}");
        }
    }

    /// Writes down what the node learns from its peers, for as long as it runs.
    pub(crate) async fn follow(self, node: NodeHandle) {
        let mut events = node.events();
        let mut written = Swarm::default();
        loop {
            let Ok(swarm) = node.read(|node, _| *node.swarm()).await else { return };
            if swarm != written {
                self.write(&swarm);
                written = swarm;
            }
            loop {
                match events.recv().await {
                    Ok(NodeEvent::SwarmLearnt(_)) | Err(RecvError::Lagged(_)) => break,
                    Ok(_) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        }
    }
}

/// Settings with which the node `me` starts. Those that are `None` it learns from its peers.
pub(crate) fn decide(config: &UpConfig, me: NodeId, file: &SwarmFile) -> Result<Swarm, Failure> {
    let mut swarm = Swarm {
        bank: config.bank,
        scheme: config.market.map(scheme),
        pricing: config.pricing.map(rule),
        degree: config.tree_degree,
        matchmaking: config.matchmaking.map(matchmaking),
    };
    let remembered = file.read()?;
    if let Some(Conflict { name, flag, here, there }) = swarm.conflict(&remembered) {
        return Err(Failure::usage(format!(
            "{flag} is {here}, and this node belongs to a swarm with the {name} {there}: leave {flag} out, or \
             remove {} to have the node join another swarm",
            file.0.display()
        )));
    }
    swarm.learn(&remembered);
    if config.gateway && config.join.is_empty() {
        // It begins a swarm, or goes on with the one that it belongs to.
        swarm.learn(&Swarm {
            bank: Some(me),
            scheme: Some(Scheme::default()),
            pricing: Some(Rule::default()),
            degree: Some(DEGREE),
            matchmaking: Some(Matchmaking::RnTree),
        });
    }
    Ok(swarm)
}

pub(crate) fn open(swarm: &Swarm) -> Open {
    Open {
        scheme: swarm.scheme.is_none(),
        pricing: swarm.pricing.is_none(),
        degree: swarm.degree.is_none(),
        matchmaking: swarm.matchmaking.is_none(),
    }
}

fn scheme(set: MarketScheme) -> Scheme {
    match set {
        MarketScheme::Processor => Scheme::Processor,
        MarketScheme::Single => Scheme::Single,
    }
}

fn rule(set: Pricing) -> Rule {
    match set {
        Pricing::Vickrey => Rule::ReverseVickrey,
        Pricing::MaxMin => Rule::MaxMin,
    }
}

fn matchmaking(set: config::Matchmaking) -> Matchmaking {
    match set {
        config::Matchmaking::RnTree => Matchmaking::RnTree,
        config::Matchmaking::Can => Matchmaking::Can,
        config::Matchmaking::None => Matchmaking::None,
    }
}

fn to_json(swarm: &Swarm) -> Value {
    json!({
        "bank": swarm.bank.map(|bank| bank.to_string()),
        "market": swarm.scheme.map(scheme_name),
        "pricing": swarm.pricing.map(rule_name),
        "tree_degree": swarm.degree,
        "matchmaking": swarm.matchmaking.map(matchmaking_name),
    })
}

/// `None` if a value is not one that can be set.
pub(super) fn from_json(value: &Value) -> Option<Swarm> {
    fn set<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
        match value {
            Value::Null => Some(None),
            value => read(value).map(Some),
        }
    }
    let degree = |it: &Value| u8::try_from(it.as_u64()?).ok().filter(|degree| DEGREES.contains(degree));
    value.as_object()?;
    Some(Swarm {
        bank: set(&value["bank"], |it| it.as_str()?.parse().ok())?,
        scheme: set(&value["market"], |it| it.as_str()?.parse().ok().map(scheme))?,
        pricing: set(&value["pricing"], |it| it.as_str()?.parse().ok().map(rule))?,
        degree: set(&value["tree_degree"], degree)?,
        matchmaking: set(&value["matchmaking"], |it| it.as_str()?.parse().ok().map(matchmaking))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::UpLayer;

    const ME: NodeId = NodeId([1; 32]);
    const OTHER: NodeId = NodeId([2; 32]);

    fn gateway(join: bool) -> UpLayer {
        let join = join.then(|| vec!["http://localhost:1".to_owned()]);
        UpLayer { gateway: Some(true), join, ..UpLayer::default() }
    }

    fn settings(layer: UpLayer, file: &SwarmFile) -> Result<Swarm, Failure> {
        decide(&layer.settle().unwrap(), ME, file)
    }

    #[test]
    fn a_gateway_begins_a_swarm_and_one_that_joins_leaves_all_open() {
        let root = tempfile::tempdir().unwrap();
        let file = SwarmFile::of(&DataFolder::at(root.path()));
        let begun = settings(gateway(false), &file).unwrap();
        assert_eq!(
            (begun.bank, begun.degree, begun.matchmaking),
            (Some(ME), Some(10), Some(Matchmaking::RnTree))
        );
        assert_eq!(open(&begun), Open::default());
        let joins = settings(gateway(true), &file).unwrap();
        assert_eq!(joins, Swarm::default());
        assert_eq!(open(&joins), Open { scheme: true, pricing: true, degree: true, matchmaking: true });
    }

    #[test]
    fn settings_are_remembered_and_a_flag_against_them_is_refused_with_both_values() {
        let root = tempfile::tempdir().unwrap();
        let file = SwarmFile::of(&DataFolder::at(root.path()));
        let learnt = Swarm {
            bank: Some(OTHER),
            scheme: Some(Scheme::Single),
            pricing: Some(Rule::MaxMin),
            degree: Some(4),
            matchmaking: Some(Matchmaking::None),
        };
        file.write(&learnt);
        assert_eq!(settings(gateway(true), &file).unwrap(), learnt);
        assert_eq!(settings(gateway(false), &file).unwrap(), learnt, "it goes on with its swarm");
        let set = UpLayer { pricing: Some(Pricing::Vickrey), ..gateway(true) };
        let refused = settings(set, &file).unwrap_err().message;
        for word in ["--pricing", "vickrey", "max-min", "swarm.json"] {
            assert!(refused.contains(word), "{refused}");
        }
    }

    #[test]
    fn each_way_of_matchmaking_is_read_as_it_is_written() {
        for way in [Matchmaking::None, Matchmaking::RnTree, Matchmaking::Can] {
            let swarm = Swarm { matchmaking: Some(way), ..Swarm::default() };
            assert_eq!(from_json(&to_json(&swarm)), Some(swarm));
        }
    }

    #[test]
    fn a_file_that_is_none_is_named() {
        let root = tempfile::tempdir().unwrap();
        let folder = DataFolder::at(root.path());
        for text in [
            "",
            "[]",
            "{\"bank\": \"x\"}",
            "{\"tree_degree\": 1}",
            "{\"market\": 3}",
            "{\"matchmaking\": \"x\"}",
        ] {
            std::fs::write(folder.swarm(), text).unwrap();
            let refused = SwarmFile::of(&folder).read().unwrap_err().message;
            assert!(refused.contains("swarm.json") && refused.contains("remove it"), "{text}: {refused}");
        }
    }
}
