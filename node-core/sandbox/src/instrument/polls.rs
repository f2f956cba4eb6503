//! Which loops poll, and which need not because each of their rounds passes a poll anyway: a call
//! of a function that polls when it is entered, or an inner loop.

use super::ir::{Body, Inst, Label};

/// Steps that may be looked at for each of a function's: loops that do not poll are looked through
/// once for every such loop around them. Beyond that loops simply poll.
const MOST_LOOKS: usize = 16;

/// `entry`: whether the function polls when it is entered.
pub(super) fn decide(body: &mut Body, entry: bool) {
    if let Some(own) = body.scopes.first_mut() {
        own.polls = entry;
    }
    let mut ends = vec![0; body.labels.len()];
    for (i, inst) in body.insts.iter().enumerate() {
        if let Inst::End(label) = inst {
            ends[*label as usize] = i;
        }
    }
    let mut rounds = Rounds { body, ends, labels: Vec::new(), ifs: Vec::new(), left: 0 };
    rounds.labels.resize(rounds.body.labels.len(), Way::None);
    rounds.ifs.resize(rounds.body.labels.len(), Way::None);
    rounds.left = rounds.body.insts.len().saturating_mul(MOST_LOOKS);
    // Inner loops begin later.
    for i in (1..rounds.body.insts.len()).rev() {
        if let (Inst::Loop(label), Inst::Scope(scope)) = (rounds.body.insts[i - 1], rounds.body.insts[i]) {
            let polls = rounds.may_go_unpolled(i, label);
            rounds.body.scopes[scope as usize].polls = polls;
        }
    }
}

/// Whether a place is reached, and what lies on every way to it from the start of the round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Unpolled,
    Polled,
    /// No way leads here.
    None,
}

struct Rounds<'b> {
    body: &'b mut Body,
    /// Where each label ends.
    ends: Vec<usize>,
    /// How branches arrive at each label.
    labels: Vec<Way>,
    /// For each `if` how its other side begins.
    ifs: Vec<Way>,
    left: usize,
}

impl Rounds<'_> {
    /// Whether a round of this loop, whose scope stands at `from`, may meet no poll. Its inner loops
    /// have been decided.
    fn may_go_unpolled(&mut self, from: usize, own: Label) -> bool {
        let end = self.ends[own as usize];
        let (mut now, mut at) = (Way::Unpolled, from);
        while at < end {
            let Some(left) = self.left.checked_sub(1) else { return true };
            self.left = left;
            let inst = self.body.insts[at];
            match inst {
                Inst::Call(call) if self.body.calls[call as usize].polls && now != Way::None => {
                    now = Way::Polled
                }
                Inst::Loop(label) => {
                    self.labels[label as usize] = Way::None;
                    if let Some(Inst::Scope(scope)) = self.body.insts.get(at + 1)
                        && self.body.scopes[*scope as usize].polls
                    {
                        // Whatever leaves it was polled at its start.
                        now = Way::Polled;
                        at = self.ends[label as usize];
                    }
                }
                Inst::Scope(scope) => {
                    for label in &self.body.scopes[scope as usize].hoisted {
                        self.labels[*label as usize] = Way::None;
                    }
                }
                Inst::Block(label) => self.labels[label as usize] = Way::None,
                Inst::If(label) => {
                    self.labels[label as usize] = Way::None;
                    self.ifs[label as usize] = now;
                }
                Inst::Else(label) => {
                    self.arrive(label, now);
                    now = std::mem::replace(&mut self.ifs[label as usize], Way::None);
                }
                Inst::End(label) => {
                    let otherwise = std::mem::replace(&mut self.ifs[label as usize], Way::None);
                    now = now.min(self.labels[label as usize]).min(otherwise);
                }
                Inst::Br(to) => {
                    if self.leads_back(to, own, now) {
                        return true;
                    }
                    now = Way::None;
                }
                Inst::BrIf(to) if self.leads_back(to, own, now) => return true,
                Inst::BrTable(table) => {
                    for i in 0..self.body.tables[table as usize].len() {
                        let to = self.body.tables[table as usize][i];
                        if self.leads_back(to, own, now) {
                            return true;
                        }
                    }
                    now = Way::None;
                }
                Inst::Unreachable | Inst::Doomed(_) => now = Way::None,
                _ => {}
            }
            at += 1;
        }
        false
    }

    fn leads_back(&mut self, to: Label, own: Label, now: Way) -> bool {
        self.arrive(to, now);
        to == own && now == Way::Unpolled
    }

    fn arrive(&mut self, label: Label, now: Way) {
        let label = &mut self.labels[label as usize];
        *label = (*label).min(now);
    }
}
