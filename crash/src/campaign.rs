//! The campaign: the directed pass, then cases at random until the budget is spent.
//!
//! Invariants
//! - Case i is a function of the seed, the profile and i: not of jobs, shards or other cases. The
//!   digest folds the cases in their order (F1).
//! - A run that is stopped hands over what it has, and says so.
//! - A failure is shrunk once for each signature, and told with everything that it takes to see it
//!   again.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::adapter::SimFs;
use crate::case::{self, Profile};
use crate::check::Broken;
use crate::directed;
use crate::disk::Disk;
use crate::life::Slip;
use crate::pool::{self, Budget, Done, Pool};
use crate::report::{Cells, Failure, Report, Totals};
use crate::schedules::campaign as schedules;
use crate::schedules::rows::Row;
use crate::script::Script;
use crate::shrink::shrink;
use crate::sim::fold;
use crate::sweep;
use crate::tally::Tally;
use kiban::env::Env;
use kiban::env::random::SeededRandom;
use kiban_model::config::Config;
use kiban_model::driver::Driver;
use kiban_model::generate::{Mix, Plan, Seed};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug)]
pub struct Order {
    /// Decides everything.
    pub seed: u64,
    /// How cases are drawn.
    pub profile: Profile,
    /// When it ends. The directed pass counts against the time, not against the cases.
    pub budget: Budget,
    /// Workers.
    pub jobs: usize,
    /// This shard and how many there are: it runs the cases whose number leaves this rest.
    pub shard: (u64, u64),
    /// Whether the directed pass runs first.
    pub directed: bool,
    /// Whether the first failure ends the run.
    pub first_only: bool,
    /// A case that takes longer has hung.
    pub case_limit: Duration,
}

impl Order {
    /// The standard campaign of a seed.
    #[must_use]
    pub fn new(seed: u64, budget: Budget) -> Self {
        let profile = Profile::named("standard").expect("invariant: there is a standard profile");
        Self {
            seed,
            profile,
            budget,
            jobs: 1,
            shard: (0, 1),
            directed: true,
            first_only: false,
            case_limit: Duration::from_secs(300),
        }
    }
}

/// Hears how far a run is: what was counted, and how many failures there are.
pub type Progress<'a> = &'a mut dyn FnMut(&Totals, u64);

/// Signatures that are shrunk, at most; later ones are told as they came.
const SHRUNK_MAX: usize = 6;
const SHRINK_LIMIT: Duration = Duration::from_secs(20);

/// Runs a campaign and fills `report`, whose command and revision the caller has set.
pub fn run(order: &Order, report: &mut Report, progress: Progress<'_>) {
    let start = Instant::now();
    begin(order, report, order.profile.name);
    let mut tally = Tally::default();
    if order.directed {
        directed_pass(order, report, &mut tally);
    }
    progress(&tally.totals, report.failures_all);
    let random = Instant::now();
    let before = tally.totals.images;
    let (profile, seed, shard) = (order.profile.clone(), order.seed, order.shard);
    let (budget, scheduled) = halves(&shard_budget(&order.budget, shard));
    let work = move |n: u64| {
        let mut tally = Tally::default();
        let seed = case_seed(seed, n * shard.1 + shard.0);
        let ran = case::run(&profile, seed, &mut tally);
        (tally, ran)
    };
    cases(order, &budget, work, report, &mut tally, progress, |n| {
        let index = n * shard.1 + shard.0;
        let token = format!("kb1:{}:{}:{index}", order.profile.name, order.seed);
        let seed = case_seed(order.seed, index);
        Origin { token, index, seed, config: case::config_of(&order.profile, seed) }
    });
    let cores = random.elapsed().as_secs_f64() * order.jobs as f64;
    report.rates.images_per_second_core =
        (tally.totals.images - before) as f64 / cores.max(f64::EPSILON);
    schedules::random(order, &scheduled, report, &mut tally);
    progress(&tally.totals, report.failures_all);
    impossible_cells(report, &tally);
    end(order, report, &tally, start);
}

/// The seed of a case.
#[must_use]
pub fn case_seed(seed: u64, index: u64) -> u64 {
    fold(fold(0x6b69_6261_6e00_0001, seed), index)
}

/// Runs every short sequence; `stage` narrows the points.
pub fn run_sweep(
    order: &Order,
    ops_max: u32,
    stage: Option<u8>,
    report: &mut Report,
    progress: Progress<'_>,
) {
    let start = Instant::now();
    begin(order, report, "");
    let mut tally = Tally::default();
    let shard = order.shard;
    let sequences = sweep::sequences(ops_max);
    let mine = (sequences + shard.1 - 1 - shard.0) / shard.1;
    let budget = Budget { cases: Some(mine), ..order.budget.clone() };
    let work = move |n: u64| {
        let mut tally = Tally::default();
        let ran = sweep::run(n * shard.1 + shard.0, stage, &mut tally);
        (tally, ran)
    };
    cases(order, &budget, work, report, &mut tally, progress, |n| {
        let index = n * shard.1 + shard.0;
        let token = format!("kb1:sweep:{ops_max}:{index}");
        Origin { token, index, seed: 1, config: sweep::config() }
    });
    report.sequences = Some(tally.totals.cases);
    let cores = start.elapsed().as_secs_f64() * order.jobs as f64;
    report.rates.images_per_second_core = tally.totals.images as f64 / cores.max(f64::EPSILON);
    end(order, report, &tally, start);
    // A sweep has no faults and few operations: its matrix and counters are no whole pass's.
    report.directed_whole = false;
}

/// Sweeps one row of the matrix of groups.
pub fn run_row(order: &Order, row: Row, ops_max: u32, report: &mut Report, progress: Progress<'_>) {
    let start = Instant::now();
    begin(order, report, "");
    let mut tally = Tally::default();
    schedules::sweep(order, row, ops_max, report, &mut tally, progress);
    end(order, report, &tally, start);
    report.cells = Cells { matrix: tally.rows.cells_of(row), ..Cells::default() };
    report.counters.clear();
    // Two writes make no group behind another one, and a shard has not all of them.
    report.directed_whole = ops_max >= 3 && order.shard.1 == 1 && !report.interrupted;
    report.judge();
}

/// Where a failing case came from.
pub(crate) struct Origin {
    pub(crate) token: String,
    pub(crate) index: u64,
    pub(crate) seed: u64,
    pub(crate) config: Config,
}

type Ran = (Tally, Result<(), Box<Broken>>);

fn cases(
    order: &Order,
    budget: &Budget,
    work: impl Fn(u64) -> Ran + Send + Sync + 'static,
    report: &mut Report,
    tally: &mut Tally,
    progress: Progress<'_>,
    origin: impl Fn(u64) -> Origin,
) {
    let pool = Pool { jobs: order.jobs, case_limit: order.case_limit };
    pool::run(&pool, budget, work, |n, done| {
        let slip = match done {
            Done::Ran((counted, Ok(()))) => {
                tally.absorb(&counted);
                progress(&tally.totals, report.failures_all);
                return;
            }
            Done::Ran((counted, Err(broken))) => {
                tally.absorb(&counted);
                add_failure(report, &origin(n), &broken);
                None
            }
            Done::Panicked(text) => Some((text, false)),
            Done::Hung => Some(("no answer within the limit".to_owned(), true)),
        };
        if let Some((got, hang)) = slip {
            let origin = origin(n);
            let slip = Slip {
                promise: if hang { "B1" } else { "-" }.to_owned(),
                what: if hang { "a case that never ended" } else { "a panic" }.to_owned(),
                expected: format!("an end within {:?}", order.case_limit),
                got,
            };
            let mut failure = told(report, &origin, &slip);
            failure.hang = hang;
            report.add_failure(failure);
        }
        if order.first_only {
            budget.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        progress(&tally.totals, report.failures_all);
    });
    report.interrupted |=
        order.budget.stop.load(std::sync::atomic::Ordering::Relaxed) && report.failures_all == 0;
}

/// The budgets of cases and of schedules: as many of each, or time to each by its share.
fn halves(budget: &Budget) -> (Budget, Budget) {
    let now = Instant::now();
    let until = budget.until.map(|until| now + until.saturating_duration_since(now).mul_f64(0.6));
    (Budget { until, ..budget.clone() }, budget.clone())
}

fn shard_budget(budget: &Budget, shard: (u64, u64)) -> Budget {
    let mine = |cases: u64| (cases + shard.1 - 1).saturating_sub(shard.0) / shard.1;
    Budget { cases: budget.cases.map(mine), ..budget.clone() }
}

fn begin(order: &Order, report: &mut Report, profile: &str) {
    // A panic of the engine is told in the report, once, and not for each try of a shrink.
    std::panic::set_hook(Box::new(|_| {}));
    report.seed = order.seed;
    report.jobs = order.jobs as u64;
    report.profile = profile.to_owned();
    if order.shard.1 > 1 {
        report.shard = format!("{}/{}", order.shard.0 + 1, order.shard.1);
    }
}

fn end(order: &Order, report: &mut Report, tally: &Tally, start: Instant) {
    report.totals = tally.totals.clone();
    report.cells = tally.matrix.cells();
    report.cells.matrix.extend(tally.rows.cells());
    report.cells.recount();
    report.counters = tally.counters.by_name();
    report.digest = format!("{:016x}", tally.digest);
    report.elapsed_s = start.elapsed().as_secs_f64();
    report.rates.lockstep_ops_per_second_core =
        lockstep_rate(order.seed, Duration::from_millis(400));
    report.judge();
}

fn directed_pass(order: &Order, report: &mut Report, tally: &mut Tally) {
    let start = Instant::now();
    let done = directed::run(&order.budget);
    for (name, broken) in &done.broken {
        let script = &broken.1;
        let origin = Origin {
            token: format!("kb1:directed:{name}"),
            index: 0,
            seed: script.seed,
            config: script.config.clone(),
        };
        add_failure(report, &origin, &broken.0);
    }
    tally.absorb(&done.tally);
    report.directed_whole = schedules::directed(order, report, tally) && done.whole;
    report.directed_s = start.elapsed().as_secs_f64();
}

fn impossible_cells(report: &mut Report, tally: &Tally) {
    for (cell, why) in tally.matrix.impossible() {
        report.add_failure(Failure {
            promise: "-".to_owned(),
            what: format!("the cell {cell} was hit"),
            expected: format!("never: {why}"),
            got: "a hit: the table is wrong, or a promise is broken".to_owned(),
            seed: report.seed,
            revision: report.revision.clone(),
            ..Failure::default()
        });
    }
}

fn told(report: &Report, origin: &Origin, slip: &Slip) -> Failure {
    Failure {
        promise: slip.promise.clone(),
        what: slip.what.clone(),
        token: origin.token.clone(),
        seed: report.seed,
        case: origin.index,
        revision: report.revision.clone(),
        expected: slip.expected.clone(),
        got: slip.got.clone(),
        ..Failure::default()
    }
}

/// Shrinks a failing run, unless its like was shrunk before, and adds it to the report.
pub(crate) fn add_failure(report: &mut Report, origin: &Origin, broken: &Broken) {
    let mut failure = told(report, origin, &broken.slip);
    failure.at = broken.place.clone();
    failure.ops = broken.sections.iter().map(|section| section.ops.len() as u64).sum();
    let known =
        report.failures.iter().any(|f| f.promise == failure.promise && f.what == failure.what);
    let script = if known || report.failures.len() >= SHRUNK_MAX {
        let (seed, config) = (origin.seed, origin.config.clone());
        Script { seed, config, sections: broken.sections.clone() }
    } else {
        let shrunk = shrink(origin.seed, &origin.config, broken, SHRINK_LIMIT);
        report.diverged |= !shrunk.reproduced;
        let Slip { expected, got, what, .. } = shrunk.broken.slip.clone();
        (failure.expected, failure.got, failure.what) = (expected, got, what);
        failure.at = shrunk.broken.place.clone();
        failure.events = shrunk.broken.events.clone();
        shrunk.script
    };
    failure.shrunk_ops = script.ops();
    failure.options = Config::default()
        .changes_to(&script.config)
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ");
    let Failure { promise, what, expected, got, .. } = &failure;
    failure.shrunk = format!("# {promise}: {what}\n# expected {expected}\n# got {got}\n{script}");
    report.add_failure(failure);
}

/// Operations of the standard mix in lockstep, without crashes, per second on one core. The time of
/// drawing them is not in it.
#[must_use]
pub fn lockstep_rate(seed: u64, limit: Duration) -> f64 {
    let (mut ops, mut spent, mut round) = (0u64, Duration::ZERO, 0);
    while spent < limit && round < 1000 {
        let source = &mut Seed(case_seed(seed, round));
        let plan = Plan::new(source, Mix::Standard);
        let case = plan.case(source, 4000);
        let fs = SimFs::new(Disk::new());
        fs.with(|disk| disk.set_log_max(0));
        let env = Env {
            fs: Arc::new(fs.clone()),
            clock: Arc::new(fs.clone()),
            random: Arc::new(SeededRandom::new(seed)),
            probe: None,
        };
        let start = Instant::now();
        let Ok(mut driver) = Driver::create(env, "/db", case.config.clone()) else { return 0.0 };
        for op in &case.ops {
            if driver.step(op).is_err() {
                return 0.0;
            }
        }
        spent += start.elapsed();
        ops += case.ops.len() as u64;
        round += 1;
    }
    ops as f64 / spent.as_secs_f64().max(f64::EPSILON)
}
