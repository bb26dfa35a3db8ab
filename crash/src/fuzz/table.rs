//! Tables from any bytes.
//!
//! - C1: an open, a read, a scan or a full check gives an answer or `Corruption`, never a panic.
//! - What was built and not changed answers as its entries say, by every way of reading.

use super::{Input, Mutated, mutate, typed, up_to, world};
use crate::adapter::SimFs;
use arbitrary::Unstructured;
use kiban::env::Env;
use kiban::env::fs::OpenMode;
use kiban::rig::base::checksum::{Context, checksum};
use kiban::rig::base::key::{EntryRef, FileNumber, Kind, SeqNo, TableId};
use kiban::rig::{
    Backend, BlockCache, Checked, Cursor, Purpose, Table, TableBuilder, TableOptions, key_hash,
};
use std::path::Path;
use std::sync::Arc;

/// The identity of every table made here; the raw seeds have it too.
pub const ID: TableId = TableId(0x7461_626c_6500_0000_0000_0000_0000_0001);
const NUMBER: FileNumber = FileNumber(7);
const PATH: &str = "/db/000007.tbl";
const FOOTER_BYTES: usize = 64;
const MAGIC: &[u8] = b"KibanTbl";
const RECORD_BYTES: usize = 32;

type Entry = (Vec<u8>, SeqNo, Option<Vec<u8>>);

/// Opens a table, looks at everything in it, both mapped and through the block cache.
pub fn table_open(data: &[u8]) {
    let (fs, env) = world(5);
    let mut entries = Vec::new();
    let mut mutated = Mutated::Sealed;
    match Input::new(data) {
        Input::Raw(bytes) => {
            let mut bytes = bytes.to_vec();
            // Every other raw input gets past the footer.
            if bytes.len() % 2 == 0 {
                seal(&mut bytes);
            }
            put(&fs, &bytes);
        }
        Input::Made(mut u) => {
            let options = options(&mut u);
            entries = make_entries(&mut u);
            let mut bytes = build(&env, &fs, &entries, &options);
            mutated = mutate(&mut u, &mut bytes, seal);
            put(&fs, &bytes);
        }
    }
    for mapped in [true, false] {
        let cache = Arc::new(BlockCache::new(1 << 16, 64));
        let backend = match mapped {
            true => Backend::Mapped { fs: env.fs.clone(), cache: None, read_ahead: true },
            false => Backend::Pread(cache),
        };
        let file = env.fs.open(Path::new(PATH), OpenMode::Read).expect("just written");
        let Some(identity) = typed(Table::identify(&*file, NUMBER)) else {
            assert_ne!(mutated, Mutated::No, "a whole footer is believed");
            return;
        };
        let Some(table) = typed(Table::open(&file, &identity, backend)) else {
            assert_ne!(mutated, Mutated::No, "a whole table opens");
            return;
        };
        interrogate(&table, &entries, mutated);
    }
}

fn put(fs: &SimFs, bytes: &[u8]) {
    let written = fs.with(|disk| {
        let _ = disk.unlink(PATH.as_ref());
        disk.put_file(PATH, bytes)
    });
    written.expect("an empty disk has room");
}

fn options(u: &mut Unstructured<'_>) -> TableOptions {
    TableOptions {
        block_bytes: [32, 64, 300, 4096][up_to(u, 3) as usize],
        restart_interval: [1, 2, 3, 16][up_to(u, 3) as usize],
        point_index: up_to(u, 1) == 1,
        filter_bits_per_key: [0, 10][up_to(u, 1) as usize],
        prefix_len: [None, Some(1), Some(3)][up_to(u, 2) as usize],
        ..TableOptions::default()
    }
}

/// Entries in entry order, several versions of some keys among them.
fn make_entries(u: &mut Unstructured<'_>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut seq = 1;
    for _ in 0..1 + up_to(u, 24) {
        let len = up_to(u, 6) as usize;
        let key = (0..len).map(|_| b"ab\x00\xff"[up_to(u, 3) as usize]).collect();
        let value = (up_to(u, 4) > 0).then(|| vec![b'v'; up_to(u, 50) as usize]);
        entries.push((key, SeqNo(seq), value));
        seq += 1 + up_to(u, 300);
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    entries
}

fn entry_of((key, seq, value): &Entry) -> EntryRef<'_> {
    let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
    EntryRef { key, seq: *seq, kind, value: value.as_deref().unwrap_or_default() }
}

fn build(env: &Env, fs: &SimFs, entries: &[Entry], options: &TableOptions) -> Vec<u8> {
    let file = env.fs.create(Path::new(PATH)).expect("an empty disk has room");
    let mut builder = TableBuilder::new(file, ID, options);
    for entry in entries {
        builder.add(entry_of(entry)).expect("an empty disk has room");
    }
    builder.finish().expect("an empty disk has room");
    fs.with(|disk| disk.get_file(PATH)).expect("just written")
}

/// Reads in every way; compares with `entries` where nothing was mutated.
fn interrogate(table: &Arc<Table>, entries: &[Entry], mutated: Mutated) {
    let whole = mutated == Mutated::No;
    let verified = typed(table.verify());
    assert!(!whole || verified.is_some_and(|summary| summary.entries == entries.len() as u64));
    for (key, seq, value) in entries {
        let hash = key_hash(key);
        let got = typed(table.get_with(key, hash, *seq, |entry| {
            (entry.kind == Kind::Put).then(|| entry.value.to_vec())
        }));
        if whole || (mutated == Mutated::Damaged && got.is_some()) {
            assert_eq!(got, Some(Some(value.clone())), "C1: a wrong answer");
        }
        let may = typed(table.may_contain_prefix(key));
        assert!(!whole || may == Some(true), "a filter has no false negative");
    }
    let _ = typed(table.get_with(b"absent", key_hash(b"absent"), SeqNo::MAX, |_| ()));
    for purpose in [Purpose::Read, Purpose::Maintain] {
        for forward in [true, false] {
            // Right checksums over entries out of order are not damage, and only `verify` looks.
            let shown = match mutated {
                Mutated::Sealed => walk(table.cursor(purpose), forward),
                _ => walk(Checked::new(table.cursor(purpose)), forward),
            };
            assert!(!whole || shown == Some(entries.len()), "a scan shows all");
        }
    }
}

/// The number of entries that a scan shows, if it comes to its end.
fn walk<C: Cursor>(mut cursor: C, forward: bool) -> Option<usize> {
    typed(if forward { cursor.seek_first() } else { cursor.seek_last() })?;
    let mut shown = 0;
    // A table of a few KiB has no more entries than bytes, whatever its properties say.
    while cursor.entry().is_some() {
        shown += 1;
        assert!(shown < 1 << 20, "C1: no entries out of nothing");
        typed(if forward { cursor.next() } else { cursor.prev() })?;
    }
    Some(shown)
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    word.try_into().ok().map(|word| u32::from_le_bytes(word) as usize)
}

fn stamp(bytes: &mut [u8], place: usize, context: Context, from: usize, len: usize) {
    if let Some(piece) = from.checked_add(len).and_then(|to| bytes.get(from..to)) {
        let crc = checksum(context, &[piece]);
        if let Some(place) = bytes.get_mut(place..place + 4) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
    }
}

/// Makes every checksum right, from the blocks up to the footer, as far as the places that the
/// bytes give can be followed.
pub(super) fn seal(bytes: &mut [u8]) {
    let Some(footer) = bytes.len().checked_sub(FOOTER_BYTES) else { return };
    if bytes[footer + 56..] != *MAGIC {
        return;
    }
    let id = TableId(bytes[footer..footer + 16].try_into().map_or(0, u128::from_le_bytes));
    let piece = |kind, from: usize| Context::Table(id, from as u64, kind);
    let (from, len) = (word(bytes, footer + 16), word(bytes, footer + 20));
    let (Some(from), Some(len)) = (from, len) else { return };
    let end = from.saturating_add(len).min(footer);
    // The properties end in a count and 13 bytes for each section.
    let sections =
        (1..=5).find(|n| end.checked_sub(13 * n + 1).is_some_and(|at| bytes[at] == *n as u8));
    for n in 0..sections.unwrap_or(0) {
        let at = end - 13 * (n + 1);
        let (Some(start), Some(size)) = (word(bytes, at + 1), word(bytes, at + 5)) else {
            continue;
        };
        if bytes[at] == 2 {
            seal_blocks(bytes, id, start, size);
        }
        let kind = bytes[at];
        stamp(bytes, at + 9, piece(kind, start), start, size);
    }
    stamp(bytes, footer + 24, piece(7, from), from, len);
    let (head, tail) = (&bytes[footer..footer + 48], &bytes[footer + 52..]);
    let crc = checksum(piece(8, footer), &[head, tail]);
    bytes[footer + 48..footer + 52].copy_from_slice(&crc.to_le_bytes());
}

/// Makes the blocks' checksums right in an index of `size` bytes at `start`. Its number of blocks
/// is tried: the records lie behind as many heads of eight bytes.
fn seal_blocks(bytes: &mut [u8], id: TableId, start: usize, size: usize) {
    // The size may be a lie, and no index is larger than its table.
    for blocks in 1..=size.min(bytes.len()) / (8 + RECORD_BYTES) {
        let record = |n: usize| start.saturating_add(8 * blocks + RECORD_BYTES * n);
        let follows = (0..blocks).try_fold(0, |at, n| {
            let (offset, len) = (word(bytes, record(n) + 8)?, word(bytes, record(n) + 12)?);
            (offset == at && len > 0).then_some(at + len)
        });
        if follows.is_none() {
            continue;
        }
        for n in 0..blocks {
            let (from, len) = (word(bytes, record(n) + 8), word(bytes, record(n) + 12));
            let (Some(from), Some(len)) = (from, len) else { continue };
            stamp(bytes, record(n) + 16, Context::Table(id, from as u64, 1), from, len);
        }
        return;
    }
}

/// A table from some choices, for seeds.
#[must_use]
pub fn whole_table(choices: &[u8]) -> Vec<u8> {
    let mut u = Unstructured::new(choices);
    let (fs, env) = world(5);
    let options = options(&mut u);
    build(&env, &fs, &make_entries(&mut u), &options)
}
