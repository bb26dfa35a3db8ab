//! The state that every path works on, behind both front doors.
//!
//! Invariants
//! - Every method takes `&self`; the exclusive handle only adds that nobody else calls.
//! - Locks are taken in this order: commit queue, maintainer, writer, view update, snapshots. No
//!   reader takes one that is held across I/O.
//! - The published sequence never runs ahead of a sync that was asked for (V1).
//!
//! It holds no protocol: `write`, `read`, `maintain` and `recover` do.

mod figures;
mod gate;
pub(crate) mod health;
pub(crate) mod logs;
mod numbers;
pub(crate) mod output;
pub mod queue;
pub(crate) mod receipts;
pub(crate) mod run_cursor;
pub mod signals;
pub(crate) mod slots;
pub mod snapshots;
pub(crate) mod source;
pub mod view;

use crate::base::key::{DatabaseId, FileNumber, ManifestMark, SeqNo};
use crate::base::name::{FileKind, file_path};
use crate::cache::TableCache;
use crate::env::Env;
use crate::env::fs::LockGuard;
use crate::env::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::error::{Error, Result};
use crate::listener::Listener;
use crate::memtable::MemtableWriter;
use crate::options::KibanOptions;
use crate::stats::Counters;
use crate::table::TableOptions;
use crate::version::manifest::ManifestWriter;
use crate::version::{TableMeta, Version};
use crate::wal::PreparedLog;
pub(crate) use gate::Gate;
use health::Health;
use logs::{Logs, NextLog};
use receipts::Receipts;
use signals::{LANES, Lane, Signals};
use slots::Slot;
use snapshots::Snapshots;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use view::Views;

/// What a leader changes.
pub(crate) struct Writer {
    pub(crate) memtable: MemtableWriter,
    pub(crate) logs: Logs,
    /// A log that can take over at once.
    pub(crate) prepared: Option<PreparedLog>,
    /// Whether preparing one was asked for since the last rotation.
    pub(crate) asked_for_log: bool,
}

/// What maintenance changes.
pub(crate) struct Maintainer {
    pub(crate) manifest: ManifestWriter,
    /// One for each lane.
    pub(crate) slots: [Slot; 2],
    /// Tables in which damage was found: no further pick takes them.
    pub(crate) fenced: BTreeSet<FileNumber>,
    /// Whether the last look found as many runs as there may be, and none to merge.
    pub(crate) is_stuck: bool,
    /// The first damage that fenced one.
    pub(crate) damage: Option<Error>,
    /// Tables that a durable edit removed; each goes when its last reader has gone (G2).
    pub(crate) zombies: Vec<Arc<TableMeta>>,
    /// Logs that nothing needs.
    pub(crate) dead_logs: Vec<PathBuf>,
}

impl Maintainer {
    pub(crate) fn slot(&mut self, lane: Lane) -> &mut Slot {
        &mut self.slots[lane as usize]
    }
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
    pub(crate) writer: Gate<Option<Writer>>,
    /// `None` where the database was opened read-only.
    pub(crate) maintainer: Gate<Option<Maintainer>>,
    pub(crate) view: Views,
    /// The last sequence that readers see.
    pub(crate) published: AtomicU64,
    pub(crate) snapshots: Snapshots,
    pub(crate) next_file: AtomicU64,
    /// File numbers below it are reserved in a durable manifest.
    pub(crate) reserved_files: AtomicU64,
    /// How far the manifest is known to be synced; every new log's header says it.
    pub(crate) manifest_mark: Mutex<ManifestMark>,
    pub(crate) receipts: Receipts,
    pub(crate) signals: Arc<Signals>,
    /// Every write up to it is durable.
    pub(crate) synced: AtomicU64,
    /// Whether the logs are more, or hold more, than they may.
    pub(crate) logs_full: AtomicBool,
    pub(crate) next_log_wanted: AtomicBool,
    /// Tables that wait for their last reader; readers that end look at it.
    pub(crate) zombies: AtomicUsize,
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

    /// Tells that a reader ended which may have pinned tables (G2).
    pub(crate) fn reader_ended(&self) {
        if self.zombies.load(Ordering::Relaxed) > 0 {
            self.maintenance_due.store(true, Ordering::Relaxed);
            self.signals.tell_due(Lane::Compact);
        }
    }

    /// Where and how the next log is made.
    ///
    /// # Errors
    /// As [`Core::allocate_log`].
    pub(crate) fn next_log(&self, preallocate_bytes: u64) -> Result<NextLog<'_>> {
        let number = self.allocate_log()?;
        let (env, health, dir, db) = (&self.env, &self.health, &*self.dir, self.db);
        Ok(NextLog { env, health, dir, db, number, preallocate_bytes })
    }

    /// Latches `error` if it is the first that leaves durability in doubt, wakes whoever waits, and
    /// gives the error on.
    pub(crate) fn poison(&self, error: Error) -> Error {
        let error = self.health.poison(error);
        self.signals.tell_step(&LANES, Some(&error));
        error
    }

    /// Tells the listener; a panic in it goes no further.
    pub(crate) fn tell_listener(&self, tell: impl FnOnce(&dyn Listener)) {
        let told = catch_unwind(AssertUnwindSafe(|| tell(&*self.options.listener)));
        self.counters.listener_panics.add(u64::from(told.is_err()));
    }

    /// Poisons if a sync or a write into a log is in doubt.
    pub(crate) fn judge_log(&self, (error, in_doubt): (Error, bool)) -> Error {
        if in_doubt { self.poison(error) } else { error }
    }

    /// Runs `work`; a panic in it leaves half-done things behind, so it poisons with its message
    /// and goes on.
    pub(crate) fn poison_on_panic<R>(&self, who: &str, work: impl FnOnce() -> R) -> R {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(done) => done,
            Err(panic) => {
                let said = panic.downcast_ref::<&str>().copied();
                let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                let cause = format!("{who} panicked: {}", said.unwrap_or("without a message"));
                let _ = self.poison(Error::Stalled { cause });
                resume_unwind(panic)
            }
        }
    }

    /// The path of one of the database's files.
    pub(crate) fn path_of(&self, kind: FileKind, number: FileNumber) -> PathBuf {
        file_path(&self.dir, kind, number)
    }

    /// The tables now.
    pub(crate) fn version(&self) -> Arc<Version> {
        self.view.with(|view| view.version.clone())
    }
}
