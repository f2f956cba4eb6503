//! Identity of this node: an ed25519 key that stays the same over restarts.

use crate::paths::{DataFolder, PathError, write_private};
use libp2p::identity::Keypair;
use node_core::NodeId;
use node_core::keys::Secret;

/// A node's key and the id that follows from it.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) keypair: Keypair,
    pub(crate) node: NodeId,
}

impl Identity {
    /// One that nobody will meet again: for swarms that live as long as one command.
    pub(crate) fn fresh() -> Result<Identity, PathError> {
        Identity::of(Keypair::generate_ed25519())
            .ok_or_else(|| PathError("a new key is not an ed25519 key; please report this".into()))
    }

    /// The key of this folder; made when there is none yet.
    pub(crate) fn load_or_create(folder: &DataFolder) -> Result<Identity, PathError> {
        let path = folder.identity();
        if let Some(found) = Self::load(folder)? {
            return Ok(found);
        }
        let identity = Self::fresh()?;
        // libp2p's own format: other tools read it, and it holds both halves of the key, so
        // that damage shows.
        let bytes = identity
            .keypair
            .to_protobuf_encoding()
            .map_err(|e| PathError(format!("a new key could not be encoded ({e}); please report this")))?;
        if write_private(&path, &bytes, false)? {
            return Ok(identity);
        }
        // Another process made one in the meantime: that is the node's key.
        Self::load(folder)?.ok_or_else(|| {
            PathError(format!("{} was there and is gone; is something cleaning up?", path.display()))
        })
    }

    fn load(folder: &DataFolder) -> Result<Option<Identity>, PathError> {
        let path = folder.identity();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => {
                return Err(PathError(format!(
                    "cannot read the node's key {}: {e}; mend its permissions, or use another folder with --data DIR",
                    path.display()
                )));
            }
        };
        let keypair = Keypair::from_protobuf_encoding(&bytes).ok().and_then(Identity::of);
        keypair.map(Some).ok_or_else(|| {
            PathError(format!(
                "{} holds no whole ed25519 key ({} bytes): restore it from a copy, or move it away to get a new identity at the next start",
                path.display(),
                bytes.len()
            ))
        })
    }

    /// Key that the node signs with; `None` if the pair is no ed25519 key.
    pub(crate) fn secret(&self) -> Option<Secret> {
        let keypair = self.keypair.clone().try_into_ed25519().ok()?;
        Some(Secret::from_bytes(keypair.secret().as_ref().try_into().ok()?))
    }

    fn of(keypair: Keypair) -> Option<Identity> {
        let public = keypair.public().try_into_ed25519().ok()?;
        Some(Identity { node: NodeId(public.to_bytes()), keypair })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, DataFolder) {
        let root = tempfile::tempdir().unwrap();
        let folder = DataFolder::at(root.path());
        (root, folder)
    }

    #[test]
    fn a_restarted_node_is_the_same_node() {
        let (_root, folder) = folder();
        let first = Identity::load_or_create(&folder).unwrap();
        assert_eq!(Identity::load_or_create(&folder).unwrap().node, first.node);
        assert_ne!(Identity::fresh().unwrap().node, first.node);
        assert_eq!(first.secret().unwrap().node(), first.node, "and signs as itself");
    }

    #[cfg(unix)]
    #[test]
    fn the_key_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let (_root, folder) = folder();
        Identity::load_or_create(&folder).unwrap();
        let mode = std::fs::metadata(folder.identity()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_key_is_reported_and_never_replaced() {
        let (_root, folder) = folder();
        Identity::load_or_create(&folder).unwrap();
        let mut bytes = std::fs::read(folder.identity()).unwrap();
        bytes[20] ^= 1;
        for damaged in [&bytes[..], &bytes[..30], b"", b"hello"] {
            std::fs::write(folder.identity(), damaged).unwrap();
            let Err(error) = Identity::load_or_create(&folder) else { panic!("{damaged:?} was taken") };
            let error = error.to_string();
            assert!(error.contains("identity.key") && error.contains("move it away"), "{error}");
            assert_eq!(std::fs::read(folder.identity()).unwrap(), damaged);
        }
    }
}
