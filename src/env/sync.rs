//! Locks, atomics and shared pointers, in the form that the build asks for.
//!
//! Invariants
//! - A `cfg` on the form stands only here and in `env::{atomic, thread, clock, cache}`.
//! - Locks have no poisoning in their API: a panic in a critical section is dealt with by the
//!   paths (a panicking leader poisons the engine), not by every later `lock`.
//! - `Arc` and `Weak` are std's in every form: loom's have no `Weak` and do not coerce to `dyn`.
//! - No atomic is made by casting bytes: `AtomicU32` has another size in loom and in shuttle.
//! - [`Published`] is arc-swap's in std form, so that readers share no counter; in the checked
//!   forms it is a lock, since a model can't see into a crate.
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

    /// Takes the lock if that needs no waiting.
    #[inline]
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        use std::sync::TryLockError;
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes the lock if that needs no waiting.
    #[inline]
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
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
pub struct Published<T>(published::Published<T>);

/// A value borrowed from a [`Published`]: it keeps the value alive, also when another one has taken
/// its place, and whoever replaces it never waits for it.
pub type Borrowed<T> = published::Borrowed<T>;

impl<T> Published<T> {
    /// A pointer to `value`.
    pub fn new(value: Arc<T>) -> Self {
        Self(published::new(value))
    }

    /// The value now, counted: for what keeps it longer than a call.
    #[inline]
    pub fn load(&self) -> Arc<T> {
        published::load(&self.0)
    }

    /// The value now, for the time of a call.
    #[inline]
    pub fn borrow(&self) -> Borrowed<T> {
        published::borrow(&self.0)
    }

    /// Runs `f` on the value now.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.borrow())
    }

    /// Replaces the value; later loads see it.
    pub fn store(&self, value: Arc<T>) {
        published::store(&self.0, value);
    }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod published {
    use super::Arc;
    use arc_swap::{ArcSwap, Guard};

    pub type Published<T> = ArcSwap<T>;
    pub type Borrowed<T> = Guard<Arc<T>>;

    pub fn new<T>(value: Arc<T>) -> Published<T> {
        ArcSwap::new(value)
    }

    #[inline]
    pub fn load<T>(published: &Published<T>) -> Arc<T> {
        published.load_full()
    }

    #[inline]
    pub fn borrow<T>(published: &Published<T>) -> Borrowed<T> {
        published.load()
    }

    pub fn store<T>(published: &Published<T>, value: Arc<T>) {
        published.store(value);
    }
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod published {
    use super::{Arc, RwLock};

    pub type Published<T> = RwLock<Arc<T>>;
    pub type Borrowed<T> = Arc<T>;

    pub fn new<T>(value: Arc<T>) -> Published<T> {
        RwLock::new(value)
    }

    pub fn load<T>(published: &Published<T>) -> Arc<T> {
        published.read().clone()
    }

    /// Counted: a reader may read files while it borrows, and holds no lock across I/O.
    pub fn borrow<T>(published: &Published<T>) -> Borrowed<T> {
        load(published)
    }

    pub fn store<T>(published: &Published<T>, value: Arc<T>) {
        let old = std::mem::replace(&mut *published.write(), value);
        // Dropped outside the lock: it may free a memtable or unmap tables.
        drop(old);
    }
}

/// A cell that is set once and read without a lock. It is std's in every form: nothing ever waits
/// for it, so a model has nothing to interleave.
pub struct SetOnce<T>(std::sync::OnceLock<T>);

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self(std::sync::OnceLock::new())
    }
}

impl<T> SetOnce<T> {
    /// The value, once there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Sets the value, unless there is one; gives back what is not taken.
    ///
    /// # Errors
    /// The value, where another was set before.
    pub fn set(&self, value: T) -> Result<(), T> {
        self.0.set(value)
    }

    /// Takes the value out.
    pub fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}
