//! `manyhands map`: one unit an input, outputs in input order as they become complete.

use super::args::{Format, MapArgs};
use super::client::Client;
use super::client::types::{Job, UnitResult};
use super::failure::Failure;
use super::job_settings::with_options;
use super::outputs::OutputFolder;
use super::plan::{JobPlan, UnitPlan, UnitsPlan};
use super::progress::{Progress, around, say};
use super::run::records;
use super::swarm::find_or_embed;
use super::task_path::{fill, has_place, path_argument, task_path};
use super::waiting::{Guard, OnInterrupt, Waits, verdict, warn_if_nobody_computes};
use crate::paths::DataFolder;
use crate::text::{io_error, printable};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

pub(crate) fn run(args: MapArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let inputs = inputs(&args)?;
    let mut plan = JobPlan::new(&args.program, args.arguments, &args.scene, &args.settings)?;
    let paths: Vec<_> = inputs.iter().map(|path| (path.clone(), path.clone())).collect();
    plan.units =
        UnitsPlan::List(units_of_inputs(&plan.arguments, &paths, args.stdin).map_err(Failure::usage)?);
    plan.check()?;
    let mut out = Outputs {
        names: folder_names(&inputs),
        folder: args.out_dir.as_deref().map(OutputFolder::create).transpose()?,
        format: args.swarm.output,
        next: 0,
    };

    let swarm = find_or_embed(&args.swarm, folder)?;
    let client = &*swarm.client;
    let guard = Guard::new(&swarm, OnInterrupt::Cancel);
    let (job, _) = plan.submit(client)?;
    guard.submitted(&job);
    if swarm.embedded.is_none() {
        warn_if_nobody_computes(client);
    }
    let progress = Progress::start(&plan.name, plan.units() as u64);
    let mut waits = Waits::unless_drawn(&job);
    let mut first_failure = None;
    let heard = client.follow(&job.id, |job| {
        progress.show(job);
        waits.iter_mut().for_each(|waits| waits.show(job));
        if job.units.failed > 0 && !args.keep_going && !job.state.is_over() {
            // The rest is not wanted any more; the end of the job is told next.
            if first_failure.is_none() {
                first_failure = failed_unit(client, job)?;
                client.cancel(&job.id)?;
            }
            return Ok::<_, Failure>(());
        }
        if first_failure.is_none() {
            out.take(client, job, args.keep_going)?;
        }
        Ok(())
    });
    let ended = heard.map_err(|why| guard.unheard(why))?;
    drop(progress);
    if !args.keep_going && ended.units.failed > 0 {
        let failed = match first_failure {
            Some(found) => Some(found),
            None => failed_unit(client, &ended)?,
        };
        out.finish()?;
        return Err(stopped_at(client, &inputs, failed, &ended));
    }
    let given = out.next;
    out.finish()?;
    verdict(&ended)?;
    if (given as usize) < inputs.len() {
        return Err(Failure::failed(format!(
            "{} ended after {given} of {} outputs; `manyhands job {}` says more",
            ended.short,
            inputs.len(),
            ended.short
        )));
    }
    Ok(0)
}

/// One unit for each input: (its name for the program, its place here).
pub(crate) fn units_of_inputs(
    arguments: &[String],
    inputs: &[(PathBuf, PathBuf)],
    as_stdin: bool,
) -> Result<Vec<UnitPlan>, String> {
    let placed = arguments.iter().any(|argument| has_place(argument));
    let unit = |(at, (name, path)): (usize, &(PathBuf, PathBuf))| {
        let given = path_argument(name)?;
        let mut arguments: Vec<_> = arguments.iter().map(|text| fill(text, &given, at + 1)).collect();
        if !placed && !as_stdin {
            arguments.push(given);
        }
        let mut unit = UnitPlan { arguments: Some(arguments), ..UnitPlan::default() };
        match as_stdin {
            true => unit.stdin = Some(path.clone()),
            false => unit.files.push((task_path(name)?, path.clone())),
        }
        Ok(unit)
    };
    inputs.iter().enumerate().map(unit).collect()
}

/// Outputs on their way out, in order.
struct Outputs {
    names: Vec<String>,
    folder: Option<OutputFolder>,
    format: Format,
    /// The first input whose output has not been written yet.
    next: u32,
}

/// Results in one answer. Our choice: a megabyte of small outputs.
const PAGE: u32 = 256;

impl Outputs {
    /// Writes what is there from the next input on without a gap.
    fn take(&mut self, client: &Client, job: &Job, keep_going: bool) -> Result<(), Failure> {
        let over = job.units.done + job.units.failed;
        // While an early unit is missing, only that one is asked for.
        let mut limit = 1;
        while self.next < over {
            let (page, text) = client.results(&job.id, self.next, limit)?;
            let asked = self.next;
            for (result, record) in page.results.iter().zip(records(&text)) {
                if result.index != self.next || (!result.success && !keep_going) {
                    return Ok(());
                }
                around(|| self.write(client, result, record))?;
                self.next += 1;
            }
            if self.next == asked {
                return Ok(());
            }
            limit = PAGE;
        }
        Ok(())
    }

    fn write(
        &mut self,
        client: &Client,
        result: &UnitResult,
        mut record: serde_json::Value,
    ) -> Result<(), Failure> {
        let name = &self.names[result.index as usize];
        if let Some(folder) = &mut self.folder {
            folder.unit(client, name, result, &record)?;
        }
        let mut stdout = std::io::stdout().lock();
        match self.format {
            Format::Json => {
                if let Some(fields) = record.as_object_mut() {
                    fields.insert("input".into(), name.as_str().into());
                }
                writeln!(stdout, "{record}").map_err(|e| Failure::output(&e))?;
            }
            Format::Table => client.fetch(&result.stdout, &mut stdout)?,
        }
        stdout.flush().map_err(|e| Failure::output(&e))?;
        client.fetch(&result.stderr, &mut std::io::stderr().lock())?;
        if !result.success {
            say(&format!("{}: {}", printable(name), with_options(&result.message)));
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Failure> {
        self.folder.map(OutputFolder::finish).transpose().map(|_| ())
    }
}

/// The first unit that failed.
pub(crate) fn failed_unit(client: &Client, job: &Job) -> Result<Option<UnitResult>, Failure> {
    let mut from = 0;
    loop {
        let page = client.units(&job.id, from, 1000)?;
        if let Some(unit) = page.units.iter().find(|unit| unit.state == "failed") {
            return Ok(client.results(&job.id, unit.index, 1)?.0.results.into_iter().next());
        }
        match page.next {
            Some(next) => from = next,
            None => return Ok(None),
        }
    }
}

fn stopped_at(client: &Client, inputs: &[PathBuf], failed: Option<UnitResult>, job: &Job) -> Failure {
    let Some(result) = failed else {
        return Failure::failed(format!("{}: a unit failed: {}", job.short, job.reason));
    };
    // Its own words first; if they cannot be had, ours do.
    let _ = client.fetch(&result.stderr, &mut std::io::stderr().lock());
    let input = inputs.get(result.index as usize).map(|path| path.display().to_string());
    Failure::failed(format!(
        "{}: {}; stopped there (--keep-going goes on)",
        printable(&input.unwrap_or_default()),
        with_options(&result.message)
    ))
}

/// A folder name for each input: its path as the program sees it, made different where two
/// inputs share it.
fn folder_names(inputs: &[PathBuf]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let name = |(at, path): (usize, &PathBuf)| {
        let plain = task_path(path).unwrap_or_else(|_| format!("input-{at}"));
        let mut name = plain.clone();
        let mut again = 2;
        while !taken.insert(name.clone()) {
            name = format!("{plain}~{again}");
            again += 1;
        }
        name
    };
    inputs.iter().enumerate().map(name).collect()
}

/// The inputs that were named, here or in a list.
fn inputs(args: &MapArgs) -> Result<Vec<PathBuf>, Failure> {
    let mut inputs = Vec::new();
    if let Some(list) = &args.inputs_from {
        inputs.extend(listed(list, args.null)?);
    }
    for input in &args.inputs {
        match input.as_os_str() == "-" {
            true => inputs.extend(listed(input, args.null)?),
            false => inputs.push(input.clone()),
        }
    }
    if inputs.is_empty() {
        let none = "no inputs: name files behind `--`, or give a list with --inputs-from FILE";
        return Err(Failure::usage(none));
    }
    Ok(inputs)
}

fn listed(list: &Path, null: bool) -> Result<Vec<PathBuf>, Failure> {
    let bytes = if list.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(list)
    };
    let bytes = bytes.map_err(|e| {
        Failure::usage(format!("cannot read the list of inputs {}: {}", list.display(), io_error(&e)))
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("the list of inputs {} is not UTF-8", list.display())))?;
    Ok(names_in(&text, null))
}

fn names_in(text: &str, null: bool) -> Vec<PathBuf> {
    let separator = if null { '\0' } else { '\n' };
    let strip = |name: &'_ str| -> PathBuf {
        let name = if null { name } else { name.strip_suffix('\r').unwrap_or(name) };
        name.into()
    };
    text.split(separator).map(strip).filter(|name| !name.as_os_str().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(arguments: &[&str], inputs: &[&str], as_stdin: bool) -> Vec<UnitPlan> {
        let arguments: Vec<_> = arguments.iter().map(|a| (*a).to_owned()).collect();
        let inputs: Vec<_> = inputs.iter().map(|i| (PathBuf::from(i), PathBuf::from(i))).collect();
        units_of_inputs(&arguments, &inputs, as_stdin).unwrap()
    }

    #[test]
    fn without_a_place_the_input_comes_last() {
        let units = units(&["--top", "3"], &["a.txt", "../b.txt"], false);
        assert_eq!(units[0].arguments.as_deref().unwrap(), ["--top", "3", "a.txt"]);
        assert_eq!(units[1].arguments.as_deref().unwrap(), ["--top", "3", "b.txt"]);
        assert_eq!(units[1].files, [("b.txt".into(), "../b.txt".into())]);
    }

    #[test]
    fn with_a_place_it_stands_there_and_only_there() {
        let units = units(&["{/.}-{#}", "{}"], &["d/a.txt", "d/b.txt"], false);
        assert_eq!(units[1].arguments.as_deref().unwrap(), ["b-2", "d/b.txt"]);
    }

    #[test]
    fn on_stdin_the_program_gets_no_file_and_no_name_it_did_not_ask_for() {
        let [unit] = &units(&["-c"], &["d/a.txt"], true)[..] else { panic!() };
        assert_eq!(unit.arguments.as_deref().unwrap(), ["-c"]);
        assert_eq!((unit.files.len(), &unit.stdin), (0, &Some("d/a.txt".into())));
        assert_eq!(units(&["{/}"], &["d/a.txt"], true)[0].arguments.as_deref().unwrap(), ["a.txt"]);
    }

    #[test]
    fn lists_of_names_are_lines_or_end_with_nul() {
        assert_eq!(names_in("a b\nc\r\n\nd", false), [PathBuf::from("a b"), "c".into(), "d".into()]);
        assert_eq!(names_in("a\nb\0c\0", true), [PathBuf::from("a\nb"), "c".into()]);
    }

    #[test]
    fn two_inputs_never_share_a_folder() {
        let inputs = ["a", "./a", "b/a", "/a"].map(PathBuf::from);
        assert_eq!(folder_names(&inputs), ["a", "a~2", "b/a", "a~3"]);
    }
}
