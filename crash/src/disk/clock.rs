//! A clock of the disk's own, for engines under test.
//!
//! Invariants
//! - It moves only by calls, sleeps and [`SimClock::jump`]: a run repeats to the nanosecond (F1).
//! - It never goes back: the engine asks for monotonic time alone.

use super::file::mix;

/// Virtual time.
#[derive(Clone, Debug)]
pub struct SimClock {
    now_ns: u64,
    seed: u64,
    /// The greatest step of one call; 0 lets the clock stand still, sleeps included.
    step_ns_max: u64,
}

impl SimClock {
    pub(super) fn new() -> Self {
        Self { now_ns: 1, seed: 0, step_ns_max: 1_000 }
    }

    /// The time now.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Seeds the steps, each of at most `step_ns_max`; 0 lets the clock stand still.
    pub fn set_pace(&mut self, seed: u64, step_ns_max: u64) {
        self.seed = seed;
        self.step_ns_max = step_ns_max;
    }

    /// Goes ahead at once, even where the clock stands still.
    pub fn jump(&mut self, ns: u64) {
        self.now_ns = self.now_ns.saturating_add(ns);
    }

    /// What a sleep does.
    pub fn sleep(&mut self, ns: u64) {
        if self.step_ns_max > 0 {
            self.jump(ns);
        }
    }

    pub(super) fn tick(&mut self) {
        if self.step_ns_max > 0 {
            self.seed = self.seed.wrapping_add(1);
            self.jump(mix(self.seed) % self.step_ns_max + 1);
        }
    }
}
