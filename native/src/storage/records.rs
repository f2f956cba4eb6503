//! The database of records.

use super::backend::Backend;
use super::{StorageError, words};
use crate::private::own_only;
use bytes::Bytes;
use node_core::{Table, Write};
use redb::{Builder, Database, Error, ReadableDatabase, TableDefinition, TableError};
use std::fs::OpenOptions;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Pages that redb keeps in memory. Our choice: a day's jobs; the system caches the file too.
const CACHE: usize = 16 << 20;

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

fn definition(table: Table) -> Definition {
    TableDefinition::new(match table {
        Table::Jobs => "jobs",
        Table::Results => "results",
        Table::Checkpoints => "checkpoints",
        Table::Left => "left",
        Table::Deals => "deals",
        Table::Ledger => "ledger",
        Table::Statements => "statements",
        Table::Files => "files",
        Table::Kept => "kept",
        Table::Delegated => "wards",
    })
}

/// A key and what is stored under it.
pub(super) type Entry = (Vec<u8>, Bytes);

pub(super) struct Records {
    path: PathBuf,
    durable: bool,
    /// After an I/O error redb wants to be opened anew: none until someone needs it again.
    database: RwLock<Option<Database>>,
    #[cfg(test)]
    pub(super) full: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Records {
    pub(super) fn open(path: PathBuf, durable: bool) -> Result<Records, StorageError> {
        let records = Records {
            path,
            durable,
            database: RwLock::new(None),
            #[cfg(test)]
            full: Default::default(),
        };
        drop(records.opened()?);
        Ok(records)
    }

    /// All of these, in order, or none. Durable when it returns.
    pub(super) fn commit<'a>(&self, writes: impl Iterator<Item = &'a Write>) -> Result<(), StorageError> {
        self.run("write to", |database| {
            let transaction = database.begin_write()?;
            {
                // All are opened, so that all exist for readers.
                let mut jobs = transaction.open_table(definition(Table::Jobs))?;
                let mut results = transaction.open_table(definition(Table::Results))?;
                let mut checkpoints = transaction.open_table(definition(Table::Checkpoints))?;
                let mut left = transaction.open_table(definition(Table::Left))?;
                let mut deals = transaction.open_table(definition(Table::Deals))?;
                let mut ledger = transaction.open_table(definition(Table::Ledger))?;
                let mut statements = transaction.open_table(definition(Table::Statements))?;
                let mut files = transaction.open_table(definition(Table::Files))?;
                let mut kept = transaction.open_table(definition(Table::Kept))?;
                let mut delegated = transaction.open_table(definition(Table::Delegated))?;
                for Write { table, key, value } in writes {
                    let table = match table {
                        Table::Jobs => &mut jobs,
                        Table::Results => &mut results,
                        Table::Checkpoints => &mut checkpoints,
                        Table::Left => &mut left,
                        Table::Deals => &mut deals,
                        Table::Ledger => &mut ledger,
                        Table::Statements => &mut statements,
                        Table::Files => &mut files,
                        Table::Kept => &mut kept,
                        Table::Delegated => &mut delegated,
                    };
                    match value {
                        Some(value) => drop(table.insert(&key[..], &value[..])?),
                        None => drop(table.remove(&key[..])?),
                    }
                }
            }
            Ok(transaction.commit()?)
        })
    }

    /// Entries with keys above `after`, in key order, at most `limit`.
    pub(super) fn after(
        &self,
        table: Table,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>, StorageError> {
        self.entries(
            table,
            (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded),
            (limit, usize::MAX),
        )
    }

    /// Entries with keys `first..=last`, at most `limit`, until they have `budget` bytes; one at least.
    pub(super) fn range(
        &self,
        table: Table,
        first: &[u8],
        last: &[u8],
        (limit, budget): (usize, usize),
    ) -> Result<Vec<Entry>, StorageError> {
        self.entries(table, (Bound::Included(first), Bound::Included(last)), (limit, budget))
    }

    fn entries(
        &self,
        table: Table,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        (limit, mut budget): (usize, usize),
    ) -> Result<Vec<Entry>, StorageError> {
        self.run("read", |database| {
            let transaction = database.begin_read()?;
            let table = match transaction.open_table(definition(table)) {
                Ok(table) => table,
                Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()), // nothing was ever written
                Err(e) => return Err(e.into()),
            };
            let mut found = Vec::new();
            for entry in table.range::<&[u8]>(range)?.take(limit) {
                let (key, value) = entry?;
                found.push((key.value().to_vec(), Bytes::copy_from_slice(value.value())));
                budget = budget.saturating_sub(value.value().len());
                if budget == 0 {
                    break;
                }
            }
            Ok(found)
        })
    }

    fn run<T>(
        &self,
        doing: &str,
        work: impl FnOnce(&Database) -> Result<T, Error>,
    ) -> Result<T, StorageError> {
        let failed = {
            let guard = self.opened()?;
            let Some(database) = guard.as_ref() else { return Err(self.closed()) };
            match guarded(|| work(database)) {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(e)) => words::database(doing, &self.path, &e),
                Err(panic) => words::damaged(doing, &self.path, &panic),
            }
        };
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
        Err(failed)
    }

    fn opened(&self) -> Result<RwLockReadGuard<'_, Option<Database>>, StorageError> {
        let guard = self.database.read().unwrap_or_else(PoisonError::into_inner);
        if guard.is_some() {
            return Ok(guard);
        }
        drop(guard);
        {
            let mut guard = self.database.write().unwrap_or_else(PoisonError::into_inner);
            if guard.is_none() {
                *guard = Some(self.open_file()?);
            }
        }
        Ok(self.database.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn open_file(&self) -> Result<Database, StorageError> {
        let path: &Path = &self.path;
        let file = own_only(&mut OpenOptions::new())
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(|e| words::io("open", path, &e))?;
        let backend =
            Backend::new(file, self.durable).map_err(|e| words::database("open", path, &e.into()))?;
        #[cfg(test)]
        let backend = backend.with_full(self.full.clone());
        let opened = guarded(|| Builder::new().set_cache_size(CACHE).create_with_backend(backend));
        match opened {
            Ok(opened) => opened.map_err(|e| words::database("open", path, &e.into())),
            Err(panic) => Err(words::damaged("open", path, &panic)),
        }
    }

    fn closed(&self) -> StorageError {
        StorageError(format!("{} has just been closed after an error; try again", self.path.display()))
    }
}

/// redb checks its file with assertions in places; a damaged file must not end the node.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "redb panicked".into())
    })
}
