//! Tables and slices for the tests of this part.

use super::slice::{TableMeta, TableSlice};
use crate::base::key::{FileNumber, SeqNo, TableId};
use crate::env::sync::Arc;

/// A table of these bounds and sequences.
pub(crate) fn table(number: u64, first: &str, last: &str, seqs: (u64, u64)) -> Arc<TableMeta> {
    Arc::new(TableMeta {
        number: FileNumber(number),
        id: TableId(u128::from(number)),
        bytes: 1000,
        footer_crc: 1,
        first_key: first.into(),
        last_key: last.into(),
        entries: seqs.1 - seqs.0 + 1,
        tombstones: 0,
        seq_min: SeqNo(seqs.0),
        seq_max: SeqNo(seqs.1),
        kept: Default::default(),
    })
}

/// A slice as text: its table's number and its visible bounds.
pub(crate) fn text(slice: &TableSlice) -> String {
    let lower = slice.lower().escape_ascii();
    let number = slice.meta.number.0;
    match &slice.hi {
        Some(hi) => format!("{number} {lower}..{}", hi.escape_ascii()),
        None => format!("{number} {lower}..={}", slice.meta.last_key.escape_ascii()),
    }
}
