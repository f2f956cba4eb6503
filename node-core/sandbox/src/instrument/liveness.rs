//! Which locals matter at which resume point: only those are saved.

use super::ir::{Body, Inst, Local};

/// Words of sets that may be visited for a function.
/// Our choice: a second or two; the largest functions known need a hundredth of it.
const MOST_WORK: u64 = 1 << 31;
/// Words of the sets that labels keep: 128 MiB.
const MOST_KEPT: usize = 1 << 24;
/// Locals that may be saved at all points of a function together: more makes it larger than
/// engines take.
const MOST_SAVED: usize = 1 << 20;

/// For each point the locals whose values are needed when it is resumed, or nothing if that
/// would take too long to find out.
pub(super) fn live_at_points(body: &Body) -> Option<Vec<Vec<Local>>> {
    let words = body.locals.len().div_ceil(64);
    if body.labels.len().saturating_mul(words) > MOST_KEPT {
        return None;
    }
    let mut walk = Walk {
        body,
        labels: vec![Vec::new(); body.labels.len()],
        elses: vec![Vec::new(); body.labels.len()],
        is_loop: vec![false; body.labels.len()],
        points: None,
        saved: 0,
        work: 0,
        words: words as u64,
    };
    for inst in &body.insts {
        if let Inst::Loop(label) = inst {
            walk.is_loop[*label as usize] = true;
            walk.labels[*label as usize] = vec![0; words];
        }
    }
    // A local that is live at a loop's start is live wherever the loop starts again: walk to a
    // fixpoint.
    let mut at_end = vec![0; words];
    if let Some(deep) = body.deep {
        insert(&mut at_end, deep);
    }
    while walk.backwards(at_end.clone())? {}
    walk.points = Some(vec![Vec::new(); body.points as usize]);
    walk.backwards(at_end)?;
    walk.points
}

type Set = Vec<u64>;

struct Walk<'b> {
    body: &'b Body,
    /// Live where a branch to the label arrives.
    labels: Vec<Set>,
    elses: Vec<Set>,
    is_loop: Vec<bool>,
    points: Option<Vec<Vec<Local>>>,
    saved: usize,
    work: u64,
    words: u64,
}

impl Walk<'_> {
    /// Once over the function from its end. Whether a loop's set grew; nothing if it is too much.
    fn backwards(&mut self, mut live: Set) -> Option<bool> {
        let mut grew = false;
        for inst in self.body.insts.iter().rev() {
            match inst {
                Inst::Get(local) => insert(&mut live, *local),
                Inst::Set(local) => remove(&mut live, *local),
                // It leaves the value on the stack, which is not in the local.
                Inst::Tee(local) => remove(&mut live, *local),
                Inst::Unreachable => {
                    self.spend(1)?;
                    live.fill(0);
                }
                Inst::Doomed(point) => {
                    self.spend(1)?;
                    live.fill(0);
                    self.record(*point, &live, Local::MAX)?;
                }
                Inst::Br(to) => {
                    self.spend(1)?;
                    live.clone_from(&self.labels[*to as usize]);
                }
                Inst::BrIf(to) => {
                    self.spend(1)?;
                    unite(&mut live, &self.labels[*to as usize]);
                }
                Inst::BrTable(table) => {
                    let mut targets = self.body.tables[*table as usize].to_vec();
                    targets.sort_unstable();
                    targets.dedup();
                    self.spend(targets.len() as u64 + 1)?;
                    live.fill(0);
                    for to in targets {
                        unite(&mut live, &self.labels[to as usize]);
                    }
                }
                Inst::End(label) if self.is_loop[*label as usize] => {}
                Inst::End(label) => {
                    self.spend(1)?;
                    self.labels[*label as usize].clone_from(&live);
                    self.elses[*label as usize].clear();
                }
                Inst::Else(label) => {
                    self.spend(2)?;
                    self.elses[*label as usize].clone_from(&live);
                    live.clone_from(&self.labels[*label as usize]);
                }
                Inst::If(label) => {
                    self.spend(1)?;
                    let otherwise = match &self.elses[*label as usize] {
                        none if none.is_empty() => &self.labels[*label as usize],
                        otherwise => otherwise,
                    };
                    unite(&mut live, otherwise);
                }
                Inst::Loop(label) => {
                    self.spend(1)?;
                    let at_start = &mut self.labels[*label as usize];
                    if *at_start != live {
                        unite(at_start, &live);
                        grew = true;
                    }
                }
                Inst::Scope(scope) => {
                    let point = self.body.scopes[*scope as usize].point;
                    // A local that is not a parameter is still zero at the entry.
                    let most = if *scope == 0 { self.body.params } else { Local::MAX };
                    self.record(point, &live, most)?;
                }
                Inst::Call(call) => {
                    let call = &self.body.calls[*call as usize];
                    for local in &call.uses {
                        insert(&mut live, *local);
                    }
                    if let Some(point) = call.point {
                        self.record(point, &live, Local::MAX)?;
                    }
                }
                _ => {}
            }
        }
        Some(grew)
    }

    fn record(&mut self, point: u32, live: &Set, below: Local) -> Option<()> {
        // Only the last walk records.
        let points = self.points.as_mut();
        let Some(saved) = points.and_then(|points| points.get_mut(point as usize)) else { return Some(()) };
        saved.clear();
        for (i, word) in live.iter().enumerate() {
            let mut word = *word;
            while word != 0 {
                let local = i as Local * 64 + word.trailing_zeros();
                word &= word - 1;
                if local < below {
                    saved.push(local);
                }
            }
        }
        self.saved += saved.len();
        (self.saved <= MOST_SAVED).then_some(())
    }

    fn spend(&mut self, sets: u64) -> Option<()> {
        self.work += sets * self.words + 1;
        (self.work <= MOST_WORK).then_some(())
    }
}

fn insert(set: &mut Set, local: Local) {
    if let Some(word) = set.get_mut(local as usize / 64) {
        *word |= 1 << (local % 64);
    }
}

fn remove(set: &mut Set, local: Local) {
    if let Some(word) = set.get_mut(local as usize / 64) {
        *word &= !(1 << (local % 64));
    }
}

fn unite(set: &mut Set, other: &Set) {
    for (word, other) in set.iter_mut().zip(other) {
        *word |= other;
    }
}
