//! The recovery path: bytes -> the same state.
//!
//! 1. Take the lock. 2. Read `CURRENT` and the manifest it names (`ground`); where there is no
//!    database, an empty one stands in, and creating is recovering nothing.
//! 3. Read the logs and decide where their replay ends (`replay`; the judge is `wal::chain`).
//! 4. Build what they show into new tables; sync them and the directory.
//! 5. Install one new manifest that names them and whose flushed sequence lies beyond every
//!    sequence found in any log, dropped ones included. From here on the decision is final (D4).
//! 6. Create the first log of the new chain. 7. Remove what nobody names (`orphans`).
//!
//! Invariants
//! - D3, O1: what is shown is a cut of the commit order that has every acknowledged durable write.
//! - Recovery trusts no page that it did not write: nothing is appended to an old file, and nothing
//!   invalid ever becomes valid (B123).
//! - O3: a crash anywhere before the end of step 5 leaves the old state and orphans; recovering
//!   twice equals recovering once.
//! - C2, O4: numbers start above every one found in the manifest, a directory entry or a frame
//!   header.
//! - Damage to what is known to be synced fails the open and changes nothing (C1).

mod ground;
mod open;
mod orphans;
mod replay;

pub(crate) use open::{open, open_read_only};

use crate::wal::Dropped;

/// What a recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether there was no database before.
    pub created: bool,
    /// Logs read.
    pub logs: u64,
    /// Records replayed from them.
    pub records: u64,
    /// Where the replay ended before the logs did, and what was dropped there.
    pub dropped: Option<Dropped>,
    /// Tables built from the logs.
    pub tables_built: u64,
    /// Files removed because nobody named them.
    pub orphans_removed: u64,
    /// The last sequence that the recovered state shows.
    pub last_sequence: u64,
}
