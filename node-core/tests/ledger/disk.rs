//! The bank's disk, and an auditor that reads along: it knows of the books only what was written in
//! statements, and adds that up by itself.

use bytes::Bytes;
use node_core::ledger::{Line, Why};
use node_core::{NodeId, Table, UnitId, Write};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Disk {
    rows: BTreeMap<(Table, Vec<u8>), Bytes>,
    /// Balance that each account must have, by its lines.
    pub(crate) replay: BTreeMap<NodeId, i128>,
    /// Amount that each unit's sale must still hold, by those lines; `paid`: number and sum of each payee's
    /// payments.
    pub(crate) held: BTreeMap<UnitId, i128>,
    pub(crate) paid: BTreeMap<(UnitId, NodeId), (u32, i128)>,
    /// New credit.
    pub(crate) minted: i128,
}

impl Disk {
    pub(crate) fn apply(&mut self, writes: &[Write]) {
        for write in writes {
            let key = (write.table, write.key.clone());
            match &write.value {
                Some(value) => {
                    if write.table == Table::Statements {
                        self.audit(&write.key, value, self.rows.contains_key(&key));
                    }
                    self.rows.insert(key, value.clone());
                }
                None => drop(self.rows.remove(&key)),
            }
        }
    }

    fn audit(&mut self, key: &[u8], value: &[u8], again: bool) {
        assert!(!again, "a line is written once");
        let line: Line = sandbox::unpack::from_slice(value).expect("a line");
        let node = NodeId(key[..32].try_into().unwrap());
        let amount = i128::from(line.amount);
        let balance = self.replay.entry(node).or_default();
        *balance += amount;
        assert_eq!(*balance, i128::from(line.balance.0), "{node:?}: {line:?} does not follow from the last");
        assert_ne!(amount, 0);
        match line.why {
            Why::Invite | Why::Minted => self.minted += amount,
            Why::Held(unit) | Why::Returned(unit) | Why::SpaceHeld(_, unit) | Why::SpaceReturned(_, unit) => {
                *self.held.entry(unit).or_default() -= amount;
            }
            Why::Earned(unit) | Why::Fee(unit) | Why::Kept(_, unit) => {
                *self.held.entry(unit).or_default() -= amount;
                let paid = self.paid.entry((unit, node)).or_default();
                *paid = (paid.0 + 1, paid.1 + amount);
            }
            Why::To(_) | Why::From(_) => {}
        }
        if let Why::Held(unit)
        | Why::Returned(unit)
        | Why::Earned(unit)
        | Why::Fee(unit)
        | Why::Kept(_, unit) = line.why
        {
            assert!(self.held[&unit] >= 0, "{unit}: more came out than was put aside");
        }
    }

    pub(crate) fn scan(&self, table: Table, after: &[u8], limit: usize) -> Vec<(Vec<u8>, Bytes)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let above = self.rows.range((Excluded((table, after.to_vec())), Unbounded));
        let its = above.take_while(|((of, _), _)| *of == table).take(limit);
        its.map(|((_, key), value)| (key.clone(), value.clone())).collect()
    }

    /// Loses a row of the ledger, or has something else in its place, as a disk that has gone bad.
    pub(crate) fn damage(&mut self, letter: u8, value: Option<&'static [u8]>) {
        let row = self.rows.keys().find(|(table, key)| *table == Table::Ledger && key[0] == letter);
        let key = row.cloned().expect("there is such a row");
        match value {
            Some(value) => drop(self.rows.insert(key, Bytes::from_static(value))),
            None => drop(self.rows.remove(&key)),
        }
    }
}
