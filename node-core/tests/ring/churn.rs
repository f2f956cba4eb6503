//! Whatever happens, in any order, from random seeds: first safety while it happens, then, when
//! it stops, the ideal ring.

use crate::{SECOND, small, some_key};
use node_core::overlay::ring::{Command, Event, Mode, RingId};
use simulator::ring::{Conditions, Rings};
use std::time::Duration;

/// Until all must be well again: a death is noticed in 10 s, believed by others for 10 s more, and
/// lists of 4 are right three beats later.
const WELL: Duration = Duration::from_secs(90);

#[test]
fn any_sequence_of_joins_leaves_deaths_and_restarts_is_safe_and_ends_in_the_ideal_ring() {
    // MANYHANDS_SEEDS=N runs more.
    let count = std::env::var("MANYHANDS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let (mut asked, mut right, mut longest) = (0, 0, Duration::ZERO);
    for seed in 0..count {
        let (a, r, took) = live(seed);
        asked += a;
        right += r;
        longest = longest.max(took);
    }
    println!("{count} seeds, {right} of {asked} lookups right, ideal after {longest:?} at most");
    assert!(asked - right <= asked / 1000, "{right} of {asked}");
}

/// One life; how many lookups there were and how many were right, and how long it took to heal.
fn live(seed: u64) -> (usize, usize, Duration) {
    let mut rings = Rings::new(seed, small());
    rings.listen = true;
    rings.grow(12, 2);
    rings.settle(120 * SECOND);
    // Members that died and may not have been noticed, with lists of 4.
    let mut dead: Vec<node_core::Time> = Vec::new();
    let mut numbers = Vec::new();
    for _ in 0..60 {
        let alive = rings.alive();
        let one = alive[rings.rng.below(alive.len() as u64) as usize];
        dead.retain(|at| rings.now.since(*at) < 25 * SECOND);
        let may_die = dead.len() < 3 && alive.len() > 6 && one != alive[0];
        match rings.rng.below(10) {
            0..3 if alive.len() < 40 => drop(rings.join()),
            3 | 4 if may_die => {
                rings.kill(one);
                dead.push(rings.now);
            }
            5 if may_die => {
                let member = rings.member(one);
                rings.command(one, Command::Leave(member));
                dead.push(rings.now);
            }
            6 if may_die => {
                rings.kill(one);
                dead.push(rings.now);
                let pause = rings.rng.below(12_000);
                rings.run(Duration::from_millis(pause));
                rings.start(one);
                rings.enter(one);
            }
            7 => {
                let doubled = rings.rng.chance(0.5);
                rings.conditions.double = if doubled { 50 } else { 0 };
            }
            _ => {
                let key = some_key(&mut rings);
                let mode = if rings.rng.chance(0.5) { Mode::Iterative } else { Mode::Recursive };
                let view =
                    rings.view(one).and_then(|view| view.members().next().map(|member| member.joined()));
                if view == Some(true) {
                    numbers.push(rings.ask(one, RingId::NODES, key, mode));
                }
            }
        }
        let pause = rings.rng.below(4000);
        rings.run(Duration::from_millis(pause));
        for (n, event) in std::mem::take(&mut rings.events) {
            if matches!(event, Event::Left(_)) && rings.lives(n) {
                rings.kill(n);
            }
        }
        assert_eq!(rings.check(RingId::NODES, false), Vec::<String>::new(), "seed {seed}");
    }
    rings.conditions = Conditions::default();
    rings.run(6 * SECOND);
    for (n, event) in std::mem::take(&mut rings.events) {
        if matches!(event, Event::Left(_)) && rings.lives(n) {
            rings.kill(n);
        }
    }
    let took = rings.settle(WELL);
    rings.finish();
    assert_eq!(rings.faults, Vec::new(), "seed {seed}");
    let ended: Vec<_> = numbers.iter().filter_map(|number| rings.lookups.get(number)).collect();
    let wrong = ended.iter().filter(|asked| !asked.is_right());
    wrong.clone().for_each(|asked| println!("seed {seed}: {asked:?}"));
    (ended.len(), ended.len() - wrong.count(), took)
}

/// With frames lost and connections broken, lives are taken for deaths; nobody's key has two
/// owners all the same, and all is well afterwards.
#[test]
fn losses_and_broken_connections_do_no_lasting_harm() {
    let count = std::env::var("MANYHANDS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    for seed in 10_000..10_000 + count {
        let mut rings = Rings::grown(seed, small(), 16);
        rings.conditions.loss = 30;
        for _ in 0..40 {
            let alive = rings.alive();
            let some = |rings: &mut Rings| alive[rings.rng.below(alive.len() as u64) as usize];
            let (one, other) = (some(&mut rings), some(&mut rings));
            match rings.rng.below(4) {
                0 if one != other => rings.cut_link(one, other),
                1 if alive.len() < 30 => drop(rings.join()),
                2 => {
                    let order = rings.in_order(RingId::NODES);
                    let at = rings.rng.below(order.len() as u64) as usize;
                    rings.cut_link(order[at], order[(at + 1) % order.len()]);
                }
                _ => {}
            }
            let pause = rings.rng.below(4000);
            rings.run(Duration::from_millis(pause));
            let wrong = rings.check(RingId::NODES, false);
            let two = wrong.iter().filter(|wrong| wrong.contains("both owned"));
            assert_eq!(two.count(), 0, "seed {seed}: {wrong:?}");
        }
        rings.conditions = Conditions::default();
        rings.run(30 * SECOND);
        rings.settle(WELL);
    }
}
