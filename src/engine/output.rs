//! Sorted entries into tables: the writing half of a flush, a compaction and a recovery.
//!
//! Invariants
//! - M1: outputs are disjoint and ordered; a table is cut only between two user keys, so that all
//!   versions of a key stand in one table of a run.
//! - Every output is synced before it is handed on; its directory entry is not (M4 is the
//!   installer's).
//! - A build that fails takes its files with it: nobody names them, and on a full disk they would
//!   have the room that the next try, or a flush, needs (B1). The next try takes new numbers.
//!   After poison there is none, and nothing is removed (P1).

use crate::base::key::{EntryRef, FileNumber, TableId};
use crate::base::name::{FileKind, file_path};
use crate::engine::Core;
use crate::engine::health::Health;
use crate::env::Env;
use crate::env::probe::Stage;
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use crate::table::{TableBuilder, TableOptions};
use crate::version::TableMeta;
use std::path::{Path, PathBuf};

/// What was built.
pub(crate) struct Output {
    pub(crate) tables: Vec<Arc<TableMeta>>,
}

impl Output {
    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }
}

/// Where and how to build.
pub(crate) struct OutputPlan<'a> {
    pub(crate) env: &'a Env,
    pub(crate) dir: &'a Path,
    pub(crate) options: &'a TableOptions,
    pub(crate) table_bytes_max: u64,
    pub(crate) build_stage: Stage,
    pub(crate) sync_stage: Stage,
    /// P1: once it is poisoned nothing is removed.
    pub(crate) health: &'a Health,
}

impl Core {
    /// Where and how this database's tables are built.
    pub(crate) fn output_plan(&self, build_stage: Stage, sync_stage: Stage) -> OutputPlan<'_> {
        OutputPlan {
            env: &self.env,
            dir: &self.dir,
            options: &self.table_options,
            table_bytes_max: self.options.table_bytes_max,
            build_stage,
            sync_stage,
            health: &self.health,
        }
    }
}

/// Builds tables from entries that come in order.
pub(crate) struct OutputBuilder<'a> {
    plan: OutputPlan<'a>,
    allocate: &'a dyn Fn() -> Result<FileNumber>,
    open: Option<Open>,
    tables: Vec<Arc<TableMeta>>,
    /// The files made so far; nothing once they are handed on.
    made: Vec<PathBuf>,
}

struct Open {
    number: FileNumber,
    id: TableId,
    file: Arc<dyn crate::env::fs::File>,
    builder: TableBuilder,
}

impl<'a> OutputBuilder<'a> {
    pub(crate) fn new(plan: OutputPlan<'a>, allocate: &'a dyn Fn() -> Result<FileNumber>) -> Self {
        plan.env.stage(plan.build_stage);
        Self { plan, allocate, open: None, tables: Vec::new(), made: Vec::new() }
    }

    /// Adds the next entry.
    pub(crate) fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        let full = self.open.as_ref().is_some_and(|open| {
            open.builder.file_bytes() >= self.plan.table_bytes_max
                && open.builder.last_key() != entry.key
        });
        if full {
            self.close_table()?;
        }
        if self.open.is_none() {
            self.open = Some(self.open_table()?);
        }
        let open = self.open.as_mut().expect("it was opened just now");
        open.builder.add(entry)
    }

    fn open_table(&mut self) -> Result<Open> {
        let number = (self.allocate)()?;
        let id = TableId(self.plan.env.random.next_id());
        let path = file_path(self.plan.dir, FileKind::Table, number);
        let fs = &self.plan.env.fs;
        let file = fs.create(&path).map_err(|e| Error::io(&path, "create table", e))?;
        self.made.push(path);
        let builder = TableBuilder::new(file.clone(), id, self.plan.options);
        Ok(Open { number, id, file, builder })
    }

    fn close_table(&mut self) -> Result<()> {
        let Some(Open { number, id, file, builder }) = self.open.take() else { return Ok(()) };
        let summary = builder.finish()?;
        self.plan.env.stage(self.plan.sync_stage);
        file.sync_all().map_err(|e| Error::io(file.path(), "sync table", e))?;
        // Crash here: a whole table that nobody names, perhaps without a name of its own.
        self.plan.env.stage(self.plan.build_stage);
        self.tables.push(Arc::new(TableMeta::new(number, id, summary)));
        Ok(())
    }

    /// Ends the last table.
    pub(crate) fn finish(mut self) -> Result<Output> {
        self.close_table()?;
        self.made.clear();
        Ok(Output { tables: std::mem::take(&mut self.tables) })
    }
}

impl Drop for OutputBuilder<'_> {
    fn drop(&mut self) {
        if self.plan.health.is_poisoned() {
            return;
        }
        for path in &self.made {
            // Should one stay, it is an orphan, which the next open removes.
            let _ = self.plan.env.fs.unlink(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::{Kind, SeqNo};
    use crate::env::sync::{AtomicU64, Ordering};

    #[test]
    fn a_build_that_fails_leaves_no_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (env, next) = (Env::os(), AtomicU64::new(1));
        let allocate = || Ok(FileNumber(next.fetch_add(1, Ordering::Relaxed)));
        let (options, health) = (TableOptions::default(), Health::new(false));
        let build = |keys: &[&[u8]]| {
            let plan = OutputPlan {
                env: &env,
                dir: dir.path(),
                options: &options,
                table_bytes_max: 1,
                build_stage: Stage::FlushBuild,
                sync_stage: Stage::FlushSyncTable,
                health: &health,
            };
            let mut output = OutputBuilder::new(plan, &allocate);
            for key in keys {
                output.add(EntryRef { key, seq: SeqNo(1), kind: Kind::Put, value: b"v" })?;
            }
            output.finish()
        };
        let files = || env.fs.list(dir.path()).expect("a directory").len();
        build(&[b"a", b"b", b"c", b"c"]).map(|_| ()).expect_err("one entry twice");
        assert_eq!((files(), next.load(Ordering::Relaxed)), (0, 4), "B1");
        assert_eq!(build(&[b"a", b"b"]).expect("in order").tables.len(), 2);
        assert_eq!(files(), 2);
        let _ = health.poison(Error::ReadOnly);
        build(&[b"a", b"b", b"c", b"c"]).map(|_| ()).expect_err("one entry twice");
        assert_eq!(files(), 5, "P1");
    }
}
