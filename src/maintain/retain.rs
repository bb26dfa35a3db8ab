//! What a merge keeps. Pure: it sees entries in entry order and says yes or no to each.
//!
//! A snapshot at sequence `s` reads, of each key, the newest version at or below `s`. The live
//! snapshots and "now" cut the versions of a key into stripes: those above the newest snapshot,
//! those between two, those at or below the oldest. Of each stripe only the newest version can
//! ever be read.
//!
//! Invariants
//! - G1, M3: of each key and stripe the newest version is kept, all others are dropped.
//! - A tombstone is dropped only where nothing older of its key remains below the merge (`bottom`)
//!   and no snapshot is older than it: then "deleted" and "never there" are the same to everyone.
//! - Nothing depends on where a merge is cut, as long as all versions of a key that lie in the
//!   merged runs are seen.
//!
//! The snapshots are sampled once, under the registration lock and together with the *published*
//! sequence; a later snapshot reads "now" or later. It may not be sampled again within one merge:
//! what was kept of a key would then depend on the moment.

use crate::base::key::{EntryRef, Kind, SeqNo};

/// Decides over the entries of one merge.
#[derive(Clone, Debug)]
pub struct Retain {
    /// The live snapshots, oldest first.
    snapshots: Vec<SeqNo>,
    bottom: bool,
    /// The current key, if any, and the stripe of its last version seen.
    key: Vec<u8>,
    stripe: Option<usize>,
    last: SeqNo,
}

impl Retain {
    /// For a merge while `snapshots` (sorted, oldest first) are live. `bottom` says that no run
    /// below the merged ones has anything in the merged range.
    #[must_use]
    pub fn new(snapshots: &[SeqNo], bottom: bool) -> Self {
        assert!(snapshots.is_sorted(), "snapshots are given oldest first");
        Self {
            snapshots: snapshots.to_vec(),
            bottom,
            key: Vec::new(),
            stripe: None,
            last: SeqNo::ZERO,
        }
    }

    /// Whether the next entry is kept. Entries come in entry order.
    #[inline]
    pub fn keep(&mut self, entry: EntryRef<'_>) -> bool {
        // The stripe: how many snapshots are too old to read this version.
        let stripe = self.snapshots.partition_point(|&snapshot| snapshot < entry.seq);
        let same_key = self.stripe.is_some() && self.key == entry.key;
        if same_key {
            assert!(entry.seq < self.last, "versions of a key come newest first");
        } else {
            debug_assert!(self.stripe.is_none() || self.key[..] < *entry.key, "keys ascend");
            self.key.clear();
            self.key.extend_from_slice(entry.key);
        }
        // M3, G1: every snapshot that reads this version reads a newer one of the key instead.
        let shadowed = same_key && self.stripe == Some(stripe);
        (self.stripe, self.last) = (Some(stripe), entry.seq);
        // M3, G1: it hides nothing, for anybody.
        let needless = entry.kind == Kind::Delete && self.bottom && stripe == 0;
        !shadowed && !needless
    }
}

#[cfg(test)]
mod tests;
