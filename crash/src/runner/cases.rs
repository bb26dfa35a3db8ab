//! A run's result as test cases, for `--junit`.
//!
//! Invariants
//! - Every promise that a run checks is one case, held or not, so that a CI system can show its
//!   history under one name.
//! - Counters and cells that stayed at zero fail only where the directed pass ran whole; else they
//!   are skipped.

use super::junit::{Case, Outcome};
use super::view;
use crate::report::{Report, Verdict};

/// The promises that a run judges.
pub const PROMISES: &[&str] = &[
    "D1", "D2", "D3", "D4", "A1", "V1", "S1", "S2", "G1", "G2", "P1", "C1", "C2", "L1", "B1", "F1",
];

/// The test cases of `report`.
#[must_use]
pub fn of(report: &Report) -> Vec<Case> {
    let mut cases = if report.mutants.is_empty() { promises(report) } else { mutants(report) };
    cases.extend(report.counters.iter().map(|(name, &n)| Case {
        group: "counter",
        name: name.clone(),
        seconds: None,
        outcome: zero(report, n > 0, "never fired"),
    }));
    if report.cells.reachable > 0 {
        let whole = report.cells.missing.is_empty();
        cases.push(Case {
            group: "cells",
            name: "every reachable cell is hit".to_owned(),
            seconds: None,
            outcome: zero(report, whole, &report.cells.missing.join(", ")),
        });
    }
    cases.push(verdict(report));
    cases
}

fn zero(report: &Report, hit: bool, message: &str) -> Outcome {
    match hit {
        true => Outcome::Passed,
        false if report.directed_whole => {
            Outcome::Failed { message: message.to_owned(), body: String::new() }
        }
        false => Outcome::Skipped { message: "the directed pass was cut short".to_owned() },
    }
}

fn promises(report: &Report) -> Vec<Case> {
    let mut names: Vec<&str> = PROMISES.to_vec();
    for failure in &report.failures {
        if !names.contains(&&*failure.promise) {
            names.push(&failure.promise);
        }
    }
    let ran = report.totals.cases > 0;
    let case = |name: &str| {
        let failed: Vec<_> = report.failures.iter().filter(|f| f.promise == name).collect();
        let outcome = match failed.first() {
            Some(first) if failed.iter().all(|f| f.hang) => {
                Outcome::Errored { message: format!("hang: {}", first.what) }
            }
            Some(first) => Outcome::Failed {
                message: first.what.clone(),
                body: failed.iter().map(|f| view::failure(report, f) + "\n").collect(),
            },
            None if ran => Outcome::Passed,
            None => Outcome::Skipped { message: "no case ran".to_owned() },
        };
        Case { group: "promise", name: name.to_owned(), seconds: None, outcome }
    };
    names.into_iter().map(case).collect()
}

fn mutants(report: &Report) -> Vec<Case> {
    let case = |mutant: &crate::report::MutantResult| Case {
        group: "mutant",
        name: mutant.id.clone(),
        seconds: Some(mutant.seconds),
        outcome: match mutant.killed {
            true => Outcome::Passed,
            false => Outcome::Failed {
                message: "the seeded bug lived".to_owned(),
                body: mutant.promise.clone(),
            },
        },
    };
    report.mutants.iter().map(case).collect()
}

/// The verdict itself, so that a result whose other cases all pass can still fail a build.
fn verdict(report: &Report) -> Case {
    let message = view::verdict(report);
    let outcome = match report.verdict {
        Verdict::Held => Outcome::Passed,
        Verdict::Broken | Verdict::Hollow | Verdict::Diverged => {
            Outcome::Failed { message, body: String::new() }
        }
        Verdict::Hung | Verdict::Environment => Outcome::Errored { message },
        Verdict::Interrupted => Outcome::Skipped { message },
    };
    let name = format!("{} verdict", report.command);
    Case { group: "verdict", name, seconds: Some(report.elapsed_s), outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Failure, MutantResult, Totals};

    fn outcomes(report: &Report, group: &str) -> Vec<(String, bool)> {
        let judged = |case: Case| (case.name, case.outcome == Outcome::Passed);
        of(report).into_iter().filter(|case| case.group == group).map(judged).collect()
    }

    #[test]
    fn every_promise_is_a_case_and_a_run_without_cases_passes_none() {
        let mut report = Report::default();
        report.judge();
        assert!(of(&report).iter().all(|case| case.outcome != Outcome::Passed));
        report.totals = Totals { cases: 1, ..Totals::default() };
        report.add_failure(Failure { promise: "D1".into(), ..Failure::default() });
        report.add_failure(Failure { promise: "-".into(), ..Failure::default() });
        report.judge();
        let promises = outcomes(&report, "promise");
        assert_eq!(promises.len(), PROMISES.len() + 1);
        let failed: Vec<_> =
            promises.iter().filter(|(_, held)| !held).map(|(name, _)| name).collect();
        assert_eq!(failed, ["D1", "-"]);
        assert_eq!(outcomes(&report, "verdict"), [(" verdict".to_owned(), false)]);
    }

    #[test]
    fn every_seeded_bug_is_a_case() {
        let mutant =
            |id: &str, killed| MutantResult { id: id.into(), killed, ..Default::default() };
        let mutants = vec![mutant("B01", true), mutant("B07", false)];
        let mut report = Report { mutants, ..Report::default() };
        report.judge();
        let wanted = [("B01".to_owned(), true), ("B07".to_owned(), false)];
        assert_eq!(outcomes(&report, "mutant"), wanted);
        assert!(outcomes(&report, "promise").is_empty());
    }
}
