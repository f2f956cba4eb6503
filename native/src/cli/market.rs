//! `manyhands market`: who sells what, and for how much.

use super::args::{Format, SwarmArgs};
use super::client::types::{Commodity, Market};
use super::failure::{DONE, Failure};
use super::progress::say;
use super::run::{print_json, print_text};
use super::swarm::find;
use super::table::Table;
use crate::paths::DataFolder;
use clap::Args;
use std::time::{Duration, Instant};

/// How long the gateway may look around before what it has seen by then is shown. Our choice: the markets of
/// a usual swarm take it some seconds, and it says what is missing.
const LOOK: Duration = Duration::from_secs(20);

/// Age in seconds up to which a look is shown as it is, without waiting for a newer one. Our choice: somebody
/// else is looking, and two walks.
const FRESH_S: u64 = 20;

const ASK_AGAIN: Duration = Duration::from_millis(300);

/// A person who waits for longer is told what for.
const SILENT: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct MarketArgs {
    #[command(flatten)]
    swarm: SwarmArgs,
}

pub(crate) fn market(args: &MarketArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let swarm = find(&args.swarm, folder)?;
    let (began, mut told) = (Instant::now(), false);
    let (market, text) = loop {
        let (market, text) = swarm.market()?;
        let seen = market.looks.iter().all(|look| look.age_s.is_some_and(|age| age <= FRESH_S));
        if seen || market.scheme.is_none() || began.elapsed() > LOOK {
            break (market, text);
        }
        if began.elapsed() > SILENT && !std::mem::replace(&mut told, true) {
            say(&format!("the gateway is asking all markets; at most {} s", LOOK.as_secs()));
        }
        std::thread::sleep(ASK_AGAIN);
    };
    match args.swarm.output {
        Format::Json => print_json(&text)?,
        Format::Table => print_text(&words(&market))?,
    }
    Ok(DONE)
}

fn words(market: &Market) -> String {
    if market.scheme.is_none() {
        return "this swarm has no markets\n".into();
    }
    let missing: Vec<&str> = market.looks.iter().filter(|look| !look.whole).map(|look| &*look.kind).collect();
    let all = match &missing[..] {
        [] => String::new(),
        kinds => format!(
            "not all markets of {} have answered yet; what they list is missing here, ask again in a moment\n",
            kinds.join(" and ")
        ),
    };
    if market.commodities.is_empty() {
        let none =
            "nobody sells now, as far as this gateway has seen; sellers list within seconds of their start";
        return format!("{none}\n{all}");
    }
    let cost = "cost in micro-credits for 10^9 of fuel, or for 10^9 byte-seconds";
    format!("{}\n{}\n{cost}\n{all}", commodities(market), offers(market))
}

fn commodities(market: &Market) -> Table {
    let mut table = Table::new(
        &["MARKET", "FROM", "SELLERS", "UNITS", "CHEAPEST", "DEAREST", "LAST SALE", "SEEN"],
        &[1, 2, 3, 4, 5],
    );
    for Commodity { kind, least, sellers, units, cheapest, dearest, last, age_s, .. } in &market.commodities {
        let cost = |cost: &Option<u64>| cost.map_or("-".into(), |cost| cost.to_string());
        table.row([
            kind.clone(),
            capacity(kind, *least),
            sellers.to_string(),
            units.to_string(),
            cost(cheapest),
            cost(dearest),
            last.as_ref().map_or("-".into(), |last| format!("{}, {} ago", last.price, span(last.ago_s))),
            match age_s {
                None => "a copy".into(),
                Some(0) => "now".into(),
                Some(age) => format!("{} ago", span(*age)),
            },
        ]);
    }
    table
}

fn offers(market: &Market) -> Table {
    let mut table = Table::new(&["KIND", "CAPACITY", "COST", "UNITS", "SELLER", "ENGINE"], &[1, 2, 3]);
    for offer in market.commodities.iter().flat_map(|commodity| &commodity.offers) {
        let seller = match &offer.name[..] {
            "" => offer.seller.chars().take(12).collect(),
            name => name.to_owned(),
        };
        table.row([
            offer.kind.clone(),
            capacity(&offer.kind, offer.capacity),
            offer.cost.to_string(),
            offer.units.to_string(),
            seller,
            offer.engine.clone(),
        ]);
    }
    table
}

fn capacity(kind: &str, capacity: u64) -> String {
    match kind {
        "cycles" => format!("{:.2}e9 fuel/s", capacity as f64 / 1e9),
        _ => format!("{} MiB", capacity >> 20),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
