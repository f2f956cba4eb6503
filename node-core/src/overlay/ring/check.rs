//! Whether many nodes' members of a ring are one ring: for tests and simulations.

use super::view::{MemberView, RingView};
use crate::circle::{MemberId, Point, RingId};
use crate::time::Time;
use std::collections::BTreeMap;

/// Describes every fault of a ring in words. In any case: no key has two owners, all pointers lead into one
/// ordered ring (the invariant of paper `zave`, its parts by her names), lists are in order. If `strict`, the
/// ring is also ideal: every member is in, with exactly the neighbours that there are.
pub fn check(views: &[RingView<'_>], ring: RingId, now: Time, r: usize, strict: bool) -> Vec<String> {
    let members = views.iter().flat_map(|view| view.members()).filter(|member| member.id().ring == ring);
    let members: BTreeMap<Point, MemberView<'_>> =
        members.map(|member| (member.id().point, member)).collect();
    let mut wrong = Vec::new();
    owners(&members, now, &mut wrong);
    one_ring(&members, &mut wrong);
    if strict {
        ideal(&members, r, now, &mut wrong);
    }
    wrong
}

/// No key has two owners.
fn owners(members: &BTreeMap<Point, MemberView<'_>>, now: Time, wrong: &mut Vec<String>) {
    let owned: Vec<_> = members.values().filter_map(|member| member.answers_for(now)).collect();
    for (i, range) in owned.iter().enumerate() {
        // In order of their ends, so that only the next one can reach into it from behind.
        let next = &owned[(i + 1) % owned.len()];
        if owned.len() > 1 && (next.contains(range.upto) || range.contains(next.upto)) {
            wrong.push(format!("{range:?} and {next:?} are both owned"));
        }
    }
}

/// The first successor that lives, of all members that are in, leads into one ordered ring.
fn one_ring(members: &BTreeMap<Point, MemberView<'_>>, wrong: &mut Vec<String>) {
    let is_in: Vec<Point> = members.values().filter(|m| m.joined()).map(|m| m.id().point).collect();
    let next = |point: &Point| {
        let list = members.get(point)?.successors();
        let lives = |point: &Point| members.get(point).is_some_and(|member| member.takes_part());
        list.iter().map(|peer| peer.point).find(lives)
    };
    let mut rings: BTreeMap<Point, Vec<Point>> = BTreeMap::new();
    // The ring that each leads into, by its lowest point.
    let mut leads: BTreeMap<Point, Option<Point>> = BTreeMap::new();
    for start in &is_in {
        let mut way: Vec<Point> = vec![*start];
        let mut at = *start;
        let end = loop {
            if let Some(known) = leads.get(&at) {
                break *known;
            }
            let Some(to) = next(&at) else {
                let alone =
                    members.get(&at).is_some_and(|member| member.joined() && member.successors().is_empty());
                if alone {
                    rings.insert(at, vec![at]);
                }
                break alone.then_some(at);
            };
            if let Some(begin) = way.iter().position(|known| *known == to) {
                let ring = way[begin..].to_vec();
                let lowest = ring.iter().min().copied();
                rings.extend(lowest.map(|lowest| (lowest, ring)));
                break lowest;
            }
            way.push(to);
            at = to;
        };
        leads.extend(way.into_iter().map(|point| (point, end)));
    }
    if rings.len() > 1 {
        wrong.push(format!("AtMostOneRing: {} of them", rings.len()));
    }
    if rings.is_empty() && !is_in.is_empty() {
        wrong.push("AtLeastOneRing: there is none".into());
    }
    for ring in rings.values() {
        let descents = (0..ring.len()).filter(|i| ring[*i] >= ring[(i + 1) % ring.len()]).count();
        if descents != 1 {
            wrong.push(format!("OrderedRing: it goes over the top {descents} times"));
        }
    }
    let lost = leads.iter().filter(|(_, end)| end.is_none());
    wrong.extend(lost.map(|(point, _)| format!("ConnectedAppendages: {point:?} leads nowhere")));
}

fn ideal(members: &BTreeMap<Point, MemberView<'_>>, r: usize, now: Time, wrong: &mut Vec<String>) {
    let all: Vec<Point> = members.keys().copied().collect();
    let count = all.len();
    for (at, member) in members.values().enumerate() {
        let MemberId { point, .. } = member.id();
        if !member.joined() {
            wrong.push(format!("{point:?} has no place"));
            continue;
        }
        let right: Vec<Point> = (1..count).take(r).map(|by| all[(at + by) % count]).collect();
        let list: Vec<Point> = member.successors().iter().map(|peer| peer.point).collect();
        if list != right {
            wrong.push(format!("{point:?} is followed by {list:?}, and should be by {right:?}"));
        }
        let before = all[(at + count - 1) % count];
        if count > 1 && member.predecessor().map(|pred| pred.point) != Some(before) {
            let says = member.predecessor().map(|pred| pred.point);
            wrong.push(format!("{point:?} is behind {before:?}, not {says:?}"));
        }
        let range = member.answers_for(now).map(|range| (range.after, range.upto));
        if range != Some((before, point)) {
            wrong.push(format!("{point:?} owns {range:?}, not all behind {before:?}"));
        }
    }
}
