//! A compaction that was decided on: which runs, which keys of them, and why.

use super::slice::KeyRange;
use std::ops::Range;

/// Why a plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are too many runs.
    Pressure,
    /// The newer run overlaps nothing in the older one.
    Move,
    /// A tier is full.
    Tier,
    /// A tier goes into the bottom run.
    Bottom,
    /// The caller asked for it.
    Asked,
}

/// What to merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The runs, by their place in the version, newest first.
    pub runs: Range<usize>,
    /// The keys.
    pub range: KeyRange,
    /// Why. For [`Reason::Move`] nothing is rewritten: all slices of the interval are the output.
    pub reason: Reason,
}
