//! Schedules in a campaign: the directed ones, those at random, and what is said of a failure.
//!
//! Invariants
//! - Schedule i is a function of the run's seed and i: not of jobs, shards or other schedules (F1).
//! - The directed schedules depend on no seed, and go on until every cell and counter of schedules
//!   was met, or a bound.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::case::{self, Broken};
use super::rows::Row;
use super::{cut, groups, origin};
use crate::campaign::{Order, Progress};
use crate::counters::Counter;
use crate::pool::{self, Budget, Done, Pool};
use crate::report::{Failure, Report};
use crate::tally::Tally;
use std::time::Instant;

/// Counters that schedules have to fire.
const COUNTERS: [Counter; 18] = [
    Counter::SharedGroup,
    Counter::FollowerFailed,
    Counter::LeaderPanicked,
    Counter::SharedStall,
    Counter::StalledPoisoned,
    Counter::PreparedLog,
    Counter::ReceiptTold,
    Counter::ReceiptFailed,
    Counter::SeenDurable,
    Counter::InsideSync,
    Counter::SomeWoke,
    Counter::SharedManifestAppend,
    Counter::SharedManifestAppendLanded,
    Counter::SharedManifestSync,
    Counter::SharedManifestSyncLanded,
    Counter::SharedDirSync,
    Counter::SharedDirSyncLanded,
    Counter::BuildNotInstalled,
];

/// Directed schedules, at the most.
const DIRECTED_MAX: u64 = 4000;

/// Runs the directed schedules; whether they came to their end.
pub fn directed(order: &Order, report: &mut Report, tally: &mut Tally) -> bool {
    let mut n = 0;
    while n < DIRECTED_MAX && !is_whole(tally) {
        // In batches, so that the number that runs does not depend on the jobs.
        let batch = 64;
        let first = n;
        let budget = Budget { cases: Some(batch), ..order.budget.clone() };
        let work = move |i: u64| directed_case(first + i);
        run(order, &budget, work, report, tally, &mut |_, _| {}, |i| {
            (format!("directed:{}", first + i), first + i)
        });
        if order.budget.stopped() {
            return false;
        }
        n += batch;
    }
    true
}

/// Whether every cell and counter of schedules was met.
#[must_use]
pub fn is_whole(tally: &Tally) -> bool {
    tally.rows.whole() && COUNTERS.iter().all(|&counter| tally.counters.get(counter) > 0)
}

type Ran = (Tally, Result<(), Box<Broken>>);

/// The directed schedule of this number.
pub fn directed_case(n: u64) -> Ran {
    let mut tally = Tally::default();
    let ran = case::run_world(origin::directed(n), &mut tally);
    (tally, ran)
}

/// The schedule of this number in the run of this seed.
pub fn numbered(seed: u64, n: u64) -> Ran {
    let mut tally = Tally::default();
    let ran = case::run_world(origin::numbered(seed, n), &mut tally);
    (tally, ran)
}

/// The special worlds of `budget`, from the first one on.
pub fn special(order: &Order, budget: &Budget, report: &mut Report, tally: &mut Tally) {
    let work = |n| {
        let mut tally = Tally::default();
        let ran = case::run_world(origin::special(n), &mut tally);
        (tally, ran)
    };
    run(order, budget, work, report, tally, &mut |_, _| {}, |n| (format!("special:{n}"), n));
}

/// Runs schedules at random within `budget`.
pub fn random(order: &Order, budget: &Budget, report: &mut Report, tally: &mut Tally) {
    let begun = Instant::now();
    let (schedules, cases) = (tally.totals.schedules, tally.totals.schedule_cases);
    let (seed, shard) = (order.seed, order.shard);
    let index = move |n: u64| n * shard.1 + shard.0;
    run(
        order,
        budget,
        move |n| numbered(seed, index(n)),
        report,
        tally,
        &mut |_, _| {},
        |n| (format!("{seed}:{}", index(n)), index(n)),
    );
    let seconds = begun.elapsed().as_secs_f64().max(f64::EPSILON);
    report.rates.schedules_per_second = (tally.totals.schedules - schedules) as f64 / seconds;
    report.rates.schedule_cases_per_second = (tally.totals.schedule_cases - cases) as f64 / seconds;
}

fn run(
    order: &Order,
    budget: &Budget,
    work: impl Fn(u64) -> Ran + Send + Sync + 'static,
    report: &mut Report,
    tally: &mut Tally,
    progress: Progress<'_>,
    name: impl Fn(u64) -> (String, u64),
) {
    let pool = Pool { jobs: order.jobs, case_limit: order.case_limit };
    pool::run(&pool, budget, work, |n, done| {
        let (origin, index) = name(n);
        let mut failure = match done {
            Done::Ran((counted, ran)) => {
                tally.absorb(&counted);
                progress(&tally.totals, report.failures_all);
                match ran {
                    Ok(()) => return,
                    Err(broken) => shrunk(&broken, report),
                }
            }
            Done::Panicked(got) => Failure {
                promise: "-".to_owned(),
                what: "a panic".to_owned(),
                got,
                ..Failure::default()
            },
            Done::Hung => Failure {
                promise: "B1".to_owned(),
                what: "a schedule that never ended".to_owned(),
                hang: true,
                ..Failure::default()
            },
        };
        if failure.token.is_empty() {
            failure.token = token(&origin);
        }
        failure.case = index;
        (failure.seed, failure.revision) = (report.seed, report.revision.clone());
        report.add_failure(failure);
        if order.first_only {
            budget.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
}

/// What is said of a broken schedule, and of the smallest one found that breaks the promise too;
/// of the first of its kind, that is.
fn shrunk(broken: &Broken, report: &Report) -> Failure {
    let like = |f: &Failure| (&f.promise, &f.what) == (&broken.slip.promise, &broken.slip.what);
    if report.failures.iter().any(like) {
        return failure_of(broken);
    }
    match cut::shrink(broken) {
        Ok(small) => {
            let (ops, whole) = (broken.ops, token(&broken.origin));
            let failure = failure_of(&small);
            let Failure { promise, what, token, .. } = &failure;
            let shrunk = format!("# {promise}: {what}\n# whole: {whole}\n{token}\n");
            Failure { ops, shrunk, ..failure }
        }
        Err(why) => {
            let mut failure = failure_of(broken);
            failure.events.push(format!("not made smaller: {why}"));
            failure
        }
    }
}

/// What is said of a broken schedule.
#[must_use]
pub fn failure_of(broken: &Broken) -> Failure {
    let Broken { slip, place, world, events, ops, origin } = broken;
    Failure {
        token: token(origin),
        promise: slip.promise.clone(),
        what: slip.what.clone(),
        expected: slip.expected.clone(),
        got: slip.got.clone(),
        at: place.clone(),
        options: world.clone(),
        events: events.clone(),
        ops: *ops,
        shrunk_ops: *ops,
        ..Failure::default()
    }
}

/// What replays the world of that origin.
fn token(origin: &str) -> String {
    format!("kb1:schedule:{origin}")
}

/// Plays a world again, by its origin.
///
/// # Errors
/// The text names none.
pub fn replay(what: &str, report: &mut Report, tally: &mut Tally) -> Result<(), String> {
    if let Err(broken) = case::run_world(origin::world(what)?, tally) {
        let failure = shrunk(&broken, report);
        report.add_failure(failure);
    }
    Ok(())
}

/// Sweeps one row of the matrix of groups: see `groups` for the bound.
pub fn sweep(
    order: &Order,
    row: Row,
    ops_max: u32,
    report: &mut Report,
    tally: &mut Tally,
    progress: Progress<'_>,
) {
    let items = groups::items(row, ops_max);
    let (shard, before) = (order.shard, tally.totals.cases);
    let mine = (items + shard.1 - 1).saturating_sub(shard.0) / shard.1;
    let budget = Budget { cases: Some(mine), ..order.budget.clone() };
    let index = move |n: u64| n * shard.1 + shard.0;
    let work = move |n| {
        let mut tally = Tally::default();
        let ran = groups::run(row, index(n), &mut tally);
        (tally, ran)
    };
    let name = |n| (format!("{}:{}", row.name(), index(n)), index(n));
    run(order, &budget, work, report, tally, progress, name);
    report.interrupted |= order.budget.stopped() && report.failures_all == 0;
    report.sequences = Some(tally.totals.cases - before);
}
