//! Lets another program make this node lie to others: the frames that it sends are shown to that program
//! first. Only with the feature `hostile`, which no release has, and only if a liar was set.

use bytes::Bytes;
use link::Link;
use node_core::{Channel, NodeId};
use std::sync::{Mutex, PoisonError};

/// The fate of a frame on its way out.
pub enum Said {
    Truly,
    Instead(Channel, Bytes),
    Nothing,
}

pub trait Liar: Send {
    /// Frames to the sender that the node itself does not send.
    fn hears(&mut self, channel: Channel, bytes: &Bytes) -> Vec<(Channel, Bytes)>;
    fn says(&mut self, channel: Channel, bytes: &Bytes) -> Said;
}

static LIAR: Mutex<Option<Box<dyn Liar>>> = Mutex::new(None);

/// Makes all that this process sends to peers pass this liar.
pub fn set(liar: Box<dyn Liar>) {
    *LIAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(liar);
}

fn ask<T>(question: impl FnOnce(&mut dyn Liar) -> T) -> Option<T> {
    let mut liar = LIAR.lock().unwrap_or_else(PoisonError::into_inner);
    liar.as_mut().map(|liar| question(&mut **liar))
}

pub(super) fn send(link: &Link, to: NodeId, channel: Channel, bytes: Bytes) {
    match ask(|liar| liar.says(channel, &bytes)) {
        None | Some(Said::Truly) => link.send(to, channel, bytes),
        Some(Said::Instead(channel, bytes)) => link.send(to, channel, bytes),
        Some(Said::Nothing) => {}
    }
}

pub(super) fn heard(link: &Link, from: NodeId, channel: Channel, bytes: &Bytes) {
    for (channel, bytes) in ask(|liar| liar.hears(channel, bytes)).into_iter().flatten() {
        link.send(from, channel, bytes);
    }
}
