//! Seeds of the swarm: a few new ones each time the tests run, and all that once failed.

use simulator::experiment::{self, Quiet};
use simulator::scenario::{Int, Scenario};
use simulator::swarm;

/// Seeds that once failed, and with what.
const ONCE_FAILED: &str = include_str!("../../scenarios/seeds.txt");

#[test]
fn seeds_that_once_failed_pass() {
    let seeds: Vec<u64> =
        ONCE_FAILED.lines().filter_map(|line| line.split('#').next()?.trim().parse().ok()).collect();
    assert!(!seeds.is_empty(), "the list is read");
    let failed = seeds.into_iter().filter_map(|seed| Some((seed, swarm::live(seed).err()?)));
    let failed: Vec<String> = failed.map(|(seed, wrong)| format!("seed {seed}: {wrong}")).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn small_networks_come_through_whatever_happens_to_them() {
    // MANYHANDS_SEEDS=N runs more; `simulator --swarm N --of tree` runs them side by side.
    let count = std::env::var("MANYHANDS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    for seed in 0..count {
        if let Err(wrong) = swarm::live(seed) {
            panic!("seed {seed}: {wrong}\nsimulator --swarm 1 --seed {seed} --of tree runs it alone");
        }
    }
}

#[test]
fn two_runs_of_a_seed_are_the_same_event_for_event() {
    let text = include_str!("../../scenarios/tree-discovery.toml");
    let mut scenario = Scenario::read(text).expect("the scenario is in order");
    scenario.nodes = Int(60);
    let run = |seed| {
        let report = experiment::run(&scenario, seed, &mut Quiet);
        (report.trace_hash, report.events, report.json())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}
