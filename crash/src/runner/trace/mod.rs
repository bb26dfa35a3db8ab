//! `kiban-crash trace`: a given trace against engine and oracle, twice.
//!
//! 1. [`real`]: the whole trace on a real directory, values in full, reopened on the way.
//! 2. [`simulated`]: the whole trace with its values cut down, on the simulated disk, with crash
//!    images along it.
//!
//! Both run at once, each on a thread of its own; neither knows of the other.
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
use crate::report::{Report, Totals};
use kiban_model::config::Config;
use kiban_model::ops::Case;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
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
    let board = Board::new(task, interrupt);
    let of = |seed, revision| Report { seed, revision, ..Report::default() };
    let mut halves = [0, 1].map(|_| of(report.seed, report.revision.clone()));
    let [first, second] = &mut halves;
    std::thread::scope(|scope| {
        scope.spawn(|| simulated::run(task, second, &board, 1));
        if !real::run(task, first, &board, 0) {
            // What went wrong is told sooner without the other half.
            board.stop.store(true, Ordering::Relaxed);
        }
    });
    board.end();
    for half in halves {
        report.environment = report.environment.take().or_else(|| half.environment.clone());
        if !half.digest.is_empty() {
            report.digest.clone_from(&half.digest);
        }
        report.totals.absorb(&half.totals);
        half.failures.into_iter().for_each(|failure| report.add_failure(failure));
    }
    report.jobs = 2;
    report.interrupted |= interrupt.wished();
    report.elapsed_s = begun.elapsed().as_secs_f64();
    report.judge();
}

/// Where both halves tell how far they are, and hear whether to go on.
struct Board<'a> {
    interrupt: &'a Interrupt,
    stop: AtomicBool,
    shown: Mutex<Shown>,
}

struct Shown {
    progress: Progress,
    /// Per half: operations done, what was counted, failures.
    halves: [(u64, Totals, u64); 2],
}

impl<'a> Board<'a> {
    fn new(task: &Task, interrupt: &'a Interrupt) -> Self {
        let progress = Progress::begin(Length::Count(2 * task.case.ops.len() as u64));
        let shown = Mutex::new(Shown { progress, halves: Default::default() });
        Self { interrupt, stop: AtomicBool::new(false), shown }
    }

    /// Half number `half` is so far; whether it should go on.
    fn update(&self, half: usize, done: usize, totals: &Totals, failures: u64) -> bool {
        let mut shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shown.halves[half] = (done as u64, totals.clone(), failures);
        let Shown { progress, halves: [a, b] } = &mut *shown;
        let mut both = a.1.clone();
        both.absorb(&b.1);
        progress.update(a.0 + b.0, &both, a.2 + b.2);
        !self.interrupt.wished() && !self.stop.load(Ordering::Relaxed)
    }

    fn end(self) {
        self.shown.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).progress.end();
    }
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
