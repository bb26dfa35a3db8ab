//! The restart points of all blocks, in one section.
//!
//! Invariants
//! - A record has block, where the first value and the first key behind it begin, and where the
//!   block ends. The places count from the block's offset in the file on, over its decompressed
//!   bytes: in a table without compression they are offsets in the file, and a point read in a map
//!   goes from the record to the key without looking at the index.
//! - Every block has one at its first entry; records are in file order.
//!
//! Why not inside of the blocks, as usual: the point index counts them over the whole table, and
//! finding block and place would take two more dependent reads.

use super::block::Place;
use crate::base::coding::put_u32;

/// The size of a record.
pub const RECORD_BYTES: usize = 16;

/// A restart point as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Ordinal of the block.
    pub block: usize,
    place: Place,
}

impl Restart {
    /// The place in a slice in which the block's first byte stands at `at`, when it stands at
    /// `offset` in the file; `None` if the record contradicts that.
    #[inline]
    #[must_use]
    pub fn place(&self, offset: usize, at: usize) -> Option<Place> {
        Some(Place {
            value_at: self.place.value_at.checked_sub(offset)? + at,
            key_at: self.place.key_at.checked_sub(offset)? + at,
            end: self.place.end.checked_sub(offset)? + at,
        })
    }

    /// The place as offsets in the file, which it is where blocks are not compressed.
    #[inline]
    #[must_use]
    pub fn in_file(&self) -> Place {
        self.place
    }
}

/// Reads record `restart` of a section.
#[inline]
#[must_use]
pub fn read(section: &[u8], restart: usize) -> Option<Restart> {
    let record: &[u8; RECORD_BYTES] = section.get(restart * RECORD_BYTES..)?.first_chunk()?;
    let word = |at: usize| {
        u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]) as usize
    };
    let place = Place { value_at: word(4), key_at: word(8), end: word(12) };
    Some(Restart { block: word(0), place })
}

/// Collects restart points while a table is written.
#[derive(Default)]
pub struct RestartsBuilder {
    /// Block, and places relative to the block's values and keys until it ends.
    records: Vec<[u32; 4]>,
}

impl RestartsBuilder {
    /// Adds one in block `block`, at a place in its values and its key area.
    pub fn add(&mut self, block: usize, value_at: usize, key_at: usize) {
        self.records.push([block as u32, value_at as u32, key_at as u32, 0]);
    }

    /// Places those from `first` on, all in one block, now that its layout is known.
    pub fn place(&mut self, first: usize, offset: u32, values_len: u32, raw_len: u32) {
        for [_, value_at, key_at, end] in &mut self.records[first..] {
            *value_at += offset;
            *key_at += offset + values_len;
            *end = offset + raw_len;
        }
    }

    /// Restart points so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// Bytes of the section as it would be now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.records.len() * RECORD_BYTES
    }

    /// The section.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes());
        for word in self.records.iter().flatten() {
            put_u32(&mut out, *word);
        }
        out
    }
}
