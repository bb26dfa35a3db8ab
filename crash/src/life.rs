//! One process: from its open to its end, engine and oracle in lockstep on a simulated disk.
//!
//! Invariants
//! - Whatever the engine does wrong comes back as a [`Slip`]: a panic, a changed file under a map,
//!   a difference.
//! - [`Window`] brackets a step: an image of any moment in it shows a cut of the window's truth
//!   within the window's bounds. A step that opens the database keeps the truth from before it, for
//!   an open decides what was in doubt, and an image of a moment before that does not know.
//! - An error is admitted only where faults are injected, and a fault's outcome goes into the
//!   matrix only where it was the step's only one.
//!
//! It takes no images and knows no crash but the one that it begins with.

use crate::counters::Counter;
use crate::disk::{Disk, Errno, Fault, Injected, Op as Call, Rule};
use crate::evidence;
use crate::pool::panic_text;
use crate::sim::Sim;
use crate::stages::{Column, Outcome as Ending};
use crate::tally::Tally;
use kiban::Error;
use kiban_model::config::Config;
use kiban_model::driver::{Driver, Mismatch, Outcome, Recovered, Tolerance};
use kiban_model::durable::{Bounds, CrashClass, Truth};
use kiban_model::ops::{Op, Record, Span, View};
use kiban_model::oracle::NEWEST;
use kiban_model::value::Value;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Something that went wrong, without the story that led to it.
#[derive(Clone, Debug)]
pub struct Slip {
    /// The promise.
    pub promise: String,
    /// One line on what went wrong.
    pub what: String,
    /// What was expected.
    pub expected: String,
    /// What came.
    pub got: String,
}

impl From<Mismatch> for Slip {
    fn from(mismatch: Mismatch) -> Self {
        let Mismatch { promise, op, expected, got } = mismatch;
        let what = match (promise, &*op) {
            (_, "") => "what recovery shows".to_owned(),
            (_, op) => format!("the answer of `{}`", op.split(' ').next().unwrap_or(op)),
        };
        Self { promise: promise.to_owned(), what, expected, got }
    }
}

/// What an image of a moment within a step may show.
pub struct Window {
    /// The bounds.
    pub bounds: Bounds,
    /// The newest cut that had returned before the step.
    pub acked: u64,
    /// The truth that the bounds are of, where it is not the driver's own any more.
    pub truth: Option<Box<Truth>>,
    /// How the step ended.
    pub outcome: Outcome,
}

impl Window {
    /// The creation of a database.
    #[must_use]
    pub fn of_birth() -> Self {
        let fresh = Box::new(Truth::default());
        Self { bounds: fresh.bounds(), acked: 0, truth: Some(fresh), outcome: Outcome::Done }
    }
}

/// How a life begins.
pub struct Birth<'a> {
    /// What the process finds.
    pub disk: Disk,
    /// Decides the engine's ids.
    pub seed: u64,
    /// How it opens the database.
    pub config: Config,
    /// Faults to come.
    pub faults: &'a [Rule],
    /// What it may find, and the crash before it; `None` where nothing was there.
    pub after: Option<(&'a Truth, Bounds, CrashClass)>,
}

/// A process.
pub struct Life {
    /// Its world.
    pub sim: Sim,
    /// Engine and oracle.
    pub driver: Box<Driver>,
    /// Whether errors are admitted.
    pub faulty: bool,
    injected: usize,
    /// A write was refused for want of space.
    full: bool,
    /// Compactions when the newest snapshot was taken.
    snapshot_at: Option<u64>,
    /// Whether the open answered with an error first.
    pub refused_once: bool,
}

impl Life {
    /// Creates a database, or recovers one: step 0. `ready` sees the world before it begins.
    ///
    /// # Errors
    /// A broken promise.
    pub fn begin(
        birth: Birth<'_>,
        tally: &mut Tally,
        ready: impl FnOnce(&Sim),
    ) -> Result<Self, Slip> {
        let trace = birth.after.map_or(0, |_| evidence::highest_trace(&birth.disk));
        let sim = Sim::new(birth.disk, birth.seed);
        sim.set_faults(birth.faults);
        ready(&sim);
        sim.begin(0);
        let faulty = !birth.faults.is_empty();
        let tolerance = Tolerance { io: faulty, ..Tolerance::default() };
        let open = |truth: Truth, bounds, class, tolerance| {
            let config = birth.config.clone();
            caught(|| {
                Driver::recover(sim.env(), sim.dir(), config, truth, bounds, class, tolerance)
                    .map_err(Slip::from)
            })
        };
        let fresh = Truth::default();
        let (truth, bounds, class) =
            birth.after.unwrap_or((&fresh, fresh.bounds(), CrashClass::Power));
        let mut refused_once = false;
        let driver = match open(truth.clone(), bounds, class, tolerance)? {
            Recovered::Open(driver) => driver,
            Recovered::Refused(truth, _) => {
                refused_once = true;
                note_faults(&sim, &mut 0, tally, Ending::Refused);
                sim.set_faults(&[]);
                sim.disk(|disk| {
                    // A lie about the directory's own name ends with the process only.
                    let lied = |f: &Injected| matches!(f.fault, Fault::DirLie(_));
                    if disk.injected().iter().any(lied) {
                        disk.restart();
                    }
                });
                tally.counters.fire(Counter::OpenRefused);
                match open(*truth, bounds, class, Tolerance::default())? {
                    Recovered::Open(driver) => driver,
                    Recovered::Refused(_, error) => return Err(refusal(&error)),
                }
            }
        };
        let mut injected = if refused_once { sim.disk(|disk| disk.injected().len()) } else { 0 };
        note_faults(&sim, &mut injected, tally, Ending::Absorbed);
        let (full, snapshot_at) = (false, None);
        let mut life = Self { sim, driver, faulty, injected, full, snapshot_at, refused_once };
        life.driver.tolerance = tolerance;
        life.above_traces(trace)?;
        life.check_disk()?;
        Ok(life)
    }

    /// C2: the recovery goes on above every sequence of which its logs held a trace.
    fn above_traces(&self, trace: u64) -> Result<(), Slip> {
        let ratchet = self.driver.db().map_or(u64::MAX, |db| db.stats().flushed_sequence);
        if ratchet >= trace {
            return Ok(());
        }
        Err(Slip {
            promise: "C2".to_owned(),
            what: "the sequences after a recovery".to_owned(),
            expected: format!("above {trace}, of which a log has a trace"),
            got: format!("above {ratchet}"),
        })
    }

    /// Does one operation, as step number `step`.
    ///
    /// # Errors
    /// A broken promise.
    pub fn step(&mut self, step: u32, op: &Op, tally: &mut Tally) -> Result<Window, Slip> {
        self.sim.begin(step);
        let before = self.driver.bounds();
        let acked = self.driver.truth.acknowledged();
        let opens = matches!(op, Op::Reopen { .. } | Op::ReadOnly) || self.driver.db().is_none();
        let truth = opens.then(|| Box::new(self.driver.truth.clone()));
        let poisoned = self.is_poisoned();
        if opens {
            self.harvest(tally);
        }
        let outcome = caught(|| self.driver.step(op).map_err(Slip::from))?;
        let now_poisoned = self.is_poisoned();
        let ending = match (&outcome, now_poisoned && !poisoned) {
            (_, true) => Ending::Poisoned,
            (Outcome::Failed(_), _) => Ending::Refused,
            (Outcome::Done, _) => Ending::Absorbed,
        };
        let faults = note_faults(&self.sim, &mut self.injected, tally, ending);
        self.count_faults(op, ending, &faults, tally);
        if let Outcome::Done = outcome {
            self.count_done(op, poisoned, tally);
        }
        if let Some(pending) = truth.as_ref().filter(|truth| truth.pending().is_some()) {
            self.count_doubt(pending.bounds().issued, tally);
        }
        let after = self.driver.bounds();
        let mut bounds = if truth.is_some() { before } else { Bounds::during(before, after) };
        bounds.floor_kill = before.floor_kill.min(after.floor_kill);
        if opens && self.faulty {
            bounds.floor_kill = before.floor;
        }
        self.check_disk()?;
        Ok(Window { bounds, acked, truth, outcome })
    }

    /// Whether the handle takes no more writes.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.driver.db().is_some_and(|db| db.poisoned().is_some())
    }

    /// What no engine may do, whatever the disk does.
    fn check_disk(&self) -> Result<(), Slip> {
        self.sim.disk(|disk| match disk.violations().first() {
            None => Ok(()),
            Some(violation) => Err(Slip {
                promise: "C1".to_owned(),
                what: "a call that no engine may make".to_owned(),
                expected: "no change of a file with a live map".to_owned(),
                got: violation.to_string(),
            }),
        })
    }

    /// What an operation that succeeded proves.
    fn count_done(&mut self, op: &Op, was_poisoned: bool, tally: &mut Tally) {
        let counters = &mut tally.counters;
        let Some(db) = self.driver.db() else { return };
        if was_poisoned && matches!(op, Op::Get { .. } | Op::MultiGet { .. } | Op::Scan { .. }) {
            counters.fire(Counter::PoisonedReads);
        }
        match op {
            Op::Get { view: View::Snapshot(_), .. } | Op::Scan { view: View::Snapshot(_), .. }
                if self.snapshot_at.is_some_and(|then| db.stats().compactions > then) =>
            {
                counters.fire(Counter::SnapshotHeld);
            }
            Op::SnapOpen { .. } => self.snapshot_at = Some(db.stats().compactions),
            Op::Reopen { .. } | Op::Close | Op::ReadOnly => self.snapshot_at = None,
            Op::Compact { lo: Bound::Unbounded, hi: Bound::Unbounded } if !self.faulty => {
                let (stats, live) =
                    (db.stats(), self.driver.truth.oracle.scan(&Span::all(), NEWEST));
                let entries = db.verify().map_or(u64::MAX, |report| report.entries);
                if stats.snapshots == 0 && entries == live.count() as u64 && stats.records > entries
                {
                    counters.fire(Counter::BottomMerged);
                }
            }
            _ => {}
        }
        if op.is_write() {
            if std::mem::take(&mut self.full) {
                counters.fire(Counter::DiskFull);
            }
            let len = |record: &Record| record.value.as_ref().map_or(0, Value::len) as u64;
            let is_large = |bytes: u64| bytes > self.driver.config().memtable_bytes;
            if matches!(op, Op::Batch { records, .. } if is_large(records.iter().map(len).sum())) {
                counters.fire(Counter::LargeBatch);
            }
        }
    }

    /// What became of a write that had answered with an error.
    fn count_doubt(&self, issued: u64, tally: &mut Tally) {
        if self.driver.db().is_some() {
            let shown = self.driver.truth.acknowledged() == issued;
            let counter = if shown { Counter::LandedWriteShown } else { Counter::LandedWriteGone };
            tally.counters.fire(counter);
        }
    }

    /// What the engine counted since it was opened.
    pub fn harvest(&self, tally: &mut Tally) {
        let Some(stats) = self.driver.db().map(kiban_model::driver::Door::stats) else { return };
        for (count, counter) in [
            (stats.manifests, Counter::ManifestRolled),
            (stats.stalls, Counter::Stalled),
            (stats.maintenance_retries, Counter::BuildRetried),
        ] {
            tally.counters.add(counter, count);
        }
    }

    fn count_faults(&mut self, op: &Op, ending: Ending, faults: &[Injected], tally: &mut Tally) {
        let counters = &mut tally.counters;
        for fault in faults {
            let of = |path: &str| fault.path.ends_with(path);
            match (ending, fault.op) {
                (Ending::Poisoned, Call::SyncDir) => counters.fire(Counter::DirSyncPoisoned),
                (Ending::Poisoned, _) if of(".manifest") => {
                    counters.fire(Counter::ManifestPoisoned);
                }
                (Ending::Poisoned, Call::Write) if of(".log") => {
                    counters.fire(Counter::AppendPoisoned);
                }
                (Ending::Poisoned, call) if call.syncs() && of(".log") => {
                    counters.fire(Counter::SyncPoisoned);
                }
                (Ending::Refused, _) if is_full(fault.fault) && op.is_write() => self.full = true,
                (Ending::Refused, Call::Read | Call::Map | Call::Open) => {
                    counters.fire(Counter::ReadFailed);
                }
                (Ending::Absorbed, Call::Preallocate) if fault.fault == NO_PREALLOCATION => {
                    counters.fire(Counter::NoPreallocation);
                }
                (Ending::Absorbed, _) if fault.fault == Fault::Short => {
                    counters.fire(Counter::ShortCall);
                }
                _ => {}
            }
            if matches!(fault.fault, Fault::Landed(_)) {
                counters.fire(Counter::EffectLanded);
            }
        }
    }
}

const NO_PREALLOCATION: Fault = Fault::Error(Errno::EOPNOTSUPP);

fn is_full(fault: Fault) -> bool {
    matches!(fault, Fault::Error(Errno::ENOSPC | Errno::EDQUOT) | Fault::Half(_))
}

/// What was injected since `known`; it goes into the matrix where it was one fault alone.
fn note_faults(sim: &Sim, known: &mut usize, tally: &mut Tally, ending: Ending) -> Vec<Injected> {
    let new = sim.disk(|disk| disk.injected()[*known..].to_vec());
    *known += new.len();
    tally.totals.errors_injected += new.len() as u64;
    if let [only] = &new[..] {
        tally.matrix.hit(only.stage, Column::of(only.fault), ending);
    }
    new
}

/// Runs `f`; a panic in it is a slip.
///
/// # Errors
/// Its own, or the panic.
pub fn caught<R>(f: impl FnOnce() -> Result<R, Slip>) -> Result<R, Slip> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(panic) => Err(Slip {
            promise: "-".to_owned(),
            what: "a panic".to_owned(),
            expected: "none, whatever the disk does".to_owned(),
            got: panic_text(&*panic),
        }),
    }
}

fn refusal(error: &Error) -> Slip {
    Slip {
        promise: "D1".to_owned(),
        what: "the open after a failed open".to_owned(),
        expected: "the database opens once nothing fails any more".to_owned(),
        got: error.to_string(),
    }
}
