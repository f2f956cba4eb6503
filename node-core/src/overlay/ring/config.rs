//! Sizes and times of the ring.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Length r of the list of successors: so many less one may be lost at once. Our choice, about
    /// log2 N as paper `chord` asks (section 5.3): when half of all nodes die at once, one in
    /// 2^16 loses its whole list, and comes back through its fingers.
    pub successors: u8,
    /// How often a member tells its successor that it is there (*stabilize* and *notify* of paper
    /// `chord` in one). Our choice: a third of the lease.
    pub beat: Duration,
    /// How often while the successor does not take this member for its predecessor. Our choice: a
    /// few ways there and back.
    pub urgent: Duration,
    /// Until a beat is repeated; the third in vain is the last. Our choice: a dial and an answer
    /// over a slow line.
    pub answer: Duration,
    /// How long a member gathers changes around it before it tells its predecessor. Our choice: a
    /// list of 16 is right everywhere within ten seconds, where by beats alone it takes a minute.
    pub news: Duration,
    /// How long a member answers for its arc after its successor took it for its predecessor. Our
    /// choice: three beats.
    pub lease: Duration,
    /// A member whose own beat is so late stood still itself, and may have been taken for dead:
    /// it waits for its successor's word. Our choice: more than a busy node's timers are late; with
    /// a beat it is less than a silent connection takes to be ended.
    pub late: Duration,
    /// After such a silence a predecessor is given up. More than the lease, so that it has ceased
    /// to answer before another does in its place.
    pub silence: Duration,
    /// How often one finger is looked at. Our choice: a hundred thousand nodes have 13, so each is
    /// right within about two minutes.
    pub fix: Duration,
    /// When a lookup asks the next one as well. Our choice: a dial and an answer on a usual line.
    pub hurry: Duration,
    /// How long one step of a lookup may take. Our choice: a dial and an answer on a slow line.
    pub step: Duration,
    /// How long a lookup that is passed on may take altogether. Our choice: ten steps on good
    /// lines, half of them dialled.
    pub pass: Duration,
    /// How long a lookup rests when nobody knows further, at first. Our choice: what a join needs
    /// to become known.
    pub rest: Duration,
    /// When a lookup fails. Our choice: a death is noticed within 10 s and mended within two more.
    pub deadline: Duration,
    /// How long a member that reaches nobody waits before it begins a ring of its own; as in the
    /// tree.
    pub alone: Duration,
    /// How long others' word is not taken that somebody lives who was just found dead. Our choice:
    /// until they must have noticed too.
    pub gone: Duration,
    /// Lookups of this node's own at once; one more fails at once.
    pub lookups: usize,
    /// Lookups at once for nodes that are no members, of one and of all; one more is refused.
    pub per_guest: usize,
    pub guests: usize,
    /// Members of this node on all rings; one more is refused. Our choice: markets one node owns.
    pub members: usize,
    /// Owners that were looked up before; the least recently used goes first. Our choice: the
    /// markets that one buyer uses.
    pub known: usize,
}

impl Default for RingConfig {
    fn default() -> Self {
        RingConfig {
            successors: 16,
            beat: Duration::from_secs(5),
            urgent: Duration::from_secs(1),
            answer: Duration::from_millis(1500),
            news: Duration::from_millis(300),
            lease: Duration::from_secs(15),
            late: Duration::from_secs(1),
            silence: Duration::from_secs(20),
            fix: Duration::from_secs(10),
            hurry: Duration::from_millis(700),
            step: Duration::from_secs(2),
            pass: Duration::from_secs(5),
            rest: Duration::from_millis(300),
            deadline: Duration::from_secs(30),
            alone: Duration::from_secs(90),
            gone: Duration::from_secs(10),
            lookups: 256,
            per_guest: 8,
            guests: 64,
            members: 256,
            known: 64,
        }
    }
}

impl RingConfig {
    pub(super) fn r(&self) -> usize {
        usize::from(self.successors.max(1))
    }
}
