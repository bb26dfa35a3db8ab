//! Tables against a sorted list of entries.

mod damage;
mod golden;
mod mem;

use super::{
    Backend, Compression, Purpose, Table, TableBuilder, TableIdentity, TableOptions, TableSummary,
    key_hash,
};
use crate::base::key::{EntryRef, FileNumber, Kind, SeqNo, TableId};
use crate::cache::BlockCache;
use crate::cursor::Cursor;
use crate::cursor::checked::Checked;
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use mem::MemFile;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const ID: TableId = TableId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

/// An entry of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    key: Vec<u8>,
    seq: SeqNo,
    kind: Kind,
    value: Vec<u8>,
}

impl Owned {
    fn entry(&self) -> EntryRef<'_> {
        EntryRef { key: &self.key, seq: self.seq, kind: self.kind, value: &self.value }
    }

    fn of(entry: EntryRef<'_>) -> Self {
        let EntryRef { key, seq, kind, value } = entry;
        Self { key: key.to_vec(), seq, kind, value: value.to_vec() }
    }
}

fn put(key: &[u8], seq: u64, value: &[u8]) -> Owned {
    Owned { key: key.to_vec(), seq: SeqNo(seq), kind: Kind::Put, value: value.to_vec() }
}

/// Entries in entry order from keys with versions.
fn entries_of(map: &BTreeMap<Vec<u8>, BTreeMap<u64, Option<Vec<u8>>>>) -> Vec<Owned> {
    let mut entries = Vec::new();
    for (key, versions) in map {
        for (&seq, value) in versions.iter().rev() {
            let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
            let value = value.clone().unwrap_or_default();
            entries.push(Owned { key: key.clone(), seq: SeqNo(seq), kind, value });
        }
    }
    entries
}

fn build(entries: &[Owned], options: &TableOptions) -> (MemFile, TableSummary) {
    let file = MemFile::new(Vec::new());
    let mut builder = TableBuilder::new(file.file(), ID, options);
    for entry in entries {
        builder.add(entry.entry()).expect("memory takes everything");
    }
    (file, builder.finish().expect("memory takes everything"))
}

fn identity(summary: &TableSummary) -> TableIdentity {
    let TableSummary { bytes, footer_crc, .. } = *summary;
    TableIdentity { number: FileNumber(7), id: ID, bytes, footer_crc }
}

/// Both backends; the small cache keeps almost nothing.
fn backends(file: &MemFile) -> [Backend; 3] {
    let cache = |bytes| Arc::new(BlockCache::new(bytes, 64));
    [
        Backend::Mapped { fs: file.fs(), cache: None, read_ahead: true },
        Backend::Pread(cache(1 << 20)),
        Backend::Pread(cache(300)),
    ]
}

fn open(file: &MemFile, summary: &TableSummary, backend: Backend) -> Result<Arc<Table>> {
    Table::open(&file.file(), &identity(summary), backend)
}

/// The newest version of a key at or below a sequence.
fn newest<'a>(entries: &'a [Owned], key: &[u8], seq: SeqNo) -> Option<&'a Owned> {
    entries.iter().find(|e| e.key == key && e.seq <= seq)
}

fn check_gets(table: &Arc<Table>, entries: &[Owned], keys: &BTreeSet<Vec<u8>>) {
    let seqs: BTreeSet<u64> = entries.iter().flat_map(|e| [e.seq.0 - 1, e.seq.0]).collect();
    for key in keys {
        for seq in seqs.iter().copied().chain([SeqNo::MAX.0]).map(SeqNo) {
            let expected = newest(entries, key, seq);
            let hash = key_hash(key);
            let got = table.get_with(key, hash, seq, Owned::of).expect("undamaged");
            assert_eq!(got.as_ref(), expected, "{key:?} at {seq:?}");
            let copy_max = seq.0 as usize % 3;
            let got = table.get(key, hash, seq, copy_max).expect("undamaged");
            let got = got.map(|(kind, seq, value)| Owned { kind, seq, ..put(key, 0, &value) });
            assert_eq!(got.as_ref(), expected, "{key:?} at {seq:?}");
        }
    }
}

/// Follows a cursor to the end and compares it with `expected`.
fn follow<'a>(
    cursor: &mut impl Cursor,
    forward: bool,
    expected: impl Iterator<Item = &'a Owned>,
) -> Result<()> {
    for expected in expected {
        assert_eq!(cursor.entry().map(Owned::of).as_ref(), Some(expected));
        assert_eq!(cursor.pinned_value().expect("on an entry"), expected.value[..]);
        if forward { cursor.next()? } else { cursor.prev()? }
    }
    assert_eq!(cursor.entry(), None);
    Ok(())
}

fn check_cursor(
    mut cursor: impl Cursor,
    entries: &[Owned],
    keys: &BTreeSet<Vec<u8>>,
) -> Result<()> {
    cursor.seek_first()?;
    follow(&mut cursor, true, entries.iter())?;
    cursor.seek_last()?;
    follow(&mut cursor, false, entries.iter().rev())?;
    for (i, key) in keys.iter().enumerate() {
        for seq in [SeqNo::MAX, SeqNo(i as u64 % 40), SeqNo::ZERO] {
            cursor.seek(key, seq)?;
            let from = entries.iter().skip_while(|e| (&e.key, seq) < (key, e.seq));
            follow(&mut cursor, true, from)?;
        }
        cursor.seek_before(key)?;
        follow(&mut cursor, false, entries.iter().filter(|e| e.key < *key).rev())?;
    }
    Ok(())
}

fn arb_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(0xff), Just(b'a'), Just(b'b')];
    prop_oneof![
        prop::collection::vec(byte.clone(), 0..4),
        prop::collection::vec(byte, 0..3)
            .prop_map(|tail| [b"a long shared prefix", &tail[..]].concat()),
    ]
}

fn arb_options() -> impl Strategy<Value = TableOptions> {
    let codecs = [Compression::None, Compression::Lz4, Compression::Zstd];
    let codecs = codecs.into_iter().filter(|c| c.is_built_in()).collect::<Vec<_>>();
    (
        1..200usize,
        1..6u32,
        any::<bool>(),
        0..12u32,
        prop::option::of(0..23usize),
        prop::sample::select(codecs),
    )
        .prop_map(
            |(block_bytes, restart_interval, point_index, bits, prefix_len, compression)| {
                TableOptions {
                    block_bytes,
                    restart_interval,
                    point_index,
                    filter_bits_per_key: bits,
                    prefix_len,
                    compression,
                }
            },
        )
}

/// Lengths at which a varint or the header's fast path changes, and a block of one large value.
#[test]
fn long_keys_and_values_come_back() {
    let mut entries = Vec::new();
    for (i, len) in [0, 1, 127, 128, 16_383, 16_384, 65_535].into_iter().enumerate() {
        let mut key = vec![b'k'; len];
        entries.push(put(&key, 1 << (8 * i), &vec![7; 3 << (3 * i)]));
        if len < 65_535 {
            key.push(0);
            entries.push(put(&key, 5, b""));
        }
    }
    entries.sort_by(|a, b| (&a.key, b.seq).cmp(&(&b.key, a.seq)));
    let keys: BTreeSet<Vec<u8>> = entries.iter().map(|e| e.key.clone()).collect();
    for point_index in [true, false] {
        let options = TableOptions { block_bytes: 4096, point_index, ..TableOptions::default() };
        let (file, summary) = build(&entries, &options);
        for backend in backends(&file) {
            let table = open(&file, &summary, backend).expect("undamaged");
            check_gets(&table, &entries, &keys);
            for purpose in [Purpose::Read, Purpose::Maintain] {
                check_cursor(Checked::new(table.cursor(purpose)), &entries, &keys)
                    .expect("undamaged");
            }
            assert_eq!(table.verify().expect("undamaged"), summary);
        }
    }
}

/// More restart points than a point index can tell apart: a filter takes its place.
#[test]
fn a_table_of_many_restart_points_has_a_filter() {
    let options = TableOptions { restart_interval: 1, ..TableOptions::default() };
    let entries: Vec<Owned> =
        (0..66_000u32).map(|k| put(&k.to_be_bytes(), u64::from(k) + 1, b"")).collect();
    let (file, summary) = build(&entries, &options);
    let backend = Backend::Mapped { fs: file.fs(), cache: None, read_ahead: true };
    let table = open(&file, &summary, backend).expect("undamaged");
    for k in (0..70_000u32).step_by(97) {
        let found =
            table.get_with(&k.to_be_bytes(), key_hash(&k.to_be_bytes()), SeqNo::MAX, |_| ());
        assert_eq!(found.expect("undamaged").is_some(), k < 66_000);
    }
    assert_eq!(table.verify().expect("undamaged"), summary);
}

/// B111: places in a block need more than 16 bits.
#[test]
fn a_block_of_hundreds_of_kilobytes_is_read_from_every_restart_point() {
    let entries: Vec<Owned> = (0..24u8).map(|k| put(&[k], 3, &vec![k; 20_000])).collect();
    let keys: BTreeSet<Vec<u8>> = (0..26u8).map(|k| vec![k]).collect();
    for point_index in [true, false] {
        let options = TableOptions {
            block_bytes: 1 << 20,
            restart_interval: 2,
            point_index,
            ..TableOptions::default()
        };
        let (file, summary) = build(&entries, &options);
        for backend in backends(&file) {
            let table = open(&file, &summary, backend).expect("undamaged");
            check_gets(&table, &entries, &keys);
            check_cursor(Checked::new(table.cursor(Purpose::Read)), &entries, &keys)
                .expect("undamaged");
        }
    }
}

/// A key with more versions than a block holds, read at every sequence.
#[test]
fn versions_of_one_key_span_blocks() {
    let options = TableOptions { block_bytes: 100, restart_interval: 2, ..TableOptions::default() };
    let mut entries: Vec<Owned> = (1..200).rev().map(|seq| put(b"key", seq * 2, b"v")).collect();
    entries.insert(0, put(b"ke", 7, b"before"));
    entries.push(put(b"keys", 9, b"after"));
    let keys = [b"ke".to_vec(), b"key".to_vec(), b"keys".to_vec(), b"kez".to_vec()].into();
    let (file, summary) = build(&entries, &options);
    for backend in backends(&file) {
        let table = open(&file, &summary, backend).expect("undamaged");
        check_gets(&table, &entries, &keys);
        check_cursor(Checked::new(table.cursor(Purpose::Read)), &entries, &keys)
            .expect("undamaged");
    }
}

/// A maintenance cursor past the map reads the file in few large steps and fills no cache.
#[test]
fn maintenance_reads_large_tables_past_map_and_cache() {
    let entries: Vec<Owned> = (0..3000u32).map(|k| put(&k.to_be_bytes(), 1, &[1; 200])).collect();
    let (file, summary) = build(&entries, &TableOptions::default());
    let cache = Arc::new(BlockCache::new(1 << 30, 4096));
    for backend in [
        Backend::Mapped { fs: file.fs(), cache: None, read_ahead: true },
        Backend::Pread(cache.clone()),
    ] {
        let table = open(&file, &summary, backend).expect("undamaged");
        file.reads.lock().clear();
        let mut cursor = Checked::new(table.cursor(Purpose::Maintain));
        cursor.seek_first().expect("undamaged");
        follow(&mut cursor, true, entries.iter()).expect("undamaged");
        let reads = file.reads.lock().clone();
        assert!((5..12).contains(&reads.len()), "{reads:?}");
        assert_eq!(table.verify().expect("undamaged"), summary);
        assert_eq!(cache.figures().bytes, 0);
    }
}

/// R4, at every read that a walk makes: the error stays until the next seek, which starts afresh.
#[test]
fn a_failed_read_ends_a_walk_until_the_next_seek() {
    let entries: Vec<Owned> = (0..3000u32).map(|k| put(&k.to_be_bytes(), 1, &[1; 200])).collect();
    let options = TableOptions { block_bytes: 30_000, ..TableOptions::default() };
    let (file, summary) = build(&entries, &options);
    let cache = || Backend::Pread(Arc::new(BlockCache::new(0, 4096)));
    for (backend, purpose) in [
        (cache(), Purpose::Read),
        (cache(), Purpose::Maintain),
        (Backend::Mapped { fs: file.fs(), cache: None, read_ahead: true }, Purpose::Maintain),
    ] {
        let table = open(&file, &summary, backend).expect("undamaged");
        let mut failures = 0;
        for reads in 0.. {
            let mut cursor = Checked::new(table.cursor(purpose));
            *file.reads_left.lock() = reads;
            let walk = |cursor: &mut Checked<_>| {
                cursor.seek_first()?;
                follow(cursor, true, entries.iter())
            };
            let first = walk(&mut cursor);
            *file.reads_left.lock() = usize::MAX;
            let Err(error) = first else { break };
            assert!(matches!(error, Error::Io { .. }), "{error}");
            assert!(cursor.entry().is_none());
            walk(&mut cursor).expect("the disk is back");
            failures += 1;
        }
        assert!(failures >= 5, "{failures} reads in a walk");
    }
}

proptest! {
    #[test]
    fn a_table_answers_as_the_list_it_was_built_from(
        map in prop::collection::btree_map(
            arb_key(),
            prop::collection::btree_map(
                1..40u64,
                prop::option::of(prop::collection::vec(0..3u8, 0..90)),
                1..6,
            ),
            1..30,
        ),
        others in prop::collection::btree_set(arb_key(), 0..20),
        options in arb_options(),
    ) {
        let entries = entries_of(&map);
        let (file, summary) = build(&entries, &options);
        prop_assert_eq!(summary.bytes, file.bytes().len() as u64);
        let keys: BTreeSet<Vec<u8>> = map.keys().cloned().chain(others).collect();
        for backend in backends(&file) {
            let table = open(&file, &summary, backend).expect("undamaged");
            check_gets(&table, &entries, &keys);
            for key in map.keys() {
                for len in 0..=key.len() {
                    prop_assert!(table.may_contain_prefix(&key[..len]).expect("undamaged"));
                }
            }
            for purpose in [Purpose::Read, Purpose::Maintain] {
                let cursor = Checked::new(table.cursor(purpose));
                check_cursor(cursor, &entries, &keys).expect("undamaged");
            }
            prop_assert_eq!(table.verify().expect("undamaged"), summary.clone());
        }
    }
}
