//! A node's knowledge of the branch below it, and others' knowledge of that branch (paper `tree`, section 4).
//!
//! A parent keeps an [`Entry`] a child; a node keeps a [`Told`] of what its parent, or each of
//! its peers in the root group, believes of its branch. Both sides compute the same bounds from
//! the last state told and the tasks given since, so nobody has to say what the other knows.

use super::config::{NearestConfig, Policy};
use super::state::{NOWHERE, State, step};
use crate::address::Contact;
use crate::finding::Needs;
use crate::ids::NodeId;
use crate::time::Time;

/// The largest power of two not above it.
fn floor(free: u32) -> u32 {
    free.checked_ilog2().map_or(0, |log| 1 << log)
}

/// Free slots are announced at once if they are at least a fourth of a branch. Our choice: with a sixteenth
/// the root of 50,000 busy nodes hears four times as much, and sends as many in vain.
const MUCH: u64 = 4;

/// How far a count may move before it is told, in the quiet way. Our choice: what a count of
/// independent nodes wanders by chance, a quarter at least, and nothing for the last few slots.
fn slack(free: u32) -> u32 {
    free.isqrt().saturating_sub(1).max(free / 4)
}

/// Free slots, at least and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub low: u32,
    pub high: u32,
}

impl Bounds {
    /// Free slots that the parent of a branch assumes after this announcement.
    fn of(state: &State, config: &NearestConfig) -> Bounds {
        if config.quiet() {
            let high = state.high.saturating_add(slack(state.high)).min(state.slots);
            return Bounds { low: state.low - slack(state.low), high };
        }
        if config.changes.ranges {
            // An announced power of two means all up to the next one.
            let high = floor(state.high).saturating_mul(2).saturating_sub(1).min(state.slots);
            return Bounds { low: floor(state.low).min(high), high };
        }
        let stored = match config.policy {
            Policy::Conservative => floor(state.high),
            Policy::Optimistic => state.high,
        };
        Bounds { low: stored, high: stored }
    }

    /// So many tasks were given to the branch since.
    fn less(self, tasks: u32) -> Bounds {
        Bounds { low: self.low.saturating_sub(tasks), high: self.high.saturating_sub(tasks) }
    }

    /// So many of them could not be met, though there are free slots.
    fn back(self, tasks: u32, slots: u32) -> Bounds {
        let plus = |free: u32| free.saturating_add(tasks).min(slots);
        Bounds { low: plus(self.low), high: plus(self.high) }
    }
}

/// A branch, as the node above it or beside it knows it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub contact: Contact,
    pub state: State,
    pub bounds: Bounds,
    /// Tasks given to it, all in all.
    given: u32,
    /// `given` when it last repeated its state.
    settled: u32,
    /// So many slots count as free again at that time, unless it says otherwise before.
    returns: Option<(Time, u32)>,
    /// Units that did not come to run there, halved with time; the branch is asked last.
    pub refusals: u8,
    /// A guest of this host: in no tree, and told by its host.
    pub guest: bool,
}

impl Entry {
    pub(super) fn new(contact: Contact) -> Entry {
        Entry {
            contact,
            state: State { hops: NOWHERE, ..State::default() },
            bounds: Bounds::default(),
            given: 0,
            settled: 0,
            returns: None,
            refusals: 0,
            guest: false,
        }
    }

    /// State of the child's branch for the branch above.
    fn summary(&self) -> State {
        State { low: self.bounds.low, high: self.bounds.high, ..self.state }
    }

    pub(super) fn may_meet(&self, needs: &Needs) -> bool {
        self.bounds.high > 0 && self.state.may_meet(needs)
    }

    /// So many of its free slots may meet them.
    pub(super) fn most_for(&self, needs: &Needs) -> u32 {
        self.bounds.high.min(self.state.sized_for(needs.memory_bytes))
    }

    /// It said this, having received so many tasks.
    pub(super) fn told(&mut self, state: State, got: u32, refresh: bool, config: &NearestConfig) {
        if refresh {
            // Tasks that were on the way at the last refresh, and still are, were lost.
            let lost = self.settled.wrapping_sub(got);
            if lost != 0 && lost < 1 << 31 {
                self.given = got;
            }
            self.settled = self.given;
        }
        self.state = state;
        self.bounds = Bounds::of(&state, config);
        let on_the_way = self.given.wrapping_sub(got);
        if on_the_way == 0 {
            self.returns = None;
        }
        // More than half the circle is a count of another time.
        if config.quiet() && on_the_way < 1 << 31 {
            self.bounds = self.bounds.less(on_the_way);
        }
    }

    /// It is as its host says, which has counted all tasks itself.
    pub(super) fn say(&mut self, state: State, config: &NearestConfig) {
        self.told(state, self.given, false, config);
    }

    /// It is not to be reached.
    pub(super) fn lose(&mut self) {
        self.bounds = Bounds::default();
        self.returns = None;
        self.state = State { low: 0, high: 0, power: 0, hops: NOWHERE, ..self.state };
    }

    /// Counts tasks that it is given; the total goes with them.
    pub(super) fn give(&mut self, tasks: u32, config: &NearestConfig) -> u32 {
        self.given = self.given.wrapping_add(tasks);
        if config.quiet() {
            self.bounds = self.bounds.less(tasks);
        }
        self.given
    }

    /// Modification: what it was given just now counts as free again after that time.
    pub(super) fn predict(&mut self, at: Time, tasks: u32) {
        let (before, more) = self.returns.unwrap_or((at, 0));
        self.returns = Some((before.max(at), more.saturating_add(tasks)));
    }

    pub(super) fn returns_at(&self) -> Option<Time> {
        self.returns.map(|(at, _)| at)
    }

    /// Counts as free what should be by now.
    pub(super) fn come_back(&mut self, now: Time) {
        if let Some((_, tasks)) = self.returns.take_if(|(at, _)| *at <= now) {
            self.bounds = self.bounds.back(tasks, self.state.slots);
        }
    }

    /// It sent back some of what it was given: unless that was for their needs, it has nothing
    /// left.
    pub(super) fn refused(&mut self, tasks: u32, for_needs: bool, config: &NearestConfig) {
        self.returns = None;
        if for_needs {
            if config.quiet() {
                self.bounds = self.bounds.back(tasks, self.state.slots);
            }
        } else {
            self.bounds = Bounds::default();
        }
    }
}

/// Another node's belief about this node's branch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    state: Option<State>,
    bounds: Bounds,
    /// Tasks received from it, all in all, by its own count.
    got: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    None,
    /// The declared slots, or what kind of nodes there are.
    Later,
    Now,
}

impl Told {
    /// It gave tasks, and counts so many all in all.
    pub(super) fn received(&mut self, given: u32, config: &NearestConfig) {
        let new = given.wrapping_sub(self.got);
        if new < 1 << 31 {
            self.got = given;
            if config.quiet() {
                self.bounds = self.bounds.less(new);
            }
        }
    }

    /// It is told that so many of the tasks it gave come back.
    pub(super) fn refuse(&mut self, tasks: u32, for_needs: bool, config: &NearestConfig) {
        let Some(state) = &mut self.state else { return };
        if for_needs {
            if config.quiet() {
                self.bounds = self.bounds.back(tasks, state.slots);
            }
        } else {
            self.bounds = Bounds::default();
            (state.low, state.high, state.power, state.hops) = (0, 0, 0, NOWHERE);
        }
    }

    /// Whether the branch is no longer what the other believes.
    pub(super) fn news(&self, now: &State, config: &NearestConfig) -> News {
        let Some(told) = &self.state else { return News::Now };
        let important = if config.quiet() {
            let fresh = Bounds::of(now, config);
            let (believed, real) = (self.bounds.high - self.bounds.low, fresh.high - fresh.low);
            now.low < self.bounds.low
                || now.high > self.bounds.high
                || (now.high == 0 && self.bounds.high > 0)
                || believed > 2 * real + now.low / 2 + 2
                || (now.high > 0 && step(now.power) != step(told.power))
        } else {
            // The leading bit, the maximum and the minimum.
            floor(now.high) != floor(told.high) || now.power != told.power || now.hops != told.hops
        };
        if important {
            News::Now
        } else if now.slots != told.slots
            || now.memory != told.memory
            || now.sizes != told.sizes
            || now.kinds != told.kinds
        {
            News::Later
        } else {
            News::None
        }
    }

    /// Whether the other will know without a word that so many more are free.
    pub(super) fn will_know(&self, now: &State, returning: u32) -> bool {
        let expected = self.bounds.high.saturating_add(returning);
        self.state.is_some() && (self.bounds.high..=expected).contains(&now.high)
    }

    /// Slots that it gave tasks to count as free again.
    pub(super) fn come_back(&mut self, tasks: u32) {
        if let Some(state) = &self.state {
            self.bounds = self.bounds.back(tasks, state.slots);
        }
    }

    /// Whether news cannot wait for a second: whoever has nothing left is asked in vain, and
    /// what nobody knows of is not found. A leaf that uses its own slot may be done by then.
    /// Modification: far from the leaves both are right for a moment only, unless much is free at
    /// once: what is below takes what comes free before somebody above can ask for it.
    pub(super) fn is_urgent(&self, now: &State, is_leaf: bool, near: bool) -> bool {
        let (came, went) = (now.high > 0 && self.bounds.high == 0, now.high == 0);
        let much = u64::from(now.high) * MUCH >= u64::from(now.slots);
        self.state.is_none() || (came && (near || much)) || (went && near && !is_leaf)
    }

    /// It is told `now`; the count goes with it.
    pub(super) fn tell(&mut self, now: State, config: &NearestConfig) -> u32 {
        self.state = Some(now);
        self.bounds = Bounds::of(&now, config);
        self.got
    }

    /// It may have missed what it was told.
    pub(super) fn doubt(&mut self) {
        self.state = None;
    }
}

/// Another member of the root group.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub entry: Entry,
    pub told: Told,
    /// It has told its state since it became one.
    pub heard: bool,
}

/// All that this node knows of others.
#[derive(Clone, Debug, Default)]
pub(super) struct Branch {
    /// Children by key, then guests.
    pub children: Vec<Entry>,
    pub peers: Vec<Peer>,
    /// The parent's belief.
    pub up: Told,
}

impl Branch {
    /// The branch with its top, whose own state is given. Guests whose slots serve only the
    /// host are no part of it.
    pub(super) fn state(&self, own: State, config: &NearestConfig) -> State {
        let mut sum = own;
        for child in self.children.iter().filter(|c| !c.guest || config.relays) {
            sum.join(child.summary());
        }
        sum
    }

    pub(super) fn child(&mut self, id: NodeId) -> Option<&mut Entry> {
        self.children.iter_mut().find(|c| c.contact.id == id)
    }

    pub(super) fn peer(&mut self, id: NodeId) -> Option<&mut Peer> {
        self.peers.iter_mut().find(|p| p.entry.contact.id == id)
    }

    /// Entry of a node, whether it is below or beside this one.
    pub(super) fn entry(&mut self, id: NodeId) -> Option<&mut Entry> {
        let peers = self.peers.iter_mut().map(|p| &mut p.entry);
        self.children.iter_mut().chain(peers).find(|e| e.contact.id == id)
    }

    pub(super) fn is_child(&self, id: NodeId) -> bool {
        self.children.iter().any(|c| c.contact.id == id)
    }

    pub(super) fn is_peer(&self, id: NodeId) -> bool {
        self.peers.iter().any(|p| p.entry.contact.id == id)
    }

    /// Takes the new children and keeps what is known of those that stay. Returns the new.
    pub(super) fn set_children(&mut self, contacts: &[Contact]) -> Vec<NodeId> {
        let mut old = std::mem::take(&mut self.children);
        let mut new = Vec::new();
        self.children.reserve_exact(contacts.len());
        for contact in contacts {
            match old.iter().position(|e| e.contact.id == contact.id && !e.guest) {
                Some(at) => {
                    let mut entry = old.swap_remove(at);
                    entry.contact = *contact;
                    self.children.push(entry);
                }
                None => {
                    self.children.push(Entry::new(*contact));
                    new.push(contact.id);
                }
            }
        }
        old.retain(|e| e.guest && !contacts.iter().any(|c| c.id == e.contact.id));
        self.children.extend(old);
        new
    }

    pub(super) fn set_peers(&mut self, contacts: &[Contact]) {
        let mut old = std::mem::take(&mut self.peers);
        self.peers.reserve_exact(contacts.len());
        for contact in contacts {
            match old.iter().position(|p| p.entry.contact.id == contact.id) {
                Some(at) => {
                    let mut peer = old.swap_remove(at);
                    peer.entry.contact = *contact;
                    self.peers.push(peer);
                }
                None => {
                    let entry = Entry::new(*contact);
                    self.peers.push(Peer { entry, told: Told::default(), heard: false });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Way;
    use super::super::state::SIZES;
    use super::*;
    use crate::platform::Platform;

    fn state(free: u32, slots: u32) -> State {
        State::of_node(free, slots, 2000, 1 << 30, Platform::Native)
    }

    #[test]
    fn the_leading_bit_is_told_and_nothing_between() {
        let config = NearestConfig::new(Way::Paper);
        let news = |before: u32, after: u32| {
            let mut told = Told::default();
            told.tell(state(before, 64), &config);
            told.news(&state(after, 64), &config)
        };
        for (before, after) in [(7, 8), (8, 7), (32, 31), (0, 1), (1, 0)] {
            assert_eq!(news(before, after), News::Now, "{before} to {after}");
        }
        for (before, after) in [(23, 24), (8, 15), (63, 32), (2, 3)] {
            assert_eq!(news(before, after), News::None, "{before} to {after}");
        }
    }

    #[test]
    fn far_from_the_leaves_only_much_is_urgent() {
        let config = NearestConfig::new(Way::Ours);
        let mut told = Told::default();
        assert!(told.is_urgent(&state(0, 64), false, false), "nothing was said yet");
        told.tell(state(0, 64), &config);
        assert!(told.is_urgent(&state(1, 64), false, true) && !told.is_urgent(&state(1, 64), false, false));
        assert!(told.is_urgent(&state(16, 64), false, false));
        told.tell(state(9, 64), &config);
        assert!(told.is_urgent(&state(0, 64), false, true) && !told.is_urgent(&state(0, 64), false, false));
    }

    #[test]
    fn maximum_and_minimum_are_told_at_once_in_the_papers_way() {
        let config = NearestConfig::new(Way::Paper);
        let mut told = Told::default();
        told.tell(state(5, 64), &config);
        let faster = State { power: 2001, ..state(5, 64) };
        let farther = State { hops: 1, ..state(5, 64) };
        assert_eq!(told.news(&faster, &config), News::Now);
        assert_eq!(told.news(&farther, &config), News::Now);
        assert_eq!(told.news(&state(5, 65), &config), News::Later);
    }

    #[test]
    fn the_policies_store_what_the_paper_says() {
        let stored = |policy| {
            let config = NearestConfig { policy, ..NearestConfig::new(Way::Paper) };
            let mut entry = Entry::new(Contact { ip: Key::FIRST.ip, id: Key::FIRST.id, port: 0 });
            entry.told(state(23, 64), 0, false, &config);
            entry.bounds
        };
        assert_eq!(stored(Policy::Conservative), Bounds { low: 16, high: 16 });
        assert_eq!(stored(Policy::Optimistic), Bounds { low: 23, high: 23 });
    }

    #[test]
    fn both_sides_believe_the_same_whatever_crosses_on_the_wire() {
        let config = NearestConfig::new(Way::Ours);
        let (mut entry, mut told) =
            (Entry::new(Contact { ip: Key::FIRST.ip, id: Key::FIRST.id, port: 0 }), Told::default());
        let got = told.tell(state(100, 128), &config);
        entry.told(state(100, 128), got, false, &config);
        let given = entry.give(10, &config);
        // It tells before the ten have come to it.
        let got = told.tell(state(60, 128), &config);
        told.received(given, &config);
        entry.told(state(60, 128), got, false, &config);
        assert_eq!(entry.bounds, told.bounds);
        told.refuse(3, true, &config);
        entry.refused(3, true, &config);
        assert_eq!(entry.bounds, told.bounds);
        assert!(told.bounds.low < 53 && told.bounds.high > 53);
    }

    #[test]
    fn a_branch_whose_slots_are_all_free_is_known_exactly() {
        let config = NearestConfig::new(Way::Ours);
        let mut branch = Branch::default();
        for _ in 0..14 {
            let mut entry = Entry::new(Contact { ip: Key::FIRST.ip, id: Key::FIRST.id, port: 0 });
            entry.told(state(15, 15), 0, false, &config);
            branch.children.push(entry);
        }
        let sum = branch.state(state(1, 1), &config);
        assert_eq!((sum.high, sum.slots), (211, 211));
        assert!(sum.low > 211 * 4 / 5);
    }

    #[test]
    fn what_no_branch_can_hold_is_impossible() {
        let wrong = [
            State { high: 5, ..state(2, 4) },
            State { low: 3, ..state(2, 4) },
            State { hops: NOWHERE, ..state(2, 4) },
            State { memory: 64, ..state(2, 4) },
            State { sizes: [1, 4, 0, 0, 0, 0, 0, 0], ..state(2, 4) },
            State { sizes: [u32::MAX; SIZES], ..state(2, 4) },
        ];
        assert!(wrong.iter().all(|s| s.impossible().is_some()));
        assert_eq!(state(4, 4).impossible(), None);
        assert_eq!(state(0, 0).impossible(), None);
    }

    #[test]
    fn needs_prune_by_the_upper_end_of_a_step() {
        let branch = State { memory: 30, power: 2000, kinds: 1, ..state(1, 1) };
        let needs = |memory_bytes, power| Needs { memory_bytes, power, platform: None };
        assert!(branch.may_meet(&needs((1 << 31) - 1, 2047)));
        assert!(!branch.may_meet(&needs(1 << 31, 0)));
        assert!(!branch.may_meet(&needs(0, 3100)));
        assert!(!branch.may_meet(&Needs { platform: Some(Platform::Browser), ..Needs::default() }));
    }

    #[test]
    fn a_branch_tells_how_many_of_a_size_it_may_have() {
        let sized = |slots, memory| State::of_node(slots, slots, 2000, memory, Platform::Native);
        let mut sum = sized(5, 2 << 30);
        sum.join(sized(3, 8 << 30));
        let most = [1, 2 << 30, (4 << 30) - 1, 5 << 30, 8 << 30, 16 << 30].map(|n| sum.sized_for(n));
        assert_eq!(most, [8, 8, 8, 3, 3, 0]);
        assert_eq!(sized(1, u64::MAX).sized_for(1 << 40), 1);
    }

    use crate::address::Key;
}
