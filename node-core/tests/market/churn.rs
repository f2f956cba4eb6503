//! Whatever happens, in any order, from random seeds: first safety while it happens, then, when it
//! stops, all is at rest and whoever is able is found.

use crate::{SCHEMES, SECOND, SPEED, config, slots, small, space, unit};
use node_core::market::commodity::{Kind, Market};
use node_core::market::pricing::NoDeal;
use node_core::market::{MarketConfig, Wanted};
use node_core::overlay::ring::{Command, Event, RingId};
use simulator::market::Markets;
use simulator::ring::Conditions;
use std::time::Duration;

/// Until all must be well again: the ring after a death, then a listing, a purge of who is dead, and
/// the processor overlay.
const WELL: Duration = Duration::from_secs(300);

#[test]
fn any_sequence_of_trades_joins_leaves_and_deaths_is_safe_and_ends_at_rest() {
    // MANYHANDS_SEEDS=N runs more.
    let count = std::env::var("MANYHANDS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
    let (mut named, mut dead, mut longest) = (0, 0, Duration::ZERO);
    for seed in ONCE_FAILED.into_iter().chain(0..count) {
        let (n, d, took) = live(seed);
        named += n;
        dead += d;
        longest = longest.max(took);
    }
    println!(
        "{count} seeds: {dead} of {named} sellers were dead when named; at rest after {longest:?} at most"
    );
    // Here one node of fifteen dies every half a minute; `market-churn.toml` has what donors do.
    assert!(dead * 200 <= named.max(200), "{dead} of {named}");
}

/// Two members of an overlay that left at once, one of which came back; a buyer that took an old word
/// for what else a market owner owns; a market that went to another node and was looked for at the old
/// one until time was over.
const ONCE_FAILED: [u64; 3] = [51, 178, 463];

/// One life; how many sellers were named and how many of them were dead, and how long it took to heal.
fn live(seed: u64) -> (usize, usize, Duration) {
    let scheme = SCHEMES[(seed % 2) as usize];
    let mut markets = Markets::with(seed, small(), MarketConfig { samples: 300, ..config(scheme) });
    markets.listen = true;
    markets.grow(12, 2);
    markets.settle(120 * SECOND);
    let mut numbers = Vec::new();
    let mut deaths: Vec<node_core::time::Time> = Vec::new();
    for _ in 0..60 {
        let alive = markets.alive();
        let one = alive[markets.rng.below(alive.len() as u64) as usize];
        deaths.retain(|at| markets.now.since(*at) < 25 * SECOND);
        let may_die = deaths.len() < 3 && alive.len() > 7 && one != alive[0];
        match markets.rng.below(14) {
            0 | 1 if alive.len() < 30 => drop(markets.join()),
            2 if may_die => {
                markets.kill(one);
                deaths.push(markets.now);
            }
            3 if may_die => {
                let member = markets.member(one);
                markets.command(one, Command::Leave(member));
                deaths.push(markets.now);
            }
            4 if may_die => {
                markets.kill(one);
                deaths.push(markets.now);
                let pause = markets.rng.below(12_000);
                markets.run(Duration::from_millis(pause));
                markets.start(one);
                markets.enter(one);
            }
            5 => markets.conditions.double = if markets.rng.chance(0.5) { 50 } else { 0 },
            6 => {
                let other = alive[markets.rng.below(alive.len() as u64) as usize];
                if one != other {
                    markets.cut_link(one, other);
                }
            }
            7..10 => {
                let cost = 1 + markets.rng.below(2000);
                let goods = match markets.rng.below(4) {
                    0 => space(1 << (25 + markets.rng.below(6)), cost),
                    _ => slots(SPEED << markets.rng.below(4), markets.rng.below(4) as u16, cost),
                };
                markets.offer(one, goods);
            }
            _ => {
                let wanted = Wanted {
                    units: 1 + markets.rng.below(3) as u16,
                    tie: markets.rng.u64(),
                    ..unit(SPEED << markets.rng.below(4))
                };
                numbers.push((one, markets.search(one, wanted)));
            }
        }
        let pause = markets.rng.below(6000);
        markets.run(Duration::from_millis(pause));
        for (by, number) in &numbers {
            let end = markets.shared.asked[number].end.clone();
            if markets.lives(*by) && markets.rng.chance(0.05) {
                for offer in end.into_iter().flat_map(|end| end.offers) {
                    markets.take(*by, offer);
                }
            }
        }
        bury(&mut markets);
        assert_eq!(markets.check_markets(false), Vec::<String>::new(), "seed {seed}");
    }
    markets.conditions = Conditions::default();
    markets.run(6 * SECOND);
    bury(&mut markets);
    let took = markets.settle_markets(WELL);
    let omitted =
        markets.shared.doubts.iter().filter(|doubt| doubt.2 != node_core::market::buyer::Doubt::Usurper);
    assert_eq!(omitted.count(), 0, "seed {seed}: {:?}", markets.shared.doubts);
    everybody_finds(&mut markets, seed);
    let ends = numbers.iter().filter_map(|(_, number)| markets.shared.asked[number].end.as_ref());
    let (named, dead) = ends.fold((0, 0), |(named, dead), end| (named + end.offers.len(), dead + end.dead));
    (named, dead, took)
}

/// Those that leave are gone.
fn bury(markets: &mut Markets) {
    for (n, event) in std::mem::take(&mut markets.events) {
        let own = markets.member(n);
        if event == Event::Left(own) && markets.lives(n) {
            markets.kill(n);
        }
    }
}

/// At rest: the cheapest of the nearest market that has one, or none if there is none above.
fn everybody_finds(markets: &mut Markets, seed: u64) {
    // What buyers remember is over, and what was named and not bought is free.
    markets.run(markets.shared.config.remember);
    for shift in 0..5 {
        let alive = markets.alive();
        let by = alive[markets.rng.below(alive.len() as u64) as usize];
        let capacity = SPEED << shift;
        let for_sale = markets.for_sale();
        let first = Market::first(Kind::Cycles, capacity).unwrap();
        let nearest = for_sale.iter().find(|(market, _)| market.kind == Kind::Cycles && **market >= first);
        let cheapest = nearest.and_then(|(_, sellers)| {
            sellers.iter().filter_map(|n| Some(markets.sells(*n, Kind::Cycles)?.cost)).min()
        });
        let end = markets.searched(by, unit(capacity)).unwrap();
        let found = end.offers.first().map(|offer| offer.goods.cost);
        assert_eq!(found, cheapest, "seed {seed}: {by} wants {capacity}: {end:?}");
        assert!(found.is_some() || end.shortage == Some(NoDeal::NoSeller));
        markets.run(15 * SECOND);
    }
    assert_eq!(markets.check(RingId::NODES, true), Vec::<String>::new());
}
