//! Prices on markets drawn at random: who gains by lying, and that nobody pays more than it said.

use node_core::NodeId;
use node_core::goods::{NoDeal, Rule};
use node_core::market::pricing::{Ask, BadCost, Bid, Deal, K, payoff};
use node_core::money::{Micro, Price};
use node_core::protocol::Rng;

const DELTA: Micro = Micro(3);

fn bids(costs: &[u64]) -> Vec<Bid> {
    let id = |n: usize| NodeId(*blake3::hash(&n.to_le_bytes()).as_bytes());
    costs.iter().enumerate().map(|(n, cost)| Bid { seller: id(n), cost: Price(*cost) }).collect()
}

/// One unit of 10^9 fuel, so that prices and amounts are the same numbers.
fn one(most: u64) -> Ask {
    Ask { units: 1, quantity: Price::PER, most: Micro(most), tie: 0 }
}

fn prices(rule: Rule, ask: &Ask, delta: Micro, costs: &[u64]) -> Vec<(usize, u64)> {
    let bids = bids(costs);
    let of = |deal: &Deal| (bids.iter().position(|bid| bid.seller == deal.seller).unwrap(), deal.price.0);
    rule.deals(ask, delta, &bids).unwrap_or_default().iter().map(of).collect()
}

/// Price less cost for the seller when it posts `posts` and its cost is `costs[seller]`; 0 if it sells
/// nothing.
fn gain(ask: &Ask, costs: &[u64], seller: usize, posts: u64) -> i128 {
    let mut posted = costs.to_vec();
    posted[seller] = posts;
    let sold = prices(Rule::ReverseVickrey, ask, DELTA, &posted).into_iter().find(|(id, _)| *id == seller);
    sold.map_or(0, |(_, price)| i128::from(price) - i128::from(costs[seller]))
}

/// A market of up to eight sellers, and a buyer; costs are close, so that ties are common.
fn draw(rng: &mut Rng) -> (Vec<u64>, Ask) {
    let spread = [4, 50, 1_000_000][rng.below(3) as usize];
    let costs: Vec<u64> = (0..=rng.below(8)).map(|_| 1 + rng.below(spread)).collect();
    let most = Micro(1 + rng.below(spread * 2));
    let ask = Ask { units: 1 + rng.below(4) as u32, quantity: Price::PER, most, tie: rng.u64() };
    (costs, ask)
}

/// Below 2^bits, each length alike.
fn any_size(rng: &mut Rng, bits: u64) -> u64 {
    let bits = rng.below(bits);
    rng.below(1 << bits)
}

#[test]
fn the_paper_s_seller_loses_one_by_hiding_its_cost() {
    assert_eq!(gain(&one(100), &[5, 4], 0, 5), 0);
    assert_eq!(gain(&one(100), &[5, 4], 0, 3), -1);
    assert_eq!(prices(Rule::ReverseVickrey, &one(100), DELTA, &[5, 4]), [(1, 5)]);
}

#[test]
fn under_reverse_vickrey_no_seller_gains_by_misreporting() {
    let mut rng = Rng::from_seed([1; 32]);
    for _ in 0..3000 {
        let (costs, ask) = draw(&mut rng);
        for seller in 0..costs.len() {
            let honest = gain(&ask, &costs, seller, costs[seller]);
            assert!(honest >= 0, "{costs:?} {ask:?}: an honest seller lost");
            let near = (costs[seller].saturating_sub(3)..costs[seller] + 4).collect::<Vec<_>>();
            let far = [0, 1, ask.most.0, ask.most.0 + 1, rng.below(2_000_000), u64::MAX];
            let others = costs.iter().flat_map(|cost| [cost.saturating_sub(1), *cost, cost + 1]);
            for lie in near.into_iter().chain(far).chain(others) {
                let lied = gain(&ask, &costs, seller, lie);
                assert!(lied <= honest, "{costs:?} {ask:?}: seller {seller} gains {lied} by posting {lie}");
            }
        }
    }
}

#[test]
fn several_units_at_once_pay_one_price_and_a_sequence_of_sales_would_not_be_truthful() {
    let two = Ask { units: 2, ..one(100) };
    assert_eq!(prices(Rule::ReverseVickrey, &two, DELTA, &[1, 2, 10]), [(0, 10), (1, 10)]);
    // One after the other, the first seller would do better to let the other go first.
    let first = prices(Rule::ReverseVickrey, &one(100), DELTA, &[1, 2, 10]);
    assert_eq!(first, [(0, 2)]);
    let by_lying = prices(Rule::ReverseVickrey, &one(100), DELTA, &[3, 2, 10]);
    assert_eq!(by_lying, [(1, 3)]);
    assert_eq!(prices(Rule::ReverseVickrey, &one(100), DELTA, &[3, 10]), [(0, 10)]);
}

#[test]
fn the_buyer_s_maximum_takes_part_like_one_more_bid() {
    let delta = Micro(3);
    // Alone, or with the second above it; the market operator's fixed share comes off first.
    assert_eq!(prices(Rule::ReverseVickrey, &one(100), delta, &[40]), [(0, 97)]);
    assert_eq!(prices(Rule::ReverseVickrey, &one(100), delta, &[40, 200]), [(0, 97)]);
    assert_eq!(prices(Rule::ReverseVickrey, &one(100), delta, &[40, 60]), [(0, 60)]);
    // Fewer able sellers than asked for are a normal answer.
    assert_eq!(
        prices(Rule::ReverseVickrey, &Ask { units: 3, ..one(100) }, delta, &[40, 60, 98]),
        [(0, 97), (1, 97)]
    );
    let dear = Rule::ReverseVickrey.deals(&one(42), delta, &bids(&[40, 60]));
    assert_eq!(dear, Err(NoDeal::TooDear { least: Micro(43), most: Micro(42) }));
    assert_eq!(Rule::ReverseVickrey.deals(&one(42), delta, &[]), Err(NoDeal::NoSeller));
    let words = dear.unwrap_err().to_string();
    assert_eq!(
        words,
        "the cheapest seller costs up to 0.000043 credits a unit, and at most 0.000042 are offered"
    );
}

#[test]
fn a_node_s_own_second_listing_does_not_lower_its_price() {
    let mut listed = bids(&[5, 5, 9]);
    listed[1].seller = listed[0].seller;
    let deals = Rule::ReverseVickrey.deals(&one(100), DELTA, &listed).unwrap();
    assert_eq!((deals[0].seller, deals[0].price), (listed[0].seller, Price(9)));
}

#[test]
fn all_legs_together_never_cost_more_than_the_buyer_said() {
    let mut rng = Rng::from_seed([2; 32]);
    let mut sold = 0;
    for _ in 0..20_000 {
        let (costs, mut ask) = draw(&mut rng);
        ask.quantity = 1 + any_size(&mut rng, 50);
        ask.most = Micro(any_size(&mut rng, 53));
        let delta = Micro(any_size(&mut rng, 20));
        for rule in [Rule::ReverseVickrey, Rule::MaxMin] {
            for deal in rule.deals(&ask, delta, &bids(&costs)).unwrap_or_default() {
                assert!(deal.cost(ask.quantity).is_some_and(|cost| cost <= ask.most), "{deal:?} {ask:?}");
                assert!(deal.payoff >= delta);
                let cost = bids(&costs).iter().find(|bid| bid.seller == deal.seller).unwrap().cost;
                assert!(deal.price >= cost, "a seller is paid less than its cost");
                sold += 1;
            }
        }
    }
    assert!(sold > 10_000, "few markets dealt: {sold}");
}

#[test]
fn equal_costs_are_decided_by_the_buyer_s_draw_whatever_the_order_of_listing() {
    let mut rng = Rng::from_seed([3; 32]);
    let mut sold = [0; 5];
    for _ in 0..2000 {
        let ask = Ask { tie: rng.u64(), ..one(100) };
        let mut listed = bids(&[7; 5]);
        let deal = Rule::ReverseVickrey.deals(&ask, DELTA, &listed).unwrap()[0];
        let first = listed.iter().position(|bid| bid.seller == deal.seller).unwrap();
        sold[first] += 1;
        listed.rotate_left(rng.below(5) as usize);
        listed.swap(0, 3);
        assert_eq!(Rule::ReverseVickrey.deals(&ask, DELTA, &listed), Ok(vec![deal]));
    }
    assert!(sold.iter().all(|times| *times > 100), "some seller is always late: {sold:?}");
}

/// The market operator's payoff for naming a seller that takes the work: one that is reported at its
/// cost or above.
fn owner_gets(costs: &[u64], seller: usize, reported: u64, highest: u64) -> Option<u64> {
    let served = reported >= costs[seller];
    let paid = payoff(Price(reported), Price(highest), DELTA).ok()?;
    served.then_some(paid.0)
}

#[test]
fn a_commission_makes_the_market_owner_name_the_dearest_and_max_min_the_cheapest() {
    let costs = [100, 200, 300];
    let by_commission = |reported: u64| reported * 10 / 100;
    let named = costs.iter().max_by_key(|cost| by_commission(**cost));
    assert_eq!((named, by_commission(300), by_commission(100)), (Some(&300), 30, 10));
    let by_max_min = |seller: usize| owner_gets(&costs, seller, costs[seller], 300).unwrap();
    assert!(by_max_min(0) > by_max_min(1) && by_max_min(1) > by_max_min(2));
    assert_eq!(prices(Rule::MaxMin, &one(u64::MAX), DELTA, &costs), [(0, 101)]);
}

#[test]
fn under_max_min_the_market_owner_s_best_answer_names_seller_1_at_its_true_cost() {
    let mut rng = Rng::from_seed([4; 32]);
    for _ in 0..3000 {
        let (mut costs, _) = draw(&mut rng);
        costs.sort_unstable();
        let (lowest, highest) = (costs[0], costs[costs.len() - 1]);
        // It may overstate the highest cost: up to twice the lowest that pays, and further it does not.
        let best = owner_gets(&costs, 0, lowest, 2 * lowest).unwrap();
        let true_to_the_market = owner_gets(&costs, 0, lowest, highest).unwrap();
        assert!(best >= true_to_the_market);
        for _ in 0..50 {
            let seller = rng.below(costs.len() as u64) as usize;
            let reported = (costs[seller] + rng.below(20)).saturating_sub(rng.below(20)).max(1);
            let claimed = reported + rng.below(4 * reported);
            let got = owner_gets(&costs, seller, reported, claimed);
            assert!(got.is_none_or(|got| got <= best), "{costs:?}: {seller} at {reported} of {claimed}");
        }
        // Whatever it claims, the buyer's cost is bounded.
        let bound = lowest + 1 + u64::try_from(K / (4 * u128::from(lowest))).unwrap() + DELTA.0;
        assert!(lowest + 1 + best <= bound, "{costs:?}");
        let deal = Rule::MaxMin.deals(&one(Micro::MAX.0), DELTA, &bids(&costs)).unwrap()[0];
        assert_eq!((deal.price.0, deal.payoff.0), (lowest + 1, true_to_the_market));
        assert!(deal.cost(Price::PER).unwrap().0 <= bound);
    }
}

#[test]
fn overstating_the_highest_cost_pays_the_market_owner_up_to_twice_the_lowest() {
    let of = |highest: u64| owner_gets(&[100, 120], 0, 100, highest).unwrap();
    assert!(of(120) < of(150) && of(150) < of(200));
    assert!(of(200) > of(250) && of(250) > of(1000));
    assert_eq!(u128::from(of(200) - DELTA.0), K / 400);
}

#[test]
fn under_max_min_a_seller_may_gain_by_overstating() {
    let earns = |posts: u64| prices(Rule::MaxMin, &one(Micro::MAX.0), DELTA, &[posts, 200])[0];
    assert_eq!(earns(100), (0, 101));
    assert_eq!(earns(199), (0, 200));
    assert_eq!(earns(201), (1, 201), "but not above the next");
}

#[test]
fn zero_costs_one_seller_equal_costs_and_the_largest_numbers_have_an_answer() {
    assert_eq!(payoff(Price(0), Price(5), DELTA), Err(BadCost::Zero));
    assert_eq!(payoff(Price(0), Price(0), DELTA), Err(BadCost::Zero));
    assert_eq!(payoff(Price(6), Price(5), DELTA), Err(BadCost::Contradiction));
    assert_eq!(payoff(Price(7), Price(7), DELTA), Ok(DELTA));
    assert_eq!(payoff(Price(1), Price(2), Micro(0)), Ok(Micro(250_000_000_000)));
    assert_eq!(payoff(Price(1), Price::MAX, Micro(0)), Ok(Micro(0)));
    assert_eq!(payoff(Price(1), Price(u64::MAX), DELTA), Err(BadCost::TooHigh(u64::MAX)));
    assert_eq!(payoff(Price(1), Price(2), Micro(u64::MAX)), Ok(Micro::MAX));
    let of = |costs: &[u64]| prices(Rule::MaxMin, &one(Micro::MAX.0), DELTA, costs);
    assert_eq!(of(&[7]), [(0, 8)]);
    assert_eq!(of(&[0, 9]), [(1, 10)], "what may not be listed is not listed");
    assert_eq!(of(&[u64::MAX]), []);
    assert!(Rule::ReverseVickrey.check(Price(0)).is_ok(), "a gift is a price like another");
}

#[test]
fn the_cheapest_that_cannot_be_afforded_waits_and_nobody_dearer_is_named() {
    // The market operator's share falls faster than the second one's cost rises.
    let costs = [100, 150, 200];
    let most = 200 + 1_700_000_000;
    let dear = Rule::MaxMin.deals(&one(most), Micro(0), &bids(&costs));
    assert_eq!(dear, Err(NoDeal::TooDear { least: Micro(2_500_000_101), most: Micro(most) }));
}
