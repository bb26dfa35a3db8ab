//! One step at a time: plan, build, install, collect, in whichever lane.
//!
//! Invariants
//! - A lane is planned, built and installed by one thread at a time, though each step may be
//!   another's: what is under way stands in the lane's slot.
//! - The maintainer is held for plans and installs, never over a build.
//! - A panic in a step poisons: what it left behind is unknown.

use super::{MaintainStep, pick};
use crate::engine::signals::{LANES, Lane};
use crate::engine::slots::{Built, Planned, Slot};
use crate::engine::{Core, Maintainer};
use crate::env::sync::Ordering;
use crate::error::{Error, Result};
use crate::version::{KeyRange, Plan, Reason};

impl Core {
    /// Does one step of whatever comes next.
    ///
    /// # Errors
    /// A failure while building leaves the engine as it was: the next step plans again. A failure
    /// while installing poisons.
    pub(crate) fn maintain_step(&self) -> Result<MaintainStep> {
        let step = self.step(&LANES);
        // That another thread is at it is no progress: who then waits for some would wake itself
        // and spin until the other is done.
        if !matches!(step, Ok(MaintainStep::Busy)) {
            self.signals.tell_step(&LANES, step.as_ref().err());
        }
        step
    }

    pub(super) fn step(&self, lanes: &[Lane]) -> Result<MaintainStep> {
        self.poison_on_panic("maintenance", || self.step_in(lanes))
    }

    fn step_in(&self, lanes: &[Lane]) -> Result<MaintainStep> {
        let mut guard = self.maintainer.lock();
        // Under the lock: a close that held it has given the files away.
        self.health.check_writable()?;
        let maintainer = guard.as_mut().expect("a writable handle has a maintainer");
        let mut busy = false;
        for &lane in lanes {
            match std::mem::replace(maintainer.slot(lane), Slot::Empty) {
                Slot::Empty => {}
                Slot::Building => {
                    *maintainer.slot(lane) = Slot::Building;
                    busy = true;
                }
                Slot::Built(built) => {
                    self.install_built(maintainer, built)?;
                    return Ok(MaintainStep::Installed);
                }
                Slot::Planned(planned) => {
                    *maintainer.slot(lane) = Slot::Building;
                    drop(guard);
                    return self.build(lane, planned);
                }
            }
        }
        if busy {
            return Ok(MaintainStep::Busy);
        }
        self.reserve_if_low(maintainer)?;
        Ok(self.plan(maintainer, lanes))
    }

    fn plan(&self, maintainer: &mut Maintainer, lanes: &[Lane]) -> MaintainStep {
        for &lane in lanes {
            if let Some(planned) = self.plan_lane(maintainer, lane) {
                *maintainer.slot(lane) = Slot::Planned(planned);
                return MaintainStep::Planned;
            }
        }
        if lanes.contains(&Lane::Compact) && self.collect(maintainer) {
            return MaintainStep::Collected;
        }
        self.maintenance_due.store(false, Ordering::Relaxed);
        MaintainStep::Idle
    }

    fn plan_lane(&self, maintainer: &mut Maintainer, lane: Lane) -> Option<Planned> {
        let view = self.view.load();
        match lane {
            Lane::Flush if self.wants_next_log() => Some(Planned::NextLog),
            // A flush adds a run, so at the stop threshold a merge goes first (B1).
            Lane::Flush if view.frozen.is_empty() || self.is_full(&view.version) => None,
            Lane::Flush => Some(Planned::Flush),
            Lane::Compact => {
                let plan = pick::pick(&view.version, &self.pick_options(), &maintainer.fenced);
                maintainer.is_stuck = plan.is_none() && self.is_full(&view.version);
                plan.map(|plan| Planned::Compact(plan, view.version.clone()))
            }
        }
    }

    /// Builds what was planned, without a lock. The lane is this thread's until it is done.
    fn build(&self, lane: Lane, planned: Planned) -> Result<MaintainStep> {
        let Some(_building) = self.signals.begin_build() else { return Err(Error::Closed) };
        let begun = self.env.clock.now_ns();
        let taken_ns = || self.env.clock.now_ns().saturating_sub(begun);
        let built = match planned {
            Planned::Flush => {
                self.build_flush().inspect(|_| self.counters.flush_ns.add(taken_ns()))
            }
            Planned::NextLog => self.build_next_log(),
            Planned::Compact(plan, version) => {
                let built = self.build_compaction(plan, &version);
                built.inspect(|_| self.counters.compaction_ns.add(taken_ns()))
            }
        };
        let mut guard = self.maintainer.lock();
        let maintainer = guard.as_mut().expect("a writable handle has a maintainer");
        let slot = maintainer.slot(lane);
        match built {
            Ok(built) => {
                *slot = Slot::Built(built);
                Ok(MaintainStep::Built)
            }
            Err(failed) => {
                *slot = Slot::Empty;
                self.counters.maintenance_retries.add(1);
                Err(failed.judge(maintainer))
            }
        }
    }

    fn install_built(&self, maintainer: &mut Maintainer, built: Built) -> Result<()> {
        match built {
            Built::Flush(output, last) => self.install_flush(maintainer, &output, last),
            Built::NextLog(log) => {
                self.install_next_log(log);
                Ok(())
            }
            Built::Compact(plan, newest, output, slices) => {
                self.install_compaction(maintainer, &plan, newest, &output, slices)
            }
        }
    }

    /// Merges all runs over a range into one; what no snapshot needs goes, tombstones too.
    pub(crate) fn compact_range(&self, range: &KeyRange) -> Result<()> {
        while !self.poison_on_panic("maintenance", || self.compact_range_now(range))? {}
        self.health.check_writable()
    }

    /// Whether it was done; otherwise what stood in its way was.
    fn compact_range_now(&self, range: &KeyRange) -> Result<bool> {
        let since = self.signals.now();
        let mut guard = self.maintainer.lock();
        self.health.check_writable()?;
        let maintainer = guard.as_mut().expect("a writable handle has a maintainer");
        let slot = maintainer.slot(Lane::Compact);
        let done = match std::mem::replace(slot, Slot::Building) {
            Slot::Building => {
                drop(guard);
                return self.signals.await_progress(since, &[Lane::Compact], None).map(|_| false);
            }
            Slot::Empty => {
                let version = self.version();
                let runs = 0..version.runs.len();
                if runs.is_empty() {
                    *slot = Slot::Empty;
                    return Ok(true);
                }
                drop(guard);
                let plan = Plan { runs, range: range.clone(), reason: Reason::Asked };
                let built = self.build(Lane::Compact, Planned::Compact(plan, version));
                // Another thread may have installed it meanwhile, and be at the next.
                built.and_then(|_| self.step(&[Lane::Compact])).map(|_| true)
            }
            Slot::Planned(planned) => {
                drop(guard);
                self.build(Lane::Compact, planned).map(|_| false)
            }
            Slot::Built(built) => {
                *slot = Slot::Empty;
                self.install_built(maintainer, built).map(|()| false)
            }
        };
        // B1: whoever found the lane taken waits for this, and a flush for the room it made.
        LANES.into_iter().for_each(|lane| self.signals.tell_due(lane));
        self.signals.tell_step(&[Lane::Compact], done.as_ref().err());
        done
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
