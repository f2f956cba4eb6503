//! Where this node is, and who its guests are.

use super::branch::Entry;
use super::state::State;
use super::{Above, Event, FORMER_MAX, Load, Message, Nearest, Timer};
use crate::ids::NodeId;
use crate::placement::Placement;
use crate::protocol::Cx;

/// Nodes in a cooldown at a time, and for how long: our choice.
const COOLING_MAX: usize = 32;
const COOLDOWN: std::time::Duration = std::time::Duration::from_secs(60);

/// Slots that a guest is believed. Our choice: more than a large machine has threads.
const GUEST_SLOTS: u32 = 1024;

impl Nearest {
    pub(super) fn placed(&mut self, placement: Placement, cx: &mut Cx<'_, Self>) {
        let gone: Vec<NodeId> = (self.parent.iter().map(|c| c.id))
            .chain(self.branch.children.iter().map(|e| e.contact.id))
            .chain(self.branch.peers.iter().map(|p| p.entry.contact.id))
            .collect();
        let new_parent = self.parent.map(|f| f.id) != placement.parent.map(|f| f.id);
        self.joined = placement.joined;
        self.level = placement.level;
        self.parent = placement.parent;
        self.ancestors = placement.ancestors;
        self.ancestors.truncate(super::message::LEVELS_MAX);
        self.placed_at = cx.now;
        let new = self.branch.set_children(&placement.children);
        self.branch.set_peers(&placement.peers);
        if new_parent {
            // Another parent counts anew.
            self.branch.up = Default::default();
            self.above = Vec::new();
        }
        for id in gone {
            if !self.is_parent(id) && !self.branch.is_child(id) && !self.branch.is_peer(id) {
                self.forget(id);
            }
        }
        for child in new {
            // It may have told its state before this node knew it for its child.
            self.tell_child(child, cx);
        }
        self.settle_soon(cx);
        if (self.joined || self.parent.is_some()) && !cx.timer_is_set(Timer::Refresh) {
            self.next_refresh(cx);
        }
        cx.emit(Event::Changed);
    }

    fn forget(&mut self, id: NodeId) {
        if !self.former.contains(&id) {
            self.former.truncate(FORMER_MAX - 1);
            self.former.push_front(id);
        }
    }

    /// Counts the guest's slots in this node's branch, or counts them no longer.
    pub(super) fn guest(&mut self, guest: NodeId, load: Option<Load>, cx: &mut Cx<'_, Self>) {
        let counted = self.branch.child(guest).is_some_and(|e| e.guest);
        let Some(load) = load else {
            if counted {
                self.branch.children.retain(|e| e.contact.id != guest);
                self.forget(guest);
                cx.emit(Event::Changed);
            }
            return;
        };
        cx.emit(Event::Changed);
        let config = self.config.clone();
        let others = || self.branch.children.iter().filter(|e| e.guest && e.contact.id != guest);
        let taken = others().fold(0u32, |n, e| n.saturating_add(e.state.slots));
        // A gateway answers for what it tells of its guests: all of them together have half of what a node may
        // declare.
        let room = (config.slots_a_node / 2).saturating_sub(taken);
        let slots = load.slots.min(GUEST_SLOTS).min(room);
        let busy = load.busy.iter().fold(0u32, |n, (_, b)| n.saturating_add(*b));
        let free = slots.saturating_sub(busy);
        let state = State::of_node(free, slots, load.power, load.memory_bytes, load.platform);
        let guests = others().count();
        match self.branch.child(guest) {
            Some(entry) if entry.guest => entry.say(state, &config),
            // A dialable node is no guest.
            Some(_) => {}
            // Its slots are not counted; it has done nothing wrong.
            None if guests >= config.guests => {}
            None => {
                // Others reach it through this node.
                let contact = self.contact(cx.me);
                let mut entry = Entry::new(crate::address::Contact { id: guest, ..contact });
                entry.guest = true;
                entry.say(state, &config);
                self.branch.children.push(entry);
            }
        }
    }

    /// A node did not take its units: for a while it is not taken from an answer, and as a
    /// branch it comes last.
    pub(super) fn cool_down(&mut self, node: NodeId, cx: &mut Cx<'_, Self>) {
        self.cooling.retain(|(n, until)| *n != node && *until > cx.now);
        if self.cooling.len() < COOLING_MAX && node != cx.me {
            self.cooling.push((node, cx.now + COOLDOWN));
        }
        if let Some(entry) = self.branch.entry(node) {
            entry.refusals = entry.refusals.saturating_add(1);
        }
    }

    /// A node that was in a cooldown takes units again.
    pub(super) fn welcome(&mut self, node: NodeId) {
        self.cooling.retain(|(n, _)| *n != node);
        if let Some(entry) = self.branch.entry(node) {
            entry.refusals = 0;
        }
    }

    /// Whether this node is cooling, or was until a moment ago.
    pub fn has_shunned(&self, node: NodeId) -> bool {
        self.cooling.iter().any(|(n, _)| *n == node)
    }

    pub(super) fn is_shunned(&self, node: NodeId, cx: &Cx<'_, Self>) -> bool {
        self.cooling.iter().any(|(n, until)| *n == node && *until > cx.now)
    }

    /// Connected again: what was said meanwhile may be lost.
    pub(super) fn up(&mut self, peer: NodeId, cx: &mut Cx<'_, Self>) {
        if self.is_parent(peer) {
            self.branch.up.doubt();
        }
        if let Some(peer) = self.branch.peer(peer) {
            peer.told.doubt();
        }
        if self.branch.is_child(peer) {
            self.tell_child(peer, cx);
            self.settle_soon(cx);
        }
    }

    /// Tells one child what is above it, and asks for its state.
    fn tell_child(&mut self, child: NodeId, cx: &mut Cx<'_, Self>) {
        let slots = self.above_for_children();
        if slots != self.above_told {
            // The others heard something else; next time all hear the same.
            self.above_told = Vec::new();
        }
        cx.send(child, Message::Above(Above { slots, tell: true }));
    }

    /// It cannot be reached: nothing is free there, and what it was asked goes elsewhere.
    pub(super) fn down(&mut self, peer: NodeId, cx: &mut Cx<'_, Self>) {
        if let Some(entry) = self.branch.entry(peer) {
            entry.lose();
        }
        self.guest(peer, None, cx);
        self.ask_others_than(peer, cx);
    }
}
