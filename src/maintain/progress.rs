//! Maintenance that somebody waits for: a writer that can't go on, a flush that was asked for.
//!
//! Invariants
//! - B1: whoever waits gets on with each step, or gets the error of the try that failed.
//! - Where workers are, they do the steps and this thread waits; where none are, this thread does
//!   them, and keeps no deadline while it does.
//! - C1: where fenced tables leave nothing to merge, the damage is the answer, not a stall.

use super::MaintainStep;
use crate::engine::Core;
use crate::engine::signals::{LANES, Lane, Since};
use crate::env::sync::Ordering;
use crate::error::{Error, Result};
use crate::version::Version;

impl Core {
    /// Does every step there is.
    ///
    /// # Errors
    /// The first step's that failed.
    pub(crate) fn maintain_all(&self) -> Result<()> {
        loop {
            let since = self.signals.now();
            match self.maintain_step()? {
                MaintainStep::Idle => return Ok(()),
                MaintainStep::Busy => {
                    self.signals.await_progress(since, &LANES, None)?;
                }
                _ => {}
            }
        }
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

    /// Gets on until there are fewer runs than the stop threshold (B1).
    ///
    /// # Errors
    /// That of a step; the first damage where fenced tables leave nothing to merge.
    pub(crate) fn compact_below_stop(&self) -> Result<()> {
        let mut since = self.signals.now();
        while self.view.with(|view| self.is_full(&view.version)) {
            self.get_on(since, &[Lane::Compact], None)?;
            since = self.signals.now();
        }
        Ok(())
    }

    /// Gets on until every memtable that is frozen now is in a table.
    ///
    /// # Errors
    /// As [`Core::compact_below_stop`].
    pub(crate) fn flush_frozen(&self) -> Result<()> {
        let Some(last) = self.view.with(|view| view.frozen.first().map(|frozen| frozen.last))
        else {
            return Ok(());
        };
        let mut since = self.signals.now();
        while self.version().flushed_seq < last {
            self.get_on(since, self.flush_lanes(), None)?;
            since = self.signals.now();
        }
        Ok(())
    }

    /// The lanes whose work a flush waits for: its own, and a merge where one has to go first.
    pub(crate) fn flush_lanes(&self) -> &'static [Lane] {
        let waits = self.view.with(|view| self.is_full(&view.version));
        if waits { &LANES } else { &[Lane::Flush] }
    }

    /// Waits for a step in any lane, or does one; false if the deadline has passed. `lanes` are
    /// those whose failure concerns the caller.
    ///
    /// # Errors
    /// That of the step; `Stalled`, or the first damage, where there is nothing to do.
    pub(crate) fn get_on(
        &self,
        since: Since,
        lanes: &[Lane],
        deadline_ns: Option<u64>,
    ) -> Result<bool> {
        self.health.check_writable()?;
        let deadline = deadline_ns.map(|until| (&*self.env.clock, until));
        if self.signals.has_workers() {
            self.signals.tell_due(Lane::Flush);
            self.signals.tell_due(Lane::Compact);
            return self.signals.await_progress(since, lanes, deadline);
        }
        match self.maintain_step()? {
            MaintainStep::Idle => self.why_stuck().map(|()| true),
            MaintainStep::Busy => self.signals.await_progress(since, lanes, deadline),
            _ => Ok(true),
        }
    }

    /// Why the last look found nothing to do, if that was since nothing can be merged. Otherwise
    /// another thread has done what was to be done.
    pub(super) fn why_stuck(&self) -> Result<()> {
        let maintainer = self.maintainer.lock();
        let Some(maintainer) = maintainer.as_ref().filter(|m| m.is_stuck) else { return Ok(()) };
        // C1: no stall, which would be worth another try.
        let cause = || "as many runs as there may be, and none to merge".to_string();
        Err(maintainer.damage.clone().unwrap_or_else(|| Error::Stalled { cause: cause() }))
    }

    pub(super) fn is_full(&self, version: &Version) -> bool {
        version.runs.len() >= self.options.runs_stop
    }

    /// Gets on until nothing is left to do, but for what readers pin; false if the time is up.
    ///
    /// # Errors
    /// That of a try which failed meanwhile.
    pub(crate) fn wait_settled(&self, timeout_ns: u64) -> Result<bool> {
        if !self.signals.has_workers() {
            return self.maintain_all().map(|()| true);
        }
        // A failure after this look is seen by the wait.
        self.health.check_writable()?;
        self.signals.tell_due(Lane::Flush);
        self.signals.tell_due(Lane::Compact);
        let settled = self.signals.await_settled(&*self.env.clock, timeout_ns);
        self.health.check_writable()?;
        settled
    }
}
