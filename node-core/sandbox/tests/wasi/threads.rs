//! Files under `/swarm`, call by call: a thread of a virtual computer, and whoever carries what it says.

use crate::support::errno::{AGAIN, BADF, BUSY, DQUOT, INVAL, ISDIR, MSGSIZE, NOENT};
use crate::support::{FREE, Guest, NONBLOCK, READ, ROOT, WRITE};
use sandbox::Task;
use sandbox::swarm::{
    Ask, Choice, Ended, Question, Reply, SpawnRefused, SwapRefused, Swarm, Tell, Thread, Wait,
};
use sandbox::wasi::Host;

fn task() -> Task {
    Task { thread: Some(Thread { number: 3, workers: 8 }), ..Task::default() }
}

fn thread() -> Guest {
    Guest::new(&task())
}

fn swarm(guest: &mut Guest) -> &mut Swarm {
    guest.host.swarm().expect("it is a thread")
}

/// As if it went on elsewhere.
fn moved(guest: Guest) -> Guest {
    let host = Host::load(&task(), &guest.host.save()).expect("its own state");
    Guest { host, memory: guest.memory }
}

/// A read; none: it waits.
fn read(guest: &mut Guest, fd: u32, most: u32) -> Option<Result<String, u32>> {
    guest.put(0, &FREE.to_le_bytes());
    guest.put(4, &most.to_le_bytes());
    let errno = guest.waiting_call("fd_read", &[fd.into(), 0, 1, 8])?;
    let text = || String::from_utf8(guest.bytes(FREE, guest.u32(8)).to_vec()).unwrap();
    Some(if errno == 0 { Ok(text()) } else { Err(errno) })
}

fn found(text: &str) -> Option<Result<String, u32>> {
    Some(Ok(text.into()))
}

/// A write; none: it waits.
fn write(guest: &mut Guest, fd: u32, text: &str) -> Option<Result<(), u32>> {
    guest.put(FREE, text.as_bytes());
    guest.put(0, &FREE.to_le_bytes());
    guest.put(4, &(text.len() as u32).to_le_bytes());
    let errno = guest.waiting_call("fd_write", &[fd.into(), 0, 1, 8])?;
    Some(if errno == 0 { Ok(()) } else { Err(errno) })
}

fn question(guest: &mut Guest) -> (u64, Question) {
    let asks = swarm(guest).asks();
    let asked = asks.into_iter().find_map(|ask| match ask {
        Ask::Question { number, question, .. } => Some((number, question)),
        _ => None,
    });
    asked.expect("a question")
}

#[test]
fn a_thread_knows_itself_and_a_program_that_is_none_finds_nothing() {
    let mut guest = thread();
    for (path, text) in [("swarm/self", "3\n"), ("./swarm//workers", "8\n"), ("swarm/version", "1\n")] {
        let fd = guest.open(path, 0, READ);
        assert_eq!([read(&mut guest, fd, 1), read(&mut guest, fd, 9)], [found(&text[..1]), found("\n")]);
        assert_eq!(read(&mut guest, fd, 9), found(""), "{path}");
    }
    let open = |guest: &mut Guest, path| guest.try_open(ROOT, path, 0, READ, 0).unwrap_err();
    assert_eq!(open(&mut guest, "swarm/to/07"), NOENT);
    assert_eq!([open(&mut guest, "swarm"), open(&mut guest, "swarm/from")], [ISDIR; 2]);
    assert_eq!(open(&mut guest, "swarm/globals/a b"), INVAL);
    assert_eq!(guest.stat("swarm/self").map(|(kind, ..)| kind), Ok(5), "no libc takes it for a terminal");
    assert_eq!(open(&mut Guest::empty(), "swarm/self"), NOENT);
}

#[test]
fn messages_leave_once_under_their_numbers_and_wait_for_room() {
    let mut guest = thread();
    let to = guest.open("swarm/to/7", 0, WRITE);
    assert_eq!(write(&mut guest, to, "one"), Some(Ok(())));
    assert_eq!(write(&mut guest, to, ""), Some(Ok(())), "nothing is no message");
    let sends = |guest: &mut Guest| {
        let of = |ask| match ask {
            Ask::Send { to, number, message, .. } => (to, number, message.len()),
            other => panic!("{other:?}"),
        };
        swarm(guest).asks().into_iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(sends(&mut guest), [(7, 0, 3)]);
    assert_eq!(sends(&mut guest), [], "it is on its way");
    let large = "x".repeat(20_000);
    let kept = (0..).take_while(|_| write(&mut guest, to, &large) == Some(Ok(()))).count();
    assert_eq!(kept, ((1 << 20) - 3) / 20_000);
    assert_eq!(swarm(&mut guest).waits(), Some(Wait::Room));
    sends(&mut guest);
    let mut guest = moved(guest);
    assert_eq!(sends(&mut guest).len(), kept + 1, "elsewhere nobody knows what has left");
    swarm(&mut guest).covered(7, 2);
    assert_eq!(write(&mut guest, to, &large), Some(Ok(())));
    assert_eq!(sends(&mut guest), [(7, kept as u64 + 1, 20_000)]);
    let fd = guest.open("swarm/to/7", 0, READ);
    assert_eq!(read(&mut guest, fd, 9), Some(Err(BADF)));
}

#[test]
fn messages_are_read_whole_in_order_and_once() {
    let mut guest = thread();
    let from = guest.open("swarm/from/5", 0, READ);
    assert_eq!(read(&mut guest, from, 99), None);
    assert_eq!(swarm(&mut guest).waits(), Some(Wait::From(5)));
    assert!(!swarm(&mut guest).receive(5, 1, "second".into()), "one is missing");
    assert!(swarm(&mut guest).receive(6, 0, "other".into()));
    assert_eq!(read(&mut guest, from, 99), None, "of another thread");
    for _ in 0..2 {
        assert!(swarm(&mut guest).receive(5, 0, "first".into()), "it may come twice");
    }
    assert_eq!(swarm(&mut guest).waits(), None);
    assert!(swarm(&mut guest).receive(5, 1, "second".into()));
    let mut guest = moved(guest);
    assert_eq!(read(&mut guest, from, 4), Some(Err(MSGSIZE)), "nothing is lost");
    assert_eq!(read(&mut guest, from, 99), found("first"));
    assert!(!swarm(&mut guest).ended(5, 3), "one is on its way");
    assert!(swarm(&mut guest).receive(5, 2, "last".into()) && swarm(&mut guest).ended(5, 3));
    assert_eq!([read(&mut guest, from, 99), read(&mut guest, from, 99)], [found("second"), found("last")]);
    assert_eq!([read(&mut guest, from, 99), read(&mut guest, from, 99)], [found(""), found("")]);
    assert_eq!(swarm(&mut guest).marks().received, [(5, 3), (6, 1)].into());
}

#[test]
fn a_run_that_is_repeated_finds_what_it_found() {
    let mut guest = thread();
    let any = guest.try_open(ROOT, "swarm/from/any", 0, READ, NONBLOCK).unwrap();
    let to = guest.open("swarm/to/9", 0, WRITE);
    let mut again = moved(Guest { host: guest.host.clone(), memory: guest.memory.clone() });
    let mut seen = Vec::new();
    for step in 0..4 {
        if step == 2 {
            assert!(
                swarm(&mut guest).receive(6, 0, "six".into())
                    && swarm(&mut guest).receive(5, 0, "five".into())
            );
        }
        seen.push(read(&mut guest, any, 99));
    }
    write(&mut guest, to, "after");
    assert_eq!(seen, [Some(Err(AGAIN)), Some(Err(AGAIN)), found("6\nsix"), found("5\nfive")]);
    let asks = swarm(&mut guest).asks();
    let told = |ask: &Ask| match ask {
        Ask::Tell { tell: Tell::Choice(choice), .. } => Some(*choice),
        _ => None,
    };
    let choices: Vec<Choice> = asks.iter().filter_map(told).collect();
    assert_eq!(choices, [Choice::Nothing(2), Choice::From(6), Choice::From(5)]);
    let sent = asks.iter().find_map(|ask| match ask {
        Ask::Send { told, .. } => Some(*told),
        _ => None,
    });
    assert_eq!(sent, Some(3), "it leaves when these are written down");

    swarm(&mut again).replay((0..).zip(choices).collect());
    // They come in another order.
    assert!(swarm(&mut again).receive(5, 0, "five".into()));
    assert_eq!([read(&mut again, any, 99), read(&mut again, any, 99)], [Some(Err(AGAIN)), Some(Err(AGAIN))]);
    assert_eq!(read(&mut again, any, 99), None, "it found a message of 6 here");
    assert!(swarm(&mut again).receive(6, 0, "six".into()));
    assert_eq!([read(&mut again, any, 99), read(&mut again, any, 99)], [found("6\nsix"), found("5\nfive")]);
    write(&mut again, to, "after");
    assert_eq!(swarm(&mut again).asks(), asks, "and says what it said");
}

#[test]
fn threads_are_begun_and_waited_for() {
    let mut guest = thread();
    let spawn = guest.open("swarm/spawn", 0, READ | WRITE);
    assert_eq!(write(&mut guest, spawn, "island 3\nits input\n"), None);
    let arguments = vec!["island".into(), "3".into()];
    let asked = Question::Spawn { arguments, input: "its input\n".into() };
    assert_eq!(question(&mut guest), (0, asked.clone()));
    let mut guest = moved(guest);
    assert_eq!(question(&mut guest), (0, asked), "it is the same question elsewhere");
    swarm(&mut guest).reply(0, Reply::Global(1, "of another question".into()));
    assert_eq!(write(&mut guest, spawn, "island 3\nits input\n"), None);
    swarm(&mut guest).reply(0, Reply::Spawn(Ok(12)));
    assert_eq!(write(&mut guest, spawn, "island 3\nits input\n"), Some(Ok(())));
    assert_eq!(read(&mut guest, spawn, 9), found("12\n"));
    assert_eq!(write(&mut guest, spawn, "one more"), None);
    swarm(&mut guest).reply(1, Reply::Spawn(Err(SpawnRefused::Quota)));
    assert_eq!(write(&mut guest, spawn, "one more"), Some(Err(DQUOT)));

    let end = guest.open("swarm/end/12", 0, READ);
    assert_eq!(read(&mut guest, end, 99), None);
    assert_eq!(question(&mut guest), (2, Question::End { thread: 12, wait: true }));
    swarm(&mut guest).reply(2, Reply::End(Some(Ended { how: "exit 0".into(), output: "42".into() })));
    assert_eq!([read(&mut guest, end, 7), read(&mut guest, end, 99)], [found("exit 0\n"), found("42")]);
    assert_eq!(read(&mut guest, end, 99), found(""));
}

#[test]
fn a_global_changes_by_who_has_read_it_and_by_nobody_else() {
    let mut guest = thread();
    let best = guest.open("swarm/globals/best", 0, READ | WRITE);
    assert_eq!(read(&mut guest, best, 99), None);
    assert_eq!(question(&mut guest).1, Question::Global { name: "best".into(), seen: None, wait: true });
    swarm(&mut guest).reply(0, Reply::Global(0, "".into()));
    assert_eq!(read(&mut guest, best, 99), found("0\n"), "it was never set");
    assert_eq!(write(&mut guest, best, "17"), None);
    let swap = |version| Question::Swap { name: "best".into(), version, value: "17".into() };
    assert_eq!(question(&mut guest).1, swap(0));
    swarm(&mut guest).reply(1, Reply::Swap(Err(SwapRefused::Changed)));
    assert_eq!(write(&mut guest, best, "17"), Some(Err(BUSY)));
    assert_eq!(read(&mut guest, best, 99), None);
    swarm(&mut guest).reply(2, Reply::Global(4, "20".into()));
    assert_eq!(read(&mut guest, best, 2), Some(Err(MSGSIZE)), "nothing is lost");
    assert_eq!(read(&mut guest, best, 99), found("4\n20"));
    assert_eq!(write(&mut guest, best, "17"), None);
    assert_eq!(question(&mut guest), (3, swap(4)));
    swarm(&mut guest).reply(3, Reply::Swap(Ok(5)));
    assert_eq!(write(&mut guest, best, "17"), Some(Ok(())));
    assert_eq!(read(&mut guest, best, 99), None, "until it changes");
    assert_eq!(question(&mut guest).1, Question::Global { name: "best".into(), seen: Some(5), wait: true });
}

#[test]
fn a_value_that_was_not_seen_is_not_replaced() {
    let mut guest = thread();
    let best = guest.open("swarm/globals/best", 0, READ | WRITE);
    assert_eq!(read(&mut guest, best, 2), None);
    question(&mut guest);
    swarm(&mut guest).reply(0, Reply::Global(4, "20".into()));
    assert_eq!(read(&mut guest, best, 2), Some(Err(MSGSIZE)));
    assert_eq!(write(&mut guest, best, "17"), None);
    assert_eq!(
        question(&mut guest).1,
        Question::Swap { name: "best".into(), version: 0, value: "17".into() }
    );
}

#[test]
fn a_message_that_is_waited_for_comes_in_however_many_others_wait() {
    let mut guest = thread();
    let from = guest.open("swarm/from/5", 0, READ);
    let long = bytes::Bytes::from(vec![b'x'; 256 << 10]);
    let mut taken = 0;
    while swarm(&mut guest).receive(6, taken, long.clone()) {
        taken += 1;
    }
    assert_eq!(taken, 16, "4 MiB");
    assert!(!swarm(&mut guest).receive(5, 0, "five".into()), "nobody waits for it");
    assert_eq!(read(&mut guest, from, 99), None);
    assert!(!swarm(&mut guest).receive(6, taken, long), "nor for this one");
    assert_eq!(swarm(&mut guest).waits(), Some(Wait::From(5)), "what does not come in wakes nobody");
    assert!(swarm(&mut guest).receive(5, 0, "five".into()));
    assert_eq!(read(&mut guest, from, 99), found("five"));
    let task = task();
    assert!(Host::load(&task, &guest.host.save()).is_ok());
}

#[test]
fn partial_results_are_told_once_and_count_as_output() {
    let limits = sandbox::Limits { output_bytes: 100, ..Default::default() };
    let task = Task { limits, ..task() };
    let mut guest = Guest::new(&task);
    let report = guest.open("swarm/report", 0, WRITE);
    assert_eq!(write(&mut guest, report, &"x".repeat(60)), Some(Ok(())));
    let told = swarm(&mut guest).asks();
    assert_eq!(told, [Ask::Tell { number: 0, tell: Tell::Report("x".repeat(60).into()) }]);
    swarm(&mut guest).written(1);
    let host = Host::load(&task, &guest.host.save()).unwrap();
    let mut guest = Guest { host, memory: guest.memory };
    assert_eq!(swarm(&mut guest).asks(), [], "it is written down");
    assert!(guest.try_write(report, &"x".repeat(60)).is_err(), "the limit ends it");
}

#[test]
fn a_state_of_another_thread_is_refused() {
    let state = thread().host.save();
    let other = Task { thread: Some(Thread { number: 4, workers: 8 }), ..Task::default() };
    assert!(Host::load(&task(), &state).is_ok());
    assert!(Host::load(&other, &state).is_err() && Host::load(&Task::default(), &state).is_err());
}

#[test]
fn whatever_bytes_a_state_has_it_is_refused_or_sound() {
    let mut guest = thread();
    let to = guest.open("swarm/to/7", 0, WRITE);
    let any = guest.try_open(ROOT, "swarm/from/any", 0, READ, NONBLOCK).unwrap();
    read(&mut guest, any, 99);
    write(&mut guest, to, "text");
    assert!(swarm(&mut guest).receive(6, 0, "six".into()));
    let state = guest.host.save();
    let mut taken = 0;
    for at in 0..state.len() {
        for byte in [0, 1, 0x7f, 0x93, 0xcf, 0xff] {
            let mut forged = state.clone();
            forged[at] = byte;
            let Ok(host) = Host::load(&task(), &forged) else { continue };
            taken += 1;
            let mut guest = Guest { host, memory: guest.memory.clone() };
            swarm(&mut guest).asks();
            swarm(&mut guest).receive(6, 1, "more".into());
            swarm(&mut guest).covered(7, u64::MAX);
            guest.waiting_call("fd_read", &[any.into(), 0, 1, 8]);
            guest.waiting_call("fd_write", &[to.into(), 0, 1, 8]);
        }
    }
    assert!(taken > 10, "{taken} of {} were taken", state.len() * 6);
}

#[test]
fn what_has_been_told_stays_as_it_was_told_wherever_the_thread_goes_on() {
    let mut guest = thread();
    let any = guest.try_open(ROOT, "swarm/from/any", 0, READ, NONBLOCK).unwrap();
    read(&mut guest, any, 99);
    let told = swarm(&mut guest).asks();
    let mut guest = moved(guest);
    read(&mut guest, any, 99);
    let again = swarm(&mut guest).asks();
    assert_eq!((told.len(), again.len(), &again[..1]), (1, 2, &told[..]));
}
