//! Threads, in the form that the build asks for.
//!
//! Invariants
//! - Nothing here or above asks `thread::panicking()`: in a checked form it speaks of the model.
//! - Functions and types of our own, not re-exports: clippy can ban the originals elsewhere.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::io;

#[cfg(feature = "loom")]
use loom::thread as form;

#[cfg(feature = "shuttle")]
use shuttle::thread as form;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use std::thread as form;

/// Which thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(form::ThreadId);

/// The thread that asks.
#[must_use]
pub fn current() -> ThreadId {
    ThreadId(form::current().id())
}

/// A thread that can be waited for.
pub struct JoinHandle<T>(form::JoinHandle<T>);

impl<T> JoinHandle<T> {
    /// Waits for the thread's end; an error is what it panicked with.
    #[allow(clippy::missing_errors_doc)]
    pub fn join(self) -> std::thread::Result<T> {
        self.0.join()
    }

    /// Which thread it is.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        ThreadId(self.0.thread().id())
    }
}

/// Runs `f` on a thread of its own, which debuggers show as `name`.
///
/// # Errors
/// The operating system's, where it makes no more threads.
pub fn spawn<F, T>(name: &str, f: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    form::Builder::new().name(name.to_string()).spawn(f).map(JoinHandle)
}

/// Lets another thread run.
pub fn yield_now() {
    form::yield_now();
}
