//! Moving over entries in order, and the contract that every cursor keeps.
//!
//! A cursor stands on an entry, or past the end. Entries come in entry order: user key ascending,
//! then sequence descending, so that the newest version of a key comes first.
//!
//! Contract
//! 1. The seeks (`seek_first`, `seek`, `seek_last`, `seek_before`) are absolute: allowed at any
//!    time, in any order, and independent of where the cursor stood. A new cursor has not been
//!    positioned: `entry` is `None`, and only a seek is allowed.
//! 2. After `seek_first` and `seek` only `next` may follow; after `seek_last` and `seek_before`
//!    only `prev`. The direction never turns between seeks: who needs both ways keeps two cursors.
//! 3. `next` and `prev` are allowed only on an entry. Moving from past the end is a bug of ours and
//!    panics.
//! 4. `entry` is what the cursor stands on, the same at every call until the next move.
//! 5. R4: after an error `entry` is `None`, and every call but a seek returns the same error.
//! 6. What a cursor walks does not change beneath it, except a memtable's: there entries that are
//!    newer than every published sequence may or may not appear.
//!
//! [`checked::Checked`] panics on any breach, on either side, and stands around cursors in tests.
//!
//! Cursors are generic parameters, never trait objects on a hot path: the read and maintain paths
//! name their kinds in an enum.

pub mod checked;
pub mod merge;
#[cfg(test)]
pub(crate) mod tests;
pub mod vec;
pub mod visible;

use crate::base::key::{EntryRef, SeqNo};
use crate::base::slice::Slice;
use crate::error::Result;

/// A position in a sorted sequence of entries; the contract is the module's.
pub trait Cursor {
    /// Moves to the first entry.
    fn seek_first(&mut self) -> Result<()>;

    /// Moves to the first entry at or after (`key`, `seq`): with [`SeqNo::MAX`] the newest version
    /// of `key`, with a snapshot's sequence the newest version that it sees.
    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;

    /// Moves to the last entry.
    fn seek_last(&mut self) -> Result<()>;

    /// Moves to the last entry whose user key is below `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;

    /// Moves to the next entry, or past the end.
    fn next(&mut self) -> Result<()>;

    /// Moves to the entry before, or past the end (that is the front).
    fn prev(&mut self) -> Result<()>;

    /// What the cursor stands on; `None` past the end, after an error and before the first seek.
    fn entry(&self) -> Option<EntryRef<'_>>;

    /// The value that the cursor stands on, to keep: a source whose bytes can be pinned pins long
    /// ones, everything else is copied.
    fn pinned_value(&self) -> Option<Slice> {
        self.entry().map(|entry| Slice::copy(entry.value))
    }
}
