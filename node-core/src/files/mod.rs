//! Files: content in chunks, kept by other nodes than the one that has them (paper `market`'s file storage).
//!
//! A file is a *manifest* and its chunks, all of them blobs; its name is the manifest's hash. The node
//! at which it is put is its *owner*: it buys space, or asks for it as a gift, watches who keeps it, and
//! has others keep it when one goes. *Keepers* pull the chunks, and are asked for proof now and then.
//! Secret content is encrypted before it comes here: nothing below knows a key.
//!
//! | part | what it knows |
//! |---|---|
//! | `manifest` | what a file is made of |
//! | [`owner`] | where a file is kept, and whether it still is |
//! | [`keeper`] | what is kept for others |

mod config;
pub mod keeper;
mod manifest;
mod message;
pub mod owner;

pub use config::FilesConfig;
pub use manifest::{BadManifest, CHUNK, CHUNKS, MANIFEST, Manifest, NAME};
pub use message::{Message, ToKeeper, ToOwner};

use crate::address::Contact;
use crate::content::BlobRef;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Published entry for a file: under its id with owner and keepers, and under its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    pub manifest: BlobRef,
    /// Its owner and keepers, as far as they can be dialled; none under a name.
    pub at: Vec<Contact>,
}

impl Whereabouts {
    pub fn encode(&self) -> Bytes {
        // Plain data: rmp cannot fail on it.
        rmp_serde::to_vec(self).map(Bytes::from).unwrap_or_default()
    }

    pub fn decode(bytes: &[u8]) -> Option<Whereabouts> {
        let it: Whereabouts = sandbox::unpack::from_slice(bytes).ok()?;
        (it.manifest.len <= MANIFEST).then_some(it)
    }
}

/// Proof of keeping, which only a keeper of the chunk can give: its bytes, hashed under a key that was just
/// drawn.
fn proof(nonce: &[u8; 32], chunk: &[u8]) -> Bytes {
    Bytes::copy_from_slice(blake3::keyed_hash(nonce, chunk).as_bytes())
}
