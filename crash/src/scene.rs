//! A step of a life that goes on unharmed, and the images of it that are examined.
//!
//! Invariants
//! - An image is examined against the truth of the step that it was taken in, whichever pass takes
//!   it: the random campaign, the directed pass, the sweep and the trace differ only in which
//!   images they choose.
//! - The life is not touched.

use crate::check::{Broken, Examiner, Subject, Trail};
use crate::counters::Counter;
use crate::disk::{Disk, Rule};
use crate::evidence;
use crate::life::{Life, Window};
use crate::script::{Choice, Crash};
use crate::sim::Shot;
use kiban_model::durable::{CrashClass, Truth};
use kiban_model::generate::{Seed, Source as _};
use kiban_model::ops::Op;

/// An image, chosen.
pub struct Image {
    /// The crash.
    pub class: CrashClass,
    /// What it kept.
    pub choice: Choice,
    /// What it left.
    pub disk: Disk,
    /// The hash of its content.
    pub hash: u64,
}

impl Image {
    /// The image of `shot` that a crash of this class and choice leaves.
    #[must_use]
    pub fn of(shot: &Shot, class: CrashClass, choice: Choice) -> Self {
        let disk = match class {
            CrashClass::Kill => shot.snapshot.killed(),
            CrashClass::Power => shot.snapshot.image(&choice),
        };
        let hash = disk.content_hash();
        Self { class, choice, disk, hash }
    }

    /// An image of `shot`, drawn.
    #[must_use]
    pub fn draw(shot: &Shot, class: CrashClass, source: &mut Seed) -> Self {
        let choice = match class {
            CrashClass::Kill => Choice::default(),
            CrashClass::Power => shot.snapshot.choice(source.below(8), source.next_u64()),
        };
        Self::of(shot, class, choice)
    }
}

/// A step that was just done.
pub struct Scene<'a> {
    /// The process.
    pub life: &'a Life,
    /// The step.
    pub window: &'a Window,
    /// What was done since the database was created, the step included.
    pub ops: &'a [Op],
    /// The life's faults.
    pub faults: &'a [Rule],
}

impl<'a> Scene<'a> {
    /// A step of a life without faults.
    #[must_use]
    pub fn new(life: &'a Life, window: &'a Window, ops: &'a [Op]) -> Self {
        Self { life, window, ops, faults: &[] }
    }

    /// What images of the step may show.
    #[must_use]
    pub fn truth(&self) -> &'a Truth {
        self.window.truth.as_deref().unwrap_or(&self.life.driver.truth)
    }

    /// The life, told up to a crash at `shot`.
    #[must_use]
    pub fn trail<'t>(&'t self, shot: &'t Shot, class: CrashClass, choice: Choice) -> Trail<'t> {
        let crash = Crash { class, step: shot.step, point: shot.point, choice };
        Trail { before: None, changes: &[], faults: self.faults, ops: self.ops, crash, shot }
    }

    /// Counts what `image` shows of the disk's faults: costly, so not done for every image.
    pub fn count(&self, shot: &Shot, image: &Image, examiner: &mut Examiner<'_>) {
        let counters = &mut examiner.tally.counters;
        evidence::of_image(&shot.snapshot, &image.choice, &image.disk, counters);
        let flushed = self.life.driver.db().map_or(0, |db| db.stats().flushed_sequence);
        if evidence::is_between_flushes(&image.disk, flushed) {
            counters.fire(Counter::BetweenFlushes);
        }
    }

    /// Examines an image of one of the step's shots.
    ///
    /// # Errors
    /// A broken promise.
    pub fn examine(
        &self,
        shot: &Shot,
        image: Image,
        examiner: &mut Examiner<'_>,
    ) -> Result<(), Box<Broken>> {
        let Image { class, choice, disk, hash } = image;
        examiner.tally.mix(hash);
        let is_batch =
            matches!(self.ops.last(), Some(Op::Batch { records, .. }) if records.len() > 1);
        let torn_batch = is_batch && evidence::is_newest_torn(shot, &choice);
        examiner.examine(Subject {
            disk,
            hash,
            truth: self.truth(),
            bounds: self.window.bounds,
            acked: self.window.acked,
            class,
            stage: shot.stage,
            config: self.life.driver.config(),
            trail: &self.trail(shot, class, choice),
            depth: 1,
            age: self.ops.len() as u64,
            torn_batch,
        })
    }
}
