//! The state that every path works on, behind both front doors.
//!
//! Invariants
//! - Every method takes `&self`; the exclusive handle only adds that nobody else calls.
//! - Locks are taken in this order: commit queue, maintainer, writer, view update, snapshots. No
//!   reader takes one that is held across I/O.
//! - The published sequence never runs ahead of a sync that was asked for (V1).
//!
//! It holds no protocol: `write`, `read`, `maintain` and `recover` do.

pub(crate) mod health;
pub(crate) mod logs;
pub(crate) mod output;
pub mod queue;
pub(crate) mod run_cursor;
pub(crate) mod snapshots;
pub(crate) mod source;
pub(crate) mod view;

use crate::base::key::{DatabaseId, FileNumber, ManifestMark, SeqNo};
use crate::base::name::{FileKind, file_path};
use crate::cache::TableCache;
use crate::env::Env;
use crate::env::fs::LockGuard;
use crate::env::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, Published};
use crate::error::{Error, Result};
use crate::memtable::MemtableWriter;
use crate::options::KibanOptions;
use crate::stats::{Counters, Stats};
use crate::table::TableOptions;
use crate::version::manifest::ManifestWriter;
use crate::version::{Plan, TableMeta, TableSlice, Version};
use health::Health;
use logs::Logs;
use output::Output;
use snapshots::Snapshots;
use std::collections::BTreeSet;
use std::path::PathBuf;
use view::View;

/// So many file numbers are reserved at a time.
const FILES_RESERVED: u64 = 256;

/// What a leader changes.
pub(crate) struct Writer {
    pub(crate) memtable: MemtableWriter,
    pub(crate) logs: Logs,
}

/// Maintenance between two of its steps.
pub(crate) enum Job {
    /// The oldest frozen memtable is to be built into a table.
    FlushPlanned,
    /// It was built; the tables are synced.
    FlushBuilt(Output, SeqNo),
    /// Runs are to be merged.
    CompactPlanned(Plan),
    /// They were merged; new tables are synced. The slices take the place of the inputs.
    CompactBuilt(Plan, Output, Vec<TableSlice>),
}

/// What maintenance changes.
pub(crate) struct Maintainer {
    pub(crate) manifest: ManifestWriter,
    pub(crate) job: Option<Job>,
    /// Tables in which damage was found: no further pick takes them.
    pub(crate) fenced: BTreeSet<FileNumber>,
    /// The first damage that fenced one.
    pub(crate) damage: Option<Error>,
    /// Tables that a durable edit removed; each goes when its last reader has gone (G2).
    pub(crate) zombies: Vec<Arc<TableMeta>>,
    /// Logs that nothing needs.
    pub(crate) dead_logs: Vec<PathBuf>,
}

/// One open database.
pub(crate) struct Core {
    pub(crate) dir: PathBuf,
    pub(crate) env: Env,
    pub(crate) options: KibanOptions,
    pub(crate) table_options: TableOptions,
    pub(crate) db: DatabaseId,
    pub(crate) queue: queue::CommitQueue,
    /// `None` where the database was opened read-only.
    pub(crate) writer: Mutex<Option<Writer>>,
    /// `None` where the database was opened read-only.
    pub(crate) maintainer: Mutex<Option<Maintainer>>,
    pub(crate) view: Published<View>,
    /// Held by whoever replaces the view, so that no replacement is lost.
    pub(crate) view_update: Mutex<()>,
    /// The last sequence that readers see.
    pub(crate) published: AtomicU64,
    pub(crate) snapshots: Snapshots,
    pub(crate) next_file: AtomicU64,
    /// File numbers below it are reserved in a durable manifest.
    pub(crate) reserved_files: AtomicU64,
    /// How far the manifest is known to be synced; every new log's header says it.
    pub(crate) manifest_mark: Mutex<ManifestMark>,
    /// Whether a step of maintenance may find something to do.
    pub(crate) maintenance_due: AtomicBool,
    /// Failed tries in a row of what could be tried again, and writes to go before the next try.
    pub(crate) maintenance_failures: AtomicU32,
    pub(crate) maintenance_skip: AtomicU32,
    pub(crate) tables: Arc<TableCache>,
    pub(crate) health: Health,
    pub(crate) counters: Counters,
    pub(crate) lock: Mutex<Option<Box<dyn LockGuard>>>,
}

impl Core {
    /// What readers see now.
    pub(crate) fn published(&self) -> SeqNo {
        SeqNo(self.published.load(Ordering::Acquire))
    }

    /// A file number that nobody had before (C2).
    pub(crate) fn allocate_file(&self) -> FileNumber {
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// As [`Core::allocate_file`], for a log: its number must be reserved in a durable manifest,
    /// since blocks of a log whose name a crash took would be valid in a later log of the same
    /// number.
    ///
    /// # Errors
    /// `Stalled` where the reservation is used up; the next step of maintenance renews it.
    pub(crate) fn allocate_log(&self) -> Result<FileNumber> {
        if self.reservation_is_used_up() {
            let cause = "no reserved file number is left until maintenance gets on".to_string();
            return Err(Error::Stalled { cause });
        }
        Ok(self.allocate_file())
    }

    /// The reservation that an edit made now should hold; it counts once the edit is durable.
    pub(crate) fn files_to_reserve(&self) -> FileNumber {
        FileNumber(self.next_file.load(Ordering::Relaxed) + FILES_RESERVED)
    }

    fn reserved_left(&self) -> u64 {
        let reserved = self.reserved_files.load(Ordering::Relaxed);
        reserved.saturating_sub(self.next_file.load(Ordering::Relaxed))
    }

    /// Whether half of the reservation is used up.
    pub(crate) fn reservation_is_low(&self) -> bool {
        self.reserved_left() < FILES_RESERVED / 2
    }

    /// Whether no log can be made before the reservation is renewed.
    pub(crate) fn reservation_is_used_up(&self) -> bool {
        self.reserved_left() == 0
    }

    /// Notes that a durable manifest reserves the numbers below `reserved`.
    pub(crate) fn note_reserved(&self, reserved: FileNumber) {
        self.reserved_files.store(reserved.0, Ordering::Relaxed);
    }

    /// Replaces the view by what `change` makes of it.
    pub(crate) fn update_view(&self, change: impl FnOnce(&View) -> View) {
        let _held = self.view_update.lock();
        let next = change(&self.view.load());
        self.view.store(Arc::new(next));
    }

    /// The path of one of the database's files.
    pub(crate) fn path_of(&self, kind: FileKind, number: FileNumber) -> PathBuf {
        file_path(&self.dir, kind, number)
    }

    /// The tables now.
    pub(crate) fn version(&self) -> Arc<Version> {
        self.view.with(|view| view.version.clone())
    }

    /// The figures now.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.counters.fill(&mut stats);
        let view = self.view.load();
        stats.memtable_bytes = view.memtable_bytes() as u64;
        stats.memtables_frozen = view.frozen.len() as u64;
        stats.runs = view.version.runs.len() as u64;
        // A table may stand in several slices.
        for meta in view.version.tables().into_values() {
            stats.tables += 1;
            stats.table_bytes += meta.bytes;
        }
        stats.snapshots = self.snapshots.count() as u64;
        stats.last_sequence = self.published().0;
        stats.flushed_sequence = view.version.flushed_seq.0;
        if let Some(maintainer) = &*self.maintainer.lock() {
            stats.tables_pinned = maintainer.zombies.len() as u64;
            stats.tables_fenced = maintainer.fenced.len() as u64;
        }
        if let Some(writer) = &*self.writer.lock() {
            stats.log_bytes = writer.logs.bytes();
            stats.logs = writer.logs.numbers().len() as u64;
        }
        stats
    }
}
