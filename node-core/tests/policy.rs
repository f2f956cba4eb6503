//! A donor's policy: decided by the hour, the battery, the load; refused where it contradicts itself.

use node_core::NodeId;
use node_core::address::Ip;
use node_core::trust::policy::{
    Asking, Conditions, Contradiction, Day, Hours, Policy, Reason, Rejection, Week,
};

/// A Tuesday noon on a server that knows nothing of batteries or keys.
fn noon() -> Conditions {
    Conditions {
        day: Day::Tuesday,
        minute: 12 * 60,
        processors: 8,
        others_cpu_pct: None,
        no_input_minutes: None,
        on_battery: None,
        charge_pct: None,
        memory_bytes: None,
        disk_bytes: None,
        disk_free_bytes: None,
    }
}

fn at(day: Day, hour: u16, minute: u16) -> Conditions {
    Conditions { day, minute: hour * 60 + minute, ..noon() }
}

fn reasons(policy: &Policy, now: &Conditions) -> Vec<String> {
    let decision = policy.decide(now);
    assert_eq!(decision.reasons.is_empty(), decision.slots > 0, "nothing stops without a reason");
    decision.reasons.iter().map(Reason::to_string).collect()
}

#[test]
fn the_defaults_contradict_nothing_and_use_a_server_whole() {
    let policy = Policy::default();
    assert_eq!(policy.check(), []);
    let decision = policy.decide(&noon());
    assert_eq!((decision.slots, decision.cpu_pct), (8, 100));
    assert_eq!(
        (decision.memory_bytes, decision.disk_bytes),
        (None, None),
        "what is not known is not guessed"
    );
    let busy = Conditions { others_cpu_pct: Some(100.0), ..noon() };
    assert!(reasons(&policy, &busy).is_empty(), "whoever else computes has the higher priority anyway");
}

#[test]
fn a_missing_battery_is_not_read_as_an_empty_one() {
    let policy = Policy::default();
    assert!(reasons(&policy, &noon()).is_empty());
    let plugged = Conditions { on_battery: Some(false), charge_pct: Some(5.0), ..noon() };
    assert!(reasons(&policy, &plugged).is_empty());
    let on_battery = Conditions { on_battery: Some(true), charge_pct: Some(95.0), ..noon() };
    assert_eq!(reasons(&policy, &on_battery), ["it runs on its battery (run_on_batteries = false)"]);
    let willing = Policy { run_on_batteries: true, ..policy };
    assert!(reasons(&willing, &on_battery).is_empty());
    let low = Conditions { charge_pct: Some(89.0), ..on_battery };
    assert_eq!(reasons(&willing, &low), ["its battery is at 89 % (battery_charge_min_pct = 90)"]);
}

#[test]
fn nights_reach_over_midnight_and_begin_on_their_own_day() {
    let nights = Policy { start_hour: 22.0, end_hour: 6.5, ..Policy::default() };
    assert!(reasons(&nights, &at(Day::Sunday, 22, 0)).is_empty());
    assert!(reasons(&nights, &at(Day::Monday, 6, 29)).is_empty());
    let words = "it is outside of its hours; they begin in 15 h 30 min";
    assert_eq!(reasons(&nights, &at(Day::Monday, 6, 30)), [words]);
    assert_eq!(reasons(&nights, &at(Day::Monday, 21, 59))[0], words.replace("15 h 30", "0 h 01"));

    // Not on Saturday: Friday's night ends on Saturday morning all the same.
    let days = Week([(Day::Saturday, Hours::None), (Day::Sunday, Hours::All)].into());
    let weekdays = Policy { days, ..nights };
    assert!(reasons(&weekdays, &at(Day::Saturday, 3, 0)).is_empty());
    assert_eq!(reasons(&weekdays, &at(Day::Saturday, 23, 0)).len(), 1);
    assert_eq!(reasons(&weekdays, &at(Day::Sunday, 3, 0)).len(), 0);
    assert_eq!(weekdays.days.wait(Day::Saturday, 7 * 60, Hours::None), Some(17 * 60));
}

#[test]
fn hours_are_read_as_they_are_written() {
    for (text, hours) in [
        ("all", Hours::All),
        ("none", Hours::None),
        ("8:00-17:30", Hours::Between(480, 1050)),
        (" 22-6 ", Hours::Between(1320, 360)),
        ("0:00-24:00", Hours::All),
        ("12:00-24:00", Hours::Between(720, 1440)),
    ] {
        assert_eq!(text.parse(), Ok(hours), "{text}");
        assert_eq!(hours.to_string().parse(), Ok(hours), "{hours}");
    }
    for text in
        ["", "8", "8-", "25:00-3:00", "8:60-9:00", "24:01-3:00", "-1:00-3:00", "8:00-9:00-10:00", "ALL"]
    {
        let why = text.parse::<Hours>().unwrap_err().to_string();
        assert!(why.contains("are no hours: write"), "{text}: {why}");
    }
    assert_eq!(Hours::of(0.0, 24.0), Some(Hours::All));
    assert_eq!((Hours::of(-1.0, 3.0), Hours::of(f64::NAN, 3.0), Hours::of(1.0, 24.5)), (None, None, None));
}

#[test]
fn somebody_at_the_keys_gets_what_the_policy_leaves_them() {
    let policy = Policy {
        max_ncpus_pct: 25.0,
        niu_max_ncpus_pct: Some(100.0),
        cpu_usage_limit: 40.0,
        niu_cpu_usage_limit: Some(100.0),
        suspend_cpu_usage: 25.0,
        ..Policy::default()
    };
    let with = |minutes, load| Conditions {
        no_input_minutes: Some(minutes),
        others_cpu_pct: Some(load),
        memory_bytes: Some(1 << 30),
        ..noon()
    };
    let used = policy.decide(&with(1.0, 20.0));
    assert_eq!((used.slots, used.cpu_pct, used.memory_bytes), (2, 40, Some(1 << 29)));
    let unused = policy.decide(&with(3.0, 20.0));
    assert_eq!((unused.slots, unused.cpu_pct), (8, 100));
    assert_eq!(
        reasons(&policy, &with(1.0, 26.0)),
        ["other programs take 26 % of its processors (suspend_cpu_usage = 25)"]
    );
    let patient = Policy { suspend_cpu_usage: 0.0, ..policy.clone() };
    assert!(reasons(&patient, &with(1.0, 100.0)).is_empty(), "0 is no limit");
    let polite = Policy { run_if_user_active: false, suspend_if_no_recent_input: 60.0, ..policy };
    assert!(reasons(&polite, &with(1.0, 0.0))[0].starts_with("somebody used it 1 min ago"));
    assert!(reasons(&polite, &with(61.0, 0.0))[0].starts_with("nobody has used it for 61 min"));
    assert!(reasons(&polite, &with(30.0, 0.0)).is_empty());
    let one = Conditions { processors: 1, ..with(1.0, 0.0) };
    assert_eq!(patient.decide(&one).slots, 1, "a quarter of one processor is still a slot");
}

#[test]
fn space_is_the_least_of_its_bounds() {
    let of = |policy: Policy| {
        let disk =
            Conditions { disk_bytes: Some(100_000_000_000), disk_free_bytes: Some(20_000_000_000), ..noon() };
        policy.decide(&disk).disk_bytes
    };
    let policy = Policy::default();
    assert_eq!(of(policy.clone()), Some(19_000_000_000), "a gigabyte stays free");
    assert_eq!(of(Policy { disk_max_used_pct: 10.0, ..policy.clone() }), Some(10_000_000_000));
    assert_eq!(of(Policy { disk_max_used_gb: Some(2.5), ..policy.clone() }), Some(2_500_000_000));
    assert_eq!(of(Policy { disk_min_free_gb: 30.0, ..policy.clone() }), Some(0));
    assert_eq!(of(Policy { share_space: false, ..policy }), Some(0));
}

#[test]
fn what_contradicts_itself_is_refused_with_a_message() {
    let good = Policy::default();
    let never = Week(Day::ALL.map(|day| (day, Hours::None)).into());
    let node = NodeId([7; 32]);
    for (policy, words) in [
        (Policy { days: never.clone(), ..good.clone() }, "nothing would ever run"),
        (Policy { start_hour: 25.0, ..good.clone() }, "hours are from 0 to 24"),
        (
            Policy { max_ncpus_pct: 0.0, ..good.clone() },
            "max_ncpus_pct is 0: it is a percentage, from 1 to 100",
        ),
        (Policy { cpu_usage_limit: f64::NAN, ..good.clone() }, "cpu_usage_limit is NaN"),
        (Policy { niu_cpu_usage_limit: Some(101.0), ..good.clone() }, "niu_cpu_usage_limit is 101"),
        (Policy { battery_charge_min_pct: -1.0, ..good.clone() }, "battery_charge_min_pct is -1"),
        (Policy { disk_max_used_gb: Some(f64::INFINITY), ..good.clone() }, "nor without end"),
        (
            Policy { run_if_user_active: false, suspend_if_no_recent_input: 3.0, ..good.clone() },
            "so nothing would ever run; make the second the longer one",
        ),
        (Policy { marginal_cost: 0, ..good.clone() }, "1 is the least"),
        (Policy { marginal_cost: 9, min_price: 8, ..good.clone() }, "at a loss"),
        (Policy { gift_share_pct: 10.0, min_price: 8, ..good.clone() }, "keeps slots for gifts"),
        (Policy { share_cycles: false, share_space: false, ..good.clone() }, "nothing is shared"),
        (Policy { max_task_seconds: Some(0), ..good.clone() }, "would take no task at all"),
        (Policy { refused_peers: vec![node; 10_001], ..good.clone() }, "10001 entries"),
        (
            Policy { allowed_submitters: vec![node], refused_peers: vec![node], ..good.clone() },
            "is both in allowed_submitters and in refused_peers",
        ),
    ] {
        let found: Vec<String> = policy.check().iter().map(Contradiction::to_string).collect();
        assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:?}");
    }
    // A node that only keeps space may have no hours.
    assert_eq!(Policy { days: never, share_cycles: false, ..good }.check(), []);
}

#[test]
fn work_is_taken_from_whom_the_donor_wants_and_for_what_it_costs() {
    let asking = Asking {
        submitter: NodeId([1; 32]),
        from: Some(Ip::from(core::net::IpAddr::from([10, 1, 2, 3]))),
        price: 5,
        time_us: 60_000_000,
        memory_bytes: 64 << 20,
    };
    let policy = Policy {
        refused_addresses: vec!["10.9.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()],
        allowed_submitters: vec![NodeId([1; 32])],
        max_task_seconds: Some(60),
        max_task_memory_mb: Some(64),
        min_price: 5,
        marginal_cost: 5,
        ..Policy::default()
    };
    assert_eq!(policy.check(), []);
    assert_eq!(policy.admit(&asking), Ok(()));
    let there = Ip::from(core::net::IpAddr::from([10, 9, 255, 1]));
    for (asking, why) in [
        (Asking { from: Some(there), ..asking }, Rejection::Peer),
        (Asking { submitter: NodeId([2; 32]), ..asking }, Rejection::Submitter),
        (Asking { time_us: 60_000_001, ..asking }, Rejection::Time { asked: 61, most: 60 }),
        (Asking { memory_bytes: (64 << 20) + 1, ..asking }, Rejection::Memory { asked: 65, most: 64 }),
        (Asking { price: 4, ..asking }, Rejection::Price { price: 4, least: 5 }),
    ] {
        assert_eq!(policy.admit(&asking), Err(why));
    }
    let open = Policy { refused_peers: vec![NodeId([1; 32])], ..Policy::default() };
    assert_eq!(open.admit(&asking), Err(Rejection::Peer));
}

#[test]
fn paid_work_goes_first_and_gifts_keep_their_share() {
    let policy = Policy { gift_share_pct: 25.0, ..Policy::default() };
    assert!(policy.goes_first(7, 6, 0, 8), "what pays more");
    assert!(policy.goes_first(0, 7, 1, 8), "one of eight slots does gifts, two are kept for them");
    assert!(policy.goes_first(7, 0, 2, 8) && !policy.goes_first(0, 7, 2, 8));
    let selling = Policy::default();
    assert!(selling.goes_first(1, 0, 0, 8));
}

#[test]
fn what_ends_a_pause_is_told_with_its_day_and_minute() {
    let nights = Policy { start_hour: 22.0, end_hour: 6.5, ..Policy::default() };
    let none = |day| (day, Hours::None);
    let until = |policy: &Policy, now: &Conditions| {
        let decision = policy.decide(now);
        let told = decision.reasons.iter().map(|reason| reason.until(policy, now)).collect::<Vec<_>>();
        (told.join("; "), decision.wait_s())
    };
    let wait = |told: &str, hours: u64| (told.to_owned(), Some(hours * 3600));
    assert_eq!(until(&nights, &noon()), wait("its hours begin, today at 22:00 local time", 10));
    let rest = Policy { days: Week([none(Day::Tuesday)].into()), ..nights.clone() };
    assert_eq!(until(&rest, &noon()), wait("its hours begin, tomorrow at 22:00 local time", 34));
    let two = Policy { days: Week([none(Day::Tuesday), none(Day::Wednesday)].into()), ..nights.clone() };
    assert_eq!(until(&two, &noon()), wait("its hours begin, Thursday at 22:00 local time", 58));
    let on_battery = Conditions { on_battery: Some(true), ..noon() };
    let (told, wait) = until(&nights, &on_battery);
    assert!(told.ends_with("it is plugged in, or you say run_on_batteries = true"), "{told}");
    assert_eq!(wait, None, "time alone does not plug it in");
}
