//! Writes a table, front to back, once.
//!
//! Invariants
//! - Entries come in entry order; one out of order is refused as corruption of what it came from.
//! - The file is written at increasing offsets, each byte once, and is complete when
//!   [`TableBuilder::finish`] returns. Nothing here syncs: a table is durable when its path says
//!   so.
//! - A block is over `block_bytes` only if it holds a single entry.
//! - A table stays below 4 GiB: an entry that would take it over is refused with a typed error.
//!
//! It does not choose where to end a table: the caller does, between user keys, by
//! [`TableBuilder::file_bytes`].

use super::codec::Compression;
use super::entry::{HEADER_BYTES_MAX, common_prefix, encode};
use super::format::{
    FOOTER_BYTES, Footer, KIND_BLOCK, KIND_PROPERTIES, Piece, Properties, SECTION_ALIGN, Section,
};
use super::hash::key_hash;
use super::index::{BlockHandle, IndexBuilder};
use super::restarts::RestartsBuilder;
use super::{TableOptions, TableSummary, bloom, points};
use crate::base::checksum::{Context, checksum};
use crate::base::key::{EntryRef, KEY_BYTES_MAX, Kind, SeqNo, TableId};
use crate::env::fs::{File, write_all_at};
use crate::env::sync::Arc;
use crate::error::{Error, Result};

/// Bytes collected before they are written.
const WRITE_BYTES: usize = 256 << 10;
/// What a table's blocks may hold together.
const DATA_BYTES_MAX: u64 = 3 << 30;
/// What a table may hold with its sections as estimated, so that their offsets fit in 32 bits.
const FILE_BYTES_MAX: u64 = (4 << 30) - (64 << 20);
/// Bits per prefix in the prefix filter.
const PREFIX_BITS: u32 = 16;

/// A table under construction.
pub struct TableBuilder {
    file: Arc<dyn File>,
    id: TableId,
    options: TableOptions,
    /// What is not written yet; the values of the block under construction are its tail.
    out: Vec<u8>,
    /// File offset of `out[0]`.
    out_offset: u64,
    /// Where the block under construction begins in `out`.
    block_start: usize,
    /// The key area of the block under construction, which comes behind its values.
    keys: Vec<u8>,
    /// Entries since the last restart point.
    since_restart: u32,
    first_restart: u32,
    index: IndexBuilder,
    restarts: RestartsBuilder,
    /// Packed hashes of the distinct keys.
    hashes: Vec<u64>,
    /// Hashes of the distinct prefixes.
    prefixes: Vec<u64>,
    last_key: Vec<u8>,
    last_seq: SeqNo,
    properties: Properties,
}

impl TableBuilder {
    /// Starts a table in `file`, which is empty.
    #[must_use]
    pub fn new(file: Arc<dyn File>, id: TableId, options: &TableOptions) -> Self {
        assert!(options.restart_interval > 0, "a block needs restart points");
        let properties = Properties {
            entries: 0,
            tombstones: 0,
            keys: 0,
            seq_min: SeqNo::MAX,
            seq_max: SeqNo::ZERO,
            raw_bytes: 0,
            codec: options.compression as u8,
            restart_interval: options.restart_interval,
            blocks: 0,
            restarts: 0,
            index_common: 0,
            filter_probes: 0,
            prefix_probes: 0,
            prefix_len: None,
            first_key: Vec::new(),
            last_key: Vec::new(),
            data_end: 0,
            sections: [None; Section::ALL.len()],
        };
        Self {
            file,
            id,
            options: options.clone(),
            out: Vec::new(),
            out_offset: 0,
            block_start: 0,
            keys: Vec::new(),
            since_restart: 0,
            first_restart: 0,
            index: IndexBuilder::default(),
            restarts: RestartsBuilder::default(),
            hashes: Vec::new(),
            prefixes: Vec::new(),
            last_key: Vec::new(),
            last_seq: SeqNo::ZERO,
            properties,
        }
    }

    /// Adds the next entry.
    ///
    /// # Errors
    /// Those of writing; corruption if the entry is not above the one before it; "too large" if
    /// the table can't hold it. After an error the table is of no use.
    pub fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        let common = common_prefix(&self.last_key, entry.key);
        let first = self.properties.entries == 0;
        let new_key = first || common < entry.key.len() || common < self.last_key.len();
        let ascends = first
            || match (self.last_key.get(common), entry.key.get(common)) {
                (None, None) => entry.seq < self.last_seq,
                (last, key) => last < key,
            };
        if !ascends {
            let what = "entries out of order: what this table was built from is damaged";
            return Err(Error::corruption(self.file.path(), self.data_bytes(), what));
        }
        assert!(entry.key.len() <= KEY_BYTES_MAX && entry.seq <= SeqNo::MAX);
        assert!(entry.kind == Kind::Put || entry.value.is_empty());
        let room = (HEADER_BYTES_MAX + entry.key.len() + entry.value.len()) as u64;
        if self.data_bytes() + room > DATA_BYTES_MAX {
            let bytes = self.data_bytes() + room;
            return Err(Error::TooLarge { what: "table", bytes, bytes_max: DATA_BYTES_MAX });
        }
        let block_bytes = self.out.len() - self.block_start + self.keys.len();
        let grown = block_bytes + HEADER_BYTES_MAX + entry.key.len() - common + entry.value.len();
        if block_bytes > 0 && grown > self.options.block_bytes {
            self.end_block()?;
        }
        if self.keys.is_empty() {
            self.begin_block(entry.key);
        }
        let mut shared = common;
        if self.since_restart == self.options.restart_interval || self.keys.is_empty() {
            shared = 0;
            self.since_restart = 0;
            self.restarts.add(
                self.index.blocks(),
                self.out.len() - self.block_start,
                self.keys.len(),
            );
        }
        self.since_restart += 1;
        encode(&mut self.keys, &entry, shared);
        self.out.extend_from_slice(entry.value);
        if new_key {
            self.note_key(entry.key, common, first);
            self.last_key.truncate(common);
            self.last_key.extend_from_slice(&entry.key[common..]);
        }
        self.note_entry(&entry);
        Ok(())
    }

    /// Counts a key that differs from the one before, with which it has `common` bytes in common.
    fn note_key(&mut self, key: &[u8], common: usize, first: bool) {
        self.properties.keys += 1;
        if self.options.point_index || self.options.filter_bits_per_key > 0 {
            let restart = self.restarts.count() - 1;
            self.hashes.push(points::pack(key_hash(key), restart));
        }
        if let Some(len) = self.options.prefix_len
            && key.len() >= len
            && (first || common < len || self.last_key.len() < len)
        {
            self.prefixes.push(key_hash(&key[..len]));
        }
        if first {
            self.properties.first_key = key.to_vec();
        }
    }

    fn note_entry(&mut self, entry: &EntryRef<'_>) {
        self.last_seq = entry.seq;
        let p = &mut self.properties;
        p.entries += 1;
        p.tombstones += u64::from(entry.kind == Kind::Delete);
        p.seq_min = p.seq_min.min(entry.seq);
        p.seq_max = p.seq_max.max(entry.seq);
        p.raw_bytes += (entry.key.len() + entry.value.len()) as u64;
    }

    /// Gives the block before its separator. Every block begins with a restart point.
    fn begin_block(&mut self, key: &[u8]) {
        self.index.separate(&self.last_key, self.last_seq, Some(key));
        self.first_restart = self.restarts.count() as u32;
    }

    /// Puts the key area behind the values, compresses and checksums the block under construction,
    /// and writes out what is due.
    fn end_block(&mut self) -> Result<()> {
        let values_len = self.out.len() - self.block_start;
        self.out.extend_from_slice(&self.keys);
        self.keys.clear();
        let raw_len = (self.out.len() - self.block_start) as u32;
        if self.options.compression != Compression::None {
            let packed = self.options.compression.compress(&self.out[self.block_start..]);
            if let Some(packed) = packed {
                self.out.truncate(self.block_start);
                self.out.extend_from_slice(&packed);
            }
        }
        let piece = self.piece(self.block_start, KIND_BLOCK);
        self.restarts.place(self.first_restart as usize, piece.offset, values_len as u32, raw_len);
        self.index.block(BlockHandle { piece, raw_len, first_restart: self.first_restart });
        self.properties.blocks += 1;
        if self.file_bytes() > FILE_BYTES_MAX {
            let bytes = self.file_bytes();
            return Err(Error::TooLarge { what: "table", bytes, bytes_max: FILE_BYTES_MAX });
        }
        if self.out.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        self.block_start = self.out.len();
        Ok(())
    }

    /// The piece that is the tail of `out` from `start` on.
    fn piece(&self, start: usize, kind: u8) -> Piece {
        let bytes = &self.out[start..];
        let offset = self.out_offset + start as u64;
        let crc = checksum(Context::Table(self.id, offset, kind), &[bytes]);
        let offset = u32::try_from(offset).expect("invariant: a table is below 4 GiB");
        Piece { offset, len: bytes.len() as u32, crc }
    }

    fn write_out(&mut self) -> Result<()> {
        write_all_at(&*self.file, self.out_offset, &self.out)
            .map_err(|e| Error::io(self.file.path(), "write table", e))?;
        self.out_offset += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    fn data_bytes(&self) -> u64 {
        self.out_offset + (self.out.len() + self.keys.len()) as u64
    }

    /// About how long the file would be if it ended here.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        let filters = if self.options.point_index {
            self.hashes.len() * 5
        } else {
            self.hashes.len() * self.options.filter_bits_per_key as usize / 8
        };
        let sections =
            self.index.bytes() + self.restarts.bytes() + filters + 2 * self.prefixes.len();
        self.data_bytes() + sections as u64 + FOOTER_BYTES as u64
    }

    /// Entries so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.properties.entries
    }

    /// The user key added last; empty before the first.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Writes the rest of the file. A table has at least one entry.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self) -> Result<TableSummary> {
        assert!(self.properties.entries > 0, "a table has at least one entry");
        self.end_block()?;
        self.index.separate(&self.last_key, self.last_seq, None);
        self.properties.data_end = self.data_bytes() as u32;
        let (index, common) = self.index.finish();
        self.properties.index_common = common;
        self.section(Section::Index, &index);
        let restarts = std::mem::take(&mut self.restarts);
        self.properties.restarts = restarts.count() as u32;
        self.section(Section::Restarts, &restarts.finish());
        self.filters();
        self.properties.last_key = std::mem::take(&mut self.last_key);

        let start = self.out.len();
        self.properties.encode(&mut self.out);
        let properties = self.piece(start, KIND_PROPERTIES);
        let offset = u32::try_from(self.data_bytes()).expect("invariant: a table is below 4 GiB");
        let footer = Footer::encode(self.id, properties, offset);
        self.out.extend_from_slice(&footer);
        self.write_out()?;
        let p = self.properties;
        Ok(TableSummary {
            bytes: self.out_offset,
            footer_crc: u32::from_le_bytes([footer[48], footer[49], footer[50], footer[51]]),
            first_key: p.first_key,
            last_key: p.last_key,
            entries: p.entries,
            tombstones: p.tombstones,
            seq_min: p.seq_min,
            seq_max: p.seq_max,
            raw_bytes: p.raw_bytes,
        })
    }

    fn filters(&mut self) {
        let hashes = std::mem::take(&mut self.hashes);
        let indexable = self.properties.restarts as usize <= points::RESTARTS_MAX;
        if self.options.point_index && indexable {
            self.section(Section::Points, &points::build(&hashes));
        } else if !hashes.is_empty() {
            let bits = self.options.filter_bits_per_key.max(10);
            self.properties.filter_probes = bloom::probes_for(bits);
            self.section(Section::Filter, &bloom::build(&hashes, bits));
        }
        if let Some(len) = self.options.prefix_len {
            let prefixes = std::mem::take(&mut self.prefixes);
            self.properties.prefix_len = Some(len as u32);
            self.properties.prefix_probes = bloom::probes_for(PREFIX_BITS);
            self.section(Section::Prefixes, &bloom::build(&prefixes, PREFIX_BITS));
        }
    }

    fn section(&mut self, section: Section, bytes: &[u8]) {
        let padding = self.data_bytes().next_multiple_of(SECTION_ALIGN as u64) - self.data_bytes();
        self.out.resize(self.out.len() + padding as usize, 0);
        let start = self.out.len();
        self.out.extend_from_slice(bytes);
        self.properties.sections[section.ordinal()] = Some(self.piece(start, section as u8));
    }
}
