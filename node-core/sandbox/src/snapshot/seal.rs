//! Sealing: whoever keeps a snapshot can neither read it nor change it without being noticed.

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};

const MAGIC: &[u8; 8] = b"MHSEAL\x01\x00";
const NONCE: usize = 24;
const TAG: usize = 16;
const HEADER: usize = MAGIC.len() + NONCE + TAG;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it was sealed with another key, or changed since")]
pub struct BadSeal;

/// Seals with a unit's key. The nonce is a hash of the content, so that two contents never
/// share one and nothing random is needed.
pub fn seal(key: &[u8; 32], mut content: Vec<u8>) -> Vec<u8> {
    let mut nonce = [0; NONCE];
    blake3::Hasher::new_keyed(key).update(&content).finalize_xof().fill(&mut nonce);
    let cipher = XChaCha20Poly1305::new(key.into());
    // It fails beyond 256 GiB only; such a thing could not be opened again.
    let tag = cipher.encrypt_in_place_detached(&XNonce::from(nonce), MAGIC, &mut content).unwrap_or_default();
    let mut sealed = Vec::with_capacity(HEADER + content.len());
    sealed.extend_from_slice(MAGIC);
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(&tag);
    sealed.append(&mut content);
    sealed
}

/// Opens what was sealed with this key, in its place.
pub fn open<'a>(key: &[u8; 32], sealed: &'a mut [u8]) -> Result<&'a [u8], BadSeal> {
    let (header, content) = sealed.split_at_mut_checked(HEADER).ok_or(BadSeal)?;
    let rest = header.strip_prefix(MAGIC).ok_or(BadSeal)?;
    let (nonce, tag) = rest.split_at_checked(NONCE).ok_or(BadSeal)?;
    let cipher = XChaCha20Poly1305::new(key.into());
    cipher
        .decrypt_in_place_detached(XNonce::from_slice(nonce), MAGIC, content, Tag::from_slice(tag))
        .map_err(|_| BadSeal)?;
    Ok(content)
}
