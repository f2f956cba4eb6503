//! Units whose owner the ring names (paper `match`: the successor of the task's id), and this node's part
//! in that: a job's home, an owner, a successor.
//!
//! | file | what it knows |
//! |---|---|
//! | `home` | the gateway that took the job: who owns which unit, and what they tell |
//! | `owned` | the owner: units taken over, their content, their results on the way home |
//! | `replicas` | copies of what others own, and when they become what is owned here |
//! | `copies` | the table of these copies |
//! | `room` | how many units of whom are owned and copied here, and who may bring them |
//! | `program` | whether a program that others' units run is one |
//! | `rows` | what is written down, and what a unit is for others |

mod copies;
mod home;
mod owned;
mod program;
mod replicas;
mod room;
mod rows;

pub(super) use home::{OnRing, Out};
pub(super) use owned::Ownership;

use super::{Event, Owner, Timer};
use crate::address::Address;
use crate::address::Contact;
use crate::circle::{Located, Range};
use crate::ids::{NodeId, UnitId};
use crate::protocol::Cx;
use crate::replicas::Share;
use crate::time::Time;
use crate::under_way::UnderWay;
use crate::work::book::{Back, State};
use crate::work::delegated::{self, Delegated, Part, REPLICAS, point_of};
use crate::work::message::{Lease, Message, ToRunner};
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two looks at what is due. Our choice: a tenth of what the ring needs to see a death.
const TICK: Duration = Duration::from_secs(1);

/// Between two words of an owner to a home that it lives.
const LIVES: Duration = Duration::from_secs(10);

/// Between two full copies to successors, which mend what was lost. Our choice: six words to the home.
const REFRESH: Duration = Duration::from_secs(60);

/// Lookups under way at a time. Our choice: as many as rings of some hundred members answer within a
/// tick; each answer names the whole arc, and all units on it.
const LOOKUPS: usize = 16;

/// Delegated units in one message, and bytes of them. Our choice: half a frame.
const AT_ONCE: usize = 256;
const BYTES: usize = 400 << 10;

/// Events of the ring: changes of this node's place, and results of lookups.
#[derive(Clone, Debug)]
pub enum OfRing {
    /// Where others dial this node.
    Me(Contact),
    Gained {
        range: Range,
        from: Option<Contact>,
    },
    Lost {
        range: Range,
        to: Option<Contact>,
    },
    Successors(Vec<Contact>),
    /// Result of [`Event::Locate`].
    Located {
        number: u64,
        found: Option<Located>,
    },
}

#[derive(Debug, Default)]
pub(super) struct Delegation {
    me: Option<Contact>,
    /// The keys on the ring that this node owns, and the nodes with replicas of the units there.
    share: Share,
    /// Copies here become what is owned here at this time: whoever gave the arc has had its say.
    settled_at: Option<Time>,
    /// This node has been a ring by itself since then.
    alone: Option<Time>,
    /// Members that follow this node on the ring, as far as it knows them.
    following: Vec<NodeId>,
    replicas: copies::Copies,
    /// How many units that are owned here each node brought.
    brought: BTreeMap<NodeId, usize>,
    parts: BTreeMap<crate::ids::JobId, Part>,
    /// Jobs of which there is a row.
    written: std::collections::BTreeSet<crate::ids::JobId>,
    /// How units ended, until their homes have written it down.
    ended: BTreeMap<UnitId, owned::Ended>,
    /// Runners that are told of their units' new owner, until they come.
    claims: BTreeMap<UnitId, Address>,
    lookups: UnderWay<UnitId>,
    lived: Time,
    refreshed: Time,
}

impl Owner {
    /// Whether this node takes part at all.
    pub(super) fn has_delegated(&self) -> bool {
        self.config.limits.delegated_units > 0
    }

    pub(super) fn of_ring(&mut self, told: OfRing, cx: &mut Cx<'_, Self>) {
        match told {
            OfRing::Me(contact) => self.delegation.me = Some(contact),
            OfRing::Gained { range, from } => self.gained(range, from, cx),
            OfRing::Lost { range, to } => self.lost(range, to, cx),
            OfRing::Successors(list) => self.on_successors(list, cx),
            OfRing::Located { number, found } => {
                if let Some(unit) = self.delegation.lookups.answered(number) {
                    self.owner_found(unit, found, cx);
                }
            }
        }
        self.wake(cx);
    }

    pub(super) fn of_delegated(&mut self, from: NodeId, message: delegated::Message, cx: &mut Cx<'_, Self>) {
        use delegated::Message;
        if !self.is_ready() || !self.has_delegated() {
            // All of it is said again.
            return;
        }
        match message {
            Message::Entrust { job, part, units } => self.entrusted(from, job, *part, units, cx),
            Message::Refused { job, units, reason } => self.not_taken(from, job, &units, &reason, cx),
            Message::Owned { job, part, units } => self.owned(from, job, *part, units, cx),
            Message::Lives { job, units } => self.lives(from, job, units, cx),
            Message::Handed { job, part, units } => self.handed(from, job, *part, units, cx),
            Message::Results(results) => self.delegated_results(from, results, cx),
            Message::Over(units) => self.delegated_over(from, &units, cx),
        }
        self.wake(cx);
    }

    fn wake(&self, cx: &mut Cx<'_, Self>) {
        cx.set_timer_by(Timer::Delegated, TICK);
    }

    /// Something concerns the ring here.
    fn concerns_ring(&self) -> bool {
        let delegation = &self.delegation;
        let jobs = || {
            self.jobs.values().any(|job| job.delegated.is_some() || (job.ring.is_some() && job.is_active()))
        };
        !delegation.replicas.is_empty()
            || !delegation.written.is_empty()
            || !delegation.ended.is_empty()
            || delegation.settled_at.is_some()
            || jobs()
    }

    /// Time to see what is due.
    pub(super) fn look_after_delegated(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() || !self.has_delegated() || !self.concerns_ring() {
            return;
        }
        self.wake(cx);
        self.settle_arc(cx);
        self.find_owners(cx);
        self.claim_again(cx);
        self.tell_results(cx);
        self.want_content(cx);
        if cx.now.since(self.delegation.lived) >= LIVES {
            self.delegation.lived = cx.now;
            self.tell_homes(cx);
            self.hand_on_misplaced(cx);
        }
        if cx.now.since(self.delegation.refreshed) >= REFRESH {
            self.delegation.refreshed = cx.now;
            let all = self.all_delegated();
            self.tell_successors(&all, cx);
            self.forget_old_replicas(cx);
        }
    }

    /// Looks up who owns the unit, unless too much is under way.
    fn locate(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) -> bool {
        let lookups = &mut self.delegation.lookups;
        if lookups.len() >= LOOKUPS || lookups.has(unit) {
            return false;
        }
        let number = lookups.ask(unit);
        cx.emit(Event::Locate { number, key: point_of(unit) });
        true
    }

    fn owner_found(&mut self, unit: UnitId, found: Option<Located>, cx: &mut Cx<'_, Self>) {
        if self.jobs.get(&unit.job).is_some_and(|job| job.ring.is_some()) {
            return self.home_located(unit, found, cx);
        }
        if let Some(found) = found {
            self.misplaced_located(unit, found.owner.contact, cx);
        }
    }

    /// Whether the ring has the unit here.
    fn is_mine(&self, unit: UnitId) -> bool {
        self.delegation.share.owns(point_of(unit))
    }

    fn say(to: impl Into<Address>, message: delegated::Message, cx: &mut Cx<'_, Self>) {
        // Relays forward none of it, whatever a peer says of where another is.
        let to = to.into();
        cx.reach(to);
        cx.send(to.id, Message::Delegated(message));
    }

    /// Nodes that may own a unit next: those with replicas, as its runner is to know them.
    fn successors(&self) -> Vec<NodeId> {
        self.delegation.share.replicas().iter().map(|successor| successor.id).collect()
    }

    /// The unit's home, if it is on the ring.
    pub(super) fn home_of(&self, unit: UnitId, me: NodeId) -> Option<NodeId> {
        let job = self.jobs.get(&unit.job)?;
        let away = job.delegated.as_ref().map(|delegated| delegated.home.id);
        away.or_else(|| job.ring.as_ref().map(|_| me))
    }

    /// A runner is told of its units' owner until it comes or is not waited for any more.
    fn claim(&mut self, unit: UnitId, runner: Address, cx: &mut Cx<'_, Self>) {
        let bound = self.config.limits.delegated_units;
        if self.delegation.claims.len() < bound {
            self.delegation.claims.insert(unit, runner);
            self.wait_for(unit, self.config.timing.lease, cx);
            self.claim_from(unit, runner, cx);
        }
    }

    fn claim_from(&self, unit: UnitId, runner: Address, cx: &mut Cx<'_, Self>) {
        let (Some(home), Some(term)) = (self.home_of(unit, cx.me), self.term_of(unit)) else { return };
        cx.reach(runner);
        // A unit that its origin owns has no replicas.
        let successors = if home == cx.me { Vec::new() } else { self.successors() };
        let claim = ToRunner::Claim { units: vec![(unit, term)], home, successors };
        Self::to_runner(runner.id, claim, cx);
    }

    /// The runner has these units from another owner: this node came to own them before it was told where
    /// they run. It claims them under a new term.
    pub(in crate::work::owner) fn of_another(
        &mut self,
        from: NodeId,
        lease: Lease,
        units: Vec<UnitId>,
        cx: &mut Cx<'_, Self>,
    ) {
        if self.leases.get(&from).is_none_or(|held| held.lease() != lease) {
            return;
        }
        let units = units.into_iter().filter(|unit| self.book.is_granted(*unit, from));
        let (ring, others): (Vec<_>, Vec<_>) = units.partition(|unit| self.home_of(*unit, cx.me).is_some());
        if !others.is_empty() {
            self.declined(from, lease, others, ("it runs this for another owner", false), cx);
        }
        self.units_back(from, &ring, Back::Unharmed, cx);
        let runner = super::nodes::address(from, cx.peers);
        for unit in ring {
            self.next_term(unit, runner);
            self.claim(unit, runner, cx);
            self.touch(unit.job, cx);
            self.write_record(unit, cx);
        }
    }

    /// The unit runs there, and is owned under a new term.
    fn next_term(&mut self, unit: UnitId, runner: Address) {
        if let Some(own) = self.own_mut(unit) {
            (own.term, own.runner) = (own.term.saturating_add(1), Some(runner));
        } else if let Some(ring) = self.jobs.get_mut(&unit.job).and_then(|job| job.ring.as_mut()) {
            ring.next_term(unit.index);
        }
    }

    fn claim_again(&mut self, cx: &mut Cx<'_, Self>) {
        let waits = |owner: &Self, unit: &UnitId| owner.state_of(*unit) == Some(State::Away);
        let mut claims = std::mem::take(&mut self.delegation.claims);
        claims.retain(|unit, _| waits(self, unit));
        for (unit, runner) in &claims {
            self.claim_from(*unit, *runner, cx);
        }
        self.delegation.claims = claims;
    }

    /// A runner was just granted these: who may come in this node's place.
    pub(super) fn name_successors(&mut self, runner: NodeId, units: &[UnitId], cx: &mut Cx<'_, Self>) {
        let Some(first) = units.first() else { return };
        if self.jobs.get(&first.job).is_none_or(|job| job.delegated.is_none()) {
            return;
        }
        let Some(home) = self.home_of(*first, cx.me) else { return };
        let units: Vec<_> = units.iter().filter_map(|unit| Some((*unit, self.term_of(*unit)?))).collect();
        let told = units.iter().map(|(unit, _)| *unit).collect::<Vec<_>>();
        Self::to_runner(runner, ToRunner::Successors { units, home, successors: self.successors() }, cx);
        told.into_iter().for_each(|unit| self.write_record(unit, cx));
    }

    /// Says something about many delegation of one job, in as many messages as needed.
    fn in_parts(units: Vec<Delegated>, mut send: impl FnMut(Vec<Delegated>)) {
        let (mut some, mut size) = (Vec::new(), 0);
        for delegated in units {
            size += rows::size_of(&delegated);
            some.push(delegated);
            if some.len() >= AT_ONCE || size >= BYTES {
                send(std::mem::take(&mut some));
                size = 0;
            }
        }
        if !some.is_empty() {
            send(some);
        }
    }

    /// Keeps the successors: whoever follows on the ring.
    fn on_successors(&mut self, list: Vec<Contact>, cx: &mut Cx<'_, Self>) {
        self.delegation.following = list.iter().map(|member| member.id).filter(|id| *id != cx.me).collect();
        if self.delegation.share.follow(list, cx.me, REPLICAS).is_none() {
            return;
        }
        let all = self.all_delegated();
        self.tell_successors(&all, cx);
        let mut by_runner: BTreeMap<(NodeId, crate::ids::JobId), Vec<UnitId>> = BTreeMap::new();
        for unit in all {
            if let Some(runner) = self.book.runner(unit) {
                by_runner.entry((runner, unit.job)).or_default().push(unit);
            }
        }
        for ((runner, _), units) in by_runner {
            self.name_successors(runner, &units, cx);
        }
    }
}
