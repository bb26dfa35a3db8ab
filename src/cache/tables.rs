//! The open tables of a database, no more than an option says.
//!
//! Invariants
//! - B1: at most `files_max` tables with an open file are kept by the cache. One that a reader
//!   still holds closes when the reader lets it go.
//! - No lock is held across I/O: two readers may open the same table at once; the first one in
//!   stays.
//! - A table is asked for by its whole identity; one kept under the same number with another
//!   identity is not it.
//! - A mapped table is kept by the entry that names it, for as long as that lives: a read of it
//!   takes no lock and no count. Beyond [`MAPS_MAX`] of them, the cache holds as many again.
//!
//! A mapped table keeps no file open: what is bounded there is maps, and a tight bound on open
//! files would only have tables mapped again and again.

use crate::base::key::FileNumber;
use crate::base::name::{FileKind, file_path};
use crate::cache::BlockCache;
use crate::env::fs::{Fs, OpenMode};
use crate::env::sync::{Arc, AtomicBool, Ordering, RwLock};
use crate::error::{Error, Result};
use crate::table::{Backend, KeptTable, Table, TableIdentity};
use std::collections::BTreeMap;
use std::ops::{Bound, Deref};
use std::path::PathBuf;

/// Mapped tables that are kept: the kernel allows 65,530 maps to a process by default.
const MAPS_MAX: usize = 16_384;

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
    /// A count of it is with each table that its entry keeps.
    kept: Arc<()>,
}

/// A table that is open for the time of a call.
pub enum OpenTable<'a> {
    /// The entry keeps it.
    Kept(&'a Arc<Table>),
    /// The cache does, perhaps.
    Shared(Arc<Table>),
}

impl Deref for OpenTable<'_> {
    type Target = Arc<Table>;

    #[inline]
    fn deref(&self) -> &Arc<Table> {
        match self {
            Self::Kept(table) => table,
            Self::Shared(table) => table,
        }
    }
}

impl TableCache {
    /// A cache of tables in `dir`, of which at most `files_max`, but at least one, keep a file
    /// open.
    #[must_use]
    pub fn new(fs: Arc<dyn Fs>, dir: PathBuf, backend: Backend, files_max: usize) -> Self {
        let tables_max = match backend {
            Backend::Mapped { .. } => MAPS_MAX.max(files_max),
            Backend::Pread(_) => files_max.max(1),
        };
        let tables = Tables { held: BTreeMap::new(), hand: FileNumber(0) };
        Self { fs, dir, backend, tables_max, tables: RwLock::new(tables), kept: Arc::new(()) }
    }

    /// The table of an entry, which keeps it in `kept` where tables are mapped.
    ///
    /// # Errors
    /// As [`TableCache::get`].
    #[inline]
    pub fn of<'a>(&self, identity: &TableIdentity, kept: &'a KeptTable) -> Result<OpenTable<'a>> {
        match kept.get() {
            Some(table) => Ok(OpenTable::Kept(table)),
            None => self.open_for(identity, kept),
        }
    }

    #[cold]
    fn open_for<'a>(&self, identity: &TableIdentity, kept: &'a KeptTable) -> Result<OpenTable<'a>> {
        if matches!(self.backend, Backend::Pread(_)) || self.kept() >= MAPS_MAX {
            return self.get(identity).map(OpenTable::Shared);
        }
        let table = self.open(identity)?;
        Ok(OpenTable::Kept(kept.keep(table, self.kept.clone())))
    }

    /// The cache of blocks beside it, if its tables need one.
    #[must_use]
    pub fn blocks(&self) -> Option<&BlockCache> {
        match &self.backend {
            Backend::Mapped { cache, .. } => cache.as_deref(),
            Backend::Pread(cache) => Some(cache),
        }
    }

    fn kept(&self) -> usize {
        Arc::strong_count(&self.kept) - 1
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
        Ok(self.keep(self.open(identity)?))
    }

    fn open(&self, identity: &TableIdentity) -> Result<Arc<Table>> {
        let path = file_path(&self.dir, FileKind::Table, identity.number);
        let file =
            self.fs.open(&path, OpenMode::Read).map_err(|e| Error::io(&path, "open table", e))?;
        Table::open(&file, identity, self.backend.clone())
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

    /// Tables kept open, by the cache or for it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.read().held.len() + self.kept()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::{EntryRef, Kind, SeqNo, TableId};
    use crate::cache::BlockCache;
    use crate::env::os::OsFs;
    use crate::table::{TableBuilder, TableOptions};
    use std::path::Path;

    fn write(dir: &Path, number: u64) -> TableIdentity {
        let (number, id) = (FileNumber(number), TableId(u128::from(number)));
        let file = OsFs.create(&file_path(dir, FileKind::Table, number)).expect("a fresh name");
        let mut builder = TableBuilder::new(file, id, &TableOptions::default());
        let entry = EntryRef { key: b"k", seq: SeqNo(1), kind: Kind::Put, value: b"v" };
        builder.add(entry).expect("disk has room");
        let summary = builder.finish().expect("disk has room");
        TableIdentity { number, id, bytes: summary.bytes, footer_crc: summary.footer_crc }
    }

    #[test]
    fn open_files_stay_within_the_limit_and_hot_tables_stay_open() {
        let dir = tempfile::tempdir().expect("a writable temporary directory");
        let blocks = Arc::new(BlockCache::new(1 << 16, 64));
        let path = dir.path().to_path_buf();
        let tables = TableCache::new(Arc::new(OsFs), path, Backend::Pread(blocks), 3);
        let all: Vec<TableIdentity> = (1..=8).map(|n| write(dir.path(), n)).collect();
        let hot = tables.get(&all[0]).expect("just written");
        for identity in &all[1..] {
            assert!(Arc::ptr_eq(&hot, &tables.get(&all[0]).expect("open")));
            tables.get(identity).expect("just written");
            assert!(tables.len() <= 3);
        }
        tables.evict(FileNumber(1));
        assert!(!Arc::ptr_eq(&hot, &tables.get(&all[0]).expect("opened again")));
    }

    #[test]
    fn a_mapped_table_stays_with_its_entry_until_that_closes_it() {
        let dir = tempfile::tempdir().expect("a writable temporary directory");
        let path = dir.path().to_path_buf();
        let identity = write(dir.path(), 1);
        let mut kept = KeptTable::default();
        let blocks = Arc::new(BlockCache::new(1 << 16, 64));
        let tables = TableCache::new(Arc::new(OsFs), path.clone(), Backend::Pread(blocks), 3);
        tables.of(&identity, &kept).expect("just written");
        assert!(kept.get().is_none() && tables.len() == 1);
        let backend = Backend::Mapped { fs: Arc::new(OsFs), cache: None, read_ahead: true };
        let tables = TableCache::new(Arc::new(OsFs), path, backend, 3);
        let first = tables.of(&identity, &kept).expect("just written").clone();
        assert!(Arc::ptr_eq(&first, &tables.of(&identity, &kept).expect("kept")));
        assert_eq!(tables.len(), 1);
        assert!(kept.clone().get().is_none());
        kept.close();
        assert!(tables.is_empty());
    }

    #[test]
    fn a_number_with_another_identity_is_another_table() {
        let dir = tempfile::tempdir().expect("a writable temporary directory");
        let backend = Backend::Mapped { fs: Arc::new(OsFs), cache: None, read_ahead: true };
        let tables = TableCache::new(Arc::new(OsFs), dir.path().to_path_buf(), backend, 3);
        let identity = write(dir.path(), 1);
        tables.get(&identity).expect("just written");
        let other = TableIdentity { id: TableId(99), ..identity };
        assert!(tables.get(&other).expect_err("another table").is_corruption());
        let missing = TableIdentity { number: FileNumber(2), ..identity };
        assert!(matches!(tables.get(&missing), Err(Error::Io { .. })));
        assert_eq!(tables.len(), 1);
    }
}
