//! Where the write path and maintenance meet: before a write joins a group, whether there is room,
//! and how long it waits where there is none. Both front doors bring it to `write`.
//!
//! Invariants
//! - A write stalls here and nowhere else: never while it leads, never with a lock held.
//! - P1: a write that is refused here has left nothing in the log.
//! - B1: what a stalled write waits for is work that is under way; poison and close wake it, and a
//!   failed try of that work is its answer.
//! - Back-pressure grows smoothly: from `runs_slow` on each write is delayed a little more, so that
//!   few ever come to the stop.
//!
//! Bound: what has joined and is not applied yet counts as if it were in the memtable, so no group
//! needs a memtable more than there may be.

use crate::batch::WriteBatch;
use crate::engine::Core;
use crate::engine::queue::Load;
use crate::engine::signals::Lane;
use crate::env::sync::Ordering;
use crate::error::{Error, Result};
use crate::listener::StallCause;

impl Core {
    /// Waits, or works, until a write of this batch can go on.
    ///
    /// # Errors
    /// `ReadOnly`, `Closed`, `Poisoned`; `Stalled` once the deadline has passed; the error of a try
    /// to make room.
    pub(crate) fn admit(&self, batch: &WriteBatch, deadline_ns: Option<u64>) -> Result<()> {
        self.health.check_writable()?;
        if !self.signals.has_workers() {
            return self.work_for_room(batch);
        }
        self.delay(deadline_ns)?;
        let none = Load::default();
        let Some(cause) = self.stall_cause(batch, none) else { return Ok(()) };
        let begun = self.env.clock.now_ns();
        self.tell_listener(|listener| listener.stall_begun(cause));
        let waited = self.wait_for_room(batch, deadline_ns);
        let stalled_ns = self.env.clock.now_ns().saturating_sub(begun);
        self.counters.note_stall(cause, stalled_ns);
        self.tell_listener(|listener| listener.stall_ended(cause, stalled_ns));
        waited
    }

    /// Does on this thread what the write can't go without, and what is due.
    fn work_for_room(&self, batch: &WriteBatch) -> Result<()> {
        self.renew_used_up_reservation()?;
        let cause = self.stall_cause(batch, Load::default());
        if let Some(StallCause::Memtables | StallCause::Logs) = cause {
            self.counters.stalls.add(1);
            self.make_logs_obsolete()?;
            self.flush_frozen()?;
        }
        if self.options.inline_maintenance {
            self.maintain_due()?;
        }
        self.compact_below_stop()
    }

    fn wait_for_room(&self, batch: &WriteBatch, deadline_ns: Option<u64>) -> Result<()> {
        loop {
            let since = self.signals.now();
            self.health.check_writable()?;
            let none = Load::default();
            let Some(cause) = self.stall_cause(batch, none) else { return Ok(()) };
            match cause {
                StallCause::FileNumbers => {
                    self.renew_used_up_reservation()?;
                    continue;
                }
                StallCause::Logs if self.view.with(|view| view.frozen.is_empty()) => {
                    self.make_logs_obsolete()?;
                }
                _ => {}
            }
            let lanes = match cause {
                StallCause::Runs => &[Lane::Compact],
                _ => self.flush_lanes(),
            };
            let got_on = self.get_on(since, lanes, deadline_ns);
            // The handle's own state says more than the try that failed.
            self.health.check_writable()?;
            if !got_on? {
                let cause = format!("its deadline passed while it waited: {cause}");
                return Err(Error::Stalled { cause });
            }
        }
    }

    /// Freezes the memtable if the logs have outgrown their budget or number: flushing it lets
    /// them go.
    fn make_logs_obsolete(&self) -> Result<()> {
        if self.logs_full.load(Ordering::Relaxed) { self.freeze_for_flush() } else { Ok(()) }
    }

    /// Delays a write by what maintenance is behind, up to `write_delay_max_ns`.
    fn delay(&self, deadline_ns: Option<u64>) -> Result<()> {
        let runs = self.view.with(|view| view.version.runs.len());
        let (slow, stop) = (self.options.runs_slow, self.options.runs_stop);
        if runs < slow || runs >= stop {
            return Ok(());
        }
        // Quadratic: gentle at first, and almost the whole of it just before the stop.
        let (behind, whole) = ((runs - slow + 1) as u64, (stop - slow) as u64);
        let delay_ns = u128::from(self.options.write_delay_max_ns) * u128::from(behind * behind)
            / u128::from(whole * whole);
        let delay_ns = delay_ns as u64;
        let clock = &*self.env.clock;
        if deadline_ns.is_some_and(|until| clock.now_ns().saturating_add(delay_ns) > until) {
            let cause = "its deadline would pass in the delay that holds writes back".to_string();
            return Err(Error::Stalled { cause });
        }
        self.counters.note_delay(delay_ns);
        // A close ends it.
        self.signals.pause(clock, delay_ns);
        Ok(())
    }
}
