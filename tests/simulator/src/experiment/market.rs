//! How many hops a search for a seller takes in both schemes, how markets and requests are spread, and
//! what is paid, at peace and while nodes come and go.
//!
//! A hop is a message toward a market: those of all lookups, in vain or not, and the question to each
//! market operator; answers are none. Probes of sellers and purchases are no part of the search. The
//! second price is the true one: the second lowest cost, in all markets, of those that were for sale from
//! before the search until the buyer heard of it, or what the buyer's maximum allows if that is less. A
//! seller that was named to somebody else meanwhile counts, though it could not be named twice.

use super::Watch;
use super::ring::conditions;
use super::session::{draw, draw_rest, shape};
use crate::market::{Asked, End, Markets};
use crate::report::{Report, Row};
use crate::rng::Rng;
use crate::scenario::{MarketPart, MarketSessions, Scenario};
use node_core::circle::RingId;
use node_core::goods::Goods;
use node_core::goods::Offer;
use node_core::goods::Wanted;
use node_core::goods::{Kind, Market, Scheme};
use node_core::market::{MarketConfig, Message, Purpose, Query, ToOwner};
use node_core::money::{Micro, Price};
use node_core::overlay::ring::{Command, RingConfig};
use node_core::protocol::Input;
use node_core::time::Time;
use node_core::{NodeId, Platform};
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Work of a unit: a minute of a usual slot. [`MOST`], its highest price, is half as much again as the
/// dearest seller takes.
const QUANTITY: u64 = 60 * SPEED;
const MOST: Micro = Micro(1_000_000);

/// Fuel a second of a usual slot.
const SPEED: u64 = 1_000_000_000;

/// How long a slot that was bought is busy.
const BUSY: Duration = Duration::from_secs(60);

/// Until all have listed and the markets have found each other.
const REST: Duration = Duration::from_secs(300);

pub(super) fn run(scenario: &Scenario, part: &MarketPart, report: &mut Report, watch: &mut dyn Watch) {
    let most = scenario.nodes.0;
    let mut sizes: Vec<usize> =
        part.sellers.iter().filter(|size| size.0 <= most).map(|size| size.0 as usize).collect();
    if sizes.is_empty() {
        sizes.push(most as usize);
    }
    for scheme in [Scheme::Single, Scheme::Processor] {
        match &part.sessions {
            Some(sessions) => {
                let nodes = sizes.iter().copied().min().unwrap_or(1);
                with_sessions(scenario, part, sessions, scheme, nodes, report, watch);
            }
            None => {
                for sellers in &sizes {
                    for spread in ["wide", "narrow"] {
                        at_peace(scenario, part, scheme, spread, *sellers, report, watch);
                    }
                }
            }
        }
    }
}

/// How often somebody buys, so that this share of all slots is busy.
fn pace(part: &MarketPart, sellers: usize) -> Duration {
    BUSY.div_f64(sellers as f64 * part.busy.0.max(0.001))
}

fn name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Single => "single",
        Scheme::Processor => "processor",
    }
}

/// Goods of a node: speeds from a tenth to ten times the usual, all alike often; or all in one market.
fn goods(spread: &str, rng: &mut Rng) -> Goods {
    let capacity = match spread {
        "narrow" => SPEED / 10 * 8 + rng.below(SPEED / 5),
        _ => (SPEED as f64 * 10f64.powf(2.0 * rng.unit() - 1.0)) as u64,
    };
    Goods {
        kind: Kind::Cycles,
        capacity,
        units: 1,
        minutes: 60,
        cost: Price(rng.between(100, 10_000)),
        engine: Platform::Native,
        memory_mib: 1024,
    }
}

fn wanted(capacity: u64, rng: &mut Rng) -> Wanted {
    Wanted {
        kind: Kind::Cycles,
        capacity,
        minutes: 10,
        memory_mib: 512,
        engine: None,
        units: 1,
        quantity: QUANTITY,
        most: MOST,
        tie: rng.u64(),
    }
}

/// Totals of some searches.
#[derive(Default)]
struct Tally {
    hops: Vec<u16>,
    took: Vec<Duration>,
    searches: u64,
    found: u64,
    dead: u64,
    paid: Vec<f64>,
    second: Vec<f64>,
    dearer: u64,
}

impl Tally {
    fn add(&mut self, end: &End, took: Duration, second: Option<(Price, Price)>) {
        self.searches += 1;
        self.hops.push(end.hops);
        self.took.push(took);
        self.dead += end.dead as u64;
        let Some(offer) = end.offers.first() else { return };
        self.found += 1;
        if let Some((cheapest, second)) = second {
            self.paid.push(offer.price.0 as f64);
            self.second.push(second.0 as f64);
            self.dearer += u64::from(offer.goods.cost > cheapest);
        }
    }
}

fn mean(all: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = all.len().max(1) as f64;
    all.sum::<f64>() / count
}

/// Columns that all rows of a network have in common.
struct Whole {
    sellers: usize,
    scheme: Scheme,
    spread: &'static str,
    sessions: String,
    markets: usize,
    busiest_share: f64,
    busiest_markets: usize,
    owner_bytes: usize,
}

impl Whole {
    fn row(&self, mut tally: Tally, keys: &str) -> Row {
        tally.hops.sort_unstable();
        let p99 = tally.hops.get(tally.hops.len() * 99 / 100).copied().unwrap_or(0);
        // A lookup, a question to each market above (half of them in the mean), and to two of them again.
        let markets = self.markets.max(1) as f64;
        let target = markets.log2() / 2.0 + (markets + 1.0) / 2.0 + 2.0;
        let target = (self.scheme == Scheme::Processor && keys != "first").then_some(target);
        Row::default()
            .with("sellers", self.sellers as u64)
            .with("scheme", name(self.scheme))
            .with("spread", self.spread)
            .with("keys", keys)
            .with("sessions", self.sessions.as_str())
            .with("markets", self.markets as u64)
            .with("searches", tally.searches)
            .with("found_fraction", tally.found as f64 / tally.searches.max(1) as f64)
            .with("hops_mean", mean(tally.hops.iter().map(|hops| f64::from(*hops))))
            .with("hops_p99", u64::from(p99))
            .with("hops_target", target)
            .with("took_s_mean", mean(tally.took.iter().map(Duration::as_secs_f64)))
            .with("busiest_share", self.busiest_share)
            .with("busiest_markets", self.busiest_markets as u64)
            .with("owner_bytes", self.owner_bytes as u64)
            .with("dead_named_fraction", tally.dead as f64 / tally.found.max(1) as f64)
            .with("price_paid", mean(tally.paid.iter().copied()))
            .with("second_price", mean(tally.second.iter().copied()))
            .with("dearer_fraction", tally.dearer as f64 / tally.paid.len().max(1) as f64)
    }
}

/// Since when each node sells what it sells.
type Since = BTreeMap<usize, Time>;

/// How long it takes until what is for sale is listed. Our choice: a lookup and a dial.
const LISTED: Duration = Duration::from_secs(2);

/// The two lowest costs of those that could have been named in place of what was.
fn two_lowest(markets: &Markets, offer: &Offer, asked: &Asked, since: &Since) -> Option<(Price, Price)> {
    let named = markets.find(offer.seller.id);
    let able = |(n, from): (&usize, &Time)| {
        let there = markets.lives(*n) && !markets.is_frozen(*n);
        let goods = markets.sells(*n, Kind::Cycles).filter(|_| there)?;
        let early = *from + LISTED <= asked.at || Some(*n) == named;
        (early && goods.capacity >= asked.wanted.capacity).then_some(goods.cost)
    };
    let mut costs: Vec<Price> = since.iter().filter_map(able).collect();
    costs.sort_unstable();
    let most = Price::within(MOST.minus(markets.shared.config.delta)?, QUANTITY);
    Some((*costs.first()?, costs.get(1).map_or(most, |second| (*second).min(most))))
}

/// Nobody comes or goes. Each buyer searches three times: it knows no market (`first`), then for
/// another one (`fresh`), then for the same again (`used`).
fn at_peace(
    scenario: &Scenario,
    part: &MarketPart,
    scheme: Scheme,
    spread: &'static str,
    sellers: usize,
    report: &mut Report,
    watch: &mut dyn Watch,
) {
    let config = MarketConfig { scheme, ..MarketConfig::default() };
    let mut markets = Markets::rested(report.seed, RingConfig::default(), config, sellers);
    markets.conditions = conditions(scenario);
    let mut rng = Rng::fork(report.seed, 300);
    let mut since = Since::new();
    for n in 0..sellers {
        markets.offer(n, goods(spread, &mut rng));
        since.insert(n, markets.now);
        if n % 10 == 0 {
            markets.run(Duration::from_millis(20));
        }
    }
    markets.run(REST);
    watch.say(&format!("{sellers} sellers have listed, {} events", markets.happened));
    let owner_bytes = (0..sellers).map(|n| markets.nodes[n].above.owner.state().memory()).max().unwrap_or(0);
    let (mut owners, mut traded) = (BTreeMap::<usize, usize>::new(), Vec::new());
    for market in markets.for_sale().into_keys() {
        traded.push(market);
        if let Some(owner) = markets.market_owner(market) {
            *owners.entry(owner).or_default() += 1;
        }
    }
    say_answer(&mut markets, &traded, &mut rng, watch);
    markets.shared.requests.clear();
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut busy: Vec<(usize, Time, Goods)> = Vec::new();
    let mut under_way: Vec<(u64, usize, &str, u64)> = Vec::new();
    // Each buyer buys three times.
    let pace = pace(part, sellers) * 3;
    let (mut begun, all) = (0, part.searches.0);
    while begun < all || !under_way.is_empty() {
        if begun < all {
            begun += 1;
            let by = rng.below(sellers as u64) as usize;
            let capacity = some_capacity(&traded, &mut rng);
            let wanted = wanted(capacity, &mut rng);
            under_way.push((markets.search(by, wanted), by, "first", capacity));
        }
        markets.run(pace);
        busy.retain(|(n, until, goods)| {
            let over = *until <= markets.now;
            if over {
                markets.offer(*n, *goods);
                since.insert(*n, markets.now);
            }
            !over
        });
        let ended: Vec<_> =
            under_way.extract_if(.., |(number, ..)| markets.shared.asked[number].end.is_some()).collect();
        for (number, by, keys, capacity) in ended {
            let Some(asked) = markets.shared.asked.remove(&number) else { continue };
            let Some(end) = asked.end.clone() else { continue };
            let second = end.offers.first().and_then(|it| two_lowest(&markets, it, &asked, &since));
            tallies.entry(keys).or_default().add(&end, end.at.since(asked.at), second);
            for offer in &end.offers {
                markets.take(by, *offer);
                if let Some(n) = markets.find(offer.seller.id) {
                    busy.push((n, markets.now + BUSY, offer.goods));
                }
            }
            let (next, capacity) = match keys {
                "first" => ("fresh", another_capacity(&traded, capacity, &end, &mut rng)),
                "fresh" => ("used", capacity),
                _ => continue,
            };
            let wanted = wanted(capacity, &mut rng);
            under_way.push((markets.search(by, wanted), by, next, capacity));
        }
    }
    let requests: u64 = markets.shared.requests.values().sum();
    let busiest = markets.shared.requests.values().max().copied().unwrap_or(0);
    let whole = Whole {
        sellers,
        scheme,
        spread,
        sessions: "none".into(),
        markets: traded.len(),
        busiest_share: busiest as f64 / requests.max(1) as f64,
        busiest_markets: owners.values().max().copied().unwrap_or(0),
        owner_bytes,
    };
    for keys in ["first", "fresh", "used"] {
        let tally = tallies.remove(keys).unwrap_or_default();
        report.rows.push(whole.row(tally, keys));
    }
    close(&markets, report);
}

/// How long the owner of the largest market needs until it knows the winners and probes them.
fn say_answer(markets: &mut Markets, traded: &[Market], rng: &mut Rng, watch: &mut dyn Watch) {
    const ROUNDS: u64 = 200;
    let for_sale = markets.for_sale();
    let sellers = |market: &Market| for_sale.get(market).map_or(0, Vec::len);
    let Some(market) = traded.iter().copied().max_by_key(sellers) else { return };
    let Some(owner) = markets.market_owner(market) else { return };
    let (count, begun) = (sellers(&market), watch.seconds());
    for ticket in 0..ROUNDS {
        let query = Query { ticket, market, wanted: wanted(market.least(), rng), purpose: Purpose::Copy };
        let message = Message::ToOwner(ToOwner::Query(Box::new(query)));
        let from = NodeId([ticket as u8; 32]);
        let (me, now) = (markets.nodes[owner].contact.id, markets.now);
        // Its words are not sent: nobody asked.
        markets.nodes[owner].above.owner.step(me, now, Input::Message { from, message });
    }
    let each = (watch.seconds() - begun) / ROUNDS as f64;
    watch.say(&format!("{count} sellers in {market:?}: an answer takes {:.0} µs", each * 1e6));
    markets.run(2 * markets.shared.config.answer);
}

/// A speed that is sold: the least of some market.
fn some_capacity(traded: &[Market], rng: &mut Rng) -> u64 {
    rng.one_of(traded).map_or(SPEED, |market| market.least())
}

/// One that lies in another market than the buyer has used, if there is one.
fn another_capacity(traded: &[Market], capacity: u64, end: &End, rng: &mut Rng) -> u64 {
    let used = Market::of(Kind::Cycles, capacity);
    let found = end.offers.first().map(|offer| offer.market);
    let others: Vec<Market> =
        traded.iter().copied().filter(|market| Some(*market) != used && Some(*market) != found).collect();
    if others.is_empty() { capacity } else { some_capacity(&others, rng) }
}

fn close(markets: &Markets, report: &mut Report) {
    report.events += markets.happened;
    report.trace_hash = report.trace_hash.rotate_left(1) ^ markets.trace.hash();
    let faults = markets.faults.iter().map(|(who, fault)| format!("{who:?} is blamed: {fault}"));
    report.violations.extend(faults.take(100));
    report.violations.extend(markets.check_markets(false).into_iter().take(100));
    let wrong =
        markets.shared.doubts.iter().filter(|doubt| doubt.2 != node_core::market::buyer::Doubt::Usurper);
    report.violations.extend(wrong.take(100).map(|doubt| format!("an honest owner is doubted: {doubt:?}")));
}

/// A session begins or ends; its process ends; a slot is free again; somebody searches.
const TURN: u32 = 0x1000_0000;
const END: u32 = 0x2000_0000;
const FREE: u32 = 0x3000_0000;
const SEARCH: u32 = 0x4000_0000;
const KIND: u32 = 0xf000_0000;

/// Donors with sessions; the first node is the gateway by which all join, and stays.
fn with_sessions(
    scenario: &Scenario,
    part: &MarketPart,
    sessions: &MarketSessions,
    scheme: Scheme,
    nodes: usize,
    report: &mut Report,
    watch: &mut dyn Watch,
) {
    let config = MarketConfig { scheme, ..MarketConfig::default() };
    let mut markets = Markets::with(report.seed, RingConfig::default(), config);
    markets.conditions = conditions(scenario);
    let mut rng = Rng::fork(report.seed, 301);
    markets.grow(nodes, scenario.tree.joins_per_s.0.min(100));
    let stock: Vec<Goods> = (0..nodes).map(|_| goods("wide", &mut rng)).collect();
    let mut since = Since::new();
    for (n, goods) in stock.iter().enumerate() {
        markets.offer(n, *goods);
        since.insert(n, markets.now);
    }
    markets.run(REST);
    let minutes = |time: crate::scenario::Time| Duration::from_micros(time.minutes_as_micros());
    let (median, away) = (minutes(sessions.session.median_min), minutes(sessions.session.away_min));
    let shape = shape(&sessions.session);
    let end = markets.now + minutes(sessions.for_min);
    for n in 1..nodes {
        let rest = draw_rest(median, shape, &mut rng);
        markets.call_at(markets.now + rest, TURN | n as u32);
    }
    markets.call_at(markets.now + SECOND, SEARCH);
    markets.shared.requests.clear();
    let every = pace(part, nodes);
    let mut under_way: Vec<(u64, usize)> = Vec::new();
    let (mut tally, mut lost, mut turns) = (Tally::default(), 0u64, 0u64);
    while let Some(token) = markets.run_to_call(end) {
        let n = (token & !KIND) as usize;
        match token & KIND {
            TURN => {
                turns += 1;
                since.insert(n, markets.now);
                let stays = turn(&mut markets, n, sessions.session.polite.0, &stock[n], &mut rng);
                let (median, shape) = if stays { (median, shape) } else { (away, 1.0) };
                let time = draw(median, shape, &mut rng);
                markets.call_at(markets.now + time, TURN | n as u32);
            }
            END if markets.lives(n) && markets.view(n).is_some_and(|view| view.members().count() == 0) => {
                markets.kill(n);
            }
            FREE if markets.lives(n) && markets.owner(markets.member(n)) == Some(n) => {
                markets.offer(n, stock[n]);
                since.insert(n, markets.now);
            }
            SEARCH => {
                markets.call_at(markets.now + every, SEARCH);
                let by = rng.below(nodes as u64) as usize;
                if markets.owner(markets.member(by)) == Some(by) {
                    let capacity = stock[rng.below(nodes as u64) as usize].capacity;
                    let wanted = wanted(capacity, &mut rng);
                    under_way.push((markets.search(by, wanted), by));
                }
                let ended: Vec<_> = under_way
                    .extract_if(.., |(number, by)| {
                        markets.shared.asked[number].end.is_some() || !markets.lives(*by)
                    })
                    .collect();
                for (number, by) in ended {
                    let Some(asked) = markets.shared.asked.remove(&number) else { continue };
                    let Some(end) = asked.end.clone() else {
                        lost += 1;
                        continue;
                    };
                    let first = end.offers.first();
                    let second = first.and_then(|it| two_lowest(&markets, it, &asked, &since));
                    tally.add(&end, end.at.since(asked.at), second);
                    for offer in end.offers.iter().filter(|_| markets.lives(by)).copied().collect::<Vec<_>>()
                    {
                        markets.take(by, offer);
                        if let Some(n) = markets.find(offer.seller.id) {
                            markets.call_at(markets.now + BUSY, FREE | n as u32);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    let alive = markets.in_order(RingId::NODES).len();
    let sold = markets.shared.bought.values().filter(|sold| **sold).count();
    let bought = markets.shared.bought.len();
    watch.say(&format!(
        "{turns} sessions began or ended, {alive} nodes are there; {sold} of {bought} purchases, {lost} \
         buyers died while they searched; {} usurpers",
        markets.shared.doubts.len()
    ));
    let mut owners = BTreeMap::<usize, usize>::new();
    let traded = markets.for_sale();
    for owner in traded.keys().filter_map(|market| markets.market_owner(*market)) {
        *owners.entry(owner).or_default() += 1;
    }
    let requests: u64 = markets.shared.requests.values().sum();
    let busiest = markets.shared.requests.values().max().copied().unwrap_or(0);
    let bytes = (0..nodes).map(|n| markets.nodes[n].above.owner.state().memory()).max();
    let whole = Whole {
        sellers: nodes,
        scheme,
        spread: "wide",
        sessions: format!("{} min", sessions.session.median_min.0),
        markets: traded.len(),
        busiest_share: busiest as f64 / requests.max(1) as f64,
        busiest_markets: owners.values().max().copied().unwrap_or(0),
        owner_bytes: bytes.unwrap_or(0),
    };
    report.rows.push(whole.row(tally, "any"));
    close(&markets, report);
}

/// Takes the node away if it is there, with a word or without; otherwise lets it come, and sell. Gives
/// whether it is there now.
fn turn(markets: &mut Markets, n: usize, polite: f64, goods: &Goods, rng: &mut Rng) -> bool {
    if !markets.lives(n) {
        markets.start(n);
        markets.enter(n);
        markets.offer(n, *goods);
        return true;
    }
    if rng.chance(polite) {
        markets.offer(n, Goods { units: 0, ..*goods });
        let member = markets.member(n);
        markets.command(n, Command::Leave(member));
        for wait in [1, 6] {
            markets.call_at(markets.now + wait * SECOND, END | n as u32);
        }
    } else {
        markets.kill(n);
    }
    false
}
