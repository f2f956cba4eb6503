//! The folder as a whole.

use super::*;

#[test]
fn a_second_opener_is_told_who_has_the_folder() {
    let folder = folder();
    let first = Keeper::on(folder.path());
    let Err(StorageError(error)) = Keeper::try_on(folder.path()) else { panic!("opened twice") };
    let expected = format!(
        "the data folder {} is in use by another manyhands process (pid {})",
        folder.path().display(),
        std::process::id()
    );
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.contains("--data DIR"), "{error}");
    drop(first);
    Keeper::on(folder.path());
}

#[test]
fn a_folder_that_cannot_be_is_refused_with_its_name() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let Err(StorageError(error)) = Keeper::try_on(&file) else { panic!("a file is a folder") };
    assert!(error.starts_with(&format!("cannot make the data folder {}", file.display())), "{error}");
    assert!(error.contains("--data DIR"), "{error}");
    let dir = folder.path().join("dir");
    std::fs::create_dir_all(dir.join("state.redb")).unwrap();
    let Err(StorageError(error)) = Keeper::try_on(&dir) else { panic!("a folder is a database") };
    assert!(error.contains("state.redb") && error.contains("--data DIR"), "{error}");
}

#[test]
fn advice_fits_what_happened() {
    let path = Path::new("/somewhere/blobs");
    let said = |kind: std::io::ErrorKind| words::io("write to", path, &kind.into()).0;
    assert!(said(std::io::ErrorKind::StorageFull).contains("/somewhere/blobs: the disk is full: free some"));
    assert!(said(std::io::ErrorKind::QuotaExceeded).contains("quota"));
    assert!(said(std::io::ErrorKind::PermissionDenied).contains("mend the permissions"));
    assert!(said(std::io::ErrorKind::ReadOnlyFilesystem).contains("choose another folder"));
}
