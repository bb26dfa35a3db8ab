//! A frozen memtable into a run of tables.
//!
//! Invariants
//! - Flushes are built and become durable oldest first, so that the tables hold a prefix of the
//!   commit order.
//! - No unpublished entry is in a frozen memtable, so none gets into a table.
//! - G1: retention samples the live snapshots when the build begins; a snapshot made later reads at
//!   or above what was published then, and that stays.

use super::Failed;
use super::retain::Retain;
use crate::cursor::Cursor;
use crate::engine::Core;
use crate::engine::output::OutputBuilder;
use crate::engine::slots::Built;
use crate::env::probe::Stage;

impl Core {
    pub(super) fn build_flush(&self) -> Result<Built, Failed> {
        let view = self.view.load();
        let oldest = view.frozen.last().expect("a flush is planned only for a frozen memtable");
        // Nothing older can hold what a tombstone hides only where there is no table at all.
        let bottom = view.version.runs.is_empty();
        let sequences = self.snapshots.sample(&self.published);
        let mut retain = Retain::new(&sequences, bottom);
        let plan = self.output_plan(Stage::FlushBuild, Stage::FlushSyncTable);
        let allocate = || self.number_for_build();
        let mut output = OutputBuilder::new(plan, &allocate);
        let mut cursor = oldest.memtable.cursor();
        cursor.seek_first()?;
        while let Some(entry) = cursor.entry() {
            assert!(entry.seq <= oldest.last, "no table holds an unpublished entry");
            if retain.keep(entry) {
                output.add(entry)?;
            }
            cursor.next()?;
        }
        Ok(Built::Flush(output.finish()?, oldest.last))
    }
}
