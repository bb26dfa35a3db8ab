//! What a reader sees: the memtables and the tables, taken at one instant.
//!
//! Invariants
//! - R1: a read uses one view, loaded before the published sequence; what the view lacks is above
//!   the sequence at which its newest memtable was frozen, so the read is of that instant.
//! - R2: sources are ordered newest to oldest.
//! - A view never changes; freezing, flushing and compacting publish another one.

use crate::base::key::SeqNo;
use crate::env::sync::Arc;
use crate::memtable::Memtable;
use crate::version::Version;

/// A frozen memtable, waiting for its flush.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) memtable: Arc<Memtable>,
    /// The sequence published when it was frozen: everything at or below it that no older source
    /// holds is in this memtable.
    pub(crate) last: SeqNo,
}

/// The sources of a read.
pub(crate) struct View {
    /// The memtable that takes writes.
    pub(crate) active: Arc<Memtable>,
    /// Frozen ones, newest first.
    pub(crate) frozen: Vec<Frozen>,
    /// The tables.
    pub(crate) version: Arc<Version>,
}

impl View {
    /// Freezes the active memtable; `next` takes over.
    pub(crate) fn freeze(&self, last: SeqNo, next: Arc<Memtable>) -> Self {
        let mut frozen = Vec::with_capacity(self.frozen.len() + 1);
        frozen.push(Frozen { memtable: self.active.clone(), last });
        frozen.extend(self.frozen.iter().cloned());
        Self { active: next, frozen, version: self.version.clone() }
    }

    /// Replaces an active memtable that holds nothing.
    pub(crate) fn replace_active(&self, next: Arc<Memtable>) -> Self {
        Self { active: next, frozen: self.frozen.clone(), version: self.version.clone() }
    }

    /// Takes `frozen`, oldest first, as the newest of what is frozen.
    pub(crate) fn with_frozen(&self, frozen: Vec<Frozen>) -> Self {
        let frozen = frozen.into_iter().rev().chain(self.frozen.iter().cloned()).collect();
        Self { active: self.active.clone(), frozen, version: self.version.clone() }
    }

    /// Puts `version` in place and lets go of the memtables that it holds.
    pub(crate) fn with_version(&self, version: Arc<Version>) -> Self {
        let flushed = version.flushed_seq;
        let frozen = self.frozen.iter().filter(|f| f.last > flushed).cloned().collect();
        Self { active: self.active.clone(), frozen, version }
    }

    /// The bytes of all memtables.
    pub(crate) fn memtable_bytes(&self) -> usize {
        self.active.bytes() + self.frozen.iter().map(|f| f.memtable.bytes()).sum::<usize>()
    }
}
