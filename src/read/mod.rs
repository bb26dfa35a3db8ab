//! The read path: snapshot -> sources newest to oldest -> answer.
//!
//! 1. A read loads the view, then the published sequence (or takes its snapshot's).
//! 2. A point read asks the memtables, newest first, then one slice of each run (`get`); the first
//!    entry at or below the sequence decides, a tombstone too.
//! 3. A scan merges a cursor over each source and keeps the newest visible version of each key
//!    (`iter`).
//!
//! Invariants
//! - R1: one view for one read. R2: newest source first. R3: a tombstone hides every older entry.
//! - V2: the view is loaded first, so a read that began after a write returned sees it.
//! - S2: point reads, forward scans, reverse scans and prefix scans of one view agree.
//! - C1: an error is never an absence.

mod get;
pub(crate) mod iter;
