//! Files that people write, and others hand them: made up from seeds, they are read or refused with a
//! place and words. `MANYHANDS_RUNS=100` for a hundred times as many; with `MANYHANDS_CASES` each kind of file
//! has so many (`tests/run long`), and says how fast it was.
//!
//! They are not in `tests/fuzz`, which links no binary.

use super::{job_file, settings, task_file};
use node_core::protocol::Rng;
use std::path::Path;
use std::time::Instant;

const JOB: &str = r#"program = "tsp.wasm"
arguments = ["--seed", "{}", "berlin52.tsp"]
environment = { LANG = "C", any_thing = "goes" }
stdin = "in.txt"
files = ["berlin52.tsp", { from = "../shared/table.csv", path = "table.csv" }]
sweep = { first = 1, count = 500 }
memory_limit = "512MiB"
time_limit = "10m"
output_limit = 1000
max_retries = 2
priority = -5
fuel_limit = 1000
max_price = 0.25
max_price_job = 20
checkpoint = "30s"
on_loss = "wait 10m"
batch_name = "berlin"
find = "cheapest"
"#;

const TASK: &str = r#"<?xml version="1.0" ?>
<TaskFile>
  <SubTask>
    <CpuCycles>1000</CpuCycles>
    <CheckPointDataSize>0</CheckPointDataSize>
    <Price>234</Price>
    <MinSpeed>500</MinSpeed>
    <File>job.wasm</File>
    <InputParameters><Count>2</Count><Param>3</Param><Param>&lt;4&gt;</Param></InputParameters>
    <InputFiles><Count>1</Count><InputFile>a.csv</InputFile></InputFiles>
    <OutputFiles><Count>1</Count><OutputFile>joboutput.out</OutputFile></OutputFiles>
  </SubTask>
</TaskFile>
"#;

const POLICY: &str = r#"start_hour = 22
end_hour = 6.5
max_ncpus_pct = 50
disk_max_used_gb = 1
min_price = 3
days = { monday = "none" }
"#;

const SETTINGS: &str = r#"{"bank": null, "market": "single", "pricing": "max-min", "tree_degree": 10, "matchmaking": "rn-tree"}"#;

/// Replacements for numbers, texts and structures.
const WORDS: &[&str] = &[
    "0",
    "-1",
    "18446744073709551615",
    "-9223372036854775808",
    "1e308",
    "nan",
    "inf",
    "99999999999999999999999999",
    "\"\"",
    "\"\\u0000\"",
    "\"9999999999999999999999s\"",
    "\"18446744073709551615GiB\"",
    "{}",
    "[]",
    "{ a = { a = { a = 1 } } }",
    "1979-05-27T07:32:00Z",
    "'''",
    "<![CDATA[",
    "]]>",
    "<!DOCTYPE a [<!ENTITY b \"c\">]>",
    "&b;",
    "&#0;",
    "<!--",
    "\u{feff}",
    "ä𝄞",
];

/// A text with a few changes: bytes, words in place of others, parts that are gone or there twice.
fn changed(text: &str, random: &mut Rng) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        let end = (at + random.below(24) as usize).min(bytes.len());
        match random.below(6) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, random.u64() as u8),
            3 => {
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len() as u64 + 1) as usize;
                bytes.splice(to..to, part);
            }
            4 => {
                // A run of digits, or of letters.
                let of = |byte: &u8| byte.is_ascii_alphanumeric();
                let first = bytes[at..].iter().position(of).map_or(at, |more| at + more);
                let last =
                    bytes[first..].iter().position(|byte| !of(byte)).map_or(bytes.len(), |more| first + more);
                bytes.splice(first..last, word(random).bytes());
            }
            _ => drop(bytes.splice(at..at, word(random).bytes())),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn word(random: &mut Rng) -> &'static str {
    WORDS[random.below(WORDS.len() as u64) as usize]
}

/// Says which text it was if its reader panics.
struct Told<'a>(&'a str);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("it was {:?}", self.0.chars().take(5000).collect::<String>());
        }
    }
}

fn of_seeds(what: &str, text: &str, runs: u64, read: impl Fn(&str) -> Result<(), String>) {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let cases = number("MANYHANDS_CASES");
    assert_eq!(read(text), Ok(()), "it is good as it is");
    let (mut good, mut bad, began) = (0_u64, 0_u64, Instant::now());
    for seed in 0..cases.unwrap_or(runs * number("MANYHANDS_RUNS").unwrap_or(1)) {
        let mut random = Rng::from_seed(std::array::from_fn(|at| seed.to_le_bytes()[at % 8]));
        let text = changed(text, &mut random);
        let told = Told(&text);
        match read(&text) {
            Ok(()) => good += 1,
            Err(said) => {
                bad += 1;
                assert!(!said.trim().is_empty(), "it is refused in words");
            }
        }
        drop(told);
    }
    if cases.is_some() {
        let each = (good + bad) as f64 / began.elapsed().as_secs_f64();
        println!("{what}: {} cases, {each:.0} a second, {bad} of them refused", good + bad);
    }
    assert!(good > 0 && bad > 0, "{good} were read and {bad} refused");
}

/// Lists in lists, tables in tables, elements in elements: deeper than a stack.
fn deep() -> Vec<String> {
    let deep = |before: &str, open: &str, close: &str| {
        [before.to_owned(), open.repeat(200_000), close.repeat(200_000)].concat()
    };
    vec![
        deep("arguments = ", "[", "]"),
        deep("environment = ", "{ a = ", "}"),
        deep("", "[a.", "]"),
        deep("", "<TaskFile>", "</TaskFile>"),
        deep("", "{\"bank\": ", "}"),
        format!("a{} = 1", ".a".repeat(200_000)),
    ]
}

fn job(text: &str) -> Result<(), String> {
    // Patterns would be looked up on this machine's disk.
    if text.contains("inputs") {
        return Ok(());
    }
    job_file::plan("job.toml", text, Path::new("")).map(drop).map_err(|mistake| mistake.to_string())
}

fn task(text: &str) -> Result<(), String> {
    task_file::plan("task.xml", text, Path::new("")).map(drop).map_err(|mistake| mistake.to_string())
}

fn policy(text: &str) -> Result<(), String> {
    crate::policy::file::parse("policy.toml", text).map(drop).map_err(|mistake| mistake.to_string())
}

fn swarm(text: &str) -> Result<(), String> {
    let value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    settings::from_json(&value).map(drop).ok_or_else(|| "it is none".into())
}

#[test]
fn a_job_file_is_read_or_refused() {
    of_seeds("job files", JOB, 20_000, job);
}

#[test]
fn a_task_file_is_read_or_refused() {
    of_seeds("task files", TASK, 20_000, task);
}

#[test]
fn a_policy_is_read_or_refused() {
    of_seeds("policies", POLICY, 20_000, policy);
}

#[test]
fn settings_of_a_swarm_are_read_or_refused() {
    of_seeds("settings", SETTINGS, 20_000, swarm);
}

#[test]
fn what_is_too_deep_is_refused() {
    for text in deep() {
        let told = Told(&text);
        for read in [job, task, policy, swarm] {
            assert!(read(&text).is_err());
        }
        drop(told);
    }
}
