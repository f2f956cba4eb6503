//! Peers that are being dialled, and what waits for them.

use super::host::Channel;
use crate::ids::NodeId;
use bytes::Bytes;
use litemap::LiteMap;

/// Peers dialled at once. Our choice: a father greets its whole group, and a little more.
const DIALS: usize = 256;

/// Frames that wait for one of them; more are lost, as on a wire that breaks. Our choice: what
/// a machine says to a peer within a round trip.
const FRAMES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Dials {
    waiting: LiteMap<NodeId, Dial>,
}

#[derive(Debug, Default)]
pub(super) struct Dial {
    pub(super) frames: Vec<(Channel, Bytes)>,
    /// It is for something that will soon be over.
    pub(super) spare: bool,
}

impl Dials {
    pub(super) fn is_under_way(&self, peer: NodeId) -> bool {
        self.waiting.contains_key(&peer)
    }

    /// Whether there is room for one more.
    pub(super) fn begin(&mut self, peer: NodeId, spare: bool) -> bool {
        let room = self.waiting.len() < DIALS;
        if room {
            self.waiting.insert(peer, Dial { frames: Vec::new(), spare });
        }
        room
    }

    pub(super) fn needed(&mut self, peer: NodeId) {
        if let Some(dial) = self.waiting.get_mut(&peer) {
            dial.spare = false;
        }
    }

    pub(super) fn keep(&mut self, peer: NodeId, channel: Channel, bytes: Bytes) {
        if let Some(dial) = self.waiting.get_mut(&peer)
            && dial.frames.len() < FRAMES
        {
            dial.frames.push((channel, bytes));
        }
    }

    /// It is connected, or will not be: what waited for it. None if it was not being dialled.
    pub(super) fn end(&mut self, peer: NodeId) -> Option<Dial> {
        let dial = self.waiting.remove(&peer);
        if self.waiting.is_empty() {
            // Room for a burst is not kept.
            self.waiting = LiteMap::new();
        }
        dial
    }
}
