//! Bounds of jobs: the API and the wire are both checked by them.

use super::spec::{CheckpointEvery, Find, JobSpec, OnLoss, OwnedBy, Template, Threads, UnitSpec, Units};
use crate::bounds::Bounds;
use crate::content::{BlobRef, Data, NamedData};
use crate::money::Micro;
use crate::requires::{Requires, Unclear};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Bytes of a name. Our choice: one line on a screen.
pub const NAME_MAX: usize = 200;
/// Bytes of a unit's arguments and environment. Linux's bound for one argument; with it a unit's description
/// fits a message (1 MiB) twice over, its files included.
pub const STRINGS_MAX: usize = 128 << 10;
/// Files that go into a unit. Our choice: more belong in an archive.
pub const FILES_MAX: usize = 1000;
/// Bytes of a file's path. Linux's bound for a name.
pub const PATH_MAX: usize = 255;
/// Bytes of linear memory: a page, without which no program works, to what 32-bit addresses reach.
pub const MEMORY: RangeInclusive<u64> = 64 << 10..=4 << 30;
/// Our choice: nothing sensible runs longer without being split.
pub const TIME_MAX: Duration = Duration::from_secs(30 * 86_400);
const TIME_MAX_US: u64 = TIME_MAX.as_micros() as u64;
/// Our choice: below it, a node does little else than write snapshots.
pub const CHECKPOINT_MIN: Duration = Duration::from_millis(100);
/// Our choice: as many as a job has threads.
pub const WORKERS_MAX: u32 = 4096;
/// Our choice: a retry after the hundredth failure is a loop.
pub const RETRIES_MAX: u32 = 100;
/// Our choice: enough steps between jobs, and nobody can outbid everybody for good.
pub const PRIORITIES: RangeInclusive<i32> = -1000..=1000;

/// Why nobody takes a submission: what of it is out of bounds, and what to give instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("the name has {len} bytes; a name is one line of 1 to {NAME_MAX}")]
    Name { len: usize },
    #[error("the job has no units; give it at least one input")]
    NoUnits,
    #[error("the job has {count} units and a job may have {most}; split it")]
    Units { count: u32, most: u32 },
    #[error("the sweep's last number would not fit 64 bits; begin with a smaller one")]
    Sweep,
    #[error("the memory limit is {0} bytes; give {low} to {high}", low = MEMORY.start(), high = MEMORY.end())]
    Memory(u64),
    #[error("the output limit is {bytes} bytes; give at most {most}")]
    Output { bytes: u64, most: u64 },
    #[error("the time limit is {0} µs; give 1 to {TIME_MAX_US}")]
    Time(u64),
    #[error("the fuel limit is 0, which lets nothing run; give at least 1")]
    NoFuel,
    #[error(
        "checkpoints are {} s apart; give {} to {}, or 0 for none",
        .0.as_secs_f64(), CHECKPOINT_MIN.as_secs_f64(), TIME_MAX.as_secs()
    )]
    Checkpoint(Duration),
    #[error("a lost node is waited for {0} µs; give 1 to {TIME_MAX_US}")]
    OnLoss(u64),
    #[error("{0} retries are asked for; at most {RETRIES_MAX} are made")]
    Retries(u32),
    #[error("the priority is {0}; give {low} to {high}", low = PRIORITIES.start(), high = PRIORITIES.end())]
    Priority(i32),
    #[error(
        "a job that buys its places needs a fuel limit, so that it is known what a unit costs at most; give one \
         (--fuel-limit)"
    )]
    NoFuelLimit,
    #[error(
        "only the finder `fitting` looks for nodes that have what a job requires; give find = \"fitting\""
    )]
    RequiresFitting,
    #[error(transparent)]
    Requires(#[from] Unclear),
    #[error("{0} workers are asked for; give 1 to {WORKERS_MAX}")]
    Workers(u32),
    #[error(
        "a job with threads begins with one unit, and its program begins the others; give it one, not {0}"
    )]
    FirstThread(u32),
    #[error(
        "a job with threads needs checkpoints, is not run again, and is owned by the node that takes it: leave \
         `checkpoint`, `max_retries` and `owner` out"
    )]
    Threads,
    #[error("the most that it may cost is {0}; it has to be above 0")]
    Price(Micro),
    /// The beginning of the variable's name.
    #[error("{0:?} cannot be an environment variable: a name has no `=`, and neither it nor its value a NUL")]
    Environment(String),
    #[error("an argument holds a NUL, which no program could read")]
    Argument,
    #[error("arguments and environment take {0} bytes and may take {STRINGS_MAX}; pass them as a file")]
    Strings(usize),
    #[error("a unit has {0} files and may have {FILES_MAX}; pack them into an archive")]
    Files(usize),
    /// The beginning of the path.
    #[error("{0:?} is no path of a file: give 1 to {PATH_MAX} bytes, relative, without `.` and `..`")]
    Path(String),
    #[error("the file {0:?} is there twice")]
    Twice(String),
    #[error("{what} have {len} bytes within the job and may have {most}; upload them and name their blobs")]
    Inline { what: &'static str, len: usize, most: usize },
    #[error("blob {} has {} bytes and a blob may have {most}", .blob.id, .blob.len)]
    Blob { blob: BlobRef, most: u64 },
}

/// Checks everything but what depends on the node that takes the job.
///
/// # Errors
/// [`Unfit`] names the first thing that is out of bounds.
pub fn check(spec: &JobSpec, bounds: &Bounds) -> Result<(), Unfit> {
    check_name(&spec.name)?;
    check_units(&spec.units, bounds)?;
    check_template(spec, bounds)?;
    if spec.max_retries > RETRIES_MAX {
        return Err(Unfit::Retries(spec.max_retries));
    }
    if !PRIORITIES.contains(&spec.priority) {
        return Err(Unfit::Priority(spec.priority));
    }
    check_find(spec)?;
    check_threads(spec)?;
    check_strings(&spec.template)?;
    check_paths(&spec.template.files, &[])?;
    units_of(&spec.units).iter().try_for_each(|unit| check_unit(&spec.template, unit))?;
    check_content(spec, bounds)
}

/// Threads go on as they were, or the others would have heard of something that never was.
fn check_threads(spec: &JobSpec) -> Result<(), Unfit> {
    let Some(Threads { workers }) = spec.template.threads else { return Ok(()) };
    let sole = matches!(&spec.units, Units::List(units) if units.len() == 1);
    let keeps = spec.template.checkpoint != CheckpointEvery::NEVER && spec.max_retries == 0;
    if !(1..=WORKERS_MAX).contains(&workers) {
        return Err(Unfit::Workers(workers));
    }
    if !sole {
        return Err(Unfit::FirstThread(spec.units.count()));
    }
    if !keeps || spec.owner == OwnedBy::Ring || spec.find.terms().is_some() {
        return Err(Unfit::Threads);
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Unfit> {
    if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
        return Err(Unfit::Name { len: name.len() });
    }
    Ok(())
}

fn check_units(units: &Units, bounds: &Bounds) -> Result<(), Unfit> {
    let (count, most) = (units.count(), bounds.units_per_job);
    if count == 0 {
        return Err(Unfit::NoUnits);
    }
    if count > most {
        return Err(Unfit::Units { count, most });
    }
    match units {
        Units::Sweep { first, .. } if first.checked_add(u64::from(count)).is_none() => Err(Unfit::Sweep),
        Units::Sweep { .. } | Units::List(_) => Ok(()),
    }
}

fn check_template(spec: &JobSpec, bounds: &Bounds) -> Result<(), Unfit> {
    let template = &spec.template;
    let limits = &template.limits;
    if !MEMORY.contains(&limits.memory_bytes) {
        return Err(Unfit::Memory(limits.memory_bytes));
    }
    if limits.output_bytes > bounds.blob_bytes {
        let (bytes, most) = (limits.output_bytes, bounds.blob_bytes);
        return Err(Unfit::Output { bytes, most });
    }
    if !(1..=TIME_MAX_US).contains(&limits.time_us) {
        return Err(Unfit::Time(limits.time_us));
    }
    if limits.fuel == 0 {
        return Err(Unfit::NoFuel);
    }
    if let Some(every) = template.checkpoint.duration()
        && !(CHECKPOINT_MIN..=TIME_MAX).contains(&every)
    {
        return Err(Unfit::Checkpoint(every));
    }
    match template.on_loss {
        OnLoss::Wait(us) if !(1..=TIME_MAX_US).contains(&us) => Err(Unfit::OnLoss(us)),
        OnLoss::Wait(_) | OnLoss::Recover => Ok(()),
    }
}

fn check_find(spec: &JobSpec) -> Result<(), Unfit> {
    if spec.find != Find::Fitting && *spec.requires != Requires::default() {
        return Err(Unfit::RequiresFitting);
    }
    spec.requires.check()?;
    let Find::Cheapest(terms) = &spec.find else { return Ok(()) };
    if spec.template.limits.fuel == u64::MAX {
        return Err(Unfit::NoFuelLimit);
    }
    for most in [Some(terms.max_price), terms.max_price_job].into_iter().flatten() {
        if most == Micro::ZERO || most > Micro::MAX {
            return Err(Unfit::Price(most));
        }
    }
    Ok(())
}

/// Checks what one unit has of its own, beside what the job's units share.
///
/// # Errors
/// As [`check`].
pub fn check_unit(template: &Template, unit: &UnitSpec) -> Result<(), Unfit> {
    if let Some(arguments) = &unit.arguments {
        check_arguments(arguments, template)?;
    }
    check_paths(&unit.files, &template.files)?;
    let own = inline_len(unit.stdin.as_ref(), &unit.files);
    if own > Data::INLINE_MAX {
        return Err(Unfit::Inline { what: "a unit's files", len: own, most: Data::INLINE_MAX });
    }
    Ok(())
}

fn check_strings(template: &Template) -> Result<(), Unfit> {
    for (key, value) in &template.environment {
        if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            return Err(Unfit::Environment(start_of(key)));
        }
    }
    check_arguments(&template.arguments, template)
}

fn check_arguments(arguments: &[String], template: &Template) -> Result<(), Unfit> {
    if arguments.iter().any(|argument| argument.contains('\0')) {
        return Err(Unfit::Argument);
    }
    let environment: usize = template.environment.iter().map(|(k, v)| k.len() + v.len() + 2).sum();
    let len = arguments.iter().map(|argument| argument.len() + 1).sum::<usize>() + environment;
    if len > STRINGS_MAX {
        return Err(Unfit::Strings(len));
    }
    Ok(())
}

/// Checks the paths of files that lie beside others.
fn check_paths(files: &[NamedData], beside: &[NamedData]) -> Result<(), Unfit> {
    let count = files.len() + beside.len();
    if count > FILES_MAX {
        return Err(Unfit::Files(count));
    }
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    if !files.is_empty() {
        paths.extend(beside.iter().map(|file| file.path.as_str()));
    }
    for NamedData { path, .. } in files {
        if path.len() > PATH_MAX || !NamedData::is_path(path) {
            return Err(Unfit::Path(start_of(path)));
        }
        if !paths.insert(path) {
            return Err(Unfit::Twice(path.clone()));
        }
    }
    Ok(())
}

fn inline_len(stdin: Option<&Data>, files: &[NamedData]) -> usize {
    stdin.into_iter().chain(files.iter().map(|f| &f.data)).map(Data::inline_len).sum()
}

fn check_content(spec: &JobSpec, bounds: &Bounds) -> Result<(), Unfit> {
    let shared = inline_len(Some(&spec.template.stdin), &spec.template.files);
    if shared > Data::INLINE_MAX {
        return Err(Unfit::Inline { what: "the job's files", len: shared, most: Data::INLINE_MAX });
    }
    let own: usize = units_of(&spec.units).iter().map(|u| inline_len(u.stdin.as_ref(), &u.files)).sum();
    if shared + own > JobSpec::INLINE_MAX {
        let (len, most) = (shared + own, JobSpec::INLINE_MAX);
        return Err(Unfit::Inline { what: "the units' files", len, most });
    }
    let large = spec.blobs().into_iter().find(|blob| blob.len > bounds.blob_bytes);
    large.map_or(Ok(()), |blob| Err(Unfit::Blob { blob, most: bounds.blob_bytes }))
}

/// The beginning of a text of a stranger's, for an error.
pub(super) fn start_of(text: &str) -> String {
    text.chars().take(60).collect()
}

fn units_of(units: &Units) -> &[UnitSpec] {
    match units {
        Units::Sweep { .. } => &[],
        Units::List(list) => list,
    }
}
