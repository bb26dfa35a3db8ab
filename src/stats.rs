//! What the engine has done and holds, in numbers.
//!
//! Invariants
//! - Counters count since `open` and only grow; gauges say what is now.
//! - They are telemetry: no decision of the engine reads one.

use crate::env::sync::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        #[derive(Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        /// Figures of one open database. Byte figures are bytes of the engine's own files.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
            /// Now: bytes in all memtables.
            pub memtable_bytes: u64,
            /// Now: memtables that wait for a flush.
            pub memtables_frozen: u64,
            /// Now: bytes in logs that are still needed.
            pub log_bytes: u64,
            /// Now: logs that are still needed, the active one included.
            pub logs: u64,
            /// Now: sorted runs.
            pub runs: u64,
            /// Now: tables in the current version.
            pub tables: u64,
            /// Now: bytes of those tables.
            pub table_bytes: u64,
            /// Now: live snapshots.
            pub snapshots: u64,
            /// Now: the last published sequence.
            pub last_sequence: u64,
            /// Now: everything at or below this sequence is in tables.
            pub flushed_sequence: u64,
            /// Now: tables that wait for their last reader before they go.
            pub tables_pinned: u64,
            /// Now: tables in which damage was found; no compaction takes them.
            pub tables_fenced: u64,
        }

        impl Counters {
            pub(crate) fn fill(&self, stats: &mut Stats) {
                $(stats.$name = self.$name.get();)*
            }
        }
    };
}

counters! {
    /// Groups appended to the log.
    groups,
    /// Records written.
    records,
    /// Bytes of records handed to the log.
    record_bytes,
    /// Log syncs asked for by groups and by `sync`.
    syncs,
    /// Log rotations.
    rotations,
    /// Flushes made durable.
    flushes,
    /// Bytes of tables that flushes wrote.
    flush_bytes,
    /// Compactions made durable.
    compactions,
    /// Bytes of tables that compactions wrote.
    compaction_bytes,
    /// Manifests that took the place of one that had grown.
    manifests,
    /// Tables removed.
    tables_removed,
    /// Logs removed.
    logs_removed,
    /// Flushes and compactions that failed before their install and will be tried again.
    maintenance_retries,
    /// Writes that had to do maintenance before they could go on.
    stalls,
}

/// A number that only grows.
pub(crate) struct Counter(AtomicU64);

impl Default for Counter {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
