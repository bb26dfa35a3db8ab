//! A second database from a part of this one: checkpoint, backup and restore.
//!
//! Invariants
//! - What the copy shows is one cut of the commit order: everything published when the call began.
//! - `CURRENT` is made last: a copy that was cut short has none, and does not open; where nothing
//!   but the lock's file is left of it, it is an empty directory to `create_if_missing`.
//! - C1: the copy's manifest knows how far its log is synced, so damage there is no torn tail.
//! - Tables keep their ids and are shared or copied byte for byte; the copy has an id of its own,
//!   so that none of its logs and manifests is taken for the original's.
//! - Maintenance goes on while the copy is made, on whatever disk: the cut keeps its tables (G2)
//!   and its logs open, and a close waits.
//!
//! Order of durable steps: make directory, copy the log's part and sync it, link or copy tables
//! (copies are synced), sync directory, manifest and `CURRENT` (`version::manifest`), sync parent.

use crate::base::key::{DatabaseId, FileNumber, LogPosition, ManifestMark, SeqNo};
use crate::base::name::{FileKind, LOCK, file_path};
use crate::engine::Core;
use crate::env::fs::{
    File, LockGuard, LockKind, OpenMode, parent_dir, read_full_at, read_whole, write_all_at,
};
use crate::env::probe::Stage;
use crate::env::sync::{Arc, Ordering};
use crate::error::{Error, Result};
use crate::version::{ManifestWriter, SYNC_DIR, Version};
use crate::wal::{self, LogStart, LogWriter};
use std::io;
use std::path::Path;

/// How tables get into the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    /// By hard links.
    Link,
    /// Byte for byte.
    Copy,
}

/// A part of this database.
struct Cut {
    /// The tables; it keeps them (G2).
    version: Arc<Version>,
    /// The last sequence.
    last: SeqNo,
    /// The logs that may hold something above the flushed sequence, oldest first; open, since
    /// maintenance may give them up.
    logs: Vec<(FileNumber, Arc<dyn File>)>,
}

impl Core {
    pub(crate) fn checkpoint(&self, target: &Path, tables: Tables) -> Result<()> {
        let made = self.make_checkpoint(target, tables);
        // What the version kept may go now.
        self.reader_ended();
        made
    }

    fn make_checkpoint(&self, target: &Path, tables: Tables) -> Result<()> {
        // L1: until it is dropped a close waits, and the files are this handle's.
        let _building = self.signals.begin_build().ok_or(Error::Closed)?;
        let cut = self.cut()?;
        let _held = self.make_target(target)?;
        // Crash here: a directory without a database.
        let db = DatabaseId(self.env.random.next_id());
        let synced = self.copy_log(target, db, &cut)?;
        // Crash here: a log without a database.
        self.env.stage(Stage::CheckpointTables);
        for number in cut.version.tables().into_keys() {
            self.copy_table(target, number, tables)?;
        }
        self.env.stage(Stage::CheckpointSyncDir);
        self.sync_dir_of_copy(target)?;
        // Crash here: tables and a log, all with certain names, and no `CURRENT`.
        self.check_unpoisoned()?;
        let number = synced.log;
        let bytes_max = self.options.manifest_bytes_max;
        let version = Version {
            next_file: number.next(),
            log_floor: number,
            // C1: so that damage in the log is told from a torn tail.
            synced,
            ..(*cut.version).clone()
        };
        ManifestWriter::install(&self.env, target, number, db, &version, bytes_max)
            .map_err(|e| self.judge_copy(e))?;
        // Crash here: a whole database, if its directory has a name.
        self.env.stage(Stage::CheckpointSyncDir);
        self.sync_dir_of_copy(&parent_dir(target))?;
        self.check_unpoisoned()
    }

    /// Two copies may share a parent, and it may be this database's directory: see `in_dir_turn`.
    fn sync_dir_of_copy(&self, dir: &Path) -> Result<()> {
        let sync = || {
            let synced = self.env.fs.sync_dir(dir);
            synced.map_err(|e| self.judge_copy(Error::io(dir, SYNC_DIR, e)))
        };
        if self.health.is_read_only() { sync() } else { self.health.in_dir_turn(sync) }
    }

    /// P1: a failed sync of a directory poisons, whosever names are in it. What else fails is the
    /// copy's alone.
    fn judge_copy(&self, error: Error) -> Error {
        let of_dir = matches!(&error, Error::Io { operation, .. } if *operation == SYNC_DIR);
        if of_dir && !self.health.is_read_only() { self.poison(error) } else { error }
    }

    /// P1: a handle that was poisoned meanwhile makes no database.
    fn check_unpoisoned(&self) -> Result<()> {
        if self.health.is_read_only() { Ok(()) } else { self.health.check_writable() }
    }

    /// Makes the directory, and locks it so that nobody opens what is not whole yet.
    fn make_target(&self, target: &Path) -> Result<Box<dyn LockGuard>> {
        self.env.stage(Stage::CheckpointDir);
        let taken = || Error::AlreadyExists { path: target.to_path_buf() };
        self.env.fs.mkdir(target).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => taken(),
            _ => Error::io(target, "create directory", e),
        })?;
        // The file comes with the copy, which may be read later where no file can be made.
        let lock = target.join(LOCK);
        let locked = self.env.fs.lock(&lock, LockKind::Exclusive);
        let held = locked.map_err(|e| Error::io(&lock, "lock", e))?;
        // Another process may have made a database there before it was locked.
        let names = self.env.fs.list(target);
        let names = names.map_err(|e| Error::io(target, "list directory", e))?;
        if names.iter().any(|name| name != LOCK) { Err(taken()) } else { Ok(held) }
    }

    /// What is copied; everything in it is durable.
    fn cut(&self) -> Result<Cut> {
        // Held so that no log is given up before it is open, and none goes that was opened.
        let _maintainer = self.maintainer.lock();
        self.health.check_readable()?;
        let (version, last) = if self.health.is_read_only() {
            (self.version(), self.published())
        } else {
            let mut writer = self.writer.lock();
            self.health.check_writable()?;
            self.sync_logs(writer.as_mut().expect("a writable handle has a writer"))
                .map_err(|e| self.poison(e))?;
            // Held until here: what a later group appends is above this.
            (self.version(), self.published())
        };
        self.env.stage(Stage::CheckpointLog);
        let mut logs = Vec::new();
        // D4: what a recovery has dropped for good may still lie in logs below the floor.
        for number in self.log_numbers()?.into_iter().filter(|log| *log >= version.log_floor) {
            let path = file_path(&self.dir, FileKind::Log, number);
            let file = self.env.fs.open(&path, OpenMode::Read);
            logs.push((number, file.map_err(|e| Error::io(&path, "open log", e))?));
        }
        Ok(Cut { version, last, logs })
    }

    fn copy_table(&self, target: &Path, number: FileNumber, tables: Tables) -> Result<()> {
        let from = file_path(&self.dir, FileKind::Table, number);
        let to = file_path(target, FileKind::Table, number);
        if tables == Tables::Link {
            return self.env.fs.link(&from, &to).map_err(|e| Error::io(&to, "link table", e));
        }
        let copied = (|| {
            let source = self.env.fs.open(&from, OpenMode::Read)?;
            let file = self.env.fs.create(&to)?;
            let len = source.len()?;
            let mut buf = vec![0; len.min(1 << 20) as usize];
            let mut offset = 0;
            while offset < len {
                let read = read_full_at(&*source, offset, &mut buf)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                write_all_at(&*file, offset, &buf[..read])?;
                offset += read as u64;
            }
            file.sync_all()
        })();
        copied.map_err(|e| Error::io(&to, "copy table", e))
    }

    /// Writes what the logs hold above the flushed sequence, up to the cut, into a log of the copy,
    /// and returns its end, which is synced.
    fn copy_log(&self, target: &Path, db: DatabaseId, cut: &Cut) -> Result<LogPosition> {
        self.env.stage(Stage::CheckpointLog);
        let number = FileNumber(self.next_file.load(Ordering::Relaxed));
        let none = LogPosition::default();
        let mut next = cut.version.flushed_seq.next();
        let manifest = ManifestMark::default();
        let start = LogStart { predecessor: none, synced: none, manifest, next_seq: next };
        let mut log = LogWriter::create(&*self.env.fs, target, number, db, &start, 0)?;
        for (source, file) in &cut.logs {
            let path = file.path();
            let bytes =
                read_whole(&**file, u64::MAX).map_err(|e| Error::io(path, "read log", e))?;
            let scan = wal::scan(path, &bytes, self.db, *source)?;
            for frame in scan.frames.iter().filter(|f| f.intact && f.count > 0) {
                if frame.first != next || frame.last() > cut.last {
                    continue;
                }
                log.append(frame.first, frame.count, &bytes[frame.payload.clone()], none)?;
                next = frame.last().next();
            }
        }
        if next <= cut.last {
            let what = format!("every write up to sequence {}", cut.last.0);
            return Err(Error::corruption(&self.dir, 0, what));
        }
        log.sync()?;
        Ok(log.position())
    }

    /// The logs that may hold something above the flushed sequence, oldest first.
    fn log_numbers(&self) -> Result<Vec<FileNumber>> {
        if let Some(writer) = &*self.writer.lock() {
            return Ok(writer.logs.numbers());
        }
        let names = self.env.fs.list(&self.dir);
        let names = names.map_err(|e| Error::io(&self.dir, "list directory", e))?;
        let ours = names.iter().filter_map(|name| crate::base::name::parse_file_name(name));
        let mut logs: Vec<_> =
            ours.filter(|(kind, _)| *kind == FileKind::Log).map(|(_, number)| number).collect();
        logs.sort_unstable();
        Ok(logs)
    }
}
