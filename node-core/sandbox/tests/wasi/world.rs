//! Arguments, environment, time, randomness, and the calls that lead nowhere.

use crate::support::{FREE, Guest, errno, task_with};
use sandbox::wasi::{BadTask, FUNCTIONS, Halt, Host};
use sandbox::{File, Task};

fn strings(guest: &mut Guest, sizes: &str, get: &str) -> Vec<String> {
    guest.ok(sizes, &[0, 4]);
    let (count, bytes) = (guest.u32(0), guest.u32(4));
    guest.ok(get, &[FREE.into(), (FREE + 4096).into()]);
    assert_eq!(guest.u32(FREE), FREE + 4096);
    let text = String::from_utf8(guest.bytes(FREE + 4096, bytes).to_vec()).unwrap();
    let strings: Vec<String> = text.split_terminator('\0').map(String::from).collect();
    assert_eq!(strings.len() as u32, count);
    strings
}

#[test]
fn arguments_come_behind_the_programs_name() {
    let task = Task { arguments: vec!["one".into(), "".into(), "zwei ä".into()], ..Task::default() };
    let found = strings(&mut Guest::new(&task), "args_sizes_get", "args_get");
    assert_eq!(found, ["task", "one", "", "zwei ä"]);
}

#[test]
fn the_environment_is_the_tasks_own() {
    let task =
        Task { environment: vec![("A".into(), "1".into()), ("B".into(), "x=y".into())], ..Task::default() };
    let found = strings(&mut Guest::new(&task), "environ_sizes_get", "environ_get");
    assert_eq!(found, ["A=1", "B=x=y"]);
    let mut guest = Guest::empty();
    guest.ok("environ_sizes_get", &[0, 4]);
    assert_eq!((guest.u32(0), guest.u32(4)), (0, 0));
}

#[test]
fn a_task_that_cannot_be_says_which_part_and_why() {
    let bad = |task: &Task| Host::new(task).expect_err("a bad task");
    let nul = Task { arguments: vec!["ok".into(), "a\0b".into()], ..Task::default() };
    assert_eq!(bad(&nul), BadTask::NulInArgument { index: 2 });
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0")] {
        let task = Task { environment: vec![(name.into(), value.into())], ..Task::default() };
        assert!(matches!(bad(&task), BadTask::Environment { .. }), "{name:?} {value:?}");
    }
    for path in ["", "/abs", "a//b", "a/", "..", "a/../b", ".", "a\0", &"n".repeat(256), &"a/".repeat(3000)] {
        assert!(matches!(bad(&task_with(&[(path, "")])), BadTask::File { .. }), "{path:?}");
    }
    let twice = bad(&task_with(&[("a", ""), ("a", "")])).to_string();
    assert!(twice.contains("\"a\"") && twice.contains("another input file"), "{twice}");
    assert!(Host::new(&task_with(&[("a", ""), ("a/b", "")])).is_err(), "a file as a directory");
    assert!(Host::new(&task_with(&[("a/b", ""), ("a", "")])).is_err(), "a directory as a file");
    let many = (0..70_000).map(|i| File { path: format!("f{i}"), data: Default::default() }).collect();
    assert!(Host::new(&Task { files: many, ..Task::default() }).is_err());
}

#[test]
fn time_moves_by_readings_and_sleeps_only() {
    let mut guest = Guest::empty();
    let read = |guest: &mut Guest, clock| {
        guest.ok("clock_time_get", &[clock, 0, 0]);
        guest.u64(0)
    };
    let first = read(&mut guest, 0);
    assert_eq!(first / 1_000_000_000, 1_577_836_800, "every task begins at the same moment");
    let monotonic = read(&mut guest, 1);
    assert!(read(&mut guest, 1) > monotonic);
    guest.ok("clock_res_get", &[1, 0]);
    assert!(guest.u64(0) > 0);
    assert_eq!(guest.call("clock_time_get", &[9, 0, 0]), errno::INVAL);
    assert_eq!(guest.call("clock_res_get", &[4, 0]), errno::INVAL);
}

/// One subscription to a clock.
fn subscription(userdata: u64, clock: u32, timeout: u64, absolute: bool) -> [u8; 48] {
    let mut s = [0; 48];
    s[..8].copy_from_slice(&userdata.to_le_bytes());
    s[16..20].copy_from_slice(&clock.to_le_bytes());
    s[24..32].copy_from_slice(&timeout.to_le_bytes());
    s[40] = absolute.into();
    s
}

fn to_fd(userdata: u64, tag: u8, fd: u32) -> [u8; 48] {
    let mut s = subscription(userdata, fd, 0, false);
    s[8] = tag;
    s
}

/// Userdata, error and bytes of the events that come first.
fn poll(guest: &mut Guest, subscriptions: &[[u8; 48]]) -> Vec<(u64, u8, u64)> {
    guest.put(FREE, &subscriptions.concat());
    guest.ok("poll_oneoff", &[FREE.into(), 1024, subscriptions.len() as u64, 0]);
    let event = |i: u32| {
        (guest.u64(1024 + 32 * i), guest.memory[1024 + 32 * i as usize + 8], guest.u64(1024 + 32 * i + 16))
    };
    (0..guest.u32(0)).map(event).collect()
}

#[test]
fn a_sleep_takes_no_time_but_passes_it() {
    let mut guest = Guest::empty();
    let hour = 3_600_000_000_000;
    assert_eq!(poll(&mut guest, &[subscription(7, 1, hour, false)]), [(7, 0, 0)]);
    guest.ok("clock_time_get", &[1, 0, 0]);
    let now = guest.u64(0);
    assert!((hour..hour + 1_000_000).contains(&now), "{now}");
    poll(&mut guest, &[subscription(7, 1, 2 * hour, true)]);
    guest.ok("clock_time_get", &[1, 0, 0]);
    assert!((2 * hour..2 * hour + 1_000_000).contains(&guest.u64(0)));
    poll(&mut guest, &[subscription(7, 0, u64::MAX, false)]);
    guest.ok("clock_time_get", &[0, 0, 0]);
    assert_eq!(guest.u64(0), u64::MAX, "time ends, and does not begin again");
}

#[test]
fn of_several_sleeps_the_shortest_ends() {
    let mut guest = Guest::empty();
    let events = poll(&mut guest, &[subscription(1, 1, 500, false), subscription(2, 1, 100, false)]);
    assert_eq!(events, [(2, 0, 0)]);
}

#[test]
fn files_are_ready_before_any_timeout() {
    let mut guest = Guest::new(&Task { stdin: "12345".into(), ..Task::default() });
    let events =
        poll(&mut guest, &[subscription(1, 1, 100, false), to_fd(2, 1, 0), to_fd(3, 2, 1), to_fd(4, 1, 77)]);
    assert_eq!(events, [(2, 0, 5), (3, 0, 65_536), (4, errno::BADF as u8, 0)]);
    guest.ok("clock_time_get", &[1, 0, 0]);
    assert!(guest.u64(0) < 100_000, "nobody slept");
    assert_eq!(guest.call("poll_oneoff", &[FREE.into(), 1024, 0, 0]), errno::INVAL);
}

#[test]
fn randomness_comes_from_the_seed() {
    let draw = |seed, parts: &[u64]| {
        let mut guest = Guest::new(&Task { seed, ..Task::default() });
        let mut at = u64::from(FREE);
        for len in parts {
            guest.ok("random_get", &[at, *len]);
            at += len;
        }
        guest.bytes(FREE, 4000).to_vec()
    };
    let one = draw(1, &[4000]);
    assert_eq!(one, draw(1, &[4000]));
    assert_ne!(one, draw(2, &[4000]));
    assert!(one.chunks(8).all(|chunk| chunk != [0; 8]));
    // Worked out by another implementation of SplitMix64 and xoshiro256**.
    assert_eq!(one[..16], [197, 16, 199, 15, 109, 175, 242, 179, 234, 76, 54, 71, 150, 85, 59, 133]);
}

#[test]
fn exit_ends_the_task_with_its_code() {
    assert_eq!(Guest::empty().try_call("proc_exit", &[42]), Err(Halt::Exit(42)));
}

#[test]
fn there_is_no_network_and_no_signal() {
    let mut guest = Guest::empty();
    assert_eq!(guest.call("sock_shutdown", &[0, 1]), errno::NOTSOCK);
    assert_eq!(guest.call("sock_recv", &[99, 0, 0, 0, 0, 0]), errno::BADF);
    assert_ne!(guest.call("proc_raise", &[6]), 0);
    guest.ok("sched_yield", &[]);
}

#[test]
fn a_libc_finds_the_root_directory() {
    let mut guest = Guest::empty();
    guest.ok("fd_prestat_get", &[3, 0]);
    assert_eq!((guest.u32(0), guest.u32(4)), (0, 1));
    guest.ok("fd_prestat_dir_name", &[3, 100, 1]);
    assert_eq!(guest.bytes(100, 1), b"/");
    for fd in [0, 1, 2, 4, 99] {
        assert_eq!(guest.call("fd_prestat_get", &[fd, 0]), errno::BADF, "anything else ends a libc");
    }
}

#[test]
fn all_of_preview_1_is_there() {
    assert_eq!(FUNCTIONS.len(), 46);
    assert!(FUNCTIONS.iter().all(|f| f.returns == (f.name != "proc_exit")));
}
