//! A node's knowledge of its rings: for checkers and for people.

use super::member::{Between, Finger, Member, Phase};
use super::{Ring, RingConfig};
use crate::address::Contact;
use crate::circle::Peer;
use crate::circle::{MemberId, Point, Range};
use crate::time::Time;
use std::mem::size_of;
use std::sync::Arc;

#[derive(Clone, Copy)]
pub struct RingView<'a>(&'a Ring);

#[derive(Clone, Copy)]
pub struct MemberView<'a> {
    member: &'a Member,
    config: &'a RingConfig,
}

impl<'a> RingView<'a> {
    pub fn members(self) -> impl Iterator<Item = MemberView<'a>> {
        self.0.members.values().map(move |member| MemberView { member, config: &self.0.config })
    }

    /// Lookups that are under way, upkeep included.
    pub fn lookups(self) -> usize {
        self.0.lookups.len()
    }
}

impl<'a> MemberView<'a> {
    pub fn id(self) -> MemberId {
        self.member.id
    }

    pub fn contact(self) -> Contact {
        self.member.me
    }

    /// It has its place.
    pub fn joined(self) -> bool {
        self.member.is_in()
    }

    /// It has asked for it, or has it.
    pub fn takes_part(self) -> bool {
        matches!(self.member.phase, Phase::Asking | Phase::In)
    }

    pub fn predecessor(self) -> Option<Peer> {
        self.member.before()
    }

    /// Predecessor list, the nearest first: the predecessor, then the members that it named.
    pub fn line(self) -> Vec<Peer> {
        self.member.line(self.config.r())
    }

    /// In order, the next one first.
    pub fn successors(self) -> &'a [Peer] {
        &self.member.succ
    }

    /// How far on at least, as a power of two, and who is there.
    pub fn fingers(self) -> impl Iterator<Item = (u8, Peer)> + 'a {
        self.member.fingers.iter().map(|finger| (finger.bit, finger.peer))
    }

    /// Owned range; `None` until the successor has confirmed it.
    pub fn range(self) -> Option<Range> {
        self.member.range()
    }

    /// Range of keys that the member answers for; `None` without a current lease.
    pub fn answers_for(self, now: Time) -> Option<Range> {
        self.member.sure(now, self.config)
    }
}

impl Ring {
    pub fn view(&self) -> RingView<'_> {
        RingView(self)
    }

    /// Bytes of memory that this state takes, roughly.
    pub fn memory(&self) -> usize {
        let member = |member: &Member| {
            size_of::<Member>()
                + (member.succ.capacity() + member.behind.capacity()) * size_of::<Peer>()
                + member.between.capacity() * size_of::<Between>()
                + member.fingers.capacity() * size_of::<Finger>()
        };
        size_of::<Ring>()
            + self.members.values().map(|it| member(it)).sum::<usize>()
            + self.known.memory()
            + self.lookups.len() * size_of::<super::Lookup>()
            + (self.links.dialled.capacity() + self.held.capacity()) * 32
            + self.links.gone.capacity() * size_of::<super::member::Gone>()
    }

    /// A node with one member as it is in a ring at rest of exactly these, sorted by point: for
    /// measuring rings that are too large to grow. Its lease never ends, and it beats only when
    /// spoken to.
    pub fn at_rest(
        config: impl Into<Arc<RingConfig>>,
        all: &[Peer],
        at: usize,
        ring: crate::circle::RingId,
    ) -> Ring {
        let mut node = Ring::new(config);
        let count = all.len();
        let Some(me) = all.get(at) else { return node };
        let id = MemberId { ring, point: me.point };
        let mut member = Member::new(id, me.contact, Time::ZERO);
        member.stand_alone();
        let r = node.config.r();
        let behind = |by: usize| all.get((at + by) % count).copied();
        member.succ = (1..count).take(r).filter_map(behind).collect();
        member.whole = count <= r + 1;
        if let Some(pred) = behind(count - 1).filter(|_| count > 1) {
            member.pred =
                Some(super::member::Pred { peer: pred, heard: Time(u64::MAX), gone: false, left: false });
            member.after = Some(pred.point);
            member.acked = Some(Time(u64::MAX));
            member.due = Time(u64::MAX);
        }
        if !member.whole {
            for bit in member.lowest_bit()..128 {
                let key: Point = me.point.jump(bit);
                let next = all.partition_point(|peer| peer.point < key) % count;
                if let Some(peer) = all.get(next) {
                    member.set_finger(bit, *peer);
                }
            }
        }
        node.members.insert(id, Box::new(member));
        node
    }
}
