//! Blobs: whole or not there.

use super::*;

fn blob(len: usize) -> (BlobId, Bytes) {
    let bytes: Bytes = (0..len).map(|i| (i * 31 % 251) as u8).collect();
    (BlobId::of(&bytes), bytes)
}

fn put(id: BlobId, bytes: Bytes) -> impl FnOnce(Token) -> StorageRequest {
    move |token| StorageRequest::PutBlob { token, id, bytes }
}

fn piece(id: BlobId, whole: &Bytes, from: usize, to: usize) -> impl FnOnce(Token) -> StorageRequest + use<> {
    let bytes = whole.slice(from..to);
    let last = to == whole.len();
    move |token| StorageRequest::AppendBlob { token, id, offset: from as u64, bytes, last }
}

fn read(keeper: &mut Keeper, id: BlobId, offset: u64, len: u32) -> Bytes {
    let token = keeper.ask(|token| StorageRequest::ReadBlob { token, id, offset, len });
    match keeper.answer(token) {
        StorageReply::Blob { bytes, .. } => bytes,
        other => panic!("{other:?}"),
    }
}

/// Files that are neither whole blobs nor expected.
fn unfinished(keeper: &Keeper) -> usize {
    std::fs::read_dir(keeper.storage.parts.folder.partial()).unwrap().count()
}

#[test]
fn a_blob_is_kept_read_found_and_forgotten() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let (id, bytes) = blob(100_000);
    assert_eq!(keeper.storage.blob(id), None);
    keeper.done(put(id, bytes.clone()));
    let (path, len) = keeper.storage.blob(id).unwrap();
    assert_eq!(len, 100_000);
    let name = id.to_string();
    assert_eq!(path, keeper.storage.blob_dir().join(&name[..2]).join(&name));
    assert_eq!(read(&mut keeper, id, 0, 100_000), bytes);
    assert_eq!(read(&mut keeper, id, 99_000, 1_000), bytes[99_000..]);
    assert_eq!(read(&mut keeper, id, 100_000, 0), Bytes::new());
    drop(keeper);
    let mut keeper = Keeper::on(folder.path());
    assert_eq!(keeper.storage.blobs(), [BlobRef { id, len: 100_000 }]);
    keeper.done(put(id, bytes)); // a second time is harmless
    keeper.storage.request(StorageRequest::DropBlob { id });
    keeper.done(put(blob(1).0, blob(1).1)); // behind it in the queue
    assert_eq!(keeper.storage.blob(id), None);
    assert_eq!(unfinished(&keeper), 0);
}

#[test]
fn a_blob_in_pieces_is_there_when_the_last_came() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let (id, whole) = blob(10_000);
    let (other, other_whole) = blob(9_000);
    keeper.done(piece(id, &whole, 0, 4_000));
    keeper.done(piece(other, &other_whole, 0, 1));
    keeper.done(piece(id, &whole, 4_000, 8_000));
    assert_eq!(keeper.storage.blob(id), None);
    keeper.done(piece(id, &whole, 8_000, 10_000));
    assert_eq!(read(&mut keeper, id, 0, 10_000), whole);
    keeper.done(piece(other, &other_whole, 0, 9_000)); // once more from the start
    assert_eq!(read(&mut keeper, other, 0, 9_000), other_whole);
    assert_eq!(unfinished(&keeper), 0);
}

#[test]
fn pieces_out_of_order_and_wrong_content_are_refused_and_leave_nothing() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let (id, whole) = blob(10_000);
    let error = keeper.fails(piece(id, &whole, 5, 10));
    assert!(error.contains("a piece of blob") && error.contains("0 bytes were there"), "{error}");
    keeper.done(piece(id, &whole, 0, 100));
    keeper.fails(piece(id, &whole, 200, 300));
    let wrong = whole.slice(1..);
    let error = keeper.fails(put(id, wrong.clone()));
    assert!(error.contains("it was damaged on the way"), "{error}");
    keeper.done(piece(id, &wrong, 0, 100));
    keeper.fails(piece(id, &wrong, 100, wrong.len()));
    assert_eq!(keeper.storage.blob(id), None);
    assert_eq!(unfinished(&keeper), 0);
}

#[test]
fn three_hundred_blobs_that_come_side_by_side_are_all_kept() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let all: Vec<(BlobId, Bytes)> = (20_000..20_300).map(blob).collect();
    for (from, to) in [(0, 7_000), (7_000, 14_000)] {
        for (id, whole) in &all {
            keeper.done(piece(*id, whole, from, to));
        }
    }
    assert_eq!(unfinished(&keeper), 300);
    for (id, whole) in &all {
        keeper.done(piece(*id, whole, 14_000, whole.len()));
        assert_eq!(read(&mut keeper, *id, 0, whole.len() as u32), whole);
    }
    assert_eq!(unfinished(&keeper), 0);
}

#[test]
fn many_blobs_that_wait_are_all_kept_and_one_bad_one_spoils_none() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let began = std::time::Instant::now();
    let good: Vec<(BlobId, Bytes)> = (5_000..5_300).map(blob).collect();
    let asked: Vec<Token> = good.iter().map(|(id, bytes)| keeper.ask(put(*id, bytes.clone()))).collect();
    let bad = keeper.ask(put(blob(1).0, blob(2).1));
    for token in asked {
        assert!(matches!(keeper.answer(token), StorageReply::Done { .. }));
    }
    println!("{:.0} durable blobs/s", 300.0 / began.elapsed().as_secs_f64());
    assert!(matches!(keeper.answer(bad), StorageReply::Failed { .. }));
    assert_eq!(keeper.storage.blobs().len(), 300);
    assert_eq!(unfinished(&keeper), 0);
}

#[test]
fn reads_beyond_a_blob_or_of_none_say_so() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let (id, bytes) = blob(100);
    let ask = |offset, len| move |token| StorageRequest::ReadBlob { token, id, offset, len };
    assert!(keeper.fails(ask(0, 1)).contains("is not here"));
    keeper.done(put(id, bytes));
    assert!(keeper.fails(ask(0, 101)).contains("has 100 bytes"));
    assert!(keeper.fails(ask(u64::MAX, 1)).contains("has 100 bytes"));
    assert!(keeper.fails(ask(0, u32::MAX)).contains("at most"));
}

#[test]
fn an_upload_is_named_by_its_content_and_an_abandoned_one_leaves_nothing() {
    let folder = folder();
    let keeper = Keeper::on(folder.path());
    let (id, bytes) = blob(70_000);
    let mut upload = keeper.storage.upload().unwrap();
    bytes.chunks(9_999).for_each(|chunk| upload.write(chunk).unwrap());
    assert_eq!(upload.finish().unwrap(), BlobRef { id, len: 70_000 });
    assert_eq!(std::fs::read(keeper.storage.blob(id).unwrap().0).unwrap(), bytes);
    let mut abandoned = keeper.storage.upload().unwrap();
    abandoned.write(b"half").unwrap();
    drop(abandoned);
    assert_eq!(unfinished(&keeper), 0);
}

#[test]
fn what_a_killed_process_left_unfinished_is_cleaned_up_and_strangers_stay() {
    let folder = folder();
    drop(Keeper::on(folder.path()));
    std::fs::write(folder.path().join("partial/0"), "half a blob").unwrap();
    std::fs::create_dir(folder.path().join("blobs/zz")).unwrap();
    std::fs::write(folder.path().join("blobs/zz/notes.txt"), "mine").unwrap();
    let keeper = Keeper::on(folder.path());
    assert_eq!(unfinished(&keeper), 0);
    assert_eq!(keeper.storage.blobs(), []);
    assert!(folder.path().join("blobs/zz/notes.txt").exists());
}

#[test]
fn a_folder_that_went_away_fails_each_request_clearly() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let partial = keeper.storage.parts.folder.partial();
    std::fs::remove_dir(&partial).unwrap();
    std::fs::write(&partial, "in the way").unwrap();
    let (id, bytes) = blob(10);
    let error = keeper.fails(put(id, bytes.clone()));
    assert!(error.contains("cannot store a blob in") && error.contains("partial"), "{error}");
    assert!(keeper.storage.upload().is_err());
    std::fs::remove_file(&partial).unwrap();
    std::fs::create_dir(&partial).unwrap();
    keeper.done(put(id, bytes));
}
