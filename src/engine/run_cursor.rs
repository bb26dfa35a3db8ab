//! A cursor over one sorted run: its table slices one after the other, each within its visible
//! bounds.
//!
//! Invariants
//! - M1: slices are disjoint and ordered, so at most one table is open under the cursor.
//! - Entries outside a slice's visible bounds do not exist.
//! - A table is opened when the cursor enters it; a slice whose prefix filter excludes the scanned
//!   prefix is passed over.
//! - R4: an error sticks until the next absolute seek.

use crate::base::key::{EntryRef, SeqNo};
use crate::base::slice::Slice;
use crate::cache::TableCache;
use crate::cursor::Cursor;
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use crate::table::{Purpose, TableCursor};
use crate::version::{Run, TableSlice};

pub(crate) struct RunCursor {
    run: Arc<Run>,
    tables: Arc<TableCache>,
    purpose: Purpose,
    /// Only keys with this prefix are asked for.
    prefix: Option<Arc<[u8]>>,
    at: usize,
    table: Option<TableCursor>,
    failed: Option<Error>,
}

impl RunCursor {
    pub(crate) fn new(
        run: Arc<Run>,
        tables: Arc<TableCache>,
        purpose: Purpose,
        prefix: Option<Arc<[u8]>>,
    ) -> Self {
        Self { run, tables, purpose, prefix, at: 0, table: None, failed: None }
    }

    fn slice(&self) -> &TableSlice {
        &self.run.slices()[self.at]
    }

    /// Opens the slice at `self.at`; `None` where it can't hold what is asked for.
    fn open(&self) -> Result<Option<TableCursor>> {
        let meta = &self.slice().meta;
        let table = self.tables.of(&meta.identity(), &meta.kept)?;
        if let Some(prefix) = &self.prefix
            && !table.may_contain_prefix(prefix)?
        {
            return Ok(None);
        }
        Ok(Some(table.cursor(self.purpose)))
    }

    /// Finds the first entry at or after slice `self.at`, starting inside it at `from`.
    fn forward(&mut self, mut from: Option<(&[u8], SeqNo)>) -> Result<()> {
        self.table = None;
        while self.at < self.run.slices().len() {
            if let Some(mut table) = self.open()? {
                let lo = self.slice().lo.as_deref();
                match (from, lo) {
                    (Some((key, seq)), lo) if lo.is_none_or(|lo| lo <= key) => {
                        table.seek(key, seq)?;
                    }
                    (_, Some(lo)) => table.seek(lo, SeqNo::MAX)?,
                    (_, None) => table.seek_first()?,
                }
                if self.keep(table, true) {
                    return Ok(());
                }
            }
            from = None;
            self.at += 1;
        }
        Ok(())
    }

    /// Finds the last entry at or before slice `self.at`, starting inside it below `before`.
    fn backward(&mut self, mut before: Option<&[u8]>) -> Result<()> {
        self.table = None;
        loop {
            if let Some(mut table) = self.open()? {
                let hi = self.slice().hi.as_deref();
                match (before, hi) {
                    (Some(key), hi) if hi.is_none_or(|hi| key <= hi) => table.seek_before(key)?,
                    (_, Some(hi)) => table.seek_before(hi)?,
                    (_, None) => table.seek_last()?,
                }
                if self.keep(table, false) {
                    return Ok(());
                }
            }
            before = None;
            if self.at == 0 {
                return Ok(());
            }
            self.at -= 1;
        }
    }

    /// Keeps the table cursor if it stands on an entry inside the visible bounds.
    fn keep(&mut self, table: TableCursor, forward: bool) -> bool {
        let inside = table.entry().is_some_and(|entry| {
            let slice = self.slice();
            if forward {
                slice.hi.as_deref().is_none_or(|hi| entry.key < hi)
            } else {
                slice.lo.as_deref().is_none_or(|lo| lo <= entry.key)
            }
        });
        self.table = inside.then_some(table);
        inside
    }

    /// Runs an absolute seek: it clears an old error and keeps a new one.
    fn absolute(&mut self, seek: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.failed = None;
        self.table = None;
        let sought = seek(self);
        self.note(sought)
    }

    fn note(&mut self, result: Result<()>) -> Result<()> {
        if let Err(error) = &result {
            self.failed = Some(error.clone());
            self.table = None;
        }
        result
    }

    fn step(&mut self, forward: bool) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut table = self.table.take().expect("a cursor moves only from an entry");
        let moved = if forward { table.next() } else { table.prev() };
        let result = moved.and_then(|()| {
            if self.keep(table, forward) {
                return Ok(());
            }
            if forward {
                self.at += 1;
                self.forward(None)
            } else if self.at > 0 {
                self.at -= 1;
                self.backward(None)
            } else {
                Ok(())
            }
        });
        self.note(result)
    }
}

impl Cursor for RunCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.absolute(|this| {
            this.at = 0;
            this.forward(None)
        })
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.absolute(|this| {
            this.at = this.run.first_reaching(key);
            this.forward(Some((key, seq)))
        })
    }

    fn seek_last(&mut self) -> Result<()> {
        self.absolute(|this| {
            this.at = this.run.slices().len().saturating_sub(1);
            if this.run.slices().is_empty() { Ok(()) } else { this.backward(None) }
        })
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.absolute(|this| {
            let after = this.run.slices().partition_point(|slice| slice.lower() < key);
            if after == 0 {
                return Ok(());
            }
            this.at = after - 1;
            this.backward(Some(key))
        })
    }

    fn next(&mut self) -> Result<()> {
        self.step(true)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(false)
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        self.table.as_ref()?.entry()
    }

    fn pinned_value(&self) -> Option<Slice> {
        self.table.as_ref()?.pinned_value()
    }
}
