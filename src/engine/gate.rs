//! The two locks that are held across I/O, and how long threads wait for them.
//!
//! Invariants
//! - A lock that is free costs no look at the clock.
//!
//! It changes nothing about who gets a lock: telemetry alone.

use crate::env::clock::Clock;
use crate::env::sync::{Arc, Mutex, MutexGuard};
use crate::stats::Counter;

/// A lock that counts the waits for it.
pub(crate) struct Gate<T> {
    held: Mutex<T>,
    clock: Arc<dyn Clock>,
    pub(super) waits: Counter,
    /// Nanoseconds, over all threads.
    pub(super) wait_ns: Counter,
}

impl<T> Gate<T> {
    pub(crate) fn new(value: T, clock: Arc<dyn Clock>) -> Self {
        let (waits, wait_ns) = (Counter::default(), Counter::default());
        Self { held: Mutex::new(value), clock, waits, wait_ns }
    }

    /// Waits for the lock.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.held.try_lock().unwrap_or_else(|| self.wait())
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        self.waits.add(1);
        let begun = self.clock.now_ns();
        let held = self.held.lock();
        self.wait_ns.add(self.clock.now_ns().saturating_sub(begun));
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::clock::OsClock;
    use crate::env::thread::spawn;

    #[test]
    fn a_wait_is_counted_and_a_free_lock_is_not() {
        let gate = Arc::new(Gate::new(0, Arc::new(OsClock::default())));
        *gate.lock() += 1;
        assert_eq!((gate.waits.get(), gate.wait_ns.get()), (0, 0));
        let held = gate.lock();
        let waiter = {
            let gate = gate.clone();
            spawn("waiter", move || *gate.lock()).expect("a thread")
        };
        while gate.waits.get() == 0 {
            gate.clock.sleep_ns(100_000);
        }
        gate.clock.sleep_ns(100_000);
        drop(held);
        assert_eq!(waiter.join().expect("no panic"), 1);
        assert!(gate.waits.get() == 1 && gate.wait_ns.get() > 0);
    }
}
