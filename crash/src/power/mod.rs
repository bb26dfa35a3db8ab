//! `kiban-crash power`: the engine on real file systems, and the power cut under it.
//!
//! A session: an empty file system on a device that writes down what it hears (`recorder`, `place`)
//! is mounted, a process works on a database in it (`crew`, `session`) and tells what it issued and
//! what was acknowledged, into the same log (`log`). Then images of every moment of that log are
//! made, mounted, and examined by another process (`examiner`); what it tells is judged by what had
//! been acknowledged at that moment (`truth`, `check`). `faults` has the device fail instead;
//! `worker` does all that on several devices at a time, and `campaign` is the whole of it.
//!
//! `contain` holds the states that a file system leaves against the simulated disk: `tap` tells
//! that one the calls, `containment` is the whole of it.
//!
//! Invariants
//! - The parent opens no database: an abort or a hang of the engine is a child's, and a failure.
//! - Nothing that it mounts or attaches outlives it (`place`, `guard`), and it names what it needs
//!   before it begins.
//! - The first broken promise ends the run; the image, the notes and the log's place are kept.
//! - Threads and moments are the machine's: a seed repeats the operations, not the run.
//!
//! It does not say what a disk's own firmware does: a flush that is reported as done is done, but
//! for the lying device among the faults.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

mod campaign;
mod check;
pub mod contain;
mod containment;
pub mod crew;
pub mod examiner;
pub mod faults;
pub mod guard;
pub mod log;
pub mod place;
pub mod recorder;
pub mod session;
pub mod tap;
pub mod truth;
mod worker;

use crate::report::{Report, Totals};
use crate::runner::interrupt::Interrupt;
use faults::DeviceFault;
use place::FileSystem;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug)]
pub struct Task {
    /// The command that children are.
    pub program: PathBuf,
    /// Where directories are made; the system's temporary directory if `None`.
    pub dir: Option<PathBuf>,
    /// File systems, and how many images of each.
    pub quota: Vec<(FileSystem, u64)>,
    /// After so long it ends, whatever is left.
    pub budget: Option<Duration>,
    /// Device errors.
    pub faults: Vec<DeviceFault>,
    /// One session in so many has one of them.
    pub faulty_every: u64,
    /// Seed.
    pub seed: u64,
    /// Workers.
    pub jobs: usize,
    /// Whether the file systems' states are held against the simulated disk, instead.
    pub contain: bool,
}

impl Task {
    fn parent(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Runs `task` in this process's own mount namespace and fills `report`, which knows seed and
/// revision already; `progress` hears of the images done.
pub fn run(
    task: &Task,
    report: &mut Report,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(u64, &Totals, u64),
) {
    let begun = Instant::now();
    let parent = task.parent();
    for line in place::clear_leftovers(&parent) {
        eprintln!("warning: an earlier run left {line}");
    }
    match place::scratch(&parent) {
        Ok(scratch) => {
            let dir = scratch.path();
            match guard::Guard::start(&task.program, &dir.join("connections")) {
                Ok(guard) if task.contain => {
                    containment::run(task, (dir, &guard), report, interrupt, progress);
                }
                Ok(guard) => campaign::run(task, (dir, &guard), report, interrupt, progress),
                Err(error) => report.environment = Some(format!("a guard: {error}")),
            }
            if let Err(error) = scratch.close() {
                eprintln!("warning: a directory stays: {error}");
            }
        }
        Err(error) => {
            let text = format!("{}: {error}; --dir names another place", parent.display());
            report.environment = Some(text);
        }
    }
    let child = report.power.iter().map(|row| row.examiner_kib).max().unwrap_or(0);
    let children = child * task.jobs as u64;
    report.memory_kib = Some(crew::peak_kib(std::process::id()) + children);
    report.interrupted |= interrupt.wished();
    report.elapsed_s = begun.elapsed().as_secs_f64();
    report.judge();
}
