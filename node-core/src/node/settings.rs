//! Settings of the swarm among the services: learnt from peers, passed to the services that go by them.

use super::Node;
use super::config::Config;
use super::host::{Host, NodeEvent};
use super::notes::Note;
use crate::ids::NodeId;
use crate::overlay::swarm::Swarm;
use crate::requires::Matchmaking;
use crate::ticket::ServiceId;
use std::sync::Arc;

/// Settings that a node is told at its start.
pub(super) fn settings_of(me: NodeId, config: &Config) -> Swarm {
    let bank = config.bank.as_ref().and_then(|part| part.bank.or(part.rules.is_some().then_some(me)));
    let degree = Some(config.tree.m).filter(|_| !config.open.degree);
    let matchmaking = Some(config.matchmaking).filter(|_| !config.open.matchmaking);
    Swarm { bank, degree, matchmaking, ..settings_of_guest(config) }
}

/// A guest is told the others by its gateway.
pub(super) fn settings_of_guest(config: &Config) -> Swarm {
    let open = config.open;
    let market = config.market.as_ref().map(|part| &part.config);
    Swarm {
        bank: None,
        scheme: market.filter(|_| !open.scheme).map(|it| it.scheme),
        pricing: market.filter(|_| !open.pricing).map(|it| it.rule),
        degree: None,
        matchmaking: None,
    }
}

impl Node {
    /// Settings of the swarm, as far as this node knows them.
    pub fn swarm(&self) -> &Swarm {
        self.neighbours.machine.state().swarm()
    }

    /// A peer has told settings that this node did not know.
    pub(super) fn learnt(&mut self, swarm: Swarm, host: &mut dyn Host) {
        let config = Arc::make_mut(&mut self.config);
        if let Some(part) = &mut config.market {
            let rules = Arc::make_mut(&mut part.config);
            rules.scheme = swarm.scheme.unwrap_or(rules.scheme);
            rules.rule = swarm.pricing.unwrap_or(rules.rule);
        }
        if let Some(degree) = swarm.degree.filter(|degree| *degree != config.tree.m) {
            let tree = Arc::make_mut(&mut config.tree);
            (tree.m, tree.k) = (degree, degree);
        }
        config.matchmaking = swarm.matchmaking.unwrap_or(config.matchmaking);
        let of_no_use: &[ServiceId] = match swarm.matchmaking {
            None => &[],
            Some(Matchmaking::None) => &[ServiceId::RnTree, ServiceId::Can, ServiceId::Fitting],
            Some(Matchmaking::RnTree) => &[ServiceId::Can],
            Some(Matchmaking::Can) => &[ServiceId::RnTree],
        };
        of_no_use.iter().for_each(|service| self.shut(*service));
        if let Some(bank) = swarm.bank {
            self.note(Note::Bank(bank), host);
        }
        self.note(Note::Learnt(&swarm), host);
        host.event(NodeEvent::SwarmLearnt(swarm));
    }
}
