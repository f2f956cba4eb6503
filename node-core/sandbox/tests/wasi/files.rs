//! Reading and writing files.

use crate::support::{APPEND, CREATE, EXCLUSIVE, Guest, READ, ROOT, TRUNCATE, WRITE, errno, pairs};

#[test]
fn an_input_file_is_there_and_unchanged_ones_do_not_come_back() {
    let mut guest = Guest::with_files(&[("in.txt", "content"), ("deep/down/x", "y")]);
    let fd = guest.open("in.txt", 0, READ);
    assert_eq!(guest.read(fd, 100), "content");
    let fd = guest.open("deep/down/x", 0, READ);
    assert_eq!(guest.read(fd, 100), "y");
    assert_eq!(guest.files(), []);
}

#[test]
fn new_and_changed_files_come_back_in_path_order() {
    let mut guest = Guest::with_files(&[("b", "old"), ("a/x", "1"), ("same", "same")]);
    for path in ["a.txt", "a/z", "b"] {
        let fd = guest.open(path, CREATE | TRUNCATE, READ | WRITE);
        guest.write(fd, path);
    }
    assert_eq!(guest.files(), pairs(&[("a.txt", "a.txt"), ("a/z", "a/z"), ("b", "b")]));
}

#[test]
fn a_file_cut_to_nothing_comes_back_empty() {
    let mut guest = Guest::with_files(&[("log", "old")]);
    guest.open("log", TRUNCATE, WRITE);
    assert_eq!(guest.files(), pairs(&[("log", "")]));
}

#[test]
fn a_new_empty_file_comes_back() {
    let mut guest = Guest::empty();
    guest.open("flag", CREATE, WRITE);
    assert_eq!(guest.files(), pairs(&[("flag", "")]));
}

#[test]
fn writes_go_where_the_position_is() {
    let mut guest = Guest::empty();
    let fd = guest.open("f", CREATE, READ | WRITE);
    guest.write(fd, "hello world");
    assert_eq!(guest.seek(fd, 6, 0), Ok(6));
    guest.write(fd, "there");
    assert_eq!(guest.seek(fd, -2, 1), Ok(9));
    assert_eq!(guest.read(fd, 10), "re");
    assert_eq!(guest.seek(fd, 2, 2), Ok(13));
    guest.write(fd, "!");
    assert_eq!(guest.files(), pairs(&[("f", "hello there\0\0!")]));
}

#[test]
fn positioned_reads_and_writes_leave_the_position_alone() {
    let mut guest = Guest::with_files(&[("f", "0123456789")]);
    let fd = guest.open("f", 0, READ | WRITE);
    guest.put(1000, b"AB");
    guest.put(0, &1000_u32.to_le_bytes());
    guest.put(4, &2_u32.to_le_bytes());
    guest.ok("fd_pwrite", &[fd.into(), 0, 1, 4, 8]);
    guest.ok("fd_pread", &[fd.into(), 0, 1, 5, 8]);
    assert_eq!(guest.bytes(1000, 2), b"B6");
    assert_eq!(guest.read(fd, 100), "0123AB6789");
    guest.ok("fd_pread", &[fd.into(), 0, 1, u64::MAX, 8]);
    assert_eq!(guest.u32(8), 0, "nothing lies behind the end");
}

#[test]
fn appending_always_goes_to_the_end() {
    let mut guest = Guest::with_files(&[("log", "1")]);
    let fd = guest.try_open(ROOT, "log", 0, READ | WRITE, APPEND).unwrap();
    guest.write(fd, "2");
    guest.seek(fd, 0, 0).unwrap();
    guest.write(fd, "3");
    guest.ok("fd_fdstat_set_flags", &[fd.into(), 0]);
    guest.seek(fd, 0, 0).unwrap();
    guest.write(fd, "0");
    assert_eq!(guest.files(), pairs(&[("log", "023")]));
}

#[test]
fn two_descriptors_share_a_file_but_not_a_position() {
    let mut guest = Guest::empty();
    let one = guest.open("f", CREATE, READ | WRITE);
    let two = guest.open("f", 0, READ | WRITE);
    guest.write(one, "abc");
    assert_eq!(guest.read(two, 2), "ab");
    guest.write(two, "X");
    assert_eq!(guest.files(), pairs(&[("f", "abX")]));
}

#[test]
fn open_says_what_is_wrong() {
    let mut guest = Guest::with_files(&[("f", "x"), ("d/x", "y")]);
    assert_eq!(guest.try_open(ROOT, "none", 0, READ, 0), Err(errno::NOENT));
    assert_eq!(guest.try_open(ROOT, "none/f", CREATE, READ, 0), Err(errno::NOENT));
    assert_eq!(guest.try_open(ROOT, "f/x", CREATE, READ, 0), Err(errno::NOTDIR));
    assert_eq!(guest.try_open(ROOT, "f", CREATE | EXCLUSIVE, READ, 0), Err(errno::EXIST));
    assert_eq!(guest.try_open(ROOT, "d", 0, WRITE, 0), Err(errno::ISDIR));
    assert_eq!(guest.try_open(ROOT, "f", crate::support::DIRECTORY, READ, 0), Err(errno::NOTDIR));
    assert_eq!(guest.try_open(ROOT, "f/", 0, READ, 0), Err(errno::NOTDIR));
    assert_eq!(guest.try_open(ROOT, "new/", CREATE, WRITE, 0), Err(errno::ISDIR));
    assert_eq!(guest.try_open(99, "f", 0, READ, 0), Err(errno::BADF));
    assert_eq!(guest.try_open(1, "f", 0, READ, 0), Err(errno::NOTDIR));
}

#[test]
fn a_descriptor_does_only_what_it_was_opened_for() {
    let mut guest = Guest::with_files(&[("f", "x")]);
    let reads = guest.open("f", 0, READ);
    assert_eq!(guest.try_write(reads, "y"), Ok(Err(errno::BADF)));
    assert_eq!(guest.call("fd_filestat_set_size", &[reads.into(), 0]), errno::BADF);
    let writes = guest.open("f", 0, WRITE);
    assert_eq!(guest.try_read(writes, 1), Err(errno::BADF));
}

#[test]
fn a_removed_file_lives_as_long_as_it_is_open() {
    let mut guest = Guest::empty();
    let fd = guest.open("tmp", CREATE, READ | WRITE);
    guest.write(fd, "still here");
    assert_eq!(guest.at_path("path_unlink_file", ROOT, "tmp"), 0);
    guest.seek(fd, 0, 0).unwrap();
    assert_eq!(guest.read(fd, 100), "still here");
    assert_eq!(guest.try_open(ROOT, "tmp", 0, READ, 0), Err(errno::NOENT));
    assert_eq!(guest.files(), []);
}

#[test]
fn numbers_of_descriptors_are_reused_and_run_out() {
    let mut guest = Guest::with_files(&[("f", "x")]);
    let first = guest.open("f", 0, READ);
    assert_eq!(first, 4);
    let second = guest.open("f", 0, READ);
    guest.close(first);
    assert_eq!(guest.open("f", 0, READ), first);
    for _ in second..1023 {
        guest.open("f", 0, READ);
    }
    assert_eq!(guest.try_open(ROOT, "f", 0, READ, 0), Err(errno::MFILE));
}

#[test]
fn a_descriptor_can_take_the_place_of_another() {
    let mut guest = Guest::empty();
    let fd = guest.open("out", CREATE, WRITE);
    guest.ok("fd_renumber", &[fd.into(), 1]);
    guest.write(1, "redirected");
    assert_eq!(guest.try_write(fd, "x"), Ok(Err(errno::BADF)));
    assert_eq!(guest.finish(), (String::new(), pairs(&[("out", "redirected")])));
}

#[test]
fn times_can_be_set_and_move_with_changes() {
    let mut guest = Guest::with_files(&[("f", "x")]);
    let before = guest.stat("f").unwrap().2;
    let fd = guest.open("f", 0, READ | WRITE);
    guest.ok("clock_time_get", &[0, 0, 0]);
    guest.write(fd, "y");
    let after = guest.stat("f").unwrap().2;
    assert!(after > before, "{before} {after}");
    guest.ok("fd_filestat_set_times", &[fd.into(), 0, 12345, 4]);
    assert_eq!(guest.stat("f").unwrap().2, 12345);
    assert_eq!(guest.call("fd_filestat_set_times", &[fd.into(), 0, 0, 12]), errno::INVAL, "given and now");
}
