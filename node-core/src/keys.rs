//! A node's key: what it signs with, and how others check what it signed.
//!
//! A [`NodeId`] is an ed25519 public key, so a signature needs nothing beside the id that it claims.

use crate::ids::NodeId;
use bytes::Bytes;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

/// The secret half of a node's key. Not shown in logs.
#[derive(Clone)]
pub struct Secret(SigningKey);

impl Secret {
    /// Makes a key of the 32 bytes that every ed25519 library calls the secret key.
    pub fn from_bytes(bytes: &[u8; 32]) -> Secret {
        Secret(SigningKey::from_bytes(bytes))
    }

    /// The node whose key it is.
    pub fn node(&self) -> NodeId {
        NodeId(self.0.verifying_key().to_bytes())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Bytes that a node has signed, for one purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    pub by: NodeId,
    pub body: Bytes,
    /// 64 bytes.
    pub signature: Bytes,
}

impl Signed {
    /// `purpose` is a constant of the program, different for each kind of content, so that what was
    /// signed as one thing is never taken for another.
    pub fn new(secret: &Secret, purpose: &str, body: Bytes) -> Signed {
        let signature = secret.0.sign(&digest(purpose, &body));
        Signed { by: secret.node(), body, signature: Bytes::copy_from_slice(&signature.to_bytes()) }
    }

    /// The body, if its signature is good.
    pub fn open(&self, purpose: &str) -> Option<&Bytes> {
        let key = VerifyingKey::from_bytes(&self.by.0).ok()?;
        let signature = Signature::from_bytes(self.signature[..].try_into().ok()?);
        // Strictly: one signature of a text and not several, and no keys that fit any text.
        key.verify_strict(&digest(purpose, &self.body), &signature).is_ok().then_some(&self.body)
    }
}

fn digest(purpose: &str, body: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new_derive_key(purpose).update(body).finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_node_signed_for_one_purpose_is_good_for_nothing_else() {
        let secret = Secret::from_bytes(&[7; 32]);
        let signed = Signed::new(&secret, "a", Bytes::from_static(b"pay"));
        assert_eq!(signed.open("a"), Some(&Bytes::from_static(b"pay")));
        assert_eq!(signed.open("b"), None);
        let another = Signed { by: Secret::from_bytes(&[8; 32]).node(), ..signed.clone() };
        assert_eq!(another.open("a"), None);
        assert_eq!(Signed { body: Bytes::from_static(b"pax"), ..signed.clone() }.open("a"), None);
        assert_eq!(Signed { signature: signed.signature.slice(1..), ..signed.clone() }.open("a"), None);
        // The neutral point: with it, a lax check takes one signature for every text.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let forged =
            Signed { by: NodeId(neutral), signature: [&neutral[..], &[0; 32]].concat().into(), ..signed };
        assert_eq!(forged.open("a"), None);
    }
}
