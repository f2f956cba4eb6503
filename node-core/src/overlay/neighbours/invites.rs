//! Wrong invites, by where they came from: a word that people chose is not guessed by trying.

use crate::address::Ip;
use crate::ids::NodeId;
use crate::peers::Peer;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Wrong words from one address in [`WHILE`]; then none is looked at. Our choice: a person who mistypes it, at
/// several machines behind one router.
const TRIES: u32 = 10;

/// Our choice: 1,440 words a day from one address, and a word of eight letters drawn at random has 10^11.
const WHILE: Duration = Duration::from_secs(600);

/// Addresses and relays that are remembered; the one that began first gives way. Our choice: 64 KB.
const ADDRESSES: usize = 1024;

pub(super) const TOO_MANY: &str =
    "too many wrong invites came from this address; none is looked at for ten minutes, then try again";

#[derive(Debug, Default)]
pub(super) struct Wrong {
    /// How many, and since when.
    by: BTreeMap<From, (u32, Time)>,
}

/// Where a word comes from. Who comes by a circuit has no address here: one relay that lets strangers in shuts out
/// nobody who comes by another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    Network(Ip),
    Relay(NodeId),
    Unknown,
}

impl From {
    fn of(peer: &Peer) -> From {
        let network = peer.ip.map(|ip| From::Network(ip.network()));
        network.or(peer.via.map(From::Relay)).unwrap_or(From::Unknown)
    }
}

impl Wrong {
    pub(super) fn are_too_many(&self, from: &Peer, now: Time) -> bool {
        let known = self.by.get(&From::of(from));
        known.is_some_and(|(count, since)| *count >= TRIES && now.since(*since) < WHILE)
    }

    pub(super) fn came(&mut self, from: &Peer, now: Time) {
        let from = From::of(from);
        self.by.retain(|_, (_, since)| now.since(*since) < WHILE);
        if self.by.len() >= ADDRESSES && !self.by.contains_key(&from) {
            let first = self.by.iter().min_by_key(|(_, (_, since))| *since).map(|(of, _)| *of);
            first.map(|first| self.by.remove(&first));
        }
        self.by.entry(from).or_insert((0, now)).0 += 1;
    }
}
