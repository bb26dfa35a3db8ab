//! The shared front door: many threads, group commit, maintenance in the background.
//!
//! Invariants
//! - V2: every operation is linearizable; a read that began after a write returned sees it.
//! - Reads take no gate: none waits for I/O of a writer or of maintenance, nor for a lock held
//!   across I/O.
//! - The last clone that goes closes; snapshots and iterators keep no database open.
//! - `close` releases the lock last, when no thread of the engine is left.

use crate::base::key::SeqNo;
use crate::base::slice::Slice;
use crate::batch::WriteBatch;
use crate::engine::Core;
use crate::env::latch::Latch;
use crate::env::sync::{Arc, Mutex};
use crate::env::thread::{self, JoinHandle, ThreadId};
use crate::error::{Error, Result};
use crate::kiban::key_range;
use crate::maintain::{MaintainStep, Workers};
use crate::options::KibanOptions;
use crate::read::iter::{Iter, ScanRange};
use crate::recover::{self, RecoveryReport};
use crate::snapshot::Snapshot;
use crate::stats::Stats;
use crate::verify::VerifyReport;
use crate::write::How;
use std::ops::RangeBounds;
use std::path::Path;
use std::time::Duration;

/// How one write is made.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct WriteOptions {
    durable: bool,
    timeout: Option<Duration>,
}

impl WriteOptions {
    /// Buffered, and as patient as need be.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the write is durable when it returns (default false).
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// How long the write may wait for room before it is refused with [`Error::Stalled`] (default
    /// without end). It does not bound a sync that has begun, nor, without background maintenance,
    /// the work for room that the write does itself.
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// An open database for many threads. Clones are the same database and cheap.
///
/// Writers that come together share one append to the log and one sync. Flushes and compactions run
/// on two threads of the engine's own.
///
/// ```
/// # fn main() -> kiban::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("kiban-doc-shared-{}", std::process::id()));
/// use kiban::{KibanOptions, SharedKiban};
///
/// let db = SharedKiban::open(&dir, KibanOptions::new())?;
/// let writers: Vec<_> = (0..4u8)
///     .map(|writer| {
///         let db = db.clone();
///         std::thread::spawn(move || db.put_durable([writer], b"durable"))
///     })
///     .collect();
/// for writer in writers {
///     writer.join().expect("no panic")?;
/// }
/// assert_eq!(db.range::<&[u8]>(..)?.count(), 4);
/// db.close()?;
/// # let _ = std::fs::remove_dir_all(&dir);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedKiban(Arc<Handle>);

/// What all clones share.
struct Handle {
    core: Arc<Core>,
    report: RecoveryReport,
    threads: Mutex<Threads>,
    /// The result of the first close, once there was one.
    closed: Mutex<Option<Result<()>>>,
    /// Set once the lock is released.
    unlocked: Latch,
}

#[derive(Default)]
struct Threads {
    workers: Option<Workers>,
    notifier: Option<JoinHandle<()>>,
    notifier_id: Option<ThreadId>,
}

impl SharedKiban {
    /// Opens the database in the directory `path`, creating it if the options say so, and recovers
    /// what its logs hold.
    ///
    /// # Errors
    /// As [`crate::Kiban::open`]; `Io` where no thread can be started.
    pub fn open(path: impl AsRef<Path>, options: KibanOptions) -> Result<Self> {
        let background = options.background_maintenance;
        let (core, report) = recover::open(path.as_ref(), options)?;
        let core = Arc::new(core);
        let handle = Handle {
            core: core.clone(),
            report,
            threads: Mutex::new(Threads::default()),
            closed: Mutex::new(None),
            unlocked: Latch::default(),
        };
        if background {
            handle.threads.lock().workers = Some(Workers::start(&core)?);
        }
        Ok(Self(Arc::new(handle)))
    }

    /// What the recovery at open found and did.
    #[must_use]
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.0.report
    }

    /// Sets `key` to `value`. Returns the write's sequence.
    ///
    /// # Errors
    /// As [`crate::Kiban::put`]; where there is no room, the error of the try to make some.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<SeqNo> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(&batch)
    }

    /// As [`SharedKiban::put`], and durable when it returns.
    ///
    /// # Errors
    /// As [`SharedKiban::put`].
    pub fn put_durable(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<SeqNo> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write_durable(&batch)
    }

    /// Removes `key`, whether it exists or not.
    ///
    /// # Errors
    /// As [`SharedKiban::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<SeqNo> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(&batch)
    }

    /// As [`SharedKiban::delete`], and durable when it returns.
    ///
    /// # Errors
    /// As [`SharedKiban::put`].
    pub fn delete_durable(&self, key: impl AsRef<[u8]>) -> Result<SeqNo> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write_durable(&batch)
    }

    /// Writes a batch, all or nothing. Returns the sequence of its last record; an empty batch
    /// takes none and returns what is published.
    ///
    /// # Errors
    /// As [`SharedKiban::put`].
    pub fn write(&self, batch: &WriteBatch) -> Result<SeqNo> {
        self.write_how(batch, How::default())
    }

    /// As [`SharedKiban::write`], and durable when it returns. Writes that come together share one
    /// sync, and its failure.
    ///
    /// # Errors
    /// As [`SharedKiban::put`].
    pub fn write_durable(&self, batch: &WriteBatch) -> Result<SeqNo> {
        self.write_how(batch, How { sync: true, ..How::default() })
    }

    /// As [`SharedKiban::write`] or [`SharedKiban::write_durable`], with a deadline.
    ///
    /// # Errors
    /// As [`SharedKiban::put`]; `Stalled` where there was no room in time, and nothing reached the
    /// log.
    pub fn write_with(&self, batch: &WriteBatch, options: WriteOptions) -> Result<SeqNo> {
        let deadline_ns = options.timeout.map(|timeout| {
            let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            self.0.core.env.clock.now_ns().saturating_add(timeout)
        });
        self.write_how(batch, How { sync: options.durable, deadline_ns, receipt: None })
    }

    /// Writes a batch as [`SharedKiban::write`] does: when this returns it is in the log and
    /// visible. Calls `on_durable` once it is durable, or with the error after which it can't
    /// become so; the engine makes the sync itself.
    ///
    /// If this returns `Ok`, `on_durable` is called exactly once, whatever happens: after poison,
    /// `close` and the drop of the last clone too. If it returns an error, it is not called. All
    /// receipts are called in sequence order, on one thread, which holds no lock: they may call the
    /// engine, and the next one waits for them. A panic in one is counted in `stats` and otherwise
    /// ignored.
    ///
    /// # Errors
    /// As [`SharedKiban::put`]; `Io` where no thread can be started, which poisons nothing.
    pub fn write_durable_with(
        &self,
        batch: &WriteBatch,
        on_durable: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<SeqNo> {
        self.0.start_notifier()?;
        let receipt = Some(Box::new(on_durable) as Box<_>);
        self.write_how(batch, How { receipt, ..How::default() })
    }

    fn write_how(&self, batch: &WriteBatch, how: How) -> Result<SeqNo> {
        let core = &self.0.core;
        core.write(batch, how, |batch, deadline| core.admit(batch, deadline))
    }

    /// Makes every write that returned before this call durable.
    ///
    /// # Errors
    /// As [`crate::Kiban::sync`].
    pub fn sync(&self) -> Result<()> {
        self.0.core.sync()
    }

    /// The value of `key`. Long ones keep their block or table in memory while the slice lives.
    ///
    /// # Errors
    /// As [`crate::Kiban::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.0.core.get(key.as_ref(), None)
    }

    /// Runs `found` on the value of `key`, if it has one, without copying it.
    ///
    /// # Errors
    /// As [`crate::Kiban::get`].
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        found: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.0.core.get_with(key.as_ref(), None, found)
    }

    /// The values of `keys`, in their order, as of one moment.
    ///
    /// # Errors
    /// As [`crate::Kiban::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.0.core.multi_get(keys, None)
    }

    /// The keys and values in `range`, as of now. Name the key type for a range without bounds:
    /// `db.range::<&[u8]>(..)`.
    ///
    /// # Errors
    /// `Closed`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        Iter::new(self.0.core.clone(), None, ScanRange::new(key_range(&range)))
    }

    /// The keys that begin with `prefix`, and their values, as of now.
    ///
    /// # Errors
    /// `Closed`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        Iter::new(self.0.core.clone(), None, ScanRange::prefix(prefix.as_ref()))
    }

    /// A view of the database as of now, which nothing changes. It keeps old versions on disk
    /// while it lives.
    ///
    /// # Errors
    /// `Closed`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::new(self.0.core.clone())
    }

    /// Writes what is in memory into tables, durably, and waits for it.
    ///
    /// # Errors
    /// As [`SharedKiban::put`].
    pub fn flush(&self) -> Result<()> {
        self.0.core.freeze_for_flush()?;
        self.0.core.flush_frozen()
    }

    /// Flushes, then merges everything with keys in `range` into one run, on this thread: what no
    /// snapshot needs goes, removed keys too.
    ///
    /// # Errors
    /// As [`SharedKiban::put`], and `Corruption` of an input.
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.flush()?;
        self.0.core.compact_range(&key_range(&range))
    }

    /// Does one step of maintenance on this thread; for a database without background maintenance.
    ///
    /// # Errors
    /// As [`crate::Kiban::maintain_step`].
    pub fn maintain_step(&self) -> Result<MaintainStep> {
        self.0.core.maintain_step()
    }

    /// Waits until maintenance has nothing left to do, but for what snapshots and iterators pin;
    /// returns whether it came to that in time.
    ///
    /// # Errors
    /// As [`SharedKiban::flush`].
    pub fn wait_settled(&self, timeout: Duration) -> Result<bool> {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        self.0.core.wait_settled(timeout_ns)
    }

    /// The failure that poisoned this database, if one did: no write succeeds until it is reopened.
    #[must_use]
    pub fn poisoned(&self) -> Option<Error> {
        self.0.core.health.first_error()
    }

    /// The figures now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.core.stats()
    }

    /// Reads every file whole and checks all that can be checked; changes nothing.
    ///
    /// # Errors
    /// As [`crate::Kiban::verify`].
    pub fn verify(&self) -> Result<VerifyReport> {
        self.0.core.verify()
    }

    /// Makes a second database in the new directory `path`: as of a moment during this call, with
    /// an identity of its own, sharing table files by hard links.
    ///
    /// # Errors
    /// As [`crate::Kiban::checkpoint`].
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.0.core.checkpoint(path.as_ref(), crate::checkpoint::Tables::Link)
    }

    /// As [`SharedKiban::checkpoint`], with table files copied: `path` may be anywhere.
    ///
    /// # Errors
    /// As [`crate::Kiban::checkpoint`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        self.0.core.checkpoint(path.as_ref(), crate::checkpoint::Tables::Copy)
    }

    /// Closes every clone, snapshot and iterator: writes under way end, later calls answer
    /// [`Error::Closed`]. Syncs, waits for the engine's threads, calls the receipts that are left,
    /// and releases the lock last. The drop of the last clone does the same but can't tell of an
    /// error.
    ///
    /// # Errors
    /// The first error of the handle's life that left durability in doubt, or the sync's; every
    /// call gets the same.
    pub fn close(&self) -> Result<()> {
        self.0.close()
    }
}

impl Handle {
    fn start_notifier(&self) -> Result<()> {
        let mut threads = self.threads.lock();
        self.core.health.check_writable()?;
        if threads.notifier.is_none() {
            let core = self.core.clone();
            let started = thread::spawn("kiban-notify", move || core.notify());
            let started = started
                .map_err(|e| Error::io(&self.core.dir, "start the notifier thread for", e))?;
            threads.notifier_id = Some(started.id());
            threads.notifier = Some(started);
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        let mut closed = self.closed.lock();
        let (workers, notifier_id) = {
            let mut threads = self.threads.lock();
            (threads.workers.take(), threads.notifier_id)
        };
        // A receipt may close, but the notifier can't wait for its own end; it touches no file
        // any more.
        let may_wait = notifier_id != Some(thread::current());
        if let Some(result) = closed.clone() {
            drop(closed);
            if may_wait {
                self.unlocked.wait();
            }
            return result;
        }
        let result = self.core.close();
        *closed = Some(result.clone());
        drop(closed);
        if let Some(workers) = workers {
            workers.join();
        }
        // V1: not before the engine is closed, or a write would start a second one, and receipts
        // would overtake one another. Now none is started any more.
        let notifier = self.threads.lock().notifier.take();
        if let Some(notifier) = notifier.filter(|_| may_wait) {
            // Receipts that panic end in the notifier.
            let _ = notifier.join();
        }
        self.core.unlock();
        self.unlocked.set();
        result
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl std::fmt::Debug for SharedKiban {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedKiban").field("dir", &self.0.core.dir).finish_non_exhaustive()
    }
}
