//! The tie between a manifest's entry and the table file that it names.
//!
//! Invariants
//! - What was built is what the manifest says, and what a full check finds again (C1).

use super::slice::TableMeta;
use crate::base::key::{FileNumber, TableId};
use crate::error::{Error, Result};
use crate::table::{KeptTable, TableIdentity, TableSummary};
use std::path::Path;

impl TableMeta {
    /// The entry for a table that was just built.
    #[must_use]
    pub fn new(number: FileNumber, id: TableId, summary: TableSummary) -> Self {
        Self {
            number,
            id,
            bytes: summary.bytes,
            footer_crc: summary.footer_crc,
            first_key: summary.first_key,
            last_key: summary.last_key,
            entries: summary.entries,
            tombstones: summary.tombstones,
            seq_min: summary.seq_min,
            seq_max: summary.seq_max,
            kept: KeptTable::default(),
        }
    }

    /// What the table's file must be.
    #[must_use]
    pub fn identity(&self) -> TableIdentity {
        let Self { number, id, bytes, footer_crc, .. } = *self;
        TableIdentity { number, id, bytes, footer_crc }
    }

    /// Compares what a full check of the file found with this entry.
    ///
    /// # Errors
    /// `Corruption` of the file where they differ.
    pub fn check(&self, found: &TableSummary, file: &Path) -> Result<()> {
        if *self == Self::new(self.number, self.id, found.clone()) {
            return Ok(());
        }
        Err(Error::corruption(file, 0, "the keys and entries that the manifest says"))
    }
}
