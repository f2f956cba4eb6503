//! A job as its owner keeps it in memory, without the states of its units, which the book has.

use super::avoid::Avoided;
use super::queue::Queue;
use super::refusing::Refusals;
use crate::address::Address;
use crate::content::Data;
use crate::engine::SealKey;
use crate::ids::{JobId, NodeId, UnitId};
use crate::progress::{Journey, Resume};
use crate::work::book::{State, Unit};
use crate::work::delegated::Part;
use crate::work::delegation::{Described, Jobs, spec_of};
use crate::work::message::{Batch, UnitGrant};
use crate::work::payments::Deals;
use crate::work::proof::GrantKey;
use crate::work::spec::{Find, JobSpec, OwnedBy, Template, UnitResult, UnitSpec, Units};
use crate::work::unit_record::UnitRecord;
use crate::work::weight;
use std::collections::{BTreeMap, BTreeSet};

/// Journeys of ended units kept in memory for lists.
const JOURNEYS_KEPT: usize = 1000;

/// Bytes of memory that a job takes, about.
pub(super) fn weight_of(spec: &JobSpec) -> u64 {
    let units = u64::from(spec.units.count()) * size_of::<Unit>() as u64;
    weight::of_job(spec) + units
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its blobs are being fetched or its record written; not yet promised to anybody.
    Accepting,
    Active,
    Over {
        cancelled: bool,
    },
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) spec: JobSpec,
    pub(super) client: NodeId,
    /// Secret from which the keys of the job's units are derived.
    pub(super) secret: [u8; 32],
    pub(super) submitted_ms: u64,
    pub(super) ended_ms: Option<u64>,
    pub(super) phase: Phase,
    /// It came to an earlier life of this node, which may have placed its units.
    pub(super) restored: bool,
    /// Tickets of its content, where content that nobody needs may be forgotten.
    pub(super) kept: Vec<u64>,
    pub(super) duplicates: u64,
    pub(super) cpu_us: u64,
    pub(super) by_node: BTreeMap<NodeId, (u64, u64)>,
    /// Why units wait, as the finder said last.
    pub(super) shortage: Option<String>,
    /// Why the last result could not be kept, until one is.
    pub(super) not_kept: Option<String>,
    /// The query for which the swarm is being searched.
    pub(super) asking: Option<u64>,
    /// The last search of the swarm found no free slot.
    pub(super) nowhere: bool,
    /// Runners at which its units fail.
    pub(super) avoided: Avoided,
    /// Runners that refuse its program.
    pub(super) refusals: Refusals,
    /// Units of which there is a checkpoint.
    pub(super) records: BTreeMap<u32, Box<UnitRecord>>,
    /// The ways of units that have ended and went some.
    pub(super) journeys: BTreeMap<u32, Box<Journey>>,
    pub(super) paused: BTreeSet<u32>,
    /// Units that waited, over time.
    pub(super) queue: Queue,
    /// Units of which these nodes say that they have ended, and whose results' content is on its way.
    pub(super) coming: BTreeMap<u32, NodeId>,
    /// The job's gateway, if that is another node: the ring has some of the units here (`work/delegation`).
    pub(super) foreign: Option<Box<Foreign>>,
    /// Units that are threads which other threads have begun.
    pub(super) begun: BTreeMap<u32, UnitSpec>,
    /// Why none of its threads goes on, if none can.
    pub(super) stuck: Option<String>,
    /// Bytes of memory, about, units of other gateways aside.
    pub(super) weight: u64,
}

/// Gateway of a job, and its description of the units that this node owns.
#[derive(Debug)]
pub(super) struct Foreign {
    origin: Address,
    sweep_first: Option<u64>,
    pub(super) units: BTreeMap<u32, Described>,
}

impl Job {
    pub(super) fn new(spec: JobSpec, client: NodeId, submitted_ms: u64, secret: [u8; 32]) -> Job {
        Job {
            weight: weight_of(&spec),
            spec,
            client,
            secret,
            submitted_ms,
            ended_ms: None,
            phase: Phase::Accepting,
            restored: false,
            kept: Vec::new(),
            duplicates: 0,
            cpu_us: 0,
            by_node: BTreeMap::new(),
            shortage: None,
            not_kept: None,
            asking: None,
            nowhere: false,
            avoided: Avoided::new(),
            refusals: Refusals::default(),
            records: BTreeMap::new(),
            journeys: BTreeMap::new(),
            paused: BTreeSet::new(),
            queue: Queue::default(),
            coming: BTreeMap::new(),
            foreign: None,
            begun: BTreeMap::new(),
            stuck: None,
        }
    }

    /// A job of another gateway, without units yet.
    pub(super) fn of_another(part: Part) -> Job {
        let spec = spec_of(&part, Units::List(Vec::new()));
        let mut job = Job::new(spec, part.origin.id, part.submitted_ms, [0; 32]);
        job.phase = Phase::Active;
        let Part { origin, sweep_first, .. } = part;
        job.foreign = Some(Box::new(Foreign { origin, sweep_first, units: BTreeMap::new() }));
        job
    }

    /// Whether it is this node's own.
    pub(super) fn is_own(&self) -> bool {
        self.foreign.is_none()
    }

    /// Whether it is this node's own, and the ring names the owners of its units.
    pub(super) fn is_on_ring(&self) -> bool {
        self.spec.owner == OwnedBy::Ring
    }

    /// The state in which its units begin.
    pub(super) fn first_state(&self) -> State {
        if self.is_on_ring() { State::Elsewhere } else { State::Waiting }
    }

    /// Whether only this life of this node has placed its units, so that it knows all their runners.
    pub(super) fn is_only_here(&self) -> bool {
        !self.restored && !self.is_on_ring() && self.is_own()
    }

    /// Whether its units are known to be short. What runners say of their processor time decides
    /// only where units wait.
    pub(super) fn is_short(&self, ended: u32) -> bool {
        ended > 0 && self.cpu_us / u64::from(ended) <= crate::work::SHORT.as_micros() as u64
    }

    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// The unit is not this node's any more.
    pub(super) fn drop_unit(&mut self, index: u32) {
        self.foreign.iter_mut().for_each(|foreign| drop(foreign.units.remove(&index)));
        self.records.remove(&index);
        self.paused.remove(&index);
        self.coming.remove(&index);
        self.journeys.remove(&index);
    }

    /// The unit as it is given to a runner. `sold`: what was bought for the job.
    pub(super) fn unit_grant(
        &self,
        index: u32,
        (runner, attempt): (NodeId, u32),
        resume: Option<Box<Resume>>,
        sold: Option<&Deals>,
    ) -> UnitGrant {
        UnitGrant {
            index,
            attempt,
            proof: self.grants(index).proof(runner, attempt),
            spec: self.unit_spec(index),
            key: self.key(index),
            resume,
            price: sold.and_then(|deals| deals.price(index, runner)).unwrap_or_default(),
            receipt: sold.and_then(|deals| deals.receipt(index, runner)).cloned(),
            keeper: sold.and_then(|deals| deals.keeper(index, runner)),
            choices: Vec::new(),
        }
    }

    pub(super) fn unit_spec(&self, index: u32) -> Option<UnitSpec> {
        match (&self.foreign, &self.spec.units) {
            (Some(foreign), _) => foreign.units.get(&index)?.spec.clone(),
            (None, Units::Sweep { .. }) => None,
            (None, Units::List(list)) => list.get(index as usize).or_else(|| self.begun.get(&index)).cloned(),
        }
    }

    pub(super) fn sweep_first(&self) -> Option<u64> {
        match (&self.foreign, &self.spec.units) {
            (Some(foreign), _) => foreign.sweep_first,
            (None, Units::Sweep { first, .. }) => Some(*first),
            (None, Units::List(_)) => None,
        }
    }

    /// Units of the job, which is called `id`, as they are given to a runner.
    pub(super) fn batch(&self, id: JobId, keepers: Vec<Address>, units: Vec<UnitGrant>) -> Batch {
        let sweep_first = self.sweep_first();
        let (name, template) = (self.spec.name.clone(), self.spec.template.clone());
        let origin = self.foreign.as_ref().map(|foreign| foreign.origin.id);
        Batch { job: id, name, template, sweep_first, keepers, units, origin }
    }

    /// Key with which the unit's snapshots are sealed.
    pub(super) fn key(&self, index: u32) -> SealKey {
        if let Some(foreign) = &self.foreign {
            return foreign.units.get(&index).map(|unit| unit.key).unwrap_or_default();
        }
        SealKey(*blake3::keyed_hash(&self.secret, &index.to_be_bytes()).as_bytes())
    }

    /// The key for the proofs of the unit's grants.
    pub(super) fn grants(&self, index: u32) -> GrantKey {
        match &self.foreign {
            Some(foreign) => foreign.units.get(&index).map(|unit| unit.grants).unwrap_or_default(),
            None => GrantKey::of(&self.secret, index),
        }
    }

    /// The result is durable.
    pub(super) fn count(&mut self, index: u32, result: &UnitResult) {
        self.avoided.ran_well(result.runner);
        self.cpu_us = self.cpu_us.saturating_add(result.cpu_us);
        let by = self.by_node.entry(result.runner).or_default();
        by.0 += 1;
        by.1 = by.1.saturating_add(result.cpu_us);
        if let Some(journey) = result.journey.as_ref().filter(|_| self.journeys.len() < JOURNEYS_KEPT) {
            self.journeys.insert(index, journey.clone());
        }
    }
}

impl Jobs for BTreeMap<JobId, Job> {
    fn is_own(&self, job: JobId) -> bool {
        self.get(&job).is_some_and(Job::is_own)
    }

    fn is_active(&self, job: JobId) -> bool {
        self.get(&job).is_some_and(Job::is_active)
    }

    fn part(&self, job: JobId, me: Address) -> Option<Part> {
        let job = self.get(&job)?;
        Some(Part {
            origin: job.foreign.as_ref().map_or(me, |foreign| foreign.origin),
            name: job.spec.name.clone(),
            template: job.spec.template.clone(),
            sweep_first: job.sweep_first(),
            priority: job.spec.priority,
            max_retries: job.spec.max_retries,
            submitted_ms: job.submitted_ms,
            requires: (job.spec.find == Find::Fitting).then(|| job.spec.requires.clone()),
        })
    }

    fn unit_spec(&self, unit: UnitId) -> Option<UnitSpec> {
        self.get(&unit.job)?.unit_spec(unit.index)
    }

    fn keys(&self, unit: UnitId) -> Option<(SealKey, GrantKey)> {
        let job = self.get(&unit.job)?;
        Some((job.key(unit.index), job.grants(unit.index)))
    }

    fn record(&self, unit: UnitId) -> Option<&UnitRecord> {
        self.get(&unit.job)?.records.get(&unit.index).map(|record| &**record)
    }

    fn shortage(&self, job: JobId) -> Option<&str> {
        self.get(&job)?.shortage.as_deref()
    }
}

/// Bytes of what a job's units share, encoded, about.
pub(super) fn size_of_template(template: &Template) -> usize {
    let strings: usize = template.arguments.iter().map(|s| s.len() + 5).sum();
    let environment: usize = template.environment.iter().map(|(k, v)| k.len() + v.len() + 10).sum();
    let files: usize = template.files.iter().map(|f| f.path.len() + size_of_data(&f.data)).sum();
    256 + strings + environment + files + size_of_data(&template.stdin)
}

/// Bytes of a unit in a grant, encoded, about.
pub(super) fn size_of_unit(grant: &UnitGrant) -> usize {
    // Names and sizes of two blobs and their sources, if it goes on from somewhere.
    let resume = grant.resume.as_ref().map_or(0, |resume| 300 + 120 * resume.sources.len());
    // A signature, two ids, and what it is about.
    let resume = resume + grant.receipt.as_ref().map_or(0, |receipt| 110 + receipt.body.len());
    let resume = resume + grant.keeper.map_or(0, |_| 120) + 20 * grant.choices.len();
    let Some(unit) = &grant.spec else { return KEY + resume };
    let arguments: usize = unit.arguments.iter().flatten().map(|s| s.len() + 5).sum();
    let files: usize = unit.files.iter().map(|f| f.path.len() + size_of_data(&f.data)).sum();
    KEY + resume + arguments + files + unit.stdin.as_ref().map_or(0, size_of_data)
}

/// A unit's key, number and attempt, encoded.
const KEY: usize = 80;

/// Encoded size, generously.
fn size_of_data(data: &Data) -> usize {
    64 + match data {
        Data::Inline(bytes) => bytes.len(),
        Data::Blob(_) => 0,
    }
}
