//! The whole trace on a real directory, beside the oracle.
//!
//! Invariants
//! - The directory is new and is removed afterwards, whatever happened.
//! - On the way the database is closed or dropped and opened again, by turns through maps and
//!   through reads, and compared whole each time.

use super::{Board, Task, config};
use crate::report::{Failure, Report};
use kiban::env::Env;
use kiban::{Error, ErrorKind};
use kiban_model::driver::{Driver, Mismatch, Outcome, Tolerance};
use kiban_model::durable::Truth;
use kiban_model::ops::{Case, Op};
use std::io;
use std::path::Path;

/// Options of a database of this size. Smaller than an application's, so that a trace of some
/// gigabytes flushes and compacts often.
const OPTIONS: &[(&str, u64)] = &[
    ("memtable_bytes", 8 << 20),
    ("memtables_max", 3),
    ("log_bytes", 16 << 20),
    ("log_budget_bytes", 64 << 20),
    ("block_bytes", 4096),
    ("restart_interval", 16),
    ("table_bytes_max", 16 << 20),
    ("cache_bytes", 16 << 20),
    ("open_files_max", 64),
    ("point_index", 1),
    ("tier_runs", 4),
    ("runs_stop", 12),
    ("compaction_slice_bytes", 32 << 20),
    ("value_bytes_max", 64 << 20),
    ("batch_bytes_max", 64 << 20),
    ("value_copy_bytes_max", 4096),
    ("manifest_bytes_max", 1 << 20),
];

/// Opens again so many times on the way.
const REOPENS: usize = 3;
/// Operations between two syncs.
const SYNC_EVERY: usize = 1_000;

/// Runs the trace; whether nothing went wrong.
pub(super) fn run(task: &Task, report: &mut Report, board: &Board<'_>, half: usize) -> bool {
    let made = match &task.dir {
        Some(dir) => tempfile::Builder::new().prefix("kiban-trace").tempdir_in(dir),
        None => tempfile::Builder::new().prefix("kiban-trace").tempdir(),
    };
    let place = match made {
        Ok(place) => place,
        Err(error) => {
            let dir = task.dir.clone().unwrap_or_else(std::env::temp_dir);
            report.environment = Some(refusal(&dir, &error));
            return false;
        }
    };
    report.totals.cases += 1;
    let ended = lockstep(task, &place.path().join("db"), report, board, half);
    if let Err(error) = place.close() {
        eprintln!("warning: the trace's directory stays: {error}");
    }
    match ended {
        Ok(()) => true,
        Err(End::Environment(why)) => {
            report.environment = Some(why);
            false
        }
        Err(End::Broken(at, mismatch)) => {
            report.add_failure(failure(task, report, at, *mismatch));
            false
        }
    }
}

enum End {
    Environment(String),
    Broken(usize, Box<Mismatch>),
}

fn lockstep(
    task: &Task,
    dir: &Path,
    report: &mut Report,
    board: &Board<'_>,
    half: usize,
) -> Result<(), End> {
    let ops = &task.case.ops;
    let broken = |at| move |mismatch| End::Broken(at, Box::new(mismatch));
    let (config, truth) = (config(task, OPTIONS), Truth::default());
    let mut driver = Driver::closed(Env::os(), dir.to_path_buf(), config, truth);
    // No fault is injected here: an error is the directory's.
    driver.tolerance = Tolerance { io: true, ..Tolerance::default() };
    go(0, driver.ensure_open().map_err(broken(0))?)?;
    let reopen_every = ops.len() / (REOPENS + 1) + 1;
    for (at, op) in ops.iter().enumerate() {
        go(at, driver.step(op).map_err(broken(at))?)?;
        report.totals.ops += 1;
        if at % SYNC_EVERY == SYNC_EVERY - 1 {
            go(at, driver.step(&Op::Sync).map_err(broken(at))?)?;
            if !board.update(half, at, &report.totals, report.failures_all) {
                return Ok(());
            }
        }
        if at % reopen_every == reopen_every - 1 {
            go(at, driver.step(&reopen(at / reopen_every)).map_err(broken(at))?)?;
        }
    }
    for op in [reopen(REOPENS), reopen(REOPENS + 1), Op::Verify] {
        go(ops.len(), driver.step(&op).map_err(broken(ops.len()))?)?;
    }
    go(ops.len(), driver.audit().map_err(broken(ops.len()))?)?;
    go(ops.len(), driver.step(&Op::Close).map_err(broken(ops.len()))?)
}

fn reopen(turn: usize) -> Op {
    let pread = (turn + 1) as u64 % 2;
    Op::Reopen { by_drop: turn % 2 == 1, changes: vec![("reads_pread", pread)] }
}

/// Goes on unless the environment refused.
fn go(at: usize, outcome: Outcome) -> Result<(), End> {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::Failed(error) if is_environment(&error) => {
            Err(End::Environment(error.to_string()))
        }
        Outcome::Failed(error) => {
            let mismatch = Mismatch::new("B1", "no error on a healthy disk", error.to_string());
            Err(End::Broken(at, Box::new(mismatch)))
        }
    }
}

fn is_environment(error: &Error) -> bool {
    match error {
        Error::Poisoned { cause } => is_environment(cause),
        other => other.kind() == ErrorKind::Io,
    }
}

fn refusal(dir: &Path, error: &io::Error) -> String {
    format!("{}: {error}; --dir names another place", dir.display())
}

/// A difference on a real directory: the operations up to it are the case.
fn failure(task: &Task, report: &Report, at: usize, mismatch: Mismatch) -> Failure {
    let ops = task.case.ops[..(at + 1).min(task.case.ops.len())].to_vec();
    let case = Case { config: config(task, OPTIONS), ops };
    Failure {
        promise: mismatch.promise.to_owned(),
        what: format!("on a real directory, the answer of `{}`", mismatch.op),
        seed: task.seed,
        revision: report.revision.clone(),
        options: config_text(&case),
        ops: task.case.ops.len() as u64,
        shrunk_ops: case.ops.len() as u64,
        shrunk: case.to_string(),
        at: format!("operation {at} of the trace"),
        expected: mismatch.expected,
        got: mismatch.got,
        ..Failure::default()
    }
}

fn config_text(case: &Case) -> String {
    let text = Case { config: case.config.clone(), ops: Vec::new() }.to_string();
    text.lines().map(|line| line.trim_start_matches("option ")).collect::<Vec<_>>().join(", ")
}
