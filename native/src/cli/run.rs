//! `manyhands run`: one unit, as if the program ran here.

use super::args::{Format, RunArgs};
use super::client::types::{Job, JobState, UnitResult};
use super::client::{Client, Content};
use super::failure::{DONE, FAILED, Failure};
use super::job_settings::with_options;
use super::local_threads;
use super::outputs;
use super::plan::JobPlan;
use super::progress::say;
use super::suspended;
use super::swarm::find_or_embed;
use super::waiting::{Guard, OnInterrupt, Waits, warn_if_nobody_computes};
use crate::paths::DataFolder;
use crate::text::{readable, readable_json};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

pub(crate) fn run(args: RunArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let mut plan = JobPlan::new(&args.program, args.arguments.clone(), &args.scene, &args.settings)?;
    plan.check()?;
    if !args.no_stdin && !std::io::stdin().is_terminal() {
        plan.stdin = standard_input()?;
    }
    if let Some(fuel) = args.suspend_every {
        return suspended::run(&plan, fuel, args.hop, args.out_dir.as_deref()).map(exit_code);
    }
    if let Some(workers) = args.local_threads {
        return local_threads::run(&plan, workers, args.out_dir.as_deref()).map(exit_code);
    }
    let swarm = find_or_embed(&args.swarm, folder)?;
    let client = &*swarm.client;
    let guard = Guard::new(&swarm, OnInterrupt::Cancel);
    let (job, _) = plan.submit(client)?;
    guard.submitted(&job);
    if swarm.embedded.is_none() {
        warn_if_nobody_computes(client);
    }
    outcome(&args, &plan, client, &job).map_err(|why| guard.unheard(why))
}

/// Waits for the job, and hands its result out.
fn outcome(args: &RunArgs, plan: &JobPlan, client: &Client, job: &Job) -> Result<u8, Failure> {
    let mut waits = Waits::of(job);
    let job = client.follow(&job.id, |job| {
        waits.show(job);
        Ok::<_, Failure>(())
    })?;
    let (result, record) = only_result(client, &job)?;

    match args.swarm.output {
        Format::Json => print_json(&record.to_string())?,
        Format::Table => {
            client.fetch(&result.stdout, &mut std::io::stdout().lock())?;
            std::io::stdout().flush().map_err(|e| Failure::output(&e))?;
            client.fetch(&result.stderr, &mut std::io::stderr().lock())?;
        }
    }
    match &args.out_dir {
        Some(dir) => outputs::files(client, &result, dir)?,
        None if !result.files.is_empty() => {
            let names: Vec<_> = result.files.iter().take(5).map(|f| f.path.as_str()).collect();
            let more = if result.files.len() > names.len() { ", …" } else { "" };
            say(&format!(
                "the program wrote {} file(s) ({}{more}), which are not kept here; --out-dir DIR keeps them",
                result.files.len(),
                names.join(", ")
            ));
        }
        None => {}
    }
    if result.exit_code != Some(0)
        && let Some(path) = not_sent(plan)
    {
        say(&format!("{path} is a file here, and was not sent with the program; --file sends it"));
    }
    match result.exit_code {
        Some(code) => Ok(exit_code(code)),
        None => {
            let why = with_options(&result.message);
            Err(Failure::failed(format!("{}: {why}", args.program.display())))
        }
    }
}

/// The first argument that names a file of this folder which the program did not find, since only what is sent
/// is there.
fn not_sent(plan: &JobPlan) -> Option<&str> {
    let missing = |argument: &&String| Path::new(argument).is_file() && !plan.files.contains_key(*argument);
    plan.arguments.iter().find(missing).map(String::as_str)
}

/// The one result of a job of one unit, and what the API said of it.
fn only_result(client: &Client, job: &Job) -> Result<(UnitResult, serde_json::Value), Failure> {
    let (results, text) = client.results(&job.id, 0, 1)?;
    let first = results.results.into_iter().next().zip(records(&text).into_iter().next());
    first.ok_or_else(|| match job.state {
        JobState::Cancelled => Failure::failed(format!("{} was cancelled", job.short)),
        _ => Failure::failed(format!("{} ended without a result: {}", job.short, job.reason)),
    })
}

/// The results of a page as the API wrote them.
pub(crate) fn records(text: &str) -> Vec<serde_json::Value> {
    let page: Option<serde_json::Value> = serde_json::from_str(text).ok();
    match page.and_then(|mut page| page.get_mut("results").map(serde_json::Value::take)) {
        Some(serde_json::Value::Array(records)) => records,
        _ => Vec::new(),
    }
}

/// A process has 8 bits of exit code, WASI 32. A code other than 0 must not become 0.
fn exit_code(code: u32) -> u8 {
    match (code, code as u8) {
        (0, _) => DONE,
        (_, 0) => FAILED,
        (_, low) => low,
    }
}

/// All of standard input, if there is anything. A person who forgot it (a pipe that stays open) gets a hint.
fn standard_input() -> Result<Option<Content>, Failure> {
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if is_done.recv_timeout(Duration::from_secs(3)) == Err(mpsc::RecvTimeoutError::Timeout) {
            say("reading standard input to its end; --no-stdin runs without it");
        }
    });
    let content = Content::spool(std::io::stdin().lock())?;
    drop(done);
    Ok(content)
}

/// Words for a person, on standard output.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    print(readable(text).as_bytes())
}

/// JSON on standard output, as a line of its own.
pub(crate) fn print_json(json: &str) -> Result<(), Failure> {
    print(format!("{}\n", readable_json(json.trim_end())).as_bytes())
}

/// Bytes for standard output, as they are.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| Failure::output(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_named_and_not_sent_is_found() {
        let here = tempfile::NamedTempFile::new().unwrap();
        let path = here.path().to_str().unwrap().to_owned();
        let arguments = vec!["--lines".to_owned(), path.clone()];
        let (scene, limits) = Default::default();
        let mut plan = JobPlan::new(here.path(), arguments, &scene, &limits).unwrap();
        assert_eq!(not_sent(&plan), Some(path.as_str()));
        plan.files.insert(path, plan.program.clone());
        assert_eq!(not_sent(&plan), None, "it was sent");
        plan.arguments = vec!["no such file".into()];
        assert_eq!(not_sent(&plan), None, "there is no such file");
    }

    #[test]
    fn exit_codes_pass_through_and_failure_never_looks_like_success() {
        assert_eq!([0, 1, 7, 255].map(exit_code), [0, 1, 7, 255]);
        assert_eq!(exit_code(256), 1);
        assert_eq!(exit_code(0x1_0203), 3);
    }
}
