//! Jobs that are virtual computers: `threads` lists their threads, `watch` prints partial results as they come.

use super::args::{Format, JobArgs};
use super::client::types::{Job, JobState, PartialResult, Thread};
use super::client::{ApiError, Client};
use super::failure::{DONE, FAILED, Failure};
use super::lists::short_node;
use super::progress::say;
use super::run::{print, print_json, print_text};
use super::swarm::find;
use super::table::Table;
use crate::paths::DataFolder;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Threads asked for at a time.
const PAGE: u32 = 1000;

pub(crate) fn threads(args: &JobArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let client = find(&args.swarm, folder)?;
    let (mut threads, mut from): (Vec<Thread>, _) = (Vec::new(), Some(0));
    while let Some(first) = from {
        let (page, text) = client.threads(&args.id, first, PAGE)?;
        if args.swarm.output == Format::Json {
            print_json(&text)?;
        }
        threads.extend(page.threads);
        from = page.next;
    }
    if args.swarm.output == Format::Table {
        print_text(&table(&threads).to_string())?;
    }
    Ok(DONE)
}

fn table(threads: &[Thread]) -> Table {
    let mut table = Table::new(&["THREAD", "STATE", "NODE", "REASON"], &[0]);
    for thread in threads {
        let node = thread.node.as_deref().map_or("-".into(), short_node);
        table.row([thread.number.to_string(), thread.state.clone(), node, thread.reason.clone()]);
    }
    table
}

/// Partial results on standard output, each with a newline at its end, until the job is over.
pub(crate) fn watch(args: &JobArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let client = find(&args.swarm, folder)?;
    let mut watch = Watch { client: &client, id: &args.id, format: args.swarm.output, next: 0 };
    let job = client.follow(&args.id, |_: &Job| watch.print())?;
    say(&format!("{} is {}: {}", job.short, job.state.word(), job.reason));
    Ok(if job.state == JobState::Done { DONE } else { FAILED })
}

struct Watch<'c> {
    client: &'c Client,
    id: &'c str,
    format: Format,
    next: u64,
}

impl Watch<'_> {
    /// Prints those that have come since the last time.
    fn print(&mut self) -> Result<(), Failure> {
        let list = self.client.partials(self.id, self.next)?;
        if let Some(first) = list.partials.first().filter(|first| first.number > self.next) {
            say(&format!("{} partial results came before and are not kept", first.number - self.next));
        }
        // A gateway that began anew counts from 0 again.
        self.next = list.next;
        for partial in list.partials {
            match self.format {
                Format::Json => print_json(&serde_json::to_string(&partial).unwrap_or_default())?,
                Format::Table => print(&line(&partial)?)?,
            }
        }
        Ok(())
    }
}

fn line(partial: &PartialResult) -> Result<Vec<u8>, Failure> {
    let decoded = STANDARD.decode(&partial.base64);
    let mut bytes = decoded.map_err(|e| ApiError::Strange(format!("a partial result is no base64: {e}")))?;
    if bytes.last() != Some(&b'\n') {
        bytes.push(b'\n');
    }
    Ok(bytes)
}
