//! Whether the leader of a durable group should wait for writers that are about to come back.
//!
//! Sixteen writers that each write again as soon as they have their result fall into two cohorts
//! of eight: one is synced while the other gathers, and each sync carries half of what it could. A
//! leader that waits a little for the cohort that was just acknowledged carries all of them.
//!
//! Invariants
//! - A wait needs evidence: so many durable writers as there were in the last group and behind it.
//!   One writer alone is its own cohort and never waits.
//! - A wait is bounded by half of what a sync takes, and by an option.
//! - Waits that end in vain shrink by themselves: after two in a row fewer and fewer are tried.
//!
//! PostgreSQL's `commit_delay` recommends half of a sync, and its `commit_siblings` the evidence.

/// Waits in vain, in a row, after which groups are led without one.
const IN_VAIN_MAX: u32 = 2;

pub(super) struct Cohort {
    patience_ns_max: u64,
    /// Durable writers that the next group may gather.
    expected: u32,
    /// What a sync takes: a moving average, in nanoseconds.
    sync_ns: u64,
    /// Waits in a row that ended before the cohort was complete.
    in_vain: u32,
    /// Groups to be led before the next wait is tried.
    skip: u32,
}

/// What waiting for cohorts came to, since the queue was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CohortWaits {
    /// Groups whose first member waited.
    pub begun: u64,
    /// Of these, those that were led without the rest.
    pub in_vain: u64,
}

impl Cohort {
    pub(super) fn new(patience_ns_max: u64) -> Self {
        Self { patience_ns_max, expected: 0, sync_ns: 0, in_vain: 0, skip: 0 }
    }

    /// Whether `queued` durable writers are all that can be hoped for.
    pub(super) fn is_complete(&self, queued: u32) -> bool {
        queued > 0 && (queued >= self.expected || self.skip > 0 || self.patience_ns() == 0)
    }

    /// How long to wait for the rest.
    pub(super) fn patience_ns(&self) -> u64 {
        (self.sync_ns / 2).min(self.patience_ns_max)
    }

    /// A wait ended by its deadline, with `queued` writers there; returns whether it was in vain.
    pub(super) fn waited(&mut self, queued: u32) -> bool {
        if queued >= self.expected {
            return false;
        }
        self.in_vain += 1;
        if self.in_vain >= IN_VAIN_MAX {
            self.skip = 1 << self.in_vain.min(8);
        }
        true
    }

    /// A group of `queued` is about to be led.
    pub(super) fn leads(&mut self, queued: u32) {
        if self.skip > 0 {
            self.skip -= 1;
        } else if self.expected > 1 && queued >= self.expected {
            self.in_vain = 0;
        }
    }

    /// A group of `led` was led, and `queued` wait behind it.
    pub(super) fn led(&mut self, led: u32, queued: u32, sync_ns: u64) {
        self.expected = led + queued;
        if sync_ns > 0 {
            let old = if self.sync_ns == 0 { sync_ns } else { self.sync_ns };
            self.sync_ns = old - old / 8 + sync_ns / 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC_NS: u64 = 160_000;
    const PATIENCE_NS_MAX: u64 = 100_000;

    #[test]
    fn a_lone_writer_is_its_own_cohort() {
        let mut cohort = Cohort::new(PATIENCE_NS_MAX);
        for _ in 0..10 {
            assert!(cohort.is_complete(1));
            cohort.leads(1);
            cohort.led(1, 0, SYNC_NS);
        }
    }

    #[test]
    fn two_halves_become_one_group_within_a_bounded_wait() {
        let mut cohort = Cohort::new(PATIENCE_NS_MAX);
        cohort.led(8, 8, SYNC_NS);
        assert!(!cohort.is_complete(8) && cohort.is_complete(16));
        assert_eq!(cohort.patience_ns(), SYNC_NS / 2);
        cohort.led(16, 0, 10 * SYNC_NS);
        assert_eq!(cohort.patience_ns(), PATIENCE_NS_MAX);
    }

    #[test]
    fn waits_in_vain_become_rare_and_come_back() {
        let mut cohort = Cohort::new(PATIENCE_NS_MAX);
        let mut waits = 0;
        for _ in 0..1000 {
            cohort.led(2, 1, SYNC_NS);
            if !cohort.is_complete(1) {
                waits += 1;
                cohort.waited(1);
            }
            cohort.leads(1);
        }
        assert!((3..20).contains(&waits), "{waits} waits");
        while cohort.skip > 0 {
            cohort.leads(3);
        }
        cohort.leads(3);
        assert_eq!(cohort.in_vain, 0);
    }
}
