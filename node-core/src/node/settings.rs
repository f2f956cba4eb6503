//! Settings of the swarm among the machines: learnt from peers, passed to the machines that go by them.

use super::Node;
use super::config::Config;
use super::host::{Host, NodeEvent};
use crate::ids::NodeId;
use crate::overlay::swarm::Swarm;
use std::sync::Arc;

/// Settings that a node is told at its start.
pub(super) fn settings_of(me: NodeId, config: &Config) -> Swarm {
    let open = config.open;
    let market = config.market.as_ref().map(|part| &part.config);
    Swarm {
        bank: bank_of(me, config),
        scheme: market.filter(|_| !open.scheme).map(|it| it.scheme),
        pricing: market.filter(|_| !open.pricing).map(|it| it.rule),
        degree: degree_of(config).filter(|_| !open.degree),
    }
}

#[cfg(feature = "roles")]
fn bank_of(me: NodeId, config: &Config) -> Option<NodeId> {
    let part = config.bank.as_ref()?;
    part.bank.or(part.rules.is_some().then_some(me))
}

/// A page is told by its gateway.
#[cfg(not(feature = "roles"))]
fn bank_of(_: NodeId, _: &Config) -> Option<NodeId> {
    None
}

#[cfg(feature = "roles")]
fn degree_of(config: &Config) -> Option<u8> {
    Some(config.tree.m)
}

/// A page is in no tree.
#[cfg(not(feature = "roles"))]
fn degree_of(_: &Config) -> Option<u8> {
    None
}

impl Node {
    /// Settings of the swarm, as far as this node knows them.
    pub fn swarm(&self) -> &Swarm {
        self.neighbours.state().swarm()
    }

    /// A peer has told settings that this node did not know.
    pub(super) fn learnt(&mut self, swarm: Swarm, host: &mut impl Host) {
        let config = Arc::make_mut(&mut self.config);
        if let Some(part) = &mut config.market {
            let rules = Arc::make_mut(&mut part.config);
            rules.scheme = swarm.scheme.unwrap_or(rules.scheme);
            rules.rule = swarm.pricing.unwrap_or(rules.rule);
        }
        #[cfg(feature = "roles")]
        if let Some(degree) = swarm.degree.filter(|degree| *degree != config.tree.m) {
            let tree = Arc::make_mut(&mut config.tree);
            (tree.m, tree.k) = (degree, degree);
        }
        if let Some(bank) = swarm.bank {
            self.sell_by_receipts_of(bank);
        }
        self.settings_learnt(&swarm);
        host.event(NodeEvent::SwarmLearnt(swarm));
    }
}
