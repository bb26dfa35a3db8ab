//! The maintain path: memory -> L0 -> levels -> nothing.
//!
//! One step at a time: plan (pure) -> build (`flush`, `compact`) -> sync files -> sync directory
//! -> append edit -> sync manifest -> swap version (`install`) -> delete what nobody names
//! (`collect`). Flushing goes before compacting, compacting before collecting.
//!
//! Invariants
//! - M3, G1: an entry goes only if a newer one shadows it for every live snapshot, a tombstone only
//!   if nothing older remains below (`retain`).
//! - M4: a version never names a file that is not durable, directory entry included.
//! - M5, G2: a file goes only when no version, current or pinned, names it.
//! - P1: a failure while building is tried again under new numbers; a failed directory sync or
//!   manifest write poisons; damage in an input fences its tables.

mod collect;
mod compact;
mod flush;
mod install;
pub mod pick;
pub mod retain;

use crate::engine::{Core, Job, Maintainer};
use crate::env::sync::Ordering;
use crate::error::{Error, Result};
use crate::version::{KeyRange, Plan, Reason, Version};

/// What one step of maintenance did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MaintainStep {
    /// There was nothing to do.
    Idle,
    /// A flush or compaction was planned.
    Planned,
    /// Its tables were built and synced.
    Built,
    /// It became part of the database.
    Installed,
    /// Files that nobody names were removed.
    Collected,
}

impl Core {
    /// Does one step.
    ///
    /// # Errors
    /// A failure while building leaves the engine as it was: the next step plans again. A failure
    /// while installing poisons.
    pub(crate) fn maintain_step(&self) -> Result<MaintainStep> {
        let mut guard = self.maintainer.lock();
        // Under the lock: a close that held it has given the files away.
        self.health.check_writable()?;
        let maintainer = guard.as_mut().expect("a writable handle has a maintainer");
        match maintainer.job.take() {
            None => {
                self.reserve_if_low(maintainer)?;
                Ok(self.plan(maintainer))
            }
            Some(job) => self.go_on(maintainer, job),
        }
    }

    fn plan(&self, maintainer: &mut Maintainer) -> MaintainStep {
        let view = self.view.load();
        // A flush adds a run, so at the stop threshold a merge goes first (B1).
        if !view.frozen.is_empty() && !self.is_full(&view.version) {
            maintainer.job = Some(Job::FlushPlanned);
            return MaintainStep::Planned;
        }
        if let Some(plan) = pick::pick(&view.version, &self.pick_options(), &maintainer.fenced) {
            maintainer.job = Some(Job::CompactPlanned(plan));
            return MaintainStep::Planned;
        }
        drop(view);
        if self.collect(maintainer) {
            return MaintainStep::Collected;
        }
        self.maintenance_due.store(false, Ordering::Relaxed);
        MaintainStep::Idle
    }

    fn go_on(&self, maintainer: &mut Maintainer, job: Job) -> Result<MaintainStep> {
        let built = match job {
            Job::FlushPlanned => self.build_flush(),
            Job::CompactPlanned(plan) => self.build_compaction(maintainer, plan),
            Job::FlushBuilt(output, last) => {
                self.install_flush(maintainer, &output, last)?;
                return Ok(MaintainStep::Installed);
            }
            Job::CompactBuilt(plan, output, slices) => {
                self.install_compaction(maintainer, &plan, &output, slices)?;
                return Ok(MaintainStep::Installed);
            }
        };
        match built {
            Ok(job) => {
                maintainer.job = Some(job);
                Ok(MaintainStep::Built)
            }
            Err(error) => {
                self.counters.maintenance_retries.add(1);
                Err(error)
            }
        }
    }

    /// Does every step there is.
    ///
    /// # Errors
    /// The first step's that failed.
    pub(crate) fn maintain_all(&self) -> Result<()> {
        while self.maintain_step()? != MaintainStep::Idle {}
        Ok(())
    }

    /// Does what is due. A failure that can be tried again is left for the next write, which a hard
    /// limit will make report it.
    ///
    /// # Errors
    /// Only one that poisoned.
    pub(crate) fn maintain_due(&self) -> Result<()> {
        if !self.maintenance_due.load(Ordering::Relaxed) {
            return Ok(());
        }
        // After a failure so many writes go by before the next try, twice as many each time.
        let skip = self.maintenance_skip.load(Ordering::Relaxed);
        if skip > 0 {
            self.maintenance_skip.store(skip - 1, Ordering::Relaxed);
            return Ok(());
        }
        match self.maintain_all() {
            Ok(()) => self.maintenance_failures.store(0, Ordering::Relaxed),
            Err(error) if self.health.is_poisoned() => return Err(error),
            Err(_) => {
                let failures = self.maintenance_failures.fetch_add(1, Ordering::Relaxed).min(6);
                self.maintenance_skip.store(1 << failures, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Does steps until there are fewer runs than the stop threshold (B1).
    ///
    /// # Errors
    /// That of a step; the first damage where fenced tables leave nothing to merge.
    pub(crate) fn compact_below_stop(&self) -> Result<()> {
        while self.view.with(|view| self.is_full(&view.version)) {
            self.step_or_stalled()?;
        }
        Ok(())
    }

    /// Does steps until no memtable waits for its flush.
    ///
    /// # Errors
    /// As [`Core::compact_below_stop`].
    pub(crate) fn flush_frozen(&self) -> Result<()> {
        while self.view.with(|view| !view.frozen.is_empty()) {
            self.step_or_stalled()?;
        }
        Ok(())
    }

    fn is_full(&self, version: &Version) -> bool {
        version.runs.len() >= self.options.runs_stop
    }

    fn step_or_stalled(&self) -> Result<()> {
        if self.maintain_step()? == MaintainStep::Idle {
            // C1: no stall, which would be worth another try.
            let damage = self.maintainer.lock().as_ref().and_then(|m| m.damage.clone());
            let cause = || "as many runs as there may be, and none to merge".to_string();
            return Err(damage.unwrap_or_else(|| Error::Stalled { cause: cause() }));
        }
        Ok(())
    }

    /// Merges all runs over a range into one; what no snapshot needs goes, tombstones too.
    pub(crate) fn compact_range(&self, range: KeyRange) -> Result<()> {
        let mut guard = self.maintainer.lock();
        self.health.check_writable()?;
        let maintainer = guard.as_mut().expect("a writable handle has a maintainer");
        // A half-done job holds positions of runs, so it goes first.
        while let Some(job) = maintainer.job.take() {
            self.go_on(maintainer, job)?;
        }
        let runs = 0..self.version().runs.len();
        if runs.is_empty() {
            return Ok(());
        }
        maintainer.job = Some(Job::CompactPlanned(Plan { runs, range, reason: Reason::Asked }));
        while let Some(job) = maintainer.job.take() {
            self.go_on(maintainer, job)?;
        }
        Ok(())
    }

    fn pick_options(&self) -> pick::PickOptions {
        pick::PickOptions {
            fanout: self.options.tier_runs,
            above_percent: 50,
            runs_max: self.options.runs_stop - 1,
            unit_bytes: self.options.memtable_bytes as u64,
            table_bytes: self.options.table_bytes_max,
            slice_bytes: self.options.compaction_slice_bytes,
        }
    }
}
