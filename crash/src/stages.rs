//! The matrix stage x fault x outcome, and why some of its cells can't be reached.
//!
//! Invariants
//! - Every cell is reachable unless [`unreachable`] says why not. A reachable cell that a directed
//!   pass does not hit fails it; a hit in an unreachable cell fails too: either the reason is wrong
//!   or a promise is broken.
//! - The table is `cells.txt`: a line in it is a claim about a protocol. A column that a stage
//!   lacks is a fault that no call of the stage can meet.
//!
//! It knows no scenario: `directed` has them.
#![allow(clippy::disallowed_types)]

use crate::disk::{FAULTS, Fault};
use crate::report::{Cell, Cells};
use crate::sim::{STAGES, stage_name};
use kiban::env::probe::Stage;
use kiban_model::durable::CrashClass;
use std::sync::OnceLock;

/// How a fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// A crash: a write that had returned is not there.
    Lost,
    /// A crash: every write that had returned is there, and no other.
    Kept,
    /// A crash: the write that was under way is there too.
    Landed,
    /// An error: the operation succeeded all the same.
    Absorbed,
    /// An error: the operation passed it on, and the handle goes on.
    Refused,
    /// An error: the handle takes no more writes.
    Poisoned,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: &'static [Outcome] =
        &[Self::Lost, Self::Kept, Self::Landed, Self::Absorbed, Self::Refused, Self::Poisoned];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Kept => "kept",
            Self::Landed => "landed",
            Self::Absorbed => "absorbed",
            Self::Refused => "refused",
            Self::Poisoned => "poisoned",
        }
    }

    /// Whether it is a crash's outcome.
    #[must_use]
    pub fn of_crash(self) -> bool {
        self <= Self::Landed
    }
}

/// A column: a crash of either class, or an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// A crash.
    Crash(CrashClass),
    /// The fault of that index in [`FAULTS`].
    Fault(usize),
}

/// How many columns there are.
pub const COLUMNS: usize = 2 + FAULTS.len();

impl Column {
    /// Every column.
    pub fn all() -> impl Iterator<Item = Self> {
        let crashes = [CrashClass::Kill, CrashClass::Power].map(Self::Crash);
        crashes.into_iter().chain((0..FAULTS.len()).map(Self::Fault))
    }

    /// The column of an injected fault.
    #[must_use]
    pub fn of(fault: Fault) -> Self {
        let index = FAULTS.iter().position(|(name, _)| *name == fault.name());
        Self::Fault(index.unwrap_or(0))
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash(class) => crate::script::class_name(class),
            Self::Fault(index) => FAULTS[index].0,
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Crash(CrashClass::Kill) => 0,
            Self::Crash(CrashClass::Power) => 1,
            Self::Fault(index) => 2 + index,
        }
    }
}

const OUTCOMES: usize = Outcome::ALL.len();

/// Hits, cell by cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix(Vec<u64>);

impl Default for Matrix {
    fn default() -> Self {
        Self(vec![0; STAGES * COLUMNS * OUTCOMES])
    }
}

fn cell(stage: u8, column: Column, outcome: Outcome) -> usize {
    (usize::from(stage) * COLUMNS + column.index()) * OUTCOMES + outcome as usize
}

impl Matrix {
    /// Notes that `column` in `stage` ended so.
    pub fn hit(&mut self, stage: u8, column: Column, outcome: Outcome) {
        self.0[cell(stage, column, outcome)] += 1;
    }

    /// How often it was so.
    #[must_use]
    pub fn hits(&self, stage: u8, column: Column, outcome: Outcome) -> u64 {
        self.0[cell(stage, column, outcome)]
    }

    /// Adds what `other` noted.
    pub fn absorb(&mut self, other: &Self) {
        for (mine, n) in self.0.iter_mut().zip(&other.0) {
            *mine += n;
        }
    }

    /// Whether a reachable cell of this stage and column was never hit.
    #[must_use]
    pub fn lacks(&self, stage: Stage, column: Column) -> bool {
        let lacks = |&outcome: &Outcome| {
            self.hits(stage as u8, column, outcome) == 0
                && unreachable(stage, column, outcome).is_none()
        };
        Outcome::ALL.iter().any(lacks)
    }

    /// For a report: every cell that is reachable or was hit.
    #[must_use]
    pub fn cells(&self) -> Cells {
        let mut cells = Cells::default();
        for (stage, column, outcome) in every_cell() {
            let hits = self.hits(stage as u8, column, outcome);
            let why = unreachable(stage, column, outcome);
            if hits > 0 || why.is_none() {
                cells.matrix.push(Cell {
                    stage: stage.name().to_owned(),
                    fault: column.name().to_owned(),
                    outcome: outcome.name().to_owned(),
                    hits,
                    unreachable: why.map(str::to_owned),
                });
            }
        }
        cells.recount();
        cells
    }

    /// The cells that were hit though the table says why they can't be, with the reason.
    #[must_use]
    pub fn impossible(&self) -> Vec<(String, &'static str)> {
        let name = |stage: Stage, column: Column, outcome: Outcome| {
            format!("{}/{}/{}", stage_name(stage as u8), column.name(), outcome.name())
        };
        every_cell()
            .filter(|&(stage, column, outcome)| self.hits(stage as u8, column, outcome) > 0)
            .filter(|&(stage, column, outcome)| !is_rare(stage, column, outcome))
            .filter_map(|(s, c, o)| Some((name(s, c, o), unreachable(s, c, o)?)))
            .collect()
    }
}

/// Every cell, in the order of stages, columns and outcomes.
pub fn every_cell() -> impl Iterator<Item = (Stage, Column, Outcome)> {
    Stage::ALL.iter().flat_map(|&stage| {
        Column::all().flat_map(move |column| {
            Outcome::ALL.iter().map(move |&outcome| (stage, column, outcome))
        })
    })
}

/// The cells that can be reached, as text.
const CELLS: &str = include_str!("cells.txt");

/// Outcomes that can be reached, a bit each, by stage and column.
fn reachable(stage: Stage, column: Column) -> u8 {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    TABLE.get_or_init(|| parse(CELLS))[stage as usize * COLUMNS + column.index()]
}

fn parse(text: &str) -> Vec<u8> {
    let mut table = vec![0; STAGES * COLUMNS];
    let mut stage = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((outcomes, columns)) = line.split_once(": ") else {
            stage = Stage::ALL.iter().find(|stage| stage.name() == line);
            assert!(stage.is_some(), "the table of cells names no stage `{line}`");
            continue;
        };
        let bits = outcomes.trim().chars().fold(0, |bits, letter| {
            let known = "lkLarp".find(letter).expect("invariant: an outcome's letter");
            bits | 1 << known
        });
        for name in columns.split_whitespace() {
            let column = Column::all().find(|column| column.name() == name);
            let column = column.expect("invariant: a column's name");
            let stage = *stage.expect("invariant: a stage comes first");
            table[stage as usize * COLUMNS + column.index()] = bits;
        }
    }
    table
}

/// Why a cell can't be reached; `None` where it can.
#[must_use]
pub fn unreachable(stage: Stage, column: Column, outcome: Outcome) -> Option<&'static str> {
    let crash = matches!(column, Column::Crash(_));
    if crash != outcome.of_crash() {
        return Some("a crash is not answered, and an error loses nothing by itself");
    }
    let can = reachable(stage, column);
    if can >> (outcome as u8) & 1 == 1 {
        return None;
    }
    Some(match (can, column, outcome) {
        (0, Column::Crash(_), _) => "no engine without threads enters this stage",
        (0, ..) => "no call of this stage can meet this fault",
        (_, Column::Crash(CrashClass::Kill), Outcome::Lost) => {
            "the page cache outlives the process (D2)"
        }
        (_, _, Outcome::Lost) => "all that had returned is durable by then",
        (_, _, Outcome::Kept) => "the write under way is in the page cache by then",
        (_, _, Outcome::Landed) => "no write is under way here, or none of it is in the log",
        (_, _, Outcome::Absorbed) => "nothing here can go on without this call",
        (_, _, Outcome::Refused) => "what it leaves in doubt is acknowledged by none (P1)",
        (_, _, Outcome::Poisoned) => "it leaves nothing in doubt, or no handle is open",
    })
}

/// What is right and need not be met: a handle that is dropped tells nobody that the sync of a
/// rotated log failed, one that is closed tells it and is gone; few have such a log by then.
fn is_rare(stage: Stage, column: Column, outcome: Outcome) -> bool {
    let error = !matches!(column, Column::Crash(_));
    let untold = matches!(outcome, Outcome::Absorbed | Outcome::Refused);
    error && stage == Stage::CommitSyncRotated && untold
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_that_no_reason_allows_is_told_and_a_rare_one_is_not() {
        let hit = |stage: Stage| {
            let mut matrix = Matrix::default();
            let fault = Column::of(crate::disk::Fault::Error(crate::disk::Errno::EIO));
            matrix.hit(stage as u8, fault, Outcome::Absorbed);
            matrix.impossible().len()
        };
        assert_eq!((hit(Stage::CommitSyncRotated), hit(Stage::CommitAppend)), (0, 1));
    }

    #[test]
    fn every_cell_is_reachable_or_has_a_reason() {
        let (mut can, mut not) = (0, 0);
        for (stage, column, outcome) in every_cell() {
            match unreachable(stage, column, outcome) {
                None => can += 1,
                Some(why) => {
                    assert!(!why.is_empty());
                    not += 1;
                }
            }
        }
        assert_eq!(can + not, STAGES * COLUMNS * Outcome::ALL.len());
        assert!(can > 500, "only {can} cells can be reached");
    }
}
