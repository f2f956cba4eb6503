//! The way to another gateway, for a node that found one full.

use super::Node;
use super::host::Host;
use crate::address::Contact;
use crate::elsewhere::Elsewhere;
use crate::ids::NodeId;
use crate::overlay::neighbours::{self, Neighbours};
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
    pub(super) fn sent_elsewhere(&mut self, from: NodeId, named: &[Elsewhere], host: &mut dyn Host) {
        let Some(dials) = &mut self.dials else { return };
        let gateways = &mut dials.gateways;
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
    pub(super) fn try_next_gateway(&mut self, gone: NodeId, host: &mut dyn Host) {
        let Some(gateways) = self.dials.as_ref().map(|dials| &dials.gateways) else { return };
        let searches = !gateways.left.is_empty() || !gateways.tried.is_empty();
        if !searches || gateways.trying.is_some_and(|trying| trying != gone) {
            return;
        }
        let other = self.peers().all().any(|(id, hello, _)| hello.gateway && id != gone);
        let Some(dials) = &mut self.dials else { return };
        let Gateways { mut left, tried, .. } = std::mem::take(&mut dials.gateways);
        if other {
            return;
        }
        let may = |next: &Contact| next.id != self.me && !self.peers().is_connected(next.id);
        let next = std::iter::from_fn(|| left.pop_front()).find(may).filter(|_| tried.len() < MOST);
        // Without one all are full or away. The driver dials again, and the search begins anew.
        if let (Some(next), Some(dials)) = (next, &mut self.dials) {
            let tried = tried.into_iter().chain([next.id]).collect();
            dials.gateways = Gateways { left, tried, trying: Some(next.id) };
            self.tell::<Neighbours>(neighbours::Command::Joins(next.id));
            self.reach(next, false, host);
        }
    }
}
