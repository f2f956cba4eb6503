//! The gateway that tells this node where its packets come from (STUN).

use crate::address::Contact;
use crate::ids::NodeId;
use crate::peers::Peers;

/// A gateway to ask, for a channel with `peer`: where it is dialled by TCP it answers by UDP. It is one that this node
/// was told to join, or that is connected from where it says that it is: a stranger's word would have this node ask
/// whomever the stranger names.
pub(super) fn of(peer: NodeId, peers: &Peers) -> Option<Contact> {
    let mut others = peers.connections().filter(|(id, _)| *id != peer);
    others.find_map(|(_, it)| {
        let hello = it.hello.as_ref().filter(|hello| hello.gateway)?;
        let at = hello.dialable.contact()?;
        (it.joined || it.ip == Some(at.ip)).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Dialable, Ip};
    use crate::peers::{Known, Peer};
    use crate::platform::Platform;
    use crate::ticket::Services;
    use crate::time::Time;

    const ADA: NodeId = NodeId([1; 32]);

    /// A gateway that says it is at `said`, seen at `seen`.
    fn gateway(said: u8, seen: Option<u8>, joined: bool) -> Peer {
        let ip = |n: u8| Ip([n; 16]);
        let contact = Contact { ip: ip(said), id: ADA, port: 4001 };
        let hello = Known {
            name: "ada".into(),
            platform: Platform::Native,
            gateway: true,
            dialable: Dialable::At(contact),
            speaks: Services::ALL,
            web: None,
        };
        Peer { hello: Some(hello), joined, ..Peer::new(seen.map(ip), Time::ZERO) }
    }

    #[test]
    fn nobody_has_a_node_ask_where_it_says() {
        let asked = |gateway: Peer, peer: NodeId| {
            let mut peers = Peers::new();
            peers.insert(ADA, gateway);
            of(peer, &peers).is_some()
        };
        let bob = NodeId([2; 32]);
        assert!(asked(gateway(9, Some(9), false), bob));
        assert!(!asked(gateway(9, Some(8), false), bob), "it is seen elsewhere");
        assert!(!asked(gateway(9, None, false), bob), "nobody knows where it is");
        assert!(asked(gateway(9, None, true), bob), "the node's person knows, as behind a proxy");
        assert!(!asked(gateway(9, Some(9), false), ADA), "the channel is one with itself");
    }
}
