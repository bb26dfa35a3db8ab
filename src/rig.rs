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
pub use crate::engine::queue::{CommitQueue, GROUP_BYTES_MAX, Group, Receipt, Write};
pub use crate::engine::signals::{LANES, Lane, Signals, Since};
pub use crate::engine::snapshots::Snapshots;
pub use crate::engine::view::{Frozen, View, Views};
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

/// Whether an open takes these options; it refuses others before it looks at the disk.
#[must_use]
pub fn accepts(options: &crate::options::KibanOptions) -> bool {
    options.check().is_ok()
}
