//! Randomness: ids, hasher seeds, jitter.
//!
//! Invariants
//! - No promise depends on it beyond ids being distinct.
//! - Every checked form gives a seeded source, so that a run repeats bit for bit (F1).
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use super::sync::{AtomicU64, Ordering};

/// A source of random numbers.
pub trait Random: Send + Sync + 'static {
    /// The next 64 bits.
    fn next_u64(&self) -> u64;

    /// The next 128 bits, never zero: zero stands for "no id" on disk.
    fn next_id(&self) -> u128 {
        let id = (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64());
        id.max(1)
    }
}

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        // Eight bytes come whole or not at all (getrandom(2)); a kernel without the call leaves
        // zeros, and ids then differ by the counter alone.
        static COUNTER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        let count = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        u64::from_le_bytes(bytes) ^ count.rotate_right(16)
    }
}

/// A seeded source (splitmix64, Steele, Lea and Flood 2014): equal seeds give equal sequences.
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// A source that starts at `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
