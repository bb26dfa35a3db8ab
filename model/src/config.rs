//! Engine options as plain data: every knob is a named number.
//!
//! Invariants
//! - A name here is the option's name in `KibanOptions`; the driver maps one to the other.
//! - Every choice the generator draws is one that the engine accepts together with any other:
//!   `runs_stop` is above `tier_runs` and no log is above the budget; the rest are independent.
//! - The defaults are tiny on purpose: every structure appears in a run of a hundred operations.

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident = $default:literal, [$($choice:literal),*];)*) => {
        /// How an engine is opened, as data. Booleans are 0 or 1; `scan_prefix_len` 0 is none.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config { $($(#[$doc])* pub $name: u64,)* }

        impl Default for Config {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Config {
            /// Every field's name, in order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];
            /// What a generator chooses from, field by field.
            pub const CHOICES: &'static [&'static [u64]] = &[$(&[$($choice),*],)*];

            /// Every field's value, in the order of the names.
            #[must_use]
            pub fn values(&self) -> Vec<u64> {
                vec![$(self.$name,)*]
            }

            /// Sets a field by name; `false` if there is none of that name.
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

fields! {
    /// Bytes of a memtable's arena.
    memtable_bytes = 4096, [1024, 2048, 4096, 8192, 65536];
    /// Memtables that may exist at once.
    memtables_max = 2, [2, 3, 4];
    /// Bytes at which a log is rotated.
    log_bytes = 4096, [1024, 2048, 4096, 16384];
    /// Bytes of logs that may wait for flushes.
    log_budget_bytes = 16384, [16384, 65536, 262144];
    /// Bytes of a data block.
    block_bytes = 64, [32, 64, 100, 256, 1024, 4096];
    /// Entries between restart points.
    restart_interval = 2, [1, 2, 3, 16];
    /// Bytes at which an output table is cut.
    table_bytes_max = 2048, [1024, 2048, 4096, 65536];
    /// Bytes of cached blocks, for the pread backend.
    cache_bytes = 4096, [0, 512, 4096, 1048576];
    /// Open tables that are kept.
    open_files_max = 8, [1, 2, 8, 64];
    /// Filter bits for each key without a point index.
    filter_bits_per_key = 10, [0, 1, 10, 20];
    /// 1 builds point indexes.
    point_index = 0, [0, 1];
    /// The prefix length that tables keep a filter for; 0 for none.
    scan_prefix_len = 0, [0, 1, 3, 8];
    /// 1 reads by `pread` through the block cache, 0 through maps.
    reads_pread = 0, [0, 1];
    /// Runs of one size merged into one.
    tier_runs = 3, [2, 3, 4];
    /// Runs at which writes wait.
    runs_stop = 8, [5, 6, 8, 12];
    /// Bytes of input of one compaction slice.
    compaction_slice_bytes = 4096, [1024, 4096, 65536];
    /// The longest value.
    value_bytes_max = 1048576, [65536, 1048576];
    /// The largest batch.
    batch_bytes_max = 1048576, [131072, 1048576];
    /// Values up to this length are copied.
    value_copy_bytes_max = 64, [0, 1, 16, 64, 4096];
    /// Bytes at which a manifest is replaced.
    manifest_bytes_max = 4096, [256, 512, 4096, 1048576];
    /// 1 runs maintenance on the caller after writes.
    inline_maintenance = 1, [1, 0];
    /// 1 opens the shared handle, without threads of its own.
    shared = 0, [0, 1];
}

impl Config {
    /// A small program's options: a flush after a hundred writes, not after twenty.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            memtable_bytes: 16_384,
            log_bytes: 16_384,
            log_budget_bytes: 65_536,
            block_bytes: 256,
            restart_interval: 4,
            table_bytes_max: 16_384,
            cache_bytes: 65_536,
            tier_runs: 4,
            runs_stop: 12,
            compaction_slice_bytes: 65_536,
            manifest_bytes_max: 16_384,
            ..Self::default()
        }
    }

    /// What to set to get from here to `other`.
    #[must_use]
    pub fn changes_to(&self, other: &Self) -> Vec<(&'static str, u64)> {
        let (old, new) = (self.values(), other.values());
        (0..Self::NAMES.len())
            .filter(|&i| old[i] != new[i])
            .map(|i| (Self::NAMES[i], new[i]))
            .collect()
    }
}
