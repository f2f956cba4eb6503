//! Between a thread and whoever carries what it says: letters come in, [`Said`] goes out.

use super::{Ask, End, Marks, Reply, Swarm, Wait};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Something that has come for a thread. It may come more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Letter {
    Message {
        from: u32,
        number: u64,
        message: Bytes,
    },
    /// A checkpoint of that thread has all messages below this number.
    Covered {
        to: u32,
        below: u64,
    },
    /// That thread has ended, and has sent so many messages to this one.
    Ended {
        from: u32,
        sent: u64,
    },
    Reply {
        number: u64,
        reply: Reply,
    },
    /// Number of its words that are written down.
    Written(u64),
    /// That thread has the messages below this number, and has lost those above.
    Again {
        to: u32,
        from: u64,
    },
    /// All that the thread has said is lost.
    All,
    /// All that the thread, which has ended, has sent is written down.
    Safe,
}

/// Word of a thread after a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub asks: Vec<Ask>,
    /// Reason for which it waits, if it does.
    pub waits: Option<Wait>,
    /// Messages that it has received: with [`Said::all`], and when it waits.
    pub marks: Option<Marks>,
    /// It begins or goes on, or says all again: `asks` has all that others may not have.
    pub all: bool,
    /// It has ended: what it sends is the last, and all that others may not have.
    pub ends: bool,
    /// Another part follows.
    pub more: bool,
}

impl Swarm {
    /// Takes a letter. One that there is no room for yet is given back.
    pub fn take_letter(&mut self, letter: Letter) -> Option<Letter> {
        match letter {
            Letter::Message { from, number, message } => {
                if !self.receive(from, number, message.clone()) {
                    return Some(Letter::Message { from, number, message });
                }
            }
            Letter::Ended { from, sent } => {
                if !self.ended(from, sent) {
                    return Some(Letter::Ended { from, sent });
                }
            }
            Letter::Covered { to, below } => self.covered(to, below),
            Letter::Reply { number, reply } => self.reply(number, reply),
            Letter::Written(told) => self.written(told),
            Letter::Again { to, from } => self.mail.again(to, from),
            Letter::Safe => self.end = End::Safe,
            Letter::All => {
                self.mail.all_again();
                self.is_known = false;
                self.gone = (self.told, self.asked.as_ref().map_or(self.questions, |asked| asked.number));
            }
        }
        None
    }

    /// Its word after a turn, or after letters.
    pub fn says(&mut self) -> Said {
        let waits = self.waits();
        let all = !std::mem::replace(&mut self.is_known, true);
        let marks = (waits.is_some() || all).then(|| self.marks());
        let asks = self.asks();
        let ends = self.end == End::Kept && asks.iter().any(|ask| matches!(ask, Ask::Send { .. }));
        Said { asks, waits, marks, all, ends, more: false }
    }
}

impl Said {
    /// Parts of it of about so many bytes.
    pub fn parts(self, most: usize) -> Vec<Said> {
        let Said { asks, waits, marks, all, ends, .. } = self;
        let (mut parts, mut bytes) = (vec![Vec::new()], 0);
        for ask in asks {
            let len = ask.len();
            if bytes + len > most && bytes > 0 {
                parts.push(Vec::new());
                bytes = 0;
            }
            bytes += len;
            parts.last_mut().into_iter().for_each(|part| part.push(ask.clone()));
        }
        let last = parts.len() - 1;
        let part = |(at, asks)| Said {
            asks,
            // It waits when all is said.
            waits: waits.filter(|_| at == last),
            marks: marks.clone().filter(|_| at == 0 || at == last),
            all: all && at == 0,
            ends,
            more: at < last,
        };
        parts.into_iter().enumerate().map(part).collect()
    }

    /// Whether there is nothing to carry.
    pub fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.waits.is_none() && self.marks.is_none()
    }
}
