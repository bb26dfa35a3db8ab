//! The matrix stage x fault x outcome, as a report has it.
//!
//! Invariant: the counts follow from the matrix; whoever changes that recounts.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One cell of the matrix stage x fault x outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The stage's name.
    pub stage: String,
    /// The fault's name.
    pub fault: String,
    /// The outcome's name.
    pub outcome: String,
    /// How often it was seen.
    pub hits: u64,
    /// Why it can't be reached; `None` where it can. A hit in an unreachable cell is a failure.
    pub unreachable: Option<String>,
}

/// The matrix, and how much of it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cells {
    /// Cells that can be reached.
    pub reachable: u64,
    /// Reachable cells that were.
    pub hit: u64,
    /// The reachable cells never hit, as `stage/fault/outcome`.
    pub missing: Vec<String>,
    /// Every cell that is reachable or was hit.
    pub matrix: Vec<Cell>,
}

impl Cells {
    /// Adds the hits of `other`, and counts anew.
    pub fn absorb(&mut self, other: &Self) {
        let mut cells: BTreeMap<(String, String, String), Cell> = BTreeMap::new();
        let order: Vec<_> = self.matrix.iter().chain(&other.matrix).map(Cell::key).collect();
        for cell in self.matrix.drain(..).chain(other.matrix.iter().cloned()) {
            cells.entry(cell.key()).and_modify(|c| c.hits += cell.hits).or_insert(cell);
        }
        self.matrix = order.iter().filter_map(|key| cells.remove(key)).collect();
        self.recount();
    }

    /// Sets the counts from the matrix.
    pub fn recount(&mut self) {
        let reachable = || self.matrix.iter().filter(|c| c.unreachable.is_none());
        let (all, hit) = (reachable().count(), reachable().filter(|c| c.hits > 0).count());
        let missing = reachable().filter(|c| c.hits == 0).map(Cell::name).collect();
        (self.reachable, self.hit, self.missing) = (all as u64, hit as u64, missing);
    }
}

impl Cell {
    /// `stage/fault/outcome`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.stage, self.fault, self.outcome)
    }

    fn key(&self) -> (String, String, String) {
        (self.stage.clone(), self.fault.clone(), self.outcome.clone())
    }
}
