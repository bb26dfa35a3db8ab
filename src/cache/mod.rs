//! What is kept in memory of tables: blocks, and open tables.
//!
//! Invariants
//! - B1: blocks weigh no more than the cache's budget together, open tables are no more than the
//!   option says; what readers pin beyond that is theirs.
//! - A cached block is named by its table's identity and its offset, never by a file number or a
//!   path: these may be another table's tomorrow.

pub mod block;
pub mod tables;

pub use block::{Block, BlockCache};
pub use tables::TableCache;
