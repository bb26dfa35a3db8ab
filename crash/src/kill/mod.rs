//! `kiban-crash kill`: a real process on a real directory, killed at random moments.
//!
//! A round: a victim works on the database with many threads and is killed (`life`, `victim`); a
//! few more may be killed while they recover it; one examines it; what it shows is compared with
//! what the first had told before it died (`tale`, `judge`). The next round goes on in the same
//! directory. `plan` says what a victim does, `wire` how it tells.
//!
//! Invariants
//! - The parent opens nothing: an abort or a hang of the engine is a victim's, and a failure.
//! - The first broken promise ends the run, and the directory stays, with the notes of its round.
//! - Threads and moments are the machine's: a seed repeats the operations, not the run.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

pub mod judge;
pub mod life;
pub mod look;
pub mod plan;
mod rounds;
pub(crate) mod tale;
pub mod victim;
pub mod wire;

use crate::report::{Failure, Report, Totals};
use crate::runner::interrupt::Interrupt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What to run.
#[derive(Clone, Debug)]
pub struct Task {
    /// The command that victims are: its `victim` subcommand.
    pub program: PathBuf,
    /// Where the database's own directory is made; the current directory if `None`.
    pub dir: Option<PathBuf>,
    /// Rounds.
    pub rounds: u32,
}

/// So many rounds must meet every counter.
const ROUNDS_WHOLE: u32 = 100;

/// Something that must not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The promise; empty where the operating system is to blame.
    pub(crate) promise: String,
    pub(crate) what: String,
    pub(crate) expected: String,
    pub(crate) got: String,
    pub(crate) hang: bool,
}

impl Fault {
    pub(crate) fn new(
        promise: &str,
        what: &str,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        let (expected, got) = (expected.into(), got.into());
        Self { promise: promise.to_owned(), what: what.to_owned(), expected, got, hang: false }
    }

    pub(crate) fn environment(got: impl Into<String>) -> Self {
        Self { got: got.into(), ..Self::default() }
    }
}

/// Runs `task` and fills `report`, which knows seed and revision already; `progress` hears of the
/// rounds done.
pub fn run(
    task: &Task,
    report: &mut Report,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(u64, &Totals, u64),
) {
    let begun = Instant::now();
    let parent = task.dir.as_deref().unwrap_or(Path::new("."));
    let place = match tempfile::Builder::new().prefix("kiban-kill-").tempdir_in(parent) {
        Ok(place) => place,
        Err(error) => {
            let text = format!("{}: {error}; --dir names another place", parent.display());
            report.environment = Some(text);
            return report.judge();
        }
    };
    let mut rounds = rounds::Rounds::new(task, place.path(), report.seed);
    let mut fault = None;
    for round in 0..task.rounds {
        match rounds.round(round, interrupt) {
            Ok(()) if interrupt.wished() => break,
            Ok(()) => {}
            Err(broken) => {
                fault = Some((round, broken));
                break;
            }
        }
        rounds.fill(report);
        progress(u64::from(round) + 1, &report.totals, 0);
    }
    rounds.fill(report);
    report.interrupted |= interrupt.wished();
    report.directed_whole = task.rounds >= ROUNDS_WHOLE && !report.interrupted;
    match fault {
        Some((_, fault)) if fault.promise.is_empty() => report.environment = Some(fault.got),
        Some((round, fault)) => {
            rounds.write_notes();
            let kept = place.keep();
            report.add_failure(failure(report, &rounds, round, fault, &kept));
        }
        None => {
            if let Err(error) = place.close() {
                eprintln!("warning: a directory stays: {error}");
            }
        }
    }
    report.elapsed_s = begun.elapsed().as_secs_f64();
    report.judge();
}

fn failure(
    report: &Report,
    rounds: &rounds::Rounds<'_>,
    round: u32,
    fault: Fault,
    kept: &Path,
) -> Failure {
    Failure {
        promise: fault.promise,
        what: fault.what,
        seed: report.seed,
        case: u64::from(round),
        revision: report.revision.clone(),
        options: format!("database and notes are kept in {}", kept.display()),
        ops: report.totals.ops,
        // Real threads repeat nothing: there is nothing to leave out.
        shrunk_ops: report.totals.ops,
        at: rounds.place(),
        events: rounds.last_notes(),
        expected: fault.expected,
        got: fault.got,
        hang: fault.hang,
        ..Failure::default()
    }
}
