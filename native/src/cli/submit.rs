//! `manyhands submit`, and the outputs of a job that is over.

use super::args::{Format, ResultsArgs, SubmitArgs};
use super::client::Client;
use super::client::types::Job;
use super::failure::Failure;
use super::outputs::OutputFolder;
use super::progress::{Progress, say};
use super::run::{print_json, print_text, records};
use super::swarm::{find, find_or_embed, find_patiently};
use super::waiting::{Guard, OnInterrupt, Waits, verdict, warn_if_nobody_computes};
use super::{job_file, lists, stderr_end};
use crate::paths::DataFolder;
use std::path::Path;

pub(crate) fn submit(args: SubmitArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let plan = job_file::read(&args.job)?;
    plan.check()?;
    let swarm = match args.wait {
        true => find_or_embed(&args.swarm, folder)?,
        false => find_patiently(&args.swarm, folder)?,
    };
    if swarm.embedded.is_some() && args.out_dir.is_none() {
        say("no gateway runs on this machine, so the job runs in this process and its outputs end \
             with it; give --out-dir DIR to keep them");
    }
    let client = &*swarm.client;
    let guard = args.wait.then(|| Guard::new(&swarm, OnInterrupt::Leave));
    let (job, text) = plan.submit(client)?;
    if let Some(guard) = &guard {
        guard.submitted(&job);
    }
    if !args.wait {
        match args.swarm.output {
            Format::Json => print_json(&text)?,
            Format::Table => {
                print_text(&format!("{}\n", job.id))?;
                let units = match job.units.total {
                    1 => "1 unit".into(),
                    units => format!("{units} units"),
                };
                say(&format!("submitted {} ({units}); see it with `manyhands job {}`", job.name, job.short));
            }
        }
        warn_if_nobody_computes(client);
        return Ok(0);
    }
    say(&format!("submitted {} as {}", job.name, job.short));
    if swarm.embedded.is_none() {
        warn_if_nobody_computes(client);
    }
    let progress = Progress::start(&plan.name, plan.units() as u64);
    let mut waits = Waits::unless_drawn(&job);
    let heard = client.follow(&job.id, |job| {
        progress.show(job);
        waits.iter_mut().for_each(|waits| waits.show(job));
        Ok::<_, Failure>(())
    });
    let ended = heard.map_err(|why| match &guard {
        Some(guard) => guard.unheard(why),
        None => why,
    })?;
    drop(progress);
    if let Some(dir) = &args.out_dir {
        write_all(client, &ended, dir)?;
    }
    match args.swarm.output {
        Format::Json => print_json(&client.job_and_text(&job.id)?.1)?,
        Format::Table => print_text(&lists::about(&ended, &[]))?,
    }
    if args.swarm.output == Format::Table && ended.units.failed > 0 {
        let whole = match (&args.out_dir, &swarm.embedded) {
            (Some(dir), _) => Some(format!("all of it is in {}", dir.display())),
            (None, Some(_)) => Some("--out-dir DIR keeps all of it".into()),
            (None, None) => None,
        };
        let end = stderr_end::of_first_failed(client, &ended, whole);
        if !end.is_empty() {
            say(end.trim_end());
        }
    }
    verdict(&ended)?;
    Ok(0)
}

pub(crate) fn results(args: ResultsArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let client = find(&args.swarm, folder)?;
    let (job, text) = client.job_and_text(&args.id)?;
    let written = write_all(&client, &job, &args.out_dir)?;
    match args.swarm.output {
        Format::Json => print_json(&text)?,
        Format::Table => {
            let rest = match job.state.is_over() {
                true => String::new(),
                false => format!("; the job is {}, so more may come", job.state.word()),
            };
            say(&format!("{written} of {} units are in {}{rest}", job.units.total, args.out_dir.display()));
        }
    }
    Ok(0)
}

/// Writes every result that is there.
fn write_all(client: &Client, job: &Job, dir: &Path) -> Result<u32, Failure> {
    let mut out = OutputFolder::create(dir)?;
    let progress = Progress::start("results", (job.units.done + job.units.failed).into());
    // Equal lengths, so that folders sort as units do.
    let digits = job.units.total.saturating_sub(1).to_string().len();
    let mut from = 0;
    loop {
        let (page, text) = client.results(&job.id, from, 256)?;
        for (result, record) in page.results.iter().zip(records(&text)) {
            out.unit(client, &format!("{:0digits$}", result.index), result, &record)?;
            progress.advance();
        }
        match page.next {
            Some(next) if next > from => from = next,
            _ => break,
        }
    }
    out.finish()
}
