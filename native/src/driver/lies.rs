//! Lets another program make this node lie to others: the frames that it sends are shown to that program
//! first. No command and no setting of this binary does that: `tests/hostile` alone calls [`set`], and `tests/house`
//! checks it.

use bytes::Bytes;
use link::Link;
use node_core::{Channel, NodeId};
use std::sync::{Mutex, OnceLock, PoisonError};

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

static LIAR: OnceLock<Mutex<Box<dyn Liar>>> = OnceLock::new();

/// Makes all that this process sends to peers pass this liar, from its start on. A second one is ignored.
pub fn set(liar: Box<dyn Liar>) {
    let _ = LIAR.set(Mutex::new(liar));
}

fn ask<T>(question: impl FnOnce(&mut dyn Liar) -> T) -> Option<T> {
    let mut liar = LIAR.get()?.lock().unwrap_or_else(PoisonError::into_inner);
    Some(question(&mut **liar))
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
