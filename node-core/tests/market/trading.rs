//! Markets in which nobody fails or lies.

use crate::market::{SCHEMES, SECOND, SPEED, config, grown, slots, space, unit};
use node_core::goods::Wanted;
use node_core::goods::{Kind, Market, Scheme};
use node_core::goods::{NoDeal, Rule};
use node_core::market::MarketConfig;
use node_core::money::{Micro, Price};

#[test]
fn the_cheapest_sells_at_the_second_price() {
    for scheme in SCHEMES {
        let mut markets = grown(1, config(scheme), 30);
        for (n, cost) in [(3, 500), (4, 300), (5, 400), (6, 900)] {
            markets.offer(n, slots(SPEED, 1, cost));
        }
        let took = markets.settle_markets(120 * SECOND);
        println!("{scheme:?}: at rest after {took:?}");
        let end = markets.searched(20, unit(SPEED)).unwrap();
        let [offer] = &end.offers[..] else { panic!("{end:?}") };
        assert_eq!((markets.find(offer.seller.id), offer.price, end.shortage), (Some(4), Price(400), None));
        assert_eq!(offer.payoff, config(scheme).delta);
        assert!(markets.shared.doubts.is_empty() && markets.faults.is_empty(), "{:?}", markets.faults);
    }
}

#[test]
fn several_units_at_once_have_one_price_and_a_slot_is_a_unit() {
    for scheme in SCHEMES {
        let mut markets = grown(2, config(scheme), 20);
        for (n, units, cost) in [(3, 2, 500), (4, 3, 300), (5, 1, 700)] {
            markets.offer(n, slots(SPEED, units, cost));
        }
        markets.settle_markets(120 * SECOND);
        let end = markets.searched(9, Wanted { units: 4, ..unit(SPEED) }).unwrap();
        let sellers: Vec<_> = end.offers.iter().map(|offer| markets.find(offer.seller.id).unwrap()).collect();
        assert_eq!(sellers, [4, 4, 4, 3]);
        assert!(end.offers.iter().all(|offer| offer.price == Price(700)), "{end:?}");
    }
}

#[test]
fn a_seller_that_is_too_slow_is_not_asked_and_nothing_is_above_the_top() {
    for scheme in SCHEMES {
        let mut markets = grown(3, config(scheme), 40);
        for (n, capacity, cost) in [(3, SPEED, 500), (4, 4 * SPEED, 600), (5, 30 * SPEED, 700)] {
            markets.offer(n, slots(capacity, 1, cost));
        }
        markets.settle_markets(120 * SECOND);
        for (capacity, seller) in [(1, 3), (SPEED, 3), (SPEED + 1, 4), (4 * SPEED + 1, 5), (30 * SPEED, 5)] {
            let end = markets.searched(20, unit(capacity)).unwrap();
            let found = end.offers.first().and_then(|offer| markets.find(offer.seller.id));
            assert_eq!(found, Some(seller), "{scheme:?}, {capacity}: {end:?}");
            markets.run(20 * SECOND);
        }
        // The ring must not begin again at the lowest.
        let end = markets.searched(20, unit(30 * SPEED + 1)).unwrap();
        assert_eq!((end.offers.len(), end.shortage), (0, Some(NoDeal::NoSeller)), "{scheme:?}");
        let end = markets.searched(20, Wanted { units: 9, ..unit(1) }).unwrap();
        assert_eq!((end.offers.len(), end.shortage), (3, Some(NoDeal::NoSeller)), "upward until the top");
    }
}

#[test]
fn who_has_not_what_a_unit_needs_is_passed_over() {
    let mut markets = grown(4, config(Scheme::Processor), 12);
    markets.offer(3, slots(SPEED, 1, 10));
    markets.offer(4, slots(SPEED, 1, 500));
    markets.settle_markets(120 * SECOND);
    let ask = |markets: &mut simulator::market::Markets, wanted| {
        let end = markets.searched(7, wanted).unwrap();
        markets.run(15 * SECOND);
        (end.offers.first().and_then(|offer| markets.find(offer.seller.id)), end.shortage)
    };
    assert_eq!(ask(&mut markets, Wanted { minutes: 61, ..unit(SPEED) }), (None, Some(NoDeal::NoSeller)));
    assert_eq!(ask(&mut markets, Wanted { memory_mib: 1025, ..unit(SPEED) }), (None, Some(NoDeal::NoSeller)));
    let browser = Some(node_core::Platform::Browser);
    assert_eq!(ask(&mut markets, Wanted { engine: browser, ..unit(SPEED) }), (None, Some(NoDeal::NoSeller)));
    assert_eq!(ask(&mut markets, Wanted { minutes: 60, memory_mib: 1024, ..unit(SPEED) }), (Some(3), None));
    let (found, shortage) = ask(&mut markets, Wanted { most: Micro(1010), ..unit(SPEED) });
    let least = Micro(10 * 10 + 1000);
    assert_eq!((found, shortage), (None, Some(NoDeal::TooDear { least, most: Micro(1010) })));
}

#[test]
fn what_was_sold_is_gone_and_the_rest_is_listed_again() {
    for scheme in SCHEMES {
        let mut markets = grown(5, config(scheme), 20);
        markets.offer(3, slots(SPEED, 2, 100));
        markets.offer(4, space(1 << 30, 100));
        markets.settle_markets(120 * SECOND);
        let offer = markets.searched(8, unit(SPEED)).unwrap().offers[0];
        let first = markets.take(8, offer);
        markets.run(3 * SECOND);
        assert_eq!(
            (markets.shared.bought[&first], markets.sells(3, Kind::Cycles).map(|g| g.units)),
            (true, Some(1))
        );
        let last = markets.take(9, offer);
        markets.run(3 * SECOND);
        let none = markets.take(10, offer);
        markets.run(3 * SECOND);
        assert_eq!((markets.shared.bought[&last], markets.shared.bought[&none]), (true, false));
        assert_eq!(markets.sells(3, Kind::Cycles), None);
        // Space is divided: the rest lies in another market.
        let files = Wanted { kind: Kind::Files, ..unit(3 << 28) };
        let offer = markets.searched(8, files).unwrap().offers[0];
        markets.take(8, offer);
        markets.run(5 * SECOND);
        markets.settle_markets(60 * SECOND);
        let left = markets.sells(4, Kind::Files).unwrap();
        assert_eq!(left.capacity, 1 << 28);
        assert_ne!(left.market(), space(1 << 30, 100).market());
        let again = markets.take(9, offer);
        markets.run(3 * SECOND);
        assert!(!markets.shared.bought[&again], "it is another listing now");
    }
}

/// Sellers differ in speed, so that each stands in a market of its own. A faster one can do what a slower
/// one can.
#[test]
fn the_cheapest_of_all_markets_sells_at_the_second_price_of_all() {
    for scheme in SCHEMES {
        let mut markets = grown(11, config(scheme), 20);
        for (n, speed, units, cost) in [(3, 1, 1, 700), (4, 4, 1, 300), (5, 30, 2, 500)] {
            markets.offer(n, slots(speed * SPEED, units, cost));
        }
        markets.settle_markets(120 * SECOND);
        let mut ask = |units, speed| {
            let end = markets.searched(9, Wanted { units, ..unit(speed) }).unwrap();
            markets.run(20 * SECOND);
            let offers = end.offers.iter();
            let named = offers.map(|it| (markets.find(it.seller.id).unwrap(), it.price.0)).collect();
            (named, end.shortage)
        };
        assert_eq!(ask(1, 1), (vec![(4, 500)], None), "{scheme:?}: the slowest is the dearest");
        assert_eq!(ask(2, SPEED), (vec![(4, 700), (5, 700)], None), "{scheme:?}");
        assert_eq!(ask(3, SPEED), (vec![(4, 700), (5, 700), (5, 700)], None), "{scheme:?}");
        assert_eq!(ask(1, SPEED + 1), (vec![(4, 500)], None), "{scheme:?}: the slowest is too slow");
        let most = unit(SPEED).most.minus(config(scheme).delta).unwrap();
        let alone = Price::within(most, unit(SPEED).quantity).0;
        assert_eq!(ask(1, 4 * SPEED + 1), (vec![(5, alone)], None), "{scheme:?}: alone in all markets");
        let (named, shortage) = ask(9, 1);
        assert_eq!((named.len(), shortage), (4, Some(NoDeal::NoSeller)), "{scheme:?}");
        assert!(named.iter().all(|(_, price)| *price == alone), "{scheme:?}: {named:?}");
    }
}

/// How much is left differs, so nearly each stands in a market of its own.
#[test]
fn who_has_much_space_left_competes_with_who_has_little() {
    for scheme in SCHEMES {
        let mut markets = grown(10, config(scheme), 20);
        for (n, shift, cost) in [(3, 28, 100), (4, 29, 300), (5, 30, 200), (6, 31, 400)] {
            markets.offer(n, space(1 << shift, cost));
        }
        // The buyer sells, too, and is not in its own way.
        markets.offer(9, space(1 << 28, 50));
        markets.settle_markets(120 * SECOND);
        let wanted = Wanted { kind: Kind::Files, quantity: 1_000_000_000, ..unit(1 << 27) };
        let mut ask = |units, capacity| {
            let end = markets.searched(9, Wanted { units, capacity, ..wanted }).unwrap();
            markets.run(20 * SECOND);
            let named =
                end.offers.iter().map(|it| (markets.find(it.seller.id).unwrap(), it.price.0)).collect();
            (named, end.shortage)
        };
        assert_eq!(ask(1, 1 << 27), (vec![(3, 200)], None), "{scheme:?}: all markets were asked");
        assert_eq!(ask(2, 1 << 27), (vec![(3, 300), (5, 300)], None), "{scheme:?}");
        assert_eq!(ask(1, 1 << 29), (vec![(5, 300)], None), "{scheme:?}: who has not enough is not asked");
        let most = Micro(1_000_000).minus(config(scheme).delta).unwrap().0;
        assert_eq!(ask(1, 1 << 31), (vec![(6, most)], None), "{scheme:?}: alone");
        let (named, shortage) = ask(5, 1 << 27);
        assert_eq!((named.len(), shortage), (4, Some(NoDeal::NoSeller)), "{scheme:?}");
        assert!(named.iter().all(|(_, price)| *price == most));
    }
}

/// Served in order: who asks first has the cheapest, though both ask before it is sold.
#[test]
fn two_buyers_at_once_are_not_sent_to_the_same_slot() {
    for scheme in SCHEMES {
        let mut markets = grown(6, config(scheme), 20);
        (3..9).for_each(|n| markets.offer(n, slots(SPEED, 1, 100 + n as u64)));
        markets.settle_markets(120 * SECOND);
        let numbers: Vec<u64> = (10..15).map(|n| markets.search(n, unit(SPEED))).collect();
        markets.run(10 * SECOND);
        let end = |number: &u64| markets.shared.asked[number].end.clone().unwrap().offers[0];
        let mut sellers: Vec<_> = numbers.iter().map(|number| end(number).seller.id).collect();
        sellers.sort_unstable();
        sellers.dedup();
        assert_eq!(sellers.len(), 5, "{scheme:?}");
    }
}

#[test]
fn an_empty_market_leaves_and_comes_back_with_its_first_seller() {
    let mut markets = grown(7, config(Scheme::Processor), 20);
    for (n, capacity) in [(3, SPEED), (4, 2 * SPEED), (5, 9 * SPEED)] {
        markets.offer(n, slots(capacity, 1, 100));
    }
    markets.settle_markets(120 * SECOND);
    let gone = slots(2 * SPEED, 0, 100);
    markets.offer(4, gone);
    markets.settle_markets(60 * SECOND);
    let market = Market::of(Kind::Cycles, 2 * SPEED).unwrap();
    assert_eq!(markets.owner(market.member()), None, "no member of the overlay stands there");
    let end = markets.searched(9, unit(2 * SPEED)).unwrap();
    assert_eq!(markets.find(end.offers[0].seller.id), Some(5));
    markets.offer(4, slots(2 * SPEED, 1, 100));
    markets.settle_markets(60 * SECOND);
    assert!(markets.owner(market.member()).is_some());
}

/// Five markets, all of which are asked: a lookup names them, and two of them sell or set the price. In the
/// single overlay each part of the range between them is looked up.
#[test]
fn a_search_costs_a_lookup_and_a_question_to_each_market() {
    for (scheme, most) in SCHEMES.into_iter().zip([100, 14]) {
        let mut markets = grown(8, config(scheme), 60);
        (3..20).for_each(|n| markets.offer(n, slots(SPEED << (n % 5), 1, 100)));
        markets.settle_markets(120 * SECOND);
        let first = markets.searched(30, unit(SPEED)).unwrap();
        markets.run(15 * SECOND);
        let again = markets.searched(30, unit(SPEED)).unwrap();
        println!("{scheme:?}: {} hops at first, then {}", first.hops, again.hops);
        assert!(first.hops > 5 && first.hops <= 3 * most && again.hops <= most, "{scheme:?}");
    }
}

#[test]
fn under_max_min_the_seller_gets_its_cost_and_one() {
    let config = MarketConfig { rule: Rule::MaxMin, ..config(Scheme::Processor) };
    let mut markets = grown(9, config.clone(), 15);
    for (n, cost) in [(3, 100), (4, 200), (5, 300)] {
        markets.offer(n, slots(SPEED, 1, cost));
    }
    markets.offer(6, slots(SPEED, 1, 0));
    markets.run(60 * SECOND);
    assert!(markets.shared.refusals.iter().all(|(n, _)| *n == 6) && !markets.shared.refusals.is_empty());
    let wanted = Wanted { most: Micro(1 << 40), ..unit(SPEED) };
    let end = markets.searched(9, wanted).unwrap();
    let offer = end.offers[0];
    let payoff = node_core::market::pricing::payoff(Price(100), Price(300), config.delta).unwrap();
    assert_eq!((markets.find(offer.seller.id), offer.price, offer.payoff), (Some(3), Price(101), payoff));
}
