//! A file on its way out: found on the ring, brought chunk by chunk from whoever keeps it.

use crate::driver::{NodeHandle, Stopped, Unanswered, number};
use bytes::Bytes;
use node_core::address::Contact;
use node_core::content::BlobRef;
use node_core::files::{Manifest, Whereabouts};
use node_core::record::{Key, Refused};
use node_core::{BlobId, Command, NodeEvent};
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;

/// Longer than a question on the ring takes, and than a chunk takes on a slow line.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Why a file cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoFile {
    #[error("nobody has published {0}")]
    Unknown(String),
    #[error("{0} is not found: {1}")]
    Unanswered(String, Refused),
    #[error("{0}")]
    Unavailable(String),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<Unanswered> for NoFile {
    fn from(e: Unanswered) -> NoFile {
        match e {
            Unanswered::Late => NoFile::Unavailable("there was no answer in time; try again".into()),
            Unanswered::Stopped(stopped) => NoFile::Stopped(stopped),
        }
    }
}

/// A file that was found, with its manifest.
pub(crate) struct Opened {
    pub(crate) id: BlobRef,
    pub(crate) manifest: Manifest,
    /// Nodes that may have its chunks.
    at: Vec<Contact>,
}

async fn published(node: &NodeHandle, key: Key, shown: &str) -> Result<Whereabouts, NoFile> {
    let number = number();
    let found = node.ask(Command::ReadRecord { number, key }, PATIENCE, |event| match event {
        NodeEvent::RecordRead { number: of, found } if of == number => Some(found),
        _ => None,
    });
    let found = found.await?.map_err(|why| NoFile::Unanswered(shown.into(), why))?;
    let mut all = found.iter().filter_map(|found| Whereabouts::decode(&found.value));
    let mut first = all.next().ok_or_else(|| NoFile::Unknown(shown.into()))?;
    // Several may keep the same content for themselves.
    all.filter(|other| other.manifest == first.manifest).for_each(|other| first.at.extend(other.at));
    Ok(first)
}

/// By its content id, or by a name under which it is published.
pub(crate) async fn open(node: &NodeHandle, which: &str) -> Result<Opened, NoFile> {
    let id = match which.parse::<BlobId>() {
        Ok(id) => id,
        Err(_) => published(node, Key::Name(which.into()), which).await?.manifest.id,
    };
    let mut at = Vec::new();
    let id = match node.storage().blob(id) {
        Some((_, len)) => BlobRef { id, len },
        None => {
            let found = published(node, Key::Keepers(id), which).await?;
            at = found.at;
            // A record is its publisher's word; the id is what was asked for.
            BlobRef { id, ..found.manifest }
        }
    };
    let bytes = bring(node, id, &at).await?;
    let manifest = Manifest::decode(&bytes).map_err(|why| NoFile::Unavailable(format!("{which}: {why}")))?;
    if at.is_empty() && manifest.chunks.iter().any(|chunk| node.storage().blob(*chunk).is_none()) {
        at = published(node, Key::Keepers(id.id), which).await?.at;
    }
    Ok(Opened { id, manifest, at })
}

/// A blob's bytes, from here or from those.
async fn bring(node: &NodeHandle, blob: BlobRef, at: &[Contact]) -> Result<Bytes, NoFile> {
    let number = number();
    let command = Command::Bring { number, blobs: vec![blob], from: at.to_vec() };
    let brought = node.ask(command, PATIENCE, |event| match event {
        NodeEvent::Brought { number: of, result } if of == number => Some(result),
        _ => None,
    });
    let brought = match brought.await {
        Ok(Ok(())) => read(node, blob).await,
        Ok(Err(why)) => Err(NoFile::Unavailable(why.to_string())),
        Err(e) => Err(e.into()),
    };
    node.command(Command::LetGo { number });
    brought
}

async fn read(node: &NodeHandle, blob: BlobRef) -> Result<Bytes, NoFile> {
    let gone = || NoFile::Unavailable(format!("blob {} went while it was read; try again", blob.id));
    let (path, _) = node.storage().blob(blob.id).ok_or_else(gone)?;
    let bytes =
        tokio::fs::read(&path).await.map_err(|e| NoFile::Unavailable(format!("{}: {e}", path.display())))?;
    if BlobId::of(&bytes) != blob.id {
        return Err(NoFile::Unavailable(format!(
            "the disk has gone bad: {} is not what it was",
            path.display()
        )));
    }
    Ok(bytes.into())
}

impl Opened {
    /// Its content as it is kept, one chunk ahead of the reader. An error comes last.
    pub(crate) fn content(&self, node: NodeHandle) -> mpsc::Receiver<io::Result<Bytes>> {
        let (sender, receiver) = mpsc::channel(1);
        let (parts, at): (Vec<BlobRef>, _) = (self.manifest.parts().collect(), self.at.clone());
        tokio::spawn(async move {
            for part in parts {
                let brought = bring(&node, part, &at).await.map_err(io::Error::other);
                let failed = brought.is_err();
                // Nobody reads on.
                if sender.send(brought).await.is_err() || failed {
                    return;
                }
            }
        });
        receiver
    }
}

/// Reader of the bytes that come in a channel, for callers that block.
pub(crate) struct Incoming {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

impl Incoming {
    pub(crate) fn new(receiver: mpsc::Receiver<io::Result<Bytes>>) -> Incoming {
        Incoming { receiver, rest: Bytes::new() }
    }
}

impl io::Read for Incoming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.rest = piece?,
                None => return Ok(0),
            }
        }
        let part = self.rest.split_to(self.rest.len().min(into.len()));
        into[..part.len()].copy_from_slice(&part);
        Ok(part.len())
    }
}
