//! The live snapshots, for retention.
//!
//! Invariants
//! - S1, G1: reading the published sequence and registering it are one step under the lock, and
//!   retention samples under the same lock: no compaction misses a snapshot that exists.
//! - The lock is held for no I/O and for at most O(snapshots) work.

use crate::base::key::SeqNo;
use crate::env::sync::{AtomicU64, Mutex, Ordering};
use std::collections::BTreeMap;

/// Sequences that live snapshots read at, each with how many do.
#[derive(Default)]
pub struct Snapshots(Mutex<BTreeMap<SeqNo, usize>>);

impl Snapshots {
    /// Registers a snapshot at what is published now.
    pub fn register(&self, published: &AtomicU64) -> SeqNo {
        let mut live = self.0.lock();
        let seq = SeqNo(published.load(Ordering::Acquire));
        *live.entry(seq).or_insert(0) += 1;
        seq
    }

    /// Lets a snapshot go.
    pub fn release(&self, seq: SeqNo) {
        let mut live = self.0.lock();
        let count = live.get_mut(&seq).expect("a snapshot is released once");
        *count -= 1;
        if *count == 0 {
            live.remove(&seq);
        }
    }

    /// The sequences that retention must keep readable, ascending: those of live snapshots, then
    /// what is published now. Everything that a compaction reads is at or below the last.
    pub fn sample(&self, published: &AtomicU64) -> Vec<SeqNo> {
        let live = self.0.lock();
        let now = SeqNo(published.load(Ordering::Acquire));
        let mut sequences: Vec<_> = live.keys().copied().collect();
        if sequences.last() != Some(&now) {
            sequences.push(now);
        }
        sequences
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.lock().values().sum()
    }
}
