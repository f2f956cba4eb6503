//! Places of units: sought from the finder or bought (`work/payments`), granted under leases, and taken back from
//! runners that go silent, decline, or refuse the program.
//!
//! A runner has one lease. Silence ends it, and its units, which the book knows, are placed elsewhere.

use super::job::{size_of_template, size_of_unit};
use super::lease::Held;
use super::{Event, Owner, Pending, Timer, nodes};
use crate::contract::{Holding, Outcome, Settled};
use crate::finding::{Bought, Found, Needs, Query, Queue};
use crate::ids::{JobId, NodeId, UnitId};
use crate::platform::Platform;
use crate::protocol::Cx;
use crate::ticket::ServiceId;
use crate::work::book::{Back, State, Units};
use crate::work::bounds;
use crate::work::message::{Cause, Lease, ToRunner, UnitGrant};
use crate::work::payments::{Act, Deal};
use crate::work::rows;
use crate::work::spec::{Find, OnLoss};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::time::Duration;

/// Bytes of units in one grant. Our choice: half a frame, so that an estimate may be wrong.
const GRANT_BYTES: usize = 512 << 10;

/// Until settlements are ordered again for which too many orders waited. Our choice: the bank does
/// thousands in that time.
const FULL: Duration = Duration::from_secs(5);

impl Owner {
    /// Asks for places for every job with waiting units. This node's own jobs go before units that it owns
    /// for other gateways, whose priorities their gateways choose; then higher priority first, within one
    /// priority in turns, beginning behind the job that was served last.
    pub(super) fn look(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() || self.active.is_empty() {
            return;
        }
        cx.set_timer_by(Timer::Look, super::LOOK_AGAIN);
        self.tell_running(cx);
        let mut order: Vec<(bool, i32, bool, JobId)> = self
            .active
            .iter()
            .filter_map(|id| {
                let job = self.jobs.get(id)?;
                // Units are not placed before their content is here: runners would not find it.
                if !self.delegation.is_here(*id) {
                    return None;
                }
                let had_its_turn = self.last_served.is_some_and(|last| *id <= last);
                Some((!job.is_own(), -job.spec.priority, had_its_turn, *id))
            })
            .collect();
        order.sort_unstable();
        for (_, _, _, id) in order {
            if self.payments.of(id).is_some() {
                self.buy(id, cx);
                continue;
            }
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if job.spec.find == Find::Fitting {
                self.want(id, cx);
                continue;
            }
            let (units, memory_bytes) = (self.book.open(id), job.spec.template.limits.memory_bytes);
            let ended = self.book.units(id).map_or(0, Units::ended);
            let query = self.next_ticket;
            // While the swarm is searched for it, what nodes at hand have is used all the same.
            let swarm = job.asking.is_none();
            if swarm {
                job.asking = Some(query);
            }
            self.next_ticket += 1;
            self.queries.insert(query, id);
            let without = job.avoided.nodes(cx.now);
            let needs = Needs { memory_bytes, ..Needs::default() };
            // A thread may wait for one behind it.
            let is_short = job.is_short(ended) && job.spec.template.threads.is_none();
            let queue = match (is_short, job.nowhere) {
                (true, _) => Queue::Yes,
                // In its turn it goes before larger jobs that would use all credit.
                (false, true) => Queue::One,
                (false, false) => Queue::No,
            };
            cx.emit(Event::Find(Query {
                ticket: ServiceId::Owner.ticket(query),
                units,
                needs,
                queue,
                swarm,
                without,
            }));
        }
    }

    pub(super) fn found(&mut self, found: Found, cx: &mut Cx<'_, Self>) {
        let Some(id) = self.queries.remove(&found.ticket.number) else { return };
        let Some(job) = self.jobs.get_mut(&id) else {
            found.places.iter().for_each(|place| Self::unused(place.node.id, place.units, cx));
            return;
        };
        if job.asking == Some(found.ticket.number) {
            job.asking = None;
            job.nowhere = found.places.is_empty() && found.shortage.is_some();
        }
        if !job.is_active() {
            found.places.iter().for_each(|place| Self::unused(place.node.id, place.units, cx));
            return;
        }
        if let Some(shortage) = found.shortage {
            job.shortage = Some(job.avoided.shortage(shortage, cx.now));
        }
        if !found.places.is_empty() {
            self.last_served = Some(id);
        }
        for place in found.places {
            let unused = self.grant(place.node.id, id, place.units, cx);
            Self::unused(place.node.id, unused, cx);
        }
        self.touch(id, cx);
    }

    /// Places that were found and not used are credit again.
    pub(super) fn unused(node: NodeId, units: u32, cx: &mut Cx<'_, Self>) {
        if units > 0 {
            cx.emit(Event::Unused { node, units });
        }
    }

    /// Gives `runner` up to `units` waiting units of the job, in as many messages as needed. Returns
    /// how many places are left over.
    pub(super) fn grant(&mut self, runner: NodeId, id: JobId, mut units: u32, cx: &mut Cx<'_, Self>) -> u32 {
        while units > 0 {
            let Some(job) = self.jobs.get_mut(&id) else { return units };
            // A search of the swarm knows nothing of it, or began before.
            if job.avoided.contains(runner, cx.now) {
                return units;
            }
            let mut size = size_of_template(&job.spec.template);
            let mut granted = Vec::new();
            while units > 0 && size < GRANT_BYTES {
                let Some((index, _)) = self.book.place_next(id, runner) else { break };
                // One that has to wait for its checkpoint leaves its place to the next.
                if let Some(grant) = self.begin(UnitId { job: id, index }, runner, cx) {
                    units -= 1;
                    size += size_of_unit(&grant);
                    granted.push(grant);
                }
            }
            if granted.is_empty() {
                return units;
            }
            self.send_grant(runner, id, granted, cx);
        }
        0
    }

    /// Keepers of the job's units at `from` are of no use, or too few.
    pub(super) fn need_keepers(
        &mut self,
        from: NodeId,
        id: JobId,
        lost: &[(NodeId, String)],
        cx: &mut Cx<'_, Self>,
    ) {
        if self.book.has_job(from, id) {
            self.nodes.cool(from, lost.iter().map(|(keeper, _)| *keeper), cx.now);
            let keepers = self.nodes.keepers_for(id, from, cx);
            Self::to_runner(from, ToRunner::Keepers { job: id, keepers }, cx);
        }
    }

    /// Tells the runner of units that are placed there.
    pub(super) fn send_grant(
        &mut self,
        runner: NodeId,
        id: JobId,
        mut units: Vec<UnitGrant>,
        cx: &mut Cx<'_, Self>,
    ) {
        for grant in &mut units {
            grant.keeper = grant.keeper.filter(|keeper| self.nodes.can_keep(runner, keeper.id, cx));
        }
        let keepers = match self.jobs.get(&id).and_then(|job| job.spec.template.checkpoint.duration()) {
            Some(_) => self.nodes.keepers_for(id, runner, cx),
            None => Vec::new(),
        };
        let Some(job) = self.jobs.get(&id) else { return };
        let paused: Vec<u32> =
            units.iter().map(|unit| unit.index).filter(|index| job.paused.contains(index)).collect();
        self.place_threads(id, &mut units);
        let Some(job) = self.jobs.get(&id) else { return };
        let batch = job.batch(id, keepers, units);
        let placed: Vec<UnitId> =
            batch.units.iter().map(|unit| UnitId { job: id, index: unit.index }).collect();
        let lease = self.lease_of(runner, cx).granted();
        placed.iter().for_each(|unit| self.book.grant(*unit, runner));
        Self::to_runner(runner, ToRunner::Grant { lease, batches: vec![batch] }, cx);
        for index in paused {
            let unit = UnitId { job: id, index };
            Self::to_runner(runner, ToRunner::Pause { unit, paused: true }, cx);
        }
        self.delegate(cx, |it, _| it.name_successors(runner, &placed));
    }

    /// Buys places for the job's waiting units.
    pub(super) fn buy(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let purchase = self.payments.wish(id, &job.spec, &job.records, &mut self.book, cx.now);
        if let Some(purchase) = purchase {
            cx.emit(Event::Purchase(purchase));
            return self.touch(id, cx);
        }
        self.buy_later(id, cx);
    }

    /// Looks again when the job may buy, if units of it wait for a place.
    pub(super) fn buy_later(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let at = self.payments.asks_at(id).filter(|at| *at > cx.now);
        if let Some(at) = at.filter(|_| self.book.next_waiting(id).is_some()) {
            cx.set_timer_by(Timer::Look, at.since(cx.now));
        }
    }

    /// A place was bought for a unit, or not.
    pub(super) fn bought(&mut self, bought: Bought, cx: &mut Cx<'_, Self>) {
        let unit = bought.sale.unit;
        let job = self.jobs.get_mut(&unit.job).filter(|job| job.is_active());
        let stands = self.book.unit(unit).filter(|_| job.is_some());
        let none = Default::default();
        let records = job.as_ref().map_or(&none, |job| &job.records);
        let Some(outcome) = self.payments.bought(bought, stands, records, cx.now) else { return };
        self.book.end_wait(unit);
        match outcome {
            Ok(sold) => {
                let seller = sold.seller.id;
                sold.keeper.into_iter().for_each(|keeper| cx.reach(keeper));
                self.book.place(unit, seller);
                cx.emit(Event::Placed { node: seller });
                if let Some(grant) = self.begin(unit, seller, cx) {
                    self.send_grant(seller, unit.job, vec![grant], cx);
                }
            }
            Err(why) => {
                job.into_iter().for_each(|job| job.shortage = Some(why.why.clone()));
                self.buy_later(unit.job, cx);
            }
        }
        self.touch(unit.job, cx);
    }

    /// Performs what payments ask for.
    pub(super) fn act(&mut self, cx: &mut Cx<'_, Self>) {
        for act in self.payments.acts() {
            match act {
                Act::Write(write) => {
                    let ticket = self.ticket(Pending::Deal);
                    cx.emit(Event::Commit { ticket, writes: vec![write] });
                }
                Act::Settle(sale, order) => {
                    let ticket = self.ticket(Pending::Settlement(sale));
                    cx.emit(Event::Settle { ticket, order });
                }
            }
        }
    }

    pub(super) fn settled(&mut self, ticket: u64, outcome: Outcome, cx: &mut Cx<'_, Self>) {
        let Some(Pending::Settlement(sale)) = self.pending.remove(&ticket) else { return };
        match self.payments.settled(sale, outcome) {
            Settled::Over => {}
            Settled::Later => cx.set_timer_by(Timer::Settle, FULL),
            Settled::Refused(refusal) => {
                cx.trouble(format!("the bank does not settle what was bought for {}: {refusal}", sale.unit));
            }
        }
    }

    /// Credit that the bank still holds for this node's sales.
    pub(super) fn bank_holds(&mut self, held: Vec<Holding>) {
        match self.ready {
            true => self.payments.bank_holds(held),
            // It is not known yet what was bought.
            false => self.bank_held.extend(held),
        }
    }

    pub(super) fn restore_deals(&mut self, entries: &[(Vec<u8>, Bytes)], cx: &mut Cx<'_, Self>) {
        for (key, value) in entries {
            let Some(unit) = rows::unit_of(key) else { continue };
            if self.payments.of(unit.job).is_none() {
                continue;
            }
            let Ok(deal) = sandbox::unpack::from_slice::<Deal>(value) else {
                cx.trouble(format!(
                    "what was bought for {unit} cannot be read; the bank gives it back after a while"
                ));
                continue;
            };
            let Some(stands) = self.book.unit(unit) else { continue };
            let Some((attempts, runs)) = self.payments.restore(unit, deal, stands.state.has_ended()) else {
                continue;
            };
            self.book.attempted(unit, attempts);
            if runs && self.state_of(unit) == Some(State::Waiting) {
                // Its runner has likely gone on, and will say so.
                self.wait_for(unit, self.config.timing.lease, cx);
            }
        }
    }

    /// All has been read: what had ended before is settled.
    pub(super) fn settle_ended(&mut self) {
        let (jobs, book) = (&self.jobs, &self.book);
        self.payments.settle_ended(|unit: UnitId| {
            let over = jobs.get(&unit.job).is_none_or(|job| !job.is_active());
            over || book.state(unit).is_some_and(State::has_ended)
        });
        let held = std::mem::take(&mut self.bank_held);
        self.payments.bank_holds(held);
    }

    /// The lease of `runner`, begun now if it has none.
    pub(super) fn lease_of(&mut self, runner: NodeId, cx: &mut Cx<'_, Self>) -> &mut Held {
        // Numbers grow across restarts of the owner as long as its wall clock does.
        let next = self.next_lease.max(self.wall_now(cx.now));
        // A runner without units sends no heartbeat: its time begins with its first unit.
        if self.book.granted_count(runner) == 0 {
            cx.set_timer(Timer::Lease(runner), self.config.timing.lease);
        }
        self.leases.entry(runner).or_insert_with(|| {
            self.next_lease = next + 1;
            Held::new(next)
        })
    }

    pub(super) fn runner_up(&mut self, runner: NodeId) {
        // The wire was cut: what was on it will not come any more.
        if let Some(held) = self.leases.get_mut(&runner) {
            held.behind = Some(u64::MAX);
        }
    }

    pub(super) fn runner_down(&mut self, runner: NodeId, cx: &mut Cx<'_, Self>) {
        if let Some(held) = self.leases.get_mut(&runner) {
            held.reports.clear();
            cx.set_timer(Timer::Lease(runner), self.config.timing.grace);
        }
    }

    /// Content comes from the node. On a slow line its heartbeats wait behind that.
    pub(super) fn heard(&mut self, node: NodeId, cx: &mut Cx<'_, Self>) {
        // After the wire was cut, only a list of its units tells that it still has them.
        if self.leases.get(&node).is_some_and(|held| held.behind != Some(u64::MAX)) {
            cx.set_timer(Timer::Lease(node), self.config.timing.lease);
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        from: NodeId,
        lease: Lease,
        grants: u64,
        units: Option<Vec<(JobId, Vec<u32>)>>,
        cx: &mut Cx<'_, Self>,
    ) {
        let patience = self.config.timing.lease;
        let Some(held) = self.leases.get_mut(&from).filter(|held| held.lease() == lease) else {
            return Self::to_runner(from, ToRunner::LeaseOver { lease }, cx);
        };
        cx.set_timer(Timer::Lease(from), patience);
        let Some(list) = units else { return };
        // A grant may be on its way; only if it stays away from one list to the next, or the
        // wire was cut in between, has it been lost.
        if grants != held.grants && held.behind != Some(u64::MAX) && held.behind != Some(grants) {
            held.behind = Some(grants);
            return;
        }
        held.behind = None;
        held.grants = grants;
        let listed: BTreeSet<UnitId> = list
            .into_iter()
            .flat_map(|(job, indices)| indices.into_iter().map(move |index| UnitId { job, index }))
            .collect();
        let missing: Vec<UnitId> = self.book.granted(from).filter(|unit| !listed.contains(unit)).collect();
        self.units_back(from, &missing, Back::Unharmed, cx);
    }

    pub(super) fn declined(
        &mut self,
        from: NodeId,
        lease: Lease,
        units: Vec<UnitId>,
        (cause, reason): (Cause, &str),
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(units) = self.held_of(from, lease, units) else { return };
        // The finder leaves the node alone for a while; one that runs other jobs it goes on with.
        if cause != Cause::Job {
            cx.emit(Event::Declined { node: from });
        }
        let mut why = bounds::reason(reason);
        why = format!("{} declined: {why}", from.short());
        for unit in &units {
            if let Some(job) = self.jobs.get_mut(&unit.job) {
                job.shortage = Some(why.clone());
            }
        }
        let jobs: BTreeSet<JobId> = units.iter().map(|unit| unit.job).collect();
        for id in jobs {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            match cause {
                Cause::Node => continue,
                Cause::Job => job.avoided.declined(from, &why, cx.now),
                Cause::Failed => job.avoided.failed(from, &why, cx.now),
            }
            if job.spec.find == Find::Fitting {
                cx.emit(Event::TurnsAway { job: id, node: from });
            }
        }
        for unit in &units {
            self.fail_move(*unit, &format!("{why}; it goes on where there is room"), cx);
        }
        // A unit that breaks every engine it meets is held in the end.
        let back = if cause == Cause::Failed { Back::Failed(&why) } else { Back::Unharmed };
        self.units_back(from, &units, back, cx);
    }

    /// Those of the units that the runner holds under this lease. `None` if it is another lease by now.
    fn held_of(&self, from: NodeId, lease: Lease, units: Vec<UnitId>) -> Option<Vec<UnitId>> {
        self.leases.get(&from).filter(|held| held.lease() == lease)?;
        Some(units.into_iter().filter(|unit| self.book.is_granted(*unit, from)).collect())
    }

    /// Units that found no free slot at their runner. Nobody is to blame.
    pub(super) fn not_begun(
        &mut self,
        from: NodeId,
        lease: Lease,
        units: Vec<UnitId>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(units) = self.held_of(from, lease, units) else { return };
        for unit in &units {
            self.fail_move(*unit, "it had not begun; it begins where a slot is free", cx);
        }
        self.units_back(from, &units, Back::Unharmed, cx);
    }

    pub(super) fn lease_lost(&mut self, runner: NodeId, why: &str, cx: &mut Cx<'_, Self>) {
        let Some(held) = self.leases.remove(&runner) else { return };
        cx.cancel_timer(Timer::Lease(runner));
        let units: Vec<UnitId> = self.book.granted(runner).collect();
        if units.is_empty() {
            return;
        }
        Self::to_runner(runner, ToRunner::LeaseOver { lease: held.lease() }, cx);
        let why = format!("{} {why}", runner.short());
        for unit in &units {
            self.count_lost(*unit, cx);
            self.fail_move(*unit, &format!("{why}; it goes on from its newest checkpoint"), cx);
        }
        let jobs: BTreeSet<JobId> = units.iter().map(|unit| unit.job).collect();
        for unit in units {
            self.book.put_back(unit, runner, Back::Lost(&why), super::MAX_LOSSES);
            let on_loss = self.jobs.get(&unit.job).map(|job| job.spec.template.on_loss);
            if let Some(OnLoss::Wait(us)) = on_loss {
                self.wait_for(unit, Duration::from_micros(us), cx);
            }
        }
        for id in jobs {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.shortage = Some(format!("{why}; its units are placed again"));
            }
            self.touch(id, cx);
        }
        self.look(cx);
    }

    /// Takes units from a living runner's lease and lets them wait again.
    pub(super) fn units_back(
        &mut self,
        runner: NodeId,
        units: &[UnitId],
        back: Back<'_>,
        cx: &mut Cx<'_, Self>,
    ) {
        let mut jobs = BTreeSet::new();
        for unit in units {
            if self.book.is_granted(*unit, runner) {
                self.book.put_back(*unit, runner, back, super::MAX_LOSSES);
                jobs.insert(unit.job);
            }
        }
        let any = !jobs.is_empty();
        jobs.into_iter().for_each(|id| self.touch(id, cx));
        if any {
            // Not at once: who just declined would be the first to be found again.
            cx.set_timer_by(Timer::Look, Duration::from_millis(100));
        }
    }

    /// Whether the job's program may run at others although this node refuses it: a unit has run already, or
    /// the node is a page. Pages differ from servers in what they compile, and refuse within a moment.
    pub(super) fn may_run_elsewhere(&self, from: NodeId, id: JobId, cx: &Cx<'_, Self>) -> bool {
        let is_page = || nodes::platform(from, cx.peers) == Platform::Browser;
        self.jobs.get(&id).is_some_and(|job| job.refusals.runs) || is_page()
    }

    /// A node refused the program of a unit that it was granted: the job's next units go elsewhere.
    pub(super) fn refused_by(&mut self, from: NodeId, id: JobId, why: &str, cx: &Cx<'_, Self>) {
        let may_run_elsewhere = self.may_run_elsewhere(from, id, cx);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let why = bounds::reason(why);
        job.avoided.failed(from, &format!("{} refused its program: {why}", from.short()), cx.now);
        if !may_run_elsewhere {
            job.refusals.refused(from, why);
        }
    }

    /// Waiting units of a job whose program is refused are held.
    pub(super) fn hold_refused(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.is_active() && job.refusals.bars()) else {
            return;
        };
        let (mut held, why) = (Vec::new(), job.refusals.reason());
        while let Some(index) = self.book.next_waiting(id) {
            self.book.hold(UnitId { job: id, index }, why.clone(), true);
            held.push(index);
        }
        self.tell_held(id, &held, cx);
    }

    /// A unit of the job has run, at whatever node: the program is none that nobody can run.
    pub(super) fn has_run(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.refusals.runs) else { return };
        job.refusals.runs = true;
        self.delegation.runs(id);
        if self.release_refused(id, cx) {
            self.touch(id, cx);
            self.look(cx);
        }
    }

    /// Units that were held because of the program wait again, if they may. Whether there are any.
    pub(super) fn release_refused(&mut self, id: JobId, cx: &mut Cx<'_, Self>) -> bool {
        if self.jobs.get(&id).is_none_or(|job| job.refusals.bars()) {
            return false;
        }
        let released = self.book.release_barred(id);
        self.tell_held(id, &released, cx);
        !released.is_empty()
    }

    /// Announces which units of another gateway's job are held, by writing their records.
    fn tell_held(&mut self, id: JobId, units: &[u32], cx: &mut Cx<'_, Self>) {
        if self.jobs.get(&id).is_some_and(|job| !job.is_own()) {
            units.iter().for_each(|index| self.write_record(UnitId { job: id, index: *index }, cx));
        }
    }

    /// Units that `node` holds, units it ended, and the processor time it gave to those.
    pub fn work_of(&self, node: NodeId) -> (u32, u64, u64) {
        let held = self.book.granted_count(node);
        let given = self.jobs.values().filter_map(|job| job.by_node.get(&node));
        let (units, cpu_us) =
            given.fold((0, 0), |(u, c): (u64, u64), (units, cpu)| (u + units, c.saturating_add(*cpu)));
        (held, units, cpu_us)
    }
}
