//! Files that others write, and that become blobs.

use super::*;
use crate::storage::NoBlob;
use std::io::Write as _;
use std::os::unix::fs::{FileExt, MetadataExt};

const CONTENT: &[u8] = b"written by another process";

fn written(staging: &Staging) -> (Draft, std::fs::File) {
    let (draft, mut writer) = staging.draft().unwrap();
    writer.write_all(CONTENT).unwrap();
    (draft, writer)
}

fn finished(staging: &Staging) -> (BlobRef, Bytes) {
    let (draft, writer) = written(staging);
    drop(writer);
    draft.finish(CONTENT.len() as u64).unwrap()
}

fn put(blob: BlobRef, bytes: Bytes) -> impl FnOnce(Token) -> StorageRequest {
    move |token| StorageRequest::PutBlob { token, id: blob.id, bytes }
}

#[test]
fn a_file_becomes_a_blob_without_a_copy() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let staging = keeper.storage.staging();
    let (draft, writer) = written(&staging);
    let inode = writer.metadata().unwrap().ino();
    drop(writer);
    let (blob, bytes) = draft.finish(CONTENT.len() as u64).unwrap();
    assert_eq!(blob, BlobRef::of(CONTENT));
    assert!(bytes.is_empty(), "the node has none of it");
    assert_eq!(keeper.storage.blob(blob.id), None, "the node has not asked for it");
    keeper.done(put(blob, bytes));
    let (path, len) = keeper.storage.blob(blob.id).unwrap();
    assert_eq!(len, blob.len);
    assert_eq!(std::fs::read(&path).unwrap(), CONTENT);
    if cfg!(target_os = "linux") {
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode, "it is the file that was written");
    }
    assert_eq!(staging.files(), 0);
}

#[test]
fn whoever_keeps_a_descriptor_changes_nothing_that_has_a_name() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let (draft, writer) = written(&keeper.storage.staging());
    let (blob, bytes) = draft.finish(CONTENT.len() as u64).unwrap();
    assert_eq!(blob, BlobRef::of(CONTENT));
    writer.write_all_at(b"W", 0).unwrap();
    keeper.done(put(blob, bytes));
    writer.write_all_at(b"W", 0).unwrap();
    let (path, _) = keeper.storage.blob(blob.id).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), CONTENT);
}

#[test]
fn a_descriptor_that_is_closed_in_a_moment_costs_no_copy() {
    let folder = folder();
    let staging = Keeper::on(folder.path()).storage.staging();
    let (draft, writer) = written(&staging);
    let inode = writer.metadata().unwrap().ino();
    let closing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        drop(writer);
    });
    let (blob, bytes) = draft.finish(CONTENT.len() as u64).unwrap();
    closing.join().unwrap();
    let partial = staging.take(blob.id).unwrap();
    if cfg!(target_os = "linux") {
        assert_eq!(partial.file().unwrap().metadata().unwrap().ino(), inode);
    }
    drop((bytes, partial));
}

#[test]
fn a_length_that_is_not_true_is_found_out() {
    let folder = folder();
    let staging = Keeper::on(folder.path()).storage.staging();
    let found = CONTENT.len() as u64;
    for keep in [false, true] {
        for said in [0, found - 1, found + 1, u64::MAX] {
            let (draft, writer) = written(&staging);
            let kept = keep.then_some(writer);
            assert_eq!(draft.finish(said).unwrap_err(), NoBlob::Length { said, found });
            drop(kept);
        }
    }
    let (draft, _writer) = staging.draft().unwrap();
    assert_eq!(draft.finish(0).unwrap_err(), NoBlob::Empty);
    assert_eq!(staging.files(), 0);
}

#[test]
fn a_file_that_nobody_keeps_is_removed() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let staging = keeper.storage.staging();
    drop(written(&staging));
    assert_eq!(staging.files(), 0);
    // A task that stands still gives the same snapshot twice.
    let ((blob, first), (_, second)) = (finished(&staging), finished(&staging));
    assert_eq!(staging.files(), 1);
    drop(first);
    assert_eq!(staging.files(), 1, "the second stands for it too");
    drop(second.clone());
    drop(second);
    let began = std::time::Instant::now();
    while staging.files() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "its file is removed");
        std::thread::yield_now();
    }
    // Nothing of it is left to be kept.
    let said = keeper.fails(put(blob, Bytes::new()));
    assert!(said.contains("damaged"), "{said}");
    let (blob, bytes) = finished(&staging);
    keeper.done(put(blob, bytes));
    assert!(keeper.storage.blob(blob.id).is_some());
}
