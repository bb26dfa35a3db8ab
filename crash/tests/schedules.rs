//! Schedules of the whole shared handle on the simulated disk, with crashes inside of them.
//!
//! How many ran is written to `schedules.txt` beside the build's other results.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use kiban_crash::campaign::{Order, case_seed};
use kiban_crash::disk::Rule;
use kiban_crash::pool::Budget;
use kiban_crash::report::{Report, Totals};
use kiban_crash::schedules::chooser::Pace;
use kiban_crash::schedules::world::{FAULTY_CALLS, How, Step, World};
use kiban_crash::schedules::{campaign, case, origin, twice};
use kiban_crash::tally::Tally;
use kiban_model::ops::Record;
use kiban_model::value::Value;
use std::io::Write as _;
use std::time::Instant;

fn order(seed: u64, count: u64) -> Order {
    Order { jobs: 2, ..Order::new(seed, Budget::cases(count)) }
}

/// Writes down what ran.
fn tell(what: &str, totals: &Totals, begun: Instant) {
    let line = format!(
        "{what}: {} schedules, {} with crashes at an instant of their own, {} images recovered, \
         {} choices, {:.1} s",
        totals.schedules,
        totals.schedule_cases,
        totals.images,
        totals.schedule_steps,
        begun.elapsed().as_secs_f64(),
    );
    println!("{line}");
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("schedules.txt");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let told = file.and_then(|mut file| writeln!(file, "{line}"));
    told.expect("the build's directory takes a file");
}

fn held(report: &Report) {
    for failure in &report.failures {
        println!(
            "{}: {}: expected {}, got {}\n  {}\n  {}\n  replay {}",
            failure.promise,
            failure.what,
            failure.expected,
            failure.got,
            failure.at,
            failure.options,
            failure.token
        );
        println!("{}", failure.events.join("\n"));
    }
    assert!(report.failures.is_empty(), "{} schedules broke a promise", report.failures_all);
}

#[test]
fn schedules_at_random() {
    let begun = Instant::now();
    let order = order(1, 5000);
    let (mut report, mut tally) = (Report::default(), Tally::default());
    campaign::random(&order, &order.budget, &mut report, &mut tally);
    tell("at random", &tally.totals, begun);
    held(&report);
}

#[test]
fn directed_schedules_meet_every_cell_and_counter() {
    let begun = Instant::now();
    let order = order(1, u64::MAX);
    let (mut report, mut tally) = (Report::default(), Tally::default());
    assert!(campaign::directed(&order, &mut report, &mut tally));
    tell("directed", &tally.totals, begun);
    held(&report);
    let missing: Vec<_> = tally.rows.cells().into_iter().filter(|cell| cell.hits == 0).collect();
    assert!(missing.is_empty(), "{missing:?}");
    println!("{:?}", tally.counters.by_name());
    assert!(campaign::is_whole(&tally));
}

/// A lie of the directory's sync is believed by no sync beside it, and a copy has its logs: with
/// K24 or K25 several of these break.
#[test]
fn rare_neighbours_beside_each_other() {
    let begun = Instant::now();
    let order = order(1, 2000);
    let (mut report, mut tally) = (Report::default(), Tally::default());
    campaign::special(&order, &order.budget, &mut report, &mut tally);
    tell("rare neighbours", &tally.totals, begun);
    held(&report);
}

/// Every schedule with one preemption of a tiny world: bounded, and whole within the bound.
#[test]
fn every_preemption_of_a_tiny_world() {
    let begun = Instant::now();
    let mut tally = Tally::default();
    for seed in 0..20 {
        let mut world = World::of_groups(0, case_seed(2, seed));
        world.clients.truncate(2);
        world.clients.iter_mut().for_each(|steps| steps.truncate(2));
        world.base = None;
        world.knobs.background = false;
        world.pace = Pace::Preempt(Vec::new());
        let before = tally.totals.schedule_steps;
        case::run_world(world.clone(), &mut tally).expect("it holds without a preemption");
        let steps = tally.totals.schedule_steps - before;
        for step in 0..steps as u32 {
            world.pace = Pace::Preempt(vec![(step, 1)]);
            let ran = case::run_world(world.clone(), &mut tally);
            ran.unwrap_or_else(|broken| panic!("a preemption at {step}: {broken:?}"));
        }
    }
    tell("every preemption", &tally.totals, begun);
}

/// Every call of a kind fails in turn, in short worlds.
#[test]
fn every_call_fails_in_turn() {
    let begun = Instant::now();
    let (mut report, mut tally) = (Report::default(), Tally::default());
    for (kind, (op, fault, end)) in (0..).zip(FAULTY_CALLS) {
        let mut world = World::of_groups(8 + kind % 3, case_seed(3, kind));
        world.shots = 4;
        for skip in 0.. {
            let rule = Rule::new(fault).op(op).path_end(end).skip(skip);
            world.faults = vec![rule];
            let before = tally.totals.errors_injected;
            if let Err(broken) = case::run_world(world.clone(), &mut tally) {
                report.add_failure(campaign::failure_of(&broken));
            }
            if tally.totals.errors_injected == before {
                break;
            }
        }
    }
    tell("every call fails in turn", &tally.totals, begun);
    held(&report);
}

/// Equal seeds, equal runs, whatever the jobs (F1).
#[test]
fn one_seed_is_one_schedule() {
    let digest = |jobs: usize| {
        let order = Order { jobs, ..order(4, 60) };
        let (mut report, mut tally) = (Report::default(), Tally::default());
        campaign::random(&order, &order.budget, &mut report, &mut tally);
        (tally.digest, tally.totals)
    };
    assert_eq!(digest(1), digest(2));
}

/// Shuttle's own check for uncontrolled nondeterminism over whole worlds: each runs a second time
/// with the choices of the first, and must be offered the same tasks, do the same and leave the
/// same bytes (F1).
#[test]
fn nothing_outside_of_the_scheduler_decides() {
    let (mut choices, worlds) = (0, 500);
    for n in 0..worlds {
        let world = if n % 2 == 0 { origin::numbered(6, n) } else { origin::directed(n) };
        let same = twice::check(&world, &world);
        choices += same.unwrap_or_else(|story| panic!("{}: {story}", world.origin));
    }
    assert!(choices > worlds * 500, "{choices} choices in {worlds} worlds");
}

/// The check above sees what it is for: other tasks, other calls, other bytes.
#[test]
fn a_second_run_that_differs_is_found_out() {
    let world = World { panic: None, faults: Vec::new(), ..origin::directed(8) };
    twice::check(&world, &world).expect("the same world");
    let other_ids = World { seed: world.seed + 1, ..world.clone() };
    let mut one_write_less = world.clone();
    one_write_less.clients[0].pop();
    let mut one_client_less = world.clone();
    one_client_less.clients.pop();
    for (other, said) in [
        (other_ids, "other bytes"),
        (one_write_less, "possible nondeterminism"),
        (one_client_less, "possible nondeterminism"),
    ] {
        let story = twice::check(&world, &other).expect_err(said);
        assert!(story.contains(said), "{story}");
    }
}

/// Where nobody but the clients does maintenance, whoever finds another one building waits for it:
/// taking its own look for progress it would wake itself for ever, as no task that runs gives way
/// here (B1).
#[test]
fn whoever_finds_another_thread_building_waits_for_it() {
    let begun = Instant::now();
    let mut tally = Tally::default();
    for steps in [[Step::Flush, Step::Flush], [Step::Compact, Step::Flush]] {
        let mut world = origin::directed(8);
        // Only its end is asked for.
        (world.panic, world.faults, world.shots) = (None, Vec::new(), 0);
        (world.base, world.knobs.background) = (Some(1), false);
        let records = |seed| {
            let value = Some(Value::Made { seed, len: 20 });
            vec![Record { key: b"a".to_vec(), value }]
        };
        let client = |(seed, step)| {
            let write = Step::Write { records: records(seed), how: How::Buffered, timeout: false };
            vec![write, step]
        };
        world.clients = (1..).zip(steps).map(client).collect();
        world.pace = Pace::Preempt(Vec::new());
        let before = tally.totals.schedule_steps;
        case::run_world(world.clone(), &mut tally).expect("it holds without a preemption");
        let choices = tally.totals.schedule_steps - before;
        for choice in 0..choices as u32 {
            world.pace = Pace::Preempt(vec![(choice, 1)]);
            let before = tally.totals.schedule_steps;
            let ran = case::run_world(world.clone(), &mut tally);
            ran.unwrap_or_else(|broken| panic!("a preemption at {choice}: {broken:?}"));
            // It ends at once: nobody turns round and round.
            let took = tally.totals.schedule_steps - before;
            assert!(took < 4 * choices, "{took} choices with a preemption at {choice}");
        }
        assert!(choices > 100, "{choices} choices");
    }
    tell("one builds, another waits", &tally.totals, begun);
}

/// A disk whose syncs do nothing breaks D1; the failure is made small, and its token and its file
/// replay it.
#[test]
fn a_failure_is_made_small_and_replays() {
    let play = |text: &str| {
        let mut report = Report::default();
        kiban_crash::token::play(text, &mut report).expect("a token, or its file");
        report
    };
    let broken = (0..64).find_map(|n| {
        let report = play(&format!("kb1:schedule:directed:{}/lie", 16 * n));
        report.failures.into_iter().next().filter(|failure| failure.promise == "D1")
    });
    let failure = broken.expect("no engine survives such a disk");
    println!("{} calls, then {}: {}", failure.ops, failure.shrunk_ops, failure.token);
    assert!(failure.shrunk_ops > 0 && failure.shrunk_ops < failure.ops, "{failure:?}");
    assert!(failure.shrunk.contains(&failure.token), "{}", failure.shrunk);
    for text in [&failure.token, &failure.shrunk] {
        let again = play(text);
        let same = again.failures.first().expect("it breaks again");
        assert_eq!((&same.promise, same.ops), (&failure.promise, failure.shrunk_ops));
    }
    // Without the lie it holds: what breaks is what was put in.
    let (whole, _) = failure.token.split_once('/').expect("cuts");
    assert!(play(whole).failures.is_empty());
}
