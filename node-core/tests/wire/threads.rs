//! Words of threads of a virtual computer, and letters for them.

use super::*;
use sandbox::swarm::{Ask, Choice, Letter, Marks, Question, Reply, Said, Tell, Wait};

pub(super) fn examples() -> Vec<Message> {
    let unit = UnitId { job: JobId([2; 16]), index: 1 };
    let letters = ToRunner::Letters { unit, attempt: 5, letters: letters() };
    let runner = [letters, ToRunner::Checkpoint { unit }].map(Work::ToRunner);
    let said = ToOwner::Said { unit, attempt: 5, said: Box::new(said()) };
    [Work::ToOwner(said)].into_iter().chain(runner).map(Message::Work).collect()
}

pub(super) fn choices() -> Vec<(u64, Choice)> {
    vec![(18, Choice::From(19))]
}

pub(super) fn marks() -> Box<Marks> {
    Box::new(Marks { received: [(5, 6)].into(), questions: 7, told: 8 })
}

fn said() -> Said {
    let message = Bytes::from_static(b"message");
    let asks = vec![
        Ask::Tell { number: 1, tell: Tell::Choice(Choice::Nothing(2)) },
        Ask::Tell { number: 2, tell: Tell::Report(message.clone()) },
        Ask::Send { to: 3, number: 4, message: message.clone(), told: 5 },
        Ask::Question {
            number: 6,
            question: Question::Spawn { arguments: vec!["a".into()], input: message },
            told: 7,
        },
    ];
    let marks = Marks { received: [(8, 9)].into(), questions: 10, told: 11 };
    Said { asks, waits: Some(Wait::From(12)), marks: Some(marks), all: true, ends: true, more: false }
}

fn letters() -> Vec<Letter> {
    let bytes = Bytes::from_static(b"bytes");
    vec![
        Letter::Message { from: 1, number: 2, message: bytes.clone() },
        Letter::Covered { to: 3, below: 4 },
        Letter::Ended { from: 5, sent: 6 },
        Letter::Reply { number: 7, reply: Reply::Global(8, bytes) },
        Letter::Written(9),
        Letter::Again { to: 10, from: 11 },
        Letter::All,
        Letter::Safe,
    ]
}
