//! An open table: opening it, and reading one key.
//!
//! Invariants
//! - What is opened is exactly the table that the manifest names: length, identity and footer
//!   checksum are compared before anything else is believed.
//! - A filter or the point index answers only "not here"; that a key is here is decided by its
//!   bytes in the block.
//! - A warm read of a mapped table copies nothing, allocates nothing and takes no lock.

use super::block::{Found, Place, find};
use super::codec::Compression;
use super::format::{FOOTER_BYTES, FORMAT_VERSION, Footer, FooterError, KIND_PROPERTIES};
use super::format::{Properties, Section};
use super::index::IndexView;
use super::points::Probe;
use super::restarts::{self, Restart};
use super::source::{Backend, Bytes, Source};
use super::{TableIdentity, bloom};
use crate::base::key::{EntryRef, FileNumber, Kind, SeqNo, TableId};
use crate::base::slice::{Pin, Slice};
use crate::env::fs::{File, read_full_at};
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use std::ops::Range;

/// The part of a file's end that is read at once where there is no map.
const TAIL_BYTES: u64 = 4096;

/// An open table.
pub struct Table {
    pub(super) source: Source,
    pub(super) properties: Properties,
    pub(super) codec: Compression,
    identity: TableIdentity,
    /// Where the properties begin.
    pub(super) properties_start: u32,
}

/// A version of a key that was found, with the block that it stands in.
pub struct Hit<'a> {
    block: Bytes<'a>,
    value: Range<usize>,
    /// Its place in the commit order.
    pub seq: SeqNo,
    /// Whether it sets or removes the key.
    pub kind: Kind,
}

impl Hit<'_> {
    /// The value; empty for a removal.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.block[self.value.clone()]
    }
}

impl Table {
    /// Opens the table that `file` must be.
    ///
    /// # Errors
    /// Corruption if the file is not that table, "unsupported format" if it is of a newer one, and
    /// those of reading.
    pub fn open(
        file: &Arc<dyn File>,
        expected: &TableIdentity,
        backend: Backend,
    ) -> Result<Arc<Self>> {
        let path = file.path();
        let len = file.len().map_err(|e| Error::io(path, "read length of table", e))?;
        if len != expected.bytes {
            let what = format!("the file has {len} bytes, not {}", expected.bytes);
            return Err(Error::corruption(path, len.min(expected.bytes), what));
        }
        let offset = footer_offset(len)
            .ok_or_else(|| Error::corruption(path, 0, "the length is not one of a table"))?;
        let mut source = Source::open(file, expected.id, len, backend)?;
        let (properties, properties_start) = {
            let mut tail = source.tail(TAIL_BYTES)?;
            let footer = footer_of(&tail, offset, path)?;
            if footer.id != expected.id || footer.crc != expected.footer_crc {
                let what = "a valid footer, but not that of the table that belongs here";
                return Err(source.damaged(u64::from(offset), what));
            }
            let back = len - u64::from(footer.properties.offset);
            if back > tail.len() as u64 {
                tail = source.tail(back)?;
            }
            let start = tail.len() - back as usize;
            let bytes = &tail[start..start + footer.properties.len as usize];
            source.check(footer.properties, KIND_PROPERTIES, bytes, "properties")?;
            let start = footer.properties.offset;
            let properties = Properties::decode(bytes, start)
                .map_err(|what| source.damaged(u64::from(start), what))?;
            (properties, start)
        };
        let codec = Compression::from_byte(properties.codec)
            .ok_or_else(|| source.damaged(u64::from(offset), "an unknown codec"))?;
        if !codec.is_built_in() {
            let refusal = std::io::ErrorKind::Unsupported.into();
            return Err(Error::io(path, codec.missing(), refusal));
        }
        source.expect_blocks(properties.blocks);
        Ok(Arc::new(Self { source, properties, codec, identity: *expected, properties_start }))
    }

    /// The identity that a table file claims for itself, for tools that have no manifest.
    ///
    /// # Errors
    /// Corruption if it has no valid footer, and those of reading.
    pub fn identify(file: &dyn File, number: FileNumber) -> Result<TableIdentity> {
        let path = file.path();
        let len = file.len().map_err(|e| Error::io(path, "read length of table", e))?;
        let offset = footer_offset(len)
            .ok_or_else(|| Error::corruption(path, 0, "the length is not one of a table"))?;
        let mut bytes = [0; FOOTER_BYTES];
        let filled = read_full_at(file, u64::from(offset), &mut bytes)
            .map_err(|e| Error::io(path, "read table", e))?;
        let footer = footer_of(&bytes[..filled], offset, path)?;
        Ok(TableIdentity { number, id: footer.id, bytes: len, footer_crc: footer.crc })
    }

    /// Who the table is.
    #[must_use]
    pub fn identity(&self) -> &TableIdentity {
        &self.identity
    }

    /// What is known of it as a whole.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    #[inline]
    pub(super) fn section(&self, section: Section) -> Result<Option<Bytes<'_>>> {
        match self.properties.section(section) {
            Some(piece) => self.source.section(section, piece).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn required(&self, section: Section) -> Result<Bytes<'_>> {
        let piece = self.properties.section(section);
        self.source.section(section, piece.expect("invariant: checked with the properties"))
    }

    #[inline]
    pub(super) fn view<'a>(&self, section: &'a [u8]) -> IndexView<'a> {
        IndexView::new(section, self.properties.blocks, self.properties.index_common)
    }

    /// The bytes of block `ordinal`.
    #[inline]
    fn block(&self, ordinal: usize) -> Result<(Bytes<'_>, u64)> {
        let index = self.required(Section::Index)?;
        let handle = self.view(&index).handle(ordinal);
        let handle = handle.ok_or_else(|| self.bad_index())?;
        let offset = u64::from(handle.piece.offset);
        Ok((self.source.block(ordinal, handle, self.codec)?, offset))
    }

    #[cold]
    pub(super) fn bad_index(&self) -> Error {
        let offset = self.properties.section(Section::Index).map_or(0, |p| p.offset);
        self.source.damaged(u64::from(offset), "the index leads outside of the table")
    }

    /// Runs `f` on the newest version of `key` at or below `seq_max`, removals included, without
    /// copying it. `hash` is [`super::key_hash`] of the key.
    ///
    /// # Errors
    /// Corruption, and those of reading.
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        hash: u64,
        seq_max: SeqNo,
        f: impl FnOnce(EntryRef<'_>) -> R,
    ) -> Result<Option<R>> {
        let hit = self.find(key, hash, seq_max)?;
        Ok(hit.map(|hit| f(EntryRef { key, seq: hit.seq, kind: hit.kind, value: hit.value() })))
    }

    /// The newest version of `key` at or below `seq_max`, removals included. A value longer than
    /// `copy_max` pins the map or the block that holds it.
    ///
    /// # Errors
    /// Corruption, and those of reading.
    pub fn get(
        self: &Arc<Self>,
        key: &[u8],
        hash: u64,
        seq_max: SeqNo,
        copy_max: usize,
    ) -> Result<Option<(Kind, SeqNo, Slice)>> {
        let hit = self.find(key, hash, seq_max)?;
        Ok(hit.map(|hit| (hit.kind, hit.seq, self.slice(&hit, copy_max))))
    }

    /// The value of a hit in this table, as a slice of its own.
    #[must_use]
    pub fn slice(self: &Arc<Self>, hit: &Hit<'_>, copy_max: usize) -> Slice {
        let value = hit.value();
        if value.len() <= copy_max {
            return Slice::copy(value);
        }
        match &hit.block {
            Bytes::Shared(block) => Slice::pin(block.clone(), hit.value.start, value.len()),
            Bytes::Map(block) => self.pin(block, hit.value.clone()),
        }
    }

    /// Pins `range` of `block`, which is a part of the map.
    pub(super) fn pin(self: &Arc<Self>, block: &[u8], range: Range<usize>) -> Slice {
        let start = block.as_ptr().addr() - self.source.map().as_ptr().addr();
        Slice::pin(self.clone(), start + range.start, range.len())
    }

    /// As [`Table::get`], with the value still in its block.
    ///
    /// # Errors
    /// Corruption, and those of reading.
    #[inline]
    pub fn find(&self, key: &[u8], hash: u64, seq_max: SeqNo) -> Result<Option<Hit<'_>>> {
        if let Some(points) = self.section(Section::Points)? {
            return self.find_by_points(&points, key, hash, seq_max);
        }
        if let Some(filter) = self.section(Section::Filter)?
            && !bloom::may_contain(&filter, self.properties.filter_probes, hash)
        {
            return Ok(None);
        }
        self.find_by_index(key, seq_max)
    }

    #[inline]
    fn find_by_points(
        &self,
        points: &[u8],
        key: &[u8],
        hash: u64,
        seq_max: SeqNo,
    ) -> Result<Option<Hit<'_>>> {
        let Some(candidates) = Probe::new(points, hash) else {
            return self.find_by_index(key, seq_max);
        };
        let restarts = self.required(Section::Restarts)?;
        for restart in candidates {
            let restart = self.restart(&restarts, restart)?;
            let (block, place, base) = self.behind(restart)?;
            match self.found(find(&block, place, key, seq_max), base)? {
                Found::Entry { kind, seq, value } => {
                    return Ok(Some(Hit { block, value, seq, kind }));
                }
                Found::Absent { seen: true } => return Ok(None),
                // The versions seen are too new, and the next block may go on with older ones.
                Found::End { seen: true } => return self.find_by_index(key, seq_max),
                Found::Absent { seen: false } | Found::End { seen: false } => {}
            }
        }
        Ok(None)
    }

    /// Bytes that hold a restart point's block, the restart point's place in them, and the offset
    /// of the first of them in the file.
    #[inline]
    fn behind(&self, restart: Restart) -> Result<(Bytes<'_>, Place, u64)> {
        if self.codec == Compression::None
            && let Some(map) = self.source.map_with_checked(restart.block)
        {
            let place = restart.in_file();
            if place.end > self.properties.data_end as usize {
                return Err(self.bad_index());
            }
            return Ok((Bytes::Map(map), place, 0));
        }
        let (block, offset) = self.block(restart.block)?;
        let place = self.place(restart, offset, block.len())?;
        Ok((block, place, offset))
    }

    /// The place of a restart point in its block.
    pub(super) fn place(&self, restart: Restart, offset: u64, len: usize) -> Result<Place> {
        let place = restart.place(offset as usize, 0).filter(|place| place.end == len);
        place.ok_or_else(|| self.bad_index())
    }

    /// Searches the index: the way without a point index, and to old versions.
    fn find_by_index(&self, key: &[u8], seq_max: SeqNo) -> Result<Option<Hit<'_>>> {
        let index = self.required(Section::Index)?;
        let view = self.view(&index);
        let ordinal = view.find(key, seq_max.0);
        if ordinal == view.blocks() {
            return Ok(None);
        }
        let (block, offset) = self.block(ordinal)?;
        let restarts = self.required(Section::Restarts)?;
        let range = self.restarts_of(&view, ordinal)?;
        let (_, restart) = self.last_below(&block, offset, &restarts, range, key, seq_max.0)?;
        let place = self.place(self.restart(&restarts, restart)?, offset, block.len())?;
        match self.found(find(&block, place, key, seq_max), offset)? {
            Found::Entry { kind, seq, value } => Ok(Some(Hit { block, value, seq, kind })),
            Found::Absent { .. } | Found::End { .. } => Ok(None),
        }
    }

    #[inline]
    fn found(&self, found: Result<Found, (usize, &'static str)>, base: u64) -> Result<Found> {
        found.map_err(|(at, what)| self.source.damaged(base + at as u64, what))
    }

    /// A restart point, by its ordinal in the table.
    #[inline]
    pub(super) fn restart(&self, restarts: &[u8], restart: usize) -> Result<Restart> {
        restarts::read(restarts, restart).ok_or_else(|| self.bad_index())
    }

    /// The ordinals of a block's restart points.
    pub(super) fn restarts_of(&self, view: &IndexView<'_>, block: usize) -> Result<Range<usize>> {
        let first = |b| view.handle(b).map(|h| h.first_restart);
        let start = first(block).ok_or_else(|| self.bad_index())?;
        let end = first(block + 1).unwrap_or(self.properties.restarts);
        if start >= end || end > self.properties.restarts {
            return Err(self.bad_index());
        }
        Ok(start as usize..end as usize)
    }

    /// Of the restart points in `range`, all in one block: how many are below (`key`, `seq`), and
    /// the ordinal of the last of these, or of the first one.
    pub(super) fn last_below(
        &self,
        block: &[u8],
        block_offset: u64,
        restarts: &[u8],
        range: Range<usize>,
        key: &[u8],
        seq: u64,
    ) -> Result<(usize, usize)> {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            let Place { key_at: at, end, .. } =
                self.place(self.restart(restarts, middle)?, block_offset, block.len())?;
            let entry = super::entry::decode(block, at, end)
                .map_err(|what| self.source.damaged(block_offset + at as u64, what))?;
            if entry.suffix.cmp(key).then(seq.cmp(&entry.seq().0)).is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok((low - range.start, low.max(range.start + 1) - 1))
    }

    /// Whether a key that starts with `prefix` may be here. Always true without a prefix filter or
    /// for a prefix shorter than it was made for.
    ///
    /// # Errors
    /// Corruption, and those of reading.
    pub fn may_contain_prefix(&self, prefix: &[u8]) -> Result<bool> {
        let Some(len) = self.properties.prefix_len else {
            return Ok(true);
        };
        let Some(prefix) = prefix.get(..len as usize) else {
            return Ok(true);
        };
        let filter = self.required(Section::Prefixes)?;
        let hash = super::key_hash(prefix);
        Ok(bloom::may_contain(&filter, self.properties.prefix_probes, hash))
    }
}

impl Pin for Table {
    fn bytes(&self) -> &[u8] {
        self.source.map()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TableId(id) = self.identity.id;
        write!(f, "Table({}, {id:032x})", self.identity.number.0)
    }
}

/// Where the footer of a file of `len` bytes is; `None` if no table has that length.
fn footer_offset(len: u64) -> Option<u32> {
    u32::try_from(len).ok()?.checked_sub(FOOTER_BYTES as u32)
}

fn footer_of(tail: &[u8], offset: u32, path: &std::path::Path) -> Result<Footer> {
    let damaged = |what| Error::corruption(path, u64::from(offset), what);
    let bytes = tail.last_chunk().ok_or_else(|| damaged("the footer is cut off"))?;
    Footer::decode(bytes, offset).map_err(|e| match e {
        FooterError::Bad(what) => damaged(what),
        FooterError::Newer(found) => {
            Error::UnsupportedFormat { file: path.to_path_buf(), found, supported: FORMAT_VERSION }
        }
    })
}
