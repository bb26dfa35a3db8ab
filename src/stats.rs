//! What the engine has done and holds, in numbers.
//!
//! Invariants
//! - Counters count since `open` and only grow; gauges say what is now; high-water marks say the
//!   highest since `open`. Durations are nanoseconds, summed over all threads.
//! - They are telemetry: no decision of the engine reads one.

use crate::env::sync::{AtomicU64, Ordering};
use crate::listener::StallCause;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        #[derive(Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        /// Figures of one open database. Byte figures are bytes of the engine's own files.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
            /// Groups of durable writes that waited for the writers of the group before.
            pub cohort_waits: u64,
            /// Of these, those that were led without all of them, when half of a sync's time or
            /// `cohort_wait_max_ns` was over.
            pub cohort_waits_in_vain: u64,
            /// Waits of threads for the lock under which groups are committed.
            pub commit_lock_waits: u64,
            /// Time that these waits took.
            pub commit_lock_wait_ns: u64,
            /// Waits of threads for the lock under which files are installed and removed.
            pub maintain_lock_waits: u64,
            /// Time that these waits took.
            pub maintain_lock_wait_ns: u64,
            /// Blocks and sections of tables that the block cache had. A table that is mapped and
            /// not compressed asks it for none.
            pub cache_hits: u64,
            /// Those that had to be read.
            pub cache_misses: u64,
            /// Now: bytes in the block cache.
            pub cache_bytes: u64,
            /// Now: tables kept open.
            pub tables_open: u64,
            /// Now: bytes that maintenance owes: those of frozen memtables, and those of tables in
            /// all runs but the oldest, which merging into one run would rewrite.
            pub debt_bytes: u64,
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
    /// Writes acknowledged.
    writes,
    /// Groups that these went through the log in.
    groups,
    /// High-water mark: writes in one group.
    group_writes_max,
    /// High-water mark: bytes of records in one group.
    group_bytes_max,
    /// Records written.
    records,
    /// Bytes of records handed to the log.
    record_bytes,
    /// Syncs of log files with writes in them: system calls, not requests.
    syncs,
    /// Log rotations.
    rotations,
    /// High-water mark: logs that were still needed.
    logs_max,
    /// High-water mark: memtables that waited for a flush.
    memtables_frozen_max,
    /// High-water mark: sorted runs.
    runs_max,
    /// Flushes made durable.
    flushes,
    /// Bytes of tables that flushes wrote.
    flush_bytes,
    /// Time that building flushed tables took.
    flush_ns,
    /// Compactions made durable.
    compactions,
    /// Bytes of tables that compactions wrote.
    compaction_bytes,
    /// Time that building merged tables took.
    compaction_ns,
    /// Manifests that took the place of one that had grown.
    manifests,
    /// Tables removed.
    tables_removed,
    /// Logs removed.
    logs_removed,
    /// Flushes and compactions that failed before their install and will be tried again.
    maintenance_retries,
    /// Writes that had to do, or to wait for, maintenance before they could go on.
    stalls,
    /// Of these, with workers, for a memtable.
    stalls_memtables,
    /// For a merge of runs.
    stalls_runs,
    /// For logs to become obsolete.
    stalls_logs,
    /// For a file number.
    stalls_file_numbers,
    /// Time that writes waited so.
    stall_ns,
    /// Writes that were held back a little, since maintenance was behind.
    delays,
    /// Time for which they were asked to wait.
    delay_ns,
    /// Receipts whose function panicked.
    receipt_panics,
    /// Calls of the listener that panicked.
    listener_panics,
}

impl Counters {
    /// By the leader, for all members: they would take this line of memory from one another.
    pub(crate) fn note_group(&self, writes: u32, records: u32, bytes: usize) {
        self.writes.add(u64::from(writes));
        self.groups.add(1);
        self.group_writes_max.raise(u64::from(writes));
        self.records.add(u64::from(records));
        self.record_bytes.add(bytes as u64);
        self.group_bytes_max.raise(bytes as u64);
    }

    pub(crate) fn note_stall(&self, cause: StallCause, stalled_ns: u64) {
        self.stalls.add(1);
        self.stall_ns.add(stalled_ns);
        match cause {
            StallCause::Memtables => self.stalls_memtables.add(1),
            StallCause::Runs => self.stalls_runs.add(1),
            StallCause::Logs => self.stalls_logs.add(1),
            StallCause::FileNumbers => self.stalls_file_numbers.add(1),
        }
    }

    pub(crate) fn note_delay(&self, delay_ns: u64) {
        self.delays.add(1);
        self.delay_ns.add(delay_ns);
    }
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

    /// Makes it `n` if that is more.
    #[inline]
    pub(crate) fn raise(&self, n: u64) {
        if self.get() < n {
            self.0.fetch_max(n, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
