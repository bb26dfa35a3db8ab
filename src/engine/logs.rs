//! The logs of one engine: the active one, and those that wait for flushes.
//!
//! Invariants
//! - W3, D1: `sync` makes every appended byte durable, rotated logs first, oldest first, so that no
//!   durable write stands behind a hole.
//! - What a sync makes durable is the length captured before it.
//! - W5: a log is obsolete only when everything in it is at or below the flushed sequence.
//! - The watermark never runs ahead of a sync that succeeded.
//!
//! An error is for the path to judge, but for a failed sync of the directory: it is latched before
//! anybody else may begin one (`Health::in_dir_turn`).
//!
//! It deletes nothing (`maintain::collect`).

use super::health::Health;
use crate::base::key::{DatabaseId, FileNumber, LogPosition, SeqNo};
use crate::base::name::{FileKind, file_path};
use crate::env::Env;
use crate::env::probe::Stage;
use crate::error::{Error, Result};
use crate::stats::Counter;
use crate::wal::{FrameKind, LogStart, LogWriter, PreparedLog, frame_bytes};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// So many logs may wait for flushes, however short they are: each keeps a file open (B1).
const ROTATED_MAX: usize = 64;

struct Rotated {
    log: LogWriter,
    last: SeqNo,
    synced: bool,
}

/// The log that takes appends, and its predecessors that are still needed.
pub(crate) struct Logs {
    active: LogWriter,
    /// The highest sequence appended to the active log or, while it has none, to a predecessor.
    last: SeqNo,
    /// The sequence before the chain's first.
    before: SeqNo,
    /// Oldest first.
    rotated: VecDeque<Rotated>,
    /// Everything before it is durable.
    synced: LogPosition,
}

/// Where and how the next log is made.
pub(crate) struct NextLog<'a> {
    pub(crate) env: &'a Env,
    pub(crate) health: &'a Health,
    pub(crate) dir: &'a Path,
    pub(crate) db: DatabaseId,
    pub(crate) number: FileNumber,
    pub(crate) preallocate_bytes: u64,
}

impl NextLog<'_> {
    /// Creates the log and syncs its size and its name: whoever writes a durable group into it
    /// relies on the name. The error says whether a sync is in doubt, which poisons.
    pub(crate) fn prepare(&self) -> Result<PreparedLog, (Error, bool)> {
        self.env.stage(Stage::LogCreate);
        let log = PreparedLog::create(
            &*self.env.fs,
            self.dir,
            self.number,
            self.db,
            self.preallocate_bytes,
        )
        .map_err(|e| (e, false))?;
        // Crash here: an empty log, or none.
        self.env.stage(Stage::LogSync);
        log.sync().map_err(|e| (e, true))?;
        // Crash here: the same, but its size is certain if its name survives.
        self.env.stage(Stage::LogSyncDir);
        let failed = |e| self.health.poison(Error::io(self.dir, "sync directory of log", e));
        let synced = self.health.in_dir_turn(|| self.env.fs.sync_dir(self.dir).map_err(failed));
        synced.map_err(|e| (e, true))?;
        // Crash here: the log has a name, so what is synced into it survives (W3).
        Ok(log)
    }

    /// As [`NextLog::prepare`], and writes the first frame. A write into a log that failed is in
    /// doubt too.
    pub(crate) fn create(&self, start: &LogStart) -> Result<LogWriter, (Error, bool)> {
        let log = self.prepare()?;
        self.env.stage(Stage::Rotate);
        log.start(start).map_err(|e| (e, true))
        // Crash here: its first frame is whole, torn or absent. The first sync makes it durable
        // together with the first group that needs it.
    }
}

impl Logs {
    /// A chain that begins with `active`, of which nothing need be durable yet.
    pub(crate) fn new(active: LogWriter, last: SeqNo) -> Self {
        Self {
            active,
            last,
            before: last,
            rotated: VecDeque::new(),
            synced: LogPosition::default(),
        }
    }

    /// Appends a group's frame. Nothing is durable yet.
    pub(crate) fn append(&mut self, first: SeqNo, count: u32, payload: &[u8]) -> Result<()> {
        assert_eq!(first, self.last.next(), "W1: log order is sequence order");
        self.active.append(first, count, payload, self.synced)?;
        self.last = first.plus(u64::from(count) - 1);
        Ok(())
    }

    /// Whether a payload fits into the active log's preallocated length.
    pub(crate) fn has_room(&self, payload_bytes: usize, log_bytes: u64) -> bool {
        let end = self.active.position().offset + frame_bytes(payload_bytes);
        end <= log_bytes || self.is_unused()
    }

    /// Whether nothing was appended to the active log.
    fn is_unused(&self) -> bool {
        self.rotated.back().map_or(self.before, |previous| previous.last) == self.last
    }

    /// Lets `next` take over. Its header says how long the active log is.
    pub(crate) fn rotate(&mut self, next: LogWriter) {
        let log = std::mem::replace(&mut self.active, next);
        let synced = self.synced >= log.position();
        self.rotated.push_back(Rotated { log, last: self.last, synced });
    }

    /// Makes everything appended durable, oldest first. Counts each file synced.
    ///
    /// # Errors
    /// The first failed sync; the watermark stays where it was, and no sync is tried again.
    pub(crate) fn sync(&mut self, env: &Env, syncs: &Counter) -> Result<()> {
        if self.rotated.iter().any(|r| !r.synced) {
            env.stage(Stage::CommitSyncRotated);
            for rotated in self.rotated.iter_mut().filter(|r| !r.synced) {
                syncs.add(1);
                rotated.log.sync()?;
                // Crash here: an older log is whole; what follows it may have holes, which end
                // the replay there. Nothing that needs it was acknowledged yet.
                rotated.synced = true;
            }
        }
        env.stage(Stage::CommitSync);
        let position = self.active.position();
        if self.synced < position {
            syncs.add(1);
            self.active.sync()?;
            // Crash here: the group survives, acknowledged or not (D3).
            self.synced = position;
        }
        Ok(())
    }

    /// Appends a frame that carries the watermark and no writes.
    pub(crate) fn mark(&mut self, kind: FrameKind) -> Result<()> {
        self.active.mark(kind, self.synced)
    }

    /// Takes out the logs below the durable `floor`, oldest first. Not every log whose writes are
    /// flushed is: one that took no more and was rotated after the floor was noted is still named
    /// by the manifest, and its loss would be taken for damage (C1).
    pub(crate) fn take_obsolete(&mut self, dir: &Path, floor: FileNumber) -> Vec<PathBuf> {
        let mut obsolete = Vec::new();
        while let Some(oldest) = self.rotated.front() {
            if oldest.log.number() >= floor {
                break;
            }
            obsolete.push(file_path(dir, FileKind::Log, oldest.log.number()));
            self.rotated.pop_front();
        }
        obsolete
    }

    /// The oldest log that is needed once `flushed` is durable.
    pub(crate) fn floor(&self, flushed: SeqNo) -> FileNumber {
        let oldest = self.rotated.iter().find(|rotated| rotated.last > flushed);
        oldest.map_or(self.active.number(), |rotated| rotated.log.number())
    }

    pub(crate) fn position(&self) -> LogPosition {
        self.active.position()
    }

    pub(crate) fn synced(&self) -> LogPosition {
        self.synced
    }

    pub(crate) fn last(&self) -> SeqNo {
        self.last
    }

    /// Whether a flush should let some go: they hold more than `bytes_max`, or are too many to be
    /// kept open.
    pub(crate) fn are_full(&self, bytes_max: u64) -> bool {
        self.rotated.len() >= ROTATED_MAX || self.bytes() > bytes_max
    }

    /// Whether half of the active log's length is used.
    pub(crate) fn is_half_full(&self, log_bytes: u64) -> bool {
        self.active.position().offset > log_bytes / 2
    }

    /// Each log's number and length as far as it was appended, oldest first.
    pub(crate) fn ends(&self) -> Vec<LogPosition> {
        let rotated = self.rotated.iter().map(|r| r.log.position());
        rotated.chain([self.active.position()]).collect()
    }

    /// The numbers of all logs, oldest first.
    pub(crate) fn numbers(&self) -> Vec<FileNumber> {
        let rotated = self.rotated.iter().map(|r| r.log.number());
        rotated.chain([self.active.number()]).collect()
    }

    /// The bytes appended to all logs that are still needed.
    pub(crate) fn bytes(&self) -> u64 {
        let rotated: u64 = self.rotated.iter().map(|r| r.log.position().offset).sum();
        rotated + self.active.position().offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_at_the_noted_floor_stays_though_nothing_in_it_is_needed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (env, health) = (Env::os(), Health::new(false));
        let create = |number, next_seq| {
            let (number, preallocate_bytes) = (FileNumber(number), 0);
            let (dir, db) = (dir.path(), DatabaseId(1));
            let next = NextLog { env: &env, health: &health, dir, db, number, preallocate_bytes };
            let (predecessor, synced) = (LogPosition::default(), LogPosition::default());
            let manifest = crate::base::key::ManifestMark::default();
            let start = LogStart { predecessor, synced, manifest, next_seq };
            next.create(&start).map_err(|(error, _)| error).expect("disk has room")
        };
        let mut logs = Logs::new(create(1, SeqNo(1)), SeqNo::ZERO);
        logs.append(SeqNo(1), 1, b"record").expect("disk has room");
        let floor = logs.floor(SeqNo(1));
        logs.rotate(create(2, SeqNo(2)));
        assert!(logs.take_obsolete(dir.path(), floor).is_empty(), "C1");
        let floor = logs.floor(SeqNo(1));
        let log = file_path(dir.path(), FileKind::Log, FileNumber(1));
        assert_eq!(logs.take_obsolete(dir.path(), floor), [log]);
    }
}
