use super::*;
use node_core::Command;

const MEMORY: u64 = 512 << 20;

fn set(of: &[(&str, Setting)]) -> Vec<(String, Setting)> {
    of.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn n(value: f64) -> Setting {
    Setting::Number(value)
}

fn text(value: &str) -> Setting {
    Setting::Text(value.into())
}

/// A Wednesday.
fn at(hour: u32, minute: u32) -> Clock {
    Clock::new(3, hour, minute, 0.0)
}

fn tab(of: &[(&str, Setting)]) -> Tab {
    Tab::new(set(of), Known::default(), 2, 4, MEMORY)
}

/// Commands to the node, abbreviated.
fn told(acts: &Acts) -> Vec<String> {
    let word = |command: &Command| match command {
        Command::SetDonating(lends) => format!("lend {lends}"),
        Command::SetSlots(slots) => format!("slots {slots}"),
        Command::Terms { memory_bytes: MEMORY, .. } => "terms".into(),
        Command::Measured { speed } => format!("speed {speed}"),
        Command::Sell(goods) => format!("sell {} of {} at {}", goods.units, goods.capacity, goods.cost.0),
        other => format!("{other:?}"),
    };
    acts.commands.iter().map(word).chain(acts.share.map(|share| format!("share {share}"))).collect()
}

#[test]
fn without_settings_a_tab_gives_what_its_slider_says() {
    let mut tab = tab(&[]);
    let acts = tab.act(at(12, 0));
    assert_eq!(told(&acts), ["terms", "slots 2", "share 100"]);
    let free = r#"{"type":"policy","works":true,"reasons":[],"wait_s":null,"unknown":[],"faults":[]}"#;
    assert_eq!(acts.message.as_deref(), Some(free));
    let same = tab.act(at(12, 1));
    assert!(told(&same).is_empty() && same.message.is_none(), "nothing new, nothing told: {same:?}");
    tab.give(4);
    assert_eq!(told(&tab.act(at(12, 2))), ["slots 4"]);
}

#[test]
fn outside_of_its_hours_it_lends_nothing_and_says_until_when() {
    let mut tab = tab(&[("start_hour", n(22.5)), ("end_hour", n(6.0)), ("cpu_usage_limit", n(50.0))]);
    let acts = tab.act(at(21, 30));
    assert_eq!(told(&acts), ["terms", "slots 2", "lend false", "share 50"]);
    let message = acts.message.expect("the page is told");
    assert!(
        message.contains(r#""reason":"it is outside of its hours; they begin in 1 h 00 min""#),
        "{message}"
    );
    assert!(message.contains(r#""until":"its hours begin, today at 22:30 local time""#), "{message}");
    assert!(message.contains(r#""wait_s":3600,"#), "{message}");
    let later = tab.act(at(21, 31));
    assert!(told(&later).is_empty());
    assert!(later.message.expect("the wait is shorter").contains(r#""wait_s":3540,"#));
    assert_eq!(told(&tab.act(at(22, 30))), ["lend true"]);
    tab.set(set(&[]));
    assert_eq!(told(&tab.act(at(22, 31))), ["terms", "share 100"]);
}

#[test]
fn a_battery_stops_it_when_the_donor_says_so_and_only_then() {
    let mut tab = tab(&[("run_on_batteries", Setting::Bool(true)), ("battery_charge_min_pct", n(40.0))]);
    assert!(!told(&tab.act(at(12, 0))).contains(&"lend false".into()), "no battery is none to spare");
    let mut on = |charge| {
        tab.know(Known { on_battery: Some(true), charge_pct: Some(charge), ..Known::default() });
        told(&tab.act(at(12, 0)))
    };
    assert!(on(41.0).is_empty());
    assert_eq!(on(39.0), ["lend false"]);
    assert_eq!(on(40.0), ["lend true"]);
    tab.set(set(&[]));
    assert_eq!(told(&tab.act(at(12, 0))), ["terms", "lend false"], "by default it is spared");
}

#[test]
fn who_wants_the_computer_for_himself_has_it_where_the_browser_tells() {
    let mut tab = tab(&[("run_if_user_active", Setting::Bool(false)), ("idle_time_to_run", n(2.0))]);
    let blind = tab.act(Clock::new(3, 12, 0, 0.0));
    assert!(blind.message.expect("told").contains("does not say whether somebody uses the computer"));
    let mut since = |since: f64, now: f64| {
        tab.know(Known { quiet_since_ms: Some(since), ..Known::default() });
        told(&tab.act(Clock::new(3, 12, 0, now)))
    };
    assert_eq!(since(f64::INFINITY, 1000.0), ["lend false"], "somebody is at it");
    assert!(since(0.0, 119_000.0).is_empty());
    assert_eq!(since(0.0, 120_000.0), ["lend true"]);
}

#[test]
fn what_is_no_setting_is_named_and_the_others_count() {
    let (policy, faults) = read(set(&[
        ("start_hour", text("evening")),
        ("run_on_batteries", Setting::Bool(true)),
        ("start_huor", n(3.0)),
        ("max_task_seconds", n(1.5)),
        ("days", Setting::Group(set(&[("monday", text("later"))]))),
        ("refused_peers", Setting::List(vec![text("n-1")])),
        ("max_task_memory_mb", Setting::Nothing),
    ]));
    assert!(policy.run_on_batteries);
    assert_eq!((policy.start_hour, policy.max_task_memory_mb), (0.0, None));
    let keys: Vec<_> = faults.iter().map(|fault| fault.key.as_str()).collect();
    assert_eq!(keys, ["start_hour", "start_huor", "max_task_seconds", "days", "refused_peers"]);
    assert!(faults[0].message.contains("evening"), "{faults:?}");
    assert!(faults[3].message.contains("\"later\" are no hours"), "{faults:?}");
}

#[test]
fn everything_that_the_page_can_say_is_understood() {
    let id = "ab".repeat(32);
    let (policy, faults) = read(set(&[
        ("share_cycles", Setting::Bool(false)),
        ("start_hour", n(22.0)),
        ("end_hour", n(6.3333)),
        ("days", Setting::Group(set(&[("saturday", text("all")), ("sunday", text("none"))]))),
        ("battery_charge_min_pct", n(20.0)),
        ("max_task_seconds", n(600.0)),
        ("max_task_memory_mb", n(128.0)),
        ("refused_peers", Setting::List(vec![text(&id)])),
    ]));
    assert_eq!(faults, []);
    assert_eq!((policy.start_hour, policy.days.0.len(), policy.refused_peers.len()), (22.0, 2, 1));
    assert_eq!((policy.max_task_seconds, policy.max_task_memory_mb), (Some(600), Some(128)));
}

#[test]
fn what_contradicts_itself_counts_for_nothing_and_is_told_in_the_words_of_a_server() {
    let days = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let never = days.map(|day| (day, text("none")));
    let (policy, faults) = read(set(&[("max_task_seconds", n(60.0)), ("days", Setting::Group(set(&never)))]));
    assert_eq!(policy, Default::default());
    assert_eq!(faults[0].key, "days");
    assert!(faults[0].message.starts_with("the hours exclude every day"), "{faults:?}");
    let json = faults_json(&faults);
    assert!(json.starts_with(r#"[{"key":"days","message":"the hours exclude"#), "{json}");
}

#[test]
fn what_is_given_is_for_sale_at_the_donors_price_once_its_speed_is_known() {
    let mut tab = tab(&[
        ("marginal_cost", n(7.0)),
        ("cpu_usage_limit", n(50.0)),
        ("start_hour", n(8.0)),
        ("end_hour", n(20.0)),
    ]);
    assert!(!told(&tab.act(at(12, 0))).iter().any(|told| told.starts_with("sell")));
    tab.measured(1_000_000_000);
    assert_eq!(told(&tab.act(at(12, 0))), ["speed 500000000", "sell 2 of 500000000 at 7"]);
    assert!(told(&tab.act(at(12, 1))).is_empty(), "it is said once");
    assert_eq!(told(&tab.act(at(20, 0))), ["lend false", "sell 0 of 500000000 at 7"]);
    tab.set(set(&[("marginal_cost", n(7.0)), ("min_price", n(9.0))]));
    assert_eq!(
        told(&tab.act(at(20, 0))),
        ["terms", "lend true", "speed 1000000000", "sell 2 of 1000000000 at 9", "share 100"]
    );
}
