//! Threads, in the form that the build asks for.
//!
//! Invariants
//! - Nothing here or above asks `thread::panicking()`: in a checked form it speaks of the model.
//! - Functions and types of our own, not re-exports: clippy can ban the originals elsewhere.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(feature = "loom")]
use loom::thread as form;

#[cfg(feature = "shuttle")]
use shuttle::thread as form;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use std::thread as form;

/// A thread that can be waited for.
pub struct JoinHandle<T>(form::JoinHandle<T>);

impl<T> JoinHandle<T> {
    /// Waits for the thread's end; an error is what it panicked with.
    #[allow(clippy::missing_errors_doc)]
    pub fn join(self) -> std::thread::Result<T> {
        self.0.join()
    }
}

/// Runs `f` on a thread of its own.
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    JoinHandle(form::spawn(f))
}

/// Lets another thread run.
pub fn yield_now() {
    form::yield_now();
}
