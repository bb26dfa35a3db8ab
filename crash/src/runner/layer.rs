//! The layers of the rig, one at a time, as `mutants` runs them on a mutated engine.
//!
//! Invariants
//! - A layer ends at its first broken promise, and shrinks it.
//! - A panic of the engine is a broken promise; an abort or an endless loop is for the process that
//!   started this one to see.
//! - Equal seeds and budgets give equal results on equal engines, but for KILL.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use crate::adapter::SimFs;
use crate::campaign::{self, Order};
use crate::case::Profile;
use crate::check::Shares;
use crate::corruption::{self, Effort};
use crate::disk::Disk;
use crate::kill;
use crate::pool::{Budget, panic_text};
use crate::report::{Failure, Report};
use crate::runner::interrupt::Interrupt;
use crate::tally::Tally;
use kiban::env::Env;
use kiban::env::random::SeededRandom;
use kiban::env::sync::Arc;
use kiban_model::driver;
use kiban_model::generate::{Mix, Plan, Seed, Source};
use kiban_model::ops::Case;
use kiban_model::shrink;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Seed.
    pub seed: u64,
    /// Cases.
    pub cases: u64,
    /// Workers.
    pub jobs: u16,
}

/// Candidates that shrinking tries.
const SHRINK_TRIES: usize = 3_000;

/// Runs the layer of this name and fills `report`.
///
/// # Errors
/// There is no such layer here.
pub fn run(name: &str, task: Task, report: &mut Report) -> Result<(), String> {
    // A panic is told in the report, once, and not for each candidate of a shrink.
    std::panic::set_hook(Box::new(|_| {}));
    match name {
        "SEQ" => lockstep(task, report),
        "FLIP" => flips(task, report),
        "SxC" => schedules(task, report),
        "CRASH" | "RECR" | "ERR" | "DIRECT" => crashes(name, task, report),
        "KILL" => kills(task, report)?,
        other => return Err(format!("no layer is called {other}")),
    }
    report.judge();
    Ok(())
}

/// A shrunk case of so few operations is small enough to be read.
const SMALL_OPS: u64 = 6;
/// So many failing cases are shrunk, at most, in search of a small one.
const SHRUNK_MAX: u64 = 6;

/// Generated cases in lockstep with the oracle, without faults. One after the other: a layer ends
/// in seconds, and the first failure is the same whatever the machine does. Later cases are looked
/// at only for one that shrinks to less.
fn lockstep(task: Task, report: &mut Report) {
    let mut best: Option<Failure> = None;
    let mut shrunk = 0;
    for index in 0..task.cases {
        let case = case_of(task.seed, index);
        if best.is_none() {
            report.totals.cases += 1;
            report.totals.ops += case.ops.len() as u64;
        }
        let Some((promise, _)) = fails(&case) else { continue };
        let failure = shrink_case(task, index, &case, promise, report);
        shrunk += 1;
        if best.as_ref().is_none_or(|best| failure.shrunk_ops < best.shrunk_ops) {
            best = Some(failure);
        }
        if shrunk == SHRUNK_MAX || best.as_ref().is_some_and(|f| f.shrunk_ops <= SMALL_OPS) {
            break;
        }
    }
    if let Some(failure) = best {
        report.add_failure(failure);
    }
}

fn shrink_case(task: Task, index: u64, case: &Case, promise: String, report: &Report) -> Failure {
    let shrunk = shrink::shrink(case, SHRINK_TRIES, |c| fails(c).is_some_and(|f| f.0 == promise));
    let got = fails(&shrunk).map(|(_, got)| got).unwrap_or_default();
    Failure {
        promise,
        what: "lockstep".to_owned(),
        seed: task.seed,
        case: index,
        revision: report.revision.clone(),
        ops: case.ops.len() as u64,
        shrunk_ops: shrunk.ops.len() as u64,
        shrunk: shrunk.to_string(),
        expected: "what the oracle says".to_owned(),
        got,
        ..Failure::default()
    }
}

/// Every other case has the standard mix, the rest a random subset of it.
fn case_of(seed: u64, index: u64) -> Case {
    let source = &mut Seed(seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let plan = Plan::new(source, if index.is_multiple_of(2) { Mix::Standard } else { Mix::Swarm });
    let count = 20 + source.below(180);
    plan.case(source, count)
}

/// The promise that a case breaks, and how.
fn fails(case: &Case) -> Option<(String, String)> {
    let fs = SimFs::new(Disk::new());
    let env = Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(fs.clone()),
        random: Arc::new(SeededRandom::new(1)),
        probe: None,
    };
    let ran = catch_unwind(AssertUnwindSafe(|| driver::run(env, "/db", case)));
    match ran {
        Ok(Ok(_)) => fs.with(|disk| {
            let violation = disk.violations().first()?;
            Some(("C1".to_owned(), violation.to_string()))
        }),
        Ok(Err(failure)) => Some((failure.mismatch.promise.to_owned(), failure.to_string())),
        Err(panic) => Some(("-".to_owned(), panic_text(&*panic))),
    }
}

/// A part of the crash campaign.
fn crashes(name: &str, task: Task, report: &mut Report) {
    let smoke = Profile::named("smoke").expect("invariant: there is a smoke profile");
    let plain = Shares { inside: 2, after: 2, faults: 0, ..Shares::STANDARD };
    let (faulty_64ths, shares) = match name {
        "CRASH" => (0, plain),
        "RECR" => (0, Shares { inside: 48, after: 48, ..plain }),
        _ => (64, Shares::STANDARD),
    };
    let directed = name == "DIRECT";
    let budget = Budget::cases(if directed { 0 } else { task.cases });
    let order = Order {
        profile: Profile { faulty_64ths, shares, ..smoke },
        jobs: usize::from(task.jobs),
        directed,
        first_only: true,
        ..Order::new(task.seed, budget)
    };
    campaign::run(&order, report, &mut |_, _| {});
    // A first failure ends the run by the flag that an interrupt would set.
    report.interrupted = false;
    // What the engine may not do is the matter here, not how fast it does the rest.
    report.diverged = false;
}

/// As many rounds of killed processes as there are cases. They are real threads: what they find
/// does not repeat.
fn kills(task: Task, report: &mut Report) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let rounds = u32::try_from(task.cases).map_err(|error| error.to_string())?;
    let task = kill::Task { program, dir: Some(std::env::temp_dir()), rounds };
    kill::run(&task, report, &Interrupt::default(), &mut |_, _, _| {});
    Ok(())
}

/// Schedules of the shared handle, with crashes inside.
fn schedules(task: Task, report: &mut Report) {
    let budget = Budget::cases(task.cases);
    let jobs = usize::from(task.jobs);
    let order = Order { jobs, first_only: true, ..Order::new(task.seed, budget.clone()) };
    let mut tally = Tally::default();
    crate::schedules::campaign::random(&order, &budget, report, &mut tally);
    if report.failures.is_empty() {
        crate::schedules::campaign::special(&order, &budget, report, &mut tally);
    }
    report.totals = tally.totals;
    report.totals.cases += report.totals.schedules;
}

/// The corruption sweep over as many databases as there are cases.
fn flips(task: Task, report: &mut Report) {
    for case in 0..task.cases {
        let seed = task.seed.wrapping_add(case);
        let failed = |promise: &str, got: String, report: &Report| Failure {
            promise: promise.to_owned(),
            what: "corruption sweep".to_owned(),
            seed,
            case,
            revision: report.revision.clone(),
            expected: "detected or harmless".to_owned(),
            // One damage to one file: there is nothing to leave out.
            ops: 1,
            shrunk_ops: 1,
            got,
            ..Failure::default()
        };
        report.totals.cases += 1;
        let swept = catch_unwind(|| corruption::sweep(seed, Effort::TEST));
        match swept {
            Ok(Ok(swept)) => {
                report.totals.ops +=
                    swept.verdicts.iter().map(|verdict| verdict.tried).sum::<u64>();
                if let Some(wrong) = swept.wrong.first() {
                    report.add_failure(failed("C1", wrong.clone(), report));
                }
                report.corruption = swept.verdicts;
            }
            Ok(Err(error)) => report.add_failure(failed("-", error.to_string(), report)),
            Err(panic) => report.add_failure(failed("-", panic_text(&*panic), report)),
        }
        if !report.failures.is_empty() {
            return;
        }
    }
}
