//! Keepers that sell space for files: each is paid for what it proved, once, and never above what a file may
//! cost.

use super::*;
use node_core::contract::Order;
use node_core::goods::Kind;
use node_core::ledger::books::Books;
use node_core::ledger::{Line, Why};

pub(crate) const CREDIT: u64 = 1_000_000;

/// Cost of 10^9 byte-seconds at node 1 in these stories, micro-credits.
pub(crate) const COST: u64 = 1000;

/// Fee of the market operator for each sale, micro-credits.
pub(crate) const DELTA: u64 = 1000;

pub(crate) fn bank(world: &World) -> usize {
    world.nodes.len() - 1
}

pub(crate) fn books(world: &World) -> &Books {
    world.node(bank(world)).books().expect("the last node is the bank")
}

pub(crate) fn balance(world: &World, at: usize) -> u64 {
    books(world).balance(world.nodes[at].id).0
}

fn holds(world: &World) -> usize {
    books(world).holdings(world.nodes[0].id, None, 10_000).len()
}

pub(crate) fn endow(world: &mut World, at: usize, amount: u64) {
    let (bank, asked) = (bank(world), world.told.len());
    world.drive(bank, NodeInput::Command(Command::Invite { number: 1, amount: Micro(amount) }));
    let code = |world: &World| {
        world.told[asked..].iter().find_map(|(_, by, event)| match event {
            NodeEvent::Invited { made, .. } if *by == bank => made.ok(),
            _ => None,
        })
    };
    world.run_until(A_MINUTE, "there is an invite", |w| code(w).is_some());
    let (code, before) = (code(world).expect("it was there"), balance(world, at));
    let (number, order) = (world.told.len() as u64, Order::Redeem { code });
    world.drive(at, NodeInput::Command(Command::Order { number, order }));
    world.run_until(A_MINUTE, "it is redeemed", |w| balance(w, at) == before + amount);
}

pub(crate) fn statement(world: &mut World, at: usize) -> Vec<Line> {
    let (asked, of) = (world.told.len(), world.nodes[at].id);
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

/// Sum of what the node earned by keeping files, from its statement.
pub(crate) fn earned(world: &mut World, at: usize) -> u64 {
    let lines = statement(world, at).into_iter();
    lines.filter(|line| matches!(line.why, Why::Kept(Kind::Files, _))).map(|line| line.amount as u64).sum()
}

fn fees(world: &mut World, at: usize) -> u64 {
    let lines = statement(world, at).into_iter();
    lines.filter(|line| matches!(line.why, Why::Fee(_))).map(|line| line.amount as u64).sum()
}

pub(crate) fn remove(world: &mut World, file: BlobId) {
    world.drive(0, NodeInput::Command(Command::DropFile { number: 1, file }));
}

/// Nothing is held, and no credit was made or lost.
pub(crate) fn assert_settled(world: &mut World) {
    world.run_until(A_MINUTE * 3, "all is settled", |w| holds(w) == 0 && w.node(0).orders_pending() == 0);
    assert_eq!(books(world).sum(), 0);
}

/// Cost of so many bytes for so many seconds, micro-credits.
pub(crate) fn cost(price: u64, bytes: u64, seconds: u64) -> u64 {
    Price(price).of(bytes * seconds).round_up().expect("it is an amount").0
}

pub(crate) fn seconds(world: &World) -> u64 {
    world.now.0 / 1_000_000
}

/// Manifest and content, as they are bought.
pub(crate) fn space(world: &World, id: BlobId) -> u64 {
    let view = file(world, 0, id);
    let blob = world.nodes[0].disk.blob(id).expect("its owner has the manifest");
    view.len + blob.len() as u64
}

#[test]
fn keepers_are_paid_the_rules_price_for_the_time_that_they_proved() {
    for seed in 0..3 {
        let mut world = trading(seed, 6, COST, selling(64 * MIB));
        endow(&mut world, 0, 10 * CREDIT);
        let began = seconds(&world);
        let id = put_for(&mut world, 0, &content(seed, 4 * MIB), 3, Some(20 * CREDIT));
        until_kept(&mut world, id, 3);
        let (kept, bytes) = (seconds(&world), space(&world, id));
        let view = file(&world, 0, id);
        assert!(view.keepers.iter().all(|keeper| keeper.price == Some(Price(4 * COST))), "{view:?}");
        assert_eq!(balance(&world, 0) + view.held.0, 10 * CREDIT, "what the bank holds is told");
        world.run_for(A_MINUTE * 30);
        let ended = seconds(&world);
        remove(&mut world, id);
        assert_settled(&mut world);
        let (least, most) = (ended - kept - 100, ended - began);
        for at in 1..=3 {
            let its = earned(&mut world, at);
            let range = cost(4 * COST, bytes, least)..=cost(4 * COST, bytes, most);
            assert!(range.contains(&its), "seed {seed}: node {at} earned {its}, not {range:?}");
        }
        assert!((4..=6).all(|at| earned(&mut world, at) == 0));
        let fees: u64 = (0..=7).map(|at| fees(&mut world, at)).sum();
        assert_eq!(fees, 3 * DELTA, "the market operator has its part of each");
        let all: u64 = (0..=7).map(|at| balance(&world, at)).sum();
        assert_eq!(all, 10 * CREDIT);
    }
}

#[test]
fn who_loses_a_chunk_is_not_paid_for_what_came_after_its_last_proof() {
    for (seed, corrupt) in [(1, false), (2, true)] {
        let mut world = trading(seed, 6, COST, selling(64 * MIB));
        endow(&mut world, 0, 10 * CREDIT);
        let began = seconds(&world);
        let bytes = content(seed, 5 * MIB / 2);
        let id = put_for(&mut world, 0, &bytes, 2, Some(5 * CREDIT));
        until_kept(&mut world, id, 2);
        world.run_for(A_MINUTE * 20);
        let (bad, lost) = (keepers(&world, id)[1], seconds(&world));
        match corrupt {
            true => world.nodes[bad].disk.corrupt_blob(BlobId::of(&bytes)),
            false => world.nodes[bad].disk.lose_blob(BlobId::of(&bytes)),
        }
        let found_out = |world: &World| !file(world, 0, id).lost.is_empty();
        world.run_until(A_MINUTE * 4, "it is found out", found_out);
        world.run_for(A_MINUTE * 20);
        let (its, most) = (earned(&mut world, bad), cost(3 * COST, space(&world, id), lost - began));
        assert!(its > most / 2 && its <= most, "seed {seed}: it earned {its}, at most {most} are right");
        let view = file(&world, 0, id);
        assert_eq!(view.paid.0, its + DELTA, "the file says what it has cost");
        assert_eq!(view.kept, 2, "another keeps it now: {}", view.reason);
        remove(&mut world, id);
        assert_settled(&mut world);
    }
}

#[test]
fn who_proves_nothing_is_paid_nothing() {
    let mut world = trading(3, 2, COST, selling(64 * MIB));
    endow(&mut world, 0, 10 * CREDIT);
    let bytes = content(3, MIB);
    let id = put_for(&mut world, 0, &bytes, 1, Some(5 * CREDIT));
    let kept = |world: &World| file(world, 0, id).kept == 1;
    world.run_until(A_MINUTE * 3, "it says that it has it", kept);
    let liar = keepers(&world, id)[0];
    world.nodes[liar].disk.lose_blob(BlobId::of(&bytes));
    let found_out = |world: &World| !file(world, 0, id).lost.is_empty();
    world.run_until(A_MINUTE * 4, "it is found out", found_out);
    world.run_for(A_MINUTE);
    assert_eq!((earned(&mut world, liar), file(&world, 0, id).paid), (0, Micro(0)));
}

#[test]
fn owner_and_bank_that_restart_pay_once_and_lose_nothing() {
    for seed in 0..6 {
        let mut world = trading(seed, 5, COST, selling(64 * MIB));
        endow(&mut world, 0, 10 * CREDIT);
        let began = seconds(&world);
        let id = put_for(&mut world, 0, &content(seed, 2 * MIB), 2, Some(5 * CREDIT));
        let bank = bank(&world);
        // While it is bought, while it is kept, and while it is settled.
        for at in [0, bank, 0] {
            let pause = world.rng.below(30_000);
            world.run_for(Duration::from_millis(pause));
            world.crash(at);
            world.run_for(Duration::from_secs(2));
            world.start(at);
            (1..=bank).for_each(|other| world.connect(0, other));
            (1..bank).for_each(|other| world.connect(bank, other));
        }
        world.run_until(A_MINUTE, "it is read again", |w| file_is_known(w, id));
        until_kept(&mut world, id, 2);
        world.run_for(A_MINUTE * 10);
        let (bytes, ended) = (space(&world, id), seconds(&world));
        let keepers = file(&world, 0, id).keepers;
        remove(&mut world, id);
        if seed % 2 == 0 {
            world.crash(if seed % 4 == 0 { 0 } else { bank });
            world.run_for(Duration::from_secs(2));
            world.start(if seed % 4 == 0 { 0 } else { bank });
            (1..=bank).for_each(|other| world.connect(0, other));
            (1..bank).for_each(|other| world.connect(bank, other));
        }
        world.run_for(Duration::from_secs(2));
        if file_is_known(&world, id) {
            // It stopped before its removal was written down.
            remove(&mut world, id);
        }
        assert_settled(&mut world);
        for keeper in &keepers {
            // The third one's cost, or the fourth's: what the owner's earlier life had
            // reserved makes a seller one of less space, in another market.
            let price = keeper.price.expect("it is bought");
            assert!([3 * COST, 4 * COST].contains(&price.0), "seed {seed}: {keeper:?}");
            let (most, at) =
                (cost(price.0, bytes, ended - began + 120), world.find(keeper.node).expect("it is a node"));
            let paid = earned(&mut world, at);
            assert!(
                paid <= most && paid >= most / 3,
                "seed {seed}: {keeper:?} was paid {paid}, at most {most}"
            );
        }
        assert_eq!(keepers.len(), 2, "seed {seed}");
        let all: u64 = (0..=bank).map(|at| balance(&world, at)).sum();
        assert_eq!(all, 10 * CREDIT, "seed {seed}: all of it is somewhere");
    }
}

fn file_is_known(world: &World, id: BlobId) -> bool {
    !world.node(0).files(Some(id)).is_empty()
}

#[test]
fn a_poor_owners_file_waits_with_that_reason_or_is_kept_as_a_gift() {
    let mut world = trading(4, 4, COST, selling(64 * MIB));
    let id = put_for(&mut world, 0, &content(4, MIB), 2, Some(CREDIT));
    world.run_for(A_MINUTE);
    let view = file(&world, 0, id);
    assert!(view.kept == 0 && view.reason.contains("the bank puts nothing aside"), "{}", view.reason);
    endow(&mut world, 0, 10 * CREDIT);
    until_kept(&mut world, id, 2);
    let dear = put_for(&mut world, 0, &content(5, MIB), 2, Some(100));
    world.run_for(A_MINUTE);
    let why = file(&world, 0, dear).reason;
    assert!(why.contains("space is not sold: the cheapest seller costs up to"), "{why}");
    // In another swarm, whose nodes also give space for nothing, both files are kept.
    let mut world = trading(5, 4, COST, giving(64 * MIB));
    let poor = put_for(&mut world, 0, &content(4, MIB), 2, Some(CREDIT));
    endow(&mut world, 0, 10 * CREDIT);
    let gift = put_for(&mut world, 0, &content(5, MIB), 2, Some(0));
    for id in [poor, gift] {
        until_kept(&mut world, id, 2);
    }
    let view = file(&world, 0, gift);
    assert!(view.reason.contains("2 of its keepers give the space for nothing"), "{}", view.reason);
    assert_eq!((view.held, view.paid, view.max_price), (Micro(0), Micro(0), Micro(0)));
}

#[test]
fn the_bank_is_down_and_a_file_is_given_meanwhile() {
    let mut world = trading(6, 4, COST, giving(64 * MIB));
    endow(&mut world, 0, 10 * CREDIT);
    let bank = bank(&world);
    world.crash(bank);
    let id = put_for(&mut world, 0, &content(6, MIB), 2, Some(5 * CREDIT));
    until_kept(&mut world, id, 2);
    let why = file(&world, 0, id).reason;
    assert!(why.contains("the bank does not answer"), "{why}");
    world.start(bank);
    (0..bank).for_each(|at| world.connect(bank, at));
    assert_settled(&mut world);
    assert_eq!(balance(&world, 0), 10 * CREDIT);
}

#[test]
fn a_file_never_costs_more_than_it_may_however_many_keepers_go() {
    for seed in 0..4 {
        let mut world = trading(seed, 8, COST, selling(64 * MIB));
        endow(&mut world, 0, 10 * CREDIT);
        // Enough for two copies at the third cost and a little more.
        let two_days = 2 * 24 * 3600;
        let most = 2 * (cost(3 * COST, 2 * MIB, two_days) + 20 * DELTA);
        let id = put_for(&mut world, 0, &content(seed, 2 * MIB - 100), 2, Some(most));
        until_kept(&mut world, id, 2);
        for _ in 0..12 {
            let view = file(&world, 0, id);
            assert!(view.paid.0 + view.held.0 <= most, "seed {seed}: {view:?}");
            assert!(10 * CREDIT - balance(&world, 0) <= most, "seed {seed}");
            if let Some(gone) = keepers(&world, id).first().copied() {
                world.crash(gone);
                let pause = 60 + world.rng.below(600);
                world.run_for(Duration::from_secs(pause));
                world.start(gone);
                let bank = bank(&world);
                world.connect(0, gone);
                world.connect(bank, gone);
            }
            world.run_for(A_MINUTE);
        }
        assert!(file(&world, 0, id).paid > Micro(0));
        remove(&mut world, id);
        assert_settled(&mut world);
        assert!(10 * CREDIT - balance(&world, 0) <= most, "seed {seed}");
    }
}

/// Deaths, restarts and cuts of everybody, at any time: no credit is made or lost, no hold is forgotten,
/// and no file costs more than it may.
#[test]
fn whatever_stops_each_hold_ends_and_the_books_balance() {
    let seeds = std::env::var("MANYHANDS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    for seed in 0..seeds {
        let mut world = trading(1000 + seed, 5, COST, selling(16 * MIB));
        endow(&mut world, 0, 10 * CREDIT);
        let bank = bank(&world);
        let mut rng = node_core::protocol::Rng::from_seed([seed as u8; 32]);
        let mut files = Vec::new();
        for step in 0..10 {
            if step < 3 && world.lives(0) {
                files.push(put_for(&mut world, 0, &content(seed + step, MIB / 2 + step), 2, Some(CREDIT)));
            }
            world.run_for(Duration::from_millis(rng.below(90_000)));
            let at = rng.below(bank as u64 + 1) as usize;
            match rng.below(3) {
                0 | 1 => {
                    world.crash(at);
                    world.run_for(Duration::from_millis(rng.below(40_000)));
                    world.start(at);
                }
                _ => world.cut(0, 1 + rng.below(bank as u64) as usize),
            }
            (1..=bank).for_each(|other| world.connect(0, other));
            (1..bank).for_each(|other| world.connect(bank, other));
            assert_eq!(books(&world).sum(), 0, "seed {seed}");
            if step == 6
                && let Some(file) = files.pop()
            {
                remove(&mut world, file);
            }
        }
        for id in &files {
            let kept = |world: &World| file(world, 0, *id).kept == 2;
            world.run_until(A_MINUTE * 12, "they are kept", kept);
            let view = file(&world, 0, *id);
            assert!(view.paid.0 + view.held.0 <= CREDIT, "seed {seed}: {view:?}");
        }
        let held = |world: &World| {
            let files: u64 = world.node(0).files(None).iter().map(|file| file.held.0).sum();
            let holdings = books(world).holdings(world.nodes[0].id, None, 10_000);
            files == holdings.iter().map(|holding| holding.amount.0).sum::<u64>()
        };
        world.run_until(A_MINUTE, "what is held is what the files say", held);
        let all = world.node(0).files(None);
        all.into_iter().for_each(|file| remove(&mut world, file.id));
        assert_settled(&mut world);
        let all: u64 = (0..=bank).map(|at| balance(&world, at)).sum();
        assert_eq!(all, 10 * CREDIT, "seed {seed}: all of it is somewhere");
    }
}
