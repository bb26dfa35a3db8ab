//! The directed pass: a few scripted runs that pass through every stage, each stage crashed and
//! each of its calls failed, until every reachable cell and every counter was met.
//!
//! Invariants
//! - It is built from the stage table: for each stage and column that still lacks a cell, the runs
//!   that pass through that stage are tried with that crash or fault.
//! - It depends on no seed: it is the same pass in every run of one revision.
//! - It ends within seconds; a pass that its budget cut short says so.
#![allow(clippy::disallowed_methods)]

use crate::case::after_plan;
use crate::check::{Broken, Examiner, Shares, Subject, Trail, View, views};
use crate::counters::Counter;
use crate::disk::{FAULTS, Fault, Op as Call, Rule};
use crate::life::{Birth, Life, Window};
use crate::pool::Budget;
use crate::scene::{Image, Scene};
use crate::script::{Choice, Crash, Script, Section};
use crate::sim::{Look, STAGES, Shot, fold};
use crate::stages::Column;
use crate::tally::Tally;
use kiban::env::probe::Stage;
use kiban_model::durable::CrashClass;
use kiban_model::generate::{Mix, Plan, Seed};
use kiban_model::ops::Op;
use std::collections::BTreeMap;

/// What a directed pass did.
#[derive(Default)]
pub struct Pass {
    /// Counts.
    pub tally: Tally,
    /// Broken promises: the run's name, what broke, and the script's seed and options.
    pub broken: Vec<(String, (Box<Broken>, Script))>,
    /// Whether it came to its end.
    pub whole: bool,
}

/// Runs the pass.
#[must_use]
pub fn run(budget: &Budget) -> Pass {
    run_scripts(|_| true, budget)
}

/// Runs the part of the pass that one script has; `None` where none is called so. Nothing was met
/// before it, so it tries at least what the whole pass tries with that script for want of a cell.
#[must_use]
pub fn run_script(name: &str) -> Option<Pass> {
    let known = SCRIPTS.iter().any(|(known, _)| *known == name);
    known.then(|| run_scripts(|other| other == name, &Budget::cases(u64::MAX)))
}

fn run_scripts(chosen: impl Fn(&str) -> bool, budget: &Budget) -> Pass {
    let mut pass = Pass::default();
    let scripts: Vec<(&str, Script)> = SCRIPTS
        .iter()
        .filter(|(name, _)| chosen(name))
        .map(|(name, text)| (*name, Script::parse(text).expect("invariant: our own scripts parse")))
        .collect();
    for (name, script) in &scripts {
        crashes(name, script, &mut pass);
        if budget.stopped() {
            return pass;
        }
    }
    for (name, script) in &scripts {
        for rule in always() {
            let ran = fail(script, &[rule], &mut pass.tally);
            note(&mut pass, name, script, ran);
        }
        faults(name, script, &mut pass, budget);
        if budget.stopped() {
            return pass;
        }
    }
    pass.whole = true;
    pass
}

fn note(pass: &mut Pass, name: &str, script: &Script, ran: Result<(), Box<Broken>>) {
    if let Err(broken) = ran {
        pass.broken.push((name.to_owned(), (broken, script.clone())));
    }
}

/// Runs that pass through every stage between them.
const SCRIPTS: &[(&str, &str)] = &[
    ("inline", include_str!("../directed/inline.ops")),
    ("stepped", include_str!("../directed/stepped.ops")),
    ("pread", include_str!("../directed/pread.ops")),
];

const SHARES: Shares =
    Shares { inside: 8, after: 8, reopen: 4, audit: 2, vary: 0, faults: 0, depth: 3 };
/// Images tried for one cell before it counts as missing here.
const MANNERS: usize = 24;

/// Crashes the run at every point, as long as a cell of the point's stage is missing.
fn crashes(name: &str, script: &Script, pass: &mut Pass) {
    let ops = &script.sections[0].ops;
    let mut plan = Plan::new(&mut Seed(script.seed), Mix::Standard);
    plan.config = script.config.clone();
    let plan = after_plan(&plan);
    let pass_on = |result: Result<(), Box<Broken>>, broken: &mut Vec<_>| {
        if let Err(found) = result {
            broken.push((name.to_owned(), (found, script.clone())));
        }
    };
    let mut broken = Vec::new();
    let (seed, known) = (script.seed, BTreeMap::new());
    let mut examiner =
        Examiner { tally: &mut pass.tally, plan: &plan, shares: SHARES, seed, known };
    let birth = Birth {
        disk: crate::disk::Disk::new(),
        seed,
        config: script.config.clone(),
        faults: &[],
        after: None,
    };
    let begun = Life::begin(birth, examiner.tally, |sim| sim.look(Look::Always));
    let mut life = match begun {
        Ok(life) => life,
        Err(slip) => return note(pass, name, script, Err(Broken::uncrashed(slip, &[], &[], None))),
    };
    examiner.tally.counters.fire(Counter::InsideCreate);
    let creation = Window::of_birth();
    pass_on(shots(&mut examiner, &Scene::new(&life, &creation, &[])), &mut broken);
    for step in 1..=ops.len() {
        match life.step(step as u32, &ops[step - 1], examiner.tally) {
            Ok(window) => {
                let scene = Scene::new(&life, &window, &ops[..step]);
                pass_on(shots(&mut examiner, &scene), &mut broken);
            }
            Err(slip) => {
                broken.push((
                    name.to_owned(),
                    (Broken::uncrashed(slip, &[], &ops[..step], None), script.clone()),
                ));
                break;
            }
        }
    }
    life.harvest(examiner.tally);
    let totals = &mut examiner.tally.totals;
    (totals.cases, totals.ops) = (totals.cases + 1, totals.ops + ops.len() as u64);
    life.sim.disk(|disk| disk.set_off(true));
    pass.broken.extend(broken);
}

/// The images of a step's shots, while they are of use.
fn shots(examiner: &mut Examiner<'_>, scene: &Scene<'_>) -> Result<(), Box<Broken>> {
    for shot in scene.life.sim.take() {
        let stage = Stage::ALL[usize::from(shot.stage)];
        for class in [CrashClass::Kill, CrashClass::Power] {
            let manners = if class == CrashClass::Kill { 1 } else { MANNERS };
            for manner in 0..manners {
                if manner > 3 && !examiner.tally.matrix.lacks(stage, Column::Crash(class)) {
                    break;
                }
                let choice = match class {
                    CrashClass::Kill => Choice::default(),
                    CrashClass::Power => shot.snapshot.choice(manner, manner as u64),
                };
                let image = Image::of(&shot, class, choice);
                scene.count(&shot, &image, examiner);
                scene.examine(&shot, image, examiner)?;
            }
        }
        if RECOVERIES.contains(&stage) {
            recoveries(examiner, scene, &shot)?;
        }
    }
    Ok(())
}

/// Stages at whose start there is most to recover and much to lose.
const RECOVERIES: &[Stage] = &[Stage::CommitApply, Stage::FlushEdit];

/// Kills the process, and crashes the recovery that follows at every point of a stage that lacks a
/// cell: what the page cache had, the power takes.
fn recoveries(
    examiner: &mut Examiner<'_>,
    scene: &Scene<'_>,
    shot: &Shot,
) -> Result<(), Box<Broken>> {
    let Image { class, choice, disk, hash } = Image::of(shot, CrashClass::Kill, Choice::default());
    let trail = scene.trail(shot, class, choice);
    let Window { bounds, acked, .. } = *scene.window;
    let truth = scene.truth();
    let birth = Birth {
        seed: fold(examiner.seed, hash),
        disk,
        config: scene.life.driver.config().clone(),
        faults: &[],
        after: Some((truth, bounds, class)),
    };
    let begun = Life::begin(birth, examiner.tally, |sim| sim.look(Look::Always));
    let second = begun.map_err(|slip| {
        let mut sections = trail.sections();
        sections.push(Section::default());
        Box::new(Broken { slip, sections, place: trail.place(), events: Vec::new() })
    })?;
    let before = View { truth, bounds, acked };
    let views = views(&second, class, before, Some(&trail));
    for shot in &second.sim.take() {
        let column = Column::Crash(CrashClass::Power);
        if !examiner.tally.matrix.lacks(Stage::ALL[usize::from(shot.stage)], column) {
            continue;
        }
        let choice = shot.snapshot.choice(1, 0);
        let Image { class, choice, disk, hash } = Image::of(shot, CrashClass::Power, choice);
        let View { truth, bounds, acked } = views[1];
        let crash = Crash { class, step: 0, point: shot.point, choice };
        let trail =
            Trail { before: Some(&trail), changes: &[], faults: &[], ops: &[], crash, shot };
        examiner.examine(Subject {
            hash,
            disk,
            truth,
            bounds,
            acked,
            class,
            stage: shot.stage,
            config: second.driver.config(),
            trail: &trail,
            depth: 2,
            age: scene.ops.len() as u64,
            torn_batch: false,
        })?;
    }
    second.sim.disk(|disk| disk.set_off(true));
    Ok(())
}

/// Fails each call of each stage in every way that it can fail, as long as a cell is missing.
fn faults(name: &str, script: &Script, pass: &mut Pass, budget: &Budget) {
    let Some(calls) = calls_of(script) else { return };
    for (stage, calls) in Stage::ALL.iter().zip(calls) {
        for call in Call::ALL.iter().filter(|&&call| calls >> (call as u32) & 1 == 1) {
            for (index, (_, fault)) in FAULTS.iter().enumerate().filter(|(_, f)| f.1.applies(*call))
            {
                for skip in SKIPS {
                    if budget.stopped() || !pass.tally.matrix.lacks(*stage, Column::Fault(index)) {
                        break;
                    }
                    let rule = Rule::new(*fault).stage(*stage as u8).op(*call).skip(*skip);
                    let ran = fail(script, &[rule], &mut pass.tally);
                    note(pass, name, script, ran);
                }
            }
        }
    }
}

/// Faults that are of use though their cells are met sooner: whole file systems without
/// preallocation, and a log that finds no room while the handle goes on.
fn always() -> Vec<Rule> {
    let unsupported = Fault::named("unsupported").expect("invariant: a fault of the table");
    let full = Fault::named("enospc").expect("invariant: a fault of the table");
    let no_room = Rule::new(full).stage(Stage::LogCreate as u8).op(Call::Create);
    vec![
        Rule::new(unsupported).op(Call::Preallocate).times(u32::MAX),
        no_room.clone().skip(1),
        no_room.skip(2),
    ]
}

/// How many matching calls go unharmed first.
const SKIPS: &[u32] = &[0, 1, 2, 3, 9];

/// Which calls a run makes in which stage.
fn calls_of(script: &Script) -> Option<[u32; STAGES]> {
    let mut tally = Tally::default();
    let birth = Birth {
        disk: crate::disk::Disk::new(),
        seed: script.seed,
        config: script.config.clone(),
        faults: &[],
        after: None,
    };
    let mut life = Life::begin(birth, &mut tally, |_| {}).ok()?;
    for (step, op) in (1..).zip(&script.sections[0].ops) {
        life.step(step, op, &mut tally).ok()?;
    }
    Some(life.sim.seen(|seen| seen.calls))
}

/// Operations after the one that met the fault.
const AFTERWARDS: usize = 4;

/// One run with a fault: it goes on for a few operations, opens again if it must, and ends.
fn fail(script: &Script, rules: &[Rule], tally: &mut Tally) -> Result<(), Box<Broken>> {
    let birth = Birth {
        disk: crate::disk::Disk::new(),
        seed: script.seed,
        config: script.config.clone(),
        faults: rules,
        after: None,
    };
    let mut done: Vec<Op> = Vec::new();
    let begun = Life::begin(birth, tally, |_| {});
    let mut life = begun.map_err(|slip| Broken::uncrashed(slip, rules, &done, None))?;
    let mut left = None;
    for op in &script.sections[0].ops {
        if left.is_none() && life.sim.disk(|disk| !disk.injected().is_empty()) {
            left = Some(AFTERWARDS);
        }
        match &mut left {
            Some(0) => break,
            Some(n) => *n -= 1,
            None => {}
        }
        let closed = life.driver.db().is_none();
        for op in closed.then_some(&Op::Stats).into_iter().chain([op]) {
            done.push(op.clone());
            let step = life.step(done.len() as u32, op, tally);
            step.map_err(|slip| Broken::uncrashed(slip, rules, &done, None))?;
        }
    }
    let reopen = Op::Reopen { by_drop: false, changes: Vec::new() };
    for op in [reopen, Op::Stats, Op::Verify] {
        done.push(op);
        let step = life.step(done.len() as u32, &done[done.len() - 1], tally);
        step.map_err(|slip| Broken::uncrashed(slip, rules, &done, None))?;
    }
    life.harvest(tally);
    (tally.totals.cases, tally.totals.ops) =
        (tally.totals.cases + 1, tally.totals.ops + done.len() as u64);
    tally.mix(life.sim.seen(|seen| seen.schedule));
    Ok(())
}
