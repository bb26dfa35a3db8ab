//! What the database must hold: for each number its generation.
//!
//! Invariants
//! - A number has one writer: the owner puts generation `g + 1`, and raises the entry when the
//!   engine has acknowledged it. So a read that begins at entry `b` and ends at entry `e` may see
//!   generations `b` to `e + 1` and nothing else.
//! - Generation 0 is "not there"; nothing is removed by a row.

use crate::records::ABSENT;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The generations of all numbers.
#[derive(Debug)]
pub struct State {
    generations: Vec<AtomicU32>,
    /// The next number that no insert has taken.
    next: AtomicU64,
    /// All numbers below were acknowledged, where one thread inserts.
    acknowledged: AtomicU64,
}

impl State {
    /// No number is there; inserts begin at `preload`.
    #[must_use]
    pub fn new(keys: u64, preload: u64) -> Self {
        let mut generations = Vec::new();
        generations.resize_with(keys as usize, || AtomicU32::new(ABSENT));
        Self { generations, next: AtomicU64::new(preload), acknowledged: AtomicU64::new(preload) }
    }

    /// How many numbers there can be.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.generations.len() as u64
    }

    /// The generation that was acknowledged last.
    #[must_use]
    pub fn generation(&self, number: u64) -> u32 {
        self.generations[number as usize].load(Ordering::Acquire)
    }

    /// The owner's write of `generation` was acknowledged.
    pub fn acknowledge(&self, number: u64, generation: u32) {
        self.generations[number as usize].store(generation, Ordering::Release);
    }

    /// Takes `n` numbers for inserts.
    pub fn take(&self, n: u64) -> u64 {
        self.next.fetch_add(n, Ordering::Relaxed)
    }

    /// Inserts of all numbers below `end` were acknowledged, or another thread's will be.
    pub fn inserted(&self, end: u64) {
        self.acknowledged.fetch_max(end, Ordering::AcqRel);
    }

    /// All numbers below are there, where one thread inserts.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// No number at or above was ever taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(self.keys())
    }
}
