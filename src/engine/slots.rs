//! What maintenance has under way, between two of its steps.
//!
//! Invariants
//! - A lane has one thing under way at a time.
//! - What was built is synced; nothing names it yet.

use super::output::Output;
use crate::base::key::SeqNo;
use crate::env::sync::Arc;
use crate::version::{Plan, RunId, TableSlice, Version};
use crate::wal::PreparedLog;

/// Where a lane stands between two steps.
pub(crate) enum Slot {
    Empty,
    Planned(Planned),
    /// Some thread is at it, without a lock.
    Building,
    Built(Built),
}

/// What is to be built.
pub(crate) enum Planned {
    /// The oldest frozen memtable, into a table.
    Flush,
    /// The next log.
    NextLog,
    /// Runs, into fewer; their places are those in this version.
    Compact(Plan, Arc<Version>),
}

/// What was built; its files are synced.
pub(crate) enum Built {
    /// A frozen memtable, whose last sequence this is.
    Flush(Output, SeqNo),
    /// A log that can take over; its name is durable too.
    NextLog(PreparedLog),
    /// Runs. The slices take the place of the inputs, of which this run is the newest.
    Compact(Plan, RunId, Output, Vec<TableSlice>),
}
