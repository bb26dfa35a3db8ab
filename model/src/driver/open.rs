//! Opening, closing, recovering, and comparing a whole database.
//!
//! - D1, D2, D3, A1: what an open shows is a cut that the bounds admit.
//! - D4: from then on it is the truth.
//! - L1: a second open is refused while one handle is open.

use super::door::Door;
use super::slots::HeldSlices;
use super::verdict::admitted;
use super::{Driver, Mismatch, Outcome, Tolerance};
use crate::config::Config;
use crate::durable::{Bounds, CrashClass, State, Truth};
use crate::value::hash_pair;
use kiban::env::Env;
use kiban::{Error, KibanOptions, Reads, WriteBatch};
use std::path::{Path, PathBuf};

type Done = Result<Outcome, Mismatch>;

/// How a recovery ended where no promise was broken.
pub enum Recovered {
    /// The database is open and shows an admissible cut.
    Open(Box<Driver>),
    /// The open failed with an error that the tolerance admits; nothing was decided.
    Refused(Box<Truth>, Error),
}

/// Whether the engine opens a database with these options at all.
#[must_use]
pub fn accepts(config: &Config) -> bool {
    kiban::rig::accepts(&options(config, &Env::os()))
}

/// The engine's options for a config.
pub fn options(config: &Config, env: &Env) -> KibanOptions {
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let count = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let prefix_len = Some(size(config.scan_prefix_len)).filter(|&len| len > 0);
    KibanOptions::new()
        .env(env.clone())
        .memtable_bytes(size(config.memtable_bytes))
        .memtables_max(size(config.memtables_max))
        .log_bytes(config.log_bytes)
        .log_budget_bytes(config.log_budget_bytes)
        .block_bytes(size(config.block_bytes))
        .restart_interval(count(config.restart_interval))
        .table_bytes_max(config.table_bytes_max)
        .cache_bytes(size(config.cache_bytes))
        .open_files_max(size(config.open_files_max))
        .filter_bits_per_key(count(config.filter_bits_per_key))
        .point_index(config.point_index != 0)
        .scan_prefix_len(prefix_len)
        .reads(if config.reads_pread != 0 { Reads::Pread } else { Reads::Mapped })
        .tier_runs(size(config.tier_runs))
        .runs_stop(size(config.runs_stop))
        .compaction_slice_bytes(config.compaction_slice_bytes)
        .value_bytes_max(size(config.value_bytes_max))
        .batch_bytes_max(size(config.batch_bytes_max))
        .value_copy_bytes_max(size(config.value_copy_bytes_max))
        .manifest_bytes_max(config.manifest_bytes_max)
        .inline_maintenance(config.inline_maintenance != 0)
}

impl Driver {
    /// Creates a database in `dir` and an oracle beside it.
    ///
    /// # Errors
    /// A mismatch: creating failed, or what it shows is not empty.
    pub fn create(env: Env, dir: impl Into<PathBuf>, config: Config) -> Result<Self, Mismatch> {
        let mut driver = Self::closed(env, dir.into(), config, Truth::default());
        driver.ensure_open()?;
        Ok(driver)
    }

    /// A driver whose first operation that needs a handle opens it.
    #[must_use]
    pub fn closed(env: Env, dir: PathBuf, config: Config, truth: Truth) -> Self {
        Self {
            env,
            dir,
            config,
            db: None,
            truth,
            tolerance: Tolerance::default(),
            epoch: 0,
            runs_max: 0,
            write_bytes_max: 0,
            snapshots: Default::default(),
            iters: Default::default(),
            slices: HeldSlices::default(),
            copies: 0,
            batch: WriteBatch::new(),
            value: Vec::new(),
        }
    }

    /// Opens what a crash left and compares it with everything that the crash may have left.
    ///
    /// # Errors
    /// A mismatch: the open failed with an error that `tolerance` does not admit, or it shows a
    /// state that `bounds` does not.
    pub fn recover(
        env: Env,
        dir: impl Into<PathBuf>,
        config: Config,
        truth: Truth,
        bounds: Bounds,
        class: CrashClass,
        tolerance: Tolerance,
    ) -> Result<Recovered, Mismatch> {
        let mut driver = Self::closed(env, dir.into(), config, truth);
        driver.tolerance = tolerance;
        match driver.open(bounds, class)? {
            Outcome::Done => Ok(Recovered::Open(Box::new(driver))),
            Outcome::Failed(error) => Ok(Recovered::Refused(Box::new(driver.truth), error)),
        }
    }

    /// Opens the database where no handle is open.
    ///
    /// # Errors
    /// A mismatch.
    pub fn ensure_open(&mut self) -> Done {
        if self.db.is_some() {
            return Ok(Outcome::Done);
        }
        self.open(self.bounds(), CrashClass::Kill)
    }

    fn open(&mut self, bounds: Bounds, class: CrashClass) -> Done {
        let result = Door::open(&self.dir, &self.config, options(&self.config, &self.env));
        let db = admitted!(self.tolerance.sort("D1", result));
        self.db = Some(db);
        self.epoch += 1;
        self.write_bytes_max = 0;
        self.runs_max = self.open_db().stats().runs.max(self.config.runs_stop);
        let whole = self.whole(self.open_db())?;
        let hash = match whole {
            Ok(whole) => whole,
            Err(outcome) => return Ok(self.give_up(outcome)),
        };
        let last = self.open_db().stats().last_sequence;
        let Some(cut) = self.truth.admit_to(bounds, class, hash, last) else {
            let state = read_state(self.open_db());
            let why = self.truth.explain(bounds, class, &state);
            return Err(Mismatch::new(why.promise(), why.expected(), why.got()));
        };
        self.truth.decide(cut);
        self.check_last()?;
        Ok(Outcome::Done)
    }

    /// The open succeeded, but the whole could not be read: nothing is known, nothing decided.
    fn give_up(&mut self, outcome: Outcome) -> Outcome {
        self.db = None;
        outcome
    }

    /// C2: what the next write gets lies above everything known.
    fn check_last(&self) -> Result<(), Mismatch> {
        let (last, ours) = (self.open_db().stats().last_sequence, self.truth.oracle.last_seq());
        if last < ours {
            return Err(Mismatch::new("C2", format!("{ours} or above"), last.to_string()));
        }
        Ok(())
    }

    /// The hash of everything that a forward scan shows.
    fn whole(&self, db: &Door) -> Result<Result<u64, Outcome>, Mismatch> {
        let mut sum = 0u64;
        let mut last: Option<kiban::Slice> = None;
        let iter = match self.tolerance.sort("S2", db.range::<&[u8]>(..))? {
            Ok(iter) => iter,
            Err(outcome) => return Ok(Err(outcome)),
        };
        for item in iter {
            let (key, value) = match self.tolerance.sort("S2", item)? {
                Ok(item) => item,
                Err(outcome) => return Ok(Err(outcome)),
            };
            if last.as_ref().is_some_and(|last| **last >= *key) {
                let expected = "keys in ascending order".to_string();
                return Err(Mismatch::new("S2", expected, crate::text::brief(&key)));
            }
            sum = sum.wrapping_add(hash_pair(&key, &value));
            last = Some(key);
        }
        Ok(Ok(sum))
    }

    /// Compares a handle's whole content with what readers should see now.
    pub(super) fn compare(&self, db: &Door, promise: &'static str) -> Done {
        let hash = match self.whole(db)? {
            Ok(whole) => whole,
            Err(outcome) => return Ok(outcome),
        };
        if hash == self.truth.state_hash() {
            return Ok(Outcome::Done);
        }
        let now = self.truth.acknowledged();
        let bounds = Bounds { floor: now, floor_kill: now, issued: now };
        let why = self.truth.explain(bounds, CrashClass::Kill, &read_state(db));
        Err(Mismatch::new(promise, why.expected(), why.got()))
    }

    /// Everything, by every way of reading it (S2): scans from both ends, point reads of every key
    /// that ever was, `verify`.
    ///
    /// # Errors
    /// A mismatch.
    pub fn audit(&mut self) -> Done {
        use crate::ops::{Span, View, Walk};
        for walk in [Walk::forward(), Walk::backward(), Walk::new(0b10, 2, None)] {
            let outcome = self.scan(&Span::all(), View::Live, walk)?;
            if outcome.error().is_some() {
                return Ok(outcome);
            }
        }
        let keys: Vec<_> = self.truth.oracle.keys().cloned().collect();
        for key in &keys {
            let outcome = self.get(key, View::Live)?;
            if outcome.error().is_some() {
                return Ok(outcome);
            }
        }
        self.verify()
    }

    /// Closes the handle, as `close` does.
    pub(super) fn close(&mut self) -> Done {
        let poisoned = self.is_poisoned();
        let Some(db) = self.db.take() else { return Ok(Outcome::Done) };
        match db.close() {
            Ok(()) if poisoned => Err(Mismatch::new("P1", "the first error", "Ok")),
            Ok(()) => {
                self.truth.synced();
                Ok(Outcome::Done)
            }
            Err(error) => {
                self.truth.sync_failed();
                self.failed("P1", error)
            }
        }
    }

    pub(super) fn reopen(&mut self, by_drop: bool, changes: &[(&'static str, u64)]) -> Done {
        if by_drop {
            if self.tolerance.io {
                // A drop syncs too, and tells nobody whether that failed.
                self.truth.sync_failed();
            }
            self.db = None;
        } else {
            let outcome = self.close()?;
            if outcome.error().is_some() {
                return Ok(outcome);
            }
        }
        for (name, value) in changes {
            self.config.set(name, *value);
        }
        self.ensure_open()
    }

    pub(super) fn read_only(&mut self) -> Done {
        let outcome = self.close()?;
        if outcome.error().is_some() {
            return Ok(outcome);
        }
        let result = Door::open_read_only(&self.dir, options(&self.config, &self.env));
        let mut db = admitted!(self.tolerance.sort("D4", result));
        let outcome = self.compare(&db, "D4")?;
        if !matches!(db.put(b"k", b"v"), Err(Error::ReadOnly)) {
            return Err(Mismatch::new("D4", "Error::ReadOnly", "another result"));
        }
        let other = Door::open(&self.dir, &self.config, options(&self.config, &self.env));
        self.locked(other)?;
        // Readers share the lock.
        let other = Door::open_read_only(&self.dir, options(&self.config, &self.env));
        drop(admitted!(self.tolerance.sort("L1", other)));
        admitted!(self.tolerance.sort("D4", db.close()));
        Ok(outcome)
    }

    pub(super) fn second_open(&mut self) -> Done {
        let options = options(&self.config, &self.env);
        self.locked(Door::open(&self.dir, &self.config, options.clone()))?;
        self.locked(Door::open_read_only(&self.dir, options))?;
        Ok(Outcome::Done)
    }

    fn locked(&self, result: kiban::Result<Door>) -> Result<(), Mismatch> {
        match result {
            Err(Error::Locked { .. }) => Ok(()),
            Err(error) if self.tolerance.admits(&error) => Ok(()),
            Err(error) => Err(Mismatch::new("L1", "Error::Locked", error.to_string())),
            Ok(_) => Err(Mismatch::new("L1", "Error::Locked", "Ok")),
        }
    }

    /// A copy in another directory: opened, compared with what readers see now, written to, and
    /// opened again, since a copy is a database of its own.
    pub(super) fn compare_copy(&self, dir: &Path) -> Done {
        const MARK: &[u8] = b"written to the copy";
        let open = || {
            self.tolerance
                .sort("D2", Door::open(dir, &self.config, options(&self.config, &self.env)))
        };
        let mut db = admitted!(open());
        let outcome = self.compare(&db, "D2")?;
        admitted!(self.tolerance.sort("D2", db.verify()));
        let old = admitted!(self.tolerance.sort("D2", db.get(MARK)));
        admitted!(self.tolerance.sort("B1", db.put_durable(MARK, MARK)));
        admitted!(self.tolerance.sort("D2", db.close()));
        let mut db = admitted!(open());
        let got = admitted!(self.tolerance.sort("D2", db.get(MARK)));
        if got.as_deref() != Some(MARK) {
            return Err(Mismatch::value("D1", Some(MARK), got.as_deref()));
        }
        admitted!(self.tolerance.sort(
            "B1",
            match old {
                Some(old) => db.put(MARK, old),
                None => db.delete(MARK),
            }
        ));
        self.compare(&db, "D2")?;
        admitted!(self.tolerance.sort("D2", db.close()));
        Ok(outcome)
    }
}

fn read_state(db: &Door) -> State {
    let items = db.range::<&[u8]>(..).into_iter().flatten().flatten();
    items.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}
