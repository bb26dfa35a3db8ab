//! Time: now, sleep, and every timed wait.
//!
//! Invariants
//! - No promise depends on the clock: a clock that stands still or jumps costs only time.
//! - A timed wait may wake early; callers loop on their own condition.
//! - In the shuttle form the expiry of a timed wait is one more scheduling choice; in a loom model
//!   it is a thread.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use super::sync::{Condvar, Mutex, MutexGuard};

/// A monotonic clock.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since a fixed moment of this clock's own.
    fn now_ns(&self) -> u64;

    /// Waits for about `duration_ns`.
    fn sleep_ns(&self, duration_ns: u64);
}

/// The operating system's monotonic clock.
#[derive(Debug)]
pub struct OsClock {
    start: std::time::Instant,
}

impl OsClock {
    /// A clock that starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

impl Default for OsClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for OsClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep_ns(&self, duration_ns: u64) {
        std::thread::sleep(std::time::Duration::from_nanos(duration_ns));
    }
}

/// Waits on `condvar` for at most `duration_ns`; the second value is whether the time is up.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub fn wait_timeout<'a, T>(
    condvar: &Condvar,
    _mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    duration_ns: u64,
) -> (MutexGuard<'a, T>, bool) {
    let wait = std::time::Duration::from_nanos(duration_ns);
    condvar.wait_until(guard, std::time::Instant::now() + wait)
}

/// Lets the lock go and another task run: when the scheduler comes back here, the time is up. It
/// may let any others run first, the one that would have woken this one too.
#[cfg(feature = "shuttle")]
pub fn wait_timeout<'a, T>(
    _condvar: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _duration_ns: u64,
) -> (MutexGuard<'a, T>, bool) {
    drop(guard);
    super::thread::yield_now();
    (mutex.lock(), true)
}

/// Waits on `condvar`; a thread of the model stands for the deadline and wakes it.
#[cfg(feature = "loom")]
pub fn wait_timeout<'a, T>(
    condvar: &Condvar,
    _mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _duration_ns: u64,
) -> (MutexGuard<'a, T>, bool) {
    (condvar.wait(guard), true)
}
