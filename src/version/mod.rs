//! What the database consists of: sorted runs of table slices, and the files that say so.
//!
//! A version is an ordered list of runs, newest first; a run is a list of disjoint table slices. A
//! flush adds a run of one table; a compaction takes an adjacent interval of runs, cut to one key
//! range, and puts its output in the place of the oldest. Leveled, tiered and lazy-leveled
//! compaction are different choices over this one structure.
//!
//! 1. [`slice`]: a table as a version names it, and the part of it that is visible.
//! 2. [`state`]: runs and versions; an edit makes the next version out of one.
//! 3. [`edit`]: what changes, its bytes, and the edits that a flush and a compaction make.
//! 4. [`check`]: what must hold in every version (M1, M2).
//! 5. [`meta`]: the tie between a manifest's entry and a table file. [`plan`]: a compaction that
//!    was decided on.
//! 6. [`manifest`]: the edits on disk. [`current`]: which manifest counts.
//!
//! Invariants
//! - M1: the slices of one run are disjoint and ordered.
//! - M2: for one key, a newer run holds only newer sequence numbers than an older run.
//! - A version never changes; readers pin one. A table's [`TableMeta`] is shared by every version
//!   that names it, so its reference count tells whether a live version does (G2).

pub mod check;
pub mod current;
pub mod edit;
pub mod manifest;
pub mod meta;
pub mod plan;
pub mod slice;
pub mod state;

pub use check::structure;
pub use current::SYNC_DIR;
pub use edit::{Edit, compaction_edit, flush_edit, snapshot_edit};
pub use manifest::{ManifestRead, ManifestWriter, PreparedManifest, read_manifest};
pub use plan::{Plan, Reason};
pub use slice::{KeyRange, TableMeta, TableSlice};
pub use state::{Run, RunId, Version};

#[cfg(test)]
mod tests;
