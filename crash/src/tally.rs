//! What a run counted, in one value that workers hand over and campaigns add up.

use crate::counters::Counters;
use crate::report::Totals;
use crate::schedules::rows::Rows;
use crate::stages::Matrix;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Counts of one case, or of many.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cases, operations, images.
    pub totals: Totals,
    /// Counters that must fire.
    pub counters: Counters,
    /// Stage x fault x outcome.
    pub matrix: Matrix,
    /// The ways of groups through the log.
    pub rows: Rows,
    /// Over operations, schedule, faults and file bytes, in their order.
    pub digest: u64,
}

impl Tally {
    /// Adds `other`; the digests are chained, so that the order of calls counts.
    pub fn absorb(&mut self, other: &Self) {
        self.totals.absorb(&other.totals);
        self.counters.absorb(&other.counters);
        self.matrix.absorb(&other.matrix);
        self.rows.absorb(&other.rows);
        self.mix(other.digest);
    }

    /// Adds a number to the digest.
    pub fn mix(&mut self, word: u64) {
        self.mix_bytes(&word.to_le_bytes());
    }

    /// Adds bytes to the digest.
    pub fn mix_bytes(&mut self, bytes: &[u8]) {
        self.digest = xxh3_64_with_seed(bytes, self.digest);
    }
}
