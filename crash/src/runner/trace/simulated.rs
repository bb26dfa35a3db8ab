//! The whole trace on the simulated disk, its values cut down, with crash images along it.
//!
//! Invariants
//! - One database lives through the whole trace; each image is recovered and compared whole with
//!   the states that the trace up to there admits.
//! - Which moments become images is decided by the seed and by how many images there are so far, so
//!   that a trace of any length gets its share and a run repeats.
//! - Images are examined some at a time, in lanes, each on a thread of its own; which lane an image
//!   goes to is decided by its number, and the number of lanes is fixed, so that a run repeats.
//!
//! Values are cut because the disk and each image are in memory; which keys are written, read and
//! overwritten, and in what order, is the trace's.

use super::{Board, Task, config};
use crate::case::after_plan;
use crate::check::{Broken, Examiner, Shares, Subject, Trail};
use crate::disk::Disk;
use crate::life::{Birth, Life, Slip, Window};
use crate::report::{Failure, Report, Totals};
use crate::scene::Image;
use crate::script::Crash;
use crate::shrink::shrink;
use crate::sim::{Look, Shot};
use crate::tally::Tally;
use kiban_model::config::Config;
use kiban_model::durable::{CrashClass, Truth};
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
/// Images that are examined at a time. Few, for each keeps the oracle from folding its past.
const BATCH: usize = 16;
const LANES: usize = 2;
/// One write in so many is made durable, so that there is something that no crash may take.
const DURABLE_EVERY: usize = 16;

/// Runs the trace and adds what was counted to `report`.
pub(super) fn run(task: &Task, report: &mut Report, board: &Board<'_>, half: usize) {
    let ops: Vec<Op> = task.case.ops.iter().enumerate().map(|(at, op)| small(at, op)).collect();
    let mut tally = Tally::default();
    let mut run = Run::new(task, &ops);
    let ended = run.all(&mut tally, board, half);
    run.lanes.iter().for_each(|lane| tally.absorb(&lane.tally));
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

/// An image to examine, and what it may show.
struct Job<'a> {
    image: Image,
    truth: Truth,
    window: Window,
    shot: Shot,
    config: Config,
    /// The operations before the crash.
    ops: &'a [Op],
}

/// What one lane has counted, and the images that it has met.
#[derive(Default)]
struct Lane {
    tally: Tally,
    known: BTreeMap<(u64, CrashClass), (u64, u64)>,
}

struct Run<'a> {
    task: &'a Task,
    ops: &'a [Op],
    jobs: Vec<Job<'a>>,
    lanes: [Lane; LANES],
    source: Seed,
    /// Writes so far, and in all.
    written: u64,
    to_write: u64,
}

impl<'a> Run<'a> {
    fn new(task: &'a Task, ops: &'a [Op]) -> Self {
        let to_write = ops.iter().filter(|op| op.is_write()).count().max(1) as u64;
        let source = Seed(task.seed ^ 0x0074_7261_6365);
        let (jobs, lanes) = (Vec::new(), Default::default());
        Self { task, ops, jobs, lanes, source, written: 0, to_write }
    }

    fn all(
        &mut self,
        tally: &mut Tally,
        board: &Board<'_>,
        half: usize,
    ) -> Result<(), Box<Broken>> {
        let plan = after_plan(&Plan::new(&mut self.source, Mix::Standard));
        let (config, seed) = (config(self.task, OPTIONS), self.task.seed);
        let birth = Birth { disk: Disk::new(), seed, config, faults: &[], after: None };
        let begun = Life::begin(birth, tally, |_| {});
        let mut life = begun.map_err(|slip| Broken::uncrashed(slip, &[], &[], None))?;
        for (at, op) in self.ops.iter().enumerate() {
            if at % 512 == 0 {
                let mut totals = Totals { ops: 0, ..tally.totals.clone() };
                self.lanes.iter().for_each(|lane| totals.absorb(&lane.tally.totals));
                if !board.update(half, at, &totals, 0) {
                    return Ok(());
                }
            }
            let look = self.is_behind(op);
            life.sim.look(if look { Look::Once } else { Look::Away });
            let window = life.step(at as u32 + 1, op, tally);
            let window = window
                .map_err(|slip| Broken::uncrashed(slip, &[], &self.ops[..=at], Some(&life)))?;
            if let Some(shot) = life.sim.take().pop() {
                self.image(&life, shot, window, at + 1);
            }
            if self.jobs.len() == BATCH {
                self.examine(&plan)?;
            }
        }
        self.examine(&plan)?;
        let closed = life.step(self.ops.len() as u32 + 1, &reopen(), tally);
        closed.map_err(|slip| Broken::uncrashed(slip, &[], self.ops, Some(&life)))?;
        let audited = life.driver.audit().map_err(Slip::from);
        audited.map_err(|slip| Broken::uncrashed(slip, &[], self.ops, Some(&life)))?;
        tally.totals.cases += 1;
        tally.mix(life.sim.disk(|disk| disk.content_hash()));
        Ok(())
    }

    /// Whether this operation should give an image, for their number to end where it is aimed at.
    fn is_behind(&mut self, op: &Op) -> bool {
        self.written += u64::from(op.is_write());
        let counted: u64 = self.lanes.iter().map(|lane| lane.tally.totals.images).sum();
        let images = counted + self.jobs.len() as u64;
        images * self.to_write < IMAGES * self.written
    }

    /// Draws an image of this moment.
    fn image(&mut self, life: &Life, shot: Shot, mut window: Window, done: usize) {
        let kill = self.source.chance(1, 6);
        let class = if kill { CrashClass::Kill } else { CrashClass::Power };
        let image = Image::draw(&shot, class, &mut self.source);
        let truth = window.truth.take().map_or_else(|| life.driver.truth.clone(), |truth| *truth);
        let (config, ops) = (life.driver.config().clone(), &self.ops[..done]);
        self.jobs.push(Job { image, truth, window, shot, config, ops });
    }

    /// Examines the images drawn so far. Of several broken promises the earliest image's is told.
    fn examine(&mut self, plan: &Plan) -> Result<(), Box<Broken>> {
        // Options drawn at random are for databases of a few keys, and to read a database of this
        // size in every way takes as long as ten images.
        let shares = Shares { vary: 0, audit: 1, ..Shares::STANDARD };
        let seed = self.task.seed;
        let mut jobs: [Vec<(usize, Job<'a>)>; LANES] = Default::default();
        for (at, job) in self.jobs.drain(..).enumerate() {
            jobs[at % LANES].push((at, job));
        }
        let run = |lane: &mut Lane, jobs: Vec<(usize, Job<'a>)>| {
            let known = std::mem::take(&mut lane.known);
            let mut examiner = Examiner { tally: &mut lane.tally, plan, shares, seed, known };
            let mut jobs = jobs.into_iter();
            let broken = jobs.find_map(|(at, job)| Some((at, job.examine(&mut examiner).err()?)));
            lane.known = examiner.known;
            broken
        };
        let mut broken = std::thread::scope(|scope| {
            let lanes = self.lanes.iter_mut().zip(jobs);
            let lanes: Vec<_> = lanes.map(|(l, jobs)| scope.spawn(|| run(l, jobs))).collect();
            let ended = lanes.into_iter().map(|lane| lane.join().expect("a slip is no panic"));
            ended.flatten().collect::<Vec<_>>()
        });
        broken.sort_by_key(|(at, _)| *at);
        broken.into_iter().next().map_or(Ok(()), |(_, broken)| Err(broken))
    }
}

impl Job<'_> {
    fn examine(self, examiner: &mut Examiner<'_>) -> Result<(), Box<Broken>> {
        let Self { image, truth, window, shot, config, ops } = self;
        let Image { class, choice, disk, hash } = image;
        examiner.tally.mix(hash);
        let crash = Crash { class, step: shot.step, point: shot.point, choice };
        let trail = Trail { before: None, changes: &[], faults: &[], ops, crash, shot: &shot };
        examiner.examine(Subject {
            disk,
            hash,
            truth: &truth,
            bounds: window.bounds,
            acked: window.acked,
            class,
            stage: shot.stage,
            config: &config,
            trail: &trail,
            depth: 1,
            age: ops.len() as u64,
            torn_batch: false,
        })
    }
}

fn reopen() -> Op {
    Op::Reopen { by_drop: false, changes: Vec::new() }
}
