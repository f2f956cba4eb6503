//! Peers that the donor's policy refuses: the node never hears of them.

use node_core::NodeId;
use node_core::address::{Contact, Ip};
use node_core::trust::policy::Policy;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Connected peers, and those of them that the policy refuses.
#[derive(Default)]
pub(super) struct Refusals {
    policy: Option<Arc<Policy>>,
    connected: HashMap<NodeId, Option<Ip>>,
    /// On their way out, unknown to the node.
    leaving: HashSet<NodeId>,
}

impl Refusals {
    /// A peer is connected. Whether it is refused.
    pub(super) fn connected(&mut self, peer: NodeId, ip: Option<Ip>) -> bool {
        let refused = self.refuses(peer, ip);
        if refused {
            self.leaving.insert(peer);
        } else {
            self.leaving.remove(&peer);
            self.connected.insert(peer, ip);
        }
        refused
    }

    /// A peer is gone. Whether the node never knew of it.
    pub(super) fn disconnected(&mut self, peer: NodeId) -> bool {
        self.connected.remove(&peer);
        self.leaving.remove(&peer)
    }

    /// Whether nothing of what it says is heard.
    pub(super) fn is_unheard(&self, peer: NodeId) -> bool {
        !self.leaving.is_empty() && self.leaving.contains(&peer)
    }

    pub(super) fn forbids(&self, contact: &Contact) -> bool {
        self.refuses(contact.id, Some(contact.ip))
    }

    /// From now on by this policy. Those who are connected and refused by it: the node knows them, and
    /// hears that they are gone.
    pub(super) fn go_by(&mut self, policy: Arc<Policy>) -> Vec<NodeId> {
        self.policy = Some(policy);
        let refused = self.connected.iter().filter(|(peer, ip)| self.refuses(**peer, **ip));
        refused.map(|(peer, _)| *peer).collect()
    }

    fn refuses(&self, peer: NodeId, ip: Option<Ip>) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.refuses(peer, ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<Ip> {
        Some(Ip::from(text.parse::<std::net::IpAddr>().unwrap()))
    }

    #[test]
    fn who_is_refused_is_never_heard_and_who_was_connected_before_is_let_go() {
        let (near, far, named) = (NodeId([1; 32]), NodeId([2; 32]), NodeId([3; 32]));
        let mut refusals = Refusals::default();
        for (peer, at) in [(near, "10.1.2.3"), (far, "203.0.113.9"), (named, "10.1.2.4")] {
            assert!(!refusals.connected(peer, ip(at)), "without a policy nobody is refused");
        }
        let range = "203.0.113.0/24".parse().unwrap();
        let policy =
            Policy { refused_addresses: vec![range], refused_peers: vec![named], ..Policy::default() };
        let mut out = refusals.go_by(Arc::new(policy));
        out.sort();
        assert_eq!(out, [far, named]);
        assert!(!refusals.disconnected(far), "the node knew it, and hears that it is gone");
        assert!(refusals.connected(far, ip("203.0.113.9")));
        assert!(refusals.is_unheard(far) && !refusals.is_unheard(near));
        assert!(refusals.disconnected(far) && !refusals.is_unheard(far));
        let at = |id, text| Contact { ip: ip(text).unwrap(), id, port: 1 };
        assert!(refusals.forbids(&at(near, "203.0.113.1")) && refusals.forbids(&at(named, "10.0.0.1")));
        assert!(!refusals.forbids(&at(near, "10.1.2.3")));
        // Somewhere else it is welcome.
        assert!(!refusals.connected(far, ip("10.9.9.9")));
    }
}
