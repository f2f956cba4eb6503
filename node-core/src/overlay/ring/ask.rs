//! Lookups of this node: for the node above, for nodes that are no members, and for the upkeep
//! of its own members.

use super::lookup::{Lookup, Purpose, Waiting, Whom};
use super::member::Way;
use super::message::{Event, Failure, Find, Message, Mine, Mode, NEXT_MAX, Next, Timer};
use super::{Rcx, Ring, fault, member};
use crate::circle::{Located, Peer};
use crate::circle::{MemberId, Point, RingId};
use crate::ids::NodeId;
use crate::ticket::Ticket;
use std::time::Duration;

/// An owner so many mean distances of neighbours behind a key is none: the chance of an honest one
/// is e^-24, and still e^-8 if the mean of our own sixteen neighbours is a third of what it should
/// be, which is one case in 10^5 (after paper `castro`, section 5.2).
const SPARSE: u128 = 24;

/// Distances that tell a mean. Our choice; see above.
const SAMPLE: usize = 12;

/// Not before a member has been in for so long: rings that have just begun are uneven. Our choice.
const SETTLED: Duration = Duration::from_secs(120);

impl Ring {
    pub(super) fn command(&mut self, ticket: Ticket, ring: RingId, key: Point, mode: Mode, cx: &mut Rcx<'_>) {
        let own = self.lookups.values().filter(|lookup| matches!(lookup.purpose, Purpose::Command(_)));
        let busy = own.count() >= self.config.lookups;
        let nobody = self.mine_in(ring).next().is_none() && self.via.get(&ring).is_none_or(Vec::is_empty);
        if busy || nobody {
            let why = if busy { Failure::Busy } else { Failure::Nobody };
            return cx.emit(Event::Failed { ticket, why });
        }
        self.look(ring, key, Purpose::Command(ticket), mode, None, cx);
    }

    /// A node that is no member asks for a lookup.
    pub(super) fn asked(&mut self, from: NodeId, ring: RingId, key: Point, ticket: u64, cx: &mut Rcx<'_>) {
        let guests = self.lookups.values().filter_map(|lookup| match lookup.purpose {
            Purpose::Guest(guest, _) => Some(guest),
            _ => None,
        });
        let (all, its) = guests.fold((0, 0), |(all, its), guest| (all + 1, its + usize::from(guest == from)));
        let busy = all >= self.config.guests || its >= self.config.per_guest;
        if busy || self.mine_in(ring).next().is_none() {
            return cx.send(from, Message::Told { ticket, found: None });
        }
        self.look(ring, key, Purpose::Guest(from, ticket), Mode::Recursive, None, cx);
    }

    /// Begins a lookup; a `hint` is who owned the key when it was last looked at.
    pub(super) fn look(
        &mut self,
        ring: RingId,
        key: Point,
        purpose: Purpose,
        mode: Mode,
        hint: Option<Peer>,
        cx: &mut Rcx<'_>,
    ) {
        let ticket = cx.rng.u64();
        let until = cx.now + self.config.deadline;
        self.lookups.insert(ticket, Box::new(Lookup::new(ring, key, purpose, mode, until)));
        self.try_again(ticket, hint, cx);
    }

    /// Begins a try with what this node knows now.
    fn try_again(&mut self, ticket: u64, hint: Option<Peer>, cx: &mut Rcx<'_>) {
        let now = cx.now;
        let Some(lookup) = self.lookups.get(&ticket) else { return };
        let (ring, key, purpose) = (lookup.ring, lookup.key, lookup.purpose);
        // A partition check puts this node's own knowledge in question, so it is not used.
        if matches!(purpose, Purpose::Sight(_)) {
            let via = self.via.get(&ring).cloned().unwrap_or_default();
            if let Some(lookup) = self.lookups.get_mut(&ticket) {
                lookup.begin(Vec::new(), Vec::new(), via);
            }
            return self.advance(ticket, cx);
        }
        if let Some(found) = self.own(ring, key, cx) {
            // A member that is alone looks for others.
            let itself = matches!(purpose, Purpose::Place(id) if id.point == found.owner.point);
            if !itself {
                return self.finish(ticket, found, cx);
            }
        }
        let (mut after, mut before): (Vec<Peer>, Vec<Peer>) = (hint.into_iter().collect(), Vec::new());
        if matches!(purpose, Purpose::Command(_)) {
            after.extend(self.known.owner(ring, key, now));
        }
        let place = match purpose {
            Purpose::Place(id) => self.members.get(&id),
            _ => None,
        };
        let alone = place.is_some_and(|member| member.is_alone());
        match self.nearest(ring, key).filter(|_| !alone).map(|member| self.way(member, key, false, None, cx))
        {
            Some(Way::Toward { after: owners, before: nearer }) => {
                after.extend(owners);
                before.extend(nearer);
            }
            Some(Way::Mine) | None => {}
        }
        before.extend(place.into_iter().flat_map(|member| member.others()));
        let is_in = !alone && self.mine_in(ring).next().is_some();
        let via = self.via.get(&ring).filter(|_| !is_in).cloned().unwrap_or_default();
        if let Some(lookup) = self.lookups.get_mut(&ticket) {
            lookup.begin(after, before, via);
        }
        self.advance(ticket, cx);
    }

    /// Answer of this node's own member; `None` if none of them owns the key and holds its lease.
    pub(super) fn own(&self, ring: RingId, key: Point, cx: &Rcx<'_>) -> Option<Located> {
        let sure = self.mine_in(ring).filter_map(|member| Some((member, member.sure(cx.now, &self.config)?)));
        let (member, range) = sure.into_iter().find(|(_, range)| range.contains(key))?;
        Some(Located { owner: member.peer(), after: range.after, replicas: member.succ.clone(), hops: 0 })
    }

    /// Direction of a key from a member. The node that `joins` does not count as a member yet, whatever
    /// others remember.
    pub(super) fn way(
        &self,
        member: &member::Member,
        key: Point,
        presumed: bool,
        joins: Option<NodeId>,
        cx: &Rcx<'_>,
    ) -> Way {
        let (links, ring, now) = (&self.links, member.id.ring, cx.now);
        let gone = |peer: &Peer| {
            peer.point == key && joins == Some(peer.id())
                || links.is_gone(MemberId { ring, point: peer.point }, now)
        };
        member.way(key, presumed, now, &self.config, gone)
    }

    /// Asks the next one.
    fn advance(&mut self, ticket: u64, cx: &mut Rcx<'_>) {
        let Some(lookup) = self.lookups.get_mut(&ticket) else { return };
        let left = lookup.until.since(cx.now);
        if left.is_zero() {
            return self.fail(ticket, cx);
        }
        let links = &self.links;
        let ring = lookup.ring;
        let gone = |peer: &Peer| links.is_gone(MemberId { ring, point: peer.point }, cx.now);
        let Some(whom) = lookup.next(gone) else {
            lookup.waiting = None;
            let rest = lookup.rest(self.config.rest);
            return cx.set_timer(Timer::Lookup(ticket), rest.min(left));
        };
        lookup.hops = lookup.hops.saturating_add(1);
        let is_command = matches!(lookup.purpose, Purpose::Command(_));
        let joins = matches!(lookup.purpose, Purpose::Place(_));
        let passes = lookup.mode == Mode::Recursive && matches!(whom, Whom::Member(..));
        let (key, hops) = (lookup.key, lookup.hops);
        let (id, point) = match whom {
            Whom::Member(peer, _) => (peer.id(), Some(peer.point)),
            Whom::Via(id) => (id, None),
        };
        lookup.waiting = Some(Waiting { id, point, passes });
        let by_others = passes || is_command && point.is_none();
        let patience = if by_others { self.config.pass } else { self.config.hurry };
        cx.set_timer(Timer::Lookup(ticket), patience.min(left));
        let pass = self.nearest(ring, key).filter(|_| passes).map(|member| member.me);
        let find =
            |to, after| Message::Find(Box::new(Find { ring, to, key, ticket, after, joins, pass, hops }));
        match whom {
            Whom::Member(peer, after) => {
                self.links.send(&peer.contact, find(Some(peer.point), after), cx);
            }
            // A node that is no member leaves the lookup to a member.
            Whom::Via(id) if is_command => cx.send(id, Message::Ask { ring, key, ticket }),
            Whom::Via(id) => cx.send(id, find(None, false)),
        }
    }

    /// A member says who is nearer.
    pub(super) fn next(&mut self, from: NodeId, next: Next, cx: &mut Rcx<'_>) {
        let Some(lookup) = self.lookups.get_mut(&next.ticket) else { return };
        let rests = lookup.waiting.is_none();
        let Some(waiting) = lookup.answers(from) else { return };
        // Others are asked already; they are waited for.
        let goes_on = rests || lookup.waiting == Some(waiting);
        let ring = lookup.ring;
        let asked = waiting.passes || waiting.point.is_none_or(|point| point == next.from);
        let sound = |peer: &Peer| peer.fits(ring) && peer.point != next.from;
        if !asked || next.peers.len() > NEXT_MAX || !next.peers.iter().all(sound) {
            fault(from, "sent members that are none in answer to a lookup", cx);
            if goes_on {
                self.advance(next.ticket, cx);
            }
            return;
        }
        if waiting.passes {
            // It got stuck there; from here on we see to it ourselves.
            lookup.mode = Mode::Iterative;
            lookup.hops = lookup.hops.max(next.hops);
        }
        if let Purpose::Sight(id) = lookup.purpose
            && next.peers.iter().any(|peer| peer.point == id.point && peer.id() == cx.me)
        {
            self.lookups.remove(&next.ticket);
            cx.cancel_timer(Timer::Lookup(next.ticket));
            return self.in_sight(id);
        }
        let key = lookup.key;
        lookup.said(next.from, &next.peers);
        // The cached owner has just answered that it does not own the key. On rings with given points another
        // node may stand at that point.
        if let Some(was) = self.known.owner(ring, key, cx.now).filter(|was| was.id() == waiting.id) {
            self.known.forget(ring, was.point);
        }
        if goes_on {
            self.advance(next.ticket, cx);
        }
    }

    /// The owner answers.
    pub(super) fn mine(&mut self, from: NodeId, mine: Mine, cx: &mut Rcx<'_>) {
        let Mine { ticket, mut found } = mine;
        let Some(lookup) = self.lookups.get(&ticket) else { return };
        let (ring, key) = (lookup.ring, lookup.key);
        let owner = found.owner;
        let it = MemberId { ring, point: owner.point };
        let wrong = if owner.id() != from || !owner.fits(ring) {
            Some("owns a key as another member")
        } else if !found.range().contains(key) {
            Some("owns a key that is not in its range")
        } else if !member::is_in_order(it, &found.replicas, self.config.r()) {
            Some("sent a list of successors that is none")
        } else if !self.is_plausible(ring, key, owner.point, cx) {
            Some("owns a key that is too far from it")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            fault(from, wrong, cx);
            return self.step_lost(ticket, cx);
        }
        found.hops = found.hops.max(lookup.hops);
        self.finish(ticket, found, cx);
    }

    /// Whether the owner may be so far from the key: points on the ring of nodes are spread evenly.
    fn is_plausible(&self, ring: RingId, key: Point, owner: Point, cx: &Rcx<'_>) -> bool {
        let settled = self.mine_in(ring).find(|member| {
            ring == RingId::NODES
                && !member.whole
                && member.succ.len() >= SAMPLE
                && cx.now.since(member.since) >= SETTLED
        });
        settled.is_none_or(|member| {
            let last = member.succ.last().map_or(member.point(), |last| last.point);
            let mean = member.point().to(last) / member.succ.len().max(1) as u128;
            key.to(owner) / SPARSE <= mean
        })
    }

    /// Takes the result of a lookup that a member made for this node, which is no member.
    pub(super) fn told(&mut self, from: NodeId, ticket: u64, found: Option<Located>, cx: &mut Rcx<'_>) {
        let Some(lookup) = self.lookups.get(&ticket) else { return };
        if lookup.waiting.is_none_or(|waiting| waiting.id != from || waiting.point.is_some()) {
            return;
        }
        let Some(mut found) = found else { return self.advance(ticket, cx) };
        let it = MemberId { ring: lookup.ring, point: found.owner.point };
        let sound = found.owner.fits(lookup.ring)
            && found.range().contains(lookup.key)
            && member::is_in_order(it, &found.replicas, self.config.r());
        if !sound {
            fault(from, "found an owner that is none", cx);
            return self.advance(ticket, cx);
        }
        found.hops = found.hops.saturating_add(lookup.hops);
        self.finish(ticket, found, cx);
    }

    /// A step was in vain: who was asked is dead, silent or a liar.
    pub(super) fn step_lost(&mut self, ticket: u64, cx: &mut Rcx<'_>) {
        let Some(lookup) = self.lookups.get_mut(&ticket) else { return };
        let Some(waiting) = lookup.waiting.take() else { return };
        let (ring, passed) = (lookup.ring, waiting.passes);
        lookup.lost += 1;
        if passed {
            // Anybody on the way may have failed.
            lookup.mode = Mode::Iterative;
        }
        if let Some(point) = waiting.point.filter(|_| waiting.id != cx.me) {
            match passed {
                true => self.known.forget(ring, point),
                false => self.avoid(MemberId { ring, point }, waiting.id, cx),
            }
        }
        if passed { self.try_again(ticket, None, cx) } else { self.advance(ticket, cx) }
    }

    /// Others' word on this member is not taken for a while, nor is it a finger.
    fn avoid(&mut self, it: MemberId, node: NodeId, cx: &mut Rcx<'_>) {
        self.known.forget(it.ring, it.point);
        self.links.bury(it, node, cx.now + self.config.gone);
        for member in self.members.values_mut().filter(|member| member.id.ring == it.ring) {
            member.fingers.retain(|finger| finger.peer.point != it.point);
        }
    }

    /// A step is slow, or a rest is over.
    pub(super) fn late(&mut self, ticket: u64, cx: &mut Rcx<'_>) {
        let until = cx.now + self.config.step.saturating_sub(self.config.hurry);
        let Some(lookup) = self.lookups.get_mut(&ticket) else { return };
        if lookup.until <= cx.now {
            return self.fail(ticket, cx);
        }
        let ring = lookup.ring;
        let silent = lookup.given_up(cx.now, None);
        let waiting = lookup.waiting;
        let by_name = waiting.is_some_and(|waiting| waiting.point.is_some() && !waiting.passes);
        if by_name {
            lookup.hurry(until);
        }
        for (node, point) in silent {
            self.avoid(MemberId { ring, point }, node, cx);
        }
        match waiting {
            Some(_) if by_name => self.advance(ticket, cx),
            Some(_) => self.step_lost(ticket, cx),
            None => self.try_again(ticket, None, cx),
        }
    }

    /// A node is dead, or cannot be reached now.
    pub(super) fn lost_by_lookups(&mut self, node: NodeId, cx: &mut Rcx<'_>) {
        let tickets: Vec<u64> = self.lookups.keys().copied().collect();
        for ticket in tickets {
            let Some(lookup) = self.lookups.get_mut(&ticket) else { continue };
            let (ring, waits) = (lookup.ring, lookup.waiting.is_some_and(|waiting| waiting.id == node));
            for (node, point) in lookup.given_up(cx.now, Some(node)) {
                self.avoid(MemberId { ring, point }, node, cx);
            }
            if waits {
                self.step_lost(ticket, cx);
            }
        }
    }

    fn finish(&mut self, ticket: u64, found: Located, cx: &mut Rcx<'_>) {
        let Some(lookup) = self.lookups.remove(&ticket) else { return };
        cx.cancel_timer(Timer::Lookup(ticket));
        match lookup.purpose {
            Purpose::Command(ticket) => {
                if found.owner.id() != cx.me {
                    self.known.add(lookup.ring, &found, cx.now, self.config.known);
                }
                cx.emit(Event::Found { ticket, found });
            }
            Purpose::Guest(guest, ticket) => {
                cx.send(guest, Message::Told { ticket, found: Some(Box::new(found)) });
            }
            Purpose::Finger(id, bit) => self.fixed(id, bit, Some(&found), cx),
            Purpose::Place(id) => self.placed(id, &found, cx),
            Purpose::Sight(id) => self.out_of_sight(id, &found, cx),
        }
    }

    fn fail(&mut self, ticket: u64, cx: &mut Rcx<'_>) {
        let Some(lookup) = self.lookups.remove(&ticket) else { return };
        cx.cancel_timer(Timer::Lookup(ticket));
        match lookup.purpose {
            Purpose::Command(ticket) => cx.emit(Event::Failed { ticket, why: Failure::Late }),
            Purpose::Guest(guest, ticket) => cx.send(guest, Message::Told { ticket, found: None }),
            Purpose::Finger(id, bit) => self.fixed(id, bit, None, cx),
            Purpose::Place(id) => self.seek_again(id, cx),
            // Asked again when an anchor is met again.
            Purpose::Sight(_) => {}
        }
    }
}
