//! What a run found, as data: the object that `--json` prints, shards merge and tests compare.
//!
//! Invariants
//! - Field names are those of the `--json` object that `docs/TESTING.md` documents; fields are
//!   added, never renamed.
//! - A report says only what was counted: nothing in it is estimated or carried over.
//! - [`Report::judge`] is the one place that turns counts into a verdict, and
//!   [`Verdict::exit_code`] the one place that turns a verdict into an exit code. A run that ran no
//!   case never holds.
//! - Everything but `elapsed_s`, `rates` and `jobs` is a function of revision, seed and case count
//!   (F1), where the budget is a count.
//!
//! It formats nothing: text, HTML and JUnit are made elsewhere from these types.

mod cells;
mod power;
mod totals;

pub use cells::{Cell, Cells};
pub use power::{ContainRow, PowerRow};
pub use totals::{OPS_BUCKETS, RUNS_BUCKETS, Totals};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The one-word result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every promise held, every reachable cell and counter was met, and at least one case ran.
    Held,
    /// A promise broke.
    Broken,
    /// Only hangs or time-outs.
    Hung,
    /// A replay did not do what the run had done.
    Diverged,
    /// The machine refused: disk full, out of memory, a needed device missing.
    Environment,
    /// Nothing broke, but a seeded bug lived, a counter or a reachable cell stayed at zero, or no
    /// case ran at all.
    #[default]
    Hollow,
    /// Stopped from outside; what was counted so far is valid and held.
    Interrupted,
}

impl Verdict {
    /// The runner's exit code. 2 is for usage and never comes from a report.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Broken => 1,
            Self::Hung => 3,
            Self::Diverged => 4,
            Self::Environment => 5,
            Self::Hollow => 6,
            Self::Interrupted => 7,
        }
    }

    /// The word that `--json` has.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "broken",
            Self::Hung => "hung",
            Self::Diverged => "diverged",
            Self::Environment => "environment",
            Self::Hollow => "hollow",
            Self::Interrupted => "interrupted",
        }
    }
}

/// One broken promise, whole enough to be understood and repeated from the text alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The promise's id, such as "D1"; "-" for a panic or a rig error that names none.
    pub promise: String,
    /// One line on what went wrong.
    pub what: String,
    /// What replays it: `kb1:` and text.
    pub token: String,
    /// The run's seed.
    pub seed: u64,
    /// The case's index in the run.
    pub case: u64,
    /// Revision of the sources.
    pub revision: String,
    /// Options after swarm, as one line of text.
    pub options: String,
    /// Operations in the case as generated.
    pub ops: u64,
    /// Operations after shrinking.
    pub shrunk_ops: u64,
    /// The shrunk case, whole, as the text of an `.ops` file: `replay FILE` takes it.
    pub shrunk: String,
    /// Where the crash or the error fell, in words.
    pub at: String,
    /// The last events before the failure, oldest first.
    pub events: Vec<String>,
    /// What the oracle admits.
    pub expected: String,
    /// What the engine showed.
    pub got: String,
    /// Whether this is a hang or a time-out.
    pub hang: bool,
}

impl Failure {
    /// The line to paste.
    #[must_use]
    pub fn replay_line(&self) -> String {
        format!("cargo run --release -p kiban-crash -- replay {}", self.token)
    }

    /// Failures with one signature are one finding: promise, and place without its numbers.
    #[must_use]
    pub fn signature(&self) -> String {
        let at: String = self.at.chars().filter(|c| !c.is_ascii_digit()).collect();
        let what: String = self.what.chars().filter(|c| !c.is_ascii_digit()).collect();
        format!("{} {what} {at}", self.promise)
    }
}

/// What the corruption sweep found for one kind of file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorruptionVerdict {
    /// "log", "table", "manifest", "current", "lock".
    pub file: String,
    /// "flip", "zero", "truncate", "duplicate", "swap", "remove".
    pub damage: String,
    /// The part of the file, as `docs/FORMAT.md` names it, or "any".
    pub part: String,
    /// Damaged databases tried.
    pub tried: u64,
    /// Answered with a typed error at open, or by `verify`, or at the read that met it.
    pub detected: u64,
    /// Everything read was right without any error.
    pub harmless: u64,
    /// Ended the log above the watermark, with a report ("undecidable").
    pub undecidable: u64,
    /// Wrong answers and panics: failures.
    pub wrong: u64,
}

/// One seeded bug in the kill matrix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MutantResult {
    /// Its id, such as "B27".
    pub id: String,
    /// Whether any layer killed it.
    pub killed: bool,
    /// The layers that did.
    pub layers: Vec<String>,
    /// Cases until the first kill.
    pub cases: u64,
    /// Operations until the first kill.
    pub ops: u64,
    /// Operations of the shrunk failing case.
    pub shrunk_ops: u64,
    /// Seconds until the first kill, without the build.
    pub seconds: f64,
    /// Promise that broke first, or "abort" or "hang".
    pub promise: String,
    /// `mutants --power`: what each layer looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looked: Vec<Looked>,
    /// The failure, where the layer gave one.
    pub failure: Option<Failure>,
}

impl MutantResult {
    /// "killed", "lives" after all that was asked for, or "unfinished": nobody knows.
    #[must_use]
    pub fn fate(&self) -> &'static str {
        match self.killed {
            true => "killed",
            false if self.looked.iter().any(|looked| looked.end == "unfinished") => "unfinished",
            false => "lives",
        }
    }
}

/// What a layer of power cuts came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// The layer.
    pub layer: String,
    /// "killed"; "lives", which all the images say; or "unfinished": nothing was wrong until its
    /// time was over, and there were not enough of them.
    pub end: String,
    /// Images that it looked at; 0 where the process could not tell any more.
    pub images: u64,
    /// Images that it was asked for.
    pub asked: u64,
}

impl std::fmt::Display for Looked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} of {} images", self.layer, self.images, self.asked)
    }
}

/// Speeds, measured by the run itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Counted images per second and core.
    pub images_per_second_core: f64,
    /// Lockstep operations of the standard mix per second and core, without crashes.
    pub lockstep_ops_per_second_core: f64,
    /// Schedules per second, over all workers.
    #[serde(default)]
    pub schedules_per_second: f64,
    /// Schedule-and-crash cases per second, over all workers: recovery of their images included.
    #[serde(default)]
    pub schedule_cases_per_second: f64,
}

/// The whole result of one command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The one-word result; [`Report::judge`] sets it.
    pub verdict: Verdict,
    /// Which subcommand this is the result of.
    pub command: String,
    /// The run's seed.
    pub seed: u64,
    /// Revision of the sources.
    pub revision: String,
    /// The profile's name; empty where there is none.
    pub profile: String,
    /// `I/N` of a sharded run; empty otherwise.
    pub shard: String,
    /// Workers.
    pub jobs: u64,
    /// What was counted.
    #[serde(flatten)]
    pub totals: Totals,
    /// Seconds of the whole command, measured on the wall.
    pub elapsed_s: f64,
    /// Seconds of the directed pass, within `elapsed_s`.
    pub directed_s: f64,
    /// Over operations, schedule, faults and file bytes in case order, in hexadecimal.
    pub digest: String,
    /// Whether the directed pass ran to its end, or `kill` enough rounds; without it, missing cells
    /// and counters fail nothing.
    pub directed_whole: bool,
    /// The matrix.
    pub cells: Cells,
    /// Counters that must fire, by name.
    pub counters: BTreeMap<String, u64>,
    /// Those that did not.
    pub counters_zero: Vec<String>,
    /// Speeds.
    pub rates: Rates,
    /// Broken promises, one per signature.
    pub failures: Vec<Failure>,
    /// Failures in all, those with a signature met before included.
    pub failures_all: u64,
    /// `sweep`: operation sequences tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequences: Option<u64>,
    /// `kill`: lives of a working process, each ended and judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// `kill`: recoveries that were killed before they were done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kills_in_recovery: Option<u64>,
    /// `power`: KiB that this process and its children held at the most, about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_kib: Option<u64>,
    /// `power`: what was counted on each file system.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub power: Vec<PowerRow>,
    /// `power --contain`: each file system's states, held against the simulated disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contain: Vec<ContainRow>,
    /// The corruption sweep, by kind of file and damage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub corruption: Vec<CorruptionVerdict>,
    /// `mutants`: the kill matrix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mutants: Vec<MutantResult>,
    /// `mutants`: "alive", "unfinished" with the images looked at, or what went wrong with the
    /// unmutated sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// What the machine refused, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// `power`: what was asked for and not looked at, not even once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nothing_of: Vec<String>,
    /// `power`: what was looked at in part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub part_of: Vec<String>,
    /// Whether the run was stopped from outside.
    pub interrupted: bool,
    /// Whether a replay did something else than the run it replays.
    pub diverged: bool,
}

impl Report {
    /// Sets `verdict` from everything else.
    pub fn judge(&mut self) {
        self.cells.recount();
        self.counters_zero =
            self.counters.iter().filter(|(_, n)| **n == 0).map(|(name, _)| name.clone()).collect();
        self.verdict = self.verdict_now();
    }

    fn verdict_now(&self) -> Verdict {
        let hollow = self.directed_whole
            && (self.cells.hit < self.cells.reachable || !self.counters_zero.is_empty());
        let seeded_bug_lived = self.mutants.iter().any(|m| !m.killed)
            || self.control.as_deref().is_some_and(|c| c != "alive");
        let ran_nothing = self.totals.cases == 0 && self.mutants.is_empty();
        if self.failures.iter().any(|f| !f.hang) || self.corruption.iter().any(|c| c.wrong > 0) {
            Verdict::Broken
        } else if self.diverged {
            Verdict::Diverged
        } else if !self.failures.is_empty() {
            Verdict::Hung
        } else if self.environment.is_some() {
            Verdict::Environment
        } else if self.interrupted {
            Verdict::Interrupted
        } else if hollow || seeded_bug_lived || ran_nothing || !self.nothing_of.is_empty() {
            Verdict::Hollow
        } else {
            Verdict::Held
        }
    }

    /// Notes what less than all of `asked` was looked at.
    pub fn looked(&mut self, whose: &str, what: &str, done: u64, asked: u64) {
        let text = format!("{whose}: {done} of {asked} {what}");
        match done {
            0 if asked > 0 => self.nothing_of.push(text),
            done if done < asked => self.part_of.push(text),
            _ => {}
        }
    }

    /// Adds a failure, unless one of its signature is there: the shorter one stays.
    pub fn add_failure(&mut self, failure: Failure) {
        self.failures_all += 1;
        let signature = failure.signature();
        match self.failures.iter_mut().find(|f| f.signature() == signature) {
            Some(known) if failure.shrunk_ops < known.shrunk_ops => *known = failure,
            Some(_) => {}
            None => self.failures.push(failure),
        }
    }

    /// Adds another shard's result: the union of what was seen is judged.
    pub fn absorb(&mut self, other: &Self) {
        self.totals.absorb(&other.totals);
        self.elapsed_s = self.elapsed_s.max(other.elapsed_s);
        self.directed_s = self.directed_s.max(other.directed_s);
        self.directed_whole |= other.directed_whole;
        self.cells.absorb(&other.cells);
        for (name, n) in &other.counters {
            *self.counters.entry(name.clone()).or_default() += n;
        }
        let before = self.failures_all;
        for failure in &other.failures {
            self.add_failure(failure.clone());
        }
        self.failures_all = before + other.failures_all;
        self.sequences = sum(self.sequences, other.sequences);
        self.memory_kib = self.memory_kib.max(other.memory_kib);
        self.rounds = sum(self.rounds, other.rounds);
        self.kills_in_recovery = sum(self.kills_in_recovery, other.kills_in_recovery);
        for row in &other.power {
            match self.power.iter_mut().find(|known| known.fs == row.fs) {
                Some(known) => known.absorb(row),
                None => self.power.push(row.clone()),
            }
        }
        for row in &other.contain {
            match self.contain.iter_mut().find(|known| known.fs == row.fs) {
                Some(known) => known.absorb(row),
                None => self.contain.push(row.clone()),
            }
        }
        self.corruption.extend(other.corruption.iter().cloned());
        self.mutants.extend(other.mutants.iter().cloned());
        self.control = self.control.take().or_else(|| other.control.clone());
        self.environment = self.environment.take().or_else(|| other.environment.clone());
        self.nothing_of.extend(other.nothing_of.iter().cloned());
        self.part_of.extend(other.part_of.iter().cloned());
        self.interrupted |= other.interrupted;
        self.diverged |= other.diverged;
    }
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran() -> Report {
        let totals = Totals { cases: 1, ..Totals::default() };
        Report { totals, directed_whole: true, ..Report::default() }
    }

    fn cell(hits: u64) -> Cells {
        let cell = Cell {
            stage: "commit.sync".into(),
            fault: "power".into(),
            outcome: "kept".into(),
            hits,
            unreachable: None,
        };
        Cells { matrix: vec![cell], ..Cells::default() }
    }

    fn verdict(mut report: Report) -> Verdict {
        report.judge();
        report.verdict
    }

    #[test]
    fn a_run_without_a_case_or_with_a_silent_counter_never_holds() {
        assert_eq!(verdict(Report::default()), Verdict::Hollow);
        assert_eq!(verdict(ran()), Verdict::Held);
        let counters = BTreeMap::from([("batch torn".to_owned(), 0)]);
        assert_eq!(verdict(Report { counters: counters.clone(), ..ran() }), Verdict::Hollow);
        let cut_short = Report { counters, cells: cell(0), directed_whole: false, ..ran() };
        assert_eq!(verdict(cut_short), Verdict::Held);
    }

    #[test]
    fn a_run_that_never_looked_at_what_it_was_asked_for_is_hollow() {
        let mut report = ran();
        report.looked("xfs", "images", 7, 400);
        assert_eq!(report.part_of, ["xfs: 7 of 400 images"]);
        assert_eq!(verdict(report.clone()), Verdict::Held);
        report.looked("btrfs", "images", 0, 400);
        assert_eq!(verdict(report), Verdict::Hollow);
    }

    #[test]
    fn a_broken_promise_outranks_everything_and_a_hang_outranks_an_interrupt() {
        let mut report = Report { interrupted: true, ..ran() };
        assert_eq!(verdict(report.clone()), Verdict::Interrupted);
        report.add_failure(Failure { hang: true, ..Failure::default() });
        assert_eq!(verdict(report.clone()), Verdict::Hung);
        report.add_failure(Failure { promise: "D1".into(), ..Failure::default() });
        assert_eq!(verdict(report), Verdict::Broken);
    }

    #[test]
    fn merging_judges_the_union_of_cells() {
        let mut one = Report { cells: cell(0), ..ran() };
        assert_eq!(verdict(one.clone()), Verdict::Hollow);
        one.absorb(&Report { cells: cell(2), ..ran() });
        assert_eq!(verdict(one.clone()), Verdict::Held);
        assert_eq!((one.cells.matrix.len(), one.totals.cases), (1, 2));
    }

    #[test]
    fn a_report_survives_its_json() {
        let mut report = Report { cells: cell(1), sequences: Some(584), ..ran() };
        report.totals.count_image(57, 2);
        report.judge();
        let text = serde_json::to_string(&report).expect("a report is plain data");
        assert!(text.contains("\"verdict\":\"held\"") && text.contains("\"images\":1"));
        assert_eq!(serde_json::from_str::<Report>(&text).expect("its own text"), report);
        assert_eq!((report.totals.median_ops(), report.totals.median_runs()), (50, 2));
    }
}
