//! Rows that the bank writes: enough to go on after a crash.
//!
//! Table `Ledger`: a letter and what it names → the state of that. Table `Statements`: node id and
//! big-endian number → [`Line`].

use super::sale::Hold;
use super::window::Window;
use super::{Account, Books};
use crate::budget::Budget;
use crate::contract::{Outcome, Sale};
use crate::disk::{Table, Write};
use crate::goods::Kind;
use crate::ids::{JobId, NodeId, UnitId};
use crate::ledger::Line;
use crate::money::Micro;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A row of the table `Ledger`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    Account(NodeId),
    Hold(NodeId, Sale),
    Invite([u8; 32]),
    Allowance(NodeId, NodeId, JobId),
    Mint,
    Outcome(NodeId, u64),
}

impl Row {
    fn key(self) -> Vec<u8> {
        match self {
            Row::Account(node) => [b"a", &node.0[..]].concat(),
            Row::Hold(owner, Sale { unit, number, kind }) => {
                let (index, kind) = (unit.index.to_be_bytes(), kind as u8);
                let wide = number.to_be_bytes();
                // Rows are as older versions wrote them, for as long as these can say it: cycles are the first
                // kind, and were the only one, and numbers had a byte.
                let name = match (u8::try_from(number), kind) {
                    (Ok(number), 0) => vec![number],
                    (Ok(number), kind) => vec![number, kind],
                    (Err(_), kind) => [&wide[..], &[kind]].concat(),
                };
                [b"h", &owner.0[..], &unit.job.0, &index, &name].concat()
            }
            Row::Invite(hash) => [b"i", &hash[..]].concat(),
            Row::Allowance(payer, owner, job) => [b"j", &payer.0[..], &owner.0, &job.0].concat(),
            Row::Mint => b"m".to_vec(),
            Row::Outcome(node, number) => [b"o", &node.0[..], &number.to_be_bytes()].concat(),
        }
    }

    fn of(key: &[u8]) -> Option<Row> {
        let (letter, mut rest) = key.split_first()?;
        let rest = &mut rest;
        let row = match letter {
            b'a' => Row::Account(NodeId(take(rest)?)),
            b'h' => {
                let (owner, job) = (NodeId(take(rest)?), JobId(take(rest)?));
                let index = u32::from_be_bytes(take(rest)?);
                let (number, kind) = match *std::mem::take(rest) {
                    [number] => (number.into(), 0),
                    [number, kind] => (number.into(), kind),
                    [a, b, c, d, kind] => (u32::from_be_bytes([a, b, c, d]), kind),
                    _ => return None,
                };
                let kind = *Kind::ALL.get(usize::from(kind))?;
                Row::Hold(owner, Sale { unit: UnitId { job, index }, number, kind })
            }
            b'i' => Row::Invite(take(rest)?),
            b'j' => Row::Allowance(NodeId(take(rest)?), NodeId(take(rest)?), JobId(take(rest)?)),
            b'm' => Row::Mint,
            b'o' => Row::Outcome(NodeId(take(rest)?), u64::from_be_bytes(take(rest)?)),
            _ => return None,
        };
        rest.is_empty().then_some(row)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, more) = rest.split_first_chunk()?;
    *rest = more;
    Some(*first)
}

/// Balance, lines, and the first and the highest number of its orders.
type AccountRow = (Micro, u64, (u64, u64));
/// Credit that was issued, and the last day of the commons.
type MintRow = (Micro, u64);
type OutcomeRow = (u64, Outcome);

pub(super) fn encode<T: Serialize>(value: &T) -> Bytes {
    // Only types without maps or unsized sequences are written; rmp cannot fail on them.
    rmp_serde::to_vec(value).map(Bytes::from).unwrap_or_default()
}

fn decode<T: DeserializeOwned>(value: &[u8]) -> Option<T> {
    sandbox::unpack::from_slice(value).ok()
}

pub(super) fn line_key(node: NodeId, number: u64) -> Vec<u8> {
    [&node.0[..], &number.to_be_bytes()].concat()
}

pub(super) fn line_write(node: NodeId, number: u64, line: Option<&Line>) -> Write {
    Write { table: Table::Statements, key: line_key(node, number), value: line.map(encode) }
}

/// The row behind which a scan for lines of this node begins.
pub(in super::super) fn before_line(node: NodeId, number: u64) -> Vec<u8> {
    match number.checked_sub(1) {
        Some(before) => line_key(node, before),
        None => node.0.to_vec(),
    }
}

/// The line in a row and its number, if it is of this node.
pub(in super::super) fn line_of(node: NodeId, key: &[u8], value: &[u8]) -> Option<(u64, Line)> {
    let number = key.strip_prefix(&node.0)?.try_into().ok()?;
    Some((u64::from_be_bytes(number), decode(value)?))
}

impl Books {
    /// The rows that have changed since the last call.
    pub fn take_writes(&mut self) -> Vec<Write> {
        let changed = std::mem::take(&mut self.changed);
        let row = |row: Row| Write { table: Table::Ledger, key: row.key(), value: self.value(row) };
        let rows: Vec<Write> = changed.into_iter().map(row).collect();
        let mut writes = std::mem::take(&mut self.lines);
        writes.extend(rows);
        writes
    }

    fn value(&self, row: Row) -> Option<Bytes> {
        match row {
            Row::Account(node) => self.accounts.get(&node).map(|account| {
                let row: AccountRow = (account.balance, account.lines, account.window.ends());
                encode(&row)
            }),
            Row::Hold(owner, sale) => self.holds.get(&(owner, sale)).map(encode),
            Row::Invite(hash) => self.invites.get(&hash).map(encode),
            Row::Allowance(payer, owner, job) => self.allowances.get(&(payer, owner, job)).map(encode),
            Row::Mint => {
                let row: MintRow = (self.issued, self.minted_day);
                Some(encode(&row))
            }
            Row::Outcome(node, number) => {
                let noted: Option<OutcomeRow> = self.accounts.get(&node)?.window.get(number);
                noted.map(|noted| encode(&noted))
            }
        }
    }

    /// Reads rows of the table `Ledger`, in the order of their keys. False if one cannot be read.
    pub fn restore(&mut self, entries: &[(Vec<u8>, Bytes)]) -> bool {
        let mut unread = 0;
        for (key, value) in entries {
            if Row::of(key).and_then(|row| self.restore_row(row, value)).is_none() {
                unread += 1;
            }
        }
        unread == 0
    }

    fn restore_row(&mut self, row: Row, value: &[u8]) -> Option<()> {
        match row {
            Row::Account(node) => {
                let (balance, lines, ends): AccountRow = decode(value)?;
                self.in_accounts = self.in_accounts.plus(balance)?;
                let account = Account { balance, held: Micro::ZERO, lines, window: Window::restore(ends) };
                self.accounts.insert(node, account);
            }
            Row::Hold(owner, sale) => {
                let hold: Hold = decode(value)?;
                let account = self.accounts.get_mut(&hold.payer)?;
                self.in_holds = self.in_holds.plus(hold.amount)?;
                account.held = account.held.plus(hold.amount)?;
                self.ends.insert((hold.ends, owner, sale));
                self.holds.insert((owner, sale), hold);
            }
            Row::Invite(hash) => {
                self.invites.insert(hash, decode(value)?);
            }
            Row::Allowance(payer, owner, job) => {
                let budget: Budget = decode(value)?;
                self.allowances.insert((payer, owner, job), budget);
            }
            Row::Mint => {
                let (issued, day): MintRow = decode(value)?;
                (self.issued, self.minted_day) = (issued, day);
            }
            Row::Outcome(node, number) => {
                let noted: OutcomeRow = decode(value)?;
                self.accounts.get_mut(&node)?.window.restore_outcome(number, noted);
            }
        }
        Some(())
    }

    /// Whether what was read adds up.
    pub fn balances(&self) -> bool {
        self.in_accounts.plus(self.in_holds) == Some(self.issued)
    }
}
