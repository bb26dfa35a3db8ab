//! The index section: where each block is, and a separator at or above its last entry.
//!
//! Invariants
//! - Separators are (key, sequence) pairs in entry order. An entry is in the first block whose
//!   separator is at or above it, or in none.
//! - Between different keys the separator is the shortest possible key, with a sequence above
//!   every real one: below all entries of that key. Inside of one key's versions, and at the end
//!   of the table, it is the last entry itself.
//! - The heads are eight key bytes each, behind what all separators have in common, big-endian and
//!   padded with zeros: a smaller head means a smaller key; equal heads decide nothing.
//!
//! Layout: heads of all blocks, then a record of 32 bytes per block, then the separators' keys.
//! A search touches the heads alone in most steps.

use super::entry::common_prefix;
use super::format::Piece;
use crate::base::coding::{put_u32, put_u64};
use crate::base::key::SeqNo;
use std::cmp::Ordering;

const HEAD_BYTES: usize = 8;
const RECORD_BYTES: usize = 32;
/// Bytes per block without its separator.
pub const BYTES_PER_BLOCK: u64 = (HEAD_BYTES + RECORD_BYTES) as u64;
/// The sequence of a separator that no entry has: it sorts before every version of its key.
const BEFORE_ALL: u64 = u64::MAX;

/// Where a block is and how it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHandle {
    /// The stored bytes.
    pub piece: Piece,
    /// Length when decompressed; equal to the stored length if it is not compressed.
    pub raw_len: u32,
    /// Ordinal of its first restart point.
    pub first_restart: u32,
}

/// Collects blocks while a table is written.
#[derive(Default)]
pub struct IndexBuilder {
    records: Vec<(BlockHandle, u64, u32)>,
    keys: Vec<u8>,
    pending: Option<BlockHandle>,
}

impl IndexBuilder {
    /// Notes a finished block; its separator follows.
    pub fn block(&mut self, handle: BlockHandle) {
        assert!(self.pending.is_none(), "a block is still without its separator");
        self.pending = Some(handle);
    }

    /// Separates the block noted last, which ends with (`last`, `seq`), from `next`, the first key
    /// of the block after it; `None` at the end of the table.
    pub fn separate(&mut self, last: &[u8], seq: SeqNo, next: Option<&[u8]>) {
        let Some(handle) = self.pending.take() else {
            return;
        };
        let seq = match next {
            Some(next) if next != last => {
                self.keys.extend_from_slice(&next[..=common_prefix(last, next)]);
                BEFORE_ALL
            }
            _ => {
                self.keys.extend_from_slice(last);
                seq.0
            }
        };
        let key_end = u32::try_from(self.keys.len()).expect("invariant: a table is below 4 GiB");
        self.records.push((handle, seq, key_end));
    }

    /// Blocks so far.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.records.len()
    }

    /// Bytes of the section as it would be now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keys.len() + self.records.len() * (HEAD_BYTES + RECORD_BYTES)
    }

    /// The section, and how many leading bytes all separators have in common.
    #[must_use]
    pub fn finish(&self) -> (Vec<u8>, u32) {
        let key = |i: usize| {
            let start = if i == 0 { 0 } else { self.records[i - 1].2 as usize };
            &self.keys[start..self.records[i].2 as usize]
        };
        let common = common_prefix(key(0), key(self.records.len() - 1));
        let mut out = Vec::with_capacity(self.bytes());
        for i in 0..self.records.len() {
            put_u64(&mut out, head(&key(i)[common..]));
        }
        for &(handle, seq, key_end) in &self.records {
            put_u64(&mut out, seq);
            put_u32(&mut out, handle.piece.offset);
            put_u32(&mut out, handle.piece.len);
            put_u32(&mut out, handle.piece.crc);
            put_u32(&mut out, handle.raw_len);
            put_u32(&mut out, handle.first_restart);
            put_u32(&mut out, key_end);
        }
        out.extend_from_slice(&self.keys);
        (out, common as u32)
    }
}

#[inline]
fn head(key: &[u8]) -> u64 {
    let mut bytes = [0; HEAD_BYTES];
    let len = key.len().min(HEAD_BYTES);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

/// The index of an open table, over the section's bytes.
#[derive(Clone, Copy)]
pub struct IndexView<'a> {
    heads: &'a [u8],
    records: &'a [u8],
    keys: &'a [u8],
    common: usize,
}

impl<'a> IndexView<'a> {
    /// A view of a section that has room for `blocks` blocks, as the properties checked.
    #[inline]
    #[must_use]
    pub fn new(section: &'a [u8], blocks: u32, common: u32) -> Self {
        let (heads, rest) = section.split_at(blocks as usize * HEAD_BYTES);
        let (records, keys) = rest.split_at(blocks as usize * RECORD_BYTES);
        Self { heads, records, keys, common: common as usize }
    }

    /// Blocks in the table.
    #[inline]
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.records.len() / RECORD_BYTES
    }

    #[inline]
    fn record(&self, block: usize) -> Option<&'a [u8; RECORD_BYTES]> {
        self.records.get(block * RECORD_BYTES..)?.first_chunk()
    }

    /// Where block `block` is; `None` beyond the last one.
    #[inline]
    #[must_use]
    pub fn handle(&self, block: usize) -> Option<BlockHandle> {
        let r = self.record(block)?;
        let word = |at: usize| u32::from_le_bytes([r[at], r[at + 1], r[at + 2], r[at + 3]]);
        Some(BlockHandle {
            piece: Piece { offset: word(8), len: word(12), crc: word(16) },
            raw_len: word(20),
            first_restart: word(24),
        })
    }

    fn key_end(&self, block: usize) -> usize {
        self.record(block).map_or(0, |r| u32::from_le_bytes([r[28], r[29], r[30], r[31]]) as usize)
    }

    /// The separator of a block; an empty key where the section contradicts itself.
    #[must_use]
    pub fn separator(&self, block: usize) -> (&'a [u8], u64) {
        let start = if block == 0 { 0 } else { self.key_end(block - 1) };
        let key = self.keys.get(start..self.key_end(block)).unwrap_or_default();
        let seq =
            self.record(block).and_then(|r| r.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
        (key, seq)
    }

    #[inline]
    fn head(&self, block: usize) -> u64 {
        let bytes = self.heads.get(block * HEAD_BYTES..).and_then(|b| b.first_chunk());
        bytes.map_or(0, |b| u64::from_le_bytes(*b))
    }

    /// The first block that can hold an entry at or above (`key`, `seq`); the number of blocks if
    /// every entry is below. `seq` is `u64::MAX` for "before every version".
    #[must_use]
    pub fn find(&self, key: &[u8], seq: u64) -> usize {
        let blocks = self.blocks();
        let Some(common) = self.separator(0).0.get(..self.common) else {
            return 0;
        };
        let rest = match key.strip_prefix(common) {
            Some(rest) => rest,
            None if key < common => return 0,
            None => return blocks,
        };
        let wanted = head(rest);
        let (mut low, mut high) = (0, blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            let below = match self.head(middle).cmp(&wanted) {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => {
                    let (separator, at) = self.separator(middle);
                    separator.cmp(key).then(seq.cmp(&at)) == Ordering::Less
                }
            };
            if below { low = middle + 1 } else { high = middle }
        }
        low
    }
}
