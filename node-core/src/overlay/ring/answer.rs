//! Lookups of others: the owner answers, everybody else says who is nearer, or passes it on.

use super::member::Way;
use super::message::{Find, Message, Mine, NEXT_MAX, Next};
use super::{Rcx, Ring, fault};
use crate::circle::{Located, Peer};
use crate::circle::{MemberId, Point};
use crate::ids::NodeId;

/// Longest way of a request that is passed on. Our choice: four times what a ring of 2^32 takes.
const HOPS_MAX: u8 = 64;

impl Ring {
    pub(super) fn find(&mut self, from: NodeId, find: Find, cx: &mut Rcx<'_>) {
        let (ring, key) = (find.ring, find.key);
        if find.hops <= 1 && find.pass.is_some_and(|asker| asker.id != from) {
            return fault(from, "looks up for another node", cx);
        }
        let joins = find.joins.then_some(from);
        let member = match find.to {
            Some(point) => {
                self.members.get(&MemberId { ring, point }).map(|it| &**it).filter(|member| member.is_in())
            }
            None => self.nearest(ring, key),
        };
        let Some(member) = member else {
            let stuck = Next {
                ticket: find.ticket,
                from: find.to.unwrap_or(key),
                peers: Vec::new(),
                hops: find.hops,
            };
            return self.reply(from, &find, Message::Next(Box::new(stuck)), cx);
        };
        let point = member.point();
        // A predecessor that restarted and joins again has not been missed yet.
        let again = joins.is_some()
            && member.pred.is_some_and(|pred| pred.peer.point == key && Some(pred.peer.id()) == joins)
            && member.sure(cx.now, &self.config).is_some();
        let way = if again { Way::Mine } else { self.way(member, key, find.after, joins, cx) };
        match way {
            Way::Mine => {
                // The range that waits for the predecessor is left out: the answer covers the key alone.
                let after = member.after.filter(|_| !again).unwrap_or(Point(key.0.wrapping_sub(1)));
                let found =
                    Located { owner: member.peer(), after, replicas: member.succ.clone(), hops: find.hops };
                let mine = Mine { ticket: find.ticket, found };
                self.reply(from, &find, Message::Mine(Box::new(mine)), cx);
            }
            Way::Toward { after, before } => {
                let next =
                    after.first().map(|peer| (*peer, true)).or(before.first().map(|peer| (*peer, false)));
                match next.filter(|_| find.pass.is_some() && find.hops < HOPS_MAX) {
                    Some((peer, presumed)) => self.pass(find, peer, presumed, cx),
                    None => {
                        let mut peers = after;
                        peers.extend(before);
                        peers.retain(|peer| peer.point != point);
                        peers.truncate(NEXT_MAX);
                        let next = Next { ticket: find.ticket, from: point, peers, hops: find.hops };
                        self.reply(from, &find, Message::Next(Box::new(next)), cx);
                    }
                }
            }
        }
    }

    fn pass(&mut self, find: Find, peer: Peer, presumed: bool, cx: &mut Rcx<'_>) {
        let hops = find.hops + 1;
        let find = Find { to: Some(peer.point), after: presumed, hops, ..find };
        self.links.send(&peer.contact, Message::Find(Box::new(find)), cx);
    }

    /// To whoever asked, even if others passed it on.
    fn reply(&mut self, from: NodeId, find: &Find, message: Message, cx: &mut Rcx<'_>) {
        match &find.pass {
            Some(asker) => self.links.send(asker, message, cx),
            None => cx.send(from, message),
        }
    }
}
