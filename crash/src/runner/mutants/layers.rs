//! The layers of the rig that a seeded bug has to get past, cheapest first.
//!
//! Invariants
//! - A layer runs in a process of its own, the mutated runner's: an abort, an overflowing stack or
//!   an endless loop of the engine is a kill, never the end of the campaign.
//! - Every layer has a time limit; a process over it has hung, and is ended.
//! - The unmutated engine runs the same layers with the same seed and budgets.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "outside the engine")]

use crate::power::place::FileSystem;
use crate::report::{Failure, Looked, Report, Verdict};
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its name, as in the kill matrix.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// How it is run.
    pub way: Way,
    /// After so many seconds it has hung.
    pub limit_s: u64,
}

/// How a layer is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the mutated runner, so many cases.
    Cases(u64),
    /// As tests of a package of the mutated workspace.
    Tests(&'static [&'static str]),
    /// By the mutated runner's `power` on this file system, so many images.
    Power(FileSystem, u64),
}

/// Every layer, in order of cost.
pub const LAYERS: &[Layer] = &[
    layer("SEQ", Way::Cases(400), 120, "lockstep with the oracle, no faults"),
    layer("FLIP", Way::Cases(1), 240, "damage to every kind of file"),
    layer("CRASH", Way::Cases(400), 900, "crashes of generated cases"),
    layer("ERR", Way::Cases(500), 900, "injected errors, with crashes"),
    layer("RECR", Way::Cases(200), 900, "crashes inside and after recoveries"),
    layer("DIRECT", Way::Cases(1), 300, "the directed pass: every stage, fault and outcome"),
    layer("UNIT", Way::Tests(&["--package", "kiban", "--lib"]), 240, "the engine's own unit tests"),
    layer("KILL", Way::Cases(60), 300, "killed processes on a real directory"),
    layer("SCHED", Way::Tests(&["--package", "kiban-loom"]), 600, "loom: kernels, bounded"),
    layer("SxC", Way::Cases(3000), 600, "schedules of the shared handle, with crashes inside"),
];

/// The layers that need root and a machine with the devices: never among the others.
pub const POWER: &[Layer] = &[
    power("POWER-ext4", FileSystem::Ext4),
    power("POWER-xfs", FileSystem::Xfs),
    power("POWER-btrfs", FileSystem::Btrfs),
];

const fn power(name: &'static str, system: FileSystem) -> Layer {
    layer(name, Way::Power(system, 400), 600, "power cuts and device errors on this file system")
}

/// Seconds until a power layer begins no new image. What it is at then may take minutes more: a
/// life of the workload that waits for the device is not a hang, and must not be a kill.
const POWER_BUDGET_S: u64 = 120;

const fn layer(name: &'static str, way: Way, limit_s: u64, what: &'static str) -> Layer {
    Layer { name, what, way, limit_s }
}

/// Layers that take seconds: every seeded bug goes through them first.
const QUICK: usize = 2;

/// The order in which a seeded bug that `expected` should kill goes through the layers, as places
/// in [`LAYERS`]: by cost, but what should kill it before what probably does not.
#[must_use]
pub fn order_for(expected: &str) -> Vec<usize> {
    let mut order: Vec<usize> = (0..LAYERS.len()).collect();
    order[QUICK..].sort_by_key(|&at| LAYERS[at].name != expected);
    order
}

/// What a layer came to.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// It saw nothing wrong.
    Survived(Report),
    /// A promise broke.
    Broke(Report),
    /// It saw nothing wrong until its time was over, and had not looked at all it was asked for.
    Unfinished(Report),
    /// Nothing broke, but a counter or a cell that the unmutated engine reaches stayed at zero.
    Silent(Report),
    /// The process ended otherwise than by its own will.
    Aborted(String),
    /// It did not end in time.
    Hung,
    /// It was asked to stop.
    Interrupted,
    /// The machine refused, or the rig does not know the layer.
    Trouble(String),
}

/// How a layer is run.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Seed of the layer.
    pub seed: u64,
    /// Workers.
    pub jobs: u16,
}

/// Runs `layer` with the mutated `binary`.
#[must_use]
pub fn run(binary: &Path, layer: &Layer, cases: u64, order: Order) -> End {
    let mut command = Command::new(binary);
    command.args(["layer", layer.name]);
    command.args(["--seed", &order.seed.to_string(), "--jobs", &order.jobs.to_string()]);
    command.args(["--budget", &cases.to_string()]);
    match execute(&mut command, Duration::from_secs(layer.limit_s)) {
        Ok(None) => End::Hung,
        Ok(Some(ended)) => judge(&ended),
        Err(why) => End::Trouble(why),
    }
}

/// Runs `images` images and every device error that a table can meet on `system`, with the mutated
/// `binary`. It ends in time by itself, so that it leaves nothing mounted.
#[must_use]
pub fn run_power(
    binary: &Path,
    layer: &Layer,
    (system, images): (FileSystem, u64),
    order: Order,
) -> End {
    let mut command = Command::new(binary);
    command.args(["power", "--json", "--fs", system.name()]);
    command.args(["--images", &images.to_string(), "--seed", &order.seed.to_string()]);
    command.args(["--budget", &format!("{POWER_BUDGET_S}s")]);
    command.args(["--faults", "write-once,flush-once", "--faulty-every", "2"]);
    command.args(["--jobs", &order.jobs.to_string()]);
    match execute(&mut command, Duration::from_secs(layer.limit_s)) {
        Ok(None) => End::Hung,
        Ok(Some(ended)) => whole(judge(&ended), images),
        Err(why) => End::Trouble(why),
    }
}

/// What saw nothing wrong has looked at as many images as were `asked` for, or is unfinished.
fn whole(end: End, asked: u64) -> End {
    match end {
        End::Survived(seen) | End::Silent(seen) if seen.totals.images < asked => {
            End::Unfinished(seen)
        }
        end => end,
    }
}

/// Whether nothing says that the engine did it: a hang, an abort or a panic of the rig.
#[must_use]
pub fn is_doubtful(end: &End) -> bool {
    match end {
        End::Aborted(_) | End::Hung => true,
        End::Broke(seen) => seen.failures.iter().all(|failure| failure.what == "the rig"),
        _ => false,
    }
}

/// What a layer of power cuts looked at, and what came of it; nothing for the other layers.
#[must_use]
pub fn looked(layer: &Layer, end: &End) -> Option<Looked> {
    let Way::Power(_, asked) = layer.way else { return None };
    let (word, seen) = match end {
        End::Survived(seen) => ("lives", Some(seen)),
        End::Unfinished(seen) => ("unfinished", Some(seen)),
        End::Broke(seen) | End::Silent(seen) => ("killed", Some(seen)),
        End::Aborted(_) | End::Hung => ("killed", None),
        End::Interrupted | End::Trouble(_) => return None,
    };
    let images = seen.map_or(0, |seen| seen.totals.images);
    Some(Looked { layer: layer.name.to_owned(), end: word.to_owned(), images, asked })
}

/// In words, what a layer came to.
#[must_use]
pub fn describe(layer: &Layer, end: &End) -> String {
    let told = match end {
        End::Survived(_) => "survived".to_owned(),
        End::Unfinished(_) => {
            let looked = looked(layer, end);
            return looked.map_or(String::new(), |looked| format!("unfinished {looked}"));
        }
        End::Broke(report) | End::Silent(report) => crate::runner::view::verdict(report),
        End::Aborted(why) => format!("aborted: {why}"),
        End::Hung => "hung".to_owned(),
        End::Interrupted => "interrupted".to_owned(),
        End::Trouble(why) => why.clone(),
    };
    format!("{}: {told}", layer.name)
}

/// Runs a layer that is tests of a package; they count no cases.
#[must_use]
pub fn run_tests(command: &mut Command, limit: Duration) -> End {
    match execute(command, limit) {
        Ok(None) => End::Hung,
        Ok(Some(ended)) if ended.status.success() => End::Survived(Report::default()),
        Ok(Some(ended)) => {
            let got = tail(&(ended.stdout + &ended.stderr), 20);
            let what = "a test failed".to_owned();
            let failure = Failure { promise: "-".to_owned(), what, got, ..Failure::default() };
            let mut report = Report::default();
            report.totals.cases = 1;
            report.add_failure(failure);
            report.judge();
            End::Broke(report)
        }
        Err(why) => End::Trouble(why),
    }
}

struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

/// Runs a command to its end; `None` if it had to be ended.
fn execute(command: &mut Command, limit: Duration) -> Result<Option<Ended>, String> {
    let refused = |error: std::io::Error| format!("{}: {error}", command_name(command));
    let mut out = tempfile::tempfile().map_err(refused)?;
    let mut err = tempfile::tempfile().map_err(refused)?;
    let (to_out, to_err) = (out.try_clone().map_err(refused)?, err.try_clone().map_err(refused)?);
    command.stdin(std::process::Stdio::null()).stdout(to_out).stderr(to_err);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if begun.elapsed() > limit => {
                child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
                return Ok(None);
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let (stdout, stderr) = (text_of(&mut out), text_of(&mut err));
    Ok(Some(Ended { status, stdout, stderr }))
}

fn command_name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn text_of(file: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("(output can't be read: {error})"),
    }
}

fn judge(ended: &Ended) -> End {
    let report = serde_json::from_str::<Report>(ended.stdout.trim());
    match (report, ended.status.code()) {
        (Ok(report), Some(_)) => match report.verdict {
            Verdict::Held => End::Survived(report),
            Verdict::Broken | Verdict::Diverged => End::Broke(report),
            Verdict::Hung => End::Hung,
            Verdict::Hollow => End::Silent(report),
            Verdict::Interrupted => End::Interrupted,
            Verdict::Environment => {
                End::Trouble(report.environment.unwrap_or_else(|| "the machine refused".to_owned()))
            }
        },
        (_, Some(2 | 5)) => End::Trouble(tail(&ended.stderr, 5)),
        _ => End::Aborted(format!("{}: {}", ended.status, tail(&ended.stderr, 5))),
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::MutantResult;

    fn shell(script: &str, limit_ms: u64) -> End {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        match execute(&mut command, Duration::from_millis(limit_ms)) {
            Ok(Some(ended)) => judge(&ended),
            Ok(None) => End::Hung,
            Err(why) => End::Trouble(why),
        }
    }

    #[test]
    fn the_layer_that_should_kill_comes_after_the_quick_ones() {
        let names = |expected| order_for(expected).into_iter().map(|at| LAYERS[at].name);
        let all: Vec<&str> = LAYERS.iter().map(|layer| layer.name).collect();
        assert_eq!(names("SEQ").collect::<Vec<_>>(), all);
        assert_eq!(names("ERR").take(4).collect::<Vec<_>>(), ["SEQ", "FLIP", "ERR", "CRASH"]);
        assert_eq!(names("SxC").nth(2), Some("SxC"));
        assert_eq!(names("ERR").count(), LAYERS.len());
    }

    #[test]
    fn a_budget_that_ended_early_is_neither_a_kill_nor_a_survival() {
        let mut seen = Report::default();
        seen.totals.images = 399;
        let unfinished = End::Unfinished(seen.clone());
        assert_eq!(whole(End::Survived(seen.clone()), 400), unfinished);
        assert_eq!(whole(End::Silent(seen.clone()), 400), unfinished);
        assert_eq!(whole(End::Broke(seen.clone()), 400), End::Broke(seen.clone()));
        let told = looked(&POWER[0], &unfinished).expect("it is a layer of power cuts");
        assert_eq!(told.to_string(), "POWER-ext4: 399 of 400 images");
        let mut mutant = MutantResult { looked: vec![told], ..MutantResult::default() };
        assert_eq!(mutant.fate(), "unfinished");
        mutant.killed = true;
        assert_eq!(mutant.fate(), "killed");
        seen.totals.images = 400;
        assert_eq!(whole(End::Survived(seen.clone()), 400), End::Survived(seen));
    }

    #[test]
    fn a_broken_promise_needs_no_second_look_and_a_panic_of_the_rig_does() {
        let mut seen = Report::default();
        seen.add_failure(Failure { what: "the rig".to_owned(), ..Failure::default() });
        assert!(is_doubtful(&End::Broke(seen.clone())) && is_doubtful(&End::Hung));
        seen.add_failure(Failure { promise: "D1".to_owned(), ..Failure::default() });
        assert!(!is_doubtful(&End::Broke(seen.clone())) && !is_doubtful(&End::Survived(seen)));
    }

    #[test]
    fn aborts_hangs_and_verdicts_are_told_apart() {
        let print = |report: &Report| {
            let text = serde_json::to_string(report).expect("plain data");
            format!("printf '%s' '{text}'; exit {}", report.verdict.exit_code())
        };
        let mut report = Report::default();
        report.judge();
        assert!(matches!(shell(&print(&report), 5_000), End::Silent(_)));
        report.totals.cases = 3;
        report.judge();
        assert!(matches!(shell(&print(&report), 5_000), End::Survived(_)));
        report.add_failure(Failure { promise: "D1".to_owned(), ..Failure::default() });
        report.judge();
        assert!(matches!(shell(&print(&report), 5_000), End::Broke(_)));
        assert!(matches!(shell("kill -ABRT $$", 5_000), End::Aborted(_)));
        assert!(matches!(shell("echo panicked >&2; exit 101", 5_000), End::Aborted(_)));
        assert!(matches!(shell("echo usage >&2; exit 2", 5_000), End::Trouble(_)));
        assert_eq!(shell("sleep 60", 50), End::Hung);
    }
}
