//! Discovery: a request comes in, and is spread over the branches (paper `tree`, section 3).

use super::answer::{Out, Pending};
use super::branch::Entry;
use super::{Answer, Ask, Event, Gone, Message, Nearest, Packed, Refuse, Toward, nowhere};
use crate::address::{Address, Contact};
use crate::finding::Needs;
use crate::ids::NodeId;
use crate::protocol::Cx;
use crate::ticket::ServiceId;

/// No correct request goes so far; our choice.
const HOPS_MAX: u8 = 64;

/// A part of a request for a branch.
#[derive(Debug)]
pub(super) struct Part {
    pub to: Contact,
    pub tasks: u32,
    pub across: bool,
    pub guest: bool,
    pub leaf: bool,
}

impl Nearest {
    pub(super) fn ask(&mut self, from: NodeId, mut ask: Ask, cx: &mut Cx<'_, Self>) {
        if !self.is_new(from, ask.id, ask.part) {
            return;
        }
        let config = self.config.clone();
        let allowed = match ask.toward {
            Toward::Down | Toward::Take => self.is_parent(from),
            Toward::Across => self.is_at_the_top() && self.branch.is_peer(from),
            // From below, or from far below straight. Back from a peer in single file.
            Toward::Up => {
                from == ask.origin.id
                    || self.branch.is_child(from)
                    || (!config.changes.gather && self.branch.is_peer(from))
            }
        };
        match ask.toward {
            Toward::Down | Toward::Take if allowed => self.branch.up.received(ask.given, &config),
            Toward::Across if allowed => {
                if let Some(peer) = self.branch.peer(from) {
                    peer.told.received(ask.given, &config);
                }
            }
            _ => {}
        }
        if !allowed {
            self.misplaced(from, "asks as a neighbour in the tree that it is not", cx);
        }
        if ask.tasks > ask.asked {
            let fault = format!("hands on {} tasks of {}", ask.tasks, ask.asked);
            cx.fault(from, fault);
            ask.asked = ask.asked.max(ask.tasks);
            ask.tasks = 0;
        }
        if config.quiet()
            && ask.toward == Toward::Up
            && ask.needs.is_none()
            && let Some(entry) = self.branch.child(from)
        {
            entry.refused(ask.tasks, false, &config);
        }
        // A guest, or a node that does not know its address yet, speaks through its neighbour.
        if ask.origin.port == 0
            && ask.origin.id == from
            && let Some(entry) = self.branch.child(from).filter(|e| !e.guest)
        {
            ask.origin = entry.contact;
        }
        let refused = !allowed || ask.hops > HOPS_MAX;
        if ask.toward == Toward::Take {
            if allowed {
                self.take_as_leaf(from, &ask, cx);
            }
            return;
        }
        if !config.changes.gather {
            return self.single(from, ask, refused, cx);
        }
        let pending = Pending::of(from, &ask);
        if refused || ask.tasks == 0 || self.pending.len() >= config.pending {
            let (part, missing, hops) = (ask.part, ask.tasks, ask.hops.saturating_add(1));
            let places = Packed::default();
            return cx.send(from, Message::Answer(Answer { part, placed: 0, missing, hops, places }));
        }
        let key = self.next();
        self.pending.insert(key, pending);
        self.spread(key, ask.tasks, true, cx);
        self.finish(key, cx);
    }

    /// Modification: a leaf that takes what its parent gives says nothing, since the parent
    /// counted it and has answered for it. Only if it cannot take it, parent and origin hear.
    fn take_as_leaf(&mut self, parent: NodeId, ask: &Ask, cx: &mut Cx<'_, Self>) {
        let taken =
            self.take(&ask.origin, ask.tasks, &ask.needs.unwrap_or_default(), ask.asked, ask.hops, cx);
        let slots = ask.tasks - taken;
        if slots == 0 {
            self.will_return(taken, ask.back, cx);
        } else {
            let for_needs = ask.needs.is_some_and(|needs| !self.own_slots.meets(&needs));
            self.branch.up.refuse(slots, for_needs, &self.config);
            cx.send(parent, Message::Refuse(Refuse { slots, for_needs }));
            if ask.origin.id != cx.me {
                self.reach(&ask.origin, cx);
            }
            cx.send(ask.origin.id, Message::Gone(Gone { id: ask.id, node: cx.me, slots }));
        }
    }

    /// Keeps own slots for a request; says how many.
    pub(super) fn take(
        &mut self,
        origin: &Contact,
        tasks: u32,
        needs: &Needs,
        asked: u32,
        hops: u8,
        cx: &mut Cx<'_, Self>,
    ) -> u32 {
        let until = cx.now + self.config.lease_for(asked);
        let slots = self.own_slots.reserve(origin.id, tasks, needs, until);
        if slots > 0 {
            cx.emit(Event::Reserved { for_owner: *origin, slots, until, hops });
            cx.emit(Event::Changed);
        }
        slots
    }

    /// Finds places for so many tasks of a request in hand: own slots first, then the branches,
    /// and the rest goes up.
    pub(super) fn spread(&mut self, key: u32, tasks: u32, first: bool, cx: &mut Cx<'_, Self>) {
        let Some(mut pending) = self.pending.remove(&key) else { return };
        let config = self.config.clone();
        let needs = pending.needs.unwrap_or_default();
        let own = self.take(&pending.origin, tasks, &needs, pending.asked, pending.hops, cx);
        if own > 0 {
            pending.placed += own;
            let contact = self.contact(cx.me);
            pending.places.push(&contact.into(), own);
        }
        let hops = pending.farthest.saturating_add(1);
        let across = pending.toward == Toward::Up;
        let (parts, rest) =
            self.share(tasks - own, &needs, pending.origin.id, across, &pending.exhausted, pending.id);
        let plenty = self.has_plenty();
        for Part { to, tasks, across, guest, leaf } in parts {
            let part = pending.next_part(key);
            let given = self.branch.entry(to.id).map_or(0, |e| e.give(tasks, &config));
            let toward = match (across, leaf) {
                (true, _) => Toward::Across,
                (false, true) if config.quiet() => Toward::Take,
                (false, _) => Toward::Down,
            };
            let back = if toward == Toward::Take && plenty { self.predict(to.id, tasks, cx) } else { 0 };
            let ask = Ask { hops, back, ..pending.ask(part, tasks, given, toward) };
            if guest && !config.guests_hear {
                self.keep_for_guest(to.id, tasks, pending.asked, cx);
            } else {
                cx.send(to.id, Message::Ask(ask));
            }
            if toward == Toward::Take || (guest && !config.guests_hear) {
                // It is this node's word that counts unless it refuses.
                pending.placed += tasks;
                let me = self.contact(cx.me);
                let place = if guest { Address::guest(to.id, me) } else { to.into() };
                pending.places.push(&place, tasks);
            } else {
                pending.out.push(Out { to: to.id, part, tasks, up: false });
            }
        }
        pending.rest += rest;
        // Tasks that the branches cannot hold go up at once. Tasks that the branches send back wait until all
        // of them have answered, so that they go up as one.
        if first || !pending.out.iter().any(|o| !o.up) {
            self.spread_above(&mut pending, key, cx);
        }
        if !pending.out.is_empty() && pending.giver != cx.me {
            cx.set_timer_by(
                super::Timer::Pending(key),
                config.patience_at(pending.hops, pending.asked, pending.needs.is_some()),
            );
        }
        self.pending.insert(key, pending);
    }

    /// Sends up what is left, or counts it as missing.
    fn spread_above(&mut self, pending: &mut Pending, key: u32, cx: &mut Cx<'_, Self>) {
        let tasks = std::mem::take(&mut pending.rest);
        let to = match (self.joined, pending.fell_back) {
            (false, _) => self.outside(cx).filter(|host| !pending.exhausted.contains(&host.id)),
            (true, true) => self.parent,
            (true, false) => self.above_for(tasks),
        };
        let may = pending.toward == Toward::Up && !pending.none_above && !self.is_dry(pending, cx);
        let Some(to) = to.filter(|_| may && tasks > 0) else {
            pending.missing += tasks;
            return;
        };
        if !self.is_parent(to.id) {
            self.reach(&to, cx);
        }
        if self.config.quiet() && pending.needs.is_none() && self.is_parent(to.id) {
            // Modification: who asks its parent has nothing left itself, and need not say so.
            self.branch.up.refuse(tasks, false, &self.config);
        }
        if self.config.quiet() && self.level > 1 && !self.dry.is_zero() {
            // Modification: one asks for all of a large branch whether there is something again.
            self.dry_until = cx.now + self.config.dry_max;
        }
        let part = pending.next_part(key);
        let hops = pending.farthest.saturating_add(1);
        let ask = Ask { hops, ..pending.ask(part, tasks, 0, Toward::Up) };
        cx.send(to.id, Message::Ask(ask));
        pending.out.push(Out { to: to.id, part, tasks, up: true });
    }

    /// The gateway that a node outside of the tree asks: its relay, or another one that it is connected to, since a gateway
    /// that nobody can dial has no relay; or else the relay that it had.
    fn outside(&self, cx: &Cx<'_, Self>) -> Option<Contact> {
        let mut at_hand = cx.peers.gateways().filter(|(_, it)| it.speaks.has(ServiceId::Nearest));
        let connected = self.host.filter(|host| cx.peers.knows(host.id));
        let other = || at_hand.next().map(|(id, it)| it.dialable.contact().unwrap_or(nowhere(id)));
        connected.or_else(other).or(self.host)
    }

    /// Divides tasks among the branches: the nearest and fastest first, to each what it has at
    /// least; then, by ranges, what they may have beyond that. Returns what is left too. Whose turn
    /// it is first among equals follows from `turn`.
    pub(super) fn share(
        &self,
        tasks: u32,
        needs: &Needs,
        origin: NodeId,
        across: bool,
        except: &[NodeId],
        turn: u64,
    ) -> (Vec<Part>, u32) {
        let mut rest = tasks;
        if rest == 0 {
            return (Vec::new(), 0);
        }
        let relays = self.config.relays;
        let children = self.branch.children.iter().filter(|c| !c.guest || relays || origin == self.id());
        let peers = self.branch.peers.iter().filter(|_| across).map(|p| &p.entry);
        let mut able: Vec<_> = (children.map(|e| (false, e)).chain(peers.map(|e| (true, e))))
            .filter(|(_, e)| e.may_meet(needs) && !except.contains(&e.contact.id))
            .collect();
        // Priority as in the paper: hops, then power. What is farther in the tree is farther.
        able.sort_by_key(|(across, e)| (e.refusals, *across, e.state.hops, std::cmp::Reverse(e.state.power)));
        // Nobody knows how many of the free slots are of a kind, so all are asked at a time.
        let of = (self.config.changes.ranges && *needs != Needs::default()).then_some(needs);
        let mut parts: Vec<Part> = Vec::new();
        let mut spare = 0u64;
        for (across, entry) in &able {
            let tasks = if of.is_some() { 0 } else { entry.bounds.low.min(rest) };
            rest -= tasks;
            spare += u64::from(spare_of(entry, of));
            let (guest, leaf) = (entry.guest, entry.state.is_leaf());
            parts.push(Part { to: entry.contact, tasks, across: *across, guest, leaf });
        }
        if rest > 0 && spare > 0 && self.config.changes.ranges {
            // Modification: the surplus by the upper bounds. In proportion, since each branch is
            // as likely to have some.
            let chosen = self.chosen_for_surplus(&able, rest, of, turn);
            let spare = chosen.iter().fold(0, |sum, at| sum + u64::from(spare_of(able[*at].1, of)));
            let surplus = u64::from(rest).min(spare);
            let (mut width, mut granted) = (0u64, 0u64);
            for at in chosen {
                width += u64::from(spare_of(able[at].1, of));
                let more = surplus * width / spare - granted;
                granted += more;
                parts[at].tasks += more as u32;
            }
            rest -= granted as u32;
        }
        parts.retain(|p| p.tasks > 0);
        (parts, rest)
    }

    /// Modification (`quiet`): a small surplus goes to few branches, not to each of them one by one.
    /// As many are asked as may have twice of it, since a branch has half of what it may have; and
    /// who asks begins somewhere, so that not all come to the same. A parent's own branches first.
    fn chosen_for_surplus(
        &self,
        able: &[(bool, &Entry)],
        rest: u32,
        of: Option<&Needs>,
        turn: u64,
    ) -> Vec<usize> {
        let mut order: Vec<usize> = (0..able.len()).filter(|at| spare_of(able[*at].1, of) > 0).collect();
        if !self.config.quiet() || of.is_some() {
            return order;
        }
        let start = turn.checked_rem(order.len() as u64).unwrap_or(0);
        order.rotate_left(start as usize);
        order.sort_by_key(|at| (able[*at].1.refusals, able[*at].0));
        let mut sum = 0;
        order.retain(|at| {
            let wanted = sum < 2 * u64::from(rest);
            sum += u64::from(spare_of(able[*at].1, None));
            wanted
        });
        order
    }

    fn id(&self) -> NodeId {
        self.me.map_or(NodeId([0; 32]), |me| me.id)
    }

    /// Modification: the lowest node above whose branch has so many slots at all, and the
    /// highest if none has. Else the parent.
    pub(super) fn above_for(&self, tasks: u32) -> Option<Contact> {
        let parent = self.parent?;
        if !self.config.changes.straight || self.above.len() < self.ancestors.len() + 1 {
            return Some(parent);
        }
        let mut branches = std::iter::once(&parent).chain(&self.ancestors).zip(&self.above);
        let lowest = branches.find(|(_, slots)| **slots >= tasks).map(|(contact, _)| *contact);
        lowest.or(self.ancestors.last().copied()).or(Some(parent))
    }

    /// Modification: what the tree above said it had not, it is not asked again at once.
    fn is_dry(&self, pending: &Pending, cx: &Cx<'_, Self>) -> bool {
        self.config.quiet() && cx.now < self.dry_until && !pending.fell_back
    }

    pub(super) fn found_dry(&mut self, cx: &Cx<'_, Self>) {
        let least = self.config.dry_at(self.level);
        self.dry = (self.dry * 2).clamp(least, least * 2);
        self.dry_until = cx.now + self.dry;
    }

    pub(super) fn found_some(&mut self) {
        self.dry = std::time::Duration::ZERO;
        self.dry_until = crate::time::Time::ZERO;
    }

    /// Before something is sent to who is no neighbour in the tree.
    pub(super) fn reach(&mut self, contact: &Contact, cx: &mut Cx<'_, Self>) {
        if contact.port != 0 && contact.id != cx.me {
            cx.reach(*contact);
        }
    }
}

/// Slots that a branch may be offered beyond its lower bound. With needs that bound is 0: it may have no slot
/// that meets them.
fn spare_of(entry: &Entry, needs: Option<&Needs>) -> u32 {
    match needs {
        Some(needs) => entry.most_for(needs),
        None => entry.bounds.high - entry.bounds.low,
    }
}
