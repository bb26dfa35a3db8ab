//! The maintain path: memory -> L0 -> levels -> nothing.
//!
//! One step at a time: plan (pure) -> build (`flush`, `compact`), outside of every lock -> sync
//! files -> sync directory -> append edit -> sync manifest -> swap version (`install`) -> delete
//! what nobody names (`collect`). There are two lanes, so that no flush waits for a compaction:
//! one thread does the steps of both in turn, flushing first, or two workers (`worker`) have one
//! each.
//!
//! Invariants
//! - M3, G1: an entry goes only if a newer one shadows it for every live snapshot, a tombstone only
//!   if nothing older remains below (`retain`).
//! - M4: a version never names a file that is not durable, directory entry included.
//! - M5, G2: a file goes only when no version, current or pinned, names it.
//! - P1: a failure while building is tried again under new numbers; a failed directory sync or
//!   manifest write poisons; damage in an input fences its tables.
//! - One build in each lane at a time. Between its plan and its install a compaction's runs change
//!   by nothing but new runs in front of them.

mod collect;
mod compact;
mod flush;
mod install;
mod next_log;
pub mod pick;
mod progress;
pub mod retain;
mod step;
mod worker;

pub(crate) use worker::Workers;

use crate::engine::Maintainer;
use crate::error::Error;
use crate::version::TableSlice;

/// What one step of maintenance did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MaintainStep {
    /// There was nothing to do.
    Idle,
    /// A flush or compaction was planned.
    Planned,
    /// Its tables were built and synced.
    Built,
    /// It became part of the database.
    Installed,
    /// Files that nobody names were removed.
    Collected,
    /// Another thread is building, and there was nothing else to do.
    Busy,
}

/// Why a build failed.
pub(crate) struct Failed {
    error: Error,
    /// The inputs that `error` may name.
    inputs: Vec<TableSlice>,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, inputs: Vec::new() }
    }
}

impl Failed {
    /// Takes a damaged input out of the reach of further picks; gives the error on.
    fn judge(self, maintainer: &mut Maintainer) -> Error {
        compact::fence(maintainer, &self.inputs, &self.error);
        self.error
    }
}
