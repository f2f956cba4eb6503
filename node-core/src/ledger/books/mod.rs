//! The books: accounts, what is held for sales, invites, the mint. Pure: an order in, an outcome
//! and the changed rows out; durability is the bank's.
//!
//! Double entry: what one account gets, another one, a hold or the mint has lost. The mint's own
//! balance is what it has `issued`, below zero, so that the sum of all is always zero.

mod rows;
mod sale;
mod window;

use super::{COMMONS, Line, Page, Why};
use crate::budget::Budget;
use crate::contract::Holding;
use crate::contract::{Order, Outcome, Refusal, Sale, due, most};
use crate::disk::Write;
use crate::ids::{JobId, NodeId};
use crate::money::{Micro, Price};
use rows::Row;
pub(super) use rows::{before_line, line_of};
use sale::Hold;
use std::collections::{BTreeMap, BTreeSet};
use window::Window;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// Decisions of the bank's operator.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Nodes whose word the commons pays on: owners whose results are verified. None by default.
    pub stewards: BTreeSet<NodeId>,
    /// Credit that the mint gives the commons a day. Our choice: ten credits, which is ten thousand times
    /// 10^9 fuel at the price below, 80 minutes of a core of today.
    pub commons_a_day: Micro,
    /// The mint gives none while the commons has this much. Our choice: a week's.
    pub commons_most: Micro,
    /// The commons pays no more than this for 10^9 fuel. Our choice: a thousandth of a credit.
    pub commons_price: Price,
    /// Days after which a sale that was not settled is over, and its payer has all back. Our
    /// choice: a gateway is mended within a month.
    pub hold_days: u64,
    /// Accounts that there may be; who would need one more waits. They are never closed, since
    /// they know which orders were carried out. Our choice: 200 MB.
    pub accounts: usize,
    /// Sales that something is held for; once they are nearly so many, half of them of one owner. Our choice:
    /// ten times what one gateway runs at once.
    pub holds: usize,
    /// Jobs that others may spend on.
    pub allowances: usize,
    /// Allowances of one payer. Our choice: a hundred payers find room.
    pub allowances_each: usize,
    /// Invites that nobody has used yet. Our choice: a large course.
    pub invites: usize,
    /// Lines of one account's statement that are kept. Our choice: a year of one an hour.
    pub lines: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            stewards: BTreeSet::new(),
            commons_a_day: Micro(10_000_000),
            commons_most: Micro(70_000_000),
            commons_price: Price(1000),
            hold_days: 30,
            accounts: 1_000_000,
            holds: 100_000,
            allowances: 100_000,
            allowances_each: 1000,
            invites: 10_000,
            lines: 10_000,
        }
    }
}

#[derive(Debug)]
pub struct Books {
    rules: Rules,
    wall_ms: u64,
    accounts: BTreeMap<NodeId, Account>,
    /// By owner and sale.
    holds: BTreeMap<(NodeId, Sale), Hold>,
    /// Holds by the day on which they are over.
    ends: BTreeSet<(u64, NodeId, Sale)>,
    /// By payer, owner and job.
    allowances: BTreeMap<(NodeId, NodeId, JobId), Budget>,
    /// By the hash of the code.
    invites: BTreeMap<[u8; 32], Micro>,
    issued: Micro,
    /// The day of which the commons has had its part.
    minted_day: u64,
    /// Sums over all accounts and all holds.
    in_accounts: Micro,
    in_holds: Micro,
    changed: BTreeSet<Row>,
    lines: Vec<Write>,
}

#[derive(Debug, Default)]
struct Account {
    balance: Micro,
    held: Micro,
    lines: u64,
    window: Window,
}

impl Account {
    /// It never had credit, a line or an order.
    fn is_unused(&self) -> bool {
        (self.balance, self.held, self.lines) == (Micro::ZERO, Micro::ZERO, 0) && self.window.is_unused()
    }
}

impl Books {
    pub fn new(rules: Rules) -> Books {
        Books {
            rules,
            wall_ms: 0,
            accounts: BTreeMap::new(),
            holds: BTreeMap::new(),
            ends: BTreeSet::new(),
            allowances: BTreeMap::new(),
            invites: BTreeMap::new(),
            issued: Micro::ZERO,
            minted_day: 0,
            in_accounts: Micro::ZERO,
            in_holds: Micro::ZERO,
            changed: BTreeSet::new(),
            lines: Vec::new(),
        }
    }

    /// Carries out an order, once for each number of the node that signed it: the same order under
    /// the same number has the same outcome again, and moves nothing.
    pub fn carry_out(&mut self, by: NodeId, number: u64, order: &Order) -> Outcome {
        let check = window::check(order);
        let window = self.accounts.get(&by).map(|account| &account.window);
        if let Some(known) = window.unwrap_or(&Window::EMPTY).find(number, check) {
            return known;
        }
        let outcome = self.execute(by, order);
        if !outcome.is_err_and(Refusal::is_forgotten)
            && let Some(account) = self.accounts.get_mut(&by)
        {
            let gone = account.window.note(number, check, outcome);
            self.changed.extend(gone.into_iter().chain([number]).map(|number| Row::Outcome(by, number)));
            self.changed.insert(Row::Account(by));
        }
        outcome
    }

    fn execute(&mut self, by: NodeId, order: &Order) -> Outcome {
        if by == COMMONS || (!self.accounts.contains_key(&by) && !self.may_open(by, order)) {
            return Err(Refusal::NoAccount);
        }
        match *order {
            Order::Begin => self.open([by]),
            Order::Transfer { to, amount } => self.transfer(by, to, amount),
            Order::Redeem { code } => self.redeem(by, &code),
            Order::Allow { owner, job, most } => self.allow(by, owner, job, most),
            Order::Hold { sale, payer, fuel, ref terms } => self.hold(by, sale, payer, fuel, terms),
            Order::Settle { sale, ref used } => self.settle(by, sale, used),
        }
    }

    /// Whether a node that has no account may give this order: an invite opens one, and a steward
    /// needs none of its own to spend the commons.
    fn may_open(&self, by: NodeId, order: &Order) -> bool {
        matches!(order, Order::Redeem { .. }) || self.rules.stewards.contains(&by)
    }

    fn transfer(&mut self, by: NodeId, to: NodeId, amount: Micro) -> Outcome {
        if amount == Micro::ZERO || amount > Micro::MAX || to == by {
            return Err(Refusal::Nonsense);
        }
        self.funds(by, amount)?;
        self.open([to])?;
        self.take(by, amount, Why::To(to));
        self.give(to, amount, Why::From(by));
        Ok(())
    }

    fn redeem(&mut self, by: NodeId, code: &[u8; 16]) -> Outcome {
        let hash = *blake3::hash(code).as_bytes();
        let amount = *self.invites.get(&hash).ok_or(Refusal::NoInvite)?;
        // It is checked again: others have been issued since it was made.
        self.issued.plus(amount).ok_or(Refusal::Full)?;
        self.open([by])?;
        self.invites.remove(&hash);
        self.changed.insert(Row::Invite(hash));
        self.issue(by, amount, Why::Invite);
        Ok(())
    }

    /// Makes an invite: whoever shows `code` first gets this much. The operator's decision alone.
    pub fn invite(&mut self, code: &[u8; 16], amount: Micro) -> Outcome {
        if amount == Micro::ZERO || self.issued.plus(amount).is_none() {
            return Err(Refusal::Nonsense);
        }
        if self.invites.len() >= self.rules.invites {
            return Err(Refusal::Full);
        }
        let hash = *blake3::hash(code).as_bytes();
        self.invites.insert(hash, amount);
        self.changed.insert(Row::Invite(hash));
        Ok(())
    }

    /// The wall clock. On a new day the commons gets its part; sales that were not settled for too
    /// long are given back, some at a time. A clock that goes back moves nothing.
    pub fn tell_time(&mut self, wall_ms: u64) {
        /// At a time. Our choice: what one commit bears.
        const ENDS: usize = 1000;
        self.wall_ms = wall_ms;
        let day = wall_ms / DAY_MS;
        if day > self.minted_day {
            self.minted_day = day;
            self.changed.insert(Row::Mint);
            let has = self.balance(COMMONS);
            let room = self.rules.commons_most.minus(has).unwrap_or_default();
            let left = Micro::MAX.minus(self.issued).unwrap_or_default();
            let part = self.rules.commons_a_day.min(room).min(left);
            if part > Micro::ZERO && self.open([COMMONS]).is_ok() {
                self.issue(COMMONS, part, Why::Minted);
            }
        }
        let over = self.ends.iter().take_while(|(end, ..)| *end <= day).take(ENDS);
        let over: Vec<(NodeId, Sale)> = over.map(|(_, owner, sale)| (*owner, *sale)).collect();
        for key in over {
            self.end(key, Vec::new());
        }
    }

    pub fn balance(&self, node: NodeId) -> Micro {
        self.accounts.get(&node).map(|account| account.balance).unwrap_or_default()
    }

    /// The lowest number that no order of the node had.
    pub fn next(&self, node: NodeId) -> u64 {
        self.accounts.get(&node).map_or(1, |account| account.window.highest().saturating_add(1))
    }

    /// Where the node's account stands, without its lines; and the first of at most `limit` lines
    /// from number `from` on.
    pub fn page(&self, node: NodeId, from: u64, limit: u32) -> Page {
        let Some(account) = self.accounts.get(&node) else {
            return Page {
                of: node,
                balance: Micro::ZERO,
                held: Micro::ZERO,
                first: 0,
                all: 0,
                lines: Vec::new(),
            };
        };
        let oldest = account.lines.saturating_sub(self.rules.lines);
        let newest = account.lines.saturating_sub(limit.into());
        let first = from.min(newest).max(oldest);
        Page {
            of: node,
            balance: account.balance,
            held: account.held,
            first,
            all: account.lines,
            lines: Vec::new(),
        }
    }

    /// Whether anything is held for this sale.
    pub fn holds(&self, owner: NodeId, sale: Sale) -> bool {
        self.holds.contains_key(&(owner, sale))
    }

    /// Holds for the owner's sales above `after`, in order, at most `limit`.
    pub fn holdings(&self, owner: NodeId, after: Option<Sale>, limit: usize) -> Vec<Holding> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        const LOWEST: Sale = Sale {
            unit: crate::ids::UnitId { job: JobId([0; 16]), index: 0 },
            number: 0,
            kind: crate::goods::Kind::Cycles,
        };
        let from = after.map_or(Included((owner, LOWEST)), |after| Excluded((owner, after)));
        let its = self.holds.range((from, Unbounded)).take_while(|((of, _), _)| *of == owner);
        let holding = |((_, sale), hold): (&(NodeId, Sale), &Hold)| Holding {
            sale: *sale,
            payer: hold.payer,
            amount: hold.amount,
        };
        its.take(limit).map(holding).collect()
    }

    /// Sum of all accounts, holds and the mint: always zero. Counts all of them.
    pub fn sum(&self) -> i128 {
        let accounts: i128 = self.accounts.values().map(|account| i128::from(account.balance.0)).sum();
        let holds: i128 = self.holds.values().map(|hold| i128::from(hold.amount.0)).sum();
        accounts + holds - i128::from(self.issued.0)
    }

    /// Panics if the books contradict themselves.
    pub fn check(&self) {
        assert_eq!(self.in_accounts.plus(self.in_holds), Some(self.issued), "the sum is zero");
        // All of it while it is small: tests stay linear.
        if self.accounts.len() + self.holds.len() <= 256 {
            assert_eq!(self.sum(), 0, "and counted so");
            assert_eq!(self.ends.len(), self.holds.len(), "each hold has its end");
            for (node, account) in &self.accounts {
                let its = self.holds.values().filter(|hold| hold.payer == *node);
                assert_eq!(Some(account.held), Micro::sum(its.map(|hold| hold.amount)), "{node:?}");
            }
        }
    }

    /// Whether the node has so much.
    fn funds(&self, node: NodeId, needed: Micro) -> Outcome {
        let has = self.balance(node);
        (has >= needed).then_some(()).ok_or(Refusal::NoFunds { has, needed })
    }

    /// Opens the accounts that these nodes lack: all of them, or none.
    fn open(&mut self, nodes: impl IntoIterator<Item = NodeId>) -> Outcome {
        let new: BTreeSet<NodeId> =
            nodes.into_iter().filter(|node| !self.accounts.contains_key(node)).collect();
        if self.accounts.len() + new.len() > self.rules.accounts && !new.is_empty() {
            return Err(Refusal::Full);
        }
        for node in new {
            self.accounts.insert(node, Account::default());
            self.changed.insert(Row::Account(node));
        }
        Ok(())
    }

    /// New credit. The caller has seen that there is room for it.
    fn issue(&mut self, to: NodeId, amount: Micro, why: Why) {
        self.issued.0 += amount.0;
        self.changed.insert(Row::Mint);
        self.give(to, amount, why);
    }

    /// The account is open, and what comes was taken elsewhere.
    fn give(&mut self, node: NodeId, amount: Micro, why: Why) {
        let Some(account) = self.accounts.get_mut(&node) else { return };
        account.balance.0 += amount.0;
        self.in_accounts.0 += amount.0;
        self.line(node, amount.0 as i64, why);
    }

    /// The account has it, and what goes is given elsewhere.
    fn take(&mut self, node: NodeId, amount: Micro, why: Why) {
        let Some(account) = self.accounts.get_mut(&node) else { return };
        account.balance.0 -= amount.0;
        self.in_accounts.0 -= amount.0;
        self.line(node, -(amount.0 as i64), why);
    }

    fn line(&mut self, node: NodeId, amount: i64, why: Why) {
        let Some(account) = self.accounts.get_mut(&node) else { return };
        let (number, kept) = (account.lines, self.rules.lines);
        account.lines += 1;
        let line = Line { at_ms: self.wall_ms, amount, balance: account.balance, why };
        self.lines.push(rows::line_write(node, number, Some(&line)));
        if let Some(oldest) = number.checked_sub(kept) {
            self.lines.push(rows::line_write(node, oldest, None));
        }
        self.changed.insert(Row::Account(node));
    }
}
