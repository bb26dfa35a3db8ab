//! What the disk may do.
#![forbid(unsafe_code)]

pub mod adapter;
pub mod corruption;
pub mod disk;
pub mod fuzz;
pub mod report;
pub mod runner;

/// The engine as the adapter knows it; a checked form has a module of this name over its own copy.
mod engine {
    pub(super) use kiban::env;

    /// A scheduling point; nothing schedules in this form.
    pub(super) fn switch() {}
}
