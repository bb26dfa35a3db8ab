//! What changes from one version to the next: its bytes, and how flush and compaction make it.
//!
//! An edit is a list of fields, each a tag (varint) and its content; integers are varints.
//!
//! ```text
//! 1 next_file     number
//! 2 flushed_seq   sequence
//! 3 log_floor     number
//! 4 synced        log number, offset
//! 5 new run       id, bound(id of the run it stands before), full_bytes
//! 6 removed       run id, table number, bound(lo)
//! 7 added         run id, table, bound(lo), bound(hi)
//! table: number, u128 id, bytes, u32 footer_crc, key first, key last, entries, tombstones,
//!        seq_min, seq_max - seq_min        (key: length, bytes)
//! bound: 0, or 1 and the value
//! ```
//!
//! Invariants
//! - Equal edits have equal bytes: fields stand in the order of their tags, varints are shortest.
//! - A tag that this code does not know is an error: it may take away what the rest relies on.
//! - Decoding takes any bytes; an element allocates no more than the bytes that it is made of.

use super::slice::{KeyRange, TableMeta, TableSlice};
use super::state::{RunId, Version};
use crate::base::coding::{Reader, put_bytes, put_u32, put_u128, put_varint};
use crate::base::key::{FileNumber, KEY_BYTES_MAX, LogPosition, SeqNo, TableId};
use crate::env::sync::Arc;
use crate::table::KeptTable;
use std::ops::Range;

/// A run to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// Its id, which no run has had.
    pub id: RunId,
    /// The next older run; `None` if it is the oldest.
    pub before: Option<RunId>,
    /// See [`Run::full_bytes`](super::state::Run::full_bytes); 0 for a run that is whole.
    pub full_bytes: u64,
}

/// A slice to be taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The run in which it is.
    pub run: RunId,
    /// Its table.
    pub number: FileNumber,
    /// Its lower bound, which tells it from other slices of that table.
    pub lo: Option<Vec<u8>>,
}

/// A slice to be put in its place in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The run.
    pub run: RunId,
    /// The slice.
    pub slice: TableSlice,
}

/// A change of a version. New runs are made first, in order; then slices go; then slices come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// See [`Version::next_file`].
    pub next_file: Option<FileNumber>,
    /// See [`Version::flushed_seq`].
    pub flushed_seq: Option<SeqNo>,
    /// See [`Version::log_floor`].
    pub log_floor: Option<FileNumber>,
    /// See [`Version::synced`].
    pub synced: Option<LogPosition>,
    /// Runs that begin.
    pub new_runs: Vec<NewRun>,
    /// Slices that go.
    pub removed: Vec<Removed>,
    /// Slices that come.
    pub added: Vec<Added>,
}

impl Edit {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut buf = Vec::new();
        let numbers = [
            (1, self.next_file.map(|number| number.0)),
            (2, self.flushed_seq.map(|seq| seq.0)),
            (3, self.log_floor.map(|number| number.0)),
        ];
        for (tag, value) in numbers {
            if let Some(value) = value {
                put_varint(&mut buf, tag);
                put_varint(&mut buf, value);
            }
        }
        if let Some(synced) = self.synced {
            put_varint(&mut buf, 4);
            put_varint(&mut buf, synced.log.0);
            put_varint(&mut buf, synced.offset);
        }
        for new in &self.new_runs {
            put_varint(&mut buf, 5);
            put_varint(&mut buf, new.id.0);
            put_bound(&mut buf, new.before, |buf, id| put_varint(buf, id.0));
            put_varint(&mut buf, new.full_bytes);
        }
        for removed in &self.removed {
            put_varint(&mut buf, 6);
            put_varint(&mut buf, removed.run.0);
            put_varint(&mut buf, removed.number.0);
            put_bound(&mut buf, removed.lo.as_deref(), put_bytes);
        }
        for added in &self.added {
            put_varint(&mut buf, 7);
            put_varint(&mut buf, added.run.0);
            put_table(&mut buf, &added.slice.meta);
            put_bound(&mut buf, added.slice.lo.as_deref(), put_bytes);
            put_bound(&mut buf, added.slice.hi.as_deref(), put_bytes);
        }
        buf
    }

    /// Reads an edit.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader::new(bytes);
        let mut edit = Self::default();
        let mut last_tag = 0;
        while !reader.is_empty() {
            let tag = reader.varint().ok_or("an edit ends within a tag")?;
            if tag < last_tag || (tag == last_tag && tag < 5) {
                return Err(format!("edit field {tag} after field {last_tag}"));
            }
            if !(1..=7).contains(&tag) {
                return Err(format!("edit field {tag}, which this version lacks"));
            }
            last_tag = tag;
            edit.decode_field(tag, &mut reader)
                .ok_or_else(|| format!("edit field {tag} is cut short or out of range"))?;
        }
        Ok(edit)
    }

    fn decode_field(&mut self, tag: u64, reader: &mut Reader<'_>) -> Option<()> {
        match tag {
            // Reservations go beyond the numbers of files, but not by as much again.
            1 => {
                let number = reader.varint().filter(|&n| n < 2 * FileNumber::MAX.0)?;
                self.next_file = Some(FileNumber(number));
            }
            2 => self.flushed_seq = Some(seq(reader)?),
            3 => self.log_floor = Some(FileNumber(reader.varint()?)),
            4 => {
                let log = FileNumber(reader.varint()?);
                self.synced = Some(LogPosition { log, offset: reader.varint()? });
            }
            5 => {
                let id = RunId(reader.varint()?);
                let before = bound(reader, |reader| reader.varint().map(RunId))?;
                self.new_runs.push(NewRun { id, before, full_bytes: reader.varint()? });
            }
            6 => {
                let (run, number) = (RunId(reader.varint()?), FileNumber(reader.varint()?));
                let lo = bound(reader, |reader| reader.bytes().map(<[u8]>::to_vec))?;
                self.removed.push(Removed { run, number, lo });
            }
            _ => {
                let run = RunId(reader.varint()?);
                let meta = Arc::new(table(reader)?);
                let lo = bound(reader, |reader| reader.bytes().map(<[u8]>::to_vec))?;
                let hi = bound(reader, |reader| reader.bytes().map(<[u8]>::to_vec))?;
                self.added.push(Added { run, slice: TableSlice { meta, lo, hi } });
            }
        }
        Some(())
    }
}

fn put_bound<T>(buf: &mut Vec<u8>, bound: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    buf.push(u8::from(bound.is_some()));
    if let Some(value) = bound {
        put(buf, value);
    }
}

fn bound<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Option<Option<T>> {
    match reader.u8()? {
        0 => Some(None),
        1 => read(reader).map(Some),
        _ => None,
    }
}

fn put_table(buf: &mut Vec<u8>, meta: &TableMeta) {
    put_varint(buf, meta.number.0);
    put_u128(buf, meta.id.0);
    put_varint(buf, meta.bytes);
    put_u32(buf, meta.footer_crc);
    put_bytes(buf, &meta.first_key);
    put_bytes(buf, &meta.last_key);
    put_varint(buf, meta.entries);
    put_varint(buf, meta.tombstones);
    put_varint(buf, meta.seq_min.0);
    put_varint(buf, meta.seq_max.0 - meta.seq_min.0);
}

fn table(reader: &mut Reader<'_>) -> Option<TableMeta> {
    let number = FileNumber(reader.varint()?);
    let id = TableId(reader.u128()?);
    let (bytes, footer_crc) = (reader.varint()?, reader.u32()?);
    let first_key = reader.bytes().filter(|key| key.len() <= KEY_BYTES_MAX)?.to_vec();
    let last_key = reader.bytes().filter(|key| key.len() <= KEY_BYTES_MAX)?.to_vec();
    let (entries, tombstones) = (reader.varint()?, reader.varint()?);
    let seq_min = seq(reader)?;
    let seq_max = seq_min.0.checked_add(reader.varint()?).filter(|&s| s < SeqNo::MAX.0)?;
    let seq_max = SeqNo(seq_max);
    Some(TableMeta {
        number,
        id,
        bytes,
        footer_crc,
        first_key,
        last_key,
        entries,
        tombstones,
        seq_min,
        seq_max,
        kept: KeptTable::default(),
    })
}

/// A sequence that leaves another for the next write.
fn seq(reader: &mut Reader<'_>) -> Option<SeqNo> {
    reader.varint().filter(|&seq| seq < SeqNo::MAX.0).map(SeqNo)
}

/// The edit that makes `version` out of the empty one.
#[must_use]
pub fn snapshot_edit(version: &Version) -> Edit {
    let mut edit = Edit {
        next_file: Some(version.next_file),
        flushed_seq: Some(version.flushed_seq),
        log_floor: Some(version.log_floor),
        synced: Some(version.synced),
        ..Edit::default()
    };
    for run in &version.runs {
        let full_bytes = run.full_bytes();
        edit.new_runs.push(NewRun { id: run.id(), before: None, full_bytes });
        let slices = run.slices().iter().cloned();
        edit.added.extend(slices.map(|slice| Added { run: run.id(), slice }));
    }
    edit
}

/// The edit by which `tables`, disjoint and in key order, become the newest run. Without tables it
/// only advances `flushed_seq`: a memtable may hold nothing that is left.
#[must_use]
pub fn flush_edit(version: &Version, tables: &[Arc<TableMeta>], flushed_seq: SeqNo) -> Edit {
    let mut edit = Edit { flushed_seq: Some(flushed_seq), ..Edit::default() };
    if let Some(first) = tables.first() {
        let id = RunId(first.number.0);
        let before = version.runs.first().map(|run| run.id());
        edit.new_runs.push(NewRun { id, before, full_bytes: 0 });
        let slices = tables.iter().cloned().map(TableSlice::whole);
        edit.added.extend(slices.map(|slice| Added { run: id, slice }));
    }
    edit
}

/// The edit by which `outputs` take the place of everything in `range` in the runs `interval` of
/// `version` (newest first). Inputs that reach beyond the range are trimmed, not rewritten.
///
/// The outputs go into the oldest run of the interval, which holds nothing else in the range then.
/// A slice that only moves down is its own output.
#[must_use]
pub fn compaction_edit(
    version: &Version,
    interval: Range<usize>,
    range: &KeyRange,
    outputs: Vec<TableSlice>,
) -> Edit {
    assert!(!interval.is_empty(), "a compaction has inputs");
    let runs = &version.runs[interval];
    let mut edit = Edit::default();
    for run in runs {
        for slice in run.slices().iter().filter(|slice| slice.overlaps(range)) {
            let (number, lo) = (slice.meta.number, slice.lo.clone());
            edit.removed.push(Removed { run: run.id(), number, lo });
            let (below, above) = slice.without(range);
            let left = below.into_iter().chain(above);
            edit.added.extend(left.map(|slice| Added { run: run.id(), slice }));
        }
    }
    let oldest = runs.last().expect("invariant: the interval is not empty").id();
    edit.added.extend(outputs.into_iter().map(|slice| Added { run: oldest, slice }));
    edit
}

#[cfg(test)]
mod tests;
