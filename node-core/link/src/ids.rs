//! A node's id is its ed25519 public key; libp2p's peer id wraps the same 32 bytes.

use libp2p::PeerId;
use libp2p::identity::{PublicKey, ed25519};
use node_core::NodeId;

/// The peer's key is not ed25519, so it has no [`NodeId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a node: its key is not ed25519")]
pub struct NotANode(pub PeerId);

/// In front of the key in a peer id: key type ed25519, then 32 bytes (libp2p's peer-ids spec).
const PREFIX: [u8; 4] = [0x08, 0x01, 0x12, 0x20];
/// The multihash code of a digest that is the content itself.
const IDENTITY: u64 = 0;

/// The node behind a libp2p peer.
pub fn node_id(peer: &PeerId) -> Result<NodeId, NotANode> {
    let hash = peer.as_ref();
    match (hash.code(), hash.digest().strip_prefix(&PREFIX)) {
        (IDENTITY, Some(key)) => key.try_into().map(NodeId).map_err(|_| NotANode(*peer)),
        _ => Err(NotANode(*peer)),
    }
}

/// The libp2p peer of a node, unless the bytes are no ed25519 key.
pub fn peer_id(node: &NodeId) -> Option<PeerId> {
    let key = ed25519::PublicKey::try_from_bytes(&node.0).ok()?;
    Some(PublicKey::from(key).to_peer_id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use libp2p::identity::Keypair;

    #[test]
    fn a_node_id_is_the_key_and_comes_back_from_the_peer_id() {
        let key = Keypair::generate_ed25519();
        let peer = key.public().to_peer_id();
        let node = node_id(&peer).unwrap();
        let raw = key.public().try_into_ed25519().unwrap().to_bytes();
        assert_eq!(node.0, raw);
        assert_eq!(peer_id(&node), Some(peer));
    }

    #[test]
    fn a_peer_with_another_kind_of_key_has_no_node_id() {
        let hashed = PeerId::random(); // a sha2-256 or identity multihash that holds no ed25519 key
        assert_eq!(node_id(&hashed), Err(NotANode(hashed)));
    }
}
