//! What the disk may do.
#![forbid(unsafe_code)]

pub mod adapter;
pub mod campaign;
pub mod case;
pub mod check;
pub mod corruption;
pub mod counters;
pub mod directed;
pub mod disk;
pub mod evidence;
pub mod fuzz;
pub mod kill;
pub mod life;
pub mod pool;
pub mod power;
pub mod replay;
pub mod report;
pub mod runner;
pub mod scene;
pub mod schedules;
pub mod script;
pub mod shrink;
pub mod sim;
pub mod stages;
pub mod sweep;
pub mod tally;
pub mod token;

/// The engine as the adapter knows it; a checked form has a module of this name over its own copy.
mod engine {
    pub(super) use kiban::env;

    /// A scheduling point; nothing schedules in this form.
    pub(super) fn switch() {}
}
