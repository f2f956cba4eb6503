//! Guests: nodes that nobody can dial sell by way of the gateway that they have dialled.

use crate::cheapest::support::*;
use node_core::goods::{Kind, Market, Wanted};
use node_core::market::Message as OfMarket;
use node_core::market::ToOwner;
use node_core::money::Micro;
use node_core::node::message::Message;
use node_core::overlay::guests::{self, ToGuest, ToRelay};
use node_core::platform::Platform;
use node_core::trust::policy::Policy;
use node_core::work::spec::Find;
use node_core::{Channel, Command, Config, JobId, NodeEvent, NodeInput};
use simulator::World;
use std::sync::Arc;
use std::time::Duration;

/// A page that gives a slot, at the gateway `host`.
pub(crate) fn guest(world: &mut World, host: usize, cost: u64) -> usize {
    let at = world.nodes.len();
    let page = Config { port: None, platform: Platform::Browser, bank: None, ..config(at, false, false) };
    assert_eq!(world.add_keyed(page, &secret(at)), at);
    world.connect(at, host);
    sell(world, at, cost);
    at
}

/// Gateway and bank, natives that sell at 2000, 4000 and so on, and a page for each of these costs.
fn swarm_with(seed: u64, natives: usize, costs: &[u64]) -> (World, Vec<usize>) {
    let mut world = World::seed(seed).with(long);
    world.add_keyed(config(0, true, true), &secret(0));
    for at in 1..=natives {
        world.add_keyed(config(at, false, false), &secret(at));
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    (1..=natives).for_each(|at| sell(&mut world, at, 2000 * at as u64));
    let guests = costs.iter().map(|cost| guest(&mut world, 0, *cost)).collect();
    world.run_for(A_MINUTE);
    (world, guests)
}

fn price(of: u64) -> u64 {
    of * FUEL / 1_000_000_000
}

/// The node's balance without its fees for naming sellers, micro-credits.
fn wages(world: &mut World, at: usize) -> u64 {
    balance(world, at) - fees(world, at)
}

fn runners(world: &World, job: JobId) -> Vec<usize> {
    let results = world.results(job);
    let mut all: Vec<usize> =
        results.values().map(|result| world.find(result.runner).expect("one of them")).collect();
    all.sort_unstable();
    all
}

/// The balance that the page last showed its donor, micro-credits; `None` before the first.
fn shown(world: &World, at: usize) -> Option<u64> {
    world.told.iter().rev().find_map(|(_, by, event)| match event {
        NodeEvent::Balance(balance) if *by == at => Some(balance.0),
        _ => None,
    })
}

#[test]
fn pages_sell_beside_servers_and_the_cheapest_of_both_are_paid_by_the_rule() {
    for seed in 0..5 {
        let (mut world, pages) = swarm_with(seed, 3, &[1000, 3000]);
        endow(&mut world, 0, 10 * CREDIT);
        let job = job(&mut world, 0, 3, CREDIT);
        world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
        world.assert_all_right(job, 3);
        assert_settled(&mut world, 0);
        assert_eq!(runners(&world, job), [1, pages[0], pages[1]], "seed {seed}");
        // All sell at the cost of the fourth, a server.
        for at in [pages[0], pages[1]] {
            assert_eq!(balance(&world, at), price(4000), "seed {seed}: {at}");
        }
        assert_eq!(wages(&mut world, 1), price(4000));
        world.drive(pages[0], NodeInput::Command(Command::Balance));
        world.run_for(Duration::from_secs(5));
        assert_eq!(shown(&world, pages[0]), Some(price(4000)), "and the page can show it");
        assert!((0..4).all(|at| world.faults(at).is_empty()), "{:?}", world.faults(0));
    }
}

/// It can dial the operators of markets itself, and they reach it through its relay.
#[test]
fn a_server_that_nobody_can_dial_sells_by_its_relay_and_asks_markets_itself() {
    for seed in 60..63 {
        let (mut world, _) = swarm_with(seed, 3, &[]);
        let walled = world.nodes.len();
        world.add_keyed(config(walled, false, false), &secret(walled));
        world.nodes[walled].unreachable = true;
        world.connect(walled, 0);
        sell(&mut world, walled, 1000);
        let by_relay = |world: &World| world.node(walled).relay() == Some(id(world, 0));
        world.run_until(A_MINUTE * 3, "it has a relay", by_relay);
        world.run_until(A_MINUTE, "it is listed", |w| w.node(walled).is_listed());
        endow(&mut world, 0, 10 * CREDIT);
        let first = job(&mut world, 0, 1, CREDIT);
        world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(first));
        assert_settled(&mut world, 0);
        assert_eq!((runners(&world, first), wages(&mut world, walled)), (vec![walled], price(2000)));
        // It asks markets itself: it can dial whom it likes.
        let wanted = Wanted {
            kind: Kind::Cycles,
            capacity: 1 << 20,
            minutes: 1,
            memory_mib: 1,
            engine: None,
            units: 1,
            quantity: 1_000_000_000,
            most: Micro(CREDIT),
            tie: 1,
        };
        world.drive(walled, NodeInput::Command(Command::Quote { number: 7, wanted }));
        let offered = |world: &World| {
            let mut told = world.told.iter().filter(|(_, by, _)| *by == walled);
            told.any(|(_, _, event)| matches!(event, NodeEvent::Quoted { offers, .. } if !offers.is_empty()))
        };
        world.run_until(A_MINUTE, "it is named a seller", offered);
        world.nodes[walled].unreachable = false;
        world.run_until(A_MINUTE * 10, "it is a member", |w| w.node(walled).relay().is_none());
        // Its market has its new address by then.
        world.run_for(Duration::from_secs(5));
        let second = job(&mut world, 0, 1, CREDIT);
        world.run_until(A_MINUTE * 5, "the second is done", |w| w.is_over(second));
        assert_settled(&mut world, 0);
        assert_eq!(runners(&world, second), [walled], "seed {seed}");
    }
}

#[test]
fn a_page_sets_the_price_of_a_server_as_any_other_does() {
    let (mut world, pages) = swarm_with(7, 2, &[2500]);
    endow(&mut world, 0, 10 * CREDIT);
    let job = job(&mut world, 0, 1, CREDIT);
    world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
    assert_settled(&mut world, 0);
    assert_eq!((wages(&mut world, 1), balance(&world, pages[0])), (price(2500), 0));
}

#[test]
fn a_slot_that_was_sold_is_listed_again_when_it_is_free() {
    let (mut world, pages) = swarm_with(8, 1, &[1000]);
    endow(&mut world, 0, 10 * CREDIT);
    let job = job(&mut world, 0, 6, CREDIT);
    world.run_until(A_MINUTE * 20, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 6);
    assert_settled(&mut world, 0);
    let its = runners(&world, job).iter().filter(|at| **at == pages[0]).count();
    assert_eq!(its, 3, "each did half");
}

#[test]
fn nobody_buys_of_another_gateways_pages_nor_are_their_prices_its_own() {
    let mut world = with_a_far_bank(9, 2);
    let far = guest(&mut world, 0, 10);
    let near = guest(&mut world, 1, 20);
    world.run_for(A_MINUTE);
    endow(&mut world, 1, 10 * CREDIT);
    let job = job(&mut world, 1, 1, CREDIT);
    world.run_until(A_MINUTE * 5, "the job is done", |w| is_over(w, 1, job));
    assert_settled(&mut world, 1);
    // The natives sell at 2000 and 3000; the far page, at 10, is none of the bids.
    assert_eq!((balance(&world, far), balance(&world, near)), (0, price(2000)));
    world.drive(near, NodeInput::Command(Command::Balance));
    world.run_for(Duration::from_secs(5));
    assert_eq!(shown(&world, near), Some(price(2000)), "its gateway asks the bank");
}

/// Bank and gateway 0, gateway 1 with two natives, and a page of gateway 0 that sells for less than they. All of
/// them open data channels.
fn far_page(seed: u64) -> (World, usize) {
    page_of(seed, 0)
}

/// As [`far_page`], with a page of `gateway`.
fn page_of(seed: u64, gateway: usize) -> (World, usize) {
    let mut world = without_page(seed);
    let page = add_page(&mut world, gateway);
    (world, page)
}

fn without_page(seed: u64) -> World {
    let with = |at: usize, config: Config| Config { signalling: Some(secret(at)), ..config };
    let mut world = World::seed(seed).with(long);
    world.add_keyed(with(0, config(0, true, true)), &secret(0));
    world.add_keyed(with(1, config(1, true, false)), &secret(1));
    world.connect(0, 1);
    for at in [2, 3] {
        world.add_keyed(with(at, config(at, false, false)), &secret(at));
        world.connect(1, at);
    }
    world.run_for(A_MINUTE);
    [2, 3].into_iter().for_each(|at| sell(&mut world, at, 1000 * at as u64));
    world
}

fn add_page(world: &mut World, gateway: usize) -> usize {
    let page = new_page(world);
    world.connect(page, gateway);
    sell(world, page, 10);
    world.run_for(A_MINUTE);
    page
}

fn new_page(world: &mut World) -> usize {
    let page = world.nodes.len();
    let alone = Config { port: None, platform: Platform::Browser, bank: None, ..config(page, false, false) };
    let alone = Config { signalling: Some(secret(page)), ..alone };
    assert_eq!(world.add_keyed(alone, &secret(page)), page);
    page
}

#[test]
fn a_page_turns_to_its_second_gateway_when_the_first_dies_and_goes_on_selling() {
    for seed in 0..5 {
        let (mut world, page) = page_of(55 + seed, 1);
        assert_eq!(world.node(page).relay(), Some(id(&world, 1)), "seed {seed}: it has dialled that one");
        assert!(world.connected(0, page), "seed {seed}: its second gateway is there");
        world.kill(1);
        world.run_until(Duration::from_secs(5), "it turns to it", |w| w.node(page).relay() == Some(id(w, 0)));
        world.run_until(A_MINUTE * 3, "it is listed again", |w| w.node(page).is_listed());
        endow(&mut world, 0, 10 * CREDIT);
        let job = job(&mut world, 0, 1, CREDIT);
        world.run_until(A_MINUTE * 5, "the job is done", |w| is_over(w, 0, job));
        assert_settled(&mut world, 0);
        assert!(balance(&world, page) > 0, "seed {seed}: it was bought");
    }
}

#[test]
fn a_guest_has_another_second_gateway_when_that_one_dies() {
    let (mut world, page) = page_of(61, 1);
    let third = world.nodes.len();
    let config = Config { signalling: Some(secret(third)), ..config(third, true, false) };
    world.add_keyed(config, &secret(third));
    world.connect(third, 1);
    world.run_for(A_MINUTE * 2);
    let seconds =
        |world: &World| [0, third].into_iter().filter(|at| world.connected(*at, page)).collect::<Vec<_>>();
    let [first] = seconds(&world)[..] else { panic!("it has one: {:?}", seconds(&world)) };
    world.kill(first);
    let other = if first == 0 { third } else { 0 };
    world.run_until(A_MINUTE * 3, "the other one is its second", |w| w.connected(other, page));
}

#[test]
fn another_gateways_page_that_opens_data_channels_is_bought_works_and_is_paid() {
    for seed in 0..5 {
        let (mut world, page) = far_page(40 + seed);
        endow(&mut world, 1, 10 * CREDIT);
        let job = job(&mut world, 1, 1, CREDIT);
        world.run_until(A_MINUTE * 5, "the job is done", |w| is_over(w, 1, job));
        assert_settled(&mut world, 1);
        // At the price of the next one.
        assert_eq!((balance(&world, page), wages(&mut world, 2)), (price(2000), 0), "seed {seed}");
        assert!(world.connected(1, page), "its units came by a data channel");
        assert!((0..=page).all(|at| world.faults(at).is_empty()), "seed {seed}");
    }
}

#[test]
fn a_page_whose_donor_wants_no_direct_connections_serves_its_gateway_alone() {
    let mut world = without_page(45);
    let page = new_page(&mut world);
    let policy = Policy { direct_connections: false, ..Policy::default() };
    let terms = Command::Terms { memory_bytes: 1 << 30, policy: Arc::new(policy) };
    world.drive(page, NodeInput::Command(terms));
    world.connect(page, 0);
    sell(&mut world, page, 10);
    world.run_for(A_MINUTE * 2);
    [0, 1].into_iter().for_each(|buyer| endow(&mut world, buyer, 10 * CREDIT));
    for (buyer, earns) in [(1, false), (0, true)] {
        let job = job(&mut world, buyer, 1, CREDIT);
        world.run_until(A_MINUTE * 5, "the job is done", |w| is_over(w, buyer, job));
        assert_settled(&mut world, buyer);
        assert_eq!(balance(&world, page) > 0, earns, "a job of {buyer}");
    }
    assert!(!world.connected(1, page));
}

#[test]
fn a_page_that_no_data_channel_reaches_is_let_be_and_the_job_ends_elsewhere() {
    let mut world = without_page(50);
    world.wall(1, world.nodes.len());
    let page = add_page(&mut world, 0);
    endow(&mut world, 1, 10 * CREDIT);
    let job = job(&mut world, 1, 1, CREDIT);
    world.run_until(A_MINUTE * 10, "the job is done", |w| is_over(w, 1, job));
    assert_settled(&mut world, 1);
    assert_eq!(balance(&world, page), 0);
}

#[test]
fn a_page_that_is_closed_sells_nothing_and_nobody_waits_for_it() {
    for seed in 0..4 {
        let (mut world, pages) = swarm_with(20 + seed, 2, &[1000]);
        endow(&mut world, 0, 10 * CREDIT);
        // No word of it reaches the market, which finds out when it asks.
        world.kill(pages[0]);
        world.run_for(Duration::from_secs(2 * seed));
        let job = job(&mut world, 0, 1, CREDIT);
        world.run_until(Duration::from_secs(100), "the job is done", |w| w.is_over(job));
        assert_settled(&mut world, 0);
        assert_eq!((runners(&world, job), wages(&mut world, 1)), (vec![1], price(4000)), "seed {seed}");
    }
}

#[test]
fn a_page_that_dies_is_paid_up_to_its_checkpoint_and_sells_again_when_it_is_back() {
    let (mut world, pages) = swarm_with(30, 2, &[1000]);
    let page = pages[0];
    endow(&mut world, 0, 10 * CREDIT);
    let first = job(&mut world, 0, 1, CREDIT);
    world.run_until(A_MINUTE * 3, "it has checkpoints", |w| {
        w.node(0).units(first, 0, 1).is_some_and(|units| units[0].checkpoints >= 4)
    });
    world.kill(page);
    world.run_until(A_MINUTE * 10, "the job is done", |w| w.is_over(first));
    world.assert_all_right(first, 1);
    assert_settled(&mut world, 0);
    let earned = balance(&world, page);
    assert!(earned > price(2000) / 10 && earned < price(2000), "{earned}");
    world.start(page);
    world.connect(page, 0);
    sell(&mut world, page, 1000);
    world.run_until(A_MINUTE, "it is listed", |w| w.node(page).is_listed());
    let second = job(&mut world, 0, 1, CREDIT);
    world.run_until(A_MINUTE * 5, "the second is done", |w| w.is_over(second));
    assert_settled(&mut world, 0);
    assert_eq!(balance(&world, page), earned + price(2000));
}

#[test]
fn a_page_with_a_least_price_takes_no_gifts_and_sells() {
    let (mut world, pages) = swarm_with(31, 1, &[5000]);
    // So that nobody else does it.
    world.kill(1);
    world.run_for(A_MINUTE);
    endow(&mut world, 0, 10 * CREDIT);
    let policy = Policy { marginal_cost: 1000, min_price: 5000, ..Policy::default() };
    let terms = Command::Terms { memory_bytes: 1 << 30, policy: Arc::new(policy) };
    world.drive(pages[0], NodeInput::Command(terms));
    let mut spec = world.sweep(0, 1);
    spec.find = Find::default();
    let gift = world.submit(0, spec);
    world.run_for(A_MINUTE * 2);
    assert!(!world.is_over(gift), "for nothing it does nothing");
    let bought = job(&mut world, 0, 1, CREDIT);
    world.run_until(A_MINUTE * 5, "what is paid for is done", |w| w.is_over(bought));
    assert_eq!(runners(&world, bought), pages);
}

#[test]
fn who_is_not_its_relay_cannot_speak_for_a_page() {
    let (mut world, pages) = swarm_with(32, 3, &[1000]);
    let kind = Kind::Cycles;
    let goods = world.node(pages[0]).selling().next().expect("it sells");
    let market = Market::of(kind, goods.capacity).expect("a market");
    let owner = (0..4).find(|at| world.node(*at).markets().is_some_and(|markets| markets.owns(market)));
    let owner = owner.expect("somebody owns the market");
    let listed = |world: &World| {
        let markets = world.node(owner).markets().expect("markets");
        let books: Vec<_> = markets.books().filter(|book| book.market == market).collect();
        books.iter().any(|book| book.sellers.iter().any(|it| it.seller.id == id(world, pages[0])))
    };
    assert!(listed(&world));
    let stranger = (1..4).find(|at| *at != owner).expect("another");
    world.connect(stranger, owner);
    world.run_for(Duration::from_secs(1));
    let frame = Message::Market(OfMarket::ToOwner(ToOwner::Withdraw { market, number: u64::MAX }));
    let frame = frame.encode().expect("it is short");
    let lie = ToGuest::Forwarded { from: id(&world, pages[0]), frame };
    let bytes = Message::Guests(guests::Message::ToGuest(lie)).encode().expect("it is short");
    let says = |from: usize| {
        let (from, bytes) = (id(&world, from), bytes.clone());
        NodeInput::Received { from, channel: Channel::Control, bytes }
    };
    let (by_stranger, by_relay) = (says(stranger), says(0));
    world.drive(owner, by_stranger);
    assert!(listed(&world), "a stranger's word does not count");
    if owner != 0 {
        world.drive(owner, by_relay);
        assert!(!listed(&world), "and its relay's does");
    }
}

#[test]
fn rubbish_that_is_forwarded_costs_nobody_its_relay() {
    let (mut world, pages) = swarm_with(33, 2, &[1000]);
    let page = pages[0];
    let says = |world: &mut World, from: usize, to: usize, frame: Vec<u8>| {
        let forward = ToRelay::Forward { to: id(world, to), frame: frame.into() };
        let bytes = Message::Guests(guests::Message::ToRelay(forward)).encode().expect("it is short");
        let from = id(world, from);
        world.drive(0, NodeInput::Received { from, channel: Channel::Control, bytes });
    };
    for n in 0..30 {
        // Garbage, and a frame within a frame; from a stranger to the page, and from the page to who answered it.
        let within = ToGuest::Forwarded { from: id(&world, 1), frame: vec![n].into() };
        let nested = Message::Guests(guests::Message::ToGuest(within)).encode().expect("it is short");
        for frame in [vec![n; usize::from(n)], nested.to_vec()] {
            says(&mut world, 1, page, frame.clone());
            says(&mut world, page, 1, frame);
        }
        world.run_for(Duration::from_millis(10));
    }
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.node(page).relay(), Some(id(&world, 0)));
    assert!(world.node(page).is_listed());
    for at in [0, 1, page] {
        assert!(world.faults(at).is_empty(), "{at}: {:?}", world.faults(at));
    }
}

#[test]
fn whatever_happens_to_pages_and_their_gateway_no_credit_is_made_or_lost() {
    for seed in 0..12 {
        let (mut world, pages) = swarm_with(100 + seed, 3, &[500, 1000, 1500]);
        endow(&mut world, 0, 10 * CREDIT);
        let job = job(&mut world, 0, 8, CREDIT);
        for _ in 0..6 {
            let time = 5 + world.rng.below(25);
            world.run_for(Duration::from_secs(time));
            let page = pages[world.rng.below(3) as usize];
            match world.rng.below(4) {
                0 if world.lives(page) => world.kill(page),
                1 => world.cut(page, 0),
                2 => {
                    world.crash(0);
                    world.run_for(Duration::from_secs(2));
                    world.start(0);
                    (1..=3).for_each(|at| world.connect(0, at));
                }
                _ => {}
            }
            for page in &pages {
                if !world.lives(*page) {
                    world.start(*page);
                    sell(&mut world, *page, 1000);
                }
                world.connect(*page, 0);
            }
        }
        world.run_until(A_MINUTE * 30, "the job is done", |w| is_over(w, 0, job));
        world.assert_all_right(job, 8);
        assert_settled(&mut world, 0);
        let all: u64 = (0..world.nodes.len()).map(|at| balance(&world, at)).sum();
        assert_eq!(all, 10 * CREDIT, "seed {seed}");
    }
}

/// Its relay is the bank's gateway, and the only other member has taken over some markets.
#[test]
fn a_guest_buys_in_markets_of_members_to_which_it_is_not_connected() {
    for seed in 0..20 {
        let mut world = World::seed(seed).with(long);
        world.add_keyed(config(0, true, true), &secret(0));
        world.add_keyed(Config { submits: true, slots: 0, ..config(1, false, false) }, &secret(1));
        world.nodes[1].unreachable = true;
        world.connect(1, 0);
        // Its id decides which markets it has.
        let key = 100 + seed as usize;
        world.add_keyed(config(key, false, false), &secret(key));
        world.connect(2, 0);
        sell(&mut world, 2, 2000);
        world.run_for(A_MINUTE);
        endow(&mut world, 1, 10 * CREDIT);
        world.run_for(A_MINUTE);
        let began = world.now;
        let job = job(&mut world, 1, 1, CREDIT);
        let is_over = |w: &World| w.node(1).job(job).is_some_and(|job| job.state.is_over());
        world.run_until(A_MINUTE * 5, "the job is done", is_over);
        assert_eq!(world.node(1).job(job).map(|job| job.done), Some(1), "seed {seed}");
        let took = world.now.since(began);
        assert!(took < A_MINUTE + Duration::from_secs(15), "seed {seed}: a unit of a minute took {took:?}");
    }
}
