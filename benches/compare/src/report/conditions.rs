//! Under what conditions a board was made: all that decides whether it proves anything.
//!
//! - A board that was made on a busy machine, from a changed checkout or by an unoptimised build
//!   proves no target, whatever its figures are.
//! - A trial that failed by load is the machine's doing, any other failure is the contestant's
//!   until somebody has looked: the two are counted apart, for each row and contestant.

use super::Results;
use crate::supervise::record::{Campaign, Record};
use serde::{Deserialize, Serialize};

/// How the load guard's complaint begins; a test holds it against the guard.
const BY_LOAD: &str = "others used ";

/// The conditions of a board.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Whether a busy machine was allowed.
    pub busy_allowed: bool,
    /// Whether the checkout had changes that no revision has.
    pub dirty: bool,
    /// Whether it was a release build.
    pub release: bool,
    /// SHA-256 of the plan that ran.
    pub plan_sha256: String,
    /// Trials that do not count, of each row and contestant.
    pub invalid: Vec<Invalid>,
}

/// Trials of one contestant in one row that do not count, diagnostic ones among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invalid {
    /// The row, without a stage.
    pub row: String,
    /// The contestant.
    pub engine: String,
    /// Those against which there is nothing but the machine's load.
    pub by_load: usize,
    /// All others.
    pub otherwise: usize,
}

impl Conditions {
    /// The conditions of a campaign.
    #[must_use]
    pub fn of(results: &Results) -> Self {
        let pins = &results.campaign.pins;
        Self {
            busy_allowed: pins.busy_allowed,
            dirty: pins.dirty,
            release: is_release(&results.campaign),
            plan_sha256: pins.plan_sha256.clone(),
            invalid: invalid(results),
        }
    }

    /// Why the whole board proves nothing.
    #[must_use]
    pub fn doubts(&self) -> Vec<&'static str> {
        [
            (self.busy_allowed, "a busy machine was allowed"),
            (self.dirty, "the checkout had changes"),
            (!self.release, "it was no release build"),
        ]
        .into_iter()
        .filter_map(|(holds, doubt)| holds.then_some(doubt))
        .collect()
    }

    /// Why a figure of `engine` in `row`, which may name a stage, proves nothing.
    #[must_use]
    pub fn doubt_of(&self, row: &str, engine: &str) -> Option<String> {
        let of_row = |one: &&Invalid| {
            let rest = row.strip_prefix(one.row.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut of_row = self.invalid.iter().filter(of_row);
        let failed = of_row.find(|one| one.engine == engine && one.otherwise > 0)?;
        let n = failed.otherwise;
        Some(format!("trials of {engine} that failed, and not for the load: {n}"))
    }
}

/// Whether a release build made the figures.
#[must_use]
pub fn is_release(campaign: &Campaign) -> bool {
    let mut facts = campaign.machine.facts.iter();
    facts.any(|(name, build)| name == "build" && build.starts_with("release"))
}

fn invalid(results: &Results) -> Vec<Invalid> {
    let mut all: Vec<Invalid> = Vec::new();
    for (row, engines) in &results.campaign.pins.rows {
        all.extend(engines.iter().map(|engine| Invalid {
            row: row.clone(),
            engine: engine.clone(),
            ..Invalid::default()
        }));
    }
    for record in results.records.iter().filter(|record| !record.is_valid()) {
        let same = |one: &Invalid| one.row == record.row && one.engine == record.contestant;
        let at = all.iter().position(same).unwrap_or_else(|| {
            let (row, engine) = (record.row.clone(), record.contestant.clone());
            all.push(Invalid { row, engine, ..Invalid::default() });
            all.len() - 1
        });
        if is_by_load(record) {
            all[at].by_load += 1;
        } else {
            all[at].otherwise += 1;
        }
    }
    all
}

/// Whether nothing but the load guard complained.
fn is_by_load(record: &Record) -> bool {
    !record.is_valid() && record.invalid.iter().all(|why| why.starts_with(BY_LOAD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::guard::Around;

    #[test]
    fn the_load_guard_complains_as_it_is_expected_to() {
        let around = Around { foreign_before: 0.5, ..Around::default() };
        assert!(around.fault(0.05).expect("busy").starts_with(BY_LOAD));
    }

    #[test]
    fn failures_of_a_row_are_found_by_its_stages_too_and_by_no_other_row() {
        let failed =
            Invalid { row: "a/b".into(), engine: "kiban".into(), by_load: 1, otherwise: 2 };
        let loaded = Invalid { engine: "lmdb".into(), otherwise: 0, ..failed.clone() };
        let conditions = Conditions { invalid: vec![loaded, failed], ..Conditions::default() };
        for row in ["a/b", "a/b/stage"] {
            assert!(conditions.doubt_of(row, "kiban").expect("a doubt").contains("load: 2"));
            assert_eq!(conditions.doubt_of(row, "lmdb"), None);
        }
        assert_eq!(conditions.doubt_of("a/b+awake", "kiban"), None);
    }

    #[test]
    fn each_condition_of_the_whole_board_is_told() {
        let fair = Conditions { release: true, ..Conditions::default() };
        assert!(fair.doubts().is_empty());
        let unfair = Conditions { busy_allowed: true, dirty: true, ..Conditions::default() };
        assert_eq!(unfair.doubts().len(), 3);
    }
}
