//! A job as a person meant it, with content that still lies here; and how it is sent.

use super::args::SceneArgs;
use super::client::types::{Job, NewContent, NewFile, NewJob, NewUnit, Sweep};
use super::client::{ApiError, Client, Content, of_swarm};
use super::failure::Failure;
use super::job_settings::{JobSettings, with_options};
use super::progress::Progress;
use super::task_path::task_path;
use crate::text::io_error;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use node_core::content::Data;
use node_core::work::spec::JobSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Everything decided, nothing sent.
#[derive(Clone, Debug)]
pub(crate) struct JobPlan {
    pub(crate) name: String,
    pub(crate) program: Content,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) stdin: Option<Content>,
    /// By the path that the program sees.
    pub(crate) files: BTreeMap<String, Content>,
    pub(crate) units: UnitsPlan,
    pub(crate) settings: JobSettings,
    /// The finder's word; the gateway's usual one if none.
    pub(crate) find: Option<&'static str>,
    /// `true` if options of a command describe it, `false` if a file does.
    pub(crate) by_options: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum UnitsPlan {
    Sweep(Sweep),
    /// At least one.
    List(Vec<UnitPlan>),
}

/// Parts of a job that one unit has of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnitPlan {
    pub(crate) arguments: Option<Vec<String>>,
    pub(crate) stdin: Option<PathBuf>,
    /// Each with the path that the program sees.
    pub(crate) files: Vec<(String, PathBuf)>,
}

impl JobPlan {
    /// A plan of one unit, from what `run` and `map` take alike.
    pub(crate) fn new(
        program: &Path,
        arguments: Vec<String>,
        scene: &SceneArgs,
        settings: &JobSettings,
    ) -> Result<JobPlan, Failure> {
        let mut files = BTreeMap::new();
        for text in &scene.files {
            let (name, path) = file_argument(text)?;
            if files.insert(name.clone(), Content::at(path)).is_some() {
                return Err(Failure::usage(format!(
                    "--file {text}: the program would see two files named {name}"
                )));
            }
        }
        let mut environment = BTreeMap::new();
        for text in &scene.environment {
            let (key, value) = text
                .split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| Failure::usage(format!("--env {text}: write it as KEY=VALUE")))?;
            environment.insert(key.to_owned(), value.to_owned());
        }
        Ok(JobPlan {
            name: scene.job_name.clone().unwrap_or_else(|| program_name(program)),
            program: Content::at(program.to_path_buf()),
            arguments,
            environment,
            stdin: None,
            files,
            units: UnitsPlan::List(vec![UnitPlan::default()]),
            settings: settings.clone(),
            find: None,
            by_options: true,
        })
    }

    pub(crate) fn units(&self) -> usize {
        match &self.units {
            UnitsPlan::Sweep(sweep) => sweep.count as usize,
            UnitsPlan::List(units) => units.len(),
        }
    }

    /// Sees that every file is there and can be read, before anything is started or sent.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let mut missing = Vec::new();
        let mut look = |what: &str, path: &Path| {
            // Files that other nodes keep are checked when they are fetched.
            if of_swarm(path).is_some() {
                return;
            }
            if let Err(why) = readable(path) {
                missing.push(format!("{what} {}: {why}", path.display()));
            }
        };
        if let Content::Path(path) = &self.program {
            look("program", path);
        }
        if let Some(Content::Path(path)) = &self.stdin {
            look("stdin", path);
        }
        for content in self.files.values() {
            if let Content::Path(path) = content {
                look("file", path);
            }
        }
        if let UnitsPlan::List(units) = &self.units {
            for unit in units {
                for (name, path) in &unit.files {
                    look("input", path);
                    if self.files.contains_key(name) {
                        return Err(Failure::usage(format!(
                            "input {}: the program would see two files named {name}, the other from --file or `files`",
                            path.display()
                        )));
                    }
                }
                unit.stdin.iter().for_each(|path| look("input", path));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        // Our choice: enough to see a pattern.
        let more = missing.len().saturating_sub(10);
        missing.truncate(10);
        if more > 0 {
            missing.push(format!("and {more} more"));
        }
        Err(Failure::usage(format!("cannot read {}", missing.join("\n  "))))
    }

    /// Uploads what the gateway does not have yet, and submits. Returns the job as the
    /// gateway wrote it, too.
    pub(crate) fn submit(&self, client: &Client) -> Result<(Job, String), Failure> {
        let sent = self.upload(client)?;
        let file = |(path, content): (&String, &Content)| NewFile {
            path: path.clone(),
            content: NewContent::Blob(sent.id(content)),
        };
        let (sweep, units) = match &self.units {
            UnitsPlan::Sweep(sweep) => (Some(*sweep), None),
            UnitsPlan::List(units) => {
                let file = |(name, path): &(String, PathBuf)| NewFile {
                    path: name.clone(),
                    content: sent.path(path),
                };
                let unit = |unit: &UnitPlan| {
                    let (stdin, stdin_base64) = match unit.stdin.as_ref().map(|path| sent.path(path)) {
                        None => (None, None),
                        Some(NewContent::Blob(id)) => (Some(id), None),
                        Some(NewContent::Base64(text)) => (None, Some(text)),
                    };
                    let files = unit.files.iter().map(file).collect();
                    NewUnit { arguments: unit.arguments.clone(), stdin, stdin_base64, files }
                };
                (None, Some(units.iter().map(unit).collect()))
            }
        };
        let new = NewJob {
            name: self.name.clone(),
            program: sent.id(&self.program),
            arguments: self.arguments.clone(),
            environment: self.environment.clone(),
            stdin: self.stdin.as_ref().map(|content| sent.id(content)),
            files: self.files.iter().map(file).collect(),
            sweep,
            units,
            find: self.settings.max_price.map(|_| "cheapest").or(self.find).map(str::to_owned),
            settings: self.settings.clone(),
        };
        client.submit(&new).map_err(|e| match e {
            // The gateway knows the program by its hash only.
            ApiError::Refused { status: status @ 422, message } => {
                let message = if self.by_options { with_options(&message) } else { message };
                let is_of_program = !message.starts_with('`') || message.starts_with("`program`");
                let message = match &self.program {
                    Content::Path(path) if is_of_program => format!("{}: {message}", path.display()),
                    _ => message,
                };
                ApiError::Refused { status, message }.into()
            }
            e => Failure::from(e),
        })
    }

    fn upload(&self, client: &Client) -> Result<Sent, Failure> {
        let mut shared: Vec<&Content> = vec![&self.program];
        shared.extend(&self.stdin);
        shared.extend(self.files.values());
        let mut own: Vec<&Path> = Vec::new();
        if let UnitsPlan::List(units) = &self.units {
            own.extend(units.iter().filter_map(|unit| unit.stdin.as_deref()));
            own.extend(units.iter().flat_map(|unit| unit.files.iter().map(|(_, path)| path.as_path())));
        }
        own.sort_unstable();
        own.dedup();

        // The program first: if it is no good, nothing else need travel. (It is inspected at
        // submission; but a gateway that refuses uploads refuses the first.)
        let mut sent = Sent::default();
        for content in shared {
            sent.ids.insert(key(content), client.upload(content)?);
        }
        sent.inline = self.inline()?;
        own.retain(|path| !sent.inline.contains_key(*path));
        let bar = (own.len() >= BAR_FROM).then(|| Progress::start("sending", own.len() as u64));
        let contents: Vec<Content> = own.iter().map(|path| Content::at(path.to_path_buf())).collect();
        for (content, id) in contents.iter().zip(upload_all(client, &contents, bar.as_ref())?) {
            sent.ids.insert(key(content), id);
        }
        Ok(sent)
    }

    /// The units' smallest inputs, as base64: they go with the job.
    fn inline(&self) -> Result<BTreeMap<PathBuf, String>, Failure> {
        let mut inline = BTreeMap::new();
        let UnitsPlan::List(units) = &self.units else { return Ok(inline) };
        let (mut uses, mut crowded) = (BTreeMap::<&Path, usize>::new(), BTreeSet::new());
        for unit in units {
            let paths = || unit.stdin.iter().chain(unit.files.iter().map(|(_, path)| path));
            for path in paths() {
                *uses.entry(path).or_default() += 1;
            }
            // The inline inputs of one unit are bounded, too.
            if paths().count() > Data::INLINE_MAX / SMALL {
                crowded.extend(paths().map(PathBuf::as_path));
            }
        }
        let mut room = JobSpec::INLINE_MAX;
        for (path, uses) in uses.into_iter().filter(|(path, _)| !crowded.contains(path)) {
            let content = Content::at(path.to_path_buf());
            let Some(len) = content.small(SMALL)?.filter(|len| len * uses <= room) else { continue };
            let bytes = content.read()?;
            // It may have grown since.
            if bytes.len() <= len {
                room -= len * uses;
                inline.insert(path.to_path_buf(), STANDARD.encode(bytes));
            }
        }
        Ok(inline)
    }
}

/// Bytes of an input that goes with the job, at most; the gateway takes no more.
const SMALL: usize = 4096;

/// Our choice: fewer are there before one could read the bar.
const BAR_FROM: usize = 50;
/// Uploads under way at once: each waits for the gateway's disk, and those waits can overlap.
const UPLOADS: usize = 8;
/// Content up to this length travels with others. Our choice: larger is sent as fast alone, and
/// not at all if the gateway has it.
const BATCHED: usize = 64 << 10;
/// Blobs in a batch: what the gateway makes durable at once.
const BATCH: usize = 64;

fn upload_all(
    client: &Client,
    contents: &[Content],
    bar: Option<&Progress>,
) -> Result<Vec<String>, ApiError> {
    let (mut small, mut parts) = (Vec::new(), Vec::new());
    for (at, content) in contents.iter().enumerate() {
        match content.small(BATCHED)? {
            Some(_) => small.push(at),
            None => parts.push(vec![at]),
        }
    }
    // A few go to every connection, so that reading and the waits for the disk overlap.
    let batch = small.len().div_ceil(UPLOADS).clamp(1, BATCH);
    parts.extend(small.chunks(batch).map(<[usize]>::to_vec));
    let next = AtomicUsize::new(0);
    let ids = Mutex::new(vec![String::new(); contents.len()]);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..UPLOADS.min(parts.len()) {
            scope.spawn(|| {
                loop {
                    let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    match upload_part(client, contents, part) {
                        Ok(sent) => {
                            let mut ids = ids.lock().unwrap_or_else(PoisonError::into_inner);
                            part.iter().zip(sent).for_each(|(at, id)| ids[*at] = id);
                        }
                        Err(e) => {
                            // The others stop at their next step.
                            next.store(parts.len(), Ordering::Relaxed);
                            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                            return;
                        }
                    }
                    if let Some(bar) = bar {
                        part.iter().for_each(|_| bar.advance());
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(e) => Err(e),
        None => Ok(ids.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn upload_part(client: &Client, contents: &[Content], part: &[usize]) -> Result<Vec<String>, ApiError> {
    if let [at] = part {
        return Ok(vec![client.upload(&contents[*at])?]);
    }
    let blobs: Vec<Vec<u8>> = part.iter().map(|at| contents[*at].read()).collect::<Result<_, _>>()?;
    client.upload_batch(&blobs)
}

/// Blob ids by where the content came from.
#[derive(Default)]
struct Sent {
    ids: BTreeMap<Origin, String>,
    /// Content that goes with the job, base64.
    inline: BTreeMap<PathBuf, String>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Path(PathBuf),
    /// A job has one of them.
    Stdin,
    /// By address: those bytes live as long as the process.
    BuiltIn(usize),
}

fn key(content: &Content) -> Origin {
    match content {
        Content::Path(path) => Origin::Path(path.clone()),
        Content::Swarm(which) => Origin::Path(format!("swarm:{which}").into()),
        Content::Spooled(_) => Origin::Stdin,
        Content::Bytes(bytes) => Origin::BuiltIn(bytes.as_ptr() as usize),
    }
}

impl Sent {
    fn id(&self, content: &Content) -> String {
        self.ids.get(&key(content)).cloned().unwrap_or_default()
    }

    fn path(&self, path: &Path) -> NewContent {
        match self.inline.get(path) {
            Some(text) => NewContent::Base64(text.clone()),
            None => NewContent::Blob(self.id(&Content::at(path.to_path_buf()))),
        }
    }
}

/// Path and name of a `--file` argument: PATH, or PATH=NAME unless a file of just that name exists.
fn file_argument(text: &str) -> Result<(String, PathBuf), Failure> {
    let (path, name) = match text.rsplit_once('=') {
        Some((path, name)) if !Path::new(text).exists() => (path, name),
        _ => (text, text),
    };
    let name = task_path(Path::new(name)).map_err(|e| Failure::usage(format!("--file {text}: {e}")))?;
    Ok((name, path.into()))
}

/// How a program is called on screens: its file name without extension.
pub(crate) fn program_name(program: &Path) -> String {
    let program = of_swarm(program).map_or(program, Path::new);
    let stem = program.file_stem().unwrap_or(program.as_os_str());
    stem.to_string_lossy().into_owned()
}

fn readable(path: &Path) -> Result<(), String> {
    let file = std::fs::File::open(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        _ => io_error(&e),
    })?;
    match file.metadata() {
        Ok(meta) if meta.is_dir() => Err("it is a folder; name the files in it".into()),
        // A pipe could be read only once, and content is read twice.
        Ok(meta) if !meta.is_file() => Err("it is not a regular file; copy its content into one".into()),
        Ok(_) => Ok(()),
        Err(e) => Err(io_error(&e)),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
