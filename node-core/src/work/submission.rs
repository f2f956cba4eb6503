//! Bounds of jobs: the API and the wire are both checked by them.

use super::spec::{Find, JobSpec, OnLoss, Template, UnitSpec, Units};
use crate::bounds::Bounds;
use crate::content::{Data, NamedData};
use crate::money::Micro;
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
/// Our choice: below it, a node does little else than write snapshots.
pub const CHECKPOINT_MIN: Duration = Duration::from_millis(100);
/// Our choice: a retry after the hundredth failure is a loop.
pub const RETRIES_MAX: u32 = 100;
/// Our choice: enough steps between jobs, and nobody can outbid everybody for good.
pub const PRIORITIES: RangeInclusive<i32> = -1000..=1000;

/// Checks everything but what depends on the node that takes the job.
///
/// # Errors
/// Says what is out of bounds, and what to do about it.
pub fn check(spec: &JobSpec, bounds: &Bounds) -> Result<(), String> {
    check_name(&spec.name)?;
    check_units(&spec.units, bounds)?;
    check_template(spec, bounds)?;
    if spec.max_retries > RETRIES_MAX {
        return Err(format!("{} retries are asked for; at most {RETRIES_MAX} are made", spec.max_retries));
    }
    if !PRIORITIES.contains(&spec.priority) {
        let (low, high) = (PRIORITIES.start(), PRIORITIES.end());
        return Err(format!("the priority is {}; give {low} to {high}", spec.priority));
    }
    check_find(spec)?;
    check_strings(&spec.template)?;
    check_paths(&spec.template.files, &[])?;
    units_of(&spec.units).iter().try_for_each(|unit| check_unit(&spec.template, unit))?;
    check_content(spec, bounds)
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
        return Err(format!("the name has {} bytes; a name is one line of 1 to {NAME_MAX}", name.len()));
    }
    Ok(())
}

fn check_units(units: &Units, bounds: &Bounds) -> Result<(), String> {
    let (count, most) = (units.count(), bounds.units_per_job);
    if count == 0 {
        return Err("the job has no units; give it at least one input".into());
    }
    if count > most {
        return Err(format!("the job has {count} units and a job may have {most}; split it"));
    }
    match units {
        Units::Sweep { first, .. } if first.checked_add(u64::from(count)).is_none() => {
            Err("the sweep's last number would not fit 64 bits; begin with a smaller one".into())
        }
        Units::Sweep { .. } | Units::List(_) => Ok(()),
    }
}

fn check_template(spec: &JobSpec, bounds: &Bounds) -> Result<(), String> {
    let template = &spec.template;
    let limits = &template.limits;
    if !MEMORY.contains(&limits.memory_bytes) {
        let (low, high) = (MEMORY.start(), MEMORY.end());
        return Err(format!("the memory limit is {} bytes; give {low} to {high}", limits.memory_bytes));
    }
    if limits.output_bytes > bounds.blob_bytes {
        let (bytes, most) = (limits.output_bytes, bounds.blob_bytes);
        return Err(format!("the output limit is {bytes} bytes; give at most {most}"));
    }
    let most = TIME_MAX.as_micros() as u64;
    if !(1..=most).contains(&limits.time_us) {
        return Err(format!("the time limit is {} µs; give 1 to {most}", limits.time_us));
    }
    if limits.fuel == 0 {
        return Err("the fuel limit is 0, which lets nothing run; give at least 1".into());
    }
    if let Some(every) = template.checkpoint.duration()
        && !(CHECKPOINT_MIN..=TIME_MAX).contains(&every)
    {
        let (least, most) = (CHECKPOINT_MIN.as_secs_f64(), TIME_MAX.as_secs());
        return Err(format!(
            "checkpoints are {} s apart; give {least} to {most}, or 0 for none",
            every.as_secs_f64()
        ));
    }
    match template.on_loss {
        OnLoss::Wait(us) if !(1..=most).contains(&us) => {
            Err(format!("a lost node is waited for {us} µs; give 1 to {most}"))
        }
        OnLoss::Wait(_) | OnLoss::Recover => Ok(()),
    }
}

fn check_find(spec: &JobSpec) -> Result<(), String> {
    let Find::Cheapest(terms) = &spec.find else { return Ok(()) };
    if spec.template.limits.fuel == u64::MAX {
        return Err(
            "a job that buys its places needs a fuel limit, so that it is known what a unit costs at \
                    most; give one (--fuel-limit)"
                .into(),
        );
    }
    for most in [Some(terms.max_price), terms.max_price_job].into_iter().flatten() {
        if most == Micro::ZERO || most > Micro::MAX {
            return Err(format!("the most that it may cost is {most}; it has to be above 0"));
        }
    }
    Ok(())
}

/// Checks what one unit has of its own, beside what the job's units share.
///
/// # Errors
/// As [`check`].
pub fn check_unit(template: &Template, unit: &UnitSpec) -> Result<(), String> {
    if let Some(arguments) = &unit.arguments {
        check_arguments(arguments, template)?;
    }
    check_paths(&unit.files, &template.files)?;
    let own = inline_len(unit.stdin.as_ref(), &unit.files);
    if own > Data::INLINE_MAX {
        return Err(too_much("a unit's files", own, Data::INLINE_MAX));
    }
    Ok(())
}

fn check_strings(template: &Template) -> Result<(), String> {
    for (key, value) in &template.environment {
        if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            let key: String = key.chars().take(60).collect();
            return Err(format!(
                "{key:?} cannot be an environment variable: a name has no `=`, and neither it nor its value a NUL"
            ));
        }
    }
    check_arguments(&template.arguments, template)
}

fn check_arguments(arguments: &[String], template: &Template) -> Result<(), String> {
    if arguments.iter().any(|argument| argument.contains('\0')) {
        return Err("an argument holds a NUL, which no program could read".into());
    }
    let environment: usize = template.environment.iter().map(|(k, v)| k.len() + v.len() + 2).sum();
    let len = arguments.iter().map(|argument| argument.len() + 1).sum::<usize>() + environment;
    if len > STRINGS_MAX {
        return Err(format!(
            "arguments and environment take {len} bytes and may take {STRINGS_MAX}; pass them as a file"
        ));
    }
    Ok(())
}

/// Checks the paths of files that lie beside others.
fn check_paths(files: &[NamedData], beside: &[NamedData]) -> Result<(), String> {
    let count = files.len() + beside.len();
    if count > FILES_MAX {
        return Err(format!("a unit has {count} files and may have {FILES_MAX}; pack them into an archive"));
    }
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    if !files.is_empty() {
        paths.extend(beside.iter().map(|file| file.path.as_str()));
    }
    for NamedData { path, .. } in files {
        if path.len() > PATH_MAX || !NamedData::is_path(path) {
            let path: String = path.chars().take(60).collect();
            return Err(format!(
                "{path:?} is no path of a file: give 1 to {PATH_MAX} bytes, relative, without `.` and `..`"
            ));
        }
        if !paths.insert(path) {
            return Err(format!("the file {path:?} is there twice"));
        }
    }
    Ok(())
}

fn inline_len(stdin: Option<&Data>, files: &[NamedData]) -> usize {
    stdin.into_iter().chain(files.iter().map(|f| &f.data)).map(Data::inline_len).sum()
}

fn check_content(spec: &JobSpec, bounds: &Bounds) -> Result<(), String> {
    let shared = inline_len(Some(&spec.template.stdin), &spec.template.files);
    if shared > Data::INLINE_MAX {
        return Err(too_much("the job's files", shared, Data::INLINE_MAX));
    }
    let own: usize = units_of(&spec.units).iter().map(|u| inline_len(u.stdin.as_ref(), &u.files)).sum();
    if shared + own > JobSpec::INLINE_MAX {
        return Err(too_much("the units' files", shared + own, JobSpec::INLINE_MAX));
    }
    let large = spec.blobs().into_iter().find(|blob| blob.len > bounds.blob_bytes);
    large.map_or(Ok(()), |blob| {
        Err(format!("blob {} has {} bytes and a blob may have {}", blob.id, blob.len, bounds.blob_bytes))
    })
}

fn too_much(what: &str, len: usize, most: usize) -> String {
    format!("{what} have {len} bytes within the job and may have {most}; upload them and name their blobs")
}

fn units_of(units: &Units) -> &[UnitSpec] {
    match units {
        Units::Sweep { .. } => &[],
        Units::List(list) => list,
    }
}
