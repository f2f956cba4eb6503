//! Marks of jobs that wait, and idle nodes that wait for them: what a meeting node keeps, and what a capable node keeps
//! of the marks that were left with it.

use super::message::{Ability, Line, Mark, Share};
use super::urgency::Scale;
use crate::address::{Address, Contact};
use crate::capability::Capability;
use crate::ids::{JobId, NodeId};
use crate::requires::Numbers;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Marks that a node keeps. Our choice: 32 meeting nodes have room for 250,000 jobs that wait, in some 2 MB each.
const MARKS: usize = 16 << 10;

/// Marks of one owner. A job has one at a meeting node, however many units it has. Our choice: a quarter, so that who
/// submits 10,000 jobs leaves room for others.
const OF_ONE: usize = MARKS / 4;

/// Idle nodes that a meeting node keeps. Our choice: of 10,000 idle nodes each is at 2 of 32.
const PARKED: usize = 4096;

/// Time after which a mark is thrown away. Our choice: one at a capable node is not renewed, and a job that few nodes can
/// run may wait for long; who claims one of an owner that has none left throws it away.
const LAPSE: Duration = Duration::from_secs(4 * 3600);

/// Time for which a share is taken for known that nobody tells when it changes. Our choice: of units that take minutes a
/// tenth ends in it.
const SHARE_KNOWN: Duration = Duration::from_secs(20);

/// Time after which a parked node is forgotten; it parks elsewhere before.
pub(super) const LEAVES: Duration = Duration::from_secs(200);

/// Lines of one answer. Our choice: most often the first one is still there.
pub(super) const LINES: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Marks {
    /// By owner and job.
    marks: BTreeMap<(NodeId, JobId), Kept>,
}

#[derive(Debug)]
struct Kept {
    owner: Contact,
    needs: Capability,
    words: Numbers,
    /// Meeting points at which it was left, a bit each.
    at: u32,
    /// Since when it counts as waiting: its scarcity has moved that back.
    since: i64,
    share: Share,
    /// When the share was told.
    told: Time,
    heard: Time,
}

impl Kept {
    /// Share of its submitter. A mark that was left with this node alone is not told when that changes.
    fn share_at(&self, now: Time) -> Share {
        let is_known = self.at != 0 || now.since(self.told) < SHARE_KNOWN;
        Share { running: self.share.running.filter(|_| is_known), ..self.share }
    }
}

/// Bit of a meeting point.
fn bit(meeting: u8) -> u32 {
    1u32.checked_shl(u32::from(meeting)).unwrap_or_default()
}

pub(super) fn millis(time: Time) -> i64 {
    i64::try_from(time.0 / 1000).unwrap_or(i64::MAX)
}

impl Marks {
    /// Keeps a mark, in place of an earlier one of the job. Says whether there was room for it.
    pub(super) fn put(&mut self, mark: &Mark, now: Time) -> bool {
        let key = (mark.owner.id, mark.job);
        if !self.marks.contains_key(&key) {
            // Marks that have lapsed are told to nobody, and thrown away when their room is needed.
            if !self.has_room(mark.owner.id) {
                self.marks.retain(|_, kept| now.since(kept.heard) < LAPSE);
            }
            if !self.has_room(mark.owner.id) {
                return false;
            }
        }
        let since = millis(now) - i64::from(mark.age_ms) - i64::from(mark.bonus_ms);
        let before = self.marks.get(&key).map_or(0, |kept| kept.at);
        let at = before | mark.meeting.map_or(0, bit);
        let kept = Kept {
            owner: mark.owner,
            needs: mark.needs,
            words: mark.words,
            at,
            since,
            share: mark.share,
            told: now,
            heard: now,
        };
        self.marks.insert(key, kept);
        true
    }

    fn has_room(&self, owner: NodeId) -> bool {
        let of_one = self.marks.range((owner, JobId([0; 16]))..=(owner, JobId([255; 16]))).count();
        self.marks.len() < MARKS && of_one < OF_ONE
    }

    pub(super) fn remove(&mut self, owner: NodeId, job: JobId) {
        self.marks.remove(&(owner, job));
    }

    /// Needs of a job that is marked here, if a node with these abilities can run it.
    pub(super) fn needs_of(&self, owner: NodeId, job: JobId, able: &Ability) -> Option<Capability> {
        let kept = self.marks.get(&(owner, job))?;
        able.runs(job, &kept.needs, &kept.words).then_some(kept.needs)
    }

    /// Since when a job that is marked here counts as waiting, milliseconds.
    pub(super) fn since(&self, owner: NodeId, job: JobId) -> Option<i64> {
        self.marks.get(&(owner, job)).map(|kept| kept.since)
    }

    /// Shares of submitters of the owner.
    pub(super) fn shares(&mut self, owner: NodeId, shares: &[Share], now: Time) {
        let shares: BTreeMap<u32, Share> = shares.iter().map(|share| (share.submitter, *share)).collect();
        for (_, kept) in self.marks.range_mut((owner, JobId([0; 16]))..=(owner, JobId([255; 16]))) {
            if let Some(share) = shares.get(&kept.share.submitter) {
                (kept.share, kept.told) = (*share, now);
            }
        }
    }

    /// This node owns the meeting point no more. Owners of the marks that were left at it; those that were left nowhere
    /// else are thrown away.
    pub(super) fn lose(&mut self, meeting: u8) -> Vec<Contact> {
        let mut owners = BTreeMap::new();
        self.marks.retain(|(owner, _), kept| {
            let was_there = kept.at & bit(meeting) != 0;
            if was_there {
                owners.insert(*owner, kept.owner);
                kept.at &= !bit(meeting);
            }
            !was_there || kept.at != 0
        });
        owners.into_values().collect()
    }

    /// The owner is dead.
    pub(super) fn forget(&mut self, owner: NodeId) {
        self.marks.retain(|(of, _), _| *of != owner);
    }

    /// Marks of jobs that a node with these abilities can run, the best first.
    pub(super) fn best_for(&self, node: &Ability, now: Time) -> Vec<Line> {
        let is_here = |job: JobId, kept: &Kept| {
            now.since(kept.heard) < LAPSE && node.runs(job, &kept.needs, &kept.words)
        };
        let fitting = || self.marks.iter().filter(|((_, job), kept)| is_here(*job, kept));
        let share = |kept: &Kept| kept.share_at(now);
        let scale = Scale::of(fitting().map(|(_, kept)| share(kept).running));
        let waited = |kept: &Kept| u32::try_from(millis(now) - kept.since).unwrap_or(u32::MAX);
        let urgency = |kept: &Kept| scale.urgency(waited(kept), share(kept).running);
        let mut all: Vec<(i64, (NodeId, JobId), &Kept)> =
            fitting().map(|(key, kept)| (urgency(kept), *key, kept)).collect();
        all.sort_unstable_by_key(|(urgency, key, _)| (Reverse(*urgency), *key));
        let lines = all.into_iter().take(LINES);
        lines
            .map(|(_, (_, job), kept)| Line {
                owner: kept.owner,
                job,
                waited_ms: waited(kept),
                share: share(kept),
            })
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        self.marks.len()
    }

    pub(super) fn check(&self) {
        assert!(self.marks.len() <= MARKS, "marks are bounded");
    }
}

/// Idle nodes.
#[derive(Debug, Default)]
pub(super) struct Parked {
    nodes: BTreeMap<NodeId, Idler>,
}

#[derive(Debug)]
struct Idler {
    /// The node, which is told by way of its gateway if it is a guest.
    node: Address,
    able: Ability,
    /// Meeting points at which it asked, a bit each.
    at: u32,
    since: Time,
}

impl Idler {
    /// Whether that node speaks for it.
    fn is_told_by(&self, hop: NodeId) -> bool {
        self.node.first_hop().is_some_and(|first| first.id == hop)
    }

    fn is_here(&self, now: Time) -> bool {
        now.since(self.since) < LEAVES
    }
}

impl Parked {
    pub(super) fn park(&mut self, node: Address, able: Ability, meeting: u8, now: Time) {
        self.nodes.retain(|_, idler| idler.is_here(now));
        let before = self.nodes.get(&node.id).map(|idler| idler.at);
        if self.nodes.len() < PARKED || before.is_some() {
            let at = before.unwrap_or_default() | bit(meeting);
            self.nodes.insert(node.id, Idler { node, able, at, since: now });
        }
        // Else it has other meeting nodes.
    }

    /// This node owns the meeting point no more. Nodes that were parked at it; those that were parked nowhere else are
    /// forgotten.
    pub(super) fn lose(&mut self, meeting: u8) -> Vec<Address> {
        let was_there = |idler: &Idler| idler.at & bit(meeting) != 0;
        let lost = self.nodes.values().filter(|idler| was_there(idler)).map(|idler| idler.node).collect();
        self.nodes.values_mut().for_each(|idler| idler.at &= !bit(meeting));
        self.nodes.retain(|_, idler| idler.at != 0);
        lost
    }

    /// The node is busy now, says itself or its gateway.
    pub(super) fn remove(&mut self, node: NodeId, said_by: NodeId) {
        if self.nodes.get(&node).is_some_and(|idler| idler.is_told_by(said_by)) {
            self.nodes.remove(&node);
        }
    }

    /// A node cannot be reached: it is gone, and so are its guests.
    pub(super) fn forget(&mut self, hop: NodeId) {
        self.nodes.retain(|_, idler| !idler.is_told_by(hop));
    }

    /// Takes the node out that can do least of those that can run this: others are kept for jobs that need more.
    pub(super) fn take_for(&mut self, mark: &Mark, now: Time) -> Option<(Address, u8)> {
        let all = || self.nodes.values().map(|idler| &idler.able.capability);
        let most = all().fold(Capability::default(), |most, one| most.join(one));
        let runs = |idler: &Idler| idler.able.runs(mark.job, &mark.needs, &mark.words);
        let fitting = self.nodes.iter().filter(|(_, idler)| idler.is_here(now) && runs(idler));
        let least = fitting.min_by_key(|(node, idler)| (weight(&idler.able.capability, &most), **node));
        let node = least.map(|(node, _)| *node)?;
        let meeting = |idler: &Idler| u8::try_from(idler.at.trailing_zeros()).unwrap_or(u8::MAX);
        self.nodes.remove(&node).map(|idler| (idler.node, meeting(&idler)))
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn check(&self) {
        assert!(self.nodes.len() <= PARKED, "parked nodes are bounded");
    }
}

/// How much a node can do beside the most there is: thousandths of each size, and a word as much as a tenth of one.
fn weight(one: &Capability, most: &Capability) -> u64 {
    let parts = one.sizes().into_iter().zip(most.sizes());
    let sizes: u64 = parts.map(|(one, most)| u64::from(one) * 1000 / u64::from(most.max(1))).sum();
    sizes + 100 * u64::from(one.words.0.count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Ip;

    fn contact(at: u8) -> Contact {
        Contact { ip: Ip([at; 16]), id: NodeId([at; 32]), port: 4001 }
    }

    fn needs(memory: u32) -> Capability {
        Capability { memory, ..Capability::default() }
    }

    fn able(memory: u32) -> Ability {
        Ability { capability: needs(memory), ..Ability::default() }
    }

    fn job(number: u64) -> JobId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        JobId(id)
    }

    fn mark(owner: u8, number: u64, memory: u32, age_s: u32, bonus_s: u32) -> Mark {
        let (age_ms, bonus_ms) = (age_s * 1000, bonus_s * 1000);
        let (meeting, owner, job, needs) = (Some(0), contact(owner), job(number), needs(memory));
        let share = Share { submitter: 0, running: Some(0) };
        let words = Numbers::default();
        Mark { meeting, owner, job, needs, words, units: 1, age_ms, bonus_ms, share, room_ms: 0 }
    }

    fn at(s: u64) -> Time {
        Time(s * 1_000_000)
    }

    fn numbers(marks: &Marks, node: u32, now: Time) -> Vec<u8> {
        marks.best_for(&able(node), now).iter().map(|line| line.job.0[0]).collect()
    }

    #[test]
    fn a_node_takes_the_job_with_the_most_of_age_and_scarcity_that_it_can_run() {
        let mut marks = Marks::default();
        for mark in
            [mark(1, 1, 10, 50, 0), mark(1, 2, 20, 0, 60), mark(2, 3, 10, 55, 0), mark(2, 4, 90, 500, 0)]
        {
            assert!(marks.put(&mark, at(100)));
        }
        assert_eq!(numbers(&marks, 50, at(100)), [2, 3, 1]);
        assert_eq!(numbers(&marks, 15, at(100)), [3, 1], "what it cannot run it is not told");
        assert_eq!(marks.best_for(&able(15), at(130))[0].waited_ms, 85_000);
        marks.remove(contact(1).id, job(2));
        marks.forget(contact(2).id);
        assert_eq!(numbers(&marks, 99, at(100)), [1]);
        assert!(numbers(&marks, 99, at(100) + LAPSE).is_empty());
    }

    #[test]
    fn whoever_has_much_running_waits_for_those_that_have_nothing() {
        let mut marks = Marks::default();
        let of = |submitter, mark: Mark| Mark { share: Share { submitter, running: Some(0) }, ..mark };
        for mark in [of(1, mark(1, 1, 1, 100, 0)), of(2, mark(1, 2, 1, 60, 0)), of(1, mark(2, 3, 1, 50, 0))] {
            assert!(marks.put(&mark, at(100)));
        }
        assert_eq!(numbers(&marks, 1, at(100)), [1, 2, 3]);
        marks.shares(contact(1).id, &[Share { submitter: 1, running: Some(99_000) }], at(100));
        assert_eq!(numbers(&marks, 1, at(100)), [2, 3, 1]);
        marks.shares(contact(1).id, &[Share { submitter: 2, running: Some(99_000) }], at(100));
        assert_eq!(numbers(&marks, 1, at(100)), [3, 1, 2]);
    }

    #[test]
    fn marks_of_one_owner_leave_room_for_others() {
        let mut marks = Marks::default();
        let taken = (0..10_000).filter(|number| marks.put(&mark(1, *number, 1, 0, 0), at(0))).count();
        assert_eq!((taken, marks.len()), (OF_ONE, OF_ONE));
        assert!(marks.put(&mark(1, 5, 1, 9, 0), at(0)), "one that is known is renewed");
        assert!(marks.put(&mark(2, 5, 1, 0, 0), at(0)));
        assert!(marks.put(&mark(1, 20_000, 1, 0, 0), at(0) + LAPSE), "the others have lapsed");
        assert_eq!(marks.len(), 1);
    }

    #[test]
    fn what_was_left_at_a_point_that_is_lost_goes_and_the_rest_stays() {
        let mut marks = Marks::default();
        for (number, meeting) in [(1, Some(3)), (2, Some(3)), (2, Some(7)), (3, None)] {
            assert!(marks.put(&Mark { meeting, ..mark(number as u8, number, 1, 0, 0) }, at(0)));
        }
        assert_eq!(marks.lose(3), [contact(1), contact(2)]);
        assert_eq!(marks.len(), 2, "one is left at another point, and one with the node itself");
        assert_eq!(marks.lose(7), [contact(2)]);
        assert!(marks.lose(9).is_empty() && marks.len() == 1);

        let mut parked = Parked::default();
        for (node, meeting) in [(1, 3), (2, 3), (2, 7)] {
            parked.park(contact(node).into(), able(1), meeting, at(0));
        }
        assert_eq!(parked.lose(3), [contact(1).into(), contact(2).into()]);
        assert_eq!(
            (parked.len(), parked.take_for(&mark(1, 1, 0, 0, 0), at(1))),
            (1, Some((contact(2).into(), 7)))
        );
    }

    #[test]
    fn the_idle_node_that_can_do_least_is_taken() {
        let mut parked = Parked::default();
        for (node, memory) in [(1, 80), (2, 40), (3, 60)] {
            parked.park(contact(node).into(), able(memory), node, at(0));
        }
        assert_eq!(parked.take_for(&mark(1, 1, 50, 0, 0), at(1)), Some((contact(3).into(), 3)));
        assert_eq!(parked.take_for(&mark(1, 1, 50, 0, 0), at(1)), Some((contact(1).into(), 1)));
        assert_eq!(parked.take_for(&mark(1, 1, 50, 0, 0), at(1)), None);
        assert_eq!(
            parked.take_for(&mark(1, 1, 0, 0, 0), at(0) + LEAVES),
            None,
            "it has parked elsewhere since"
        );
        parked.park(contact(4).into(), able(1), 4, at(300));
        assert_eq!(parked.len(), 1);
        let guest = Address::guest(contact(5).id, contact(4));
        parked.park(guest, able(1), 4, at(300));
        parked.remove(guest.id, contact(6).id);
        assert_eq!(parked.len(), 2, "a stranger takes nobody away");
        parked.forget(contact(4).id);
        assert_eq!(parked.len(), 0, "a guest goes with its gateway");
    }
}
