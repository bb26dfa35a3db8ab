//! Tables: immutable sorted files of entries.
//!
//! A table is written once by [`TableBuilder`] and read by any number of [`Table`]s. From front to
//! back it holds data blocks, the index, the restart points, a point index or a filter, a prefix
//! filter, properties and a footer; `docs/FORMAT.md` has every byte.
//!
//! A point read hashes its key, takes candidates from the point index, goes from a candidate to its
//! restart point and from there along a few entries. Without a point index it asks the filter and
//! searches the index. A cursor searches the index and walks.
//!
//! Invariants
//! - C1: no byte is believed before its checksum was compared, in its context, since the table was
//!   opened; a filter or index that hides a key is found out first. The checksums form a chain that
//!   ends in the footer's, which the manifest holds.
//! - Several versions of a key may stand in a table and span blocks; they are in entry order.
//! - Reading changes nothing: one table serves all threads.
//!
//! Tables know nothing of runs, versions or visibility beyond "newest at or below a sequence".

pub mod block;
pub mod bloom;
pub mod builder;
pub mod codec;
pub mod cursor;
pub mod entry;
pub mod format;
pub mod hash;
mod held;
pub mod index;
mod kept;
pub mod options;
pub mod points;
pub mod reader;
pub mod restarts;
pub mod source;
pub mod verify;

#[cfg(test)]
mod tests;

pub use builder::TableBuilder;
pub use codec::Compression;
pub use cursor::{Purpose, TableCursor};
pub use hash::key_hash;
pub use kept::KeptTable;
pub use options::{TableIdentity, TableOptions, TableSummary};
pub use reader::{Hit, Table};
pub use source::Backend;
