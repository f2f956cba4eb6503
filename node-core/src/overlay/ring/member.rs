//! One member of a ring: whom it knows, what it owns, and which way a key is.

use super::message::Timer;
use super::{Rcx, RingConfig};
use crate::address::Contact;
use crate::circle::Peer;
use crate::circle::{MemberId, Point, Range};
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Member {
    pub id: MemberId,
    pub me: Contact,
    pub phase: Phase,
    pub since: Time,
    pub pred: Option<Pred>,
    /// Predecessor list as the predecessor sent it: the members before it, the nearest first.
    pub behind: Vec<Peer>,
    /// Members that may stand between the predecessor and this member, the nearest first: they were before a
    /// member that is gone, and may have a lease from it. While the predecessor itself is gone: members that
    /// may come in its place.
    pub between: Vec<Between>,
    /// Start of the owned range, not included; `None` while the member owns nothing.
    pub after: Option<Point>,
    /// Its lease: when it asked, the last time that its successor answered that this is its
    /// predecessor.
    pub acked: Option<Time>,
    /// The first beat that is not answered.
    pub asked: Time,
    /// In order, from the next one on.
    pub succ: Vec<Peer>,
    /// The successors are all other members.
    pub whole: bool,
    /// The digest of what the successor told last.
    pub seen: u64,
    /// The successor that acknowledged it last is gone.
    pub shaken: bool,
    /// When it beats next.
    pub due: Time,
    /// Beats without an answer.
    pub unanswered: u8,
    /// In order of distance; successors are none.
    pub fingers: Vec<Finger>,
    /// Which finger was looked at last, and whether all were.
    pub bit: u8,
    pub all_fixed: bool,
    /// Somebody who takes this member for its successor, beyond a predecessor that may be dead.
    pub waits: Option<Peer>,
    /// Previous or next owner of the part of the range that changes.
    pub other: Option<Contact>,
    /// Which successor was told last who is behind, and a digest of it; and which one has
    /// acknowledged it.
    pub line_sent: (Point, u64),
    pub line_known: (Point, u64),
    /// How often in a row others were seen in its place.
    pub unseen: u8,
    /// Range that the node above knows.
    pub told: Option<Range>,
    pub told_succ: u64,
    /// The predecessor is to hear of other successors.
    pub has_news: bool,
    pub told_line: u64,
}

/// Somebody who may have a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    pub peer: Peer,
    /// Point of the member behind `peer`, dead or not.
    pub next: Point,
    /// Until when, once it has been asked to come.
    pub until: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Looks for its place, for so many times, since then.
    Seeking {
        tries: u32,
        begun: Time,
    },
    /// The successor has not said yet that this is its predecessor.
    Asking,
    In,
    /// Its neighbours have been told so often.
    Leaving {
        told: u8,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pred {
    pub peer: Peer,
    pub heard: Time,
    /// It is dead or has left; what it owned waits for who is before it.
    pub gone: bool,
    /// It said so.
    pub left: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Finger {
    pub bit: u8,
    pub peer: Peer,
}

/// Which way a key is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Here.
    Mine,
    /// Perhaps one of these, or of those nearest before it. Empty while this member does not
    /// know whether it is the owner.
    Toward { after: Vec<Peer>, before: Vec<Peer> },
}

impl Member {
    pub(super) fn new(id: MemberId, me: Contact, now: Time) -> Member {
        Member {
            id,
            me,
            phase: Phase::Seeking { tries: 0, begun: now },
            since: now,
            pred: None,
            behind: Vec::new(),
            between: Vec::new(),
            after: None,
            acked: None,
            asked: now,
            succ: Vec::new(),
            whole: false,
            seen: 0,
            shaken: false,
            due: now,
            unanswered: 0,
            fingers: Vec::new(),
            bit: 0,
            all_fixed: false,
            waits: None,
            other: None,
            line_sent: (id.point, 0),
            line_known: (id.point, 0),
            unseen: 0,
            told: None,
            told_succ: 0,
            has_news: false,
            told_line: 0,
        }
    }

    pub(super) fn peer(&self) -> Peer {
        Peer { point: self.id.point, contact: self.me }
    }

    pub(super) fn point(&self) -> Point {
        self.id.point
    }

    pub(super) fn is_in(&self) -> bool {
        self.phase == Phase::In
    }

    /// The only member.
    pub(super) fn is_alone(&self) -> bool {
        self.is_in() && self.succ.is_empty()
    }

    /// The predecessor, unless it is gone.
    pub(super) fn before(&self) -> Option<Peer> {
        self.pred.filter(|pred| !pred.gone).map(|pred| pred.peer)
    }

    /// Owned range; `None` until the successor has confirmed it.
    pub(super) fn range(&self) -> Option<Range> {
        self.after.filter(|_| self.is_in()).map(|after| Range { after, upto: self.point() })
    }

    /// Owned range if no other member can own it. `None` for a member that stood still, or whose lease came
    /// from a successor that is gone: it may have been given up meanwhile (our addition: Chord answers all
    /// the same).
    pub(super) fn sure(&self, now: Time, config: &RingConfig) -> Option<Range> {
        let on_time = now.since(self.due) <= config.late;
        let held = self.acked.is_some_and(|acked| on_time && now.since(acked) <= config.lease);
        let held = held && !self.shaken || self.succ.is_empty();
        self.range().filter(|_| held)
    }

    pub(super) fn beat_after(&mut self, wait: Duration, cx: &mut Rcx<'_>) {
        self.due = cx.now + wait;
        cx.set_timer(Timer::Beat(self.id), wait);
    }

    /// Becomes the only member.
    pub(super) fn stand_alone(&mut self) {
        self.phase = Phase::In;
        self.pred = None;
        self.behind.clear();
        self.between.clear();
        self.after = Some(self.point());
        self.whole = true;
        self.seen = 0;
        self.fingers.clear();
    }

    /// Outside again; whom it knows can still help to find back.
    pub(super) fn astray(&mut self, now: Time) {
        self.phase = Phase::Seeking { tries: 0, begun: now };
        self.pred = None;
        self.behind.clear();
        self.between.clear();
        self.after = None;
        self.acked = None;
        self.seen = 0;
        self.unanswered = 0;
        self.waits = None;
    }

    /// Takes these for its successors: the first, and who it says follow. Everybody behind this
    /// member itself is left out, and so is who is dead. Whether nobody was.
    pub(super) fn follow(
        &mut self,
        first: Peer,
        list: &[Peer],
        r: usize,
        is_gone: impl Fn(&Peer) -> bool,
    ) -> bool {
        let me = self.point();
        let mut all = true;
        self.succ.clear();
        self.succ.push(first);
        self.whole = list.len() < r;
        let mut last = first.point;
        for peer in list {
            if !peer.point.is_between(last, me) {
                self.whole = true;
                break;
            }
            last = peer.point;
            match is_gone(peer) {
                true => all = false,
                false => self.succ.push(*peer),
            }
        }
        if self.succ.len() > r {
            self.succ.truncate(r);
            self.whole = false;
        }
        self.succ.shrink_to(r);
        all
    }

    /// Which way the key is. `presumed`: who asks takes this member for the owner.
    pub(super) fn way(
        &self,
        key: Point,
        presumed: bool,
        now: Time,
        config: &RingConfig,
        is_gone: impl Fn(&Peer) -> bool,
    ) -> Way {
        let me = self.point();
        let nowhere = Way::Toward { after: Vec::new(), before: Vec::new() };
        if self.sure(now, config).is_some_and(|range| range.contains(key)) {
            return Way::Mine;
        }
        let held = self.range().is_some_and(|range| range.contains(key));
        if !self.is_in() || held || key == me || self.succ.is_empty() {
            return nowhere;
        }
        if presumed {
            // Others may not have heard yet of who is before this member.
            return match self.before() {
                Some(pred) => Way::Toward { after: vec![pred], before: self.preceding(key, 1, is_gone) },
                None => nowhere,
            };
        }
        match self.succ.iter().position(|peer| !peer.point.is_between(me, key)) {
            Some(at) => {
                let after = self.succ.iter().skip(at).take(2).copied().filter(|p| !is_gone(p)).collect();
                // The one before the key may be dead as well; the first of all has just been heard.
                let known = self.succ.get(..at).unwrap_or_default();
                let before = known.last().into_iter().chain(known.first()).copied().collect();
                Way::Toward { after, before }
            }
            // The last of all others, or a hole that is being mended.
            None if self.whole => Way::Toward { after: Vec::new(), before: self.preceding(key, 1, is_gone) },
            None => Way::Toward { after: Vec::new(), before: self.preceding(key, 3, is_gone) },
        }
    }

    /// Those nearest before the key, the nearest first.
    fn preceding(&self, key: Point, most: usize, is_gone: impl Fn(&Peer) -> bool) -> Vec<Peer> {
        let me = self.point();
        let known = self.fingers.iter().map(|finger| &finger.peer).chain(&self.succ);
        let known = known.filter(|peer| peer.point.is_between(me, key) && !is_gone(peer));
        let mut best: Vec<Peer> = Vec::with_capacity(most + 1);
        for peer in known {
            let far = peer.point.to(key);
            let at = best.partition_point(|other| other.point.to(key) < far);
            if at < most && best.get(at).is_none_or(|other| other.point != peer.point) {
                best.insert(at, *peer);
                best.truncate(most);
            }
        }
        best
    }

    /// The first finger that the successors leave to be known: the lowest bit beyond the last.
    pub(super) fn lowest_bit(&self) -> u8 {
        let far = self.succ.last().map_or(0, |last| self.point().to(last.point));
        (u128::BITS - far.leading_zeros()) as u8
    }

    pub(super) fn finger(&self, bit: u8) -> Option<Peer> {
        let at = self.fingers.binary_search_by_key(&bit, |finger| finger.bit).ok()?;
        self.fingers.get(at).map(|finger| finger.peer)
    }

    pub(super) fn set_finger(&mut self, bit: u8, peer: Peer) {
        let low = self.lowest_bit();
        self.fingers.retain(|finger| finger.bit >= low && finger.bit != bit);
        if bit >= low && peer.point != self.point() {
            let at = self.fingers.partition_point(|finger| finger.bit < bit);
            if self.fingers.len() == self.fingers.capacity() {
                self.fingers.reserve_exact(1);
            }
            self.fingers.insert(at, Finger { bit, peer });
        }
    }

    /// Everybody it knows of, for who has lost its way.
    pub(super) fn others(&self) -> impl Iterator<Item = Peer> + '_ {
        let fingers = self.fingers.iter().map(|finger| finger.peer);
        self.succ.iter().copied().chain(self.before()).chain(fingers)
    }

    /// Digest that a beat carries to say which answer is known already.
    pub(super) fn digest(&self) -> u64 {
        digest([self.peer()].iter().chain(&self.before()).chain(&self.succ)).max(1)
    }
}

/// Digest of points and addresses. No protection against a node that seeks two lists with one digest.
pub(super) fn digest<'a>(peers: impl Iterator<Item = &'a Peer>) -> u64 {
    let word = |bytes: &[u8]| bytes.iter().fold(0u64, |word, byte| word << 8 ^ u64::from(*byte));
    peers.fold(0xcbf2_9ce4_8422_2325, |hash: u64, peer| {
        let contact = word(&peer.contact.ip.0).rotate_left(16) ^ u64::from(peer.contact.port);
        let folded = (peer.point.0 >> 64) as u64 ^ (peer.point.0 as u64).rotate_left(32) ^ contact;
        (hash.rotate_left(5) ^ folded).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// A list of successors of a member, as another one sent it: nobody twice, in order, and where
/// they may stand.
pub(super) fn is_in_order(of: MemberId, list: &[Peer], r: usize) -> bool {
    let mut last = of.point;
    list.len() <= r
        && list.iter().all(|peer| {
            let good = peer.point.is_between(last, of.point) && peer.fits(of.ring);
            last = peer.point;
            good
        })
}

/// Whether a predecessor list is sound: no member twice, the nearest first, each where it may stand.
pub(super) fn is_in_line(of: MemberId, line: &[Peer], r: usize) -> bool {
    let mut last = of.point;
    line.len() <= r
        && line.iter().all(|peer| {
            let good = peer.point.is_between(of.point, last) && peer.fits(of.ring);
            last = peer.point;
            good
        })
}

/// Dials under way, and who was found dead a moment ago.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Somebody is waited for who was not connected.
    pub dialled: Vec<NodeId>,
    pub gone: Vec<Gone>,
}

/// A member that was found dead, and until when others' word that it lives is not taken.
#[derive(Debug)]
pub(super) struct Gone {
    member: MemberId,
    node: NodeId,
    until: Time,
    /// It said so itself.
    left: bool,
}

/// Dials that are remembered; of older ones the end is not a death. Our choice: more than one
/// member ever has under way.
const DIALLED_MAX: usize = 128;

/// Deaths that are remembered. Our choice: a few lists of successors.
const GONE_MAX: usize = 64;

impl Links {
    pub(super) fn dial(&mut self, id: NodeId) {
        if !self.dialled.contains(&id) {
            if self.dialled.len() >= DIALLED_MAX {
                self.dialled.remove(0);
            }
            self.dialled.push(id);
        }
    }

    pub(super) fn is_gone(&self, member: MemberId, now: Time) -> bool {
        self.gone.iter().any(|gone| gone.member == member && now < gone.until)
    }

    pub(super) fn bury(&mut self, member: MemberId, node: NodeId, until: Time) {
        self.unbury(member);
        if self.gone.len() >= GONE_MAX {
            self.gone.remove(0);
        }
        self.gone.push(Gone { member, node, until, left: false });
    }

    /// Buries a member that said that it leaves: a standing connection is no sign that it is back.
    pub(super) fn bid_farewell(&mut self, member: MemberId, node: NodeId, until: Time) {
        self.bury(member, node, until);
        if let Some(gone) = self.gone.last_mut() {
            gone.left = true;
        }
    }

    pub(super) fn has_left(&self, member: MemberId, now: Time) -> bool {
        self.gone.iter().any(|gone| gone.member == member && gone.left && now < gone.until)
    }

    pub(super) fn unbury(&mut self, member: MemberId) {
        self.gone.retain(|gone| gone.member != member);
    }

    /// A connection stands: its node lives.
    pub(super) fn up(&mut self, node: NodeId) {
        self.gone.retain(|gone| gone.node != node);
        self.dialled.retain(|id| *id != node);
    }
}
