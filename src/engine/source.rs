//! A cursor over any source of a view, without a virtual call.

use super::run_cursor::RunCursor;
use super::view::View;
use crate::base::key::{EntryRef, SeqNo};
use crate::base::slice::Slice;
use crate::cache::TableCache;
use crate::cursor::Cursor;
use crate::env::sync::Arc;
use crate::error::Result;
use crate::memtable::MemCursor;
use crate::table::Purpose;

/// A memtable's cursor or a run's. Not boxed: a scan would allocate once more for each run.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Source {
    Memtable(MemCursor),
    Run(RunCursor),
}

impl Source {
    /// One cursor for each source of `view`, newest first. Runs pass over tables without `prefix`.
    pub(crate) fn all(
        view: &View,
        tables: &Arc<TableCache>,
        purpose: Purpose,
        prefix: Option<&Arc<[u8]>>,
    ) -> Vec<Self> {
        let runs = &view.version.runs;
        let mut sources = Vec::with_capacity(1 + view.frozen.len() + runs.len());
        sources.push(Self::Memtable(view.active.cursor()));
        sources.extend(view.frozen.iter().map(|f| Self::Memtable(f.memtable.cursor())));
        sources.extend(runs.iter().map(|run| {
            Self::Run(RunCursor::new(run.clone(), tables.clone(), purpose, prefix.cloned()))
        }));
        sources
    }
}

macro_rules! each {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            Self::Memtable($cursor) => $call,
            Self::Run($cursor) => $call,
        }
    };
}

impl Cursor for Source {
    fn seek_first(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_first())
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        each!(self, cursor => cursor.seek(key, seq))
    }

    fn seek_last(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_last())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        each!(self, cursor => cursor.prev())
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        each!(self, cursor => cursor.entry())
    }

    fn pinned_value(&self) -> Option<Slice> {
        each!(self, cursor => cursor.pinned_value())
    }
}
