//! What `stats` shows, gathered from where it stands.
//!
//! Invariants
//! - Nothing here decides anything; two figures may be of two moments.

use super::Core;
use crate::stats::Stats;

impl Core {
    /// The figures now.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.counters.fill(&mut stats);
        let cohort = self.queue.cohort_waits();
        stats.cohort_waits = cohort.begun;
        stats.cohort_waits_in_vain = cohort.in_vain;
        stats.commit_lock_waits = self.writer.waits.get();
        stats.commit_lock_wait_ns = self.writer.wait_ns.get();
        stats.maintain_lock_waits = self.maintainer.waits.get();
        stats.maintain_lock_wait_ns = self.maintainer.wait_ns.get();
        let blocks = self.tables.blocks().map(|blocks| blocks.figures());
        let blocks = blocks.unwrap_or_default();
        (stats.cache_hits, stats.cache_misses) = (blocks.hits, blocks.misses);
        stats.cache_bytes = blocks.bytes;
        stats.tables_open = self.tables.len() as u64;
        let view = self.view.load();
        stats.memtable_bytes = view.memtable_bytes() as u64;
        stats.memtables_frozen = view.frozen.len() as u64;
        let waiting = view.frozen.iter().map(|frozen| frozen.memtable.bytes() as u64);
        let newer = view.version.runs.iter().rev().skip(1).map(|run| run.bytes());
        stats.debt_bytes = waiting.sum::<u64>() + newer.sum::<u64>();
        stats.runs = view.version.runs.len() as u64;
        // A table may stand in several slices.
        for meta in view.version.tables().into_values() {
            stats.tables += 1;
            stats.table_bytes += meta.bytes;
        }
        stats.snapshots = self.snapshots.count() as u64;
        stats.last_sequence = self.published().0;
        stats.flushed_sequence = view.version.flushed_seq.0;
        stats.runs_max = stats.runs_max.max(stats.runs);
        stats.memtables_frozen_max = stats.memtables_frozen_max.max(stats.memtables_frozen);
        // G2: not over a wait for a lock.
        drop(view);
        self.reader_ended();
        if let Some(maintainer) = &*self.maintainer.lock() {
            stats.tables_pinned = maintainer.zombies.len() as u64;
            stats.tables_fenced = maintainer.fenced.len() as u64;
        }
        if let Some(writer) = &*self.writer.lock() {
            stats.log_bytes = writer.logs.bytes();
            stats.logs = writer.logs.numbers().len() as u64;
            stats.logs_max = stats.logs_max.max(stats.logs);
        }
        stats
    }
}
