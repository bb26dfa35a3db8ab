//! Damaged tables: every byte flipped, every length cut, any bytes at all.
//!
//! C1: a damaged table answers as the undamaged one does, or with `Error::Corruption`.

use super::mem::MemFile;
use super::*;
use crate::table::format::{FOOTER_BYTES, Footer, Properties};

/// A table with several blocks, versions across blocks, removals, and every kind of section.
fn sample(options: &TableOptions) -> (Vec<Owned>, MemFile, TableSummary) {
    let mut entries = Vec::new();
    for key in 0..6u64 {
        let name = format!("agent{key:03}");
        for seq in (1..=4).rev() {
            let seq = key * 4 + seq;
            entries.push(put(name.as_bytes(), seq, &[b'v'; 9]));
            if seq % 3 == 0 {
                let last = entries.last_mut().expect("just pushed");
                (last.kind, last.value) = (Kind::Delete, Vec::new());
            }
        }
    }
    let (file, summary) = build(&entries, options);
    (entries, file, summary)
}

fn all_options() -> Vec<TableOptions> {
    let base = TableOptions {
        block_bytes: 64,
        restart_interval: 3,
        prefix_len: Some(6),
        ..TableOptions::default()
    };
    let mut all = vec![base.clone(), TableOptions { point_index: false, ..base.clone() }];
    for compression in [Compression::Lz4, Compression::Zstd] {
        if compression.is_built_in() {
            all.push(TableOptions { compression, block_bytes: 200, ..base.clone() });
        }
    }
    all
}

/// Asks a table everything; an error must be corruption of that file.
fn interrogate(
    file: &MemFile,
    summary: &TableSummary,
    backend: Backend,
    entries: &[Owned],
) -> bool {
    let damaged = |e: Error| {
        let Error::Corruption { file, offset, .. } = e else { panic!("not corruption: {e}") };
        assert!(file.ends_with("000007.tbl") && offset <= summary.bytes);
        true
    };
    let table = match open(file, summary, backend) {
        Ok(table) => table,
        Err(e) => return damaged(e),
    };
    let mut found = false;
    for entry in entries {
        let expected = newest(entries, &entry.key, entry.seq);
        match table.get_with(&entry.key, key_hash(&entry.key), entry.seq, Owned::of) {
            Ok(got) => assert_eq!(got.as_ref(), expected),
            Err(e) => found |= damaged(e),
        }
        match table.may_contain_prefix(&entry.key[..6]) {
            Ok(may) => assert!(may, "a damaged filter hides a prefix"),
            Err(e) => found |= damaged(e),
        }
    }
    for purpose in [Purpose::Read, Purpose::Maintain] {
        let mut cursor = Checked::new(table.cursor(purpose));
        for forward in [true, false] {
            found |= walk(&mut cursor, forward, entries).map_or_else(damaged, |()| false);
        }
        for entry in entries {
            match cursor.seek(&entry.key, entry.seq) {
                Ok(()) => assert_eq!(cursor.entry().map(Owned::of).as_ref(), Some(entry)),
                Err(e) => found |= damaged(e),
            }
        }
    }
    match table.verify() {
        Ok(again) => assert_eq!(&again, summary),
        Err(e) => found |= damaged(e),
    }
    found
}

/// What a walk shows before it fails must be right too.
fn walk(cursor: &mut impl Cursor, forward: bool, entries: &[Owned]) -> Result<()> {
    let at = |i: usize| if forward { i } else { entries.len() - 1 - i };
    if forward {
        cursor.seek_first()?
    } else {
        cursor.seek_last()?
    }
    for i in 0..entries.len() {
        assert_eq!(cursor.entry().map(Owned::of).as_ref(), Some(&entries[at(i)]));
        if forward { cursor.next()? } else { cursor.prev()? }
    }
    assert_eq!(cursor.entry(), None);
    Ok(())
}

/// Both kinds of reading, each with nothing remembered from before.
fn fresh(file: &MemFile) -> [Backend; 2] {
    let cache = Arc::new(BlockCache::new(1 << 20, 64));
    [Backend::Mapped { fs: file.fs(), cache: None, read_ahead: true }, Backend::Pread(cache)]
}

#[test]
fn a_flipped_bit_of_any_byte_is_found_and_never_gives_a_wrong_answer() {
    for options in all_options() {
        let (entries, file, summary) = sample(&options);
        for backend in fresh(&file) {
            assert!(!interrogate(&file, &summary, backend, &entries));
        }
        let whole = file.bytes();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let file = MemFile::new(bytes);
            for backend in fresh(&file) {
                let found = interrogate(&file, &summary, backend, &entries);
                assert!(found, "a flip at {at} of {} was not found", whole.len());
            }
        }
    }
}

#[test]
fn a_cut_or_longer_file_and_anothers_bytes_are_refused() {
    let options = &all_options()[0];
    let (_, file, summary) = sample(options);
    let whole = file.bytes();
    let refuse = |bytes: Vec<u8>| {
        let file = MemFile::new(bytes);
        for backend in fresh(&file) {
            let e = open(&file, &summary, backend).expect_err("not the whole table");
            assert!(e.is_corruption(), "{e}");
        }
    };
    for len in 0..whole.len() {
        refuse(whole[..len].to_vec());
    }
    refuse([&whole[..], &[0]].concat());
    refuse(vec![0; whole.len()]);
    // The same entries as another table, and the same table in an older state.
    let mut builder = TableBuilder::new(MemFile::new(Vec::new()).file(), TableId(1), options);
    builder.add(put(b"k", 1, b"v").entry()).expect("memory takes everything");
    let other = builder.finish().expect("memory takes everything");
    for wrong in [
        TableIdentity { id: TableId(1), ..identity(&summary) },
        TableIdentity { footer_crc: other.footer_crc, ..identity(&summary) },
    ] {
        for backend in fresh(&file) {
            let e = Table::open(&file.file(), &wrong, backend).expect_err("another table");
            assert!(e.is_corruption(), "{e}");
        }
    }
}

#[test]
fn a_newer_format_is_refused_as_such_and_a_damaged_version_as_damage() {
    let (_, file, summary) = sample(&all_options()[0]);
    let mut bytes = file.bytes();
    let start = bytes.len() - FOOTER_BYTES;
    bytes[start + 52] = 9;
    let flipped = MemFile::new(bytes.clone());
    let e = open(&flipped, &summary, fresh(&flipped)[0].clone()).expect_err("damaged");
    assert!(e.is_corruption(), "{e}");
    // A newer version seals its footer as this one does.
    let crc = crate::base::checksum::checksum(
        crate::base::checksum::Context::Table(ID, start as u64, 8),
        &[&bytes[start..start + 48], &bytes[start + 52..]],
    );
    bytes[start + 48..start + 52].copy_from_slice(&crc.to_le_bytes());
    let newer = MemFile::new(bytes);
    let e = open(&newer, &summary, fresh(&newer)[0].clone()).expect_err("newer");
    assert!(matches!(e, Error::UnsupportedFormat { found: 9, supported: 0, .. }), "{e}");
}

#[test]
fn entries_out_of_order_are_refused_by_the_builder() {
    for (first, second) in
        [(put(b"b", 1, b""), put(b"a", 2, b"")), (put(b"a", 1, b""), put(b"a", 1, b""))]
    {
        let mut builder =
            TableBuilder::new(MemFile::new(Vec::new()).file(), ID, &TableOptions::default());
        builder.add(first.entry()).expect("the first one");
        assert!(builder.add(second.entry()).expect_err("out of order").is_corruption());
    }
}

proptest! {
    #[test]
    fn any_bytes_as_footer_or_properties_decode_or_are_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        offset: u32,
    ) {
        let _ = Properties::decode(&bytes, offset);
        if let Some(bytes) = bytes.first_chunk() {
            let _ = Footer::decode(bytes, offset);
        }
    }

    /// Bytes that pass every checksum, but say something else: no panic, no endless loop.
    #[test]
    fn a_table_sealed_over_changed_bytes_answers_or_is_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        which in 0..2usize,
    ) {
        let (entries, file, _) = sample(&all_options()[which]);
        let mut bytes = file.bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len() - FOOTER_BYTES);
            bytes[at] = byte;
        }
        reseal(&mut bytes);
        let file = MemFile::new(bytes);
        let Ok(identity) = Table::identify(&*file.file(), FileNumber(7)) else {
            return Ok(());
        };
        for backend in fresh(&file) {
            let Ok(table) = Table::open(&file.file(), &identity, backend) else {
                continue;
            };
            for entry in &entries {
                let hash = key_hash(&entry.key);
                let _ = table.get_with(&entry.key, hash, entry.seq, Owned::of);
                let _ = table.may_contain_prefix(&entry.key);
                for purpose in [Purpose::Read, Purpose::Maintain] {
                    let mut cursor = table.cursor(purpose);
                    let sought = cursor.seek(&entry.key, entry.seq);
                    let _ = sought.and_then(|()| run(&mut cursor, true));
                    let _ = cursor.seek_before(&entry.key).and_then(|()| run(&mut cursor, false));
                }
            }
            let _ = table.verify();
        }
    }
}

/// Walks on, but not for ever.
fn run(cursor: &mut impl Cursor, forward: bool) -> Result<()> {
    for _ in 0..1000 {
        if cursor.entry().is_none() {
            return Ok(());
        }
        if forward { cursor.next()? } else { cursor.prev()? }
    }
    panic!("a walk does not end");
}

/// Gives every piece that can be found the checksum that its bytes now have.
fn reseal(bytes: &mut [u8]) {
    use crate::base::checksum::{Context, checksum};
    let crc = |bytes: &[u8], offset: usize, kind| {
        checksum(Context::Table(ID, offset as u64, kind), &[bytes])
    };
    let footer_at = bytes.len() - FOOTER_BYTES;
    let tail: [u8; FOOTER_BYTES] = bytes[footer_at..].try_into().expect("a footer's length");
    let piece = Footer::decode(&tail, footer_at as u32).expect("footer is unchanged").properties;
    let start = piece.offset as usize;
    if let Ok(mut p) = Properties::decode(&bytes[start..footer_at], piece.offset) {
        let index = p.sections[0].expect("checked").offset as usize;
        for block in 0..p.blocks as usize {
            let record = index + p.blocks as usize * 8 + block * 32;
            let word = |at: usize| {
                u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
            };
            let (offset, len) = (word(record + 8), word(record + 12));
            if let Some(block) = bytes.get(offset..offset + len) {
                let crc = crc(block, offset, 1);
                bytes[record + 16..record + 20].copy_from_slice(&crc.to_le_bytes());
            }
        }
        for (i, piece) in p.sections.iter_mut().enumerate() {
            if let Some(piece) = piece {
                let range = piece.offset as usize..piece.end() as usize;
                piece.crc = crc(&bytes[range], piece.offset as usize, i as u8 + 2);
            }
        }
        let mut encoded = Vec::new();
        p.encode(&mut encoded);
        if encoded.len() == footer_at - start {
            bytes[start..footer_at].copy_from_slice(&encoded);
        }
    }
    let crc = crc(&bytes[start..footer_at], start, 7);
    let piece = crate::table::format::Piece { crc, ..piece };
    let footer = Footer::encode(ID, piece, footer_at as u32);
    bytes[footer_at..].copy_from_slice(&footer);
}
