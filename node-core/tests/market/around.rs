//! A node that looks around sees all markets, and no node is asked while nobody looks.

use crate::market::{SCHEMES, SECOND, SPEED, config, grown, slots, space, unit};
use node_core::circle::{MemberId, RingId};
use node_core::goods::{Kind, Market, Scheme};
use node_core::market::{Message, SHOWN, Summary, ToBuyer, ToOwner};
use node_core::money::Price;
use simulator::market::Markets;
use std::cell::Cell;
use std::collections::BTreeMap;

/// Sellers in seven markets, and somebody who owns none of them.
fn seven(seed: u64, scheme: Scheme) -> (Markets, usize) {
    let mut markets = grown(seed, config(scheme), 40);
    for (n, shift) in [(3, 0), (4, 0), (5, 0), (6, 1), (7, 4), (8, 4), (9, 9)] {
        markets.offer(n, slots(SPEED << shift, 1 + (n % 2) as u16, 100 * n as u64));
    }
    for (n, bytes) in [(3, 1 << 20), (10, 3 << 28), (11, 1 << 30)] {
        markets.offer(n, space(bytes, 50));
    }
    markets.settle_markets(120 * SECOND);
    let owners: Vec<usize> = markets.for_sale().keys().map(|it| markets.market_owner(*it).unwrap()).collect();
    let looker = (12..40).find(|n| !owners.contains(n)).unwrap();
    (markets, looker)
}

/// Looks as the dashboard does, for so long.
fn watch(markets: &mut Markets, n: usize, seconds: u32) {
    for _ in 0..seconds {
        markets.look(n);
        markets.run(SECOND);
    }
}

/// Looks until all kinds were looked through since now.
fn look_through(markets: &mut Markets, n: usize) {
    let begun = markets.now;
    let ended = |markets: &Markets, kind| markets.buyer(n).walked(kind).is_some_and(|it| it.ended > begun);
    while !Kind::ALL.into_iter().all(|kind| ended(markets, kind)) {
        watch(markets, n, 1);
        assert!(markets.now.since(begun) < 300 * SECOND, "a walk ends");
    }
    println!("{:?}: a walk took {:?}", markets.shared.config.scheme, markets.now.since(begun));
}

/// Sellers by market, as they were seen; all of them within the last few seconds.
fn seen(markets: &Markets, n: usize) -> BTreeMap<Market, Summary> {
    markets.buyer(n).seen(markets.now).map(|seen| (seen.market, seen.summary.clone())).collect()
}

fn whole(markets: &Markets, n: usize) -> Vec<bool> {
    Kind::ALL.map(|kind| markets.buyer(n).walked(kind).is_some_and(|walked| walked.whole)).to_vec()
}

fn all_is_seen(markets: &Markets, n: usize) {
    let seen = seen(markets, n);
    let for_sale = markets.for_sale();
    assert!(seen.keys().eq(for_sale.keys()), "{:?}\n{:?}", seen.keys(), for_sale.keys());
    for (market, sellers) in for_sale {
        let summary = &seen[&market];
        let mut right: Vec<_> = sellers
            .iter()
            .map(|n| (markets.nodes[*n].contact.id, markets.sells(*n, market.kind).unwrap()))
            .collect();
        right.sort_by_key(|(id, goods)| (goods.cost, *id));
        assert_eq!(summary.offers, right);
        let units: u32 = right.iter().map(|(_, goods)| u32::from(goods.units)).sum();
        let dearest = right.last().unwrap().1.cost;
        assert_eq!(
            (summary.sellers as usize, summary.units, summary.dearest),
            (sellers.len(), units, dearest)
        );
    }
    assert_eq!(whole(markets, n), [true; 3]);
}

#[test]
fn who_owns_no_market_sees_all_there_are_and_what_was_paid() {
    for scheme in SCHEMES {
        let (mut markets, looker) = seven(1, scheme);
        assert_eq!((seen(&markets, looker).len(), whole(&markets, looker)), (0, vec![false; 3]));
        look_through(&mut markets, looker);
        all_is_seen(&markets, looker);
        let hops = Kind::ALL.map(|kind| markets.buyer(looker).walked(kind).unwrap().hops);
        println!("{scheme:?}: {hops:?} hops to seven markets");

        let found = markets.searched(20, unit(SPEED)).unwrap().offers[0];
        markets.take(20, found);
        markets.run(3 * SECOND);
        // The next walk tells of the sale; a market without sellers is not shown.
        let last = markets.sells(9, Kind::Cycles).unwrap();
        markets.offer(9, node_core::goods::Goods { units: 0, ..last });
        markets.run(2 * SECOND);
        look_through(&mut markets, looker);
        all_is_seen(&markets, looker);
        let summaries = seen(&markets, looker);
        let (price, _) = summaries[&Market::of(Kind::Cycles, SPEED).unwrap()].last.unwrap();
        assert_eq!(price, found.price, "{scheme:?}");
        assert!(!summaries.contains_key(&last.market().unwrap()));
        assert!(markets.faults.is_empty() && markets.shared.doubts.is_empty());
    }
}

#[test]
fn of_a_large_market_the_cheapest_are_shown_and_all_are_counted() {
    let mut markets = grown(2, config(Scheme::Processor), 60);
    (3..58).for_each(|n| markets.offer(n, slots(SPEED, 2, 1000 - n as u64)));
    markets.settle_markets(120 * SECOND);
    look_through(&mut markets, 2);
    let summary = &seen(&markets, 2)[&Market::of(Kind::Cycles, SPEED).unwrap()];
    let costs: Vec<u64> = summary.offers.iter().map(|(_, goods)| goods.cost.0).collect();
    assert_eq!(costs, (1000 - 57..).take(SHOWN).collect::<Vec<u64>>());
    assert_eq!((summary.sellers, summary.units, summary.dearest), (55, 110, Price(997)));
}

thread_local!(static LOOKS: Cell<u64> = const { Cell::new(0) });

fn counts(_: &mut Markets, _: usize, _: usize, message: &Message) -> bool {
    if matches!(message, Message::ToOwner(ToOwner::Look { .. })) {
        LOOKS.with(|looks| looks.set(looks.get() + 1));
    }
    false
}

#[test]
fn nobody_is_asked_while_nobody_looks_and_never_without_end() {
    for scheme in SCHEMES {
        let (mut markets, looker) = seven(3, scheme);
        (0..40).for_each(|n| markets.lies(n, counts));
        let looks = |markets: &mut Markets, seconds: u32| {
            LOOKS.with(|looks| looks.set(0));
            markets.run(seconds * SECOND);
            LOOKS.with(Cell::get)
        };
        assert_eq!(looks(&mut markets, 100), 0);
        markets.look(looker);
        let once = looks(&mut markets, 20);
        assert!((7..=3 * 64 * 3).contains(&once), "{scheme:?}: {once}");
        assert_eq!(looks(&mut markets, 100), 0, "{scheme:?}: it ends soon after the last look");
        // A hundred looks a second cause no more walks.
        for _ in 0..1000 {
            markets.look(looker);
            markets.run(SECOND / 100);
        }
        let often = LOOKS.with(Cell::get);
        println!("{scheme:?}: {once} questions after one look, {often} in ten seconds of looks");
        assert!(often <= 2 * once, "{scheme:?}: {often} within ten seconds, {once} after one look");
    }
}

thread_local!(static TOLD: Cell<u32> = const { Cell::new(0) });

fn hears(_: &mut Markets, _: usize, _: usize, message: &Message) -> bool {
    if let Message::ToBuyer(ToBuyer::Summary { summary: Some(summary), .. }) = message {
        TOLD.with(|told| told.set(summary.sellers));
    }
    false
}

#[test]
fn who_looks_all_the_time_is_told_the_same_for_a_second() {
    let (mut markets, looker) = seven(7, Scheme::Processor);
    let market = Market::of(Kind::Cycles, SPEED).unwrap();
    let owner = markets.market_owner(market).unwrap();
    markets.lies(looker, hears);
    let told = |markets: &mut Markets, wait: u32| {
        let look = ToOwner::Look { ticket: 1, market };
        markets.say_above(looker, owner, Message::ToOwner(look));
        markets.run(SECOND / 1000 * wait);
        TOLD.with(Cell::get)
    };
    assert_eq!(told(&mut markets, 5000), 3);
    // Asked, withdrawn, and asked again before a second is over.
    assert_eq!(told(&mut markets, 400), 3);
    let last = markets.sells(5, Kind::Cycles).unwrap();
    markets.offer(5, node_core::goods::Goods { units: 0, ..last });
    assert_eq!(told(&mut markets, 200), 3);
    assert_eq!(told(&mut markets, 1000), 3);
    assert_eq!(told(&mut markets, 1000), 2);
}

/// The market of [`SPEED`] << 4, which is neither the lowest nor the highest, and its operator.
fn middle(markets: &Markets) -> (Market, usize) {
    let market = Market::of(Kind::Cycles, SPEED << 4).unwrap();
    (market, markets.market_owner(market).unwrap())
}

#[test]
fn a_walk_goes_on_when_an_owner_dies_in_its_midst() {
    for (seed, scheme) in [(4, SCHEMES[0]), (5, SCHEMES[1])] {
        let (mut markets, looker) = seven(seed, scheme);
        let (market, owner) = middle(&markets);
        markets.look(looker);
        markets.kill(owner);
        look_through(&mut markets, looker);
        let first = seen(&markets, looker);
        let top = Market::of(Kind::Cycles, SPEED << 9).unwrap();
        assert!(first.contains_key(&top), "{scheme:?}: what lies above the dead one is seen");
        // In the processor overlay there is no such market until its next owner has joined with it.
        let was_whole = whole(&markets, looker)[0] && scheme == Scheme::Single;
        assert!(!was_whole || first.contains_key(&market), "{scheme:?}: it says whether that is all");
        watch(&mut markets, looker, 60);
        look_through(&mut markets, looker);
        all_is_seen(&markets, looker);
    }
}

/// The answer to each look, of another size than any market has.
fn boasts(markets: &mut Markets, n: usize, from: usize, message: &Message) -> bool {
    let Message::ToOwner(ToOwner::Look { ticket, market }) = message else { return false };
    let offer = (markets.nodes[n].contact.id, slots(market.least(), 1, 7));
    let odd = markets.rng.below(6);
    let mut summary = Summary { sellers: 1, units: 1, dearest: Price(7), last: None, offers: vec![offer] };
    match odd {
        0 => summary.sellers = u32::MAX,
        1 => summary.units = 2,
        2 => summary.offers = vec![offer; 9_000],
        3 => (summary.sellers, summary.units, summary.offers) = (20_001, 20_001, vec![offer; SHOWN]),
        4 => summary.offers[0].1.capacity = 1,
        _ => summary.dearest = Price(6),
    }
    let summary = ToBuyer::Summary { ticket: *ticket, summary: Some(Box::new(summary)), next: market.next() };
    markets.say_above(n, from, Message::ToBuyer(summary));
    true
}

#[test]
fn who_boasts_of_its_market_is_left_out_and_doubted() {
    for scheme in SCHEMES {
        let (mut markets, looker) = seven(6, scheme);
        let (_, owner) = middle(&markets);
        let theirs: Vec<Market> = markets.for_sale().into_keys().collect();
        let theirs: Vec<Market> =
            theirs.into_iter().filter(|market| markets.market_owner(*market) != Some(owner)).collect();
        markets.lies(owner, boasts);
        look_through(&mut markets, looker);
        assert!(seen(&markets, looker).keys().eq(theirs.iter()), "{scheme:?}");
        assert!(!whole(&markets, looker)[0], "{scheme:?}: it says that this is not all");
        let doubted = |by: &(usize, node_core::NodeId, _)| markets.find(by.1) == Some(owner);
        assert!(!markets.shared.doubts.is_empty() && markets.shared.doubts.iter().all(doubted));
    }
}

#[test]
fn an_entrance_that_has_just_begun_does_not_say_that_there_is_nothing() {
    let mut markets = grown(7, config(Scheme::Processor), 30);
    look_through(&mut markets, 2);
    assert_eq!((seen(&markets, 2).len(), whole(&markets, 2)), (0, vec![true; 3]), "nobody sells");
    let point = markets.right(RingId::NODES, Kind::Cycles.entrance()).unwrap();
    let door = markets.owner(MemberId { ring: RingId::NODES, point }).unwrap();
    let looker = (door + 5) % 30;
    markets.kill(door);
    markets.settle(60 * SECOND);
    watch(&mut markets, looker, 10);
    assert!(!whole(&markets, looker)[0], "it has not heard who is there");
    watch(&mut markets, looker, 60);
    assert!(whole(&markets, looker)[0]);
}

/// Nodes that look all the time from the beginning do not hinder the overlay that forms.
#[test]
fn in_a_swarm_that_begins_all_look_and_all_see_all() {
    for seed in 0..12 {
        let scheme = SCHEMES[usize::from(seed % 6 != 0)];
        let mut markets = Markets::with(seed, crate::market::small(), config(scheme));
        let all = 3 + seed as usize % 3;
        for n in 0..all {
            markets.grow(1, 1);
            markets.offer(n, slots(SPEED, 1, 100 + n as u64));
            markets.offer(n, space(1 << 33, 100 + n as u64));
            for _ in 0..4 {
                (0..=n).for_each(|n| markets.look(n));
                markets.run(SECOND);
            }
        }
        let begun = markets.now;
        let sees = |markets: &Markets, n: usize| {
            let seen = seen(markets, n);
            whole(markets, n) == [true; 3]
                && seen.len() == 2
                && seen.values().all(|it| it.sellers as usize == all)
        };
        while !(0..all).all(|n| sees(&markets, n)) {
            (0..all).for_each(|n| markets.look(n));
            markets.run(SECOND);
            if markets.now.since(begun) > 120 * SECOND {
                let state: Vec<_> = (0..all).map(|n| (whole(&markets, n), seen(&markets, n).len())).collect();
                panic!("seed {seed}: {state:?} {:?}", markets.check_markets(true));
            }
        }
        println!(
            "seed {seed}, {scheme:?}: {all} nodes see all {:?} after the last came",
            markets.now.since(begun)
        );
    }
}
