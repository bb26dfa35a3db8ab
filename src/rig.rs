//! The one door for the rig: parts that models, schedules and fuzz targets look at directly.
//!
//! Not a part of the public surface: nothing here is promised to stay.

pub use crate::base;
pub use crate::batch::{Records, count_records};
pub use crate::cache::{BlockCache, TableCache};
pub use crate::cursor::Cursor;
pub use crate::cursor::checked::Checked;
pub use crate::cursor::merge::Merge;
pub use crate::cursor::vec::{VecCursor, VecEntry};
pub use crate::cursor::visible::Visible;
pub use crate::engine::queue::{CommitQueue, Group};
pub use crate::memtable::{ARENA_BYTES_MAX, MemCursor, Memtable, MemtableWriter};
pub use crate::table::{
    Backend, Compression, Hit, Purpose, Table, TableBuilder, TableCursor, TableIdentity,
    TableOptions, TableSummary, key_hash,
};

/// The pure functions of maintenance.
pub mod maintain {
    pub use crate::maintain::{pick, retain};
}
/// Versions, edits, manifests.
pub mod version {
    pub use crate::version::*;
}
/// The table format, for targets that seal bytes of their own.
pub mod table {
    pub use crate::table::*;
}
/// The log.
pub mod wal {
    pub use crate::wal::*;
}

use crate::batch::WriteBatch;
use crate::engine::Core;
use crate::env::sync::Arc;
use crate::error::Result;
use crate::options::KibanOptions;
use std::path::Path;

/// The core's write path, shared by threads: the commit queue with several writers, before there is
/// a public handle for them.
#[derive(Clone)]
pub struct Writers(Arc<Core>);

impl Writers {
    /// Opens a database.
    ///
    /// # Errors
    /// As [`crate::Kiban::open`].
    pub fn open(path: &Path, options: KibanOptions) -> Result<Self> {
        Ok(Self(Arc::new(crate::recover::open(path, options)?.0)))
    }

    /// Writes a batch and returns its sequence.
    ///
    /// # Errors
    /// As [`crate::Kiban::write`].
    pub fn write(&self, batch: &WriteBatch, durable: bool) -> Result<u64> {
        self.0.write(batch, durable).map(|seq| seq.0)
    }

    /// The value of `key` now.
    ///
    /// # Errors
    /// As [`crate::Kiban::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(key, None)?.map(|value| value.to_vec()))
    }
}
