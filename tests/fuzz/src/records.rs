//! Rows that a node finds on its disk when it starts: some that another version wrote, that a failing disk
//! has changed, that somebody put there.

use crate::bend::Bend;
use crate::desk::{Desk, PEERS, State};
use crate::edit::{Edit, apply};
use crate::gauge::within;
use crate::rows::rows;
use arbitrary::{Arbitrary, Unstructured};
use node_core::disk::{StorageRequest, Write};
use node_core::{Table, Token};
use simulator::disk::Disk;
use std::time::Duration;

#[derive(Arbitrary, Debug)]
struct Input {
    state: u8,
    changes: Vec<Change>,
}

/// A row of an honest disk, changed.
#[derive(Arbitrary, Debug)]
struct Change {
    row: u16,
    what: What,
}

#[derive(Arbitrary, Debug)]
enum What {
    Bent(Vec<Bend>),
    Changed(Vec<Edit>),
    Key(Vec<Edit>),
    /// Under the key of another.
    Under(u16),
    /// In another table.
    In(u8),
    Empty,
    Gone,
}

const TABLES: [Table; 10] = [
    Table::Jobs,
    Table::Results,
    Table::Checkpoints,
    Table::Left,
    Table::Deals,
    Table::Ledger,
    Table::Statements,
    Table::Files,
    Table::Kept,
    Table::Delegated,
];

const MOST_CHANGES: usize = 12;

/// The bound of a node that begins on a disk of some hundred rows.
const BOUND: usize = 32 << 20;

pub fn records(data: &[u8]) -> u64 {
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(data)) else { return 0 };
    let state = State::ALL[usize::from(input.state) % State::ALL.len()];
    let mut writes = rows().to_vec();
    for change in input.changes.iter().take(MOST_CHANGES) {
        change.apply(&mut writes);
    }
    let mut disk = Disk::default();
    let token = Token(0);
    if let Some(done) = disk.take(StorageRequest::Commit { token, writes }) {
        disk.sync(&done);
    }
    within(BOUND, || {
        let mut desk = Desk::bare(state, disk);
        desk.wait(Duration::from_secs(1));
        (1..=PEERS).for_each(|who| desk.comes(who));
        desk.wait(Duration::from_secs(10));
        desk.ends(0);
        desk.goes(1);
        desk.wait(Duration::from_secs(20));
        assert!(desk.around.said < 100_000, "{} bytes are said of it", desk.around.said);
    });
    let what = input.changes.first().map_or(0, |change| match change.what {
        What::Bent(_) => 1,
        What::Changed(_) => 2,
        What::Key(_) => 3,
        What::Under(_) => 4,
        What::In(_) => 5,
        What::Empty => 6,
        What::Gone => 7,
    });
    1 + u64::from(input.state) % 4 + 4 * what
}

impl Change {
    fn apply(&self, rows: &mut Vec<Write>) {
        let len = rows.len();
        let at = usize::from(self.row) % len;
        let other = |which: u16| rows[usize::from(which) % len].key.clone();
        let value = rows[at].value.clone().unwrap_or_default();
        match &self.what {
            What::Bent(bends) => {
                let Ok(mut value) = rmpv::decode::read_value(&mut &value[..]) else { return };
                bends.iter().take(MOST_CHANGES).for_each(|bend| bend.apply(&mut value));
                let mut bytes = Vec::new();
                rmpv::encode::write_value(&mut bytes, &value).expect("into memory");
                rows[at].value = Some(bytes.into());
            }
            What::Changed(edits) => {
                let mut value = value.to_vec();
                apply(edits, &mut value);
                rows[at].value = Some(value.into());
            }
            What::Key(edits) => apply(edits, &mut rows[at].key),
            What::Under(which) => rows[at].key = other(*which),
            What::In(table) => rows[at].table = TABLES[usize::from(*table) % TABLES.len()],
            What::Empty => rows[at].value = Some(Vec::new().into()),
            What::Gone => drop(rows.remove(at)),
        }
        if rows.is_empty() {
            rows.extend(crate::rows::rows().first().cloned());
        }
    }
}

pub(crate) fn tables() -> &'static [Table] {
    &TABLES
}
