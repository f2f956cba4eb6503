//! Jobs that a page's person submits: from the page's words to a specification, and back.

use crate::policy::Setting;
use crate::status;
use node_core::JobId;
use node_core::content::{BlobRef, Data};
use node_core::money::Micro;
use node_core::work::spec::{Find, JobSpec, OwnedBy, Template, Terms, UnitResult, UnitSpec, Units};
use node_core::work::view::{JobState, JobView};
use sandbox::Limits;
use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer};
use std::fmt::Write;

/// Jobs that the page is told of, the newest first. Our choice: a person started them by hand.
pub const SHOWN: usize = 20;

/// Results in one answer.
pub const RESULTS: usize = 100;

/// A job as the page asks for it; its program and its input come beside it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    arguments: Vec<String>,
    /// Units, of which each has a number from `first` on in place of `{}` among the arguments. None: one unit, and
    /// `{}` is left as it is.
    #[serde(default)]
    units: Option<u32>,
    #[serde(default)]
    first: u64,
    /// Most that a unit may cost, micro-credits: its places are bought. None: nothing is paid.
    #[serde(default)]
    max_price: Option<u64>,
    /// Most that the whole job may; none: as much as its units.
    #[serde(default)]
    max_price_job: Option<u64>,
    /// Least speed of a place that is bought, fuel a second.
    #[serde(default)]
    min_speed: u64,
    /// Fuel that a unit may use, without which nothing is bought.
    #[serde(default)]
    fuel_limit: Option<u64>,
}

/// The job that these settings describe. The node checks its bounds when it is submitted.
///
/// # Errors
/// The setting that is none, in words.
pub fn job(asked: Vec<(String, Setting)>, program: BlobRef, input: Data) -> Result<JobSpec, String> {
    let wanted: Result<Wanted, Error> = Wanted::deserialize(MapDeserializer::new(asked.into_iter()));
    let Wanted { name, arguments, units, first, max_price, max_price_job, min_speed, fuel_limit } =
        wanted.map_err(|e| format!("the page asks for a job in words that its node does not know: {e}"))?;
    let usual = Limits::default();
    let most = max_price_job.map(Micro);
    let terms = |price| Terms { max_price: Micro(price), max_price_job: most, min_speed };
    Ok(JobSpec {
        name,
        template: Template {
            program,
            arguments,
            environment: Vec::new(),
            stdin: input,
            files: Vec::new(),
            limits: Limits { fuel: fuel_limit.unwrap_or(usual.fuel), ..usual },
            bit_exact: false,
            checkpoint: Default::default(),
            on_loss: Default::default(),
            threads: None,
        },
        units: match units {
            Some(count) => Units::Sweep { first, count },
            None => Units::List(vec![UnitSpec::default()]),
        },
        priority: 0,
        max_retries: 0,
        find: max_price.map_or(Find::Nearest, |price| Find::Cheapest(terms(price))),
        owner: OwnedBy::Gateway,
        requires: Default::default(),
    })
}

fn word(state: JobState) -> &'static str {
    match state {
        JobState::Waiting => "waiting",
        JobState::Running => "running",
        JobState::Done => "done",
        JobState::Failed => "failed",
        JobState::Cancelled => "cancelled",
    }
}

/// The page's `jobs` message as JSON: the newest jobs, and what is on the tab's account, if it is known.
pub fn to_json(jobs: &[JobView], balance: Option<u64>) -> String {
    let newest = &jobs[..jobs.len().min(SHOWN)];
    let list = status::list(newest, |out, job| {
        let _ = write!(out, r#"{{"id":"{}","name":"#, job.id);
        status::text(out, &job.name);
        let _ = write!(out, r#","state":"{}","reason":"#, word(job.state));
        status::text(out, &job.reason);
        let nodes = job.by_node.iter().filter(|(_, units, _)| *units > 0).count();
        let _ = write!(
            out,
            r#","units":{},"placed":{},"done":{},"failed":{},"nodes":{nodes},"cpu_us":{},"paid":{}}}"#,
            job.units,
            job.placed,
            job.done,
            job.failed,
            job.cpu_us,
            job.cost.map_or_else(|| "null".into(), |cost| cost.paid.0.to_string())
        );
    });
    let balance = balance.map_or_else(|| "null".into(), |balance| balance.to_string());
    format!(r#"{{"type":"jobs","balance":{balance},"jobs":{list}}}"#)
}

/// A result as storage has it, with its unit's number; none of a row of another job.
pub fn result(job: JobId, key: &[u8], row: &[u8]) -> Option<(u32, UnitResult)> {
    let index = key.strip_prefix(&job.0[..])?.try_into().ok()?;
    Some((u32::from_be_bytes(index), sandbox::unpack::from_slice(row).ok()?))
}

/// The code of an invite to credit: 32 hexadecimal digits.
pub fn code(digits: &str) -> Option<[u8; 16]> {
    let digits = digits.trim();
    let value = u128::from_str_radix(digits, 16).ok()?;
    (digits.len() == 32 && !digits.starts_with('+')).then(|| value.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Setting {
        Setting::Text(text.into())
    }

    fn asked(more: &[(&str, Setting)]) -> Result<JobSpec, String> {
        let all = [("name", text("queens")), ("arguments", Setting::List(vec![text("12"), text("{}")]))];
        let all = all.iter().chain(more).map(|(key, value)| ((*key).to_owned(), value.clone()));
        job(all.collect(), BlobRef::of(b"wasm"), Data::EMPTY)
    }

    #[test]
    fn a_job_without_a_number_of_units_has_one_and_keeps_its_arguments() {
        let spec = asked(&[]).unwrap();
        assert_eq!(spec.units, Units::List(vec![UnitSpec::default()]));
        assert_eq!((spec.find, spec.template.limits), (Find::Nearest, Limits::default()));
        assert_eq!(spec.template.arguments, ["12", "{}"]);
        assert_eq!(node_core::work::submission::check(&spec, &Default::default()), Ok(()));
    }

    #[test]
    fn a_sweep_that_is_paid_for_says_for_how_much() {
        let number = |n: f64| Setting::Number(n);
        let more = [
            ("units", number(30.0)),
            ("first", number(5.0)),
            ("max_price", number(2000.0)),
            ("min_speed", number(7.0)),
        ];
        let spec = asked(&more).unwrap();
        assert_eq!(spec.units, Units::Sweep { first: 5, count: 30 });
        let terms = Terms { max_price: Micro(2000), max_price_job: None, min_speed: 7 };
        assert_eq!(spec.find.terms(), Some(terms));
        let why = node_core::work::submission::check(&spec, &Default::default()).unwrap_err();
        assert!(why.to_string().contains("fuel limit"), "{why}");
        let paid = asked(&[&more[..], &[("fuel_limit", number(1e9))]].concat()).unwrap();
        assert_eq!(node_core::work::submission::check(&paid, &Default::default()), Ok(()));
    }

    #[test]
    fn a_setting_that_nobody_knows_is_named() {
        let why = asked(&[("colour", text("red"))]).unwrap_err();
        assert!(why.contains("colour"), "{why}");
        assert!(
            asked(&[("units", text("many"))]).is_err() && asked(&[("units", Setting::Number(1.5))]).is_err()
        );
    }

    #[test]
    fn a_code_has_32_digits() {
        assert_eq!(code(" 000102030405060708090a0b0c0d0e0F "), Some(std::array::from_fn(|n| n as u8)));
        for none in ["", "12", &"g".repeat(32), &"0".repeat(33), &format!("+{}", "0".repeat(31))] {
            assert_eq!(code(none), None, "{none}");
        }
    }

    #[test]
    fn a_result_is_read_for_its_own_job_alone() {
        let (mine, other) = (JobId([1; 16]), JobId([2; 16]));
        let row = UnitResult {
            end: sandbox::End::Exited(0),
            stdout: Data::Inline("365596".into()),
            stderr: Data::EMPTY,
            files: Vec::new(),
            cpu_us: 1,
            runner: node_core::NodeId([3; 32]),
            attempts: 1,
            fuel: 1,
            journey: None,
            paid: Micro(0),
        };
        let bytes = rmp_serde::to_vec(&row).unwrap();
        let key = [&mine.0[..], &7u32.to_be_bytes()].concat();
        assert_eq!(result(mine, &key, &bytes), Some((7, row)));
        assert_eq!((result(other, &key, &bytes), result(mine, &key, b"x")), (None, None));
    }
}
