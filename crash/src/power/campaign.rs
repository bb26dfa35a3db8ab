//! The campaign: workers on several devices at a time, until the quotas or the time are done.
//!
//! Invariants
//! - What is counted is the workers' sum, looked at while they run.
//! - The first broken promise ends the run; the image and the notes are kept.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::Task;
use super::check::Checker;
use super::faults::DeviceFault;
use super::guard::Guard;
use super::place::FileSystem;
use super::worker::{self, Board, Found};
use crate::kill::Fault;
use crate::report::{Failure, PowerRow, Report, Totals};
use crate::runner::interrupt::Interrupt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks at the workers.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `task` in the directory `dir`.
pub(super) fn run(
    task: &Task,
    (dir, guard): (&Path, &Guard),
    report: &mut Report,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(u64, &Totals, u64),
) {
    let until = task.budget.map(|budget| Instant::now() + budget);
    let board = Board::new(task, until);
    let work = |number| worker::work(&board, task, (dir, guard), number, interrupt);
    wait_for_workers(task.jobs, &work, report, &mut |report| {
        fill(report, &board);
        progress(report.totals.images, &report.totals, 0);
    });
    let whole = |quota: &(FileSystem, u64)| {
        let name = quota.0.name();
        report.power.iter().any(|row| row.fs == name && row.images >= quota.1.min(WHOLE_IMAGES))
    };
    // Healthy devices have counters of their own.
    report.directed_whole = !interrupt.wished()
        && task.faulty_every > 1
        && task.quota.iter().all(|quota| quota.1 >= WHOLE_IMAGES)
        && task.quota.iter().all(whole)
        && task.faults.len() == DeviceFault::ALL.len();
    for (system, asked) in &task.quota {
        let name = system.name();
        let row = report.power.iter().find(|row| row.fs == name);
        report.looked(name, "images", row.map_or(0, |row| row.images), *asked);
    }
    report.counters.extend(fault_counters(task, &report.power));
    match board.take_broken() {
        // What an interrupt from the terminal ended is no fault of the machine's.
        Some(found) if found.fault.promise.is_empty() && interrupt.wished() => {}
        Some(found) if found.fault.promise.is_empty() => {
            report.environment = Some(found.fault.got);
        }
        Some(found) => {
            let failure = failure(report, found);
            report.add_failure(failure);
        }
        None => {}
    }
}

/// Has `work` done by so many workers, each with its number, until all of them have ended; `look`
/// is called meanwhile, and once after that. A worker that panicked is a failure in `report`.
pub(super) fn wait_for_workers(
    jobs: usize,
    work: &(dyn Fn(usize) + Sync),
    report: &mut Report,
    look: &mut dyn FnMut(&mut Report),
) {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|number| scope.spawn(move || work(number))).collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::sleep(LOOK);
            look(report);
        }
        for worker in workers {
            if let Err(panic) = worker.join() {
                let got = crate::pool::panic_text(&*panic);
                let what = "the rig".to_owned();
                let failure = Failure { promise: "-".to_owned(), what, got, ..Failure::default() };
                report.add_failure(failure);
            }
        }
    });
    look(report);
}

/// So many images on each file system must meet every counter.
pub(super) const WHOLE_IMAGES: u64 = 2000;

/// Puts the figures into a report.
fn fill(report: &mut Report, board: &Board) {
    report.power = board.rows();
    let sum = |of: fn(&PowerRow) -> u64| report.power.iter().map(of).sum::<u64>();
    let totals = Totals {
        cases: sum(|row| row.sessions + row.device_sessions),
        ops: sum(|row| row.ops),
        images: sum(|row| row.images),
        images_nested: sum(|row| row.nested),
        images_duplicate: sum(|row| row.duplicates),
        errors_injected: sum(|row| row.device_errors),
        points: sum(|row| row.writes + row.flushes),
        ..Totals::default()
    };
    report.totals = totals;
    report.counters.clear();
    for row in &report.power {
        for (name, n) in [
            ("acknowledged and not durable, and lost", row.behind),
            ("cut in recovery", row.nested),
            ("durable, and shown", row.durable_behind),
            ("a device error met by the engine", row.poisoned),
            ("writes lost", row.lossy),
            ("writes torn", row.torn),
        ] {
            report.counters.insert(format!("{}: {name}", row.fs), n);
        }
    }
}

/// How often each kind of device error was met on each file system.
fn fault_counters(task: &Task, rows: &[PowerRow]) -> Vec<(String, u64)> {
    let of = |row: &PowerRow| {
        let counter = |fault: &DeviceFault| {
            let hits = row.fault_hits.get(fault.name()).copied().unwrap_or(0);
            (format!("{}: {}", row.fs, fault.name()), hits)
        };
        task.faults.iter().map(counter).collect::<Vec<_>>()
    };
    rows.iter().flat_map(of).collect()
}

fn failure(report: &Report, found: Found) -> Failure {
    let Found { fault, fs, seed, place, events, kept } = found;
    Failure {
        promise: fault.promise,
        what: fault.what,
        seed: report.seed,
        case: seed,
        revision: report.revision.clone(),
        options: format!("{} on {}", kept, fs.name()),
        ops: report.totals.ops,
        // Real threads repeat nothing: there is nothing to leave out.
        shrunk_ops: report.totals.ops,
        at: place,
        events,
        expected: fault.expected,
        got: fault.got,
        hang: fault.hang,
        ..Failure::default()
    }
}

/// Keeps what a failure needs to be looked into; says where that is.
pub(super) fn keep(task: &Task, fault: &Fault, checker: &Checker<'_>, size: u64) -> String {
    if fault.promise.is_empty() {
        return String::new();
    }
    let kept = (|| -> std::io::Result<PathBuf> {
        let dir = tempfile::Builder::new().prefix("kiban-broken-").tempdir_in(task.parent())?;
        if let Some((base, top)) = &checker.at_hand {
            worker::write_image(&dir.path().join("image"), base, top, size)?;
        }
        let mut text = format!("seed {} of the session; {}\n", checker.seed, checker.which);
        for note in &checker.told {
            let _ = writeln!(text, "{note}");
        }
        std::fs::write(dir.path().join("notes.txt"), text)?;
        let heard = checker.heard.iter().enumerate();
        let heard: String = heard.map(|(at, entry)| format!("{at} {entry}\n")).collect();
        std::fs::write(dir.path().join("log.txt"), heard)?;
        Ok(dir.keep())
    })();
    kept.map_or_else(|error| format!("nothing is kept: {error}"), |dir| said(&dir))
}

fn said(dir: &Path) -> String {
    format!("image and notes are kept in {}", dir.display())
}
