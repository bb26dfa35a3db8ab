//! The newest writes, sorted in memory until they are flushed.
//!
//! One writer inserts; any number of readers look up and scan beside it without locks and without
//! waiting. What was inserted is found at once, and becomes visible when its sequence is published:
//! readers ask for sequences at or below the published one.
//!
//! - `arena`: memory, written once, freed as a whole.
//! - `skiplist`: the order, the writer and the searches.
//! - `cursor`: the list as a [`crate::cursor::Cursor`].
//!
//! It does not decide when it is full (`has_room` answers, the write path asks), and does not know
//! which versions are still wanted (`retain`).

mod arena;
mod cursor;
mod skiplist;
#[cfg(test)]
mod tests;

pub use cursor::MemCursor;
pub use skiplist::{ARENA_BYTES_MAX, Memtable, MemtableWriter};
