//! Nodes that say what is not so, each with its outcome.

use crate::market::{SCHEMES, SECOND, SPEED, config, grown, slots, unit};
use node_core::NodeId;
use node_core::goods::{Kind, Market, Scheme};
use node_core::keys::Signed;
use node_core::market::buyer::{BadAnswer, Doubt};
use node_core::market::listing::{BadListing, Guest, Listing};
use node_core::market::pricing::{BadCost, Deal};
use node_core::market::{
    Answer, Copy, Entrance, MarketConfig, Message, Outcome, Prober, Purpose, Query, Sale, Take, ToBuyer,
    ToOwner, ToSeller, Unlisted,
};
use node_core::money::Price;
use simulator::market::Markets;

/// Five sellers of one market; its owner; somebody who sells nothing and owns nothing.
fn five(seed: u64, config: MarketConfig) -> (Markets, usize, usize) {
    let mut markets = grown(seed, config, 24);
    let market = Market::of(Kind::Cycles, SPEED).unwrap();
    let owner = markets.market_owner(market).unwrap();
    let others: Vec<usize> = (0..24).filter(|n| *n != owner).collect();
    for (i, n) in others.iter().take(5).enumerate() {
        markets.offer(*n, slots(SPEED, 1, 100 * (1 + i as u64)));
    }
    markets.settle_markets(120 * SECOND);
    (markets, owner, others[10])
}

fn listing(markets: &Markets, n: usize, cost: u64, number: u64) -> Listing {
    let expires_ms = markets.wall_ms() + 60_000;
    Listing { seller: markets.nodes[n].contact.into(), goods: slots(SPEED, 1, cost), number, expires_ms }
}

/// Sends the listing from `from`: `None` if the market operator lists it, else why it refuses.
fn list(markets: &mut Markets, from: usize, signed: Signed) -> Option<Unlisted> {
    thread_local!(static SAID: std::cell::RefCell<Option<ToSeller>> = const { std::cell::RefCell::new(None) });
    fn hears(_: &mut Markets, _: usize, _: usize, message: &Message) -> bool {
        if let Message::ToSeller(said) = message {
            SAID.with(|last| *last.borrow_mut() = Some(said.clone()));
        }
        true
    }
    markets.lies(from, hears);
    let owner = markets.market_owner(Market::of(Kind::Cycles, SPEED).unwrap()).unwrap();
    SAID.with(|last| *last.borrow_mut() = None);
    markets.say_above(from, owner, Message::ToOwner(ToOwner::List(Box::new(signed))));
    markets.run(3 * SECOND);
    match SAID.with(|last| last.borrow().clone()) {
        Some(ToSeller::Refused { why, .. }) => Some(why),
        Some(ToSeller::Listed { .. }) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_bad_listing_is_refused_with_its_own_reason() {
    let (mut markets, _, stranger) = five(1, config(Scheme::Single));
    let other = (stranger + 1) % 24;
    let secret = markets.secret(stranger).clone();
    let number = markets.wall_ms();
    let good = listing(&markets, stranger, 50, number);
    let sign = |change: &dyn Fn(&mut Listing)| {
        let mut listing = good;
        change(&mut listing);
        listing.sign(&secret)
    };
    let bad = |why| Some(Unlisted::Bad(why));
    let forged = Signed { by: markets.nodes[other].contact.id, ..good.sign(&secret) };
    let cases: [(Signed, Option<Unlisted>); 8] = [
        (forged, bad(BadListing::Forged)),
        (sign(&|it| it.goods.cost = Price(u64::MAX)), bad(BadListing::Cost(BadCost::TooHigh(u64::MAX)))),
        (sign(&|it| it.goods.capacity = 0), bad(BadListing::Capacity)),
        (sign(&|it| it.goods.units = 0), bad(BadListing::Nothing)),
        (sign(&|it| it.expires_ms = 1), bad(BadListing::Expired)),
        (sign(&|it| it.expires_ms += 1 << 40), bad(BadListing::TooFar)),
        (listing(&markets, other, 50, number).sign(&markets.secret(other).clone()), Some(Unlisted::NotYours)),
        (good.sign(&secret), None),
    ];
    for (i, (signed, outcome)) in cases.into_iter().enumerate() {
        assert_eq!(list(&mut markets, stranger, signed), outcome, "case {i}");
    }
    // Replayed, or older.
    assert_eq!(list(&mut markets, stranger, good.sign(&secret)), Some(Unlisted::Old));
    assert_eq!(list(&mut markets, stranger, sign(&|it| it.number -= 1)), Some(Unlisted::Old));
    assert_eq!(list(&mut markets, stranger, sign(&|it| it.number += 1)), None);
    assert_eq!(
        list(&mut markets, stranger, sign(&|it| it.goods.capacity = 1 << 40)),
        Some(Unlisted::NotMine)
    );
}

#[test]
fn in_a_full_market_the_dearest_gives_way_to_a_cheaper_one() {
    let (mut markets, _, stranger) = five(2, MarketConfig { sellers: 5, ..config(Scheme::Single) });
    let number = markets.wall_ms();
    let secret = markets.secret(stranger).clone();
    let dear = listing(&markets, stranger, 501, number).sign(&secret);
    assert_eq!(list(&mut markets, stranger, dear), Some(Unlisted::Full));
    let cheap = listing(&markets, stranger, 499, number + 1).sign(&secret);
    assert_eq!(list(&mut markets, stranger, cheap), None);
}

/// The market operator's answer, made up; `how` changes what sellers truly signed.
fn answers(markets: &mut Markets, liar: usize, buyer: usize, query: &Query, how: fn(&mut Sale)) {
    let costs = [100u64, 200, 300, 400, 500];
    let sellers: Vec<usize> = (0..24).filter(|n| *n != liar).take(5).collect();
    let sign = |at: usize| {
        let n = sellers[at];
        let (_, number) = markets.nodes[n].above.seller.state().sells(Kind::Cycles).unwrap();
        listing(markets, n, costs[at], number).sign(markets.secret(n))
    };
    let deal = Deal {
        seller: markets.nodes[sellers[0]].contact.id,
        price: Price(200),
        payoff: markets.shared.config.delta,
    };
    let mut sale =
        Sale { winners: vec![sign(0)], second: Some(sign(1)), highest: Price(500), deals: vec![deal] };
    // Where another is to be named, what that one signed lies ready.
    let spare = sign(2);
    sale.winners.push(spare);
    how(&mut sale);
    sale.winners.truncate(1);
    let what = Outcome::Sale(sale);
    let answer = Answer { ticket: query.ticket, market: query.market, what, next: None };
    markets.say_above(liar, buyer, Message::ToBuyer(ToBuyer::Answer(Box::new(answer))));
}

macro_rules! lie {
    ($how:expr) => {
        |markets: &mut Markets, liar, from, message: &Message| match message {
            Message::ToOwner(ToOwner::Query(query)) if query.purpose == Purpose::Sale => {
                answers(markets, liar, from, query, $how);
                true
            }
            _ => false,
        }
    };
}

#[test]
fn an_answer_that_is_not_what_the_rule_gives_is_no_offer_and_lowers_the_score() {
    let lies: [(simulator::market::Lie, Option<BadAnswer>); 7] = [
        (lie!(|_| {}), None),
        // Another price; the third in place of the first; a price without the one whose it is.
        (lie!(|sale| sale.deals[0].price = Price(201)), Some(BadAnswer::Price)),
        (lie!(|sale| sale.deals[0].payoff.0 += 1), Some(BadAnswer::Price)),
        (
            lie!(|sale| {
                sale.winners.swap(0, 1);
                let third = sale.winners[0].by;
                sale.deals[0].seller = third;
            }),
            Some(BadAnswer::Price),
        ),
        (lie!(|sale| sale.second = None), Some(BadAnswer::Price)),
        (
            lie!(|sale| {
                let mut body = sale.winners[0].body.to_vec();
                let last = body.len() - 1;
                body[last] ^= 1;
                sale.winners[0].body = body.into();
            }),
            Some(BadAnswer::Listing(BadListing::Forged)),
        ),
        (
            lie!(|sale| {
                let twice = sale.deals[0];
                sale.deals.push(twice);
            }),
            Some(BadAnswer::Units),
        ),
    ];
    for scheme in SCHEMES {
        for (i, (lie, wrong)) in lies.iter().enumerate() {
            let (mut markets, owner, buyer) = five(3, MarketConfig { samples: 0, ..config(scheme) });
            markets.lies(owner, *lie);
            let end = markets.searched(buyer, unit(SPEED)).unwrap();
            let who = markets.nodes[owner].contact.id;
            match wrong {
                None => {
                    assert_eq!((end.offers.len(), markets.shared.doubts.len()), (1, 0), "the frame is sound")
                }
                Some(wrong) => {
                    let [(_, blamed, Doubt::Wrong(said))] = &markets.shared.doubts[..] else {
                        panic!("lie {i}: {:?}", markets.shared.doubts)
                    };
                    assert!(said == wrong && *blamed == who && end.offers.is_empty(), "lie {i}: {said}");
                }
            }
        }
    }
}

#[test]
fn a_market_owner_that_hides_the_cheapest_is_found_out_by_the_copies() {
    for scheme in SCHEMES {
        let (mut markets, owner, buyer) = five(4, MarketConfig { samples: 1000, ..config(scheme) });
        markets.run(20 * SECOND);
        // The sale follows the rule and is signed; but it leaves out the cheapest seller.
        markets.lies(
            owner,
            lie!(|sale| {
                sale.winners.remove(0);
                sale.winners.extend(sale.second.take());
                sale.winners.swap(0, 1);
                sale.second = sale.winners.pop();
                sale.deals[0].seller = sale.winners[0].by;
                sale.deals[0].price = Price(300);
            }),
        );
        let cheapest = (0..24).find(|n| *n != owner).unwrap();
        let (blamed, id) = (markets.nodes[owner].contact.id, markets.nodes[cheapest].contact.id);
        let end = markets.searched(buyer, unit(SPEED)).unwrap();
        assert_eq!((end.offers.len(), end.offers[0].price), (1, Price(300)), "{scheme:?}");
        // The seller is asked twice, and between the two a broken connection would show.
        markets.run(40 * SECOND);
        let omitted = Doubt::Omitted { seller: id, cost: Price(100) };
        assert_eq!(markets.shared.doubts, [(buyer, blamed, omitted)], "{scheme:?}");
    }
}

/// The seller does not hear what the owner of its market asks, since their connection breaks.
fn loses_the_probe(markets: &mut Markets, n: usize, at: usize, message: &Message) -> bool {
    let market = Market::of(Kind::Cycles, SPEED).unwrap();
    let probe = matches!(message, Message::ToSeller(ToSeller::Probe { by: Prober::Owner, .. }));
    let lost = probe && markets.owner_view(at).owns(market);
    if lost {
        markets.lies(n, |_, _, _, _| false);
        markets.cut_link(n, at);
    }
    lost
}

#[test]
fn an_owner_that_purges_whom_it_cannot_ask_is_not_blamed_and_lists_it_again() {
    for (seed, scheme) in [(8, SCHEMES[0]), (9, SCHEMES[1]), (10, SCHEMES[0]), (11, SCHEMES[1])] {
        let (mut markets, owner, buyer) = five(seed, MarketConfig { samples: 1000, ..config(scheme) });
        markets.run(20 * SECOND);
        let cheapest = (0..24).find(|n| *n != owner).unwrap();
        markets.lies(cheapest, loses_the_probe);
        let end = markets.searched(buyer, unit(SPEED)).unwrap();
        assert_eq!(
            (end.offers.len(), end.offers[0].price),
            (1, Price(300)),
            "{scheme:?}: the cheapest is gone"
        );
        markets.run(15 * SECOND);
        let end = markets.searched(buyer, unit(SPEED)).unwrap();
        assert_eq!(
            markets.find(end.offers[0].seller.id),
            Some(cheapest),
            "{scheme:?}: it does not wait a minute"
        );
        markets.run(40 * SECOND);
        assert_eq!(markets.shared.doubts, [], "{scheme:?}");
    }
}

#[test]
fn nobody_is_blamed_among_the_honest() {
    for scheme in SCHEMES {
        let (mut markets, _, _) = five(5, MarketConfig { samples: 1000, ..config(scheme) });
        for round in 0..40 {
            let by = 6 + round % 18;
            if markets.rng.chance(0.2) {
                let n = markets.rng.below(5) as usize;
                let cost = 100 + markets.rng.below(400);
                markets.offer(n, slots(SPEED, 1, cost));
            }
            let number = markets.search(by, unit(SPEED));
            let pause = markets.rng.below(6000);
            markets.run(std::time::Duration::from_millis(pause));
            let offer =
                markets.shared.asked[&number].end.as_ref().and_then(|end| end.offers.first().copied());
            if let Some(offer) = offer
                && markets.rng.chance(0.3)
            {
                markets.take(by, offer);
            }
        }
        markets.run(60 * SECOND);
        assert_eq!((&markets.shared.doubts[..], &markets.faults[..]), (&[][..], &[][..]), "{scheme:?}");
        assert_eq!(markets.check_markets(false), Vec::<String>::new());
    }
}

#[test]
fn a_slot_is_sold_once_whatever_is_said_to_its_seller() {
    let (mut markets, owner, stranger) = five(6, config(Scheme::Processor));
    let seller = (0..24).find(|n| *n != owner).unwrap();
    let (_, number) = markets.nodes[seller].above.seller.state().sells(Kind::Cycles).unwrap();
    let take = Take {
        ticket: 7,
        kind: Kind::Cycles,
        number,
        units: 1,
        capacity: SPEED,
        price: Price(100),
        receipt: None,
    };
    let cases = [
        Take { number: number + 1, ..take.clone() },
        Take { number: 0, ..take.clone() },
        Take { units: 0, ..take.clone() },
        Take { units: 2, ..take.clone() },
        Take { capacity: SPEED + 1, ..take.clone() },
        Take { price: Price(99), ..take.clone() },
        Take { kind: Kind::Files, ..take.clone() },
    ];
    for bad in cases {
        markets.say_above(stranger, seller, Message::ToSeller(ToSeller::Take(Box::new(bad))));
    }
    markets.run(3 * SECOND);
    assert_eq!(markets.sells(seller, Kind::Cycles).map(|goods| goods.units), Some(1), "none of these buys");
    for by in [stranger, stranger, (stranger + 1) % 24] {
        markets.say_above(by, seller, Message::ToSeller(ToSeller::Take(Box::new(take.clone()))));
    }
    markets.run(3 * SECOND);
    let (_, sold) = markets.shared.stock[&(seller, Kind::Cycles)];
    assert_eq!((sold, markets.sells(seller, Kind::Cycles)), (1, None));
    assert_eq!(markets.check_markets(false), Vec::<String>::new());
}

/// Some message that a stranger has no right to send, or that makes no sense.
fn nonsense(markets: &mut Markets, liar: usize, at: usize) -> Message {
    let me = markets.nodes[liar].contact;
    let index = markets.rng.below(80) as u8;
    let market = Market { kind: Kind::ALL[markets.rng.below(3) as usize], index };
    let number = markets.rng.u64();
    let goods = slots(markets.rng.u64() >> 20, markets.rng.below(3) as u16, markets.rng.u64());
    let entry = |id: u8| node_core::market::Entry {
        seller: node_core::address::Contact { id: NodeId([id; 32]), ..me },
        units: goods.units,
        minutes: 9,
        engine: goods.engine,
        proven: true,
        memory_mib: 1,
        until: u32::MAX,
        capacity: goods.capacity,
        cost: goods.cost,
        number,
    };
    let wanted = node_core::goods::Wanted { units: markets.rng.below(300) as u16, ..unit(number) };
    let names = vec![me; markets.rng.below(500) as usize];
    let signed = listing(markets, at, 5, number).sign(markets.secret(liar));
    let alive = node_core::market::Alive {
        ticket: number,
        listing: Some(signed.clone()),
        listed: None,
        probed: vec![],
    };
    let entrance = [Entrance::Elsewhere, Entrance::Listening, Entrance::Open][number as usize % 3];
    match markets.rng.below(13) {
        0 => Message::ToOwner(ToOwner::List(Box::new(signed))),
        1 => Message::ToOwner(ToOwner::Withdraw { market, number }),
        2 => Message::ToOwner(ToOwner::Alive(Box::new(alive))),
        3 => Message::ToOwner(ToOwner::Query(Box::new(Query {
            ticket: number,
            market,
            wanted,
            purpose: [Purpose::Costs, Purpose::Sale, Purpose::Second, Purpose::Copy][index as usize % 4],
        }))),
        4 => Message::ToOwner(ToOwner::Copy(Box::new(Copy {
            market,
            whole: index < 9,
            entries: (0..index).map(entry).collect(),
            gone: vec![me.id],
            guests: vec![(NodeId([1; 32]), Guest { relay: me.id, channels: index.is_multiple_of(2) })],
        }))),
        5 => Message::ToOwner(ToOwner::Compare { market, count: index.into(), digest: number }),
        6 => Message::ToOwner(ToOwner::Here { kind: market.kind, me, markets: 0, wants: true }),
        7 => Message::ToOwner(ToOwner::Others {
            kind: market.kind,
            at: names,
            lowest: Some(market),
            entrance,
            first: true,
        }),
        8 => Message::ToSeller(ToSeller::Refused { kind: market.kind, number, why: Unlisted::NotMine }),
        9 => Message::ToBuyer(ToBuyer::Entry { ticket: number, at: names, entrance }),
        10 => Message::ToBuyer(ToBuyer::Taken { ticket: number }),
        11 => Message::ToBuyer(ToBuyer::Alive(Box::new(alive))),
        _ => Message::ToOwner(ToOwner::Enter { kind: market.kind, ticket: number }),
    }
}

#[test]
fn a_stranger_that_floods_everybody_fills_nothing_and_sells_nothing() {
    for scheme in SCHEMES {
        let (mut markets, owner, buyer) = five(7, config(scheme));
        let stranger = markets.place();
        for _ in 0..5_000 {
            let at = markets.rng.below(24) as usize;
            let message = nonsense(&mut markets, stranger, at);
            markets.say_above(stranger, at, message);
            if markets.rng.chance(0.01) {
                markets.run(SECOND / 10);
            }
        }
        markets.kill(stranger);
        let end = markets.searched(buyer, unit(SPEED)).unwrap();
        let cheapest = (0..24).find(|n| *n != owner).unwrap();
        assert_eq!(markets.find(end.offers[0].seller.id), Some(cheapest), "{scheme:?}");
        markets.run(400 * SECOND);
        let most = (0..24).map(|n| markets.nodes[n].above.owner.state().memory()).max().unwrap();
        assert!(most < 64 * 1024, "{scheme:?}: {most} bytes");
        markets.settle_markets(60 * SECOND);
    }
}
