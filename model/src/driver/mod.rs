//! The lockstep driver: applies an operation to the engine and to the oracle, and compares.
//!
//! - [`open`]: opening, reopening, recovering after a crash, and comparing a whole database.
//! - [`writes`]: writes, sync, maintenance, and what their errors mean.
//! - [`reads`]: point reads and scans at a view.
//! - [`slots`]: iterators and snapshots held across other operations.
//! - [`copies`]: checkpoints and backups. [`door`]: the exclusive handle or the shared one.
//! - [`run`]: a whole case.
//! - [`verdict`]: what a difference is called.
//!
//! Invariants
//! - Every result of every call is compared: values, order, errors, sequences. An answer that
//!   nothing is expected of is a hole.
//! - An error is a mismatch unless [`Tolerance`] admits it; a read that returns `Ok` must be right
//!   whatever was injected.
//! - The truth is told of a write before the engine is called and of its end after, so that
//!   [`Driver::bounds`] before and after a step bracket every crash inside it.
//! - It works on any `Env` and never looks at a clock.

mod copies;
mod door;
mod open;
mod reads;
mod run;
mod slots;
mod verdict;
mod writes;

pub use door::Door;
pub use open::{Recovered, accepts, options};
pub use run::{Failure, run};
pub use verdict::{Mismatch, Outcome, Tolerance};

use crate::config::Config;
use crate::durable::{Bounds, Truth};
use crate::ops::{Op, SLOTS};
use kiban::WriteBatch;
use kiban::env::Env;
use slots::{HeldIter, HeldSlices, HeldSnapshot};
use std::path::PathBuf;

/// Commits after which old cuts are folded away at the start of a step.
const CUTS_MAX: u64 = 8192;

/// Engine and oracle, side by side.
pub struct Driver {
    env: Env,
    dir: PathBuf,
    config: Config,
    db: Option<Door>,
    /// What the engine should hold, and what a crash may leave of it.
    pub truth: Truth,
    /// Which errors are no mismatch.
    pub tolerance: Tolerance,
    /// Grows with each open; what was made by an older handle answers `Closed`.
    epoch: u64,
    /// Runs there may be: the stop threshold, or what an open with a lower one found.
    runs_max: u64,
    /// Bytes of the largest write since the open.
    write_bytes_max: u64,
    snapshots: [Option<HeldSnapshot>; SLOTS],
    iters: [Option<HeldIter>; SLOTS],
    slices: HeldSlices,
    copies: u64,
    batch: WriteBatch,
    value: Vec<u8>,
}

impl Driver {
    /// What a crash now may leave.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.truth.bounds()
    }

    /// The engine, while it is open.
    #[must_use]
    pub fn db(&self) -> Option<&Door> {
        self.db.as_ref()
    }

    /// The options that it was last opened with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Does one operation on both sides. `Outcome::Failed` is an error that the tolerance admits.
    ///
    /// # Errors
    /// The first difference.
    pub fn step(&mut self, op: &Op) -> Result<Outcome, Mismatch> {
        if self.bounds().issued - self.truth.base() > CUTS_MAX {
            self.truth.forget(self.oldest_seq());
        }
        let outcome = self.dispatch(op);
        outcome.map_err(|mismatch| mismatch.during(op))
    }

    fn dispatch(&mut self, op: &Op) -> Result<Outcome, Mismatch> {
        match op {
            Op::IterWalk { slot, walk } => return self.iter_walk(*slot, *walk),
            Op::IterSeek { slot, key, back, walk } => {
                self.iter_seek(*slot, key, *back);
                return self.iter_walk(*slot, *walk);
            }
            Op::IterDrop { slot } => return self.iter_drop(*slot),
            Op::SnapDrop { slot } => return self.snap_drop(*slot),
            Op::Reopen { by_drop, changes } => return self.reopen(*by_drop, changes),
            Op::Close => return self.close(),
            Op::ReadOnly => return self.read_only(),
            _ => {}
        }
        if let Outcome::Failed(error) = self.ensure_open()? {
            return Ok(Outcome::Failed(error));
        }
        match op {
            Op::Put { key, value, durable } => self.put(key, value, *durable),
            Op::Delete { key, durable } => self.delete(key, *durable),
            Op::Batch { records, durable } => self.write(records, *durable),
            Op::Sync => self.sync(),
            Op::Get { key, view } => self.get(key, *view),
            Op::GetWith { key, view } => self.get_with(key, *view),
            Op::MultiGet { keys, view } => self.multi_get(keys, *view),
            Op::Scan { span, view, walk } => self.scan(span, *view, *walk),
            Op::IterOpen { slot, span, view } => self.iter_open(*slot, span, *view),
            Op::SnapOpen { slot } => self.snap_open(*slot),
            Op::Flush => self.flush(),
            Op::Compact { lo, hi } => self.compact(lo, hi),
            Op::Step => self.maintain_step(),
            Op::SecondOpen => self.second_open(),
            Op::Verify => self.verify(),
            Op::Stats => self.stats(),
            Op::Checkpoint => self.copy(copies::Copy::Checkpoint),
            Op::Backup => self.copy(copies::Copy::Backup),
            Op::IterWalk { .. }
            | Op::IterSeek { .. }
            | Op::IterDrop { .. }
            | Op::SnapDrop { .. }
            | Op::Reopen { .. }
            | Op::Close
            | Op::ReadOnly => unreachable!("dispatched above"),
        }
    }

    /// The oldest sequence that a held view may still ask for.
    fn oldest_seq(&self) -> u64 {
        let snapshots = self.snapshots.iter().flatten().map(|held| held.seq);
        let iters = self.iters.iter().flatten().map(|held| held.seq);
        snapshots.chain(iters).min().unwrap_or(u64::MAX)
    }

    fn open_db(&self) -> &Door {
        self.db.as_ref().expect("invariant: an operation that needs a handle opens one first")
    }

    fn open_db_mut(&mut self) -> &mut Door {
        self.db.as_mut().expect("invariant: an operation that needs a handle opens one first")
    }
}
