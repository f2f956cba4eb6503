//! Files and folders for their owner alone: what a node keeps holds keys, books and others' data.
//!
//! Systems without Unix permissions leave this to the folder in which the data folder lies.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Names of all that a node keeps in its data folder. Anything else in it is not ours to change.
const OURS: &[&str] = &[
    "age.key",
    "blobs",
    "cache",
    "gateway.json",
    "identity.key",
    "lock",
    "node.pid",
    "partial",
    "policy.toml",
    DATABASE,
    "swarm.json",
    "token",
];

/// Lies in every data folder that a node has used before.
const DATABASE: &str = "state.redb";

/// Files that are made with these options are their owner's alone.
pub(crate) fn own_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes folders that are their owner's alone.
pub(crate) fn folders() -> DirBuilder {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Makes a folder, with all above it, unless it is there.
pub(crate) fn make_folder(dir: &Path) -> io::Result<()> {
    folders().recursive(true).create(dir)
}

/// All that this process and its children make from now on is their owner's alone, unless they ask for more.
pub(crate) fn from_now_on() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Takes from others what an older version, or a copy, left open to them in a data folder. A folder that was
/// there before this node is closed as a whole if nothing but a node's files lies in it.
///
/// # Errors
/// If other users could put files of theirs in place of the node's, or have done so: says what to do.
#[cfg(unix)]
pub(crate) fn tighten(dir: &Path) -> Result<(), String> {
    for name in OURS {
        let path = dir.join(name);
        if let Some(owner) = stranger(&path) {
            return Err(format!(
                "{} belongs to another user (uid {owner}), who could change it: remove it, or choose another \
                 folder with --data DIR",
                path.display()
            ));
        }
        close(&path);
    }
    if !is_open(dir) {
        return Ok(());
    }
    let known = |entry: io::Result<fs::DirEntry>| {
        let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
        // Small files are written under such names first.
        OURS.iter().any(|ours| name == *ours) || name.to_string_lossy().starts_with(".tmp")
    };
    let ours = dir.join(DATABASE).exists() || fs::read_dir(dir).is_ok_and(|mut entries| entries.all(known));
    if ours && is_own(dir) {
        take(dir);
    } else if others_may_replace(dir) {
        return Err(format!(
            "other users may change what lies in the data folder {}, and so replace this node's token and keys; \
             something else lies in it, so it was left as it is: `chmod 700` it, or choose another with --data DIR",
            dir.display()
        ));
    } else {
        tracing::warn!(
            "{} is open to others, and something else lies in it: they see the names of this node's files, and \
             cannot read them; `chmod 700` closes it",
            dir.display()
        );
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn tighten(_: &Path) -> Result<(), String> {
    Ok(())
}

/// The owner of a file, if that is neither the user of this process nor the system's.
#[cfg(unix)]
fn stranger(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let owner = fs::symlink_metadata(path).ok()?.uid();
    (owner != 0 && owner != rustix::process::geteuid().as_raw()).then_some(owner)
}

/// Others may write to it. Where all share a place, such as `/tmp`, they may move only what is theirs.
#[cfg(unix)]
fn others_may_replace(dir: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(dir).map_or(0, |found| found.permissions().mode());
    stranger(dir).is_some() || (mode & 0o022 != 0 && mode & 0o1000 == 0)
}

/// Closes a file, or a folder with all that is in it. A folder that is closed already has no reader, so what is
/// in it is not looked at: a million files would be.
#[cfg(unix)]
fn close(path: &Path) {
    if !is_open(path) {
        return;
    }
    // First what is in it: if this process ends meanwhile, the next one goes on.
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        close_all(&entry);
    }
    take(path);
}

#[cfg(unix)]
fn close_all(entry: &fs::DirEntry) {
    let Ok(kind) = entry.file_type() else { return };
    let path = entry.path();
    if kind.is_dir() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            close_all(&entry);
        }
    }
    // The target of a link may be anybody's.
    if !kind.is_symlink() && is_open(&path) {
        take(&path);
    }
}

#[cfg(unix)]
fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

/// It belongs to the user of this process, and is no place that all share, such as `/tmp`.
#[cfg(unix)]
fn is_own(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(dir)
        .is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o1000 == 0)
}

#[cfg(unix)]
fn take(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let taken = fs::metadata(path).and_then(|found| {
        let owners = found.permissions().mode() & 0o700;
        fs::set_permissions(path, fs::Permissions::from_mode(owners))
    });
    if let Err(e) = taken {
        tracing::warn!(
            "others can read {}, and that cannot be changed ({e}): `chmod go-rwx` it as its owner",
            path.display()
        );
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn open_folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        chmod(root.path(), 0o755);
        root
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_folder_of_an_older_version_is_closed_with_all_that_is_in_it() {
        let root = open_folder();
        let blob = root.path().join("blobs/ab/abcd");
        fs::create_dir_all(blob.parent().unwrap()).unwrap();
        chmod(&root.path().join("blobs"), 0o755);
        for file in [&blob, &root.path().join("state.redb"), &root.path().join("notes of somebody")] {
            fs::write(file, "x").unwrap();
            chmod(file, 0o644);
        }
        tighten(root.path()).unwrap();
        assert_eq!(mode(root.path()), 0o700);
        assert_eq!(mode(&root.path().join("state.redb")), 0o600);
        assert_eq!(mode(&blob), 0o600);
        assert_eq!(mode(blob.parent().unwrap()), 0o700);
        assert_eq!(mode(&root.path().join("notes of somebody")), 0o644, "it is not ours");
    }

    #[test]
    fn a_new_folder_is_closed_and_one_with_other_things_in_it_is_not() {
        let (empty, shared) = (open_folder(), open_folder());
        fs::write(empty.path().join("token"), "x").unwrap();
        fs::write(shared.path().join("token"), "x").unwrap();
        fs::write(shared.path().join("homework"), "x").unwrap();
        tighten(empty.path()).unwrap();
        tighten(shared.path()).unwrap();
        assert_eq!((mode(empty.path()), mode(shared.path())), (0o700, 0o755));
        assert_eq!(mode(&shared.path().join("token")), 0o600);
    }

    #[test]
    fn a_folder_in_which_others_could_replace_the_token_is_refused() {
        let shared = open_folder();
        fs::write(shared.path().join("homework"), "x").unwrap();
        for mode in [0o777, 0o775] {
            chmod(shared.path(), mode);
            let why = tighten(shared.path()).unwrap_err();
            assert!(why.contains("replace this node's token") && why.contains("chmod 700"), "{why}");
        }
        // As `/tmp` is.
        chmod(shared.path(), 0o1777);
        tighten(shared.path()).unwrap();
        let token = shared.path().join("token");
        fs::write(&token, "x").unwrap();
        if std::os::unix::fs::chown(&token, Some(65_534), None).is_ok() {
            let why = tighten(shared.path()).unwrap_err();
            assert!(why.contains("another user (uid 65534)"), "{why}");
        }
    }

    #[test]
    fn links_in_it_are_not_followed() {
        let (root, other) = (open_folder(), open_folder());
        let file = other.path().join("file");
        fs::write(&file, "x").unwrap();
        chmod(&file, 0o644);
        let blobs = root.path().join("blobs");
        fs::create_dir(&blobs).unwrap();
        chmod(&blobs, 0o755);
        symlink(&file, blobs.join("link")).unwrap();
        symlink(other.path(), blobs.join("folder")).unwrap();
        tighten(root.path()).unwrap();
        assert_eq!((mode(&blobs), mode(&file), mode(other.path())), (0o700, 0o644, 0o755));
    }
}
