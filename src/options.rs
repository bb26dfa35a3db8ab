//! Every knob, with its default, its unit and its limits.
//!
//! Invariants
//! - A value that can't work is refused at `open` with the option's name; nothing is clamped
//!   silently.

use crate::base::key::KEY_BYTES_MAX;
use crate::env::Env;
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use crate::listener::{Listener, Silent};
pub use crate::table::Compression;

/// How tables are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// Through memory maps: fastest; a device error or a truncation by others raises SIGBUS.
    #[default]
    Mapped,
    /// Through positioned reads and the block cache.
    Pread,
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $default:expr;)*) => {
        /// How a database is opened.
        ///
        /// ```
        /// let options = kiban::KibanOptions::new().memtable_bytes(1 << 20).point_index(true);
        /// assert_eq!(options.get_memtable_bytes(), 1 << 20);
        /// ```
        #[derive(Clone, Debug)]
        #[must_use]
        pub struct KibanOptions {
            pub(crate) env: Env,
            $(pub(crate) $name: $ty,)*
        }

        impl Default for KibanOptions {
            fn default() -> Self {
                Self { env: Env::os(), $($name: $default,)* }
            }
        }

        impl KibanOptions {
            $($(#[$doc])* pub fn $name(mut self, value: $ty) -> Self {
                self.$name = value;
                self
            })*
        }
    };
}

options! {
    /// Creates the database where there is none (default true); otherwise a missing one is
    /// `Error::NotFound`.
    create_if_missing: bool = true;
    /// Bytes of one memtable's arena (default 4 MiB, at least 1 KiB, at most 1 GiB). A full one
    /// is frozen and flushed.
    memtable_bytes: usize = 4 << 20;
    /// Memtables that may exist, the active one included (default 2, at least 2). A write that
    /// needs one more waits for a flush.
    memtables_max: usize = 2;
    /// Bytes at which a log is rotated, and its preallocated length (default 8 MiB, at least 1
    /// KiB, at most 4 GiB).
    log_bytes: u64 = 8 << 20;
    /// Bytes of logs that may wait for flushes (default 64 MiB, at least `log_bytes`); beyond it,
    /// and beyond 64 logs, the memtable that pins the oldest log is flushed.
    log_budget_bytes: u64 = 64 << 20;
    /// Bytes of a data block before compression (default 4 KiB, at least 32, at most 64 MiB).
    block_bytes: usize = 4096;
    /// Entries between restart points of a block (default 16, at least 1, at most 65,536).
    restart_interval: u32 = 16;
    /// Bytes at which an output table is cut (default 4 MiB, at least 1 KiB, at most 2 GiB).
    table_bytes_max: u64 = 4 << 20;
    /// Bytes of blocks that the pread backend keeps (default 32 MiB).
    cache_bytes: usize = 32 << 20;
    /// Open tables that are kept (default 128, at least 1).
    open_files_max: usize = 128;
    /// Filter bits for each key where there is no point index (default 10, at most 64; 0 for no
    /// filter).
    filter_bits_per_key: u32 = 10;
    /// Builds a point index into each table: faster `get`s, about 5 bytes a key (default false).
    point_index: bool = false;
    /// Length of the prefix that tables keep a filter for, so that `prefix` scans skip tables
    /// without it (default none; 1 to 65,535).
    scan_prefix_len: Option<usize> = None;
    /// How tables are read (default mapped).
    reads: Reads = Reads::Mapped;
    /// Whether a read that misses in a map brings in its neighbours too, as the kernel sees fit
    /// (default true). It fills memory sooner where the database fits; where it does not, each miss
    /// may read as much as the device's `read_ahead_kb` and drive out what others need: turn it off
    /// there.
    map_read_ahead: bool = true;
    /// How blocks are compressed (default not at all).
    compression: Compression = Compression::None;
    /// Runs of one size that are merged into one of the next (default 4, at least 2, at most 2^20).
    tier_runs: usize = 4;
    /// Runs from which the shared handle holds each write back a little, the more the nearer the
    /// stop is (default 12; at or above `runs_stop` none is held back).
    runs_slow: usize = 12;
    /// The longest that one write is held back so, in nanoseconds (default 1 ms, at most 1 s).
    write_delay_max_ns: u64 = 1_000_000;
    /// Runs at which writes wait for maintenance (default 20, more than `tier_runs`).
    runs_stop: usize = 20;
    /// Bytes of input that one slice of a compaction takes at the most (default 64 MiB, at least 1
    /// KiB).
    compaction_slice_bytes: u64 = 64 << 20;
    /// The longest value, in bytes (default 64 MiB, at most 1 GiB).
    value_bytes_max: usize = 64 << 20;
    /// The largest batch, in bytes as the log counts it (default 64 MiB, at most 1 GiB). It does
    /// not bound a single write.
    batch_bytes_max: usize = 64 << 20;
    /// Values up to this length are copied by `get` (default 4 KiB); longer ones pin their block
    /// or table.
    value_copy_bytes_max: usize = 4096;
    /// Bytes at which a manifest is replaced by a new one (default 1 MiB, at least 256, at
    /// most 256 MiB).
    manifest_bytes_max: u64 = 1 << 20;
    /// Whether the exclusive handle flushes and compacts on the caller before a write (default
    /// true). Where it does not, `maintain_step` does one step at a time, and a write does only
    /// what it can't go on without.
    inline_maintenance: bool = true;
    /// Whether the shared handle flushes and compacts on threads of its own (default true). Where
    /// it does not, `maintain_step` does one step at a time, and a write does only what it can't go
    /// on without.
    background_maintenance: bool = true;
    /// The longest that a group of durable writes waits for writers that were just acknowledged and
    /// may come back at once, in nanoseconds (default 100 microseconds; 0 for no wait). It is half
    /// of what a sync takes at the most, and a lone writer never waits.
    cohort_wait_max_ns: u64 = 100_000;
    /// Hears of stalls and failures (default: nobody).
    listener: Arc<dyn Listener> = Arc::new(Silent);
}

impl KibanOptions {
    /// The defaults, as each option's text gives them.
    pub fn new() -> Self {
        Self::default()
    }

    /// For records under a prefix of fixed length that are read one by one and newest first, such
    /// as an agent's memories: the point index, and the filter over prefixes of `prefix_len`.
    pub fn agent_memory(prefix_len: usize) -> Self {
        Self::new().point_index(true).scan_prefix_len(Some(prefix_len))
    }

    /// Replaces the outside world, for test rigs.
    #[doc(hidden)]
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// The bytes of one memtable.
    #[must_use]
    pub fn get_memtable_bytes(&self) -> usize {
        self.memtable_bytes
    }

    /// Refuses values that can't work.
    pub(crate) fn check(&self) -> Result<()> {
        let at_least = [
            ("memtable_bytes", self.memtable_bytes as u64, 1024),
            ("memtables_max", self.memtables_max as u64, 2),
            ("log_bytes", self.log_bytes, 1024),
            ("block_bytes", self.block_bytes as u64, 32),
            ("restart_interval", u64::from(self.restart_interval), 1),
            ("table_bytes_max", self.table_bytes_max, 1024),
            ("open_files_max", self.open_files_max as u64, 1),
            ("tier_runs", self.tier_runs as u64, 2),
            ("compaction_slice_bytes", self.compaction_slice_bytes, 1024),
            ("manifest_bytes_max", self.manifest_bytes_max, 256),
        ];
        for (option, value, min) in at_least {
            if value < min {
                let what = format!("{value} is below the least value, {min}");
                return Err(Error::InvalidOption { option, what });
            }
        }
        // Either of the two may be the one that was set.
        if self.runs_stop <= self.tier_runs {
            let what = format!("{} is not more than tier_runs, {}", self.runs_stop, self.tier_runs);
            return Err(Error::InvalidOption { option: "runs_stop", what });
        }
        if self.log_budget_bytes < self.log_bytes {
            let (budget, one) = (self.log_budget_bytes, self.log_bytes);
            let what = format!("{budget} is below log_bytes, {one}");
            return Err(Error::InvalidOption { option: "log_budget_bytes", what });
        }
        let at_most = [
            ("memtable_bytes", self.memtable_bytes as u64, 1 << 30),
            ("log_bytes", self.log_bytes, 1 << 32),
            ("block_bytes", self.block_bytes as u64, 1 << 26),
            ("restart_interval", u64::from(self.restart_interval), 1 << 16),
            ("table_bytes_max", self.table_bytes_max, 1 << 31),
            // A longer manifest would be written, but not read again.
            ("manifest_bytes_max", self.manifest_bytes_max, 1 << 28),
            // Tables hold it in 32 bits, and no key has more.
            ("scan_prefix_len", self.scan_prefix_len.unwrap_or(1) as u64, KEY_BYTES_MAX as u64),
            ("tier_runs", self.tier_runs as u64, 1 << 20),
            ("value_bytes_max", self.value_bytes_max as u64, 1 << 30),
            ("batch_bytes_max", self.batch_bytes_max as u64, 1 << 30),
            ("write_delay_max_ns", self.write_delay_max_ns, 1_000_000_000),
            ("filter_bits_per_key", u64::from(self.filter_bits_per_key), 64),
        ];
        for (option, value, max) in at_most {
            if value > max {
                let what = format!("{value} is above the greatest value, {max}");
                return Err(Error::InvalidOption { option, what });
            }
        }
        if self.scan_prefix_len == Some(0) {
            let what = "0 is no prefix; use none".to_string();
            return Err(Error::InvalidOption { option: "scan_prefix_len", what });
        }
        let built = match self.compression {
            Compression::None => true,
            Compression::Lz4 => cfg!(feature = "lz4"),
            Compression::Zstd => cfg!(feature = "zstd"),
        };
        if !built {
            let what = format!("{:?} was not compiled in; turn its feature on", self.compression);
            return Err(Error::InvalidOption { option: "compression", what });
        }
        Ok(())
    }
}
