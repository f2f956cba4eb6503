//! Directories, names, and the walls around them.

use crate::support::{CREATE, DIRECTORY, Guest, READ, ROOT, WRITE, errno, pairs};

const DIR: u8 = 3;
const FILE: u8 = 4;

#[test]
fn paths_are_followed_and_never_out() {
    let mut guest = Guest::with_files(&[("a/b/f", "x"), ("top", "t")]);
    for path in ["a/b/f", "./a//b/./f", "a/b/../b/f", "a/../a/b/f"] {
        assert_eq!(guest.stat(path), Ok((FILE, 1, guest.stat("top").unwrap().2)), "{path}");
    }
    for path in ["..", "../top", "a/../../top", "/top"] {
        assert_eq!(guest.stat(path), Err(errno::NOTCAPABLE), "{path}");
    }
    assert_eq!(guest.stat(""), Err(errno::NOENT));
    assert_eq!(guest.stat("a/none/../b"), Err(errno::NOENT), "each part must exist");
    assert_eq!(guest.stat("top/../top"), Err(errno::NOTDIR));
    assert_eq!(guest.stat(".").unwrap().0, DIR);
}

#[test]
fn a_directory_is_a_root_of_its_own() {
    let mut guest = Guest::with_files(&[("a/b/f", "x"), ("top", "t")]);
    let a = guest.open("a", DIRECTORY, READ);
    assert!(guest.try_open(a, "b/f", 0, READ, 0).is_ok());
    assert_eq!(guest.try_open(a, "../top", 0, READ, 0), Err(errno::NOTCAPABLE));
}

#[test]
fn names_have_their_limits() {
    let mut guest = Guest::empty();
    let long = "n".repeat(256);
    assert_eq!(guest.try_open(ROOT, &long, CREATE, WRITE, 0), Err(errno::NAMETOOLONG));
    assert!(guest.try_open(ROOT, &long[..255], CREATE, WRITE, 0).is_ok());
    assert_eq!(guest.stat(&"a/".repeat(2049)), Err(errno::NAMETOOLONG));
    assert_eq!(guest.call("path_unlink_file", &[ROOT.into(), 0, u32::MAX.into()]), errno::NAMETOOLONG);
    guest.put(64, &[0xff, 0xfe]);
    assert_eq!(guest.call("path_unlink_file", &[ROOT.into(), 64, 2]), errno::ILSEQ);
    assert_eq!(guest.stat("a\0b"), Err(errno::INVAL));
}

#[test]
fn no_path_grows_too_long_by_small_steps() {
    let mut guest = Guest::empty();
    let name = "d".repeat(200);
    let mut dir = ROOT;
    let mut depth = 0;
    loop {
        match guest.at_path("path_create_directory", dir, &name) {
            0 => dir = guest.try_open(dir, &name, DIRECTORY, READ, 0).unwrap(),
            error => break assert_eq!(error, errno::NAMETOOLONG),
        }
        depth += 1;
    }
    assert_eq!(depth, 20, "20 · 201 bytes fit 4096");

    let mut guest = Guest::empty();
    for name in ["tree", "deep"] {
        let mut path = name.to_string();
        for _ in 0..12 {
            assert_eq!(guest.at_path("path_create_directory", ROOT, &path), 0);
            path = format!("{path}/{}", "d".repeat(200));
        }
    }
    let below = format!("deep{}", format!("/{}", "d".repeat(200)).repeat(11));
    assert_eq!(
        guest.rename("tree", &format!("{below}/tree")),
        errno::NAMETOOLONG,
        "nor by moving what is long"
    );
}

#[test]
fn directories_are_made_listed_and_removed() {
    let mut guest = Guest::with_files(&[("d/f", "x")]);
    assert_eq!(guest.at_path("path_create_directory", ROOT, "d"), errno::EXIST);
    assert_eq!(guest.at_path("path_create_directory", ROOT, "d/sub"), 0);
    assert_eq!(guest.list("d", 4096, |_, _| {}), [".", "..", "f", "sub"]);
    assert_eq!(guest.at_path("path_remove_directory", ROOT, "d"), errno::NOTEMPTY);
    assert_eq!(guest.at_path("path_remove_directory", ROOT, "d/f"), errno::NOTDIR);
    assert_eq!(guest.at_path("path_unlink_file", ROOT, "d/sub"), errno::ISDIR);
    assert_eq!(guest.at_path("path_remove_directory", ROOT, "d/sub/"), 0);
    assert_eq!(guest.at_path("path_unlink_file", ROOT, "d/f"), 0);
    assert_eq!(guest.at_path("path_remove_directory", ROOT, "d"), 0);
    assert_eq!(guest.list(".", 4096, |_, _| {}), [".", ".."]);
    assert_ne!(guest.at_path("path_remove_directory", ROOT, "."), 0, "the root stays");
}

#[test]
fn a_long_directory_is_listed_through_a_small_buffer() {
    let mut guest = Guest::empty();
    let names: Vec<String> = (0..100).map(|i| format!("file-{i}")).collect();
    for name in &names {
        let fd = guest.open(name, CREATE, WRITE);
        guest.close(fd);
    }
    let listed = guest.list(".", 100, |_, _| {});
    assert_eq!(listed[2..], names);
}

#[test]
fn entries_may_be_removed_while_they_are_listed() {
    let mut guest = Guest::empty();
    for i in 0..50 {
        let fd = guest.open(&format!("f{i}"), CREATE, WRITE);
        guest.close(fd);
    }
    let listed = guest.list(".", 128, |guest, name| {
        if name.starts_with('f') {
            assert_eq!(guest.at_path("path_unlink_file", ROOT, name), 0);
        }
    });
    assert_eq!(listed.len(), 52, "none was skipped");
    assert_eq!(guest.list(".", 4096, |_, _| {}), [".", ".."]);
}

#[test]
fn a_removed_directory_that_is_still_open_takes_nothing_new() {
    let mut guest = Guest::empty();
    guest.at_path("path_create_directory", ROOT, "d");
    let d = guest.open("d", DIRECTORY, READ);
    assert_eq!(guest.at_path("path_remove_directory", ROOT, "d"), 0);
    assert_eq!(guest.try_open(d, "f", CREATE, WRITE, 0), Err(errno::NOENT));
    assert_eq!(guest.at_path("path_create_directory", d, "sub"), errno::NOENT);
}

#[test]
fn renaming_moves_and_replaces() {
    let mut guest = Guest::with_files(&[("a", "A"), ("b", "B"), ("d/x", "X")]);
    assert_eq!(guest.rename("a", "b"), 0);
    assert_eq!(guest.stat("a"), Err(errno::NOENT));
    assert_eq!(guest.rename("d", "e"), 0);
    assert_eq!(guest.rename("none", "x"), errno::NOENT);
    assert_eq!(guest.files(), pairs(&[("b", "A"), ("e/x", "X")]), "what was moved is where it was not given");
}

#[test]
fn a_file_that_is_moved_and_moved_back_is_as_it_was() {
    let mut guest = Guest::with_files(&[("a", "A")]);
    assert_eq!((guest.rename("a", "b"), guest.rename("b", "a")), (0, 0));
    assert_eq!(guest.files(), []);
}

#[test]
fn renaming_keeps_files_and_directories_apart() {
    let mut guest = Guest::with_files(&[("f", ""), ("d/x", ""), ("e/y", "")]);
    guest.at_path("path_create_directory", ROOT, "empty");
    assert_eq!(guest.rename("f", "d"), errno::ISDIR);
    assert_eq!(guest.rename("d", "f"), errno::NOTDIR);
    assert_eq!(guest.rename("d", "e"), errno::NOTEMPTY);
    assert_eq!(guest.rename("f/", "g"), errno::NOTDIR);
    assert_eq!(guest.rename("d", "d/inside"), errno::INVAL, "a directory into itself");
    assert_eq!(guest.rename("d", "d"), 0);
    assert_eq!(guest.rename("d", "empty"), 0);
    assert_eq!(guest.stat("empty/x").unwrap().0, FILE);
}

#[test]
fn links_are_not_offered_and_say_so() {
    let mut guest = Guest::with_files(&[("f", "x")]);
    assert_eq!(guest.call("path_symlink", &[0, 1, 3, 2, 1]), errno::NOTSUP);
    assert_eq!(guest.call("path_link", &[3, 0, 0, 1, 3, 2, 1]), errno::NOTSUP);
    guest.put(64, b"f");
    assert_eq!(guest.call("path_readlink", &[3, 64, 1, 100, 10, 0]), errno::INVAL, "it is no link");
}

#[test]
fn a_loop_that_creates_files_runs_into_no_space() {
    let mut guest = Guest::empty();
    let error = (0..70_000).find_map(|i| match guest.try_open(ROOT, &format!("f{i}"), CREATE, WRITE, 0) {
        Ok(fd) => {
            guest.close(fd);
            None
        }
        Err(errno) => Some(errno),
    });
    assert_eq!(error, Some(errno::NOSPC));
}
