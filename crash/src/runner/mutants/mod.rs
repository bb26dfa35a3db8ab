//! `kiban-crash mutants`: does the rig see a bug that was put there on purpose?
//!
//! The way: read the catalogue, copy the workspace, run every layer on the unmutated copy (the
//! control), then for each seeded bug: apply, build, run the layers until one kills it, and put a
//! row into the kill matrix. Last, the control runs the layers that are tests.
//!
//! Invariants
//! - A kill counts only because the control survived the same layer with the same seed and budget:
//!   where it did not, the run says so and fails.
//! - A seeded bug that does not apply or does not build is not killed, the tests' build included.
//! - Aborts and hangs are kills by the layer that ran. Under power cuts, where threads and moments
//!   are the machine's, they and a panic of the rig are kills only if the unmutated engine goes
//!   through the layer once more.
//! - A layer whose time was over early proves no survival, the control's included: it is told as
//!   unfinished, and only a kill by another layer makes up for it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

pub mod catalog;
pub mod layers;
pub mod list;
pub mod scratch;

use crate::report::{MutantResult, Report};
use crate::runner::interrupt::Interrupt;
use crate::runner::progress::{Length, Progress};
use catalog::Mutant;
use layers::{End, LAYERS, Layer, Order, POWER, Way};
use scratch::{Scratch, Trouble};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What to do.
#[derive(Clone, Debug)]
pub struct Task {
    /// The seeded bugs.
    pub mutants: Vec<Mutant>,
    /// Whether to go on after the first kill.
    pub all_layers: bool,
    /// Power cuts on real file systems, on each of them, instead of the layers that need no more
    /// than a directory.
    pub power: bool,
    /// Seed and workers of each layer.
    pub order: Order,
}

impl Task {
    fn layers(&self) -> &'static [Layer] {
        if self.power { POWER } else { LAYERS }
    }

    fn order_for(&self, mutant: &Mutant) -> Vec<usize> {
        if self.power { (0..POWER.len()).collect() } else { layers::order_for(&mutant.layer) }
    }
}

/// Where the seeded bugs are.
#[must_use]
pub fn dir(workspace: &Path) -> PathBuf {
    workspace.join("crash/mutants")
}

/// Runs `task` and fills `report`, which knows seed and revision already.
pub fn run(workspace: &Path, task: &Task, report: &mut Report, interrupt: &Interrupt) {
    let begun = Instant::now();
    let mut progress = Progress::begin(Length::Count(task.mutants.len() as u64 + 1));
    match run_all(workspace, task, report, interrupt, &mut progress) {
        Ok(()) => {}
        Err(Trouble::Environment(why)) => report.environment = Some(why),
        Err(Trouble::Sources(why)) => report.control = Some(why),
    }
    progress.end();
    report.interrupted |= interrupt.wished();
    report.elapsed_s = begun.elapsed().as_secs_f64();
    report.judge();
}

fn run_all(
    workspace: &Path,
    task: &Task,
    report: &mut Report,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<(), Trouble> {
    progress.say(0, "control: copying and building the unmutated engine");
    let mut scratch = Scratch::prepare(workspace)?;
    let cheap = task.layers().iter().filter(|layer| !matches!(layer.way, Way::Tests(_)));
    if !control(&mut scratch, cheap, task, report, progress)? || interrupt.wished() {
        return Ok(());
    }
    let unmutated = if task.power { Some(scratch.keep()?) } else { None };
    let layers = task.layers();
    let mut reached = vec![false; layers.len()];
    for (at, mutant) in task.mutants.iter().enumerate() {
        let done = at as u64 + 1;
        progress.say(done, &format!("{}: building", mutant.id));
        let begin = |layer: usize| {
            reached[layer] = true;
            progress.say(done, &format!("{}: {}", mutant.id, layers[layer].name));
        };
        let result = try_one(&mut scratch, mutant, task, unmutated.as_deref(), begin)?;
        if interrupt.wished() {
            return Ok(());
        }
        report.mutants.push(result);
    }
    // Tests take long to build: the control runs those that some seeded bug has got to.
    let dear = (0..layers.len()).filter(|&at| reached[at]).map(|at| &layers[at]);
    let dear = dear.filter(|layer| matches!(layer.way, Way::Tests(_)));
    if control(&mut scratch, dear, task, report, progress)? && report.control.is_none() {
        report.control = Some("alive".to_owned());
    }
    Ok(())
}

/// The unmutated engine against `layers`; whether it survives them, as far as they looked.
fn control<'a>(
    scratch: &mut Scratch,
    layers: impl Iterator<Item = &'a Layer>,
    task: &Task,
    report: &mut Report,
    progress: &mut Progress,
) -> Result<bool, Trouble> {
    scratch.set(None)?;
    let binary = scratch.build()?;
    for layer in layers {
        progress.say(report.mutants.len() as u64, &format!("control: {}", layer.name));
        match run_layer(scratch, &binary, layer, task.order)? {
            End::Survived(seen) => report.totals.absorb(&seen.totals),
            // The other layers' kills count: it goes on, and is not called alive.
            End::Unfinished(seen) => {
                report.totals.absorb(&seen.totals);
                let told = layers::describe(layer, &End::Unfinished(seen));
                let before = report.control.take().map_or(String::new(), |told| told + "; ");
                report.control = Some(before + &told);
            }
            End::Interrupted => return Ok(false),
            End::Trouble(why) => return Err(Trouble::Environment(why)),
            other => {
                report.control = Some(layers::describe(layer, &other));
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// One seeded bug against the layers.
fn try_one(
    scratch: &mut Scratch,
    mutant: &Mutant,
    task: &Task,
    unmutated: Option<&Path>,
    mut begin: impl FnMut(usize),
) -> Result<MutantResult, Trouble> {
    let mut result = MutantResult { id: mutant.id.clone(), ..MutantResult::default() };
    let built = scratch.set(Some(mutant)).and_then(|()| scratch.build());
    let binary = match built {
        Ok(binary) => binary,
        Err(Trouble::Sources(why)) => {
            result.promise = format!("does not apply or build: {why}");
            return Ok(result);
        }
        Err(trouble) => return Err(trouble),
    };
    let mut silent: Option<&Layer> = None;
    for at in task.order_for(mutant) {
        let layer = &task.layers()[at];
        begin(at);
        let begun = Instant::now();
        let end = match run_layer(scratch, &binary, layer, task.order) {
            Ok(end) => confirmed(scratch, unmutated, layer, task.order, end)?,
            Err(Trouble::Sources(why)) => {
                result.promise = format!("the tests of {} do not build: {why}", layer.name);
                return Ok(result);
            }
            Err(trouble) => return Err(trouble),
        };
        if !result.killed {
            result.seconds += begun.elapsed().as_secs_f64();
        }
        match end {
            End::Interrupted => return Ok(result),
            End::Trouble(why) => return Err(Trouble::Environment(why)),
            End::Silent(seen) => {
                silent = silent.or(Some(layer));
                count(&mut result, &seen);
            }
            other => note(&mut result, layer, &other),
        }
        if result.killed && !task.all_layers && !task.power {
            return Ok(result);
        }
    }
    // The weakest of kills: no answer was wrong, but a run would have ended with code 6.
    if let Some(layer) = silent.filter(|_| !result.killed) {
        result.killed = true;
        result.layers.push(format!("{}-cells", layer.name));
        result.promise = "a counter or a cell stayed at zero".to_owned();
    }
    Ok(result)
}

/// What `end` is worth once the unmutated engine went through the layer again, where it may have
/// been the machine's doing.
fn confirmed(
    scratch: &Scratch,
    unmutated: Option<&Path>,
    layer: &Layer,
    order: Order,
    end: End,
) -> Result<End, Trouble> {
    let Some(binary) = unmutated.filter(|_| layers::is_doubtful(&end)) else { return Ok(end) };
    match run_layer(scratch, binary, layer, order)? {
        End::Survived(_) => Ok(end),
        End::Interrupted => Ok(End::Interrupted),
        End::Trouble(why) => Err(Trouble::Environment(why)),
        _ => Ok(End::Unfinished(Report::default())),
    }
}

fn run_layer(
    scratch: &Scratch,
    binary: &Path,
    layer: &Layer,
    order: Order,
) -> Result<End, Trouble> {
    let which = match layer.way {
        Way::Cases(cases) => return Ok(layers::run(binary, layer, cases, order)),
        Way::Power(system, images) => {
            return Ok(layers::run_power(binary, layer, (system, images), order));
        }
        Way::Tests(which) => which,
    };
    let mut command = scratch.build_tests(which)?;
    Ok(layers::run_tests(&mut command, Duration::from_secs(layer.limit_s)))
}

/// Puts what a layer saw into the row.
fn note(result: &mut MutantResult, layer: &Layer, end: &End) {
    let first = !result.killed;
    result.looked.extend(layers::looked(layer, end));
    match end {
        End::Survived(seen) | End::Unfinished(seen) => {
            if first {
                count(result, seen);
            }
            return;
        }
        End::Broke(seen) if first => {
            count(result, seen);
            let failures = seen.failures.iter().filter(|failure| !failure.hang);
            if let Some(failure) = failures.min_by_key(|failure| failure.shrunk_ops) {
                result.promise.clone_from(&failure.promise);
                result.shrunk_ops = failure.shrunk_ops;
                result.failure = Some(failure.clone());
            }
        }
        End::Aborted(_) if first => result.promise = "abort".to_owned(),
        End::Hung if first => result.promise = "hang".to_owned(),
        _ => {}
    }
    result.killed = true;
    result.layers.push(layer.name.to_owned());
}

fn count(result: &mut MutantResult, seen: &Report) {
    result.cases += seen.totals.cases;
    result.ops += seen.totals.ops;
}
