//! A latch: set once, waited for by many, who all go on together.
//!
//! Invariants
//! - What was written before `set` is seen after `wait` (release, acquire).
//! - `set` makes one system call at the most, and none where nobody waits.
//!
//! In std form it is one word that threads sleep on: a condition variable would hand its lock from
//! one woken thread to the next, and a group's followers would wake one after another.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod form {
    use rustix::thread::futex;
    use std::sync::atomic::{AtomicU32, Ordering};

    const UNSET: u32 = 0;
    const AWAITED: u32 = 1;
    const SET: u32 = 2;

    #[derive(Default)]
    pub struct Latch(AtomicU32);

    impl Latch {
        pub(super) fn set(&self) {
            if self.0.swap(SET, Ordering::AcqRel) == AWAITED {
                // It fails for a bad address only.
                let _ = futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX as u32);
            }
        }

        pub(super) fn wait(&self) {
            let _ = self.0.compare_exchange(UNSET, AWAITED, Ordering::AcqRel, Ordering::Acquire);
            while self.0.load(Ordering::Acquire) != SET {
                // Returns at once where the word has changed; every return is checked above.
                let _ = futex::wait(&self.0, futex::Flags::PRIVATE, AWAITED, None);
            }
        }
    }
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod form {
    use super::super::sync::{Condvar, Mutex};

    pub struct Latch {
        set: Mutex<bool>,
        wake: Condvar,
    }

    impl Default for Latch {
        fn default() -> Self {
            Self { set: Mutex::new(false), wake: Condvar::new() }
        }
    }

    impl Latch {
        pub(super) fn set(&self) {
            *self.set.lock() = true;
            self.wake.notify_all();
        }

        pub(super) fn wait(&self) {
            let mut set = self.set.lock();
            while !*set {
                set = self.wake.wait(set);
            }
        }
    }
}

/// Set once, waited for by many.
#[derive(Default)]
pub struct Latch(form::Latch);

impl Latch {
    /// Lets every waiter go on, those to come too.
    pub fn set(&self) {
        self.0.set();
    }

    /// Waits until it is set.
    pub fn wait(&self) {
        self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::sync::{Arc, AtomicU64, Ordering};
    use crate::env::thread::spawn;

    #[test]
    fn every_waiter_goes_on_and_sees_what_came_before() {
        for _ in 0..50 {
            let shared = Arc::new((Latch::default(), AtomicU64::new(0)));
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    let shared = shared.clone();
                    spawn("waiter", move || {
                        shared.0.wait();
                        shared.1.load(Ordering::Relaxed)
                    })
                    .expect("a thread")
                })
                .collect();
            shared.1.store(7, Ordering::Relaxed);
            shared.0.set();
            for waiter in waiters {
                assert_eq!(waiter.join().expect("no panic"), 7);
            }
            shared.0.wait();
        }
    }
}
