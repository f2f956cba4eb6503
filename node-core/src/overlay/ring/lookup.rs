//! One lookup: a machine of its own. It knows who may own the key and who is before it, asks one
//! at a time, and begins anew after a rest when nobody knows further.

use super::message::Mode;
use crate::circle::Peer;
use crate::circle::{MemberId, Point, RingId};
use crate::ids::NodeId;
use crate::ticket::Ticket;
use crate::time::Time;
use std::time::Duration;

/// Use of a lookup's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A command of this ticket.
    Command(Ticket),
    /// A node that is no member, by its ticket.
    Guest(NodeId, u64),
    Finger(MemberId, u8),
    /// Where this member of ours belongs.
    Place(MemberId),
    /// Partition check: the owner of this member's point by the word of anchors.
    Sight(MemberId),
}

impl Purpose {
    /// Whether it is upkeep of this member.
    pub(super) fn is_of(self, id: MemberId) -> bool {
        matches!(self, Purpose::Finger(of, _) | Purpose::Place(of) | Purpose::Sight(of) if of == id)
    }
}

/// Most questions of one try. Our choice: three times what a ring of 2^32 takes.
const STEPS_MAX: usize = 48;

/// Most steps in vain of one try. Our choice: where a row of members has died, whoever is before it
/// will know more after a rest than those behind it now; and it is found again sooner than those
/// further off could name another way.
const LOST_MAX: u8 = 4;

/// Most names kept of each kind. Our choice: what three members say.
const NAMES_MAX: usize = 9;

#[derive(Debug)]
pub(super) struct Lookup {
    pub ring: RingId,
    pub key: Point,
    pub purpose: Purpose,
    /// In how it goes on now; the first loss on the way makes it iterative.
    pub mode: Mode,
    pub until: Time,
    /// Messages sent so far, all tries.
    pub hops: u8,
    pub tries: u8,
    /// Steps in vain in this try.
    pub lost: u8,
    /// How far before the key the nearest one is that has answered in this try.
    best: Option<u128>,
    /// Points that were asked in this try.
    asked: Vec<Point>,
    /// Members that may own the key, and members before it; both the nearest first.
    after: Vec<Peer>,
    before: Vec<Peer>,
    /// Connected peers that may be members: asked when no member is known.
    via: Vec<NodeId>,
    pub waiting: Option<Waiting>,
    /// Members that have not answered while others are asked already, and the time until which they may.
    slow: Vec<(Waiting, Time)>,
}

/// Member whose answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub id: NodeId,
    pub point: Option<Point>,
    /// It passes the request on, so that the answer comes from somebody else.
    pub passes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// The second: it may be the owner.
    Member(Peer, bool),
    Via(NodeId),
}

impl Lookup {
    pub(super) fn new(ring: RingId, key: Point, purpose: Purpose, mode: Mode, until: Time) -> Lookup {
        Lookup {
            ring,
            key,
            purpose,
            mode,
            until,
            hops: 0,
            tries: 0,
            lost: 0,
            best: None,
            asked: Vec::new(),
            after: Vec::new(),
            before: Vec::new(),
            via: Vec::new(),
            waiting: None,
            slow: Vec::new(),
        }
    }

    /// Begins a try with these.
    pub(super) fn begin(&mut self, after: Vec<Peer>, before: Vec<Peer>, via: Vec<NodeId>) {
        self.tries = self.tries.saturating_add(1);
        self.lost = 0;
        self.best = None;
        self.asked.clear();
        self.waiting = None;
        self.after.clear();
        self.before.clear();
        self.via = via;
        after.into_iter().for_each(|peer| self.offer(peer, true));
        before.into_iter().for_each(|peer| self.offer(peer, false));
    }

    /// Somebody who may know better.
    pub(super) fn offer(&mut self, peer: Peer, after: bool) {
        if self.asked.contains(&peer.point) {
            return;
        }
        let key = self.key;
        let far = |other: &Peer| if after { key.to(other.point) } else { other.point.to(key) };
        let names = if after { &mut self.after } else { &mut self.before };
        if names.iter().any(|other| other.point == peer.point) {
            return;
        }
        let at = names.partition_point(|other| far(other) < far(&peer));
        names.insert(at, peer);
        names.truncate(NAMES_MAX);
    }

    /// Takes the answer of the member at `from`: peers between it and the key are before the key.
    pub(super) fn said(&mut self, from: Point, peers: &[Peer]) {
        let far = from.to(self.key);
        self.best = Some(self.best.map_or(far, |best| best.min(far)));
        for peer in peers {
            self.offer(*peer, !peer.point.is_between(from, self.key));
        }
    }

    /// Next member to ask; `None` when nobody is left in this try. Members that are gone are left out.
    pub(super) fn next(&mut self, is_gone: impl Fn(&Peer) -> bool) -> Option<Whom> {
        self.after.retain(|peer| !is_gone(peer));
        self.before.retain(|peer| !is_gone(peer));
        if self.asked.len() >= STEPS_MAX || self.lost >= LOST_MAX {
            return None;
        }
        if self.after.is_empty() && self.before.is_empty() {
            return (!self.via.is_empty()).then(|| Whom::Via(self.via.remove(0)));
        }
        let presumed = !self.after.is_empty();
        let peer = if presumed { self.after.remove(0) } else { self.before.remove(0) };
        self.asked.push(peer.point);
        if !presumed && self.best.is_some_and(|best| best < peer.point.to(self.key)) {
            self.lost += 1;
        }
        Some(Whom::Member(peer, presumed))
    }

    /// Goes on without the answer that is waited for, which may still come until then.
    pub(super) fn hurry(&mut self, until: Time) {
        if let Some(waiting) = self.waiting.take() {
            self.lost += 1;
            self.slow.push((waiting, until));
        }
    }

    /// The member that answers, if it was asked by name: the one that is waited for, or a slow one.
    pub(super) fn answers(&mut self, from: NodeId) -> Option<Waiting> {
        if let Some(waiting) = self.waiting.filter(|waiting| waiting.passes || waiting.id == from) {
            return Some(waiting);
        }
        let at = self.slow.iter().position(|(slow, _)| slow.id == from)?;
        Some(self.slow.swap_remove(at).0)
    }

    /// Slow ones whose time is over, or that are this node.
    pub(super) fn given_up(&mut self, now: Time, dead: Option<NodeId>) -> Vec<(NodeId, Point)> {
        let over = |(slow, until): &(Waiting, Time)| *until <= now || dead == Some(slow.id);
        let ended = self.slow.iter().filter(|slow| over(slow));
        let points = ended.filter_map(|(slow, _)| Some((slow.id, slow.point?))).collect();
        self.slow.retain(|slow| !over(slow));
        points
    }

    /// How long it rests before the next try.
    pub(super) fn rest(&self, rest: Duration) -> Duration {
        rest * (1 << self.tries.saturating_sub(1).min(3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Contact, Ip};

    fn peer(point: u128) -> Peer {
        Peer {
            point: Point(point),
            contact: Contact { ip: Ip([0; 16]), id: NodeId([point as u8; 32]), port: 1 },
        }
    }

    fn lookup() -> Lookup {
        Lookup::new(
            RingId(1),
            Point(100),
            Purpose::Command(crate::ticket::ServiceId::Driver.ticket(1)),
            Mode::Iterative,
            Time(9),
        )
    }

    fn order(lookup: &mut Lookup) -> Vec<(u128, bool)> {
        std::iter::from_fn(|| match lookup.next(|_| false)? {
            Whom::Member(peer, after) => Some((peer.point.0, after)),
            Whom::Via(_) => None,
        })
        .collect()
    }

    #[test]
    fn owners_are_asked_before_those_that_only_know_the_way_and_the_nearest_first() {
        let mut lookup = lookup();
        lookup.begin(vec![peer(130), peer(110)], vec![peer(50), peer(90)], Vec::new());
        assert_eq!(order(&mut lookup), [(110, true), (130, true), (90, false), (50, false)]);
    }

    #[test]
    fn what_lies_between_the_speaker_and_the_key_is_before_the_key() {
        let mut lookup = lookup();
        lookup.said(Point(50), &[peer(99), peer(100), peer(120)]);
        assert_eq!(order(&mut lookup), [(100, true), (120, true), (99, false)]);
    }

    #[test]
    fn nobody_is_asked_twice_in_a_try_and_a_try_ends() {
        let mut lookup = lookup();
        lookup.begin(Vec::new(), vec![peer(50)], Vec::new());
        assert_eq!(order(&mut lookup), [(50, false)]);
        lookup.said(Point(50), &[peer(50)]);
        assert_eq!(lookup.next(|_| false), None);
        // A liar that always knows somebody nearer.
        let all = (0..200).map_while(|n| {
            lookup.said(Point(50), &[peer(51 + n % 49 + n / 49 * 200)]);
            lookup.next(|_| false)
        });
        assert!(all.count() < STEPS_MAX);
        lookup.begin(Vec::new(), vec![peer(50)], Vec::new());
        assert_eq!((order(&mut lookup), lookup.tries), (vec![(50, false)], 2));
    }
}
