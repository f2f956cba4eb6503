//! The host as part of a suspended task.

use crate::support::{CREATE, DIRECTORY, Guest, READ, ROOT, WRITE, pairs, task_with};
use sandbox::Task;
use sandbox::wasi::Host;

/// As if the task went on elsewhere.
fn moved(guest: Guest, task: &Task) -> Guest {
    let packed = guest.host.save();
    let host = Host::load(task, &packed).unwrap();
    assert_eq!(host.save(), packed, "nothing is lost and nothing is added");
    Guest { host, memory: guest.memory }
}

/// A task that has something of everything under way; `pause` comes between all its steps.
fn story(mut pause: impl FnMut(Guest, &Task) -> Guest) -> (String, Vec<(String, String)>, Vec<u8>) {
    let task = Task {
        stdin: "first half, second half".into(),
        seed: 5,
        ..task_with(&[("in", "0123456789"), ("d/x", "X")])
    };
    let mut guest = Guest::new(&task);
    let first = guest.read(0, 10);
    guest.write(1, &first);
    let file = guest.open("in", 0, READ | WRITE);
    assert_eq!(guest.read(file, 4), "0123");
    guest = pause(guest, &task);
    guest.write(file, "four");
    let dir = guest.open("d", DIRECTORY, READ);
    let temporary = guest.open("tmp", CREATE, READ | WRITE);
    guest.write(temporary, "gone but open");
    assert_eq!(guest.at_path("path_unlink_file", ROOT, "tmp"), 0);
    guest.ok("random_get", &[40_000, 11]);
    guest = pause(guest, &task);
    guest.seek(temporary, 0, 0).unwrap();
    let kept = guest.read(temporary, 100);
    guest.write(1, &kept);
    let second = guest.read(0, 100);
    guest.write(1, &second);
    let inside = guest.try_open(dir, "new", CREATE, WRITE, 0).unwrap();
    guest.write(inside, "inside");
    guest.ok("random_get", &[40_011, 11]);
    guest.ok("clock_time_get", &[0, 0, 40_100]);
    guest = pause(guest, &task);
    let seen = guest.bytes(40_000, 200).to_vec();
    let (stdout, files) = guest.finish();
    (stdout, files, seen)
}

#[test]
fn a_task_that_moves_all_the_time_sees_what_one_that_stays_sees() {
    let stayed = story(|guest, _| guest);
    assert_eq!(stayed.0, "first halfgone but open, second half");
    assert_eq!(stayed.1, pairs(&[("d/new", "inside"), ("in", "0123four89")]));
    assert_eq!(story(moved), stayed);
}

#[test]
fn content_is_packed_as_bytes_and_not_as_numbers() {
    let mut guest = Guest::new(&Task { stdin: vec![200; 10_000].into(), ..Task::default() });
    guest.write(1, &"ÿ".repeat(5_000));
    let packed = guest.host.save();
    assert!(packed.len() < 11_000, "{} bytes", packed.len());
}

/// A snapshot from a stranger can name nodes that are not there, or go in circles.
#[test]
fn a_tampered_host_breaks_nobody() {
    let mut guest = Guest::with_files(&[("a/b/c", "data"), ("e", "x")]);
    let fd = guest.open("a/b", DIRECTORY, READ);
    let packed = guest.host.save();
    let task = task_with(&[("a/b/c", "data"), ("e", "x")]);
    let mut still_read = 0;
    for at in 0..packed.len() {
        for value in 0..8 {
            let mut packed = packed.clone();
            packed[at] = value;
            let Ok(host) = Host::load(&task, &packed) else { continue };
            still_read += 1;
            let mut guest = Guest { host, memory: vec![0; 64 << 10] };
            let path = "a/b/c";
            let _ = guest.try_open(fd, "c", CREATE, WRITE, 0).map(|fd| guest.try_write(fd, "x"));
            let _ = (
                guest.stat(path),
                guest.stat("a/../a/b"),
                guest.rename("a", "z"),
                guest.rename("e", "a/b/e"),
            );
            let _ = guest.at_path("path_create_directory", fd, "new");
            let _ = guest.at_path("path_unlink_file", ROOT, path);
            let _ = guest.call("fd_readdir", &[fd.into(), 1000, 1000, 0, 0]);
            guest.host.finish();
        }
    }
    assert!(still_read > 100, "the test changes bytes that matter");
}
