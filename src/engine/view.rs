//! What a reader sees: the memtables and the tables, taken at one instant.
//!
//! Invariants
//! - R1: a read uses one view, loaded before the published sequence; what the view lacks is above
//!   the sequence at which its newest memtable was frozen, so the read is of that instant. The
//!   other way round a flush in between could have dropped what only the older sequence reads.
//! - R2: sources are ordered newest to oldest.
//! - A view never changes; freezing, flushing and compacting publish another one. No replacement
//!   is lost: they take turns.

use crate::base::key::{EntryRef, SeqNo};
use crate::env::sync::{Arc, AtomicU64, Borrowed, Mutex, Ordering, Published};
use crate::memtable::Memtable;
use crate::version::Version;

/// A frozen memtable, waiting for its flush.
#[derive(Clone)]
pub struct Frozen {
    /// It.
    pub memtable: Arc<Memtable>,
    /// The sequence published when it was frozen: everything at or below it that no older source
    /// holds is in this memtable.
    pub last: SeqNo,
}

/// The sources of a read.
pub struct View {
    /// The memtable that takes writes.
    pub active: Arc<Memtable>,
    /// Frozen ones, newest first.
    pub frozen: Vec<Frozen>,
    /// The tables.
    pub version: Arc<Version>,
}

impl View {
    /// Freezes the active memtable; `next` takes over.
    pub fn freeze(&self, last: SeqNo, next: Arc<Memtable>) -> Self {
        let mut frozen = Vec::with_capacity(self.frozen.len() + 1);
        frozen.push(Frozen { memtable: self.active.clone(), last });
        frozen.extend(self.frozen.iter().cloned());
        Self { active: next, frozen, version: self.version.clone() }
    }

    /// Replaces an active memtable that holds nothing.
    pub fn replace_active(&self, next: Arc<Memtable>) -> Self {
        Self { active: next, frozen: self.frozen.clone(), version: self.version.clone() }
    }

    /// Takes `frozen`, oldest first, as the newest of what is frozen.
    pub fn with_frozen(&self, frozen: Vec<Frozen>) -> Self {
        let frozen = frozen.into_iter().rev().chain(self.frozen.iter().cloned()).collect();
        Self { active: self.active.clone(), frozen, version: self.version.clone() }
    }

    /// Puts `version` in place and lets go of the memtables that it holds.
    pub fn with_version(&self, version: Arc<Version>) -> Self {
        let flushed = version.flushed_seq;
        let frozen = self.frozen.iter().filter(|f| f.last > flushed).cloned().collect();
        Self { active: self.active.clone(), frozen, version }
    }

    /// The newest entry of `key` at or below `at` that is in memory.
    #[inline]
    pub fn in_memory<'a>(&'a self, key: &[u8], at: SeqNo) -> Option<EntryRef<'a>> {
        if let Some(entry) = self.active.get(key, at) {
            return Some(entry);
        }
        self.frozen.iter().find_map(|frozen| frozen.memtable.get(key, at))
    }

    /// The bytes of all memtables.
    pub fn memtable_bytes(&self) -> usize {
        self.active.bytes() + self.frozen.iter().map(|f| f.memtable.bytes()).sum::<usize>()
    }
}

/// The view that readers see now.
pub struct Views {
    now: Published<View>,
    /// Held by whoever replaces the view.
    update: Mutex<()>,
    /// How often it was replaced.
    changes: AtomicU64,
}

impl Views {
    /// Begins with `view`.
    #[must_use]
    pub fn new(view: View) -> Self {
        let (now, update) = (Published::new(Arc::new(view)), Mutex::new(()));
        Self { now, update, changes: AtomicU64::new(0) }
    }

    /// How often the view was replaced. A reader that took it before its view, and finds it
    /// unchanged when it has let that go, pinned nothing that was removed meanwhile (G2).
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The view now.
    pub fn load(&self) -> Arc<View> {
        self.now.load()
    }

    /// Runs `f` on the view now, for the time of the call.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&View) -> R) -> R {
        self.now.with(f)
    }

    /// The view and the sequence of a read that begins now.
    #[inline]
    pub fn read_point(&self, published: &AtomicU64) -> (Borrowed<View>, SeqNo) {
        // R1: in this order; a sequence published in between is in the view or above its own.
        let view = self.now.borrow();
        (view, SeqNo(published.load(Ordering::Acquire)))
    }

    /// As [`Views::read_point`], for a read that outlives a call.
    pub fn lasting_read_point(&self, published: &AtomicU64) -> (Arc<View>, SeqNo) {
        // R1: as above.
        let view = self.now.load();
        (view, SeqNo(published.load(Ordering::Acquire)))
    }

    /// Replaces the view by what `change` makes of it.
    pub fn update(&self, change: impl FnOnce(&View) -> View) {
        let _held = self.update.lock();
        let next = change(&self.now.load());
        self.now.store(Arc::new(next));
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}
