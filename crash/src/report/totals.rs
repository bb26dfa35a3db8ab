//! What was counted in a run.
//!
//! Invariant: every field is a sum, or a list of sums, so that parts of a run merge by adding.

use serde::{Deserialize, Serialize};

/// What was counted. Sums, so that shards and cases merge by adding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Cases run to their end.
    pub cases: u64,
    /// Operations applied to engine and oracle, before any crash.
    pub ops: u64,
    /// Counted crash images: recovered, compared whole, written to, structurally checked.
    pub images: u64,
    /// Whole images taken inside a recovery or after one, to depth 3; not among `images`.
    pub images_nested: u64,
    /// Images dropped because their content and admissible set were checked before in the case.
    pub images_duplicate: u64,
    /// Thread schedules explored; 0 for the exclusive engine.
    pub schedules: u64,
    /// Instants of schedules of which at least one image was recovered whole.
    #[serde(default)]
    pub schedule_cases: u64,
    /// Calls of clients in schedules.
    #[serde(default)]
    pub schedule_ops: u64,
    /// Scheduling choices.
    #[serde(default)]
    pub schedule_steps: u64,
    /// Points of schedules at which a group was in the row that a sweep looks at.
    #[serde(default)]
    pub row_points: u64,
    /// Errors injected.
    pub errors_injected: u64,
    /// File-system points passed (two per call, more inside writes and syncs).
    pub points: u64,
    /// Images by operations since creation (index = operations / 10, the last one open-ended).
    pub images_by_ops: Vec<u64>,
    /// Images by runs in the version at the crash (the last one open-ended).
    pub images_by_runs: Vec<u64>,
}

/// Buckets of [`Totals::images_by_ops`], ten operations each.
pub const OPS_BUCKETS: usize = 64;
/// Buckets of [`Totals::images_by_runs`].
pub const RUNS_BUCKETS: usize = 16;

impl Totals {
    /// Adds what `other` counted.
    pub fn absorb(&mut self, other: &Self) {
        self.cases += other.cases;
        self.ops += other.ops;
        self.images += other.images;
        self.images_nested += other.images_nested;
        self.images_duplicate += other.images_duplicate;
        self.schedules += other.schedules;
        self.schedule_cases += other.schedule_cases;
        self.schedule_ops += other.schedule_ops;
        self.schedule_steps += other.schedule_steps;
        self.row_points += other.row_points;
        self.errors_injected += other.errors_injected;
        self.points += other.points;
        absorb_buckets(&mut self.images_by_ops, &other.images_by_ops);
        absorb_buckets(&mut self.images_by_runs, &other.images_by_runs);
    }

    /// Notes one counted image, `ops` operations after creation and with `runs` runs.
    pub fn count_image(&mut self, ops: u64, runs: usize) {
        self.images += 1;
        bump(&mut self.images_by_ops, (ops / 10).min(OPS_BUCKETS as u64 - 1) as usize);
        bump(&mut self.images_by_runs, runs.min(RUNS_BUCKETS - 1));
    }

    /// At least how many operations since creation the median counted image has.
    #[must_use]
    pub fn median_ops(&self) -> u64 {
        median_bucket(&self.images_by_ops) as u64 * 10
    }

    /// How many runs the median counted image has.
    #[must_use]
    pub fn median_runs(&self) -> u64 {
        median_bucket(&self.images_by_runs) as u64
    }
}

fn bump(buckets: &mut Vec<u64>, index: usize) {
    if buckets.len() <= index {
        buckets.resize(index + 1, 0);
    }
    buckets[index] += 1;
}

fn absorb_buckets(into: &mut Vec<u64>, from: &[u64]) {
    if into.len() < from.len() {
        into.resize(from.len(), 0);
    }
    for (to, n) in into.iter_mut().zip(from) {
        *to += n;
    }
}

fn median_bucket(buckets: &[u64]) -> usize {
    let total: u64 = buckets.iter().sum();
    let mut below = 0;
    for (index, n) in buckets.iter().enumerate() {
        below += n;
        if below * 2 > total {
            return index;
        }
    }
    0
}
