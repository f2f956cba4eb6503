use super::*;
use sandbox::swarm::{SwapRefused, Wait};

fn outputs(computer: &mut Computer) -> Vec<Output> {
    std::iter::from_fn(|| computer.output()).collect()
}

fn replies(computer: &mut Computer) -> Vec<(u32, u64, Reply)> {
    let replies = outputs(computer).into_iter().filter_map(|output| match output {
        Output::Reply { thread, number, reply } => Some((thread, number, reply)),
        _ => None,
    });
    replies.collect()
}

fn spawn() -> Question {
    Question::Spawn { arguments: vec!["a".into()], input: Bytes::from_static(b"input") }
}

fn swap(version: u64, value: &'static str) -> Question {
    Question::Swap { name: "best".into(), version, value: Bytes::from_static(value.as_bytes()) }
}

fn read(seen: Option<u64>, wait: bool) -> Question {
    Question::Global { name: "best".into(), seen, wait }
}

#[test]
fn a_thread_is_begun_once_however_often_it_is_asked_for() {
    let mut computer = Computer::new(Bounds::default());
    computer.ask(0, 0, spawn());
    let begun = outputs(&mut computer);
    let input = Bytes::from_static(b"input");
    assert_eq!(begun[0], Output::Begin { thread: 1, arguments: vec!["a".into()], input });
    assert_eq!(begun[1], Output::Reply { thread: 0, number: 0, reply: Reply::Spawn(Ok(1)) });
    computer.ask(0, 0, spawn());
    assert_eq!(replies(&mut computer), [(0, 0, Reply::Spawn(Ok(1)))]);
    assert_eq!(computer.threads(), 2);
}

#[test]
fn no_more_threads_are_begun_than_the_job_may_have() {
    let mut computer = Computer::new(Bounds { threads: 2, ..Bounds::default() });
    computer.ask(0, 0, spawn());
    computer.ask(0, 1, spawn());
    let arguments = vec!["x".repeat(STRINGS_MAX)];
    computer.ask(1, 0, Question::Spawn { arguments, input: Bytes::new() });
    let refused: Vec<Reply> = replies(&mut computer).into_iter().map(|(_, _, reply)| reply).collect();
    let (quota, long) = (Err(SpawnRefused::Quota), Err(SpawnRefused::TooLong));
    assert_eq!(refused, [Reply::Spawn(Ok(1)), Reply::Spawn(quota), Reply::Spawn(long)]);
}

#[test]
fn who_waits_for_an_end_hears_of_it_and_who_does_not_wait_hears_that_it_runs() {
    let mut computer = Computer::new(Bounds::default());
    computer.ask(0, 0, spawn());
    computer.ask(1, 0, Question::End { thread: 0, wait: false });
    computer.ask(0, 1, Question::End { thread: 1, wait: true });
    outputs(&mut computer);
    computer.ended(1, "exit 0".into(), &Bytes::from_static(b"found"));
    let end = Ended { how: "exit 0".into(), output: Bytes::from_static(b"found") };
    assert_eq!(replies(&mut computer), [(0, 1, Reply::End(Some(end.clone())))]);
    // A second end changes nothing, and an early question of one that has ended has no answer.
    computer.ended(1, "exit 7".into(), &Bytes::new());
    computer.ask(1, 1, spawn());
    computer.ask(0, 2, Question::End { thread: 1, wait: true });
    assert_eq!(replies(&mut computer), [(0, 2, Reply::End(Some(end)))]);
}

#[test]
fn a_long_output_is_cut_for_others_and_says_so() {
    let mut computer = Computer::new(Bounds::default());
    computer.ended(0, "exit 0".into(), &vec![b'x'; OUTPUT_MAX + 1].into());
    let end = computer.end(0).unwrap();
    assert_eq!(end.output.len(), OUTPUT_MAX);
    assert_eq!(end.how, "exit 0, output cut at 65536 bytes");
}

#[test]
fn of_two_changes_of_one_version_the_first_counts() {
    let mut computer = Computer::new(Bounds::default());
    computer.ask(0, 0, spawn());
    computer.ask(0, 1, swap(0, "a"));
    computer.ask(1, 0, swap(0, "b"));
    computer.ask(1, 1, read(None, true));
    // Asked again, it is not done again.
    computer.ask(0, 1, swap(0, "a"));
    let all = replies(&mut computer);
    let changed = Reply::Swap(Err(SwapRefused::Changed));
    let value = Reply::Global(1, Bytes::from_static(b"a"));
    let once = Reply::Swap(Ok(1));
    assert_eq!(all[1..], [(0, 1, once.clone()), (1, 0, changed), (1, 1, value), (0, 1, once)]);
}

#[test]
fn who_waits_for_a_change_hears_of_the_next_one() {
    let mut computer = Computer::new(Bounds::default());
    computer.ask(0, 0, spawn());
    computer.ask(1, 0, read(Some(0), true));
    assert_eq!(computer.stuck(1, Wait::Answer).to_string(), "thread 1 waits for the global best to be set");
    outputs(&mut computer);
    computer.ask(0, 1, swap(0, "a"));
    let value = Reply::Global(1, Bytes::from_static(b"a"));
    assert_eq!(replies(&mut computer), [(0, 1, Reply::Swap(Ok(1))), (1, 0, value)]);
}

#[test]
fn globals_have_bounds() {
    let bounds = Bounds { globals: 1, globals_bytes: 10, ..Bounds::default() };
    let mut computer = Computer::new(bounds);
    computer.ask(0, 0, swap(0, "abcdefg"));
    computer.ask(0, 1, swap(0, "abcdef"));
    computer.ask(0, 2, swap(1, "ghijkl"));
    computer.ask(0, 3, Question::Swap { name: "b".into(), version: 0, value: Bytes::new() });
    let full = Reply::Swap(Err(SwapRefused::Full));
    let all: Vec<Reply> = replies(&mut computer).into_iter().map(|(_, _, reply)| reply).collect();
    assert_eq!(all, [full.clone(), Reply::Swap(Ok(1)), Reply::Swap(Ok(2)), full]);
}

#[test]
fn a_partial_result_is_delivered_once_and_in_order() {
    let mut computer = Computer::new(Bounds::default());
    let report = |text: &'static str| Tell::Report(Bytes::from_static(text.as_bytes()));
    assert!(!computer.tell(0, 1, report("second")), "the first is missing");
    assert!(computer.tell(0, 0, report("first")));
    assert!(computer.tell(0, 0, report("first")));
    assert!(computer.tell(0, 1, Tell::Choice(Choice::From(3))));
    assert_eq!(outputs(&mut computer).len(), 1);
    assert_eq!((computer.told(0), computer.choices(0)), (2, vec![(1, Choice::From(3))]));
}

#[test]
fn what_a_checkpoint_covers_is_forgotten_but_for_the_last_answer() {
    let mut computer = Computer::new(Bounds::default());
    computer.ask(0, 0, swap(0, "a"));
    computer.ask(0, 1, swap(1, "b"));
    computer.tell(0, 0, Tell::Choice(Choice::Nothing(1)));
    computer.tell(0, 1, Tell::Choice(Choice::From(1)));
    outputs(&mut computer);
    computer.covered(0, &Marks { questions: 2, told: 1, ..Marks::default() });
    assert_eq!(computer.choices(0), [(1, Choice::From(1))]);
    computer.ask(0, 0, swap(0, "a"));
    computer.ask(0, 1, swap(1, "b"));
    assert_eq!(replies(&mut computer), [(0, 1, Reply::Swap(Ok(2)))]);
}
