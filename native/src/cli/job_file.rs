//! `job.toml`: a job in HTCondor's words.
//!
//! ```toml
//! program = "tsp.wasm"
//! arguments = ["--seed", "{}", "berlin52.tsp"]
//! files = ["berlin52.tsp"]
//! sweep = { first = 1, count = 500 }
//! time_limit = "10m"
//! ```
//! A file that begins as XML is the task file of paper `market` ([`task_file`]).
//!
//! Paths are relative to the file; `swarm:` before a content id or a published name means a file that
//! other nodes keep. `{}` in the arguments is the sweep's number, or the input.

use super::args::SceneArgs;
use super::client::types::Sweep;
use super::client::{Content, of_swarm};
use super::failure::Failure;
use super::job_settings::{self, JobSettings, OwnerWord};
use super::map::units_of_inputs;
use super::plan::{JobPlan, UnitsPlan};
use super::requirements;
use super::strict_toml::{Document, Key, Mistake, key};
use super::task_file;
use super::task_path::task_path;
use super::threads_setting;
use crate::text::io_error;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A job file but for its settings ([`JobSettings`]). Both are read from the same text, and keys that are of neither
/// are refused before.
#[derive(Debug, Deserialize)]
struct JobFile {
    program: PathBuf,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    stdin: Option<PathBuf>,
    #[serde(default)]
    files: Vec<FileEntry>,
    inputs: Option<Vec<String>>,
    inputs_as: Option<InputsAs>,
    sweep: Option<Sweep>,
    name: Option<String>,
    batch_name: Option<String>,
    find: Option<Find>,
    threads: Option<ThreadsTable>,
}

/// Content of the table beside the setting.
#[derive(Debug, Deserialize)]
struct ThreadsTable {
    find: Option<Find>,
}

/// A path, or a path here and another one there.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a path, or { from = \"path here\", path = \"path for the program\" }"
)]
enum FileEntry {
    Path(PathBuf),
    Renamed(Renamed),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Renamed {
    from: PathBuf,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum InputsAs {
    File,
    Stdin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Find {
    #[serde(alias = "connected")]
    Nearest,
    Cheapest,
    Fitting,
}

const KEYS: &[Key] = &[
    key("program"),
    key("arguments"),
    // Its keys are the program's business.
    key("environment"),
    key("stdin"),
    Key { name: "files", below: &[key("from"), key("path")] },
    key("inputs"),
    key("inputs_as"),
    Key { name: "sweep", below: &[key("first"), key("count")] },
    key("name"),
    key("batch_name"),
    key("find"),
];

/// Reads a job's description.
pub(crate) fn read(path: &Path) -> Result<JobPlan, Failure> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Failure::usage(format!("{shown}: no such file")),
        _ => Failure::usage(format!("cannot read {shown}: {}", io_error(&e))),
    })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        let wasm = if path.extension().is_some_and(|e| e == "wasm") {
            format!("; to run a program as it is, say `manyhands run {shown}`")
        } else {
            String::new()
        };
        Failure::usage(format!("{shown} is no job file: it is not text{wasm}"))
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let plan = if task_file::is_xml(&text) { task_file::plan } else { plan };
    plan(&shown, &text, folder).map_err(Failure::usage)
}

pub(super) fn plan(shown: &str, text: &str, folder: &Path) -> Result<JobPlan, Mistake> {
    let settings = job_settings::names().iter().map(|name| match *name {
        "requires" => Key { name: "requires", below: requirements::KEYS },
        "threads" => Key { name: "threads", below: threads_setting::KEYS },
        name => key(name),
    });
    let keys: Vec<Key> = KEYS.iter().copied().chain(settings).collect();
    let (mut file, document) = Document::parse::<JobFile>(shown, text, &keys)?;
    let settings: JobSettings = document.read()?;
    let of_threads = file.threads.as_ref().and_then(|threads| threads.find);
    if of_threads.is_some() && file.find.is_some() {
        return Err(document.exclude("find", "threads", "both say how nodes are found; keep one"));
    }
    file.find = file.find.or(of_threads);
    contradictions(&file, &settings, &document)?;
    let program = place(folder, &file.program);
    let usual = JobPlan::new(&program, file.arguments, &SceneArgs::default(), &settings);
    let mut plan = usual.map_err(|e| document.at_key("program", &e.message))?;
    plan.by_options = false;
    plan.find = file.find.map(|find| match find {
        Find::Nearest => "nearest",
        Find::Cheapest => "cheapest",
        Find::Fitting => "fitting",
    });
    plan.environment = file.environment;
    plan.stdin = file.stdin.map(|path| Content::at(place(folder, &path)));
    if let Some(name) = file.name.or(file.batch_name) {
        plan.name = name;
    }
    for entry in file.files {
        let (from, path) = match &entry {
            FileEntry::Path(path) => (path, path),
            FileEntry::Renamed(renamed) => (&renamed.from, &renamed.path),
        };
        let seen = of_swarm(path).map_or(path.as_path(), Path::new);
        let name = task_path(seen).map_err(|e| document.at_key("files", &e))?;
        let twice = format!("the program would see two files named {name}");
        if plan.files.insert(name, Content::at(place(folder, from))).is_some() {
            return Err(document.at_key("files", &twice));
        }
    }
    if let Some(sweep) = file.sweep {
        plan.units = UnitsPlan::Sweep(sweep);
    }
    if let Some(patterns) = file.inputs {
        let inputs = expand(&patterns, folder).map_err(|e| document.at_key("inputs", &e))?;
        let as_stdin = file.inputs_as == Some(InputsAs::Stdin);
        let units =
            units_of_inputs(&plan.arguments, &inputs, as_stdin).map_err(|e| document.at_key("inputs", &e))?;
        plan.units = UnitsPlan::List(units);
    }
    Ok(plan)
}

/// Where it is: here, relative to the job's folder, or with other nodes.
fn place(folder: &Path, path: &Path) -> PathBuf {
    if of_swarm(path).is_some() { path.to_path_buf() } else { folder.join(path) }
}

/// `Err` for keys that are allowed alone but make no sense together.
fn contradictions(file: &JobFile, settings: &JobSettings, document: &Document<'_>) -> Result<(), Mistake> {
    if file.sweep.is_some() && file.inputs.is_some() {
        return Err(document.exclude("sweep", "inputs", "units are either numbers or inputs"));
    }
    if file.name.is_some() && file.batch_name.is_some() {
        return Err(document.exclude("name", "batch_name", "they mean the same; keep one"));
    }
    if file.inputs_as.is_some() && file.inputs.is_none() {
        return Err(document.at_key("inputs_as", "`inputs_as` needs `inputs`: there are none"));
    }
    if file.inputs_as == Some(InputsAs::Stdin) && file.stdin.is_some() {
        let why = "each unit's stdin is its input; leave out `stdin`, or say inputs_as = \"file\"";
        return Err(document.exclude("inputs_as", "stdin", why));
    }
    if file.sweep.is_some_and(|sweep| sweep.count == 0) {
        return Err(document.at_key("sweep", "a sweep of 0 units is nothing to do; give count = 1 or more"));
    }
    let buys = file.find == Some(Find::Cheapest);
    let fits = file.find == Some(Find::Fitting) || settings.requires.is_some();
    if settings.requires.is_some() && file.find.is_some_and(|find| find != Find::Fitting) {
        let why = "only find = \"fitting\" heeds requirements; leave out one of the two";
        return Err(document.exclude("requires", "find", why));
    }
    let key = if settings.requires.is_some() { "requires" } else { "find" };
    if fits && settings.max_price.is_some() {
        let why = "requirements are not heeded where places are bought; leave out one of the two";
        return Err(document.exclude(key, "max_price", why));
    }
    if settings.owner == Some(OwnerWord::Ring) && buys {
        let why = "a job that buys its places is owned by its gateway, which has the budget";
        return Err(document.exclude("owner", "find", why));
    }
    if (buys || settings.max_price.is_some()) && settings.fuel_limit.is_none() {
        let key = if buys { "find" } else { "max_price" };
        let why =
            "a job that buys its places needs `fuel_limit`, so that it is known what a unit costs at most";
        return Err(document.at_key(key, why));
    }
    if file.program.as_os_str().is_empty() {
        return Err(document.at_key("program", "the program's path is empty"));
    }
    Ok(())
}

/// Files that match the patterns: in the order of the patterns, sorted within each. Each with
/// its path as written (relative to the job's folder) and its place here.
fn expand(patterns: &[String], folder: &Path) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let mut found = Vec::new();
    for pattern in patterns {
        if let Some(which) = of_swarm(Path::new(pattern)) {
            found.push((which.into(), pattern.into()));
            continue;
        }
        let before = found.len();
        // The folder's own name may hold what looks like a pattern.
        let here = glob::Pattern::escape(&folder.to_string_lossy());
        let whole = Path::new(&here).join(pattern);
        let matches = glob::glob(&whole.to_string_lossy())
            .map_err(|e| format!("{pattern:?} is no pattern: {} (at character {})", e.msg, e.pos + 1))?;
        for path in matches {
            let path = path.map_err(|e| format!("cannot look into {}: {}", e.path().display(), e.error()))?;
            if path.is_file() {
                let name = path.strip_prefix(folder).unwrap_or(&path).to_path_buf();
                found.push((name, path));
            }
        }
        if found.len() == before {
            return Err(format!("{pattern:?} matches no file in {}", shown_folder(folder)));
        }
    }
    match found.is_empty() {
        true => Err("the list is empty; name at least one input".into()),
        false => Ok(found),
    }
}

fn shown_folder(folder: &Path) -> String {
    match folder.as_os_str().is_empty() {
        true => "the current folder".into(),
        false => folder.display().to_string(),
    }
}

#[cfg(test)]
#[path = "job_file_tests.rs"]
mod tests;
