//! Fingers: nodes farther along the virtual dimension, so that routes among equal nodes stay short.
//!
//! The finger of level 0 is the neighbour across the face; the finger of level n + 1 is the finger of level n of the
//! finger of level n. So each is twice as many *nodes* away as the one before, however unevenly they lie (the idea is
//! SONAR's, which keeps such fingers in all dimensions).

use super::Ccx;
use super::member::Member;
use super::message::Message;
use super::zone::{Coords, EDGE, Face, VIRTUAL, Zone};
use crate::address::Contact;
use crate::ids::NodeId;

/// Levels in one direction. Our choice: 65,536 equal nodes.
const LEVELS: usize = 16;

/// A node far away, and its zone as it was when it was asked.
type Finger = (Contact, Zone);

/// Fingers in both directions, by level.
#[derive(Clone, Debug, Default)]
pub(super) struct Fingers {
    down: Vec<Finger>,
    up: Vec<Finger>,
}

impl Fingers {
    fn of(&mut self, up: bool) -> &mut Vec<Finger> {
        if up { &mut self.up } else { &mut self.down }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Finger> {
        self.down.iter().chain(&self.up)
    }

    pub(super) fn contacts(&self) -> impl Iterator<Item = Contact> + '_ {
        self.all().map(|(contact, _)| *contact)
    }

    /// A node is gone: what lies behind it is asked for again.
    pub(super) fn forget(&mut self, peer: NodeId) {
        for fingers in [&mut self.down, &mut self.up] {
            if let Some(at) = fingers.iter().position(|(contact, _)| contact.id == peer) {
                fingers.truncate(at);
            }
        }
    }
}

/// How far it is from one point to a zone in this direction of the virtual dimension, around its end.
fn ahead(from: Coords, zone: &Zone, up: bool) -> u32 {
    let (from, to) = (from.0[VIRTUAL], zone.lo.0[VIRTUAL]);
    let way = if up { to.wrapping_sub(from) } else { from.wrapping_sub(to) };
    way & (EDGE - 1)
}

impl Member {
    /// Renews the fingers: the nearest ones, the one that is missing, and another one at random.
    pub(super) fn ask_fingers(&mut self, cx: &mut Ccx<'_>) {
        for up in [false, true] {
            let face = Face { dim: VIRTUAL, up };
            let side = self.zone.beyond(face).map(|slab| slab.nearest(self.coords));
            let across = |at: Coords| {
                let mut others = self.neighbours.values().filter(|one| one.direct && !one.disputed);
                others.find_map(|one| {
                    let zone = one.record.zones.iter().find(|zone| zone.contains(at))?;
                    Some((one.record.contact, *zone))
                })
            };
            let Some(nearest) = side.and_then(across) else { continue };
            let fingers = self.fingers.of(up);
            if fingers.first().map(|(contact, _)| contact.id) != Some(nearest.0.id) {
                fingers.clear();
                fingers.push(nearest);
            }
            fingers[0] = nearest;
            let last = fingers.len() - 1;
            let again = cx.rng.below(last as u64 + 1) as usize;
            let mut levels = vec![last, again];
            levels.dedup();
            for level in levels.into_iter().filter(|level| *level < LEVELS) {
                let contact = self.fingers.of(up)[level].0;
                cx.send_to(contact, Message::AskFinger { up, level: level as u8 });
            }
        }
    }

    pub(super) fn finger_asked(&mut self, from: NodeId, up: bool, level: u8, cx: &mut Ccx<'_>) {
        let at = self.fingers.of(up).get(usize::from(level)).copied();
        cx.send(from, Message::Finger { up, level, at });
    }

    pub(super) fn finger(&mut self, from: NodeId, up: bool, level: u8, at: Option<Finger>, cx: &mut Ccx<'_>) {
        let coords = self.coords;
        let fingers = self.fingers.of(up);
        let next = usize::from(level) + 1;
        if fingers.get(next - 1).is_none_or(|(contact, _)| contact.id != from) {
            return;
        }
        if at.is_some_and(|(_, zone)| !zone.is_valid()) {
            return cx.fault(from, "tells of a zone that is none".into());
        }
        let behind = ahead(coords, &fingers[next - 1].1, up);
        // Beyond that it leads around, past this node.
        let at = at.filter(|(contact, zone)| contact.id != cx.me && ahead(coords, zone, up) > behind);
        match at.filter(|_| next < LEVELS) {
            None => fingers.truncate(next),
            Some(at) if next < fingers.len() => fingers[next] = at,
            Some(at) => fingers.push(at),
        }
    }
}
