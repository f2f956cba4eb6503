//! Texts of disk errors: what went wrong, and what to do.

use super::StorageError;
use std::io::{self, ErrorKind};
use std::path::Path;

/// An operation on a file or folder failed. `doing` completes "cannot …".
pub(super) fn io(doing: &str, path: &Path, error: &io::Error) -> StorageError {
    let advice = match error.kind() {
        ErrorKind::StorageFull => "the disk is full: free some space there, then try again".into(),
        ErrorKind::QuotaExceeded => {
            "your disk quota is used up: free some space there, then try again".into()
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            format!("{error}: mend the permissions, or choose another folder with --data DIR")
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            format!(
                "{error}: something else is in the way; move it, or choose another folder with --data DIR"
            )
        }
        _ => format!("{error}: check the disk, or choose another folder with --data DIR"),
    };
    StorageError(format!("cannot {doing} {}: {advice}", path.display()))
}

/// The database refused.
pub(super) fn database(doing: &str, path: &Path, error: &redb::Error) -> StorageError {
    match error {
        // redb reports a file that ends too early or makes no sense as an I/O error of these two kinds.
        redb::Error::Io(e) if !matches!(e.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => {
            io(doing, path, e)
        }
        redb::Error::DatabaseAlreadyOpen => StorageError(format!(
            "cannot {doing} {}: another program has it open; close that first",
            path.display()
        )),
        redb::Error::UpgradeRequired(version) => StorageError(format!(
            "cannot {doing} {}: its format {version} is of another version of manyhands; \
             use that version, or choose another folder with --data DIR",
            path.display()
        )),
        _ => damaged(doing, path, &error.to_string()),
    }
}

pub(super) fn damaged(doing: &str, path: &Path, how: &str) -> StorageError {
    StorageError(format!(
        "cannot {doing} {}: it is damaged ({how}). Put a copy of it back, or move it away to start with \
         no jobs and results",
        path.display()
    ))
}
