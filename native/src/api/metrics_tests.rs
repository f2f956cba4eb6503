use super::*;
use node_core::ids::{JobId, NodeId};

fn job(state: JobState) -> JobView {
    JobView {
        id: JobId([1; 16]),
        name: "not in any label".into(),
        state,
        reason: String::new(),
        units: 10,
        waiting: 3,
        placed: 2,
        done: 4,
        failed: 1,
        held: 0,
        duplicates: 5,
        lost_placements: 6,
        cpu_us: 2_500_000,
        submitted_ms: 0,
        ended_ms: None,
        cost: None,
        by_node: Vec::new(),
    }
}

fn node(platform: Platform) -> NodeView {
    NodeView {
        id: NodeId([1; 32]),
        name: String::new(),
        platform,
        gateway: false,
        guest: false,
        over: None,
        via: None,
        me: false,
        slots: 4,
        free: 1,
        held: 0,
        units_done: 0,
        cpu_us: 0,
        silent_us: 0,
    }
}

fn page(sample: Sample) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(sample));
    let mut page = String::new();
    text::encode(&mut page, &registry).unwrap();
    page
}

#[test]
fn jobs_units_and_nodes_are_counted() {
    let jobs = [job(JobState::Running), job(JobState::Running), job(JobState::Cancelled)];
    let nodes = [node(Platform::Native), node(Platform::Browser), node(Platform::Browser)];
    let page = page(Sample::of(&jobs, &nodes, true));
    for line in [
        "manyhands_jobs{state=\"running\"} 2",
        "manyhands_jobs{state=\"cancelled\"} 1",
        "manyhands_jobs{state=\"done\"} 0",
        // Those of the cancelled job do not wait any more.
        "manyhands_units{state=\"waiting\"} 6",
        "manyhands_units{state=\"placed\"} 4",
        "manyhands_units_done_total 12",
        "manyhands_units_failed_total 3",
        "manyhands_placements_lost_total 18",
        "manyhands_results_duplicate_total 15",
        "manyhands_units_cpu_seconds_total 7.5",
        "manyhands_nodes{platform=\"native\"} 1",
        "manyhands_nodes{platform=\"browser\"} 2",
        "manyhands_slots{state=\"free\"} 3",
        "manyhands_slots{state=\"busy\"} 9",
        "manyhands_ready 1",
        "# TYPE manyhands_jobs gauge",
        "# TYPE manyhands_units_done counter",
    ] {
        assert!(page.lines().any(|l| l == line), "{line} is missing in\n{page}");
    }
    assert!(page.ends_with("# EOF\n"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_measures_itself() {
    let page = page(Sample::default());
    let value = |name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    assert!((1e6..1e12).contains(&value("process_resident_memory_bytes ")));
    assert!(value("process_cpu_seconds_total ") >= 0.0);
}
