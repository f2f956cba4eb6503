//! Every scenario gives what it gave: drift beyond the margins stated beside it fails.

use simulator::experiment::{self, Quiet};
use simulator::report::Baseline;
use simulator::scenario::{Int, Scenario};
use std::path::{Path, PathBuf};

fn scenarios() -> Vec<PathBuf> {
    let files = std::fs::read_dir("../scenarios").expect("there are scenarios");
    let files = files.flatten().map(|file| file.path());
    let mut all: Vec<PathBuf> =
        files.filter(|path| path.to_string_lossy().ends_with(".baseline.toml")).collect();
    all.sort();
    all
}

fn compare(name: &str) {
    let beside = scenarios().into_iter().find(|path| path.ends_with(format!("{name}.baseline.toml")));
    let beside = beside.unwrap_or_else(|| panic!("{name} has a baseline beside it"));
    let read = |path: &Path| std::fs::read_to_string(path).expect("it can be read");
    let baseline = Baseline::read(&read(&beside)).expect("the baseline is in order");
    let path = beside.with_file_name(format!("{name}.toml"));
    let mut scenario = Scenario::read(&read(&path)).expect("the scenario is in order");
    scenario.nodes = Int(baseline.nodes as u64);
    let report = experiment::run(&scenario, baseline.seed, &mut Quiet);
    let drift = baseline.compare(&report);
    let how = "if that is meant, write it down: simulator tests/scenarios/NAME.toml --write-baseline";
    assert!(drift.is_empty(), "{}\n{how}", drift.join("\n"));
}

#[test]
fn discovery_is_as_it_was() {
    compare("tree-discovery");
}

#[test]
fn random_walks_are_as_they_were() {
    compare("random-walks");
}

#[test]
fn traffic_is_as_it_was() {
    compare("tree-traffic");
}

#[test]
fn recovery_is_as_it_was() {
    compare("tree-churn");
}

#[test]
fn a_million_in_small_is_as_it_was() {
    compare("tree-million");
}

#[test]
fn lookups_on_the_ring_are_as_they_were() {
    compare("ring-lookup");
}

#[test]
fn markets_are_as_they_were() {
    compare("market");
}

#[test]
fn markets_of_donors_are_as_they_were() {
    compare("market-churn");
}

#[test]
fn guests_are_found_and_reached_as_they_were() {
    compare("guests");
}

#[test]
fn jobs_wait_for_nodes_as_they_did() {
    compare("matchmaking");
}

#[test]
fn submitters_share_nodes_as_they_did() {
    compare("fairness");
}

/// A scenario without a baseline: it measures the memory of the process, which tests share.
const MEASURED_ONLY: &[&str] = &["whole"];

#[test]
fn every_scenario_has_a_baseline_that_is_compared() {
    let compared = [
        "fairness",
        "guests",
        "market-churn",
        "market",
        "matchmaking",
        "random-walks",
        "ring-lookup",
        "tree-churn",
        "tree-discovery",
        "tree-million",
        "tree-traffic",
    ];
    let mut known = [&compared[..], MEASURED_ONLY].concat();
    known.sort();
    let files = std::fs::read_dir("../scenarios").expect("there are scenarios");
    let names = files.flatten().filter_map(|file| file.file_name().into_string().ok());
    let is_scenario = |name: &String| name.ends_with(".toml") && !name.ends_with(".baseline.toml");
    let mut names: Vec<String> = names.filter(is_scenario).collect();
    names.sort_by_key(|name| name.trim_end_matches(".toml").to_string());
    let names: Vec<&str> = names.iter().map(|name| name.trim_end_matches(".toml")).collect();
    assert_eq!(names, known);
    let with_baseline: Vec<PathBuf> = scenarios();
    assert_eq!(with_baseline.len(), compared.len());
}
