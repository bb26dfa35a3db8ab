//! An open table that stays with the entry that names it.
//!
//! Invariants
//! - Set once, by the first reader; all later ones find it without a lock and without a count.
//! - G2: it lives as long as the entry, so as long as a version names the table, and is closed
//!   before the file is removed.
//! - It is no part of what an entry says: a copy of an entry has none, equal entries may differ in
//!   it.

use super::Table;
use crate::env::sync::{Arc, SetOnce};

/// A place for an open table.
#[derive(Default)]
pub struct KeptTable(SetOnce<Kept>);

struct Kept {
    table: Arc<Table>,
    /// Counts the kept tables of a cache.
    _counted: Arc<()>,
}

impl KeptTable {
    /// The table, if it is open.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&Arc<Table>> {
        self.0.get().map(|kept| &kept.table)
    }

    /// Keeps `table`, unless another reader was faster; gives the one that is kept.
    pub fn keep(&self, table: Arc<Table>, counted: Arc<()>) -> &Arc<Table> {
        let _ = self.0.set(Kept { table, _counted: counted });
        self.get().expect("invariant: set just now, here or by another reader")
    }

    /// Lets the table go.
    pub fn close(&mut self) {
        drop(self.0.take());
    }
}

impl Clone for KeptTable {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for KeptTable {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for KeptTable {}

impl std::fmt::Debug for KeptTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.get().is_some() { "open" } else { "not open" })
    }
}
