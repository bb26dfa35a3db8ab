//! CRC-32 over a context and the bytes, so that valid bytes in the wrong place are damage.
//!
//! Invariants
//! - A checksum covers what its bytes are and where they belong: the id of the database or table,
//!   the number or kind, the offset or index. The context is not stored; a reader knows it.
//! - A stored checksum is never that of all-zero bytes by accident: the context is never empty.

use super::key::{DatabaseId, FileNumber, TableId};

/// Where a checksummed piece belongs.
#[derive(Clone, Copy, Debug)]
pub enum Context {
    /// A log frame: its database, log and offset.
    Log(DatabaseId, FileNumber, u64),
    /// A manifest frame: its database, manifest and index.
    Manifest(DatabaseId, FileNumber, u64),
    /// A piece of a table: the table's id, the piece's offset and kind.
    Table(TableId, u64, u8),
    /// A file that is checked as a whole, by its kind.
    Whole(u8),
}

/// The CRC-32 (IEEE) of the context and then of `parts`, one after the other.
#[must_use]
pub fn checksum(context: Context, parts: &[&[u8]]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    let (tag, id, number, place) = match context {
        Context::Log(db, number, offset) => (1u8, db.0, number.0, offset),
        Context::Manifest(db, number, index) => (2, db.0, number.0, index),
        Context::Table(table, offset, kind) => (3, table.0, u64::from(kind), offset),
        Context::Whole(kind) => (4, 0, u64::from(kind), 0),
    };
    let mut head = [0; 33];
    head[0] = tag;
    head[1..17].copy_from_slice(&id.to_le_bytes());
    head[17..25].copy_from_slice(&number.to_le_bytes());
    head[25..33].copy_from_slice(&place.to_le_bytes());
    crc.update(&head);
    for part in parts {
        crc.update(part);
    }
    crc.finalize()
}

/// The checksum of a longer message: the one whose checksum so far is `so_far`, and then `parts`.
#[must_use]
pub fn checksum_onward(so_far: u32, parts: &[&[u8]]) -> u32 {
    let mut crc = crc32fast::Hasher::new_with_initial(so_far);
    for part in parts {
        crc.update(part);
    }
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_elsewhere_have_another_checksum() {
        let (db, n) = (DatabaseId(7), FileNumber(3));
        let at = |offset| checksum(Context::Log(db, n, offset), &[b"bytes"]);
        assert_eq!(at(8), checksum(Context::Log(db, n, 8), &[b"by", b"tes"]));
        let start = checksum(Context::Log(db, n, 8), &[b"by"]);
        assert_eq!(at(8), checksum_onward(start, &[b"t", b"es"]));
        assert_ne!(at(8), at(16));
        assert_ne!(at(8), checksum(Context::Log(DatabaseId(8), n, 8), &[b"bytes"]));
        assert_ne!(at(8), checksum(Context::Manifest(db, n, 8), &[b"bytes"]));
    }
}
