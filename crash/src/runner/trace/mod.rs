//! `kiban-crash trace`: a given trace against engine and oracle, twice.
//!
//! 1. [`real`]: the whole trace on a real directory, values in full, reopened on the way.
//! 2. [`simulated`]: the whole trace with its values cut down, on the simulated disk, with crash
//!    images along it.
//!
//! Invariants
//! - Every read of the trace is compared with the oracle, and the whole database is, at every open
//!   and at the end.
//! - The operations counted are the trace's own, once, though it runs twice and the rig adds syncs
//!   and reopens of its own.
//! - The verdict is about both runs; a directory that refuses (full, read-only) is the
//!   environment's, not the engine's.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod read;
pub mod real;
pub mod simulated;

use super::interrupt::Interrupt;
use super::progress::{Length, Progress};
use crate::report::Report;
use kiban_model::config::Config;
use kiban_model::ops::Case;
use std::path::PathBuf;
use std::time::Instant;

/// What to run.
#[derive(Clone, Debug)]
pub struct Task {
    /// The trace.
    pub case: Case,
    /// Whether its options are its own; otherwise each run has options of its size.
    pub own_options: bool,
    /// Seed of the crashes and of the engine's ids.
    pub seed: u64,
    /// Directory for the real run; the system's temporary one if `None`.
    pub dir: Option<PathBuf>,
}

/// Runs `task` and fills `report`, which knows seed and revision already.
pub fn run(task: &Task, report: &mut Report, interrupt: &Interrupt) {
    let begun = Instant::now();
    let mut progress = Progress::begin(Length::Count(2 * task.case.ops.len() as u64));
    let went_on = real::run(task, report, interrupt, &mut progress);
    if went_on && !interrupt.wished() {
        simulated::run(task, report, interrupt, &mut progress);
    }
    progress.end();
    report.interrupted |= interrupt.wished();
    report.elapsed_s = begun.elapsed().as_secs_f64();
    report.judge();
}

/// The trace's own options, or else `fields` over the defaults.
fn config(task: &Task, fields: &[(&'static str, u64)]) -> Config {
    let mut config = task.case.config.clone();
    if !task.own_options {
        for (name, value) in fields {
            assert!(config.set(name, *value), "{name} is an option");
        }
    }
    config
}

#[cfg(test)]
mod tests;
