//! The world of these stories: a gateway that is the bank, and workers that sell slots.

use node_core::contract::Order;
use node_core::files::FilesConfig;
use node_core::goods::Goods;
use node_core::goods::Kind;
use node_core::ids::{JobId, NodeId};
use node_core::keys::Secret;
use node_core::ledger::books::{Books, Rules};
use node_core::ledger::{Line, Why};
use node_core::market::MarketConfig;
use node_core::money::{Micro, Price};
use node_core::node::config::{BankPart, MarketPart};
use node_core::overlay::ring::RingConfig;
use node_core::platform::Platform;
use node_core::work::spec::{CheckpointEvery, Find, Terms};
use node_core::{Command, Config, NodeEvent, NodeInput};
use sandbox::{Outcome, Task};
use simulator::World;
use simulator::engine::MIPS;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const A_MINUTE: Duration = Duration::from_secs(60);

/// A credit.
pub(crate) const CREDIT: u64 = 1_000_000;

/// Fuel of a unit of these worlds: a minute at the usual speed.
pub(crate) const FUEL: u64 = MIPS as u64 * 1_000_000 * 60;

/// Fee of the market operator for each sale, micro-credits.
pub(crate) const DELTA: u64 = 1000;

pub(crate) fn long(task: &Task) -> (Duration, Outcome) {
    (A_MINUTE, simulator::echo(task).1)
}

pub(crate) fn secret(at: usize) -> Secret {
    Secret::from_bytes(&[at as u8 + 1; 32])
}

pub(crate) fn config(at: usize, gateway: bool, bank: bool) -> Config {
    Config {
        gateway,
        slots: u32::from(!gateway),
        port: Some(4001),
        name: format!("node {at}"),
        ring: Some(Arc::new(RingConfig::default())),
        market: Some(MarketPart { config: Arc::new(MarketConfig::default()), secret: secret(at) }),
        bank: Some(BankPart {
            secret: secret(at),
            // Everybody knows that it is the first one.
            bank: Some(secret(0).node()),
            rules: bank.then(Rules::default),
        }),
        ..Config::default()
    }
}

/// Node 0 is gateway and bank, and each of the others sells a slot at a thousand times its number.
pub(crate) fn swarm(seed: u64, workers: usize) -> World {
    swarm_of(seed, workers, long)
}

/// As [`swarm`], with units of another length.
pub(crate) fn swarm_of(seed: u64, workers: usize, work: fn(&Task) -> (Duration, Outcome)) -> World {
    let mut world = World::seed(seed).with(work);
    world.add_keyed(config(0, true, true), &secret(0));
    for at in 1..=workers {
        world.add_keyed(config(at, false, false), &secret(at));
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    (1..=workers).for_each(|at| sell(&mut world, at, 1000 * at as u64));
    world.run_for(A_MINUTE);
    world
}

/// A worker that sells space for checkpoints, for a thousand times its number.
pub(crate) fn keeper(at: usize) -> Config {
    let files = FilesConfig { cost: Price(1000 * at as u64), ..FilesConfig::default() };
    Config { files: Some(Arc::new(files)), ..config(at, false, false) }
}

/// As [`swarm`], and each of the workers sells space for checkpoints, too.
pub(crate) fn with_space(seed: u64, workers: usize) -> World {
    let mut world = World::seed(seed).with(long);
    world.add_keyed(config(0, true, true), &secret(0));
    for at in 1..=workers {
        world.add_keyed(keeper(at), &secret(at));
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    (1..=workers).for_each(|at| sell(&mut world, at, 1000 * at as u64));
    world.run_for(A_MINUTE);
    world
}

/// Like [`swarm`], with a second gateway, node 1, that owns the jobs; node 0 is only the bank.
pub(crate) fn with_a_far_bank(seed: u64, workers: usize) -> World {
    far_from_bank(seed, workers, |at| config(at, false, false))
}

pub(crate) fn far_from_bank(seed: u64, workers: usize, worker: fn(usize) -> Config) -> World {
    let mut world = World::seed(seed).with(long);
    world.add_keyed(config(0, true, true), &secret(0));
    world.add_keyed(config(1, true, false), &secret(1));
    world.connect(0, 1);
    for at in 2..2 + workers {
        world.add_keyed(worker(at), &secret(at));
        world.connect(1, at);
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    (2..2 + workers).for_each(|at| sell(&mut world, at, 1000 * at as u64));
    world.run_for(A_MINUTE);
    world
}

/// A slot that does so much fuel a second.
pub(crate) fn goods(capacity: u64, cost: u64) -> Goods {
    Goods {
        kind: Kind::Cycles,
        capacity,
        units: 1,
        minutes: 600,
        cost: Price(cost),
        engine: Platform::Native,
        memory_mib: 1024,
    }
}

pub(crate) fn sell(world: &mut World, at: usize, cost: u64) {
    let goods = goods(u64::from(MIPS) * 1_000_000, cost);
    world.drive(at, NodeInput::Command(Command::Sell(goods)));
}

/// Sells at a speed that depends on `at`: three in a row sell in three markets.
pub(crate) fn sell_apart(world: &mut World, at: usize, cost: u64) {
    let goods = goods((u64::from(MIPS) * 1_000_000) << (2 * (at % 3)), cost);
    world.drive(at, NodeInput::Command(Command::Sell(goods)));
}

pub(crate) fn id(world: &World, at: usize) -> NodeId {
    world.nodes[at].id
}

/// Gives the node credit by an invite of the bank's operator.
pub(crate) fn endow(world: &mut World, at: usize, amount: u64) {
    let asked = world.told.len();
    world.drive(0, NodeInput::Command(Command::Invite { number: 1, amount: Micro(amount) }));
    let code = |world: &World| {
        world.told[asked..].iter().find_map(|(_, by, event)| match event {
            NodeEvent::Invited { made, .. } if *by == 0 => made.ok(),
            _ => None,
        })
    };
    world.run_until(A_MINUTE, "there is an invite", |w| code(w).is_some());
    let code = code(world).expect("it was there");
    let before = balance(world, at);
    let number = world.told.len() as u64;
    let order = Order::Redeem { code };
    world.drive(at, NodeInput::Command(Command::Order { number, order }));
    world.run_until(A_MINUTE, "it is redeemed", |w| balance(w, at) == before + amount);
}

pub(crate) fn books(world: &World) -> &Books {
    world.node(0).books().expect("node 0 is the bank")
}

pub(crate) fn balance(world: &World, at: usize) -> u64 {
    books(world).balance(id(world, at)).0
}

/// Number of holds that the bank still has for this node's jobs.
pub(crate) fn holds(world: &World, owner: usize) -> usize {
    books(world).holdings(id(world, owner), None, 10_000).len()
}

/// The node's statement, all of it.
pub(crate) fn statement(world: &mut World, at: usize) -> Vec<Line> {
    let asked = world.told.len();
    let of = id(world, at);
    world.drive(at, NodeInput::Command(Command::Statement { number: 1, of, from: 0, limit: 1000 }));
    let answer = |world: &World| {
        world.told[asked..].iter().find_map(|(_, by, event)| match event {
            NodeEvent::Statement { page, .. } if *by == at => Some(page.lines.clone()),
            _ => None,
        })
    };
    world.run_until(A_MINUTE, "the statement comes", |w| answer(w).is_some());
    answer(world).expect("it was there")
}

/// A job of so many units that buys its places, a unit for at most so much.
pub(crate) fn job(world: &mut World, at: usize, units: u32, max_price: u64) -> JobId {
    job_within(world, at, units, max_price, None)
}

pub(crate) fn job_within(
    world: &mut World,
    at: usize,
    units: u32,
    max_price: u64,
    job: Option<u64>,
) -> JobId {
    let mut spec = world.sweep(at, units);
    spec.template.limits.fuel = FUEL;
    spec.template.checkpoint = CheckpointEvery(5_000_000);
    spec.find =
        Find::Cheapest(Terms { max_price: Micro(max_price), max_price_job: job.map(Micro), min_speed: 0 });
    world.submit(at, spec)
}

pub(crate) fn cheapest(max_price: u64, job: Option<u64>) -> Find {
    Find::Cheapest(Terms { max_price: Micro(max_price), max_price_job: job.map(Micro), min_speed: 0 })
}

/// Sum of what the node earned by work, from its statement.
pub(crate) fn earned(world: &mut World, at: usize) -> u64 {
    sum(statement(world, at), |why| matches!(why, Why::Earned(_)))
}

/// Sum of what the node earned by keeping checkpoints, from its statement.
pub(crate) fn kept(world: &mut World, at: usize) -> u64 {
    sum(statement(world, at), |why| matches!(why, Why::Kept(Kind::Checkpoints, _)))
}

pub(crate) fn fees(world: &mut World, at: usize) -> u64 {
    sum(statement(world, at), |why| matches!(why, Why::Fee(_)))
}

fn sum(lines: Vec<Line>, of: fn(&Why) -> bool) -> u64 {
    lines.iter().filter(|line| of(&line.why)).map(|line| line.amount as u64).sum()
}

pub(crate) fn reason(world: &World, at: usize, job: JobId) -> String {
    world.node(at).job(job).map(|job| job.reason).unwrap_or_default()
}

pub(crate) fn is_over(world: &World, at: usize, job: JobId) -> bool {
    world.lives(at) && world.node(at).job(job).is_some_and(|job| job.state.is_over())
}

/// Nothing is held, and no credit was made or lost.
pub(crate) fn assert_settled(world: &mut World, owner: usize) {
    world.run_until(A_MINUTE * 5, "all is settled", |w| {
        holds(w, owner) == 0 && w.lives(owner) && w.node(owner).orders_pending() == 0
    });
    assert_eq!(books(world).sum(), 0);
}
