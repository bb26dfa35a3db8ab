//! The whole trace on the simulated disk, its values cut down, with crash images along it.
//!
//! Invariants
//! - One database lives through the whole trace; each image is recovered and compared whole with
//!   the states that the trace up to there admits.
//! - Which moments become images is decided by the seed and by how many images there are so far, so
//!   that a trace of any length gets its share and a run repeats.
//!
//! Values are cut because the disk and each image are in memory; which keys are written, read and
//! overwritten, and in what order, is the trace's.

use super::super::interrupt::Interrupt;
use super::super::progress::Progress;
use super::{Task, config};
use crate::case::after_plan;
use crate::check::{Broken, Examiner, Shares};
use crate::disk::Disk;
use crate::life::{Birth, Life, Slip, Window};
use crate::report::{Failure, Report};
use crate::scene::{Image, Scene};
use crate::shrink::shrink;
use crate::sim::{Look, Shot};
use crate::tally::Tally;
use kiban_model::durable::CrashClass;
use kiban_model::generate::{Mix, Plan, Seed, Source};
use kiban_model::ops::Op;
use kiban_model::value::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Options of a database of this size: some hundred flushes in a trace of a hundred thousand
/// operations, a few runs at any moment.
const OPTIONS: &[(&str, u64)] = &[
    ("memtable_bytes", 32 << 10),
    ("log_bytes", 32 << 10),
    ("log_budget_bytes", 128 << 10),
    ("block_bytes", 1024),
    ("restart_interval", 8),
    ("table_bytes_max", 64 << 10),
    ("cache_bytes", 64 << 10),
    ("open_files_max", 64),
    ("tier_runs", 3),
    ("runs_stop", 8),
    ("compaction_slice_bytes", 128 << 10),
    ("manifest_bytes_max", 16 << 10),
];

/// A value of so many bytes becomes one byte.
const SHRINK: u32 = 512;
/// Literal values are cut to this.
const LITERAL_BYTES_MAX: usize = 64;
/// Images to aim at, where the trace has writes enough.
const IMAGES: u64 = 12_000;
/// One write in so many is made durable, so that there is something that no crash may take.
const DURABLE_EVERY: usize = 16;

/// Runs the trace and adds what was counted to `report`.
pub fn run(task: &Task, report: &mut Report, interrupt: &Interrupt, progress: &mut Progress) {
    let ops: Vec<Op> = task.case.ops.iter().enumerate().map(|(at, op)| small(at, op)).collect();
    let mut tally = Tally::default();
    let ended = Run::new(task, &ops).all(&mut tally, report, interrupt, progress);
    tally.totals.ops = 0;
    report.totals.absorb(&tally.totals);
    report.digest = format!("{:016x}", tally.digest);
    if let Err(broken) = ended {
        let failure = failure(task, report, &broken);
        report.add_failure(failure);
    }
}

/// After so long a shrink ends with what it has.
const SHRINK_LIMIT: Duration = Duration::from_secs(60);

fn failure(task: &Task, report: &Report, broken: &Broken) -> Failure {
    let config = config(task, OPTIONS);
    let shrunk = shrink(task.seed, &config, broken, SHRINK_LIMIT);
    let Slip { promise, what, expected, got } = shrunk.broken.slip.clone();
    Failure {
        promise,
        what: format!("on the simulated disk, {what}"),
        seed: task.seed,
        revision: report.revision.clone(),
        ops: broken.sections.iter().map(|section| section.ops.len() as u64).sum(),
        shrunk_ops: shrunk.script.ops(),
        shrunk: shrunk.script.to_string(),
        at: shrunk.broken.place.clone(),
        events: shrunk.broken.events.clone(),
        expected,
        got,
        ..Failure::default()
    }
}

/// The operation with its value cut.
fn small(at: usize, op: &Op) -> Op {
    let mut op = op.clone();
    if let Op::Put { value, durable, .. } = &mut op {
        *durable |= at.is_multiple_of(DURABLE_EVERY);
        match value {
            Value::Made { len, .. } => *len = len.div_ceil(SHRINK),
            Value::Bytes(bytes) => bytes.truncate(LITERAL_BYTES_MAX),
        }
    }
    op
}

struct Run<'a> {
    task: &'a Task,
    ops: &'a [Op],
    source: Seed,
    /// Writes so far, and in all.
    written: u64,
    to_write: u64,
}

impl<'a> Run<'a> {
    fn new(task: &'a Task, ops: &'a [Op]) -> Self {
        let to_write = ops.iter().filter(|op| op.is_write()).count().max(1) as u64;
        Self { task, ops, source: Seed(task.seed ^ 0x0074_7261_6365), written: 0, to_write }
    }

    fn all(
        mut self,
        tally: &mut Tally,
        report: &Report,
        interrupt: &Interrupt,
        progress: &mut Progress,
    ) -> Result<(), Box<Broken>> {
        let plan = after_plan(&Plan::new(&mut self.source, Mix::Standard));
        // Options drawn at random are for databases of a few keys.
        let shares = Shares { vary: 0, ..Shares::STANDARD };
        let (seed, known) = (self.task.seed, BTreeMap::new());
        let mut examiner = Examiner { tally, plan: &plan, shares, seed, known };
        let config = config(self.task, OPTIONS);
        let birth = Birth { disk: Disk::new(), seed, config, faults: &[], after: None };
        let begun = Life::begin(birth, examiner.tally, |_| {});
        let mut life = begun.map_err(|slip| Broken::uncrashed(slip, &[], &[], None))?;
        for (at, op) in self.ops.iter().enumerate() {
            if at % 512 == 0 {
                let mut so_far = report.totals.clone();
                so_far.absorb(&examiner.tally.totals);
                progress.update((self.ops.len() + at) as u64, &so_far, report.failures_all);
                if interrupt.wished() {
                    return Ok(());
                }
            }
            let look = self.is_behind(op, examiner.tally.totals.images);
            life.sim.look(if look { Look::Once } else { Look::Away });
            let window = life.step(at as u32 + 1, op, examiner.tally);
            let window = window
                .map_err(|slip| Broken::uncrashed(slip, &[], &self.ops[..=at], Some(&life)))?;
            if let Some(shot) = life.sim.take().pop() {
                self.image(&mut examiner, &life, &shot, &window, at + 1)?;
            }
        }
        let closed = life.step(self.ops.len() as u32 + 1, &reopen(), examiner.tally);
        closed.map_err(|slip| Broken::uncrashed(slip, &[], self.ops, Some(&life)))?;
        let audited = life.driver.audit().map_err(Slip::from);
        audited.map_err(|slip| Broken::uncrashed(slip, &[], self.ops, Some(&life)))?;
        examiner.tally.totals.cases += 1;
        examiner.tally.mix(life.sim.disk(|disk| disk.content_hash()));
        Ok(())
    }

    /// Whether this operation should give an image, for their number to end where it is aimed at.
    fn is_behind(&mut self, op: &Op, images: u64) -> bool {
        self.written += u64::from(op.is_write());
        images * self.to_write < IMAGES * self.written
    }

    fn image(
        &mut self,
        examiner: &mut Examiner<'_>,
        life: &Life,
        shot: &Shot,
        window: &Window,
        done: usize,
    ) -> Result<(), Box<Broken>> {
        let kill = self.source.chance(1, 6);
        let class = if kill { CrashClass::Kill } else { CrashClass::Power };
        let image = Image::draw(shot, class, &mut self.source);
        let scene = Scene::new(life, window, &self.ops[..done]);
        scene.examine(shot, image, examiner)
    }
}

fn reopen() -> Op {
    Op::Reopen { by_drop: false, changes: Vec::new() }
}
