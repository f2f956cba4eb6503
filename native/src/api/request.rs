//! A submitted job, from its JSON to a specification that the node can follow.

use super::placing::{
    FindName, OwnerName, Prices, ThreadsRequest, check_find, check_owner, check_requires, check_threads,
};
use super::problem::Problem;
use super::requires::RequiresRequest;
use base64::Engine as _;
use bytes::Bytes;
use node_core::bounds::Bounds;
use node_core::content::{BlobRef, Data, NamedData};
use node_core::ids::BlobId;
use node_core::work::spec::{CheckpointEvery, JobSpec, OnLoss, Template, UnitSpec, Units};
use node_core::work::submission::{
    CHECKPOINT_MIN, FILES_MAX, MEMORY, NAME_MAX, PATH_MAX, PRIORITIES, RETRIES_MAX, STRINGS_MAX, TIME_MAX,
};
use sandbox::Limits;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use utoipa::ToSchema;

/// Bytes of one input within the request. Our choice: below it, a file of its own costs more than
/// the bytes.
const MAX_INLINE: usize = 4096;

/// A job to submit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobRequest {
    /// For people; the program's short id if absent.
    name: Option<String>,
    /// The blob id of a WASI preview 1 command module.
    #[schema(value_type = String)]
    program: Hex,
    /// Without the program's own name. In a sweep, `{}` stands for the unit's number.
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// The blob id of what the program reads from its standard input; empty if absent.
    #[schema(value_type = Option<String>)]
    stdin: Option<Hex>,
    /// The same as base64, at most 4096 bytes.
    #[schema(value_type = Option<String>)]
    stdin_base64: Option<Inline>,
    /// Files that the program finds under `/`.
    #[serde(default)]
    files: Vec<FileRequest>,
    /// Units that differ in a number. Without `sweep` and `units`, the job is one unit.
    sweep: Option<SweepRequest>,
    /// Units that differ in anything.
    units: Option<Vec<UnitRequest>>,
    /// Bytes of linear memory for each unit.
    #[schema(default = 268_435_456_u64)]
    memory_limit: Option<u64>,
    /// Bytes that each unit may write to stdout, stderr and files together.
    #[schema(default = 67_108_864_u64)]
    output_limit: Option<u64>,
    /// Seconds that each unit may run.
    #[schema(default = 3600)]
    time_limit: Option<f64>,
    /// How often a unit that failed is run again.
    #[serde(default)]
    max_retries: u32,
    /// Higher goes first, -1000 to 1000.
    #[serde(default)]
    priority: i32,
    /// `fitting` for a job with requirements, else `nearest`, if absent.
    find: Option<FindName>,
    /// What nodes must have to run a unit.
    requires: Option<RequiresRequest>,
    /// What a unit may cost at most, micro-credits, all legs together. For `find: cheapest`, which
    /// needs a `fuel_limit`, too.
    max_price: Option<u64>,
    /// What the whole job may; as much as its units if absent.
    max_price_job: Option<u64>,
    /// Least speed of a place that is bought, fuel a second.
    min_speed: Option<u64>,
    /// Fuel that each unit may use; one unit of it is about one instruction. No limit if absent.
    fuel_limit: Option<u64>,
    /// Seconds of a unit's work that may be lost with the node that runs it; 0 takes no checkpoints.
    #[schema(default = 30)]
    checkpoint: Option<f64>,
    /// What becomes of units whose node goes silent.
    #[serde(default)]
    on_loss: OnLossRequest,
    /// The same floats on every node, NaNs included, at a price in speed.
    #[serde(default)]
    bit_exact: bool,
    /// Who answers for the units.
    #[serde(default)]
    owner: OwnerName,
    /// The job is a virtual computer: its program begins threads on other nodes.
    threads: Option<ThreadsRequest>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = OnLoss)]
pub(super) enum OnLossRequest {
    /// They go on elsewhere from their newest checkpoint.
    #[default]
    Recover,
    /// They do so only after so many seconds, unless the node comes back.
    Wait(f64),
}

/// Units numbered `first`, `first + 1`, …
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SweepRequest {
    #[serde(default)]
    first: u64,
    #[schema(minimum = 1)]
    count: u32,
}

/// What a unit has of its own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UnitRequest {
    /// In place of the job's.
    arguments: Option<Vec<String>>,
    /// In place of the job's.
    #[schema(value_type = Option<String>)]
    stdin: Option<Hex>,
    /// The same as base64, at most 4096 bytes.
    #[schema(value_type = Option<String>)]
    stdin_base64: Option<Inline>,
    /// Beside the job's.
    #[serde(default)]
    files: Vec<FileRequest>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRequest {
    /// Relative, parts separated by `/`.
    #[schema(example = "data/input.txt")]
    path: String,
    /// The blob id of its content.
    #[schema(value_type = Option<String>)]
    blob: Option<Hex>,
    /// In place of `blob`, its content as base64, at most 4096 bytes.
    #[schema(value_type = Option<String>)]
    base64: Option<Inline>,
}

/// A blob's id in JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hex(BlobId);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Hex;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a blob's id, 64 hexadecimal digits")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Hex, E> {
                text.parse().map(Hex).map_err(E::custom)
            }
        }
        d.deserialize_str(Digits)
    }
}

/// Content within the request.
#[derive(Clone, Debug)]
pub(super) struct Inline(Bytes);

impl<'de> Deserialize<'de> for Inline {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Base64;
        impl Visitor<'_> for Base64 {
            type Value = Inline;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("content as base64 with padding")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Inline, E> {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(E::custom)?;
                if bytes.len() > MAX_INLINE {
                    let len = bytes.len();
                    return Err(E::custom(format!(
                        "{len} bytes are too many here, at most {MAX_INLINE} are possible; \
                         upload them (POST /api/v1/blobs) and give the blob's id"
                    )));
                }
                Ok(Inline(bytes.into()))
            }
        }
        d.deserialize_str(Base64)
    }
}

impl JobRequest {
    /// Checks everything but the program's code; `stored` tells a blob's length.
    pub(super) fn check(self, stored: &mut dyn FnMut(BlobId) -> Option<u64>) -> Result<JobSpec, Problem> {
        let program = known(stored, "program", self.program)?;
        let name = check_name(self.name, program.id)?;
        let environment = check_environment(self.environment)?;
        let env_len: usize = environment.iter().map(|(k, v)| k.len() + v.len() + 2).sum();
        check_arguments("arguments", &self.arguments, env_len)?;
        let mut paths = Paths::default();
        let files = check_files("files", self.files, &mut paths, stored)?;
        let stdin = check_content("stdin", self.stdin, self.stdin_base64, stored)?.unwrap_or(Data::EMPTY);
        let limits = check_limits(self.memory_limit, self.output_limit, self.time_limit)?;
        let limits = Limits { fuel: check_fuel(self.fuel_limit)?, ..limits };
        let checkpoint = check_checkpoint(self.checkpoint)?;
        let on_loss = self.on_loss.check()?;
        let units = match (self.sweep, self.units) {
            (Some(_), Some(_)) => {
                return Err(Problem::field("units", "a job has either `sweep` or `units`, not both"));
            }
            (Some(sweep), None) => check_sweep(sweep)?,
            (None, Some(units)) => check_units(units, env_len, &paths, stored)?,
            // Not a sweep of one: there `{}` among the arguments would be replaced.
            (None, None) => Units::List(vec![UnitSpec::default()]),
        };
        let prices = Prices { unit: self.max_price, job: self.max_price_job, min_speed: self.min_speed };
        let find = self.find.unwrap_or(FindName::usual(self.requires.is_some()));
        let find = check_find(find, prices, limits.fuel)?;
        let requires = check_requires(find, self.requires)?;
        let owner = check_owner(self.owner, find)?;
        let threads = check_threads(self.threads, &units)?;
        if self.max_retries > RETRIES_MAX {
            return Err(Problem::field("max_retries", format!("at most {RETRIES_MAX} retries are made")));
        }
        if !PRIORITIES.contains(&self.priority) {
            let (low, high) = (PRIORITIES.start(), PRIORITIES.end());
            return Err(Problem::field("priority", format!("a priority is between {low} and {high}")));
        }
        Ok(JobSpec {
            name,
            template: Template {
                program,
                arguments: self.arguments,
                environment,
                stdin,
                files,
                limits,
                bit_exact: self.bit_exact,
                checkpoint,
                on_loss,
                threads,
            },
            units,
            priority: self.priority,
            max_retries: self.max_retries,
            find,
            owner,
            requires,
        })
    }
}

/// A stored blob, or the message that says where to put it.
fn known(
    stored: &mut dyn FnMut(BlobId) -> Option<u64>,
    field: &str,
    Hex(id): Hex,
) -> Result<BlobRef, Problem> {
    match stored(id) {
        Some(len) => Ok(BlobRef { id, len }),
        None => {
            Err(Problem::field(field, format!("blob {id} is not here; upload it first: POST /api/v1/blobs")))
        }
    }
}

fn check_name(name: Option<String>, program: BlobId) -> Result<String, Problem> {
    let Some(name) = name else { return Ok(program.short()) };
    let name = name.trim();
    if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
        let rule = format!("a name is one line of 1 to {NAME_MAX} bytes; leave it out to have none");
        return Err(Problem::field("name", rule));
    }
    Ok(name.to_owned())
}

fn check_environment(environment: BTreeMap<String, String>) -> Result<Vec<(String, String)>, Problem> {
    for (key, value) in &environment {
        let field = || format!("environment.{key}");
        if key.is_empty() || key.contains(['=', '\0']) {
            return Err(Problem::field(field(), format!("{key:?} cannot name an environment variable")));
        }
        if value.contains('\0') {
            return Err(Problem::field(field(), "the value holds a NUL, which no program could read"));
        }
    }
    Ok(environment.into_iter().collect())
}

fn check_arguments(field: &str, arguments: &[String], env_len: usize) -> Result<(), Problem> {
    if let Some(at) = arguments.iter().position(|argument| argument.contains('\0')) {
        let message = "the argument holds a NUL, which no program could read";
        return Err(Problem::field(format!("{field}[{at}]"), message));
    }
    let len: usize = arguments.iter().map(|argument| argument.len() + 1).sum::<usize>() + env_len;
    if len > STRINGS_MAX {
        let message = format!(
            "arguments and environment take {len} bytes, and at most {STRINGS_MAX} are possible; \
             put the data into stdin or a file"
        );
        return Err(Problem::field(field, message));
    }
    Ok(())
}

fn check_content(
    field: &str,
    stdin: Option<Hex>,
    inline: Option<Inline>,
    stored: &mut dyn FnMut(BlobId) -> Option<u64>,
) -> Result<Option<Data>, Problem> {
    match (stdin, inline) {
        (None, None) => Ok(None),
        (Some(id), None) => Ok(Some(Data::Blob(known(stored, field, id)?))),
        (None, Some(Inline(bytes))) => Ok(Some(Data::Inline(bytes))),
        (Some(_), Some(_)) => Err(Problem::field(field, "give its blob or its content as base64, not both")),
    }
}

/// The paths that a unit's files take, and the folders above them.
#[derive(Default)]
struct Paths<'a> {
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
    /// Those of the job's files, which every unit has.
    shared: Option<&'a Paths<'a>>,
}

impl Paths<'_> {
    fn has_file(&self, path: &str) -> bool {
        self.files.contains(path) || self.shared.is_some_and(|shared| shared.has_file(path))
    }

    fn has_folder(&self, path: &str) -> bool {
        self.folders.contains(path) || self.shared.is_some_and(|shared| shared.has_folder(path))
    }

    fn count(&self) -> usize {
        self.files.len() + self.shared.map_or(0, Paths::count)
    }

    fn take(&mut self, field: &str, path: &str) -> Result<(), Problem> {
        let fail = |message: String| Err(Problem::field(field, message));
        if path.is_empty() || path.len() > PATH_MAX || path.contains('\0') {
            return fail(format!("{path:?} is no path: 1 to {PATH_MAX} bytes without NUL are"));
        }
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return fail(format!(
                "{path:?} has to be relative, without `.`, `..` and empty parts, as in data/input.txt"
            ));
        }
        if self.has_folder(path) {
            return fail(format!("{path:?} is a folder too: another file lies in it"));
        }
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        for folder in above {
            if self.has_file(folder) {
                return fail(format!("{path:?} cannot lie in {folder:?}, which is a file"));
            }
            self.folders.insert(folder.to_owned());
        }
        if self.has_file(path) {
            return fail(format!("{path:?} is there twice"));
        }
        self.files.insert(path.to_owned());
        Ok(())
    }
}

fn check_files(
    field: &str,
    files: Vec<FileRequest>,
    paths: &mut Paths<'_>,
    stored: &mut dyn FnMut(BlobId) -> Option<u64>,
) -> Result<Vec<NamedData>, Problem> {
    if paths.count() + files.len() > FILES_MAX {
        let message = format!("a unit takes at most {FILES_MAX} files; put them into an archive");
        return Err(Problem::field(field, message));
    }
    let check = |(at, file): (usize, FileRequest)| {
        paths.take(&format!("{field}[{at}].path"), &file.path)?;
        let data = check_content(&format!("{field}[{at}].blob"), file.blob, file.base64, stored)?;
        let data = data.ok_or_else(|| {
            let why = "a file needs a `blob`, or its content as `base64`";
            Problem::field(format!("{field}[{at}].blob"), why)
        })?;
        Ok(NamedData { path: file.path, data })
    };
    files.into_iter().enumerate().map(check).collect()
}

fn check_limits(memory: Option<u64>, output: Option<u64>, time: Option<f64>) -> Result<Limits, Problem> {
    let usual = Limits::default();
    let memory_bytes = memory.unwrap_or(usual.memory_bytes);
    if !MEMORY.contains(&memory_bytes) {
        let (low, high) = (MEMORY.start(), MEMORY.end());
        let message = format!("{memory_bytes} bytes are not possible; give {low} to {high}");
        return Err(Problem::field("memory_limit", message));
    }
    let output_bytes = output.unwrap_or(usual.output_bytes);
    let most = Bounds::default().blob_bytes;
    if output_bytes > most {
        let message = format!("{output_bytes} bytes are not possible; give at most {most}");
        return Err(Problem::field("output_limit", message));
    }
    let time_us = match time {
        None => usual.time_us,
        // Also false for NaN.
        Some(s) if s > 0.0 && s <= TIME_MAX.as_secs_f64() => ((s * 1e6) as u64).max(1),
        Some(s) => {
            let message =
                format!("{s} s are not possible; give more than 0 and at most {}", TIME_MAX.as_secs());
            return Err(Problem::field("time_limit", message));
        }
    };
    Ok(Limits { memory_bytes, output_bytes, time_us, ..usual })
}

fn check_fuel(fuel: Option<u64>) -> Result<u64, Problem> {
    match fuel {
        Some(0) => Err(Problem::field("fuel_limit", "0 lets nothing run; give at least 1, or leave it out")),
        fuel => Ok(fuel.unwrap_or(u64::MAX)),
    }
}

fn check_checkpoint(seconds: Option<f64>) -> Result<CheckpointEvery, Problem> {
    match seconds {
        None => Ok(CheckpointEvery::default()),
        Some(0.0) => Ok(CheckpointEvery::NEVER),
        Some(s) if (CHECKPOINT_MIN.as_secs_f64()..=TIME_MAX.as_secs_f64()).contains(&s) => {
            Ok(CheckpointEvery((s * 1e6) as u64))
        }
        Some(s) => {
            let (least, most) = (CHECKPOINT_MIN.as_secs_f64(), TIME_MAX.as_secs());
            let message = format!("{s} s are not possible; give {least} to {most}, or 0 for none");
            Err(Problem::field("checkpoint", message))
        }
    }
}

impl OnLossRequest {
    fn check(self) -> Result<OnLoss, Problem> {
        match self {
            OnLossRequest::Recover => Ok(OnLoss::Recover),
            // Also false for NaN.
            OnLossRequest::Wait(s) if s > 0.0 && s <= TIME_MAX.as_secs_f64() => {
                Ok(OnLoss::Wait((s * 1e6) as u64))
            }
            OnLossRequest::Wait(s) => {
                let most = TIME_MAX.as_secs();
                Err(Problem::field(
                    "on_loss",
                    format!("{s} s are not possible; give more than 0 and at most {most}"),
                ))
            }
        }
    }
}

fn check_count(field: &str, count: usize) -> Result<(), Problem> {
    let most = Bounds::default().units_per_job as usize;
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(Problem::field(field, format!("{count} units are not possible; a job has 1 to {most}")))
}

fn check_sweep(sweep: SweepRequest) -> Result<Units, Problem> {
    check_count("sweep.count", sweep.count as usize)?;
    if sweep.first.checked_add(u64::from(sweep.count)).is_none() {
        return Err(Problem::field("sweep.first", "the last number would not fit 64 bits"));
    }
    Ok(Units::Sweep { first: sweep.first, count: sweep.count })
}

fn check_units(
    units: Vec<UnitRequest>,
    env_len: usize,
    shared: &Paths<'_>,
    stored: &mut dyn FnMut(BlobId) -> Option<u64>,
) -> Result<Units, Problem> {
    check_count("units", units.len())?;
    let check = |(at, unit): (usize, UnitRequest)| -> Result<UnitSpec, Problem> {
        let field = format!("units[{at}]");
        if let Some(arguments) = &unit.arguments {
            check_arguments(&format!("{field}.arguments"), arguments, env_len)?;
        }
        let stdin = check_content(&format!("{field}.stdin"), unit.stdin, unit.stdin_base64, stored)?;
        let mut paths = Paths { shared: Some(shared), ..Paths::default() };
        let files = check_files(&format!("{field}.files"), unit.files, &mut paths, stored)?;
        Ok(UnitSpec { arguments: unit.arguments, stdin, files })
    };
    Ok(Units::List(units.into_iter().enumerate().map(check).collect::<Result<_, _>>()?))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
