//! An interval of adjacent runs, cut to a key range, into one run.
//!
//! Invariants
//! - M2: the interval has no gap, and the output stands in the place of its oldest run.
//! - M3, G1: `retain` decides what goes; a tombstone may go only if no older run overlaps the
//!   range.
//! - An input that can't be read ends the compaction: an error is never the end of the data (C1).
//! - Damage in an input fences the tables of the interval that it names, and is reported once.

use super::Failed;
use super::retain::Retain;
use crate::base::key::SeqNo;
use crate::base::name::{FileKind, file_name};
use crate::cursor::Cursor;
use crate::cursor::merge::Merge;
use crate::engine::output::{Output, OutputBuilder};
use crate::engine::run_cursor::RunCursor;
use crate::engine::slots::Built;
use crate::engine::{Core, Maintainer};
use crate::env::probe::Stage;
use crate::error::{Error, Result};
use crate::table::Purpose;
use crate::version::{Plan, Reason, TableSlice, Version};

impl Core {
    /// `version` is the one that the plan was made for: flushes may have put runs in front of its
    /// own since.
    pub(super) fn build_compaction(&self, plan: Plan, version: &Version) -> Result<Built, Failed> {
        let newest = version.runs[plan.runs.start].id();
        if plan.reason == Reason::Move {
            let slices = inputs(version, &plan);
            return Ok(Built::Compact(plan, newest, Output { tables: Vec::new() }, slices));
        }
        let output = self.merge_runs(version, &plan);
        let output = output.map_err(|error| Failed { error, inputs: inputs(version, &plan) })?;
        let slices = output.tables.iter().cloned().map(TableSlice::whole).collect();
        Ok(Built::Compact(plan, newest, output, slices))
    }

    fn merge_runs(&self, version: &Version, plan: &Plan) -> Result<Output> {
        let inputs = &version.runs[plan.runs.clone()];
        let older = &version.runs[plan.runs.end..];
        let bottom =
            !older.iter().flat_map(|run| run.slices()).any(|slice| slice.overlaps(&plan.range));
        let sequences = self.snapshots.sample(&self.published);
        let mut retain = Retain::new(&sequences, bottom);
        let output_plan = self.output_plan(Stage::CompactBuild, Stage::CompactSyncTable);
        let allocate = || self.number_for_build();
        let mut output = OutputBuilder::new(output_plan, &allocate);
        let cursors = inputs
            .iter()
            .map(|run| RunCursor::new(run.clone(), self.tables.clone(), Purpose::Maintain, None));
        let mut merged = Merge::new(cursors.collect());
        match &plan.range.lo {
            Some(lo) => merged.seek(lo, SeqNo::MAX)?,
            None => merged.seek_first()?,
        }
        while let Some(entry) = merged.entry() {
            if plan.range.hi.as_deref().is_some_and(|hi| entry.key >= hi) {
                break;
            }
            if retain.keep(entry) {
                output.add(entry)?;
            }
            merged.next()?;
        }
        output.finish()
    }
}

/// The slices of the interval in the range. A plan to move them says that they are disjoint and
/// within the range: they become one run as they are.
fn inputs(version: &Version, plan: &Plan) -> Vec<TableSlice> {
    let inputs = version.runs[plan.runs.clone()].iter().flat_map(|run| run.slices());
    inputs.filter(|slice| slice.overlaps(&plan.range)).cloned().collect()
}

/// Takes the table of `inputs` that `error` names out of the reach of further picks.
pub(super) fn fence(maintainer: &mut Maintainer, inputs: &[TableSlice], error: &Error) {
    let Error::Corruption { file, .. } = error else { return };
    for slice in inputs {
        let name = file_name(FileKind::Table, slice.meta.number);
        if file.file_name().is_some_and(|n| n == name.as_str()) {
            maintainer.fenced.insert(slice.meta.number);
            maintainer.damage.get_or_insert_with(|| error.clone());
        }
    }
}
