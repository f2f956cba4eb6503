//! Where a function pays for its work.
//!
//! Every way through a function pays what the operators on it cost, with as few subtractions as
//! possible. Each point of the function has a number, what is already paid for there; a point
//! that needs more than its predecessor has paid for charges the difference on the edge between
//! them. Any choice of numbers is exact, so they are chosen to make frequent edges free: at a
//! fork, what the cheapest way on costs. Ways that leave the loop do not count for that, they get
//! the rest back; ways that end in a trap neither pay nor count. Where two ways differ by little,
//! both pay their mean: subtractions take up to a seventh of the added code.
//!
//! Nothing is paid in advance where a poll comes, where a `br_table` leads (a switch pays in its
//! cases), and where ways out of a loop arrive.

use super::ir::{Body, Inst, Label};
use std::collections::BTreeMap;

/// Amounts to subtract from the fuel, by place. Negative amounts are given back.
#[derive(Default)]
pub(super) struct Charges {
    /// By instruction: after it, on the way that falls through.
    pub(super) after: BTreeMap<usize, i64>,
    /// By `br_if`: when it is taken.
    pub(super) taken: BTreeMap<usize, i64>,
    /// By the end of an `if` without `else`: when it is not taken.
    pub(super) skipped: BTreeMap<usize, i64>,
    /// By scope: in its poll.
    pub(super) polls: Vec<i64>,
}

/// Largest difference in fuel of two ways that are charged the same. Our choice: a branch and its
/// condition cost three or more, so this bounds the error of the charge.
const NEAR: i64 = 16;

#[derive(Clone, Copy)]
enum Paid {
    /// Every way from here ends in a trap.
    Doomed,
    For {
        cost: i64,
        /// Every way from here leaves the loop without another round.
        leaves: bool,
    },
}

const NOTHING: Paid = Paid::For { cost: 0, leaves: false };

impl Paid {
    fn choose(self, other: Paid) -> Paid {
        match (self, other) {
            (Paid::Doomed, paid) | (paid, Paid::Doomed) => paid,
            (Paid::For { cost: a, leaves: x }, Paid::For { cost: b, leaves: y }) => {
                if (x, a) <= (y, b) {
                    self
                } else {
                    other
                }
            }
        }
    }

    /// Charge on an edge to here from a place where `chosen` is paid for.
    fn charge(self, chosen: Paid) -> i64 {
        match (self, chosen) {
            (Paid::For { cost, .. }, Paid::For { cost: paid, .. }) => cost - paid,
            _ => 0,
        }
    }

    /// State that is paid for before a fork, and the charges on its two ways.
    fn fork(self, other: Paid) -> (Paid, i64, i64) {
        if let (Paid::For { cost: a, leaves: x }, Paid::For { cost: b, leaves: y }) = (self, other)
            && x == y
            && (a - b).abs() <= NEAR
        {
            return (Paid::For { cost: (a + b + 1) / 2, leaves: x }, 0, 0);
        }
        let chosen = self.choose(other);
        (chosen, self.charge(chosen), other.charge(chosen))
    }

    fn leaving(self) -> Paid {
        match self {
            Paid::For { cost, .. } => Paid::For { cost, leaves: true },
            Paid::Doomed => Paid::Doomed,
        }
    }

    fn settled(self) -> Paid {
        match self {
            Paid::For { leaves, .. } => Paid::For { cost: 0, leaves },
            Paid::Doomed => Paid::Doomed,
        }
    }
}

/// A label, as a walk from the end sees it.
#[derive(Clone, Copy)]
struct Seen {
    is_loop: bool,
    /// Nothing is paid in advance at its end.
    settles: bool,
    /// The loop around its end.
    within: Option<Label>,
    paid: Paid,
    at_else: Option<Paid>,
    end: usize,
}

pub(super) fn charges(body: &Body) -> Charges {
    let unseen = Seen { is_loop: false, settles: false, within: None, paid: NOTHING, at_else: None, end: 0 };
    let mut labels = vec![unseen; body.labels.len()];
    find_settling(body, &mut labels);
    let mut charges = Charges { polls: vec![0; body.scopes.len()], ..Charges::default() };
    let mut loops: Vec<Label> = Vec::new();
    let mut now = NOTHING;
    for (i, inst) in body.insts.iter().enumerate().rev() {
        let arrive = |labels: &[Seen], to: Label| {
            let label = &labels[to as usize];
            match (label.is_loop, loops.last()) {
                (_, Some(innermost)) if *innermost == to => NOTHING,
                (true, _) => NOTHING.leaving(),
                (false, innermost) if label.within == innermost.copied() => label.paid,
                (false, _) => label.paid.leaving(),
            }
        };
        match inst {
            Inst::Cost(cost) => {
                if let Paid::For { cost: paid, .. } = &mut now {
                    *paid += i64::from(*cost);
                }
            }
            Inst::Unreachable | Inst::Doomed(_) => now = Paid::Doomed,
            Inst::Br(to) => now = arrive(&labels, *to),
            Inst::BrIf(to) => {
                let taken = arrive(&labels, *to);
                let (chosen, if_taken, otherwise) = taken.fork(now);
                put(&mut charges.taken, i, if_taken);
                put(&mut charges.after, i, otherwise);
                now = chosen;
            }
            // All its targets settle, so there is nothing to charge on the way to them.
            Inst::BrTable(table) => {
                let targets = body.tables[*table as usize].iter();
                now = targets.fold(Paid::Doomed, |chosen, to| chosen.choose(arrive(&labels, *to)));
            }
            Inst::End(label) if labels[*label as usize].is_loop => {
                loops.push(*label);
                put(&mut charges.after, i, now.charge(now.settled()));
                now = now.settled().leaving();
            }
            Inst::Loop(_) => {
                loops.pop();
                now = NOTHING;
            }
            Inst::End(label) => {
                let label = &mut labels[*label as usize];
                if label.settles {
                    put(&mut charges.after, i, now.charge(now.settled()));
                    now = now.settled();
                }
                (label.paid, label.at_else, label.end) = (now, None, i);
            }
            Inst::Else(label) => {
                let label = &mut labels[*label as usize];
                label.at_else = Some(now);
                // Where its charge goes.
                label.end = i;
                now = label.paid;
            }
            Inst::If(label) => {
                let label = &labels[*label as usize];
                let other = label.at_else.unwrap_or(label.paid);
                let (chosen, then, otherwise) = now.fork(other);
                put(&mut charges.after, i, then);
                let place = match label.at_else {
                    Some(_) => &mut charges.after,
                    None => &mut charges.skipped,
                };
                put(place, label.end, otherwise);
                now = chosen;
            }
            Inst::Scope(scope) => {
                if let Paid::For { cost, .. } = now {
                    charges.polls[*scope as usize] = cost;
                }
            }
            _ => {}
        }
    }
    charges
}

fn put(charges: &mut BTreeMap<usize, i64>, at: usize, charge: i64) {
    if charge != 0 {
        charges.insert(at, charge);
    }
}

fn find_settling(body: &Body, labels: &mut [Seen]) {
    for inst in &body.insts {
        if let Inst::Loop(label) = inst {
            labels[*label as usize].is_loop = true;
        }
    }
    let mut loops: Vec<Label> = Vec::new();
    for inst in body.insts.iter().rev() {
        match inst {
            Inst::End(label) if labels[*label as usize].is_loop => {
                loops.push(*label);
            }
            Inst::End(label) => labels[*label as usize].within = loops.last().copied(),
            Inst::Loop(_) => {
                loops.pop();
            }
            Inst::Br(to) | Inst::BrIf(to) if loops.last() != Some(to) => {
                let to = &mut labels[*to as usize];
                to.settles |= to.within != loops.last().copied();
            }
            Inst::BrTable(table) => {
                for to in &body.tables[*table as usize] {
                    labels[*to as usize].settles = true;
                }
            }
            _ => {}
        }
    }
}
