//! `open` and `open_read_only`: the steps of the module's list, in order.
//!
//! Invariants
//! - D4: `open` returns only after the directory sync that makes the new manifest current.
//! - `open_read_only` writes nothing and decides nothing.

use super::RecoveryReport;
use super::ground::{self, Ground};
use super::orphans;
use super::replay::{Replayed, replay};
use crate::base::key::{FileNumber, LogPosition, ManifestMark, SeqNo};
use crate::cache::{BlockCache, TableCache};
use crate::cursor::Cursor;
use crate::engine::health::Health;
use crate::engine::logs::{Logs, NextLog};
use crate::engine::output::{Output, OutputBuilder};
use crate::engine::queue::{CommitQueue, GROUP_BYTES_MAX};
use crate::engine::receipts::Receipts;
use crate::engine::signals::Signals;
use crate::engine::slots::Slot;
use crate::engine::snapshots::Snapshots;
use crate::engine::view::{Frozen, View, Views};
use crate::engine::{Core, Gate, Maintainer, Writer};
use crate::env::fs::LockKind;
use crate::env::probe::Stage;
use crate::env::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::options::{Compression, KibanOptions, Reads};
use crate::stats::Counters;
use crate::table::{Backend, TableOptions};
use crate::version::{Edit, ManifestWriter, Version, flush_edit};
use crate::wal::{LogStart, LogWriter};
use std::collections::BTreeSet;
use std::path::Path;

/// Opens for reading and writing.
pub(crate) fn open(dir: &Path, options: KibanOptions) -> Result<(Core, RecoveryReport)> {
    options.check()?;
    let env = options.env.clone();
    let lock = ground::lock(&env, dir, options.create_if_missing, LockKind::Exclusive)?;
    let ground = ground::read(&env, dir, &options)?;
    let replayed = replay(&env, dir, &ground)?;
    let mut report = report(&ground, &replayed);
    let (memtable, active) = Memtable::with_room(options.memtable_bytes);
    let mark = ground.mark;
    let core = core(dir, options, &ground, active, replayed.floor, mark, false);
    let outputs = build(&core, &replayed)?;
    report.tables_built = outputs.iter().map(|output| output.tables.len() as u64).sum();
    let (number, log) = (core.allocate_file(), core.allocate_file());
    let version = recovered_version(&core, &ground, &outputs, &replayed, log);
    let bytes_max = core.options.manifest_bytes_max;
    let manifest = ManifestWriter::install(&core.env, dir, number, core.db, &version, bytes_max)?;
    // Crash here: the decision is final (D4); the old logs are never replayed again, since their
    // sequences are flushed.
    *core.manifest_mark.lock() = manifest.synced();
    core.note_reserved(version.next_file);
    let log = first_log(&core, log)?;
    *core.writer.lock() = Some(Writer {
        memtable,
        logs: Logs::new(log, replayed.floor),
        prepared: None,
        asked_for_log: false,
    });
    *core.maintainer.lock() = Some(Maintainer {
        manifest,
        slots: [Slot::Empty, Slot::Empty],
        fenced: BTreeSet::new(),
        is_stuck: false,
        damage: None,
        zombies: Vec::new(),
        dead_logs: Vec::new(),
    });
    let version = Arc::new(version);
    core.view.update(|view| view.with_version(version.clone()));
    *core.lock.lock() = Some(lock);
    report.orphans_removed = orphans::remove(&core, &ground.names);
    Ok((core, report))
}

/// Opens for reading only.
pub(crate) fn open_read_only(dir: &Path, options: KibanOptions) -> Result<(Core, RecoveryReport)> {
    options.check()?;
    let env = options.env.clone();
    let lock = ground::lock(&env, dir, false, LockKind::Shared)?;
    let options = KibanOptions { create_if_missing: false, ..options };
    let ground = ground::read(&env, dir, &options)?;
    let replayed = replay(&env, dir, &ground)?;
    let report = report(&ground, &replayed);
    let mark = ground.mark;
    let (_, active) = Memtable::with_room(options.memtable_bytes);
    let core = core(dir, options, &ground, active, replayed.last, mark, true);
    core.view.update(|view| view.with_frozen(replayed.memtables));
    *core.lock.lock() = Some(lock);
    Ok((core, report))
}

fn report(ground: &Ground, replayed: &Replayed) -> RecoveryReport {
    RecoveryReport {
        created: ground.created,
        logs: replayed.logs,
        records: replayed.records,
        dropped: replayed.dropped.clone(),
        last_sequence: replayed.last.0,
        ..RecoveryReport::default()
    }
}

/// The core on this ground, without its writing half.
fn core(
    dir: &Path,
    options: KibanOptions,
    ground: &Ground,
    active: Arc<Memtable>,
    published: SeqNo,
    mark: ManifestMark,
    read_only: bool,
) -> Core {
    let table_options = TableOptions {
        block_bytes: options.block_bytes,
        restart_interval: options.restart_interval,
        point_index: options.point_index,
        filter_bits_per_key: options.filter_bits_per_key,
        prefix_len: options.scan_prefix_len,
        compression: options.compression,
    };
    let env = options.env.clone();
    let cache = Arc::new(BlockCache::new(options.cache_bytes as u64, options.block_bytes));
    let backend = match options.reads {
        // Mapped blocks need a cache only for what they decompress to.
        Reads::Mapped => Backend::Mapped {
            fs: env.fs.clone(),
            cache: (options.compression != Compression::None).then_some(cache),
            read_ahead: options.map_read_ahead,
        },
        Reads::Pread => Backend::Pread(cache),
    };
    let tables_max = options.open_files_max;
    let tables = TableCache::new(env.fs.clone(), dir.to_path_buf(), backend, tables_max);
    let version = Arc::new(ground.version.clone());
    // A quarter, so that a group leaves little of a memtable unused.
    let group_bytes_max = GROUP_BYTES_MAX.min(options.memtable_bytes / 4);
    let patience_ns_max = options.cohort_wait_max_ns;
    let queue = CommitQueue::new(env.clock.clone(), group_bytes_max, patience_ns_max);
    Core {
        dir: dir.to_path_buf(),
        env,
        table_options,
        db: ground.db,
        queue,
        receipts: Receipts::default(),
        signals: Arc::new(Signals::default()),
        // Recovered writes are in tables.
        synced: AtomicU64::new(published.0),
        logs_full: AtomicBool::new(false),
        next_log_wanted: AtomicBool::new(false),
        zombies: AtomicUsize::new(0),
        writer: Gate::new(None, options.env.clock.clone()),
        maintainer: Gate::new(None, options.env.clock.clone()),
        view: Views::new(View { active, frozen: Vec::new(), version }),
        published: AtomicU64::new(published.0),
        snapshots: Snapshots::default(),
        next_file: AtomicU64::new(ground.next_file.0),
        reserved_files: AtomicU64::new(0),
        manifest_mark: Mutex::new(mark),
        maintenance_due: AtomicBool::new(true),
        maintenance_failures: AtomicU32::new(0),
        maintenance_skip: AtomicU32::new(0),
        tables: Arc::new(tables),
        health: Health::new(read_only),
        counters: Counters::default(),
        lock: Mutex::new(None),
        options,
    }
}

/// Builds what the logs show into synced tables with certain names, a run for each memtable.
fn build(core: &Core, replayed: &Replayed) -> Result<Vec<Output>> {
    let allocate = || Ok(core.allocate_file());
    let mut outputs = Vec::new();
    for Frozen { memtable, .. } in &replayed.memtables {
        let plan = core.output_plan(Stage::RecoverBuild, Stage::RecoverSyncTable);
        let mut output = OutputBuilder::new(plan, &allocate);
        let mut cursor = memtable.cursor();
        cursor.seek_first()?;
        while let Some(entry) = cursor.entry() {
            output.add(entry)?;
            cursor.next()?;
        }
        outputs.push(output.finish()?);
    }
    if !outputs.is_empty() {
        core.env.stage(Stage::RecoverSyncDir);
        let synced = core.env.fs.sync_dir(&core.dir);
        synced.map_err(|e| Error::io(&core.dir, "sync directory of tables", e))?;
        // Crash here: whole tables that nobody names; the old manifest and logs still stand (O3).
    }
    Ok(outputs)
}

/// The version with what the logs show on top, flushed beyond every sequence ever seen.
fn recovered_version(
    core: &Core,
    ground: &Ground,
    outputs: &[Output],
    replayed: &Replayed,
    log: FileNumber,
) -> Version {
    let next_file = Some(core.files_to_reserve());
    let apply = |version: &Version, edit: Edit| {
        version.apply(&edit).expect("an edit of our own fits the version it was made for")
    };
    let mut version = ground.version.clone();
    for (output, Frozen { last, .. }) in outputs.iter().zip(&replayed.memtables) {
        let edit = Edit { next_file, ..flush_edit(&version, &output.tables, *last) };
        version = apply(&version, edit);
    }
    // No log of the old chain holds anything that is needed.
    let (flushed_seq, log_floor) = (Some(replayed.floor), Some(log));
    apply(&version, Edit { next_file, flushed_seq, log_floor, ..Edit::default() })
}

/// The first log of the new chain. It needs nothing of the old one.
fn first_log(core: &Core, number: FileNumber) -> Result<LogWriter> {
    let next = NextLog {
        env: &core.env,
        health: &core.health,
        dir: &core.dir,
        db: core.db,
        number,
        preallocate_bytes: core.options.log_bytes,
    };
    let start = LogStart {
        predecessor: LogPosition::default(),
        synced: LogPosition::default(),
        manifest: *core.manifest_mark.lock(),
        next_seq: core.published().next(),
    };
    next.create(&start).map_err(|(error, _)| error)
}
