use super::*;
use bytes::Bytes;
use node_core::content::{BlobRef, Data, NamedData};
use node_core::ids::{BlobId, NodeId};
use sandbox::{End, Limit};
use serde_json::{Value, json};

const JOB: JobId = JobId([0xab; 16]);

fn result(end: End, stdout: Data) -> UnitResult {
    let runner = NodeId([1; 32]);
    UnitResult {
        end,
        stdout,
        stderr: Data::EMPTY,
        files: Vec::new(),
        cpu_us: 1_500_000,
        runner,
        attempts: 1,
        fuel: 0,
        journey: None,
        paid: Default::default(),
    }
}

fn inline(bytes: &'static [u8]) -> Data {
    Data::Inline(Bytes::from_static(bytes))
}

fn shown(index: u32, result: UnitResult) -> Value {
    serde_json::to_value(UnitOutcome::new(JOB, index, result, 4096)).unwrap()
}

#[test]
fn a_result_says_how_it_ended_and_where_its_bytes_are() {
    let id = BlobId::of(b"much");
    let mut result = result(End::Exited(3), inline(b"hi\n"));
    result.stderr = Data::Blob(BlobRef { id, len: 5000 });
    result.files = vec![NamedData { path: "out/ä b?.txt".into(), data: inline(b"123") }];
    let job = JOB.to_string();
    assert_eq!(
        shown(7, result),
        json!({
            "index": 7, "success": false, "exit_code": 3, "message": "exited with code 3", "attempts": 1,
            "runner": NodeId([1; 32]).to_string(), "cpu_s": 1.5, "fuel": 0, "paid": 0, "journey": [],
            "stdout": {"len": 3, "base64": "aGkK", "url": format!("/api/v1/jobs/{job}/results/7/stdout")},
            "stderr": {"len": 5000, "base64": null, "url": format!("/api/v1/jobs/{job}/results/7/stderr")},
            "files": [{
                "path": "out/ä b?.txt", "len": 3, "base64": "MTIz",
                "url": format!("/api/v1/jobs/{job}/results/7/files/out/%C3%A4%20b%3F.txt"),
            }],
        })
    );
}

#[test]
fn a_run_that_did_not_end_by_itself_has_no_exit_code() {
    let stopped = shown(0, result(End::LimitReached(Limit::TimeUs(2_000_000)), Data::EMPTY));
    assert_eq!(stopped["exit_code"], Value::Null);
    assert_eq!(stopped["success"], false);
    assert!(stopped["message"].as_str().unwrap().contains("time_limit"));
    assert_eq!(shown(0, result(End::Exited(0), Data::EMPTY))["success"], true);
}

#[test]
fn small_content_comes_along_as_far_as_was_asked_for() {
    let with_file = |inline| {
        let mut result = result(End::Exited(0), inline_of(3));
        result.files = vec![NamedData { path: "f".into(), data: inline_of(5) }];
        let shown = serde_json::to_value(UnitOutcome::new(JOB, 0, result, inline)).unwrap();
        (shown["stdout"]["base64"].is_string(), shown["files"][0]["base64"].is_string())
    };
    assert_eq!([0, 3, 7, 8].map(with_file), [(false, false), (true, false), (true, false), (true, true)]);
}

fn inline_of(len: usize) -> Data {
    Data::Inline(vec![b'x'; len].into())
}

#[test]
fn a_full_page_says_where_to_go_on() {
    let found = |indexes: &[u32]| -> Vec<_> {
        indexes.iter().map(|index| (*index, result(End::Exited(0), inline(b"x")))).collect()
    };
    // Units 1 and 4 have not ended yet.
    assert_eq!(collect(JOB, (found(&[0, 2, 3]), true), (4096, MAX_ANSWER)).next, Some(4));
    assert_eq!(collect(JOB, (found(&[0, 2, 3]), false), (4096, MAX_ANSWER)).next, None);
    assert_eq!(collect(JOB, (found(&[]), false), (4096, MAX_ANSWER)).next, None);
    assert_eq!(collect(JOB, (found(&[u32::MAX]), true), (4096, MAX_ANSWER)).next, None);
}

#[test]
fn a_page_that_would_be_too_large_ends_early_but_always_goes_on() {
    static MUCH: [u8; 4096] = [b'x'; 4096];
    let found = || (0..5).map(|index| (index, result(End::Exited(0), inline(&MUCH)))).collect::<Vec<_>>();
    let page = collect(JOB, (found(), true), (4096, 14_000));
    assert_eq!((page.results.len(), page.next), (2, Some(2)));
    // Even when a single result is over the budget.
    let page = collect(JOB, (found(), true), (4096, 1));
    assert_eq!((page.results.len(), page.next), (1, Some(1)));
}
