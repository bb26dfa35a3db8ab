//! The open tables of a database, no more than an option says.
//!
//! Invariants
//! - B1: at most `tables_max` tables are kept open by the cache. One that a reader still holds
//!   closes when the reader lets it go.
//! - No lock is held across I/O: two readers may open the same table at once; the first one in
//!   stays.
//! - A table is asked for by its whole identity; one kept under the same number with another
//!   identity is not it.
//!
//! A mapped table keeps no file open, so its limit is one on maps: the caller passes a larger one.

use crate::base::key::FileNumber;
use crate::base::name::{FileKind, file_path};
use crate::env::fs::{Fs, OpenMode};
use crate::env::sync::{Arc, AtomicBool, Ordering, RwLock};
use crate::error::{Error, Result};
use crate::table::{Backend, Table, TableIdentity};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;

struct Held {
    table: Arc<Table>,
    /// Asked for since the hand passed last.
    used: AtomicBool,
}

struct Tables {
    held: BTreeMap<FileNumber, Held>,
    /// The clock's hand: numbers above it are looked at next.
    hand: FileNumber,
}

/// A bounded cache of open tables.
pub struct TableCache {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    backend: Backend,
    tables_max: usize,
    tables: RwLock<Tables>,
}

impl TableCache {
    /// A cache of tables in `dir`, at least one of which it can hold.
    #[must_use]
    pub fn new(fs: Arc<dyn Fs>, dir: PathBuf, backend: Backend, tables_max: usize) -> Self {
        let tables = Tables { held: BTreeMap::new(), hand: FileNumber(0) };
        Self { fs, dir, backend, tables_max: tables_max.max(1), tables: RwLock::new(tables) }
    }

    /// The table, opened now or before.
    ///
    /// # Errors
    /// Those of opening the file and of [`Table::open`].
    pub fn get(&self, identity: &TableIdentity) -> Result<Arc<Table>> {
        if let Some(held) = self.tables.read().held.get(&identity.number)
            && held.table.identity() == identity
        {
            if !held.used.load(Ordering::Relaxed) {
                held.used.store(true, Ordering::Relaxed);
            }
            return Ok(held.table.clone());
        }
        let path = file_path(&self.dir, FileKind::Table, identity.number);
        let file =
            self.fs.open(&path, OpenMode::Read).map_err(|e| Error::io(&path, "open table", e))?;
        let table = Table::open(&file, identity, self.backend.clone())?;
        Ok(self.keep(table))
    }

    /// Keeps a table that was just opened, and closes another where there are too many.
    fn keep(&self, table: Arc<Table>) -> Arc<Table> {
        let number = table.identity().number;
        let mut gone = Vec::new();
        let mut tables = self.tables.write();
        if let Some(held) = tables.held.get(&number)
            && held.table.identity() == table.identity()
        {
            return held.table.clone();
        }
        while tables.held.len() >= self.tables_max && !tables.held.contains_key(&number) {
            gone.extend(tables.turn());
        }
        let held = Held { table: table.clone(), used: AtomicBool::new(false) };
        gone.extend(tables.held.insert(number, held));
        drop(tables);
        // Closed and unmapped outside of the lock.
        drop(gone);
        table
    }

    /// Forgets a table whose file is about to be removed.
    pub fn evict(&self, number: FileNumber) {
        let gone = self.tables.write().held.remove(&number);
        drop(gone);
    }

    /// Tables kept open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.read().held.len()
    }

    /// Whether no table is kept open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Tables {
    /// Moves the hand by one table and takes it out, unless it was used since the last round.
    fn turn(&mut self) -> Option<Held> {
        let above = (Bound::Excluded(self.hand), Bound::Unbounded);
        let next = self.held.range(above).next().or_else(|| self.held.iter().next());
        let (&number, held) = next?;
        self.hand = number;
        if held.used.load(Ordering::Relaxed) {
            held.used.store(false, Ordering::Relaxed);
            return None;
        }
        self.held.remove(&number)
    }
}
