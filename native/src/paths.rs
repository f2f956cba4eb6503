//! Where things lie on this machine: XDG folders, or the one folder that `--data` names.

use crate::private::make_folder;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder of one node: its key, its state, what it has compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataFolder {
    dir: PathBuf,
}

/// A folder or file of ours that cannot be used; says what to do next.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PathError(pub(crate) String);

impl DataFolder {
    #[cfg(test)]
    pub(crate) fn at(dir: impl Into<PathBuf>) -> Self {
        DataFolder { dir: dir.into() }
    }

    /// The folder that was asked for, else the state folder of the person who runs this.
    pub(crate) fn choose(asked: Option<PathBuf>) -> Result<Self, PathError> {
        if let Some(dir) = asked {
            if dir.as_os_str().is_empty() {
                return Err(PathError("the data folder has an empty name; give --data DIR".into()));
            }
            return Ok(DataFolder { dir });
        }
        let dirs = project_dirs()?;
        // State, not data: nothing in it is worth copying to another machine. Systems that
        // know no state folder keep it with the local data.
        let dir = dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir());
        Ok(DataFolder { dir: dir.to_path_buf() })
    }

    /// Makes the folder, readable only by its owner: it holds a key and a token.
    pub(crate) fn create(&self) -> Result<(), PathError> {
        make_folder(&self.dir).map_err(|e| {
            PathError(format!(
                "cannot make the data folder {}: {e}; give another with --data DIR",
                self.dir.display()
            ))
        })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn identity(&self) -> PathBuf {
        self.dir.join("identity.key")
    }

    /// Compiled modules; may be deleted at any time.
    pub(crate) fn cache(&self) -> PathBuf {
        self.dir.join("cache")
    }

    /// File of the token that guards a gateway's API.
    pub(crate) fn token(&self) -> PathBuf {
        self.dir.join("token")
    }

    /// With which its own files are encrypted.
    pub(crate) fn age_key(&self) -> PathBuf {
        self.dir.join("age.key")
    }

    /// File of the donor's policy.
    pub(crate) fn policy(&self) -> PathBuf {
        self.dir.join("policy.toml")
    }

    /// Settings of the swarm that the node belongs to.
    pub(crate) fn swarm(&self) -> PathBuf {
        self.dir.join("swarm.json")
    }

    /// The process of the node on this folder, while one runs.
    pub(crate) fn pid(&self) -> PathBuf {
        self.dir.join("node.pid")
    }

    /// Says where the gateway on this folder answers, while one runs.
    pub(crate) fn gateway(&self) -> PathBuf {
        self.dir.join("gateway.json")
    }
}

/// Configuration files that count when none is named: the first that exists.
pub(crate) fn config_candidates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Ok(dirs) = project_dirs() {
        found.push(dirs.config_dir().join("config.toml"));
    }
    if cfg!(unix) {
        found.push("/etc/manyhands/config.toml".into());
    }
    found
}

fn project_dirs() -> Result<directories::ProjectDirs, PathError> {
    directories::ProjectDirs::from("", "", "manyhands")
        .ok_or_else(|| PathError("no home folder is known for this user; give --data DIR".into()))
}

/// Writes a small file whole or not at all, readable only by its owner. With `replace` unset
/// an existing file wins and `false` is returned.
pub(crate) fn write_private(path: &Path, content: &[u8], replace: bool) -> Result<bool, PathError> {
    let failed = |e: std::io::Error| {
        PathError(format!(
            "cannot write {}: {e}; make room or mend the folder's permissions, or give another with --data DIR",
            path.display()
        ))
    };
    let dir = path.parent().unwrap_or(Path::new("."));
    // Temporary files are made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    if replace {
        file.persist(path).map_err(|e| failed(e.error))?;
        return Ok(true);
    }
    match file.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(e) if e.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(failed(e.error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_that_was_asked_for_wins() {
        let chosen = DataFolder::choose(Some("/srv/hands".into())).unwrap();
        assert_eq!(chosen.dir(), Path::new("/srv/hands"));
        assert_eq!(chosen.token(), Path::new("/srv/hands/token"));
        assert!(DataFolder::choose(Some("".into())).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_written_is_for_the_owner_only_and_the_first_writer_wins() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let folder = DataFolder::at(root.path().join("a/b"));
        folder.create().unwrap();
        folder.create().unwrap();
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(folder.dir()), 0o700);

        assert!(write_private(&folder.token(), b"first", false).unwrap());
        assert!(!write_private(&folder.token(), b"second", false).unwrap());
        assert_eq!(std::fs::read(folder.token()).unwrap(), b"first");
        assert_eq!(mode(&folder.token()), 0o600);
        assert!(write_private(&folder.token(), b"third", true).unwrap());
        assert_eq!(std::fs::read(folder.token()).unwrap(), b"third");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named_with_a_way_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = DataFolder::at(file.path().join("below")).create().unwrap_err().to_string();
        assert!(error.contains(&file.path().display().to_string()), "{error}");
        assert!(error.contains("--data"), "{error}");
    }
}
