//! A node that lies: what it says to others is changed on its way out, everything else about it is real.
//!
//! The stories set it on a node of a [`World`](crate::World), and `tests/hostile` on a native one.

use bytes::Bytes;
use node_core::content::{BlobRef, Data, NamedData};
use node_core::engine::SnapshotRef;
use node_core::ids::UnitId;
use node_core::money::Micro;
use node_core::node::message::Message;
use node_core::overlay::neighbours::Message as Greeting;
use node_core::progress;
use node_core::store::Message as Content;
use node_core::work::message::{Message as Work, Report, Returned, ToOwner, ToRunner};

use node_core::work::delegated::{self, Delegated};
use node_core::work::message::Lease;
use node_core::work::proof::GrantProof;
use node_core::work::spec::{
    CheckpointEvery, Find, JobSpec, OnLoss, OwnedBy, Template, Terms, UnitResult, Units,
};
use node_core::work::submission;
use node_core::{BlobId, Channel, JobId, NodeId};
use sandbox::{End, Limits};

/// The subject of a lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Gives the gateway a job over the wire, of the highest priority that there is.
    Submit,
    /// Gives it a job that buys its places, which it means to sell itself.
    Buy,
    /// Granted one unit, it reports made-up results of all others.
    Forge,
    /// Granted nothing, it reports results of all units of a job whose id it knows.
    Ungranted,
    /// Granted one unit, it reports that all others failed.
    Fail,
    /// Its results are larger than a message may hold.
    Big,
    /// Its results leave files outside of their folder, and have used more fuel than there is.
    Path,
    /// Its results name content that it never sends.
    Blob,
    /// It says of units that it never had that they are suspended there.
    Return,
    /// It says of units that it never had that it has checkpoints of them, newer than any, and that it keeps
    /// the checkpoints that others make of them.
    Checkpoint,
    /// It only listens; its story says what it says.
    Listen,
    /// It says nothing of circuits; its story does.
    Quiet,
    /// It says nothing about units that it was granted, nor what content it lacks; its story does.
    Hoard,
}

impl std::str::FromStr for Lie {
    type Err = String;

    fn from_str(word: &str) -> Result<Lie, String> {
        Ok(match word {
            "submit" => Lie::Submit,
            "buy" => Lie::Buy,
            "forge" => Lie::Forge,
            "ungranted" => Lie::Ungranted,
            "fail" => Lie::Fail,
            "big" => Lie::Big,
            "path" => Lie::Path,
            "blob" => Lie::Blob,
            "return" => Lie::Return,
            "checkpoint" => Lie::Checkpoint,
            other => {
                return Err(format!(
                    "{other:?} is no lie; say submit, buy, forge, ungranted, fail, big, path, blob, return or \
                     checkpoint"
                ));
            }
        })
    }
}

/// The number of a checkpoint that nobody made, and of those that it says it keeps: one of them is the newest
/// when it says so.
const NEWEST: u32 = 1000;
const KEPT: std::ops::RangeInclusive<u32> = 1..=64;

/// The fuel that a unit has used, by a checkpoint that it made up.
pub const MADE_UP_FUEL: u64 = 1 << 40;

/// The fate of a message on its way out.
#[derive(Debug)]
pub enum Said {
    Truly,
    Instead(Box<Message>),
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Liar {
    pub lie: Lie,
    /// The job that it knows of, or gives.
    pub job: JobId,
    /// Units of that.
    pub units: u32,
    /// The program of a job that it gives.
    pub program: BlobRef,
    /// Units on the ring that it was told of.
    pub told: Vec<Delegated>,
    /// All that it was ever granted.
    pub grants: Vec<Granted>,
    /// Reports that it was told to repeat later.
    pub not_written: Vec<u64>,
}

/// A unit that was granted, and what shows that.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    pub unit: UnitId,
    pub lease: Lease,
    pub attempt: u32,
    pub proof: GrantProof,
}

impl Granted {
    /// A report of this unit alone, which leaves this content.
    pub fn report(&self, seq: u64, stdout: Data, stderr: Data) -> Message {
        self.reports(seq, UnitResult { stdout, stderr, ..result_of(End::Exited(0)) })
    }

    /// A report of this unit alone, which leaves these files.
    pub fn leaves(&self, seq: u64, files: Vec<NamedData>) -> Message {
        self.reports(seq, UnitResult { files, ..result_of(End::Exited(0)) })
    }

    /// A report that this unit failed.
    pub fn fails(&self, seq: u64) -> Message {
        self.reports(seq, result_of(End::Exited(1)))
    }

    fn reports(&self, seq: u64, result: UnitResult) -> Message {
        let Granted { unit, attempt, proof, .. } = *self;
        to_owner(ToOwner::Report { seq, results: vec![Report { unit, attempt, proof, began: 0, result }] })
    }

    /// The unit found no slot.
    pub fn not_begun(&self) -> Message {
        to_owner(ToOwner::NotBegun { lease: self.lease, units: vec![self.unit] })
    }
}

impl Liar {
    pub fn new(lie: Lie, job: JobId, units: u32) -> Liar {
        let program = BlobRef { id: BlobId([0; 32]), len: 0 };
        Liar { lie, job, units, program, told: Vec::new(), grants: Vec::new(), not_written: Vec::new() }
    }

    /// Messages that it sends of its own accord when it hears this.
    pub fn hears(&mut self, channel: Channel, bytes: &Bytes) -> Vec<Message> {
        match Message::decode(bytes, channel) {
            Ok(Message::Neighbours(Greeting::Hello(hello))) if hello.gateway => self.greeted(),
            Ok(Message::Work(Work::ToRunner(ToRunner::Grant { lease, batches }))) => {
                let all = batches.iter().flat_map(|batch| batch.units.iter().map(|unit| (batch.job, unit)));
                self.grants.extend(all.map(|(job, unit)| Granted {
                    unit: UnitId { job, index: unit.index },
                    lease,
                    attempt: unit.attempt,
                    proof: unit.proof,
                }));
                let granted = batches.into_iter().flat_map(|batch| {
                    batch.units.into_iter().map(move |unit| (batch.job, unit.index, unit.attempt, unit.proof))
                });
                granted
                    .take(1)
                    .flat_map(|(job, index, attempt, proof)| self.granted(job, index, attempt, proof))
                    .collect()
            }
            Ok(Message::Work(Work::ToRunner(ToRunner::NotWritten { seq }))) => {
                self.not_written.push(seq);
                Vec::new()
            }
            Ok(Message::Work(Work::Delegated(delegated::Message::Owned { units, .. }))) => {
                self.told.extend(units);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Decides what goes out in place of this.
    pub fn says(&mut self, channel: Channel, bytes: &Bytes) -> Said {
        match self.lie {
            Lie::Hoard => return self.withholds(channel, bytes),
            Lie::Quiet if matches!(Message::decode(bytes, channel), Ok(Message::Circuits(_))) => {
                return Said::Nothing;
            }
            Lie::Big | Lie::Path | Lie::Blob => {}
            _ => return Said::Truly,
        }
        match Message::decode(bytes, channel) {
            Ok(Message::Work(Work::ToOwner(ToOwner::Report { seq, mut results }))) => {
                results.iter_mut().for_each(|report| self.spoil(&mut report.result));
                // One fills a frame.
                results.truncate(1);
                Said::Instead(Box::new(to_owner(ToOwner::Report { seq, results })))
            }
            Ok(Message::Store(Content::Missing { .. } | Content::Busy { .. })) if self.lie == Lie::Blob => {
                Said::Nothing
            }
            _ => Said::Truly,
        }
    }

    fn withholds(&self, channel: Channel, bytes: &Bytes) -> Said {
        match Message::decode(bytes, channel) {
            Ok(Message::Store(Content::Missing { .. } | Content::Busy { .. })) => Said::Nothing,
            Ok(Message::Work(Work::ToOwner(
                ToOwner::Report { .. } | ToOwner::Suspended { .. } | ToOwner::Immobile { .. },
            ))) => Said::Nothing,
            _ => Said::Truly,
        }
    }

    fn spoil(&self, result: &mut UnitResult) {
        match self.lie {
            Lie::Big => result.stdout = Data::Inline(Bytes::from(vec![b'x'; 800_000])),
            Lie::Path => {
                let file =
                    |path: &str| NamedData { path: path.into(), data: Data::Inline(Bytes::from("evil")) };
                result.files = vec![file("../../../../tmp/evil"), file("/etc/evil"), file("a/../b")];
                result.fuel = u64::MAX;
            }
            Lie::Blob => result.stdout = Data::Blob(BlobRef { id: BlobId([8; 32]), len: 1 << 20 }),
            _ => {}
        }
    }

    fn greeted(&self) -> Vec<Message> {
        match self.lie {
            Lie::Submit => vec![self.submission(Find::Nearest)],
            Lie::Buy => {
                let terms = Terms { max_price: Micro(1_000_000), max_price_job: None, min_speed: 0 };
                vec![self.submission(Find::Cheapest(terms))]
            }
            Lie::Ungranted => self.reports(self.job, None, 1, GrantProof::default(), End::Exited(0)),
            Lie::Return => vec![self.return_with(1, GrantProof::default())],
            Lie::Checkpoint => self.checkpoints(self.job, None),
            _ => Vec::new(),
        }
    }

    fn granted(&self, job: JobId, index: u32, attempt: u32, proof: GrantProof) -> Vec<Message> {
        match self.lie {
            Lie::Forge => self.reports(job, Some(index), attempt, proof, End::Exited(0)),
            Lie::Fail => self.reports(job, Some(index), attempt, proof, End::Exited(1)),
            Lie::Return => vec![self.return_with(attempt, proof)],
            Lie::Checkpoint => self.checkpoints(job, Some(index)),
            _ => Vec::new(),
        }
    }

    /// All units but one, with a proof that is another's or none.
    fn reports(
        &self,
        job: JobId,
        but: Option<u32>,
        attempt: u32,
        proof: GrantProof,
        end: End,
    ) -> Vec<Message> {
        let indices: Vec<u32> = (0..self.units).filter(|index| Some(*index) != but).collect();
        let reports = indices.chunks(8).enumerate().map(|(seq, indices)| {
            let report = |index: &u32| {
                let stdout = Data::Inline(Bytes::from(format!("FORGED {index}\n")));
                let result = UnitResult { stdout, ..result_of(end.clone()) };
                Report { unit: UnitId { job, index: *index }, attempt, proof, began: 0, result }
            };
            to_owner(ToOwner::Report {
                seq: 1 << 40 | seq as u64,
                results: indices.iter().map(report).collect(),
            })
        });
        reports.collect()
    }

    fn return_with(&self, attempt: u32, proof: GrantProof) -> Message {
        let returned = |index| {
            let unit = UnitId { job: self.job, index };
            Returned { unit, attempt, proof, made: Some(made_up(unit, 1)) }
        };
        to_owner(ToOwner::Returned { units: (0..self.units).map(returned).collect() })
    }

    /// Messages about checkpoints of all units except `but`.
    fn checkpoints(&self, job: JobId, but: Option<u32>) -> Vec<Message> {
        let indices = (0..self.units).filter(|index| Some(*index) != but);
        let units: Vec<UnitId> = indices.map(|index| UnitId { job, index }).collect();
        let made = units.iter().map(|unit| made_up(*unit, NEWEST)).collect();
        let kept = units.iter().flat_map(|unit| {
            KEPT.map(|number| {
                let version = progress::Version { attempt: 1, number };
                to_owner(ToOwner::Kept { unit: *unit, version })
            })
        });
        // First what it says of others' checkpoints: its own would hide them.
        kept.chain([to_owner(ToOwner::Checkpoints { made })]).collect()
    }

    fn submission(&self, find: Find) -> Message {
        let spec = JobSpec {
            name: "given by a stranger".into(),
            template: Template {
                program: self.program,
                arguments: vec!["{}".into()],
                environment: vec![],
                stdin: Data::EMPTY,
                files: vec![],
                limits: Limits { fuel: 1 << 40, ..Limits::default() },
                bit_exact: false,
                checkpoint: CheckpointEvery::NEVER,
                on_loss: OnLoss::Recover,
                threads: None,
            },
            units: Units::Sweep { first: 0, count: self.units.max(1) },
            priority: *submission::PRIORITIES.end(),
            max_retries: 0,
            find,
            owner: OwnedBy::Gateway,
            requires: Default::default(),
        };
        to_owner(ToOwner::Submit { job: self.job, spec: Box::new(spec) })
    }
}

/// A checkpoint whose content nobody has.
fn made_up(unit: UnitId, number: u32) -> progress::Made {
    let blob = BlobRef { id: BlobId([9; 32]), len: 7 };
    let snapshot = SnapshotRef { blob, base: None, root: [0; 32], fuel: MADE_UP_FUEL };
    let version = progress::Version { attempt: 1, number };
    progress::Made {
        unit,
        checkpoint: progress::Checkpoint { version, snapshot },
        began: 0,
        kept: vec![],
        marks: None,
    }
}

fn result_of(end: End) -> UnitResult {
    UnitResult {
        end,
        stdout: Data::EMPTY,
        stderr: Data::EMPTY,
        files: vec![],
        cpu_us: 1,
        runner: NodeId([0; 32]),
        attempts: 1,
        fuel: 0,
        journey: None,
        paid: Micro::ZERO,
    }
}

fn to_owner(message: ToOwner) -> Message {
    Message::Work(Work::ToOwner(message))
}
