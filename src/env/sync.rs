//! Locks, atomics and shared pointers, in the form that the build asks for.
//!
//! Invariants
//! - A `cfg` on the form stands only here and in `env::{atomic, thread, clock, cache}`.
//! - Locks have no poisoning in their API: a panic in a critical section is dealt with by the
//!   paths (a panicking leader poisons the engine), not by every later `lock`.
//! - `Arc` and `Weak` are std's in every form: loom's have no `Weak` and do not coerce to `dyn`.
//! - No atomic is made by casting bytes: `AtomicU32` has another size in loom and in shuttle.
//!
//! Why not safe: `UnsafeCell` is handed on so that `memtable::arena` can be seen by loom.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
// In some forms a notification returns a count, in others nothing.
#![allow(clippy::let_unit_value)]

#[cfg(all(feature = "loom", feature = "shuttle"))]
compile_error!("a build is in one form: loom or shuttle, not both");

pub use std::sync::{Arc, Weak};

#[cfg(feature = "loom")]
mod form {
    pub use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
}

#[cfg(feature = "shuttle")]
mod form {
    pub use shuttle::sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod form {
    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
}

pub use super::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use form::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// Takes the value out of a lock result, whether the lock knows poisoning or not.
#[cfg(any(feature = "loom", feature = "shuttle"))]
macro_rules! unpoison {
    ($e:expr) => {
        match $e {
            Ok(v) => v,
            Err(poisoned) => poisoned.into_inner(),
        }
    };
}
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
macro_rules! unpoison {
    ($e:expr) => {
        $e
    };
}

/// A mutual-exclusion lock.
pub struct Mutex<T>(form::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> Self {
        Self(form::Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        unpoison!(self.0.lock())
    }
}

/// A lock with many readers or one writer.
pub struct RwLock<T>(form::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> Self {
        Self(form::RwLock::new(value))
    }

    /// Waits for a reader's share.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        unpoison!(self.0.read())
    }

    /// Waits for the whole lock.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        unpoison!(self.0.write())
    }
}

/// A condition to wait for beside a [`Mutex`]. Timed waits are `env::clock`'s.
pub struct Condvar(form::Condvar);

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// A condition that nobody waits for.
    pub fn new() -> Self {
        Self(form::Condvar::new())
    }

    /// Lets the lock go, waits for a notification (or for none: spurious wake-ups are allowed)
    /// and takes the lock again.
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        unpoison!(self.0.wait(guard))
    }

    /// Lets the lock go, waits for a notification (or for none: spurious wake-ups are allowed)
    /// and takes the lock again.
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(&mut guard);
        guard
    }

    /// As [`Condvar::wait`], but for no longer than until `deadline`; the second value is whether
    /// the deadline passed. Only `env::clock` calls it.
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    pub(super) fn wait_until<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: std::time::Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        let timed_out = self.0.wait_until(&mut guard, deadline).timed_out();
        (guard, timed_out)
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        let _ = self.0.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        let _ = self.0.notify_all();
    }
}

/// A cell whose contents are reached through closures, so that loom can check each access.
pub struct UnsafeCell<T>(
    #[cfg(feature = "loom")] loom::cell::UnsafeCell<T>,
    #[cfg(not(feature = "loom"))] std::cell::UnsafeCell<T>,
);

impl<T> UnsafeCell<T> {
    /// A cell with `value` in it.
    #[cfg(feature = "loom")]
    pub fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    /// A cell with `value` in it.
    #[cfg(not(feature = "loom"))]
    pub fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// A shared access; the caller's unsafe block says why no exclusive one can overlap it.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        #[cfg(feature = "loom")]
        return self.0.with(f);
        #[cfg(not(feature = "loom"))]
        f(self.0.get())
    }

    /// An exclusive access; the caller's unsafe block says why no other one can overlap it.
    #[inline]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(feature = "loom")]
        return self.0.with_mut(f);
        #[cfg(not(feature = "loom"))]
        f(self.0.get())
    }
}

/// A shared pointer that is replaced as a whole: readers get one consistent value.
pub struct Published<T>(RwLock<Arc<T>>);

impl<T> Published<T> {
    /// A pointer to `value`.
    pub fn new(value: Arc<T>) -> Self {
        Self(RwLock::new(value))
    }

    /// The value now.
    #[inline]
    pub fn load(&self) -> Arc<T> {
        self.0.read().clone()
    }

    /// Runs `f` on the value now, without taking a count. `f` must not wait for anything.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&Arc<T>) -> R) -> R {
        f(&self.0.read())
    }

    /// Replaces the value; later loads see it.
    pub fn store(&self, value: Arc<T>) {
        let old = std::mem::replace(&mut *self.0.write(), value);
        // Dropped outside the lock: it may free a memtable or unmap tables.
        drop(old);
    }
}
