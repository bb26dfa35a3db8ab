//! What a table is asked to be, who it is, and what became of it.

use super::codec::Compression;
use crate::base::key::{FileNumber, SeqNo, TableId};

/// How a table is written. A reader needs none of it: the file says what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// A block ends before it would be longer than this; a single entry may be longer.
    pub block_bytes: usize,
    /// Entries from one restart point to the next.
    pub restart_interval: u32,
    /// Whether to write a point index. A table with more than 65,535 restart points gets a filter
    /// instead.
    pub point_index: bool,
    /// Bits per key of the filter, where there is no point index; 0 for no filter.
    pub filter_bits_per_key: u32,
    /// Length of the key prefixes that a prefix filter is written for.
    pub prefix_len: Option<usize>,
    /// What blocks are compressed with.
    pub compression: Compression,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            restart_interval: 16,
            point_index: true,
            filter_bits_per_key: 10,
            prefix_len: None,
            compression: Compression::None,
        }
    }
}

/// Which table a file must be; the manifest knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableIdentity {
    /// The number in the file's name.
    pub number: FileNumber,
    /// The table's own identity.
    pub id: TableId,
    /// The file's length.
    pub bytes: u64,
    /// The footer's checksum.
    pub footer_crc: u32,
}

/// What was written, or found by a full check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// The file's length.
    pub bytes: u64,
    /// The footer's checksum.
    pub footer_crc: u32,
    /// The first user key.
    pub first_key: Vec<u8>,
    /// The last user key.
    pub last_key: Vec<u8>,
    /// Entries, all versions and removals counted.
    pub entries: u64,
    /// Removals among them.
    pub tombstones: u64,
    /// The smallest sequence number.
    pub seq_min: SeqNo,
    /// The largest sequence number.
    pub seq_max: SeqNo,
    /// Bytes of keys and values as they were given.
    pub raw_bytes: u64,
}
