//! The token that guards a gateway's API, kept in a file of its data folder.
//!
//! The file is looked at on every request that shows a token, so that a new one counts, and the old one does
//! not, from the moment when `manyhands token rotate` has written it.

use crate::paths::{DataFolder, PathError, write_private};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Shortest token. Our choice: what `openssl rand -hex 8` gives.
const SHORTEST: usize = 16;

/// Between looks at the file while nobody asks for anything. Our choice: streams that an old token opened end
/// within this time; a look costs microseconds.
const LOOK: Duration = Duration::from_secs(2);

/// The token of this folder's gateway; made when there is none yet.
pub(crate) fn load_or_create(folder: &DataFolder) -> Result<String, PathError> {
    let path = folder.token();
    if !path.exists() {
        write_private(&path, format!("{}\n", fresh()?).as_bytes(), false)?;
    }
    read(&path)
}

/// Puts a new token in place of the one of this folder, and returns it.
pub(crate) fn rotate(folder: &DataFolder) -> Result<String, PathError> {
    let token = fresh()?;
    write_private(&folder.token(), format!("{token}\n").as_bytes(), true)?;
    Ok(token)
}

/// The token in this file.
pub(crate) fn read(path: &Path) -> Result<String, PathError> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| PathError(format!("cannot read the API's token {}: {e}", path.display())))?;
    let token = text.trim();
    if token.len() < SHORTEST || token.chars().any(|c| !c.is_ascii_graphic()) {
        return Err(PathError(format!(
            "{} holds no usable token (at least {SHORTEST} printable characters): `manyhands token rotate` \
             makes a new one",
            path.display()
        )));
    }
    Ok(token.to_owned())
}

/// 256 bits: nobody guesses them.
fn fresh() -> Result<String, PathError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|e| PathError(format!("this system gives no random bytes for a token: {e}")))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// The token that requests have to show, as it stands in its file.
pub(crate) struct Guard {
    /// `None`: the token stays what it was at the start.
    path: Option<PathBuf>,
    seen: Mutex<Seen>,
    /// Counts the tokens that there were.
    changes: watch::Sender<u64>,
}

struct Seen {
    file: Option<Stamp>,
    /// All that is needed to compare.
    hash: blake3::Hash,
}

/// Differs after each change of a file: a token is written as a new file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    written: Option<SystemTime>,
    len: u64,
    inode: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let file = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&file);
        #[cfg(not(unix))]
        let inode = 0;
        Some(Stamp { written: file.modified().ok(), len: file.len(), inode })
    }
}

impl Guard {
    pub(crate) fn new(token: &str, path: Option<PathBuf>) -> Guard {
        // Without a stamp the file is read at the first look: it may have changed since the token was read.
        let seen = Seen { file: None, hash: blake3::hash(token.as_bytes()) };
        Guard { path, seen: Mutex::new(seen), changes: watch::Sender::new(0) }
    }

    /// Hashes are compared, in constant time: neither the length nor the bytes leak.
    pub(crate) fn accepts(&self, given: &[u8]) -> bool {
        blake3::hash(given) == self.look()
    }

    /// The hash of the token as the file has it now. A file that is gone or broken changes nothing.
    fn look(&self) -> blake3::Hash {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &self.path else { return seen.hash };
        let stamp = Stamp::of(path);
        if stamp.is_none() || stamp == seen.file {
            return seen.hash;
        }
        seen.file = stamp;
        match read(path) {
            Ok(token) => {
                let hash = blake3::hash(token.as_bytes());
                if hash != std::mem::replace(&mut seen.hash, hash) {
                    tracing::info!("the API's token was changed; the old one counts no more");
                    self.changes.send_modify(|n| *n += 1);
                }
            }
            Err(error) => tracing::warn!("{error}; until then the token that it held before counts"),
        }
        seen.hash
    }

    /// Ready when the token that counts now is replaced.
    pub(crate) fn replaced(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.changes.subscribe();
        async move {
            if changes.changed().await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Looks at the file from time to time, for ever.
    pub(crate) async fn follow(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn folder() -> (tempfile::TempDir, DataFolder) {
        let root = tempfile::tempdir().unwrap();
        let folder = DataFolder::at(root.path());
        (root, folder)
    }

    #[test]
    fn a_gateways_token_is_made_once_and_checked() {
        let (_root, folder) = folder();
        let made = load_or_create(&folder).unwrap();
        assert_eq!(made.len(), 64);
        assert_eq!(load_or_create(&folder).unwrap(), made);
        std::fs::write(folder.token(), "  my-own-token-of-mine\n").unwrap();
        assert_eq!(load_or_create(&folder).unwrap(), "my-own-token-of-mine");
        for bad in ["", "short", "with a space in it, which no header has"] {
            std::fs::write(folder.token(), bad).unwrap();
            assert!(load_or_create(&folder).unwrap_err().0.contains("no usable token"), "{bad}");
        }
    }

    #[test]
    fn a_new_token_counts_at_once_and_the_old_one_no_more() {
        let (_root, folder) = folder();
        let old = load_or_create(&folder).unwrap();
        let guard = Guard::new(&old, Some(folder.token()));
        let replaced = guard.replaced();
        assert!(guard.accepts(old.as_bytes()) && !guard.accepts(b"a wrong token of some length"));
        let new = rotate(&folder).unwrap();
        assert_ne!(new, old);
        assert!(guard.accepts(new.as_bytes()) && !guard.accepts(old.as_bytes()));
        assert!(replaced.now_or_never().is_some(), "streams end with their token");

        std::fs::write(folder.token(), "broken").unwrap();
        assert!(guard.accepts(new.as_bytes()) && !guard.accepts(b"broken"));
        std::fs::remove_file(folder.token()).unwrap();
        assert!(guard.accepts(new.as_bytes()));
    }
}
