//! The way to another gateway, for a node that found one full.

use super::Node;
use super::host::Host;
use super::route::Step;
use crate::address::Contact;
use crate::ids::NodeId;
use crate::overlay::elsewhere::Elsewhere;
use crate::overlay::neighbours;
use std::collections::VecDeque;

/// Gateways that are remembered at a time, to be tried and tried. Our choice: a few answers.
const MOST: usize = 16;

/// Gateways to be tried, one after the other.
#[derive(Debug, Default)]
pub(super) struct Gateways {
    left: VecDeque<Contact>,
    tried: Vec<NodeId>,
    /// The one that is being dialled.
    trying: Option<NodeId>,
}

impl Node {
    /// `from` has no room for this node. Without any other gateway it tries those that are named.
    pub(super) fn sent_elsewhere(&mut self, from: NodeId, named: &[Elsewhere], host: &mut impl Host) {
        let gateways = &mut self.overlays.gateways;
        if gateways.tried.len() < MOST && !gateways.tried.contains(&from) {
            gateways.tried.push(from);
        }
        for contact in named.iter().map(|it| it.contact) {
            let known = gateways.tried.contains(&contact.id) || gateways.left.contains(&contact);
            if !known && gateways.left.len() < MOST {
                gateways.left.push_back(contact);
            }
        }
        self.try_next_gateway(from, host);
    }

    /// `gone` is no gateway of this node, or not any more.
    pub(super) fn try_next_gateway(&mut self, gone: NodeId, host: &mut impl Host) {
        let gateways = &mut self.overlays.gateways;
        let searches = !gateways.left.is_empty() || !gateways.tried.is_empty();
        if !searches || gateways.trying.is_some_and(|trying| trying != gone) {
            return;
        }
        gateways.trying = None;
        let mut others = self.neighbours.state().all().filter(|(id, hello, _)| hello.gateway && *id != gone);
        if others.next().is_some() {
            self.overlays.gateways = Gateways::default();
            return;
        }
        drop(others);
        while let Some(next) = self.overlays.gateways.left.pop_front() {
            let connected = self.neighbours.state().is_connected(next.id);
            if next.id != self.me && !connected && self.overlays.gateways.tried.len() < MOST {
                self.overlays.gateways.tried.push(next.id);
                self.overlays.gateways.trying = Some(next.id);
                self.push(Step::Neighbours, neighbours::Command::Joins(next.id));
                return self.reach(next, false, host);
            }
        }
        // All are full or away. The driver dials again, and the search begins anew.
        self.overlays.gateways = Gateways::default();
    }
}
