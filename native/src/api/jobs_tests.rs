use super::*;
use node_core::work::view::JobState;

fn job(n: u8, submitted_ms: u64) -> JobView {
    JobView {
        id: JobId([n; 16]),
        name: String::new(),
        state: JobState::Waiting,
        reason: String::new(),
        units: 1,
        waiting: 1,
        placed: 0,
        done: 0,
        failed: 0,
        held: 0,
        duplicates: 0,
        lost_placements: 0,
        cpu_us: 0,
        submitted_ms,
        ended_ms: None,
        cost: None,
        by_node: Vec::new(),
    }
}

/// Newest first, as the node lists them; the number is also the time.
fn jobs(numbers: impl IntoIterator<Item = u8>) -> Vec<JobView> {
    numbers.into_iter().map(|n| job(n, u64::from(n))).collect()
}

fn numbers(jobs: &[JobView]) -> Vec<u8> {
    jobs.iter().map(|job| job.id.0[0]).collect()
}

#[test]
fn pages_follow_each_other_to_the_end() {
    let all = || jobs((1..=5).rev());
    let (first, more) = page(all(), None, 2);
    assert_eq!((numbers(&first), more), (vec![5, 4], true));
    let (second, more) = page(all(), Some(&Cursor::at(&first[1])), 2);
    assert_eq!((numbers(&second), more), (vec![3, 2], true));
    let (third, more) = page(all(), Some(&Cursor::at(&second[1])), 2);
    assert_eq!((numbers(&third), more), (vec![1], false));
}

#[test]
fn a_page_that_is_exactly_full_is_the_last() {
    assert!(!page(jobs([2, 1]), None, 2).1);
    assert_eq!(page(Vec::new(), None, 2), (Vec::new(), false));
}

#[test]
fn jobs_that_came_or_went_in_between_shift_nothing() {
    let cursor = Cursor::at(&job(4, 4));
    // 7 and 6 are new, 4 itself is gone.
    let (next, _) = page(jobs([7, 6, 5, 3, 2]), Some(&cursor), 2);
    assert_eq!(numbers(&next), [3, 2]);
}

#[test]
fn a_cursor_survives_the_way_to_the_client_and_back() {
    let cursor = Cursor::at(&job(7, 1_795_235_700_123));
    assert_eq!(Cursor::parse(&cursor.to_string()).unwrap(), cursor);
    for text in ["", "-", "5", "zz-07", "5-zz", "1-0707"] {
        assert!(Cursor::parse(text).unwrap_err().parts().1.contains("cursor"), "{text}");
    }
}

#[test]
fn a_key_always_means_the_same_job() {
    let (ours, theirs) = ([1; 32], [2; 32]);
    assert_eq!(id_of_key(&ours, "monday"), id_of_key(&ours, "monday"));
    assert_ne!(id_of_key(&ours, "monday"), id_of_key(&ours, "tuesday"));
    assert_ne!(
        id_of_key(&ours, "monday"),
        id_of_key(&theirs, "monday"),
        "another gateway cannot foretell it"
    );
    assert_ne!(random_id().unwrap(), random_id().unwrap());
}

#[test]
fn a_key_is_short_and_visible() {
    let key = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, axum::http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        idempotency_key(&headers)
    };
    assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
    assert_eq!(key("5f0c-1").unwrap().as_deref(), Some("5f0c-1"));
    for bad in ["", "two words", "ключ", &"x".repeat(256)] {
        assert_eq!(key(bad).unwrap_err().parts().0, 400, "{bad}");
    }
}
