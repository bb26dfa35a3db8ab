//! The full check of a table file.
//!
//! Invariants
//! - C1: every byte of the file takes part in a comparison, read afresh and past every cache:
//!   checksums, order, counts, bounds, padding.
//! - What the index, the restart points, the point index or a filter would hide is found out:
//!   every entry is looked for through each of them.

use super::block::Place;
use super::cursor::{Purpose, TableCursor};
use super::format::{FOOTER_BYTES, Footer, Properties, Section};
use super::index::IndexView;
use super::points::Probe;
use super::reader::Table;
use super::source::Bytes;
use super::{TableSummary, bloom, key_hash};
use crate::base::key::{EntryRef, Kind, SeqNo};
use crate::cursor::Cursor;
use crate::env::sync::Arc;
use crate::error::{Error, Result};

impl Table {
    /// Checks the whole file.
    ///
    /// # Errors
    /// The first corruption found, and those of reading.
    pub fn verify(self: &Arc<Self>) -> Result<TableSummary> {
        self.verify_frame()?;
        let mut sections = Sections::load(self)?;
        let mut found = self.properties.clone();
        (found.entries, found.tombstones, found.keys, found.raw_bytes) = (0, 0, 0, 0);
        (found.seq_min, found.seq_max) = (SeqNo::MAX, SeqNo::ZERO);
        found.first_key.clear();
        found.last_key.clear();
        let mut cursor = self.cursor(Purpose::Maintain);
        cursor.seek_first()?;
        while let Some(entry) = cursor.entry() {
            let new_key = found.entries == 0 || found.last_key != entry.key;
            sections.check(&cursor, &entry, new_key)?;
            count(&mut found, &entry, new_key);
            cursor.next()?;
        }
        sections.end_block()?;
        if found != self.properties || sections.restart != found.restarts as usize {
            return Err(self.blame("the properties do not describe the entries"));
        }
        let p = &self.properties;
        Ok(TableSummary {
            bytes: self.identity().bytes,
            footer_crc: self.identity().footer_crc,
            first_key: p.first_key.clone(),
            last_key: p.last_key.clone(),
            entries: p.entries,
            tombstones: p.tombstones,
            seq_min: p.seq_min,
            seq_max: p.seq_max,
            raw_bytes: p.raw_bytes,
        })
    }

    /// An error that blames the properties.
    fn blame(&self, what: &str) -> Error {
        self.source.damaged(u64::from(self.properties_start), what)
    }

    /// Footer and properties once more, and zeros between the pieces.
    fn verify_frame(&self) -> Result<()> {
        let len = self.identity().bytes;
        let offset = len - FOOTER_BYTES as u64;
        let tail = self.source.tail(len - u64::from(self.properties_start))?;
        let (properties, footer) = tail.split_at(tail.len() - FOOTER_BYTES);
        let footer = footer.first_chunk().and_then(|b| Footer::decode(b, offset as u32).ok());
        let ours = |f: &Footer| {
            f.crc == self.identity().footer_crc && f.properties.offset == self.properties_start
        };
        let footer = footer
            .filter(ours)
            .ok_or_else(|| self.source.damaged(offset, "the footer is another one now"))?;
        let kind = super::format::KIND_PROPERTIES;
        self.source.check(footer.properties, kind, properties, "properties")?;
        let mut end = u64::from(self.properties.data_end);
        for piece in self.properties.sections.iter().flatten() {
            self.verify_zeros(end, u64::from(piece.offset))?;
            end = piece.end();
        }
        self.verify_zeros(end, u64::from(self.properties_start))
    }

    fn verify_zeros(&self, start: u64, end: u64) -> Result<()> {
        let gap = self.source.range(start..end)?;
        match gap.iter().position(|&b| b != 0) {
            None => Ok(()),
            Some(at) => Err(self.source.damaged(start + at as u64, "padding is not zero")),
        }
    }
}

fn count(found: &mut Properties, entry: &EntryRef<'_>, new_key: bool) {
    if new_key {
        entry.key.clone_into(&mut found.last_key);
        found.keys += 1;
    }
    if found.entries == 0 {
        entry.key.clone_into(&mut found.first_key);
    }
    found.entries += 1;
    found.tombstones += u64::from(entry.kind == Kind::Delete);
    found.raw_bytes += (entry.key.len() + entry.value.len()) as u64;
    found.seq_min = found.seq_min.min(entry.seq);
    found.seq_max = found.seq_max.max(entry.seq);
}

/// What stands between a reader and the entries.
struct Sections<'a> {
    table: &'a Table,
    bytes: [Option<Bytes<'a>>; Section::ALL.len()],
    /// The ordinal of the restart point to come.
    restart: usize,
    /// Where the block to come must begin.
    data_end: u64,
    /// The block of the entry before, where its values must end and where they end so far.
    block: Option<usize>,
    values_end: usize,
    value_end: usize,
}

impl<'a> Sections<'a> {
    fn load(table: &'a Table) -> Result<Self> {
        let mut bytes = [const { None }; Section::ALL.len()];
        for section in Section::ALL {
            if let Some(piece) = table.properties.section(section) {
                bytes[section.ordinal()] = Some(table.source.section_afresh(section, piece)?);
            }
        }
        Ok(Self { table, bytes, restart: 0, data_end: 0, block: None, values_end: 0, value_end: 0 })
    }

    fn get(&self, section: Section) -> Option<&[u8]> {
        self.bytes[section.ordinal()].as_deref()
    }

    fn blame(&self, section: Section, what: &str) -> Error {
        let offset = self.table.properties.section(section).map_or(0, |p| p.offset);
        self.table.source.damaged(u64::from(offset), what)
    }

    fn index(&self) -> IndexView<'_> {
        self.table.view(self.get(Section::Index).unwrap_or_default())
    }

    /// Looks for the entry that the cursor stands on through every section.
    fn check(&mut self, cursor: &TableCursor, entry: &EntryRef<'_>, new_key: bool) -> Result<()> {
        let (block, offset, place, shared) = cursor.place();
        if self.index().find(entry.key, entry.seq.0) != block {
            return Err(self.blame(Section::Index, "the index hides an entry"));
        }
        let first = self.block != Some(block);
        if first {
            self.check_block(block, place)?;
        } else if place.value_at != self.value_end {
            return Err(self.blame(Section::Restarts, "values do not follow one another"));
        }
        self.value_end = place.value_at + entry.value.len();
        let restarts = self.get(Section::Restarts).unwrap_or_default();
        let due = (self.restart as u32) < self.table.properties.restarts && {
            let restart = self.table.restart(restarts, self.restart)?;
            restart.block == block && restart.place(offset as usize, 0) == Some(place)
        };
        if due {
            self.restart += 1;
        }
        if (first && !due) || (due && shared != 0) {
            return Err(self.blame(Section::Restarts, "a restart point is not where it should be"));
        }
        if new_key { self.check_filters(entry.key) } else { Ok(()) }
    }

    /// Blocks follow one another without gaps, begin with a value and their first restart point,
    /// and have nothing between the last value and the first key.
    fn check_block(&mut self, block: usize, first: Place) -> Result<()> {
        self.end_block()?;
        self.block = Some(block);
        self.values_end = first.key_at;
        let handle = self.index().handle(block);
        let last = block + 1 == self.table.properties.blocks as usize;
        let expected = handle.filter(|h| {
            u64::from(h.piece.offset) == self.data_end
                && h.first_restart as usize == self.restart
                && first.value_at == 0
                && (!last || h.piece.end() == u64::from(self.table.properties.data_end))
        });
        let handle = expected.ok_or_else(|| {
            self.blame(Section::Index, "a block is not where the one before it ends")
        })?;
        self.data_end = handle.piece.end();
        Ok(())
    }

    /// After the last entry of a block.
    fn end_block(&self) -> Result<()> {
        if self.value_end != self.values_end {
            return Err(self.blame(Section::Restarts, "values and keys do not meet"));
        }
        Ok(())
    }

    fn check_filters(&self, key: &[u8]) -> Result<()> {
        let p = &self.table.properties;
        let hash = key_hash(key);
        if let Some(points) = self.get(Section::Points)
            && !Probe::new(points, hash).is_some_and(|mut c| c.any(|r| r + 1 == self.restart))
        {
            return Err(self.blame(Section::Points, "the point index hides a key"));
        }
        if let Some(filter) = self.get(Section::Filter)
            && !bloom::may_contain(filter, p.filter_probes, hash)
        {
            return Err(self.blame(Section::Filter, "the filter hides a key"));
        }
        if let (Some(filter), Some(len)) = (self.get(Section::Prefixes), p.prefix_len)
            && let Some(prefix) = key.get(..len as usize)
            && !bloom::may_contain(filter, p.prefix_probes, key_hash(prefix))
        {
            return Err(self.blame(Section::Prefixes, "the prefix filter hides a key"));
        }
        Ok(())
    }
}
