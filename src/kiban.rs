//! The exclusive front door: one owner, no threads.
//!
//! Invariants
//! - Maintenance runs on the caller, before a write that finds it due, or step by step.
//! - Nothing is written here that the shared handle would have to write again: each verb is one
//!   call into the core.

use crate::base::key::SeqNo;
use crate::base::slice::Slice;
use crate::batch::WriteBatch;
use crate::engine::Core;
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use crate::maintain::MaintainStep;
use crate::options::KibanOptions;
use crate::read::iter::{Iter, ScanRange, just_above};
use crate::recover::{self, RecoveryReport};
use crate::snapshot::Snapshot;
use crate::stats::Stats;
use crate::verify::VerifyReport;
use crate::version::KeyRange;
use crate::write::How;
use std::ops::{Bound, RangeBounds};
use std::path::Path;

/// An open database with one owner.
///
/// Writes take `&mut self`; reads, snapshots and iterators do not. Everything runs on the caller's
/// thread.
///
/// A write without `_durable` is handed to the kernel before it returns: it survives the death of
/// the process, but not a loss of power before the next `sync` or durable write.
///
/// ```
/// # fn main() -> kiban::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("kiban-doc-{}", std::process::id()));
/// use kiban::{Kiban, KibanOptions};
///
/// let mut db = Kiban::open(&dir, KibanOptions::new())?;
/// db.put(b"apple", b"red")?;
/// db.put_durable(b"banana", b"yellow")?;
/// assert_eq!(db.get(b"apple")?.as_deref(), Some(&b"red"[..]));
/// let keys: Vec<_> = db.range::<&[u8]>(..)?.map(|item| item.map(|(key, _)| key)).collect();
/// assert_eq!(keys.len(), 2);
/// db.close()?;
/// # let _ = std::fs::remove_dir_all(&dir);
/// # Ok(())
/// # }
/// ```
pub struct Kiban {
    core: Arc<Core>,
    report: RecoveryReport,
}

impl Kiban {
    /// Opens the database in the directory `path`, creating it if the options say so, and recovers
    /// what its logs hold.
    ///
    /// # Errors
    /// `Locked` while another handle has it; `NotFound`, `UnsupportedFormat`, `InvalidOption`;
    /// `Corruption` when synced data is damaged; `Io`. Nothing is lost by a failed open.
    ///
    /// It writes: tables of what the logs hold, a manifest, a log. On a full disk it fails with
    /// `Io`, and [`Kiban::open_read_only`] shows what is there.
    pub fn open(path: impl AsRef<Path>, options: KibanOptions) -> Result<Self> {
        let (core, report) = recover::open(path.as_ref(), options)?;
        Ok(Self { core: Arc::new(core), report })
    }

    /// Opens the database for reading only: nothing is written, the logs are replayed in memory.
    /// Several read-only handles may be open at once, but none beside a writing one.
    ///
    /// # Errors
    /// As [`Kiban::open`]; `NotFound` where there is no database.
    pub fn open_read_only(path: impl AsRef<Path>, options: KibanOptions) -> Result<Self> {
        let (core, report) = recover::open_read_only(path.as_ref(), options)?;
        Ok(Self { core: Arc::new(core), report })
    }

    /// What the recovery at open found and did.
    #[must_use]
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.report
    }

    /// Sets `key` to `value`. Returns the write's sequence.
    ///
    /// # Errors
    /// `TooLarge`; `ReadOnly`, `Closed`, `Poisoned`; `Io`. After an error of kind `Io` from the log
    /// the write may or may not survive a reopen.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<SeqNo> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(&batch)
    }

    /// As [`Kiban::put`], and durable when it returns.
    ///
    /// # Errors
    /// As [`Kiban::put`].
    pub fn put_durable(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<SeqNo> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write_durable(&batch)
    }

    /// Removes `key`, whether it exists or not.
    ///
    /// # Errors
    /// As [`Kiban::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<SeqNo> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(&batch)
    }

    /// As [`Kiban::delete`], and durable when it returns.
    ///
    /// # Errors
    /// As [`Kiban::put`].
    pub fn delete_durable(&mut self, key: impl AsRef<[u8]>) -> Result<SeqNo> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write_durable(&batch)
    }

    /// Writes a batch, all or nothing. Returns the sequence of its last record; an empty batch
    /// takes none and returns what is published.
    ///
    /// # Errors
    /// As [`Kiban::put`].
    pub fn write(&mut self, batch: &WriteBatch) -> Result<SeqNo> {
        self.write_how(batch, false)
    }

    /// As [`Kiban::write`], and durable when it returns.
    ///
    /// # Errors
    /// As [`Kiban::put`].
    pub fn write_durable(&mut self, batch: &WriteBatch) -> Result<SeqNo> {
        self.write_how(batch, true)
    }

    /// Makes every write so far durable.
    ///
    /// # Errors
    /// `ReadOnly`, `Closed`, `Poisoned`; `Io`, which poisons: no failed sync is tried again.
    pub fn sync(&mut self) -> Result<()> {
        self.core.sync()
    }

    /// The value of `key`. Long ones keep their block or table in memory while the slice lives.
    ///
    /// # Errors
    /// `Closed`, `Corruption`, `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.core.get(key.as_ref(), None)
    }

    /// Runs `found` on the value of `key`, if it has one, without copying it.
    ///
    /// # Errors
    /// As [`Kiban::get`].
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        found: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.core.get_with(key.as_ref(), None, found)
    }

    /// The values of `keys`, in their order, as of one moment.
    ///
    /// # Errors
    /// As [`Kiban::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.core.multi_get(keys, None)
    }

    /// The keys and values in `range`, as of now. Name the key type for a range without bounds:
    /// `db.range::<&[u8]>(..)`.
    ///
    /// # Errors
    /// `Closed`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        Iter::new(self.core.clone(), None, ScanRange::new(key_range(&range)))
    }

    /// The keys that begin with `prefix`, and their values, as of now.
    ///
    /// # Errors
    /// `Closed`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        Iter::new(self.core.clone(), None, ScanRange::prefix(prefix.as_ref()))
    }

    /// A view of the database as of now, which nothing changes. It keeps old versions on disk
    /// while it lives.
    ///
    /// # Errors
    /// `Closed`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::new(self.core.clone())
    }

    /// Writes what is in memory into tables, durably.
    ///
    /// # Errors
    /// As [`Kiban::put`].
    pub fn flush(&mut self) -> Result<()> {
        self.core.freeze_for_flush()?;
        self.core.flush_frozen()
    }

    /// Flushes, then merges everything with keys in `range` into one run: what no snapshot needs
    /// goes, removed keys too.
    ///
    /// # Errors
    /// As [`Kiban::put`], and `Corruption` of an input.
    pub fn compact_range<K: AsRef<[u8]>>(&mut self, range: impl RangeBounds<K>) -> Result<()> {
        self.flush()?;
        self.core.compact_range(&key_range(&range))?;
        if self.core.options.inline_maintenance {
            self.core.maintain_all()?;
        }
        Ok(())
    }

    /// Does one step of maintenance.
    ///
    /// # Errors
    /// A step that failed before its install is tried again from its plan; one that failed at its
    /// install has poisoned the handle.
    pub fn maintain_step(&mut self) -> Result<MaintainStep> {
        self.core.maintain_step()
    }

    /// The failure that poisoned this handle, if one did: no write succeeds until it is reopened.
    #[must_use]
    pub fn poisoned(&self) -> Option<Error> {
        self.core.health.first_error()
    }

    /// The figures now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// Reads every file whole and checks all that can be checked; changes nothing.
    ///
    /// # Errors
    /// The first damage found, as `Corruption`; `Io`, `Closed`.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.core.verify()
    }

    /// Makes a second database in the new directory `path`: as of now, with an identity of its own,
    /// sharing table files by hard links. `path` must be on the same file system.
    ///
    /// # Errors
    /// `AlreadyExists` where `path` exists; as [`Kiban::sync`]; `Io`, which poisons this handle
    /// where the sync of a directory failed. A checkpoint that failed or was cut short does not
    /// open; remove its directory.
    pub fn checkpoint(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.core.checkpoint(path.as_ref(), crate::checkpoint::Tables::Link)
    }

    /// As [`Kiban::checkpoint`], with table files copied: `path` may be anywhere.
    ///
    /// # Errors
    /// As [`Kiban::checkpoint`].
    pub fn backup(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.core.checkpoint(path.as_ref(), crate::checkpoint::Tables::Copy)
    }

    /// Syncs, ends this handle and every snapshot and iterator of it, and releases the lock.
    /// Dropping the handle does the same but can't tell of an error.
    ///
    /// # Errors
    /// The first error of this handle's life that left durability in doubt, or the sync's.
    pub fn close(self) -> Result<()> {
        self.core.close_and_unlock()
    }

    fn write_how(&self, batch: &WriteBatch, sync: bool) -> Result<SeqNo> {
        let how = How { sync, ..How::default() };
        self.core.write(batch, how, |batch, deadline| self.core.admit(batch, deadline))
    }
}

impl Drop for Kiban {
    fn drop(&mut self) {
        // `close` told its caller already; a second close does nothing.
        let _ = self.core.close_and_unlock();
    }
}

impl std::fmt::Debug for Kiban {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kiban").field("dir", &self.core.dir).finish_non_exhaustive()
    }
}

/// A range with both bounds in the one form that the paths take: from inclusive, to exclusive.
pub(crate) fn key_range<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyRange {
    let lo = match range.start_bound() {
        Bound::Included(key) => Some(key.as_ref().to_vec()),
        Bound::Excluded(key) => Some(just_above(key.as_ref())),
        Bound::Unbounded => None,
    };
    let hi = match range.end_bound() {
        Bound::Included(key) => Some(just_above(key.as_ref())),
        Bound::Excluded(key) => Some(key.as_ref().to_vec()),
        Bound::Unbounded => None,
    };
    KeyRange { lo, hi }
}

/// Makes a database in the new directory `path` from the backup in `backup`.
///
/// # Errors
/// As [`Kiban::open_read_only`] for the backup and [`Kiban::backup`] for the copy.
pub fn restore(
    backup: impl AsRef<Path>,
    path: impl AsRef<Path>,
    options: KibanOptions,
) -> Result<()> {
    let source = Kiban::open_read_only(backup, options)?;
    source.core.verify()?;
    source.core.checkpoint(path.as_ref(), crate::checkpoint::Tables::Copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::signals::Lane;

    /// B1: who had found the compactions' lane taken waited for ever, as nobody told that the
    /// compaction which was asked for had come to its end.
    #[test]
    fn an_asked_for_compaction_is_progress_that_others_hear_of() -> Result<()> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = KibanOptions::new().inline_maintenance(false);
        let mut db = Kiban::open(dir.path().join("db"), options)?;
        db.put(b"k", b"v")?;
        db.flush()?;
        let since = db.core.signals.now();
        db.core.compact_range(&key_range::<&[u8]>(&(..)))?;
        assert!(db.core.signals.await_progress(
            since,
            &[Lane::Compact],
            Some((&*db.core.env.clock, 0))
        )?);
        Ok(())
    }
}
