//! Answers: gathered from the parts that were given out, and handed back.
//!
//! Modification: in the paper each taker answers the origin. Here whoever divides a request
//! waits for its parts and answers once. A long list of places does not travel from node to
//! node: it goes to the origin, and only the counts go the way back.

use super::{Answer, Ask, Message, Nearest, Packed, Places, Refuse, Timer, Toward};
use crate::address::Contact;
use crate::finding::Needs;
use crate::ids::NodeId;
use crate::protocol::Cx;

/// Lists longer than this go to the origin directly, bytes. Our choice: 50 places, so that a
/// line of 1 Mbps is not held up by one list.
const DIRECT: usize = 2_000;

/// A request, or a part of one, in hand.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// Node to be answered, and its name for the part; this node itself for its own queries.
    pub giver: NodeId,
    part: u32,
    pub id: u64,
    pub origin: Contact,
    pub asked: u32,
    pub needs: Option<Needs>,
    pub hops: u8,
    pub toward: Toward,
    tasks: u32,
    pub placed: u32,
    pub missing: u32,
    /// Parts that others have now.
    pub out: Vec<Out>,
    serial: u8,
    /// Not to be asked again: where it came from, and who had not enough.
    pub exhausted: Vec<NodeId>,
    /// Nothing is left above either.
    pub none_above: bool,
    /// Waits to go up.
    pub rest: u32,
    /// The node above that it went to could not be reached.
    pub fell_back: bool,
    /// The most hops that a part of it went, there and back.
    pub farthest: u8,
    pub places: Packed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Out {
    pub to: NodeId,
    pub part: u32,
    pub tasks: u32,
    pub up: bool,
}

impl Pending {
    pub(super) fn of(giver: NodeId, ask: &Ask) -> Pending {
        Pending {
            giver,
            part: ask.part,
            id: ask.id,
            origin: ask.origin,
            asked: ask.asked,
            needs: ask.needs,
            hops: ask.hops,
            toward: ask.toward,
            tasks: ask.tasks,
            placed: 0,
            missing: 0,
            out: Vec::new(),
            serial: 0,
            exhausted: vec![giver],
            none_above: false,
            rest: 0,
            fell_back: false,
            farthest: ask.hops,
            places: Packed::default(),
        }
    }

    pub(super) fn next_part(&mut self, key: u32) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        key << 8 | u32::from(self.serial)
    }

    pub(super) fn ask(&self, part: u32, tasks: u32, given: u32, toward: Toward) -> Ask {
        Ask {
            id: self.id,
            part,
            origin: self.origin,
            asked: self.asked,
            tasks,
            given,
            needs: self.needs,
            hops: self.hops,
            toward,
            back: 0,
        }
    }

    pub(super) fn check(&self) {
        let out: u64 = self.out.iter().map(|o| u64::from(o.tasks)).sum();
        let all = u64::from(self.placed) + u64::from(self.missing) + u64::from(self.rest) + out;
        assert_eq!(all, u64::from(self.tasks), "tasks of a request got lost or became more");
    }
}

impl Nearest {
    pub(super) fn answered(&mut self, from: NodeId, mut answer: Answer, cx: &mut Cx<'_, Self>) {
        let key = answer.part >> 8;
        // Late, or repeated.
        let Some(pending) = self.pending.get_mut(&key) else { return };
        let Some(at) = pending.out.iter().position(|o| o.to == from && o.part == answer.part) else {
            let mut above = self.parent.iter().chain(&self.ancestors);
            let known = pending.exhausted.contains(&from)
                || above.any(|c| c.id == from)
                || self.branch.entry(from).is_some();
            if !known {
                self.misplaced(from, "answers what it was not asked", cx);
            }
            return;
        };
        let out = pending.out.swap_remove(at);
        let listed = answer
            .places
            .unpack()
            .map(|places| places.iter().fold(0u64, |sum, (_, slots)| sum + u64::from(*slots)));
        let all = u64::from(answer.placed) + u64::from(answer.missing);
        if all != u64::from(out.tasks) || listed.is_none_or(|sum| sum > u64::from(answer.placed)) {
            let fault = format!("answers {} tasks with places for others", out.tasks);
            cx.fault(from, fault);
            answer = Answer { placed: 0, missing: out.tasks, places: Packed::default(), ..answer };
        }
        pending.none_above |= out.up && answer.missing > 0;
        pending.placed += answer.placed;
        pending.farthest = pending.farthest.max(answer.hops);
        pending.places.append(&mut answer.places);
        if answer.missing > 0 && !pending.exhausted.contains(&from) {
            pending.exhausted.push(from);
        }
        let (id, origin, needs) = (pending.id, pending.origin, pending.needs);
        if pending.places.0.len() > 2 * DIRECT && pending.giver != origin.id && origin.port != 0 {
            let places = std::mem::take(&mut pending.places);
            let number = pending.next_part(key);
            self.places_to(id, number, &origin, places, cx);
        }
        let config = self.config.clone();
        match self.branch.entry(from) {
            // A node that refuses counts its branch as empty in the same way, and announces it when that is
            // wrong.
            Some(entry) if answer.missing > 0 => entry.refused(answer.missing, needs.is_some(), &config),
            Some(_) => {}
            // From above.
            None if answer.missing > 0 && needs.is_none() => self.found_dry(cx),
            None => self.found_some(),
        }
        self.spread(key, answer.missing, false, cx);
        self.finish(key, cx);
    }

    /// Answers when no part is out any more.
    pub(super) fn finish(&mut self, key: u32, cx: &mut Cx<'_, Self>) {
        let Some(pending) = self.pending.get(&key) else { return };
        if !pending.out.is_empty() {
            return;
        }
        let Some(mut pending) = self.pending.remove(&key) else { return };
        cx.cancel_timer(Timer::Pending(key));
        if pending.giver == cx.me {
            return self.query_answered(pending, cx);
        }
        let direct = pending.places.0.len() > DIRECT && pending.giver != pending.origin.id;
        if direct && pending.origin.port != 0 {
            let places = std::mem::take(&mut pending.places);
            let number = pending.next_part(key);
            self.places_to(pending.id, number, &pending.origin, places, cx);
        }
        if pending.missing > 0 {
            let for_needs = pending.needs.is_some();
            let config = self.config.clone();
            if self.is_parent(pending.giver) {
                self.branch.up.refuse(pending.missing, for_needs, &config);
            } else if let Some(peer) = self.branch.peer(pending.giver) {
                peer.told.refuse(pending.missing, for_needs, &config);
            }
        }
        let answer = Answer {
            part: pending.part,
            placed: pending.placed,
            missing: pending.missing,
            hops: pending.farthest.saturating_add(1),
            places: pending.places,
        };
        cx.send(pending.giver, Message::Answer(answer));
    }

    fn places_to(&mut self, id: u64, number: u32, origin: &Contact, places: Packed, cx: &mut Cx<'_, Self>) {
        self.reach(origin, cx);
        cx.send(origin.id, Message::Places(Places { id, number, places }));
    }

    /// Ends a request that is out of time: parts that are still out count as not found. Their slots, if they
    /// were taken, are free again after their lease.
    pub(super) fn out_of_time(&mut self, key: u32, cx: &mut Cx<'_, Self>) {
        let Some(pending) = self.pending.get_mut(&key) else { return };
        pending.missing += std::mem::take(&mut pending.rest);
        for out in std::mem::take(&mut pending.out) {
            pending.missing += out.tasks;
            // The node announces its free slots with its next refresh.
            if let Some(entry) = self.branch.entry(out.to) {
                entry.lose();
            }
        }
        self.finish(key, cx);
    }

    /// A node that has parts of requests is gone.
    pub(super) fn ask_others_than(&mut self, peer: NodeId, cx: &mut Cx<'_, Self>) {
        let hit: Vec<u32> = (self.pending.iter())
            .filter(|(_, p)| p.giver == peer || p.out.iter().any(|o| o.to == peer))
            .map(|(key, _)| *key)
            .collect();
        let parent = self.parent.map(|f| f.id);
        for key in hit {
            let Some(pending) = self.pending.get_mut(&key) else { continue };
            let mut back = 0;
            pending.out.retain(|out| {
                let lost = out.to == peer;
                back += if lost { out.tasks } else { 0 };
                !lost
            });
            if !pending.exhausted.contains(&peer) {
                pending.exhausted.push(peer);
            }
            let was_above = !self.branch.is_child(peer) && !self.branch.is_peer(peer);
            if was_above && back > 0 && !pending.fell_back && parent != Some(peer) {
                // It was to go straight; now it goes the paper's way.
                pending.fell_back = true;
            }
            self.spread(key, back, false, cx);
            self.finish(key, cx);
        }
    }

    /// A leaf cannot take what it was given.
    pub(super) fn refused(&mut self, from: NodeId, refuse: Refuse, cx: &mut Cx<'_, Self>) {
        let config = self.config.clone();
        match self.branch.child(from) {
            Some(entry) => entry.refused(refuse.slots, refuse.for_needs, &config),
            None => self.misplaced(from, "refuses as a child that it is not", cx),
        }
    }
}
