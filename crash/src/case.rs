//! One case: generated operations on one engine, crash images along the way, all of them examined.
//!
//! Invariants
//! - A case is a function of its seed and profile: no other case, worker or clock is seen (F1).
//! - An image is examined against the truth of the step that it was taken in, while the engine goes
//!   on unharmed: its disk is not touched.
//! - After a handle was poisoned the case goes on for a few operations, so that what a poisoned
//!   handle must do is seen, and then opens the database again.
//!
//! What is drawn here can't produce: two processes at once, threads, damage to synced bytes
//! (`corruption` does), and more than one handle in one directory.

use crate::check::{Broken, Examiner, Shares};
use crate::counters::Counter;
use crate::disk::{Disk, Rule};
use crate::evidence;
use crate::life::{Birth, Life, Slip, Window, caught};
use crate::scene::{Image, Scene};
use crate::sim::Look;
use crate::tally::Tally;
use kiban_model::durable::CrashClass;
use kiban_model::generate::{Mix, Plan, Seed, Source};
use kiban_model::ops::Op;
use std::collections::BTreeMap;

/// How cases are drawn.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Which operations and options.
    pub mix: Mix,
    /// Operations of a case, at least and at most.
    pub ops: (usize, usize),
    /// Points photographed, in 4096ths.
    pub shots_4096ths: u32,
    /// Images of a shot.
    pub images: usize,
    /// Cases with injected faults, in 64ths.
    pub faulty_64ths: u64,
    /// What is done with an image.
    pub shares: Shares,
}

impl Profile {
    /// Every profile.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let standard = Self {
            name: "standard",
            mix: Mix::Swarm,
            ops: (80, 300),
            shots_4096ths: 160,
            images: 3,
            faulty_64ths: 16,
            shares: Shares::STANDARD,
        };
        let smoke = Self { name: "smoke", ops: (10, 60), ..standard.clone() };
        let swarm = Self { name: "swarm", ops: (40, 400), faulty_64ths: 24, ..standard.clone() };
        let soak = Self { name: "soak", ops: (400, 3000), shots_4096ths: 60, ..standard.clone() };
        vec![smoke, standard, swarm, soak]
    }

    /// The profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|profile| profile.name == name)
    }
}

/// Runs the case of this seed.
///
/// # Errors
/// The first broken promise.
pub fn run(profile: &Profile, seed: u64, tally: &mut Tally) -> Result<(), Box<Broken>> {
    let source = &mut Seed(seed);
    let plan = Plan::new(source, profile.mix);
    let faulty = source.chance(profile.faulty_64ths, 64);
    let faults = if faulty { evidence::random_faults(source, 4) } else { Vec::new() };
    let count = profile.ops.0 + source.below(profile.ops.1 - profile.ops.0 + 1);
    let after = after_plan(&plan);
    let known = BTreeMap::new();
    let shares = profile.shares;
    let mut examiner = Examiner { tally, plan: &after, shares, seed, known };
    let birth = Birth {
        disk: Disk::new(),
        seed,
        config: plan.config.clone(),
        faults: &faults,
        after: None,
    };
    let look = Look::Sometimes(profile.shots_4096ths);
    // Most cases are photographed only once they have grown: the stages of a creation are met in
    // every case, and would make most of all images those of a database that holds nothing yet.
    let quiet =
        if source.chance(1, 4) { 0 } else { profile.ops.0 / 2 + source.below(profile.ops.0) };
    let first_look = if quiet == 0 { look } else { Look::Away };
    let begun = Life::begin(birth, examiner.tally, |sim| sim.look(first_look));
    let mut done: Vec<Op> = Vec::new();
    let mut life = begun.map_err(|slip| Broken::uncrashed(slip, &faults, &done, None))?;
    let mut case = Case { images: profile.images, faults: &faults, source: Seed(seed ^ 0xca5e) };
    examiner.tally.counters.add(Counter::InsideCreate, 1);
    case.images_of(&mut examiner, &life, &Window::of_birth(), &done)?;
    let mut poisoned_for = 0;
    for step in 1..=count {
        if step == quiet {
            life.sim.look(look);
        }
        let op = next_op(&life, &plan, source, &mut poisoned_for);
        examiner.tally.mix_bytes(op.to_string().as_bytes());
        done.push(op);
        let op = &done[step - 1];
        let window = life.step(step as u32, op, examiner.tally);
        let window = window.map_err(|slip| Broken::uncrashed(slip, &faults, &done, Some(&life)))?;
        case.images_of(&mut examiner, &life, &window, &done)?;
    }
    end(life, &mut examiner, count).map_err(|slip| Broken::uncrashed(slip, &faults, &done, None))
}

/// The last look: everything read in every way, opened once more, and read again.
fn end(mut life: Life, examiner: &mut Examiner<'_>, count: usize) -> Result<(), Slip> {
    let tally = &mut *examiner.tally;
    life.sim.look(Look::Away);
    life.sim.begin(count as u32 + 1);
    life.harvest(tally);
    if !life.faulty {
        caught(|| {
            life.driver.ensure_open()?;
            life.driver.audit()?;
            life.driver.settle()?;
            life.driver.step(&Op::Reopen { by_drop: false, changes: Vec::new() })?;
            life.driver.audit().map(drop).map_err(Slip::from)
        })?;
    }
    tally.totals.cases += 1;
    tally.totals.ops += count as u64;
    tally.totals.points += life.sim.seen(|seen| seen.points);
    tally.mix(life.sim.seen(|seen| seen.schedule));
    tally.mix(life.sim.disk(|disk| disk.content_hash()));
    life.sim.disk(|disk| disk.set_off(true));
    Ok(())
}

/// What is drawn from after a crash: small operations, mostly writes.
#[must_use]
pub fn after_plan(plan: &Plan) -> Plan {
    let mut after = plan.clone();
    for kind in Op::KINDS {
        after.weigh(kind, 0);
    }
    for (kind, weight) in [
        ("put", 8),
        ("delete", 3),
        ("write", 3),
        ("get", 4),
        ("multi_get", 1),
        ("scan", 1),
        ("sync", 1),
        ("flush", 1),
        ("step", 2),
    ] {
        after.weigh(kind, weight);
    }
    after
}

/// The next operation: drawn, but where a handle must be opened first or is of no use any more.
fn next_op(life: &Life, plan: &Plan, source: &mut Seed, poisoned_for: &mut usize) -> Op {
    let op = plan.op(source);
    if life.driver.db().is_none() {
        // An open of its own: what it decides is then no other operation's matter.
        return Op::Stats;
    }
    *poisoned_for = if life.is_poisoned() { *poisoned_for + 1 } else { 0 };
    if *poisoned_for > 3 {
        return Op::Reopen { by_drop: source.chance(1, 2), changes: Vec::new() };
    }
    op
}

struct Case<'a> {
    images: usize,
    faults: &'a [Rule],
    source: Seed,
}

impl Case<'_> {
    /// Examines images of the shots of the last step.
    fn images_of(
        &mut self,
        examiner: &mut Examiner<'_>,
        life: &Life,
        window: &Window,
        ops: &[Op],
    ) -> Result<(), Box<Broken>> {
        let scene = Scene { life, window, ops, faults: self.faults };
        for shot in &life.sim.take() {
            for n in 0..self.images {
                let kill = n == 0 && self.source.chance(1, 2);
                let class = if kill { CrashClass::Kill } else { CrashClass::Power };
                let image = Image::draw(shot, class, &mut self.source);
                if self.source.chance(1, 16) {
                    scene.count(shot, &image, examiner);
                }
                scene.examine(shot, image, examiner)?;
            }
        }
        Ok(())
    }
}

/// How the case of this seed opens its database.
#[must_use]
pub fn config_of(profile: &Profile, seed: u64) -> kiban_model::config::Config {
    Plan::new(&mut Seed(seed), profile.mix).config
}
