//! Threads, in the form that the build asks for.
//!
//! Invariants
//! - Nothing here or above asks `thread::panicking()`: in a checked form it speaks of the model.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(feature = "loom")]
pub use loom::thread::{JoinHandle, spawn, yield_now};

#[cfg(feature = "shuttle")]
pub use shuttle::thread::{JoinHandle, spawn, yield_now};

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use std::thread::{JoinHandle, spawn, yield_now};
