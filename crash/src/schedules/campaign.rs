//! Schedules in a campaign: the directed ones, those at random, and what is said of a failure.
//!
//! Invariants
//! - Schedule i is a function of the run's seed and i: not of jobs, shards or other schedules (F1).
//! - The directed schedules depend on no seed, and go on until every cell and counter of schedules
//!   was met, or a bound.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::case::{self, Broken};
use super::world::World;
use crate::campaign::{Order, case_seed};
use crate::counters::Counter;
use crate::pool::{self, Budget, Done, Pool};
use crate::report::{Failure, Report};
use crate::tally::Tally;
use std::time::Instant;

/// Counters that schedules have to fire.
const COUNTERS: [Counter; 11] = [
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
];

/// Directed schedules, at the most.
const DIRECTED_MAX: u64 = 4000;
/// The seed of the directed ones.
const DIRECTED_SEED: u64 = 0x6469_7265_6374;

/// Runs the directed schedules; whether they came to their end.
pub fn directed(order: &Order, report: &mut Report, tally: &mut Tally) -> bool {
    let mut n = 0;
    while n < DIRECTED_MAX && !is_whole(tally) {
        // In batches, so that the number that runs does not depend on the jobs.
        let batch = 64;
        let first = n;
        let budget = Budget { cases: Some(batch), ..order.budget.clone() };
        let work = move |i: u64| directed_case(first + i);
        run(order, &budget, work, report, tally, |i| {
            (format!("kb1:schedule:directed:{}", first + i), first + i)
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
    let seed = case_seed(DIRECTED_SEED, n);
    let world = if n % 8 == 7 { World::draw(seed) } else { World::of_groups(n, seed) };
    let ran = case::run_world(world, &mut tally);
    (tally, ran)
}

/// The schedule of this number in the run of this seed.
pub fn numbered(seed: u64, n: u64) -> Ran {
    let mut tally = Tally::default();
    let ran = case::run(case_seed(seed ^ 0x7363_6865_6475_6c65, n), &mut tally);
    (tally, ran)
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
        |n| (format!("kb1:schedule:{seed}:{}", index(n)), index(n)),
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
    token: impl Fn(u64) -> (String, u64),
) {
    let pool = Pool { jobs: order.jobs, case_limit: order.case_limit };
    pool::run(&pool, budget, work, |n, done| {
        let (token, index) = token(n);
        let mut failure = match done {
            Done::Ran((counted, ran)) => {
                tally.absorb(&counted);
                match ran {
                    Ok(()) => return,
                    Err(broken) => failure_of(&broken),
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
        (failure.token, failure.case) = (token, index);
        (failure.seed, failure.revision) = (report.seed, report.revision.clone());
        report.add_failure(failure);
        if order.first_only {
            budget.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
}

/// What is said of a broken schedule.
#[must_use]
pub fn failure_of(broken: &Broken) -> Failure {
    let Broken { slip, place, world, events, ops } = broken;
    Failure {
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

/// Plays `SEED:NUMBER` or `directed:NUMBER` again.
///
/// # Errors
/// It is neither.
pub fn replay(what: &str, report: &mut Report, tally: &mut Tally) -> Result<(), String> {
    let form = || format!("{what}: expected SEED:NUMBER or directed:NUMBER");
    let (seed, n) = what.split_once(':').ok_or_else(form)?;
    let n: u64 = n.parse().map_err(|_| form())?;
    let (counted, ran) = if seed == "directed" {
        directed_case(n)
    } else {
        numbered(seed.parse().map_err(|_| form())?, n)
    };
    tally.absorb(&counted);
    if let Err(broken) = ran {
        let token = format!("kb1:schedule:{what}");
        report.add_failure(Failure { token, case: n, ..failure_of(&broken) });
    }
    Ok(())
}
