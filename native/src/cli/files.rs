//! `manyhands files`: what other nodes keep.

use super::args::{Format, SwarmArgs};
use super::client::ApiError;
use super::client::files::Wishes;
use super::client::types::File;
use super::failure::{DONE, Failure};
use super::files_args::{FilesArgs, FilesCommand};
use super::progress::{Progress, say};
use super::run::{print_json, print_text};
use super::swarm::find;
use super::table::Table;
use crate::paths::DataFolder;
use crate::text::io_error;
use node_core::money::Micro;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

/// Between two looks at a file that is being placed.
const LOOK: Duration = Duration::from_millis(500);

/// A bar counts in these.
const MIB: u64 = 1 << 20;

pub(crate) fn run(args: &FilesArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let Some(command) = &args.what else {
        let code = list(&args.swarm, folder)?;
        if args.swarm.output == Format::Table {
            say("`manyhands files --help` lists what can be done with files");
        }
        return Ok(code);
    };
    match command {
        FilesCommand::Put { file, copies, max_price, encrypt, recipients, wait, swarm } => {
            let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
            let max_price = max_price.map(|most| most.0);
            let wishes = Wishes { name: &name, copies: *copies, max_price, encrypt: *encrypt, recipients };
            put(file, &wishes, *wait, swarm, folder)
        }
        FilesCommand::Get { which, out, raw, swarm } => get(which, out.as_deref(), *raw, swarm, folder),
        FilesCommand::List { swarm } => list(swarm, folder),
        FilesCommand::Rm { id, swarm } => {
            let (file, text) = find(swarm, folder)?.remove_file(id)?;
            shown(swarm, &text, || format!("removed {}\n", called(&file)))
        }
        FilesCommand::Publish { id, name, swarm } => {
            let (file, text) = find(swarm, folder)?.publish_file(id, name)?;
            shown(swarm, &text, || format!("{} is published as {}\n", file.id, file.names.join(", ")))
        }
    }
}

fn shown(swarm: &SwarmArgs, text: &str, words: impl FnOnce() -> String) -> Result<u8, Failure> {
    match swarm.output {
        Format::Json => print_json(text)?,
        Format::Table => print_text(&words())?,
    }
    Ok(DONE)
}

fn called(file: &File) -> String {
    match &file.name {
        Some(name) => format!("{} ({name})", file.id),
        None => file.id.clone(),
    }
}

fn put(
    path: &Path,
    wishes: &Wishes<'_>,
    wait: bool,
    swarm: &SwarmArgs,
    folder: &DataFolder,
) -> Result<u8, Failure> {
    let cannot =
        |e: std::io::Error| ApiError::Local(format!("cannot read {}: {}", path.display(), io_error(&e)));
    let about = std::fs::metadata(path).map_err(|e| Failure::usage(cannot(e)))?;
    if !about.is_file() {
        return Err(Failure::usage(format!("{} is not a regular file; pack it into one", path.display())));
    }
    let client = find(swarm, folder)?;
    let progress = Progress::start("sending MiB", about.len().div_ceil(MIB));
    let opened = || {
        let file = std::fs::File::open(path).map_err(cannot)?;
        let len = file.metadata().map_err(cannot)?.len();
        Ok((Counted { file, progress: &progress, seen: 0 }, len))
    };
    let (mut file, mut text) = client.put_file(wishes, opened)?;
    drop(progress);
    if wait {
        let progress = Progress::start("keepers", file.copies.into());
        let mut seen = 0;
        while file.kept < file.copies {
            std::thread::sleep(LOOK);
            (file, text) = client.file(&file.id)?;
            (seen..file.kept).for_each(|_| progress.advance());
            seen = seen.max(file.kept);
        }
    }
    if swarm.output == Format::Table && !wait {
        let sealed = if file.encrypted { ", encrypted" } else { "" };
        say(&format!(
            "{} bytes{sealed}; {} others are to keep it, `manyhands files list` says how many do",
            file.len, file.copies
        ));
    }
    shown(swarm, &text, || format!("{}\n", file.id))
}

/// A file that shows how far it has been read.
struct Counted<'a> {
    file: std::fs::File,
    progress: &'a Progress,
    seen: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let len = self.file.read(into)?;
        let before = self.seen / MIB;
        self.seen += len as u64;
        (before..self.seen / MIB).for_each(|_| self.progress.advance());
        Ok(len)
    }
}

fn get(
    which: &str,
    out: Option<&Path>,
    raw: bool,
    swarm: &SwarmArgs,
    folder: &DataFolder,
) -> Result<u8, Failure> {
    let client = find(swarm, folder)?;
    let mut bar: Option<(Progress, u64)> = None;
    let mut seen = |written: u64, whole: Option<u64>| {
        let Some(whole) = whole.filter(|whole| *whole > 16 * MIB && out.is_some()) else { return };
        let (progress, shown) =
            bar.get_or_insert_with(|| (Progress::start("bringing MiB", whole.div_ceil(MIB)), 0));
        (*shown..written / MIB).for_each(|_| progress.advance());
        *shown = written / MIB;
    };
    let Some(path) = out else {
        client.read_file(which, raw, &mut std::io::stdout().lock(), seen)?;
        return Ok(DONE);
    };
    // Under its name only when it is whole.
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = |e: &std::io::Error| {
        let why = io_error(e);
        Failure::failed(format!("cannot write {}: {why}; name another place with -o FILE", path.display()))
    };
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(|e| cannot(&e))?;
    let len = client.read_file(which, raw, &mut file, &mut seen)?;
    file.flush().map_err(|e| cannot(&e))?;
    file.persist(path).map_err(|e| cannot(&e.error))?;
    drop(bar);
    match swarm.output {
        Format::Json => {
            let text = serde_json::json!({ "file": which, "out": path.display().to_string(), "len": len });
            print_json(&text.to_string())?;
        }
        Format::Table => say(&format!("{len} bytes in {}", path.display())),
    }
    Ok(DONE)
}

fn list(swarm: &SwarmArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let (list, text) = find(swarm, folder)?.files()?;
    shown(swarm, &text, || {
        if list.files.is_empty() {
            return "no files yet; put one with `manyhands files put FILE`\n".into();
        }
        let mut table =
            Table::new(&["ID", "NAME", "BYTES", "KEPT", "PAID", "PUBLISHED", "REASON"], &[2, 3, 4]);
        for file in &list.files {
            table.row([
                file.id.clone(),
                file.name.clone().unwrap_or_default(),
                file.len.to_string(),
                format!("{}/{}", file.kept, file.copies),
                Micro(file.paid).to_string(),
                file.names.join(", "),
                file.reason.clone(),
            ]);
        }
        table.to_string()
    })
}
