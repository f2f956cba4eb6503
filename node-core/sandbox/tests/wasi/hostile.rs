//! A task that passes anything but what a libc would.

use crate::support::{CREATE, Guest, READ, WRITE, errno};
use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use sandbox::wasi::FUNCTIONS;
use sandbox::{Limits, Task};

#[test]
fn pointers_outside_of_memory_are_faults() {
    let mut guest = Guest::empty();
    let end = guest.memory.len() as u64;
    for at in [end, end - 1, u32::MAX.into(), u64::from(u32::MAX) - 7] {
        for (name, args) in [
            ("args_get", vec![at, 0]),
            ("args_get", vec![0, at]),
            ("clock_time_get", vec![0, 0, at]),
            ("random_get", vec![at, 8]),
            ("fd_write", vec![1, at, 1, 0]),
            ("fd_write", vec![1, 0, 1, at]),
            ("fd_read", vec![0, at, 1, 0]),
            ("fd_fdstat_get", vec![1, at]),
            ("fd_filestat_get", vec![1, at]),
            ("fd_prestat_get", vec![3, at]),
            ("fd_readdir", vec![3, at, 24, 0, 0]),
            ("path_filestat_get", vec![3, 0, at, 8, 0]),
            ("poll_oneoff", vec![at, 0, 1, 0]),
            ("poll_oneoff", vec![0, at, 1, 0]),
        ] {
            assert_eq!(guest.call(name, &args), errno::FAULT, "{name} {args:x?}");
        }
    }
}

#[test]
fn a_write_with_a_bad_pointer_writes_nothing() {
    let mut guest = Guest::empty();
    guest.put(0, &[0, 16, 0, 0, 4, 0, 0, 0]); // four bytes at 4096
    guest.put(8, &[0xff; 8]);
    assert_eq!(guest.call("fd_write", &[1, 0, 2, 100]), errno::FAULT);
    let fd = guest.open("f", CREATE, READ | WRITE);
    guest.put(0, &[0, 16, 0, 0, 4, 0, 0, 0]);
    assert_eq!(guest.call("fd_write", &[fd.into(), 0, 2, 100]), errno::FAULT);
    assert_eq!(
        guest.call("fd_write", &[1, 0, 1, u32::MAX.into()]),
        errno::FAULT,
        "even if only the count is bad"
    );
    assert_eq!(guest.finish(), (String::new(), vec![("f".into(), String::new())]));
}

#[test]
fn randomness_that_does_not_fit_changes_nothing() {
    let mut guest = Guest::empty();
    let end = guest.memory.len() as u64;
    assert_eq!(guest.call("random_get", &[end - 2000, 2001]), errno::FAULT);
    assert!(guest.memory.iter().all(|byte| *byte == 0));
}

#[test]
fn more_buffers_than_a_call_takes_make_a_short_write() {
    let mut guest = Guest::empty();
    for i in 0..1500 {
        guest.put(i * 8, &[0, 200, 0, 0, 1, 0, 0, 0]);
    }
    guest.ok("fd_write", &[1, 0, 1500, 60_000]);
    assert_eq!(guest.u32(60_000), 1024);
    assert_eq!(guest.finish().0.len(), 1024);
}

#[test]
fn lengths_that_nobody_has_are_refused_before_anything_is_allocated() {
    let mut guest = Guest::empty();
    let most = u64::from(u32::MAX);
    assert_eq!(guest.call("random_get", &[0, most]), errno::FAULT);
    assert_eq!(guest.call("fd_write", &[1, 0, most, 0]), errno::FAULT);
    assert_eq!(guest.call("fd_read", &[0, 0, most, 0]), errno::FAULT);
    assert_eq!(guest.call("poll_oneoff", &[0, 0, most, 0]), errno::FAULT);
    assert_eq!(guest.call("fd_readdir", &[3, 0, most, 0, 0]), errno::FAULT);
    assert_eq!(guest.call("path_open", &[3, 0, 0, most, 1, 0, 0, 0, 0]), errno::NAMETOOLONG);
}

/// 1024 buffers that are all of memory: 64 MiB in one call, from a task with 64 KiB.
#[test]
fn overlapping_buffers_do_not_multiply_output_beyond_its_limit() {
    let limits = Limits { output_bytes: 1 << 20, ..Limits::default() };
    let mut guest = Guest::new(&Task { limits, stdin: vec![b'x'; 100_000].into(), ..Task::default() });
    for i in 0..2048 {
        guest.put(i * 8, &0_u32.to_le_bytes());
        guest.put(i * 8 + 4, &65_536_u32.to_le_bytes());
    }
    assert!(guest.try_call("fd_write", &[1, 0, 2048, 60_000]).is_err());
    assert_eq!(guest.host.clone().finish().stdout.len(), 1 << 20);
}

/// Numbers as a task that looks for holes would pass them.
fn argument(random: &mut Xoshiro256StarStar) -> u64 {
    let small = random.next_u64() % 80;
    match random.next_u64() % 8 {
        0..=3 => small,
        4 => random.next_u64() % 65_600,
        5 => u64::from(u32::MAX) - small,
        6 => u64::from(random.next_u32()),
        _ => random.next_u64(),
    }
}

#[test]
fn no_call_of_any_kind_breaks_the_host() {
    for seed in 0..300 {
        let mut random = Xoshiro256StarStar::seed_from_u64(seed);
        let limits = Limits { output_bytes: 1 << 20, ..Limits::default() };
        let mut guest =
            Guest::new(&Task { limits, ..crate::support::task_with(&[("a/b", "data"), ("c", "x")]) });
        random.fill_bytes(&mut guest.memory);
        guest.put(0, b"a/b\0c\0new/../a/x./");
        for _ in 0..500 {
            let function = &FUNCTIONS[random.next_u64() as usize % FUNCTIONS.len()];
            let args: Vec<u64> = function.params.iter().map(|_| argument(&mut random)).collect();
            println!("seed {seed}: {} {args:?}", function.name);
            // A halt is an answer too; the next call is made all the same.
            let _ = guest.try_call(function.name, &args);
            if random.next_u64() % 16 == 0 {
                let at = argument(&mut random) as usize % 65_000;
                let small = (random.next_u64() % 300) as u8;
                guest.memory[at] = small;
            }
        }
        let left = guest.host.finish();
        let files: usize = left.files.iter().map(|file| file.data.len()).sum();
        assert!(left.stdout.len() + left.stderr.len() + files <= 1 << 20, "seed {seed}");
    }
}
