//! Wrong invites, by where they came from: a word that people chose is not guessed by trying.

use crate::address::Ip;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Wrong words from one address in [`WHILE`]; then none is looked at. Our choice: a person who mistypes it, at
/// several machines behind one router.
const TRIES: u32 = 10;

/// Our choice: 1,440 words a day from one address, and a word of eight letters drawn at random has 10^11.
const WHILE: Duration = Duration::from_secs(600);

/// Addresses that are remembered; the one that began first gives way. Our choice: 64 KB.
const ADDRESSES: usize = 1024;

pub(super) const TOO_MANY: &str =
    "too many wrong invites came from this address; none is looked at for ten minutes, then try again";

#[derive(Debug, Default)]
pub(super) struct Wrong {
    /// How many, and since when. Those of unknown addresses are counted together.
    by: BTreeMap<Option<Ip>, (u32, Time)>,
}

impl Wrong {
    pub(super) fn are_too_many(&self, from: Option<Ip>, now: Time) -> bool {
        let known = self.by.get(&from.map(Ip::network));
        known.is_some_and(|(count, since)| *count >= TRIES && now.since(*since) < WHILE)
    }

    pub(super) fn came(&mut self, from: Option<Ip>, now: Time) {
        let from = from.map(Ip::network);
        self.by.retain(|_, (_, since)| now.since(*since) < WHILE);
        if self.by.len() >= ADDRESSES && !self.by.contains_key(&from) {
            let first = self.by.iter().min_by_key(|(_, (_, since))| *since).map(|(of, _)| *of);
            first.map(|first| self.by.remove(&first));
        }
        self.by.entry(from).or_insert((0, now)).0 += 1;
    }
}
