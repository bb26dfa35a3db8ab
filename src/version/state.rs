//! Runs and versions; an edit makes the next version out of one.
//!
//! Invariants
//! - M1 holds in every run that exists: [`Run::new`] refuses anything else.
//! - M2 is kept by what an edit may do: a new run is newer than all that is there, and what comes
//!   out of several runs stands in the oldest of them, under nothing that was between them.
//! - One number is one table is one id, in the whole version, and one [`TableMeta`] in memory:
//!   applying an edit shares the metadata of tables that are named already.
//! - A run without slices does not exist.
//! - An edit that does not fit is refused whole: a version is never half changed.

use super::edit::Edit;
use super::slice::{TableMeta, TableSlice};
use crate::base::key::{FileNumber, LogPosition, SeqNo, TableId};
use crate::env::sync::Arc;
use std::collections::BTreeMap;

/// Identity of a run. A flush's run has the number of its first table, so none is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// Disjoint table slices in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    id: RunId,
    slices: Vec<TableSlice>,
    full_bytes: u64,
}

impl Run {
    /// A run of these slices, which must be in order. For `full_bytes` see [`Run::full_bytes`].
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(id: RunId, slices: Vec<TableSlice>, full_bytes: u64) -> Result<Self, String> {
        for slice in &slices {
            slice.check()?;
        }
        if let Some(pair) = slices.windows(2).find(|pair| !pair[0].is_before(&pair[1])) {
            return Err(format!(
                "M1: tables {} and {} of run {} overlap",
                pair[0].meta.number.0, pair[1].meta.number.0, id.0
            ));
        }
        let mut run = Self { id, slices, full_bytes };
        run.full_bytes = full_bytes.max(run.bytes());
        Ok(run)
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Its slices, in key order.
    #[must_use]
    pub fn slices(&self) -> &[TableSlice] {
        &self.slices
    }

    /// Whether a part of this table is visible in it.
    #[must_use]
    pub fn has_table(&self, number: FileNumber) -> bool {
        self.slices.iter().any(|slice| slice.meta.number == number)
    }

    /// The one slice in which `key` may be visible.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<&TableSlice> {
        let after = self.slices.partition_point(|slice| slice.lower() <= key);
        self.slices[..after].last().filter(|slice| slice.reaches(key))
    }

    /// The first slice in which a key at or above `key` may be visible; the number of slices if
    /// there is none.
    #[must_use]
    pub fn first_reaching(&self, key: &[u8]) -> usize {
        self.slices.partition_point(|slice| !slice.reaches(key))
    }

    /// The bytes of its tables. A table of which only a part is visible counts whole.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.slices.iter().fold(0, |sum, slice| sum.saturating_add(slice.meta.bytes))
    }

    /// The bytes that it had when a table last came into it. What merges trimmed away since is in
    /// it still, so that a run stays in its tier while it is emptied range by range.
    #[must_use]
    pub fn full_bytes(&self) -> u64 {
        self.full_bytes
    }

    /// Whether some of its tables have gone since the last one came.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.bytes() < self.full_bytes
    }
}

/// All tables of a database at one moment, and where its logs begin to matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Newest first.
    pub runs: Vec<Arc<Run>>,
    /// Every surviving write at or below it is in these tables.
    pub flushed_seq: SeqNo,
    /// No log with a smaller number holds a write above `flushed_seq`.
    pub log_floor: FileNumber,
    /// The synced-up-to position in the logs that the manifest knows (C1).
    pub synced: LogPosition,
    /// A reservation: file numbers from it on were never used, those below may have been, by files
    /// that are gone too. It must be durable before a number below it is given out (C2): a log
    /// whose name a crash took leaves blocks behind that are valid in a log of the same number.
    pub next_file: FileNumber,
}

impl Version {
    /// The slices of all runs, newest run first.
    pub fn slices(&self) -> impl Iterator<Item = &TableSlice> {
        self.runs.iter().flat_map(|run| run.slices.iter())
    }

    /// Every table once, by number.
    #[must_use]
    pub fn tables(&self) -> BTreeMap<FileNumber, Arc<TableMeta>> {
        self.slices().map(|slice| (slice.meta.number, slice.meta.clone())).collect()
    }

    /// The version after `edit`.
    ///
    /// # Errors
    /// Why the edit does not fit this version.
    pub fn apply(&self, edit: &Edit) -> Result<Self, String> {
        let mut next = self.clone();
        next.take_numbers(edit)?;
        if edit.new_runs.is_empty() && edit.removed.is_empty() && edit.added.is_empty() {
            return Ok(next);
        }
        next.place_new_runs(edit)?;
        let mut changed = next.open_runs(edit);
        remove_slices(edit, &mut changed)?;
        self.add_slices(edit, &mut changed, &next)?;
        for run in &mut next.runs {
            if let Some(slices) = changed.remove(&run.id) {
                let grows = slices.iter().any(|slice| !run.has_table(slice.meta.number));
                let is_new = run.slices.is_empty();
                let full_bytes = if grows && !is_new { 0 } else { run.full_bytes };
                *run = Arc::new(Run::new(run.id, slices, full_bytes)?);
            }
        }
        self.check_outputs(edit, &next)?;
        next.runs.retain(|run| !run.slices.is_empty());
        Ok(next)
    }

    fn take_numbers(&mut self, edit: &Edit) -> Result<(), String> {
        fn advance<T: Copy + Ord>(old: &mut T, new: Option<T>, what: &str) -> Result<(), String> {
            let new = new.unwrap_or(*old);
            if new < *old {
                return Err(format!("{what} goes backwards"));
            }
            *old = new;
            Ok(())
        }
        advance(&mut self.next_file, edit.next_file, "the next file number")?;
        advance(&mut self.flushed_seq, edit.flushed_seq, "the flushed sequence")?;
        advance(&mut self.log_floor, edit.log_floor, "the first needed log")?;
        advance(&mut self.synced, edit.synced, "the synced position")
    }

    fn place_new_runs(&mut self, edit: &Edit) -> Result<(), String> {
        for new in &edit.new_runs {
            if self.runs.iter().any(|run| run.id == new.id) {
                return Err(format!("run {} exists already", new.id.0));
            }
            let at = match new.before {
                None => Some(self.runs.len()),
                Some(before) => self.runs.iter().position(|run| run.id == before),
            };
            let at = at.ok_or_else(|| format!("run {} stands before a missing one", new.id.0))?;
            let (id, full_bytes) = (new.id, new.full_bytes);
            self.runs.insert(at, Arc::new(Run { id, slices: Vec::new(), full_bytes }));
        }
        Ok(())
    }

    /// The slices of the runs that the edit touches.
    fn open_runs(&self, edit: &Edit) -> BTreeMap<RunId, Vec<TableSlice>> {
        let touched = |id| {
            edit.removed.iter().any(|removed| removed.run == id)
                || edit.added.iter().any(|added| added.run == id)
        };
        let runs = self.runs.iter().filter(|run| touched(run.id));
        runs.map(|run| (run.id, run.slices.clone())).collect()
    }

    /// Adds the edit's slices to their runs, sharing the metadata of tables already known.
    fn add_slices(
        &self,
        edit: &Edit,
        changed: &mut BTreeMap<RunId, Vec<TableSlice>>,
        next: &Self,
    ) -> Result<(), String> {
        if edit.added.is_empty() {
            return Ok(());
        }
        let mut known = self.tables();
        let mut ids: BTreeMap<TableId, FileNumber> =
            known.values().map(|meta| (meta.id, meta.number)).collect();
        for added in &edit.added {
            let meta = &added.slice.meta;
            let number = meta.number;
            if *ids.entry(meta.id).or_insert(number) != number {
                return Err(format!("table {} has the id of another", number.0));
            }
            let shared = known.entry(number).or_insert_with(|| meta.clone());
            if shared != meta {
                return Err(format!("table {} is described in two ways", number.0));
            }
            if number >= next.next_file {
                return Err(format!("C2: table {} has a number that is not reserved", number.0));
            }
            if meta.seq_max > next.flushed_seq {
                return Err(format!("table {} is newer than the flushed sequence", number.0));
            }
            let slices = changed.get_mut(&added.run);
            let slices = slices.ok_or_else(|| format!("run {} is missing", added.run.0))?;
            let slice = TableSlice { meta: shared.clone(), ..added.slice.clone() };
            let at = slices.partition_point(|other| other.lower() < slice.lower());
            slices.insert(at, slice);
        }
        Ok(())
    }

    /// M2 over one edit. `next` still has its empty runs, and `self` holds M2.
    fn check_outputs(&self, edit: &Edit, next: &Self) -> Result<(), String> {
        let place = |id: RunId| next.runs.iter().position(|run| run.id == id);
        let from = edit.removed.iter().filter_map(|removed| place(removed.run));
        let (newest, oldest) = (from.clone().min(), from.max());
        let had = |run: RunId, number: FileNumber| {
            let run = self.runs.iter().find(|other| other.id == run);
            run.is_some_and(|run| run.has_table(number))
        };
        for added in &edit.added {
            let (number, seq_min) = (added.slice.meta.number.0, added.slice.meta.seq_min);
            let at = place(added.run).expect("invariant: add_slices found the run");
            if edit.new_runs.iter().any(|new| new.id == added.run) {
                // New runs come from the log. They are newer than every run that was there.
                let above =
                    next.runs[..at].iter().any(|run| self.runs.iter().any(|r| r.id == run.id));
                if above || (seq_min <= self.flushed_seq && !self.runs.is_empty()) {
                    return Err(format!("M2: table {number} of a new run is not the newest"));
                }
                continue;
            }
            if had(added.run, added.slice.meta.number) {
                continue;
            }
            let (Some(newest), Some(oldest)) = (newest, oldest) else {
                return Err(format!("M2: table {number} comes out of nothing"));
            };
            if oldest > at {
                return Err(format!("M2: table {number} stands above a run that it came from"));
            }
            let between = next.runs.get(newest..at).unwrap_or_default().iter();
            let mut between = between.flat_map(|run| run.slices.iter());
            if let Some(hidden) = between.find(|slice| slice.overlaps_slice(&added.slice)) {
                return Err(format!(
                    "M2: table {number} would stand below older entries in table {}",
                    hidden.meta.number.0
                ));
            }
        }
        Ok(())
    }
}

fn remove_slices(
    edit: &Edit,
    changed: &mut BTreeMap<RunId, Vec<TableSlice>>,
) -> Result<(), String> {
    for gone in &edit.removed {
        let slices = changed.get_mut(&gone.run);
        let at = slices.as_ref().and_then(|slices| {
            slices.iter().position(|s| s.meta.number == gone.number && s.lo == gone.lo)
        });
        let (Some(slices), Some(at)) = (slices, at) else {
            return Err(format!(
                "table {} is to leave run {}, where it is not",
                gone.number.0, gone.run.0
            ));
        };
        slices.remove(at);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
