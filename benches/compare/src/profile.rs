//! How an engine is opened: the knobs that a plan sets, the same words for every engine.
//!
//! - `matched` sets every named knob; `defaults` leaves the engine as it comes, but for what the
//!   plan's durability needs.
//! - An adapter maps the words it has to its engine's names, and reports each as a
//!   [`crate::engine::Knob`] read back from the engine.

use serde::{Deserialize, Serialize};

/// Whose values are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tuning {
    /// The values below.
    Matched,
    /// The engine's own defaults; the values below are not looked at, except `durable`,
    /// `statistics`, `map_bytes`, `map_readahead` and `connection_shared`.
    Defaults,
}

/// Which filter RocksDB builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// None.
    None,
    /// Bloom, ten bits a key.
    Bloom,
    /// Ribbon, the space of ten Bloom bits a key.
    Ribbon,
}

/// Every knob; all must stand in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Whose values are used.
    pub tuning: Tuning,
    /// Bytes of a memtable.
    pub memtable_bytes: u64,
    /// Memtables at the most.
    pub memtables: u32,
    /// Bytes of the block cache (RocksDB, fjall, redb, SQLite's page cache, Kiban's where reads
    /// are positioned).
    pub cache_bytes: u64,
    /// Bytes of a table, and of the first level.
    pub table_bytes: u64,
    /// Bytes of the first level (leveled engines).
    pub level_base_bytes: u64,
    /// Growth from level to level.
    pub level_multiplier: u32,
    /// Files of level 0 (Kiban: runs of a tier) that start a merge.
    pub l0_trigger: u32,
    /// Files at which writes are slowed.
    pub l0_slowdown: u32,
    /// Files at which writes stop.
    pub l0_stop: u32,
    /// Open files at the most.
    pub open_files: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// RocksDB's filter, and whether it has one at all in other engines.
    pub filter: Filter,
    /// RocksDB: iterators ignore any prefix extractor.
    pub total_order_seek: bool,
    /// Kiban: the point index in tables.
    pub point_index: bool,
    /// Length of the prefix that tables may keep a filter for; 0 for none.
    pub scan_prefix_len: u32,
    /// Whether tables are read through memory maps (Kiban `Reads::Mapped`, SQLite `mmap_size`).
    /// LMDB always maps; RocksDB never, or its block cache, a matched knob, would hold nothing.
    pub mmap_reads: bool,
    /// Whether every write of the row is synced before it returns: SQLite then opens with
    /// `synchronous=FULL`, LMDB without NOSYNC.
    pub durable: bool,
    /// Kiban: the longest wait for a cohort, in nanoseconds.
    pub cohort_wait_ns: u64,
    /// Each synced write is a buffered write and then a sync of its own; the campaign does it, not
    /// the adapter.
    pub separate_sync: bool,
    /// Statistics inside the engine, for diagnostic trials only.
    pub statistics: bool,
    /// SQLite: one connection behind a mutex for reads as well as writes.
    pub connection_shared: bool,
    /// LMDB: the size of the map, above the largest database of the row.
    pub map_bytes: u64,
    /// Whether the kernel may read ahead in an engine's map. Off, LMDB has `MDB_NORDAHEAD`, which
    /// is meant for databases larger than memory, and SQLite, without such a flag, has no map.
    /// Kiban has no such knob.
    pub map_readahead: bool,
}

impl Profile {
    /// The matched profile of the campaign.
    #[must_use]
    pub fn matched() -> Self {
        Self {
            tuning: Tuning::Matched,
            memtable_bytes: 4 << 20,
            memtables: 2,
            cache_bytes: 32 << 20,
            table_bytes: 4 << 20,
            level_base_bytes: 4 << 20,
            level_multiplier: 10,
            l0_trigger: 4,
            l0_slowdown: 8,
            l0_stop: 8,
            open_files: 128,
            block_bytes: 4096,
            filter: Filter::Bloom,
            total_order_seek: false,
            point_index: true,
            scan_prefix_len: 0,
            mmap_reads: true,
            durable: false,
            cohort_wait_ns: 100_000,
            separate_sync: false,
            statistics: false,
            connection_shared: false,
            map_bytes: 64 << 30,
            map_readahead: true,
        }
    }
}
