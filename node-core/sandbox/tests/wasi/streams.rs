//! Standard streams, and the bound on all that is written.

use crate::support::{Guest, READ, WRITE, errno};
use sandbox::wasi::Halt;
use sandbox::{Limit, Task};

fn with_stdin(text: &str) -> Guest {
    Guest::new(&Task { stdin: text.to_string().into(), ..Task::default() })
}

#[test]
fn stdin_is_read_in_parts_and_ends() {
    let mut guest = with_stdin("hello world");
    assert_eq!(guest.read(0, 5), "hello");
    assert_eq!(guest.read(0, 100), " world");
    assert_eq!(guest.read(0, 100), "");
}

#[test]
fn stdin_can_be_sought_like_the_file_that_it_was() {
    let mut guest = with_stdin("hello world");
    assert_eq!(guest.seek(0, -5, 2), Ok(6));
    assert_eq!(guest.read(0, 100), "world");
    assert_eq!(guest.seek(0, -1, 0), Err(errno::INVAL));
}

#[test]
fn stdout_and_stderr_are_kept_apart() {
    let mut guest = Guest::empty();
    guest.write(1, "one ");
    guest.write(2, "error");
    guest.write(1, "two");
    let left = guest.host.finish();
    assert_eq!((&left.stdout[..], &left.stderr[..]), (&b"one two"[..], &b"error"[..]));
}

#[test]
fn several_buffers_make_one_write() {
    let mut guest = Guest::empty();
    guest.put(1000, b"abcdef");
    for (i, (at, len)) in [(1000_u32, 2_u32), (0, 0), (1003, 3)].into_iter().enumerate() {
        guest.put(i as u32 * 8, &at.to_le_bytes());
        guest.put(i as u32 * 8 + 4, &len.to_le_bytes());
    }
    guest.ok("fd_write", &[1, 0, 3, 100]);
    assert_eq!(guest.u32(100), 5);
    assert_eq!(guest.finish().0, "abdef");
}

#[test]
fn streams_go_one_way() {
    let mut guest = Guest::empty();
    assert_eq!(guest.try_write(0, "x"), Ok(Err(errno::BADF)));
    assert_eq!(guest.try_read(1, 1), Err(errno::BADF));
    assert_eq!(guest.seek(1, 0, 0), Err(errno::SPIPE));
    assert_eq!(guest.call("fd_pwrite", &[1, 0, 0, 0, 8]), errno::SPIPE);
}

#[test]
fn a_closed_stream_is_closed() {
    let mut guest = Guest::empty();
    guest.close(1);
    assert_eq!(guest.try_write(1, "x"), Ok(Err(errno::BADF)));
}

#[test]
fn output_ends_at_its_limit_and_what_fits_is_kept() {
    let mut guest = Guest::with_output_limit(10);
    guest.write(1, "12345678");
    let halt = guest.try_write(1, "90ABC").unwrap_err();
    assert_eq!(halt, Halt::Limit(Limit::OutputBytes(10)));
    assert_eq!(guest.finish().0, "1234567890");
}

#[test]
fn output_of_exactly_the_limit_is_fine() {
    let mut guest = Guest::with_output_limit(10);
    guest.write(1, "1234567890");
    guest.write(1, "");
    assert!(guest.try_write(2, "x").is_err());
}

#[test]
fn files_and_streams_share_the_limit() {
    let mut guest = Guest::with_output_limit(10);
    guest.write(1, "12345");
    let fd = guest.open("out", crate::support::CREATE, READ | WRITE);
    guest.write(fd, "12345");
    assert_eq!(guest.try_write(fd, "6"), Err(Halt::Limit(Limit::OutputBytes(10))));
}

#[test]
fn what_is_removed_or_cut_does_not_count() {
    let mut guest = Guest::with_output_limit(10);
    for round in 0..5 {
        let fd = guest.open("scratch", crate::support::CREATE, READ | WRITE);
        guest.write(fd, "1234567890");
        guest.ok("fd_filestat_set_size", &[fd.into(), round]);
        guest.close(fd);
        assert_eq!(guest.at_path("path_unlink_file", 3, "scratch"), 0);
    }
    guest.write(1, "1234567890");
}

#[test]
fn a_file_that_is_written_over_again_and_again_counts_once() {
    let mut guest = Guest::with_output_limit(10);
    let fd = guest.open("state", crate::support::CREATE, READ | WRITE);
    for _ in 0..100 {
        guest.seek(fd, 0, 0).unwrap();
        guest.write(fd, "1234567890");
    }
}

#[test]
fn input_files_count_only_once_they_are_changed() {
    let mut guest = Guest::with_output_limit(9);
    let fd = guest.open("given", 0, READ | WRITE);
    assert_eq!(guest.read(fd, 100), "0123456789");
    guest.seek(fd, 0, 0).unwrap();
    assert_eq!(guest.try_write(fd, "x"), Err(Halt::Limit(Limit::OutputBytes(9))));
}

#[test]
fn a_hole_costs_what_it_would_cost_to_write() {
    let mut guest = Guest::with_output_limit(1000);
    let fd = guest.open("sparse", crate::support::CREATE, READ | WRITE);
    guest.seek(fd, 1 << 60, 0).unwrap();
    assert_eq!(guest.try_write(fd, "x"), Err(Halt::Limit(Limit::OutputBytes(1000))));
    let mut guest = Guest::with_output_limit(1000);
    let fd = guest.open("sparse", crate::support::CREATE, READ | WRITE);
    assert!(guest.try_call("fd_allocate", &[fd.into(), 0, u64::MAX]).is_err());
    assert!(guest.try_call("fd_filestat_set_size", &[fd.into(), u64::MAX]).is_err());
}
