//! From a crash image to a verdict: recovered, compared whole, used, verified, crashed again.
//!
//! Invariants
//! - An image is counted once all of it is done: recovered by a fresh engine and compared with
//!   every state that the crash may leave (D1, D2, D3, A1), used in lockstep, every file verified.
//!   Images taken inside or after a recovery are counted apart.
//! - What was decided stays (D4): an image of a power cut holds nothing that is not durable, so a
//!   recovery that is cut short decides nothing else than the one before it; after an open has
//!   returned, its decision is the only floor.
//! - What an examination does depends on its seed and on the image's content alone, so equal images
//!   are examined once, and a duplicate only has its state admitted.
//!
//! It chooses no image of a running case: `case` does.

use crate::counters::Counter;
use crate::disk::{Disk, Rule};
use crate::evidence;
use crate::life::{Birth, Life, Slip, Window, caught};
use crate::scene::Image;
use crate::script::{Crash, Section};
use crate::sim::{Look, Shot, fold};
use crate::stages::{Column, Outcome};
use crate::tally::Tally;
use kiban_model::config::Config;
use kiban_model::durable::{Bounds, CrashClass, Truth};
use kiban_model::generate::{Plan, Seed, Source};
use kiban_model::ops::Op;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A broken promise, with everything that led to it.
#[derive(Clone, Debug)]
pub struct Broken {
    /// What went wrong.
    pub slip: Slip,
    /// The lives so far, the last one without a crash.
    pub sections: Vec<Section>,
    /// Where the last crash fell, in words.
    pub place: String,
    /// The last calls.
    pub events: Vec<String>,
}

impl Broken {
    /// A promise that broke in the first life, without a crash.
    #[must_use]
    pub fn uncrashed(slip: Slip, faults: &[Rule], ops: &[Op], life: Option<&Life>) -> Box<Self> {
        let section = Section { faults: faults.to_vec(), ops: ops.to_vec(), ..Section::default() };
        let events = life.map(|life| life.sim.events()).unwrap_or_default();
        let place = "without a crash".to_owned();
        Box::new(Self { slip, sections: vec![section], place, events })
    }
}

/// The lives before this one. Borrowed, for nearly all of them are never told.
pub struct Trail<'a> {
    /// The lives before the one that crashed.
    pub before: Option<&'a Trail<'a>>,
    /// Options that the life that crashed had changed.
    pub changes: &'a [(&'static str, u64)],
    /// Its faults.
    pub faults: &'a [Rule],
    /// What it had done, the step under way included.
    pub ops: &'a [Op],
    /// How it ended.
    pub crash: Crash,
    /// The moment.
    pub shot: &'a Shot,
}

impl Trail<'_> {
    /// The lives as they are written down.
    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let mut sections = self.before.map(Trail::sections).unwrap_or_default();
        sections.push(Section {
            changes: self.changes.to_vec(),
            faults: self.faults.to_vec(),
            ops: self.ops.to_vec(),
            crash: Some(self.crash.clone()),
        });
        sections
    }

    /// Whether faults were injected in any of them.
    fn is_faulty(&self) -> bool {
        !self.faults.is_empty() || self.before.is_some_and(Trail::is_faulty)
    }

    /// Where the crashes fell, in words.
    #[must_use]
    pub fn place(&self) -> String {
        let before = self.before.map(|trail| trail.place() + "; then ").unwrap_or_default();
        let Crash { class, step, point, .. } = self.crash;
        let place = self.shot.place();
        format!("{before}{} at {step}.{point}, {place}", crate::script::class_name(class))
    }
}

/// How often, in 64ths of the images, more than the common is done.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Crashed again inside the recovery.
    pub inside: u64,
    /// Crashed again after the recovery.
    pub after: u64,
    /// Closed and opened once more.
    pub reopen: u64,
    /// Read in every way there is.
    pub audit: u64,
    /// Recovered under other options.
    pub vary: u64,
    /// Recovered with faults.
    pub faults: u64,
    /// How deep crashes nest, 1 being an image of the first life.
    pub depth: u32,
}

impl Shares {
    /// The standard campaign's.
    pub const STANDARD: Self =
        Self { inside: 8, after: 8, reopen: 8, audit: 4, vary: 8, faults: 3, depth: 3 };
    /// The sweep's: one image a depth.
    pub const SWEEP: Self =
        Self { inside: 64, after: 0, reopen: 0, audit: 0, vary: 0, faults: 0, depth: 3 };
}

/// One image, and what is known of it.
pub struct Subject<'a> {
    /// The image.
    pub disk: Disk,
    /// Its content's hash.
    pub hash: u64,
    /// What it may show.
    pub truth: &'a Truth,
    /// Which cuts of that.
    pub bounds: Bounds,
    /// The newest cut that had returned before the crash.
    pub acked: u64,
    /// The crash.
    pub class: CrashClass,
    /// The stage in which it fell.
    pub stage: u8,
    /// How the database was last opened.
    pub config: &'a Config,
    /// The lives before.
    pub trail: &'a Trail<'a>,
    /// Crashes so far.
    pub depth: u32,
    /// Operations since the database was created.
    pub age: u64,
    /// Whether the frame of the batch under way was cut in two.
    pub torn_batch: bool,
}

/// Examines images of one case.
pub struct Examiner<'a> {
    /// Where is counted.
    pub tally: &'a mut Tally,
    /// Where operations are drawn from.
    pub plan: &'a Plan,
    /// How much is done.
    pub shares: Shares,
    /// The case's.
    pub seed: u64,
    /// Images whose content was examined before, by class, and the state that they showed.
    pub known: BTreeMap<(u64, CrashClass), (u64, u64)>,
}

/// What one life after a crash does.
#[derive(Clone, Debug, Default)]
struct Program {
    section: Section,
    inside: bool,
    after: bool,
}

impl Examiner<'_> {
    /// Examines an image, unless one of its content was examined before.
    ///
    /// # Errors
    /// A broken promise.
    pub fn examine(&mut self, subject: Subject<'_>) -> Result<(), Box<Broken>> {
        if subject.depth == 1
            && let Some(&(state, seq)) = self.known.get(&(subject.hash, subject.class))
            && let Some(cut) = subject.truth.admit_to(subject.bounds, subject.class, state, seq)
        {
            self.tally.totals.images_duplicate += 1;
            self.crash_cell(&About::of(&subject), cut);
            return Ok(());
        }
        let program = self.program(&subject);
        self.follow(subject, program)
    }

    /// What is done with an image: a function of its content and the seed.
    fn program(&self, subject: &Subject<'_>) -> Program {
        let source = &mut Seed(fold(self.seed, subject.hash ^ u64::from(subject.depth)));
        let deeper = subject.depth < self.shares.depth;
        let mut program = Program {
            inside: deeper && source.chance(self.shares.inside, 64),
            after: deeper && source.chance(self.shares.after, 64),
            ..Program::default()
        };
        let section = &mut program.section;
        if source.chance(self.shares.vary, 64) {
            for _ in 0..1 + source.below(3) {
                let field = source.below(Config::NAMES.len());
                let value = *source.pick(Config::CHOICES[field]);
                section.changes.push((Config::NAMES[field], value));
            }
        }
        if source.chance(self.shares.faults, 64) {
            section.faults = evidence::random_faults(source, 2);
        }
        let count = 2 + source.below(6);
        section.ops.extend((0..count).map(|_| self.plan.op(source)));
        section.ops.push(Op::Verify);
        if source.chance(self.shares.reopen, 64) {
            section.ops.push(Op::Reopen { by_drop: source.chance(1, 2), changes: Vec::new() });
        }
        program
    }

    /// Recovers the image and does with it what the program says.
    fn follow(&mut self, subject: Subject<'_>, program: Program) -> Result<(), Box<Broken>> {
        let Program { section, inside, after } = program;
        let Subject { truth, bounds, class, trail, depth, .. } = subject;
        let mut config = subject.config.clone();
        for (name, value) in &section.changes {
            config.set(name, *value);
        }
        let broken = |slip, done: usize, life: Option<&Life>| {
            let mut sections = trail.sections();
            sections.push(Section { ops: section.ops[..done].to_vec(), ..section.clone() });
            let events = life.map(|life| life.sim.events()).unwrap_or_default();
            Box::new(Broken { slip, sections, place: trail.place(), events })
        };
        let about = About::of(&subject);
        let birth = Birth {
            disk: subject.disk,
            seed: fold(self.seed, subject.hash),
            config,
            faults: &section.faults,
            after: Some((truth, bounds, class)),
        };
        let look = if inside { Look::Once } else { Look::Away };
        let begun = Life::begin(birth, self.tally, |sim| sim.look(look));
        let mut life = begun.map_err(|slip| broken(slip, 0, None))?;
        self.recovered(&life, &about);
        let inner = life.sim.take().pop();
        if let Some(shot) = inner {
            let next = Next { shot, done: 0, age: subject.age, depth: depth + 1 };
            let before = View { truth, bounds, acked: subject.acked };
            let views = views(&life, class, before, Some(trail));
            self.again(next, views, &life, trail, &section)?;
        }
        life.sim.look(if after && !life.faulty { Look::Once } else { Look::Away });
        let mut outer = None;
        for (done, op) in (1..).zip(&section.ops) {
            let window = life.step(done as u32, op, self.tally);
            let window = window.map_err(|slip| broken(slip, done, Some(&life)))?;
            if let Some(shot) = life.sim.take().pop() {
                outer = Some((shot, done, window));
            }
        }
        let age = subject.age + section.ops.len() as u64;
        if let Some((shot, done, Window { bounds, acked, truth, .. })) = outer {
            let truth = truth.as_deref().unwrap_or(&life.driver.truth);
            let next = Next { shot, done, age, depth: depth + 1 };
            self.again(next, [View { truth, bounds, acked }; 2], &life, trail, &section)?;
        }
        if Seed(about.hash).chance(self.shares.audit, 64) && !life.faulty {
            let audited = caught(|| life.driver.audit().map_err(Slip::from));
            audited.map_err(|slip| broken(slip, section.ops.len(), Some(&life)))?;
        }
        self.ended(life, &about, subject.age);
        Ok(())
    }

    /// What the recovery said and showed.
    fn recovered(&mut self, life: &Life, about: &About) {
        let Some(db) = life.driver.db() else { return };
        let (cut, counters) = (life.driver.truth.acknowledged(), &mut self.tally.counters);
        let report = db.recovery_report();
        counters.add(Counter::TailDropped, u64::from(report.dropped.is_some()));
        counters.add(Counter::RecoveryBuilt, u64::from(report.tables_built > 0));
        counters.add(Counter::OrphanRemoved, report.orphans_removed);
        match (about.depth, about.after_open) {
            (1, _) => {}
            (_, true) => counters.fire(Counter::CrashAfterRecovery),
            (2, false) => counters.fire(Counter::RecoveryCrashed),
            (_, false) => counters.fire(Counter::RecoveryCrashedTwice),
        }
        let state = life.driver.truth.state_hash();
        if !life.faulty {
            self.known.insert((about.hash, about.class), (state, report.last_sequence));
        }
        self.tally.mix(about.hash);
        self.tally.mix(state);
        self.crash_cell(about, cut);
    }

    fn crash_cell(&mut self, about: &About, cut: u64) {
        let outcome = match cut.cmp(&about.acked) {
            Ordering::Less => Outcome::Lost,
            Ordering::Equal => Outcome::Kept,
            Ordering::Greater => Outcome::Landed,
        };
        let counters = &mut self.tally.counters;
        match outcome {
            Outcome::Lost => counters.fire(Counter::TailLost),
            Outcome::Landed => counters.fire(Counter::InFlightKept),
            _ if about.class == CrashClass::Power && cut > about.floor => {
                counters.fire(Counter::TailKept);
            }
            _ => {}
        }
        if about.torn_batch && outcome != Outcome::Landed {
            counters.fire(Counter::BatchTorn);
        }
        // Once a call has failed, page cache and device may differ either way, in any stage; such
        // lives are told in the columns of their faults.
        if !about.faulty {
            self.tally.matrix.hit(about.stage, Column::Crash(about.class), outcome);
        }
    }

    /// Counts the image, and lets the process go.
    fn ended(&mut self, life: Life, about: &About, age: u64) {
        let runs = life.driver.db().map_or(0, |db| db.stats().runs);
        self.tally.mix(life.sim.seen(|seen| seen.schedule));
        if about.depth == 1 {
            self.tally.totals.count_image(age, runs as usize);
        } else {
            self.tally.totals.images_nested += 1;
        }
        evidence::of_stage(about.stage, &mut self.tally.counters);
        // The power goes before the handle does, so that its end costs nothing.
        life.sim.disk(|disk| disk.set_off(true));
    }

    /// Examines an image of a life after a crash; the views are of a killed process and of a power
    /// cut.
    fn again(
        &mut self,
        next: Next,
        views: [View<'_>; 2],
        life: &Life,
        trail: &Trail<'_>,
        section: &Section,
    ) -> Result<(), Box<Broken>> {
        let Next { shot, done, age, depth } = next;
        let source = &mut Seed(fold(self.seed, shot.snapshot.killed().content_hash()));
        let class = if source.chance(1, 4) { CrashClass::Kill } else { CrashClass::Power };
        let view = views[usize::from(class == CrashClass::Power)];
        let Image { choice, disk, hash, .. } = Image::draw(&shot, class, source);
        let crash = Crash { class, step: shot.step, point: shot.point, choice };
        let trail = Trail {
            before: Some(trail),
            changes: &section.changes,
            faults: &section.faults,
            ops: &section.ops[..done],
            crash,
            shot: &shot,
        };
        self.examine(Subject {
            disk,
            hash,
            truth: view.truth,
            bounds: view.bounds,
            acked: view.acked,
            class,
            stage: shot.stage,
            config: life.driver.config(),
            trail: &trail,
            depth,
            age,
            torn_batch: false,
        })
    }
}

/// What is kept of a subject once its disk is given away.
#[derive(Clone, Copy)]
struct About {
    hash: u64,
    stage: u8,
    acked: u64,
    floor: u64,
    class: CrashClass,
    depth: u32,
    torn_batch: bool,
    /// Whether the crash fell after an open had returned.
    after_open: bool,
    /// Whether calls were made to fail before it.
    faulty: bool,
}

impl About {
    fn of(subject: &Subject<'_>) -> Self {
        Self {
            hash: subject.hash,
            stage: subject.stage,
            acked: subject.acked,
            floor: subject.bounds.floor_of(subject.class),
            class: subject.class,
            depth: subject.depth,
            torn_batch: subject.torn_batch,
            after_open: subject.trail.crash.step > 0,
            faulty: subject.trail.is_faulty(),
        }
    }
}

/// Which states an image may show.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The states.
    pub truth: &'a Truth,
    /// Which cuts of them.
    pub bounds: Bounds,
    /// The newest cut that had returned.
    pub acked: u64,
}

impl<'a> View<'a> {
    /// What a crash now may leave.
    #[must_use]
    pub fn of(truth: &'a Truth) -> Self {
        Self { truth, bounds: truth.bounds(), acked: truth.acknowledged() }
    }
}

/// What images taken inside `life`'s recovery may show, of a killed process and of a power cut:
/// where nothing is dirty below a recovery, one that follows decides what it decided. `class` is
/// the crash before it and `before` what that might leave.
#[must_use]
pub fn views<'a>(
    life: &'a Life,
    class: CrashClass,
    mut before: View<'a>,
    trail: Option<&Trail<'_>>,
) -> [View<'a>; 2] {
    let decided = View::of(&life.driver.truth);
    // Whatever comes next is measured against what this recovery decided.
    before.acked = decided.acked;
    if class == CrashClass::Power {
        // What the power cut took, no page cache has.
        before.bounds.floor_kill = before.bounds.floor;
    }
    if life.faulty || trail.is_some_and(Trail::is_faulty) {
        // After failed syncs the page cache and the device may disagree either way.
        return [before, before];
    }
    match class {
        CrashClass::Kill => {
            // Nothing that the decision stands on is durable yet.
            let cut = decided.acked;
            let bounds = Bounds { floor_kill: cut, issued: cut, ..before.bounds };
            [View { bounds, ..before }, before]
        }
        CrashClass::Power => [decided, decided],
    }
}

/// A shot of a life after a crash.
struct Next {
    shot: Shot,
    done: usize,
    age: u64,
    depth: u32,
}
