//! Rows of honest disks: swarms that had jobs, checkpoints, files, money and units on the ring.

use crate::records::tables;
use node_core::bounds::Bounds;
use node_core::contract::Order;
use node_core::disk::{StorageReply, StorageRequest, Write};
use node_core::files::{CHUNK, FilesConfig, Manifest};
use node_core::goods::Goods;
use node_core::goods::Kind;
use node_core::keys::Secret;
use node_core::ledger::books::Rules;
use node_core::market::MarketConfig;
use node_core::money::{Micro, Price};
use node_core::node::config::{BankPart, MarketPart, RecordsPart};
use node_core::overlay::ring::RingConfig;
use node_core::platform::Platform;
use node_core::records::RecordsConfig;
use node_core::work::spec::{CheckpointEvery, Find, OwnedBy, Terms};
use node_core::{Command, Config, NodeEvent, NodeInput, Table, Token};
use sandbox::{Outcome, Task};
use simulator::World;
use simulator::engine::MIPS;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

/// Rows of one table. More would only be slow.
const MOST: usize = 12;

static ROWS: LazyLock<Vec<Write>> = LazyLock::new(|| {
    let mut rows = BTreeMap::new();
    for world in [working(), trading(), on_the_ring()] {
        gather(world, &mut rows);
    }
    for table in tables() {
        let count = rows.keys().filter(|(of, _)| of == table).count();
        assert!(count > 0, "honest disks have rows of {table:?}");
    }
    let row = |((table, key), value)| Write { table, key, value: Some(value) };
    rows.into_iter().map(row).collect()
});

pub(crate) fn rows() -> &'static [Write] {
    &ROWS
}

fn gather(mut world: World, rows: &mut BTreeMap<(Table, Vec<u8>), bytes::Bytes>) {
    for place in &mut world.nodes {
        for table in tables() {
            let scan =
                StorageRequest::Scan { token: Token(0), table: *table, after: None, limit: MOST as u32 };
            if let Some(StorageReply::Entries { entries, .. }) = place.disk.take(scan) {
                let room = MOST.saturating_sub(rows.keys().filter(|(of, _)| of == table).count());
                rows.extend(entries.into_iter().take(room).map(|(key, value)| ((*table, key), value)));
            }
        }
    }
}

fn secret(at: usize) -> Secret {
    Secret::from_bytes(&[at as u8 + 1; 32])
}

fn long(task: &Task) -> (Duration, Outcome) {
    (A_MINUTE, simulator::echo(task).1)
}

/// A gateway whose job has results and checkpoints, with workers that leave something for their next life.
fn working() -> World {
    let mut world = World::seed(1).swarm(1, 1);
    let spec = world.sweep(0, 3);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "it is done", |world| world.is_over(job));
    world.program = long;
    for _ in 0..2 {
        let limits = Bounds { left_bytes: 1 << 20, ..Bounds::default() };
        let at = world.add(Config { slots: 1, port: Some(4001), limits: limits.into(), ..Config::default() });
        world.connect(0, at);
    }
    let mut spec = world.sweep(0, 2);
    spec.template.checkpoint = CheckpointEvery(2_000_000);
    world.submit(0, spec);
    world.run_for(Duration::from_secs(20));
    world
}

/// A bank, a gateway that buys, and nodes that sell slots and space.
fn trading() -> World {
    let mut world = World::seed(2).with(long);
    for at in 0..4 {
        let gateway = at == 0;
        let market = MarketPart { config: Arc::new(MarketConfig::default()), secret: secret(at) };
        let rules = gateway.then(Rules::default);
        let config = Config {
            gateway,
            slots: u32::from(!gateway),
            port: Some(4001),
            ring: Some(Arc::new(RingConfig::default())),
            market: Some(market),
            bank: Some(BankPart { secret: secret(at), bank: Some(secret(0).node()), rules }),
            records: Some(RecordsPart { config: Arc::new(RecordsConfig::default()), secret: secret(at) }),
            files: Some(Arc::new(FilesConfig::giving(if gateway { 0 } else { 64 << 20 }))),
            ..Config::default()
        };
        let at = world.add_keyed(config, &secret(at));
        if at > 0 {
            world.connect(0, at);
        }
    }
    world.run_for(A_MINUTE);
    for at in 1..4 {
        let goods = Goods {
            kind: Kind::Cycles,
            capacity: u64::from(MIPS) * 1_000_000,
            units: 1,
            minutes: 600,
            cost: Price(1000 * at as u64),
            engine: Platform::Native,
            memory_mib: 1024,
        };
        world.drive(at, NodeInput::Command(Command::Sell(goods)));
    }
    world.run_for(A_MINUTE);
    endow(&mut world);
    let mut spec = world.sweep(0, 1);
    spec.template.checkpoint = CheckpointEvery(2_000_000);
    spec.template.limits.fuel = u64::from(MIPS) * 1_000_000 * 60;
    let max_price = Micro(100_000_000);
    spec.find = Find::Cheapest(Terms { max_price, max_price_job: Some(max_price), min_speed: 0 });
    world.submit(0, spec);
    let content = [7; 5000];
    let chunks = content.chunks(CHUNK as usize).map(|chunk| world.upload(0, chunk).id).collect();
    let manifest = Manifest::new(content.len() as u64, false, None, chunks).expect("it may be");
    let id = world.upload(0, &manifest.encode());
    let manifest = Box::new(manifest);
    let put = Command::PutFile { number: 7, id, manifest, copies: 2, max_price: None, shared: Vec::new() };
    world.drive(0, NodeInput::Command(put));
    world.run_for(Duration::from_secs(40));
    world
}

/// Gives the gateway credit by an invite, and leaves another.
fn endow(world: &mut World) {
    for number in 1..=2 {
        world.drive(0, NodeInput::Command(Command::Invite { number, amount: Micro(1_000_000_000) }));
    }
    world.run_for(Duration::from_secs(1));
    let code = world.told.iter().find_map(|(_, _, event)| match event {
        NodeEvent::Invited { made: Ok(code), .. } => Some(*code),
        _ => None,
    });
    let order = Order::Redeem { code: code.expect("there is an invite") };
    world.drive(0, NodeInput::Command(Command::Order { number: 3, order }));
    world.run_for(Duration::from_secs(1));
}

/// Units whose owner the ring names.
fn on_the_ring() -> World {
    let mut world = World::seed(3).with(long);
    for n in 0..5 {
        let config = Config {
            gateway: n == 0,
            slots: u32::from(n > 2),
            port: Some(4001),
            ring: Some(Arc::new(RingConfig::default())),
            limits: Bounds { delegated_units: 100, ..Bounds::default() }.into(),
            ..Config::default()
        };
        let at = world.add(config);
        if at > 0 {
            world.connect(0, at);
        }
    }
    world.run_for(A_MINUTE);
    let mut spec = world.sweep(0, 4);
    spec.template.checkpoint = CheckpointEvery(2_000_000);
    spec.owner = OwnedBy::Ring;
    world.submit(0, spec);
    world.run_for(Duration::from_secs(20));
    world
}
