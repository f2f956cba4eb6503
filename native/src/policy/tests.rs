use super::*;
use node_core::trust::policy::Day;

const GIVEN: Given = Given { slots: 4, cpu_share: 100, memory_bytes: 2 << 30 };

/// A Friday noon on a server of four processors and 16 GiB.
fn noon() -> Conditions {
    Conditions {
        day: Day::Friday,
        minute: 12 * 60,
        processors: 4,
        others_cpu_pct: Some(3.0),
        no_input_minutes: None,
        on_battery: None,
        charge_pct: None,
        memory_bytes: Some(16 << 30),
        disk_bytes: None,
        disk_free_bytes: None,
    }
}

fn policy(text: &str) -> Policy {
    file::parse("policy.toml", text).unwrap()
}

fn measure(text: &str, now: &Conditions, given: &Given) -> Measure {
    Measure::of(now, &policy(text).decide(now), given)
}

fn explain(text: &str, now: &Conditions) -> View {
    let policy = policy(text);
    let decision = policy.decide(now);
    let done = Measure::of(now, &decision, &GIVEN);
    View::new(&policy, toml::Table::new(), now, &decision, done, Some(GIVEN.slots))
}

#[test]
fn without_a_policy_a_node_gives_what_it_was_told_to() {
    let done = measure("", &noon(), &GIVEN);
    assert_eq!(done, Measure { lends: true, slots: 4, cpu_share: 100, memory_bytes: 2 << 30 });
    // More slots than processors, if somebody asks for them.
    assert_eq!(measure("", &noon(), &Given { slots: 8, ..GIVEN }).slots, 8);
    let busy = Conditions { others_cpu_pct: Some(99.0), ..noon() };
    assert!(measure("", &busy, &GIVEN).lends, "tasks have the lowest priority: load alone stops nothing");
}

#[test]
fn shares_of_processors_and_of_their_time_are_bounds() {
    assert_eq!(measure("max_ncpus_pct = 50", &noon(), &GIVEN).slots, 2);
    assert_eq!(measure("max_ncpus_pct = 1", &noon(), &GIVEN).slots, 1);
    assert_eq!(measure("cpu_usage_limit = 30", &noon(), &GIVEN).cpu_share, 30);
    let careful = Given { cpu_share: 20, ..GIVEN };
    assert_eq!(measure("cpu_usage_limit = 30", &noon(), &careful).cpu_share, 20, "the lesser counts");
}

#[test]
fn little_memory_means_fewer_slots_before_it_means_small_ones() {
    let small = Conditions { memory_bytes: Some(1 << 30), ..noon() };
    // Half of it: room for two usual tasks.
    let done = measure("ram_max_used_idle_pct = 50\nram_max_used_busy_pct = 50", &small, &GIVEN);
    assert_eq!((done.slots, done.memory_bytes), (2, 256 << 20));
    let tiny = Conditions { memory_bytes: Some(64 << 20), ..noon() };
    assert_eq!(measure("", &tiny, &GIVEN).slots, 1);
}

#[test]
fn space_for_others_is_split_and_never_exceeded() {
    let usual = Bounds::default();
    let free = within(usual.clone(), None);
    assert_eq!((free.cache_bytes, free.kept_bytes), (usual.cache_bytes, usual.kept_bytes));
    for space in [0, 1, 1 << 20, 1 << 30, 1 << 40, u64::MAX] {
        let bounds = within(usual.clone(), Some(space));
        assert!(bounds.cache_bytes + bounds.content_bytes + bounds.kept_bytes <= space, "{space}");
        assert!(bounds.kept_bytes_per_owner <= bounds.kept_bytes, "{space}");
        assert!(bounds.kept_bytes <= usual.kept_bytes && bounds.cache_bytes <= usual.cache_bytes);
    }
}

#[test]
fn why_and_until_when_is_said_in_words() {
    let night = explain("start_hour = 22\nend_hour = 6", &noon());
    assert!(!night.now.works);
    assert_eq!((night.now.slots, night.now.wait_s), (0, Some(10 * 3600)));
    let said = night.explanation();
    assert!(said.contains("not working now") && said.contains("today at 22:00"), "{said}");
    assert!(said.contains("works again in 10 h 00 min"), "{said}");
    let weekend = explain("start_hour = 9\nend_hour = 10\ndays = { saturday = 'none' }", &noon());
    assert!(weekend.explanation().contains("Sunday at 9:00"), "{}", weekend.explanation());
    let early = explain("start_hour = 9\nend_hour = 10", &noon());
    assert!(early.explanation().contains("tomorrow at 9:00"), "{}", early.explanation());

    let moving = Conditions { on_battery: Some(true), charge_pct: Some(50.0), ..noon() };
    let both = explain("start_hour = 22\nend_hour = 6", &moving);
    assert_eq!(both.now.wait_s, None, "time alone plugs nothing in");
    assert_eq!(both.now.reasons.len(), 2);
    let said = both.explanation();
    assert!(said.contains("plugged in") && said.contains("when none of these holds"), "{said}");
}

#[test]
fn what_cannot_be_known_is_told_to_who_asks_for_it() {
    assert!(explain("", &noon()).now.unknown.is_empty());
    let blind = explain("run_if_user_active = false", &noon());
    assert!(blind.now.works && blind.explanation().contains("only text terminals are seen"));
    let seen = Conditions { no_input_minutes: Some(1.0), ..noon() };
    let seen = explain("run_if_user_active = false", &seen);
    assert!(seen.now.unknown.is_empty());
    assert!(seen.explanation().contains("nobody has used it for 3 min"), "{}", seen.explanation());
}

#[test]
fn what_works_says_what_it_gives() {
    let said = explain("max_ncpus_pct = 50\ncpu_usage_limit = 40", &noon()).explanation();
    let gives = "working: 2 of 4 slots, 40 % of a processor and at most 2048 MiB for each task\n";
    assert_eq!(said, format!("{gives}paid work goes first, gifts have the rest\n"));
    let shared = explain("gift_share_pct = 20", &noon()).explanation();
    assert!(shared.contains("20 % stay for gifts"), "{shared}");
}
