//! Ways in which nodes are found for a job's units, and who owns them, from the JSON of the job.

use super::problem::Problem;
use super::requires::RequiresRequest;
use node_core::money::Micro;
use node_core::requires::Requires;
use node_core::work::spec::{Find, OwnedBy, Terms, Threads, Units};
use node_core::work::submission::WORKERS_MAX;
use serde::Deserialize;
use utoipa::ToSchema;

/// More there never is, micro-credits.
const MOST_CREDIT: u64 = Micro::MAX.0;

/// How nodes are found for the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum FindName {
    /// Nodes that are connected to the gateway and have room; if they are too few, others in the swarm. `connected`
    /// is the old word for it.
    #[serde(alias = "connected")]
    Nearest,
    /// The nodes that sell for least in the markets; paid out of this gateway's account.
    Cheapest,
    /// Whichever node has what the job `requires` and is free first.
    Fitting,
}

impl FindName {
    /// The way of a job that names none, and has requirements or not.
    pub(super) fn usual(requires: bool) -> FindName {
        if requires { FindName::Fitting } else { FindName::Nearest }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OwnerName {
    /// This gateway.
    #[default]
    Gateway,
    /// For each unit the successor of its id on the ring; this gateway keeps the job and its results.
    Ring,
}

/// Prices of a job, as far as it names them.
pub(super) struct Prices {
    /// What a unit may cost at most, micro-credits.
    pub(super) unit: Option<u64>,
    /// What the job may.
    pub(super) job: Option<u64>,
    /// Least speed of a place that is bought, fuel a second.
    pub(super) min_speed: Option<u64>,
}

pub(super) fn check_owner(owner: OwnerName, find: Find) -> Result<OwnedBy, Problem> {
    match (owner, find) {
        (OwnerName::Gateway, _) => Ok(OwnedBy::Gateway),
        (OwnerName::Ring, Find::Nearest | Find::Fitting) => Ok(OwnedBy::Ring),
        (OwnerName::Ring, Find::Cheapest(_)) => {
            let why = "a job that buys its places is owned by its gateway, which has the budget; \
                       leave out `owner`, or `find` and the prices";
            Err(Problem::field("owner", why))
        }
    }
}

pub(super) fn check_find(
    find: FindName,
    Prices { unit, job, min_speed }: Prices,
    fuel: u64,
) -> Result<Find, Problem> {
    let amount = |field: &'static str, amount: u64| match amount {
        1..=MOST_CREDIT => Ok(Micro(amount)),
        _ => Err(Problem::field(field, format!("an amount is 1 to {MOST_CREDIT} micro-credits"))),
    };
    match find {
        FindName::Nearest | FindName::Fitting => {
            let given = [("max_price", unit), ("max_price_job", job), ("min_speed", min_speed)];
            match given.into_iter().find(|(_, given)| given.is_some()) {
                Some(("min_speed", _)) if find == FindName::Fitting => {
                    let why = "it is for places that are bought; say `speed` in `requires`";
                    Err(Problem::field("min_speed", why))
                }
                Some((field, _)) => {
                    let why = "nothing is paid for unless places are bought; say `find: cheapest`, too";
                    Err(Problem::field(field, why))
                }
                None if find == FindName::Fitting => Ok(Find::Fitting),
                None => Ok(Find::Nearest),
            }
        }
        FindName::Cheapest => {
            let unit = unit.ok_or_else(|| {
                Problem::field("max_price", "say what a unit may cost at most, micro-credits")
            })?;
            if fuel == u64::MAX {
                let why =
                    "a job that buys its places needs one, so that it is known what a unit costs at most";
                return Err(Problem::field("fuel_limit", why));
            }
            Ok(Find::Cheapest(Terms {
                max_price: amount("max_price", unit)?,
                max_price_job: job.map(|most| amount("max_price_job", most)).transpose()?,
                min_speed: min_speed.unwrap_or_default(),
            }))
        }
    }
}

/// Requirements are of meaning to the one finder that heeds them.
pub(super) fn check_requires(find: Find, asked: Option<RequiresRequest>) -> Result<Box<Requires>, Problem> {
    match asked {
        Some(_) if find != Find::Fitting => Err(Problem::field(
            "requires",
            "only `find: fitting` heeds it; leave out `find`, or the requirements",
        )),
        asked => asked.map_or_else(|| Ok(Box::default()), |asked| asked.check().map(Box::new)),
    }
}

/// A virtual computer.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Threads)]
pub(super) struct ThreadsRequest {
    /// Workers that the program is told of.
    #[schema(minimum = 1, maximum = 4096)]
    workers: u32,
}

/// What else a job with threads may not have, its owner says.
pub(super) fn check_threads(
    threads: Option<ThreadsRequest>,
    units: &Units,
) -> Result<Option<Threads>, Problem> {
    let Some(ThreadsRequest { workers }) = threads else { return Ok(None) };
    if !(1..=WORKERS_MAX).contains(&workers) {
        return Err(Problem::field("threads.workers", format!("a job has 1 to {WORKERS_MAX} workers")));
    }
    if !matches!(units, Units::List(units) if units.len() == 1) {
        let why = "its program begins the others: a job with threads has no `sweep` and one unit";
        return Err(Problem::field("threads", why));
    }
    Ok(Some(Threads { workers }))
}
