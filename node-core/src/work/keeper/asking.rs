//! Permission to have checkpoints of a unit kept: its owner is asked, for each placement once a minute.
//!
//! A node that has run one unit of a job knows the names of all others, and their owner. So the owner, which
//! granted the unit, says whether the sender runs it; the connection proves that the owner says so. A
//! checkpoint whose sender names an owner of its own is kept in that owner's room, and takes nobody else's.

use super::room::NotKept;
use crate::ids::{JobId, NodeId, UnitId};
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::keeper::{Keeper, Placement, Timer};
use crate::work::message::{Keep, KeepTerms, Message, ToOwner, ToRunner};
use std::collections::BTreeMap;
use std::time::Duration;

/// An owner that has not answered by then is away, and nothing new is kept for it. Our choice: as long as a
/// runner asks a keeper that is silent.
const PATIENCE: Duration = Duration::from_secs(9);

/// Checkpoints that wait for an owner's answer: of all senders, and of one. More are not answered, and their
/// senders ask again. Our choice: a megabyte, and all slots of a large machine at once.
const ALL: usize = 4096;
const OF_ONE: usize = 256;

/// Checkpoints whose units' owners have yet to say whether their senders run them.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// By sender; of each unit the newest.
    keeps: BTreeMap<(NodeId, UnitId), Asked>,
}

#[derive(Debug)]
struct Asked {
    keep: Keep,
    until: Time,
}

impl Asking {
    fn of_one(&self, sender: NodeId) -> usize {
        let first = (sender, UnitId { job: JobId([0; 16]), index: 0 });
        self.keeps.range(first..).take_while(|((of, _), _)| *of == sender).count()
    }

    /// The peer has gone: it asks again when it is back.
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.keeps.retain(|(sender, _), _| *sender != peer);
    }

    pub(super) fn check(&self) {
        assert!(self.keeps.len() <= ALL, "what waits for owners is bounded");
    }
}

impl Keeper {
    pub(super) fn ask(&mut self, from: NodeId, keep: Keep, cx: &mut Cx<'_, Self>) {
        let Keep { unit, owner, version, relayed, .. } = keep;
        let (slot, attempt) = ((from, unit), version.attempt);
        let before = self.asking.keeps.get(&slot);
        if before.is_none() && (self.asking.keeps.len() >= ALL || self.asking.of_one(from) >= OF_ONE) {
            return;
        }
        let same = |before: &&Asked| (before.keep.owner, before.keep.version.attempt) == (owner, attempt);
        let until = before.filter(same).map_or(cx.now + PATIENCE, |before| before.until);
        self.asking.keeps.insert(slot, Asked { keep, until });
        cx.set_timer_by(Timer::Asked, until.since(cx.now));
        cx.send(owner, Message::ToOwner(ToOwner::IsGranted { unit, runner: from, attempt }));
        Self::answer(from, relayed, ToRunner::Keeping { unit, version }, cx);
    }

    /// An owner says whether that runner has the unit.
    pub(super) fn granted(
        &mut self,
        from: NodeId,
        (unit, runner, attempt): (UnitId, NodeId, u32),
        terms: Option<KeepTerms>,
        cx: &mut Cx<'_, Self>,
    ) {
        let fits = |asked: &&Asked| asked.keep.owner == from && asked.keep.version.attempt == attempt;
        if self.asking.keeps.get(&(runner, unit)).filter(fits).is_none() {
            return;
        }
        let Some(Asked { keep, .. }) = self.asking.keeps.remove(&(runner, unit)) else { return };
        let version = keep.version;
        // There may be less room than when it was asked.
        let reason = match (terms, self.check(runner, &keep, cx.me)) {
            (Some(terms), _) if keep.parts.iter().any(|part| part.len > terms.part_bytes) => {
                NotKept::Large(terms.part_bytes).to_string()
            }
            (Some(terms), Ok(())) => return self.take(runner, keep, Some(terms), cx),
            (Some(_), Err(why)) => why.to_string(),
            (None, _) => format!("{} says that it does not run there", from.short()),
        };
        Self::answer(runner, false, ToRunner::KeepRefused { unit, version, reason }, cx);
    }

    pub(super) fn not_answered(&mut self, cx: &mut Cx<'_, Self>) {
        let late = self.asking.keeps.extract_if(.., |_, asked| asked.until <= cx.now);
        let late: Vec<((NodeId, UnitId), Asked)> = late.collect();
        for ((runner, unit), Asked { keep, .. }) in late {
            let placement = Placement { attempt: keep.version.attempt, sender: runner };
            if self.vouched((unit, keep.owner), placement).is_some()
                && self.check(runner, &keep, cx.me).is_ok()
            {
                // The owner is away, and said before that it runs there: nothing is lost meanwhile.
                self.take(runner, keep, None, cx);
                continue;
            }
            let reason = format!("the unit's owner {} does not answer it", keep.owner.short());
            let version = keep.version;
            Self::answer(runner, false, ToRunner::KeepRefused { unit, version, reason }, cx);
        }
        if let Some(next) = self.asking.keeps.values().map(|asked| asked.until).min() {
            cx.set_timer(Timer::Asked, next.since(cx.now));
        }
    }
}
