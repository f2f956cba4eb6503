//! Units whose owner the ring names (paper `match`: the successor of the task's id), and this node's part
//! in that: a job's origin, an owner, a successor. Pure: it reads jobs and the book ([`View`]), changes its own tables
//! alone, and asks for everything else ([`Act`]).
//!
//! | file | what it knows |
//! |---|---|
//! | `acts` | what delegation reads, and what it asks for |
//! | `origin` | the gateway that took the job: who owns which unit, and what they tell |
//! | `owned` | the owner: units taken over, and when they leave again |
//! | `content` | what owned units need before they are placed: content, and a program that is one |
//! | `ends` | results of owned units, on the way to the origin |
//! | `replicas` | copies of what others own, and when they become what is owned here |
//! | `copies` | the table of these copies |
//! | `room` | how many units of whom are owned and copied here, and who may bring them |
//! | `rows` | what is written down, and what a unit is for others |

mod acts;
mod content;
mod copies;
mod ends;
mod origin;
mod owned;
mod replicas;
mod room;
mod rows;

#[cfg(test)]
mod tests;

pub use acts::{Act, Adopted, Jobs, Next, View};
pub use origin::{OnRing, Out};
pub use owned::spec_of;
pub use rows::end_write;

use crate::address::{Address, Contact};
use crate::circle::Located;
use crate::engine::SealKey;
use crate::ids::{JobId, NodeId, UnitId};
use crate::replicas::{Keys, Share};
use crate::time::Time;
use crate::under_way::UnderWay;
use crate::work::book::State;
use crate::work::delegated::{Delegated, Message, Part, REPLICAS, point_of};
use crate::work::message::ToRunner;
use crate::work::proof::GrantKey;
use crate::work::spec::UnitSpec;
use acts::Step;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Between two looks at what is due. Our choice: a tenth of what the ring needs to see a death.
pub const TICK: Duration = Duration::from_secs(1);

/// Placements of a unit that are believed to have been before a restart. Our choice: more than any
/// unit goes through.
pub const ATTEMPTS_MAX: u32 = 1 << 16;

/// Between two messages of an owner to an origin that it lives.
const LIVES: Duration = Duration::from_secs(10);

/// Between two full copies to successors, which mend what was lost. Our choice: six times
/// [`LIVES`].
const REFRESH: Duration = Duration::from_secs(60);

/// Lookups under way at a time. Our choice: as many as rings of some hundred members answer within a
/// tick; each answer names the whole arc, and all units on it.
const LOOKUPS: usize = 16;

/// Delegated units in one message, and bytes of them. Our choice: half a frame.
const AT_ONCE: usize = 256;
/// Units in one message that the owner lives. Our choice: 40 KB.
const LIVES_MAX: usize = 4096;
const BYTES: usize = 400 << 10;

/// Units of a message: no more than a correct node puts into one, each once and within its bounds.
fn each_once(units: Vec<Delegated>) -> impl Iterator<Item = Delegated> {
    let mut seen = BTreeSet::new();
    let units = units.into_iter().filter(move |unit| seen.insert(unit.index));
    units.take(AT_ONCE).map(Delegated::bounded)
}

/// Events of the ring: changes of this node's place, and results of lookups.
#[derive(Clone, Debug)]
pub enum OfRing {
    /// Where others dial this node.
    Me(Contact),
    Keys(Keys),
    /// Result of [`Act::Locate`].
    Located {
        number: u64,
        found: Option<Located>,
    },
}

/// A unit of another gateway, as that one described it.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// `None` if what the job's units share says it all.
    pub spec: Option<UnitSpec>,
    /// Key with which the unit's snapshots are sealed.
    pub key: SealKey,
    /// The key for the proofs of its grants.
    pub grants: GrantKey,
}

#[derive(Debug, Default)]
pub struct Delegation {
    me: Option<Contact>,
    /// The keys on the ring that this node owns, and the nodes with replicas of the units there.
    share: Share,
    /// Copies here become what is owned here at this time: whoever gave the arc has had its say.
    settled_at: Option<Time>,
    /// This node has been a ring by itself since then.
    alone: Option<Time>,
    /// Members that follow this node on the ring, as far as it knows them.
    following: Vec<NodeId>,
    /// This node's own jobs whose units the ring owns.
    origins: BTreeMap<JobId, OnRing>,
    /// Units of other gateways' jobs that this node owns.
    owned: BTreeMap<JobId, owned::Ownership>,
    replicas: copies::Copies,
    /// How many units that are owned here each node brought.
    brought: BTreeMap<NodeId, usize>,
    /// Shared descriptions of jobs of which there are copies or ends here, and nothing that is owned.
    parts: BTreeMap<JobId, Part>,
    /// Jobs of which there is a row.
    written: BTreeSet<JobId>,
    ends: ends::Ends,
    /// Runners that are told of their units' new owner, until they come.
    claims: BTreeMap<UnitId, Address>,
    lookups: UnderWay<UnitId>,
    lived: Time,
    refreshed: Time,
    acts: Vec<Act>,
}

impl Delegation {
    /// Returns what others are to do since the last call, in order.
    pub fn acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    pub fn of_ring(&mut self, told: OfRing, view: &View<'_>) {
        match told {
            OfRing::Me(contact) => self.me = Some(contact),
            OfRing::Keys(Keys::Gained { range, from }) => self.gained(range, from, view),
            OfRing::Keys(Keys::Lost { range, to }) => self.lost(range, to, view),
            OfRing::Keys(Keys::Successors(list)) => self.on_successors(list, view),
            OfRing::Located { number, found } => {
                if let Some(unit) = self.lookups.answered(number) {
                    self.owner_found(unit, found, view);
                }
            }
        }
    }

    /// Results of units go to whoever looks into results (`owner/on_ring`).
    pub fn on_message(&mut self, from: NodeId, message: Message, view: &View<'_>) {
        match message {
            Message::Entrust { part, .. } | Message::Owned { part, .. } | Message::Handed { part, .. }
                if !part.is_bounded() =>
            {
                self.acts.push(Act::Fault(
                    from,
                    "told of units of a job whose name or requirements are out of bounds".into(),
                ));
            }
            Message::Entrust { job, part, units } => {
                self.entrusted(from, job, *part, each_once(units), view);
            }
            Message::Refused { job, units, reason } => self.not_taken(from, job, &units, &reason, view),
            Message::Owned { job, part, units } => {
                self.told_owned(from, job, *part, each_once(units), view);
            }
            Message::Lives { job, units, waits } => self.lives(from, job, units, waits, view),
            Message::Handed { job, part, units } => self.handed(from, job, *part, each_once(units), view),
            Message::Over(units) => {
                self.acts.extend(units.into_iter().map(|unit| Act::Next(Next(Step::Over(from, unit)))));
            }
            Message::Results(_) => {}
        }
    }

    /// Something concerns the ring here.
    pub fn concerns_ring(&self, view: &View<'_>) -> bool {
        !self.replicas.is_empty()
            || !self.written.is_empty()
            || !self.ends.is_empty()
            || self.settled_at.is_some()
            || !self.owned.is_empty()
            || self.origins.keys().any(|job| view.jobs.is_active(*job))
    }

    /// Sees to what is due.
    pub fn look_after(&mut self, view: &View<'_>) {
        let mut due =
            vec![Step::Settle, Step::FindOwners, Step::ClaimAgain, Step::TellResults, Step::WantContent];
        if view.now.since(self.lived) >= LIVES {
            self.lived = view.now;
            due.extend([Step::TellOrigins, Step::HandOn]);
        }
        if view.now.since(self.refreshed) >= REFRESH {
            self.refreshed = view.now;
            due.push(Step::Refresh);
        }
        self.acts.extend(due.into_iter().map(|step| Act::Next(Next(step))));
    }

    /// Goes on with what waited for other acts.
    pub fn go_on(&mut self, next: Next, view: &View<'_>) {
        match next.0 {
            Step::Settle => self.settle_arc(view),
            Step::FindOwners => self.find_owners(view),
            Step::ClaimAgain => self.claim_again(view),
            Step::TellResults => self.tell_results(view.now),
            Step::WantContent => self.want_content(view),
            Step::TellOrigins => self.tell_origins(view),
            Step::HandOn => self.hand_on_misplaced(view),
            Step::Refresh => {
                let all = self.all_owned();
                self.tell_successors(&all, view);
                self.forget_old_replicas(view);
            }
            Step::Show(to, unit) => self.show(to, unit, view),
            Step::TellOrigin(job, units) => self.tell_origin(job, &units, view),
            Step::Over(from, unit) => self.over(from, unit, view),
            Step::Release(unit) => self.release(unit),
            Step::Gone { unit, owned, written } => self.gone(unit, owned, written, view),
            Step::Forget(unit) => self.forget_replica(unit),
        }
    }

    fn next(&mut self, step: Step) {
        self.acts.push(Act::Next(Next(step)));
    }

    /// Looks up who owns the unit, unless too much is under way.
    fn locate(&mut self, unit: UnitId) -> bool {
        if self.lookups.len() >= LOOKUPS || self.lookups.has(unit) {
            return false;
        }
        let number = self.lookups.ask(unit);
        self.acts.push(Act::Locate { number, key: point_of(unit) });
        true
    }

    fn owner_found(&mut self, unit: UnitId, found: Option<Located>, view: &View<'_>) {
        if self.origins.contains_key(&unit.job) {
            return self.origin_located(unit, found, view);
        }
        if let Some(found) = found {
            self.misplaced_located(unit, found.owner.contact, view);
        }
    }

    /// Whether the ring has the unit here.
    fn is_mine(&self, unit: UnitId) -> bool {
        self.share.owns(point_of(unit))
    }

    fn say(&mut self, to: impl Into<Address>, message: Message) {
        self.acts.push(Act::Say(to.into(), message));
    }

    /// Nodes that may own a unit next: those with replicas, as its runner is to know them.
    fn successors(&self) -> Vec<NodeId> {
        self.share.replicas().iter().map(|successor| successor.id).collect()
    }

    /// The unit's origin, if it is on the ring.
    pub fn origin_of(&self, unit: UnitId, me: NodeId) -> Option<NodeId> {
        let away = self.owned.get(&unit.job).map(|owned| owned.origin.id);
        away.or_else(|| self.origins.contains_key(&unit.job).then_some(me))
    }

    /// A runner is told of its units' owner until it comes or is not waited for any more.
    fn claim(&mut self, unit: UnitId, runner: Address, view: &View<'_>) {
        if self.claims.len() < view.limits.delegated_units {
            self.claims.insert(unit, runner);
            self.acts.push(Act::Wait(unit));
            self.claim_from(unit, runner, view);
        }
    }

    fn claim_from(&mut self, unit: UnitId, runner: Address, view: &View<'_>) {
        let (Some(origin), Some(epoch)) = (self.origin_of(unit, view.me), self.epoch_of(unit)) else {
            return;
        };
        // A unit that its origin owns has no replicas.
        let successors = if origin == view.me { Vec::new() } else { self.successors() };
        let claim = ToRunner::Claim { units: vec![(unit, epoch)], origin, successors };
        self.acts.push(Act::Tell(runner, claim));
    }

    /// The runner has the unit from another owner: this node came to own it before it was told where it runs. It
    /// claims the unit under a new epoch.
    pub fn claim_anew(&mut self, unit: UnitId, runner: Address, view: &View<'_>) {
        if let Some(own) = self.own_mut(unit) {
            (own.epoch, own.runner) = (own.epoch.saturating_add(1), Some(runner));
        } else if let Some(ring) = self.origins.get_mut(&unit.job) {
            ring.next_epoch(unit.index);
        }
        self.claim(unit, runner, view);
        self.acts.extend([Act::Touch(unit.job), Act::Write(unit)]);
    }

    fn claim_again(&mut self, view: &View<'_>) {
        let waits =
            |unit: &UnitId| view.jobs.is_active(unit.job) && view.book.state(*unit) == Some(State::Away);
        let mut claims = std::mem::take(&mut self.claims);
        claims.retain(|unit, _| waits(unit));
        for (unit, runner) in &claims {
            self.claim_from(*unit, *runner, view);
        }
        self.claims = claims;
    }

    /// A runner was just granted these units of one job: who may come in this node's place.
    pub fn name_successors(&mut self, runner: NodeId, units: &[UnitId]) {
        let Some(first) = units.first() else { return };
        let Some(origin) = self.owned.get(&first.job).map(|owned| owned.origin.id) else { return };
        let units: Vec<_> = units.iter().filter_map(|unit| Some((*unit, self.epoch_of(*unit)?))).collect();
        let told: Vec<UnitId> = units.iter().map(|(unit, _)| *unit).collect();
        let successors = ToRunner::Successors { units, origin, successors: self.successors() };
        self.acts.push(Act::Tell(Address::here(runner), successors));
        self.acts.extend(told.into_iter().map(Act::Write));
    }

    /// Keeps the successors: whoever follows on the ring.
    fn on_successors(&mut self, list: Vec<Contact>, view: &View<'_>) {
        self.following = list.iter().map(|member| member.id).filter(|id| *id != view.me).collect();
        if self.share.follow(list, view.me, REPLICAS).is_none() {
            return;
        }
        let all = self.all_owned();
        self.tell_successors(&all, view);
        let mut by_runner: BTreeMap<(NodeId, JobId), Vec<UnitId>> = BTreeMap::new();
        for unit in all {
            if let Some(runner) = view.book.runner(unit) {
                by_runner.entry((runner, unit.job)).or_default().push(unit);
            }
        }
        for ((runner, _), units) in by_runner {
            self.name_successors(runner, &units);
        }
    }
}

/// Says something about many units of one job, in as many messages as needed.
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
