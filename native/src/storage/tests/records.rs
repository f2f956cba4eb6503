//! Records: all or nothing, durable when said so, whatever happens.

use super::*;
use node_core::NodeId;
use node_core::content::Data;
use sandbox::End;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

const JOB: JobId = JobId([7; 16]);

#[test]
fn what_was_committed_is_read_back_in_key_order() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    assert_eq!(keeper.scan(Table::Jobs, None, 10), []);
    keeper.done(commit(vec![write(Table::Jobs, b"b", b"2"), write(Table::Jobs, b"a", b"1")]));
    keeper.done(commit(vec![write(Table::Jobs, b"c", b"3"), write(Table::Results, b"a", b"other table")]));
    let all = [(b"a".to_vec(), Bytes::from("1")), (b"b".to_vec(), "2".into()), (b"c".to_vec(), "3".into())];
    assert_eq!(keeper.scan(Table::Jobs, None, 10), all);
    assert_eq!(keeper.scan(Table::Jobs, None, 2), all[..2]);
    assert_eq!(keeper.scan(Table::Jobs, Some(b"a"), 10), all[1..]);
    keeper.done(commit(vec![Write { table: Table::Jobs, key: b"b".to_vec(), value: None }]));
    assert_eq!(keeper.scan(Table::Jobs, None, 10).len(), 2);
}

#[test]
fn requests_that_wait_together_are_all_answered() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let tokens: Vec<Token> = (0..1000u32)
        .map(|n| keeper.ask(commit(vec![write(Table::Results, &n.to_be_bytes(), b"r")])))
        .collect();
    // In the queue behind them, so it sees them all.
    assert_eq!(keeper.scan(Table::Results, None, 5000).len(), 1000);
    for token in tokens {
        assert!(matches!(keeper.answer(token), StorageReply::Done { .. }));
    }
}

#[test]
fn a_reopened_folder_has_everything() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    keeper.done(commit(vec![write(Table::Jobs, b"job", b"record")]));
    drop(keeper);
    assert_eq!(Keeper::on(folder.path()).scan(Table::Jobs, None, 10).len(), 1);
}

fn result(index: u32) -> UnitResult {
    UnitResult {
        end: End::Exited(0),
        stdout: Data::Inline(index.to_string().into()),
        stderr: Data::EMPTY,
        files: Vec::new(),
        cpu_us: 5,
        runner: NodeId([1; 32]),
        attempts: 1,
        fuel: 7,
        journey: None,
        paid: Default::default(),
    }
}

#[test]
fn results_are_given_by_job_and_index() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let stored = |job, index| {
        write(Table::Results, &result_key(job, index), &rmp_serde::to_vec(&result(index)).unwrap())
    };
    let (before, after) = (JobId([6; 16]), JobId([8; 16]));
    let mut writes: Vec<Write> = [0, 1, 5, 300, u32::MAX].map(|index| stored(JOB, index)).into();
    writes.extend([stored(before, u32::MAX), stored(after, 0)]);
    keeper.done(commit(writes));
    let indices = |from, limit| -> Vec<u32> {
        keeper
            .storage
            .results(JOB, from, (limit, usize::MAX))
            .unwrap()
            .0
            .iter()
            .map(|(index, _)| *index)
            .collect()
    };
    assert_eq!(indices(0, 100), [0, 1, 5, 300, u32::MAX]);
    assert_eq!(indices(1, 3), [1, 5, 300]);
    assert_eq!(keeper.storage.result(JOB, 5).unwrap(), Some(result(5)));
    assert_eq!(keeper.storage.result(JOB, 6).unwrap(), None);
    assert_eq!(keeper.storage.results(JobId([9; 16]), 0, (10, 1000)).unwrap(), (vec![], false));
    keeper.done(commit(vec![write(Table::Results, &result_key(JOB, 9), b"\xc1")]));
    let error = keeper.storage.result(JOB, 9).unwrap_err().to_string();
    assert!(error.contains("the result of unit 9 of job 0707") && error.contains("damaged"), "{error}");
}

#[test]
fn a_list_of_results_reads_no_more_than_its_budget() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let large = |index| UnitResult { stdout: Data::Inline(vec![b'x'; 10_000].into()), ..result(index) };
    let row =
        |index| write(Table::Results, &result_key(JOB, index), &rmp_serde::to_vec(&large(index)).unwrap());
    keeper.done(commit((0..20).map(row).collect()));
    let (some, more) = keeper.storage.results(JOB, 0, (100, 25_000)).unwrap();
    assert_eq!((some.len(), more), (3, true));
    assert_eq!(keeper.storage.results(JOB, 3, (100, 1)).unwrap().0.len(), 1, "one comes however large it is");
    let (rest, more) = keeper.storage.results(JOB, 3, (100, usize::MAX)).unwrap();
    assert_eq!((rest.len(), more), (17, false));
}

#[test]
fn a_full_disk_refuses_loses_nothing_and_goes_on_when_there_is_room() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    keeper.done(commit(vec![write(Table::Jobs, b"first", b"1")]));
    let full = keeper.storage.parts.records.full.clone();
    full.store(true, SeqCst);
    for _ in 0..3 {
        let error = keeper.fails(commit(vec![write(Table::Jobs, b"second", &[0; 100_000])]));
        assert!(error.contains("state.redb: the disk is full: free some space"), "{error}");
    }
    full.store(false, SeqCst);
    let keys = |keeper: &mut Keeper| -> Vec<Vec<u8>> {
        keeper.scan(Table::Jobs, None, 10).into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys(&mut keeper), [b"first".to_vec()]);
    keeper.done(commit(vec![write(Table::Jobs, b"third", b"3")]));
    drop(keeper);
    assert_eq!(keys(&mut Keeper::on(folder.path())), [b"first".to_vec(), b"third".to_vec()]);
}

#[test]
fn a_damaged_database_is_named_and_never_ends_the_process() {
    let folder = folder();
    let path = folder.path().join("state.redb");
    let mut keeper = Keeper::on(folder.path());
    let writes = (0..500u32).map(|n| write(Table::Results, &n.to_be_bytes(), &[n as u8; 300])).collect();
    keeper.done(commit(writes));
    drop(keeper);
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    let mut try_with = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let outcome = Keeper::try_on(folder.path()).and_then(|keeper| {
            keeper.storage.parts.records.range(Table::Results, &[], &[0xff; 4], (1000, usize::MAX))?;
            let new = [write(Table::Jobs, b"new", b"")];
            keeper.storage.parts.records.commit(new.iter())
        });
        if let Err(StorageError(error)) = outcome {
            assert!(error.contains("state.redb"), "{error}");
            assert!(error.contains("damaged") && error.contains("move it away"), "{error}");
            refused += 1;
        }
    };
    try_with(b"this is no database, and it is long enough to be read as one");
    try_with(&whole[..whole.len() / 2]);
    try_with(&whole[..100]);
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        let mut damaged = whole.clone();
        damaged[at..].iter_mut().take(64).for_each(|byte| *byte ^= 0x5a);
        try_with(&damaged);
    }
    assert!(refused >= 3, "{refused}");
}

/// Not a test by itself: the process that the next one kills.
#[test]
#[ignore = "run by another test"]
fn commits_until_killed() {
    let Ok(dir) = std::env::var("MANYHANDS_TEST_FOLDER") else { return };
    let mut keeper = Keeper::on(Path::new(&dir));
    for n in 0u64.. {
        keeper.done(commit(
            (0..20u8).map(|i| write(Table::Results, &[&n.to_be_bytes()[..], &[i]].concat(), b"r")).collect(),
        ));
        println!("durable {n}");
    }
}

#[test]
fn what_was_acknowledged_survives_a_killed_process() {
    let folder = folder();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "storage::tests::records::commits_until_killed"])
        .env("MANYHANDS_TEST_FOLDER", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut acknowledged = lines.filter_map(|line| line.split("durable ").nth(1)?.trim().parse::<u64>().ok());
    assert!(acknowledged.any(|n| n == 50));
    child.kill().unwrap();
    child.wait().unwrap();
    let last = acknowledged.last().unwrap_or(50);
    let found = Keeper::on(folder.path()).scan(Table::Results, None, u32::MAX);
    assert_eq!(found.len() % 20, 0, "part of a commit");
    assert!(found.len() as u64 >= (last + 1) * 20, "{} of {} came back", found.len(), (last + 1) * 20);
}

#[test]
fn small_results_in_hundreds_are_committed_fast() {
    let folder = folder();
    let mut keeper = Keeper::on(folder.path());
    let began = Instant::now();
    let tokens: Vec<Token> = (0..500u32)
        .map(|batch| {
            let key = |n: u32| result_key(JobId([n as u8; 16]), n);
            let writes = (0..100).map(|n| write(Table::Results, &key(batch * 100 + n), &[1; 120])).collect();
            keeper.ask(commit(writes))
        })
        .collect();
    for token in tokens {
        assert!(matches!(keeper.answer(token), StorageReply::Done { .. }));
    }
    println!("{:.0} durable results/s", 50_000.0 / began.elapsed().as_secs_f64());
}

#[test]
fn a_temporary_storage_works_and_leaves_nothing() {
    let (sender, replies) = channel();
    let storage = Storage::open_temporary(move |reply| drop(sender.send(reply))).unwrap();
    let dir = storage.blob_dir().parent().unwrap().to_path_buf();
    let mut keeper = Keeper { storage, replies, next: 0, early: HashMap::new() };
    keeper.done(commit(vec![write(Table::Jobs, b"job", b"record")]));
    assert_eq!(keeper.scan(Table::Jobs, None, 10).len(), 1);
    assert!(dir.exists());
    drop(keeper);
    assert!(!dir.exists());
}
