use super::*;
use crate::base::key::{EntryRef, Kind, SeqNo};
use crate::cursor::Cursor;
use crate::cursor::checked::Checked;
use crate::cursor::vec::{VecCursor, VecEntry};
use crate::env::sync::Arc;
use proptest::collection::vec;
use proptest::prelude::*;

/// Short keys of few bytes, and longer ones that share all that the inline prefix holds.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::sample::select(vec![0x00, 0x01, b'a', 0xfe, 0xff]);
    (any::<bool>(), vec(bytes, 0..4)).prop_map(|(long, tail)| {
        let mut key = if long { b"prefixed".to_vec() } else { Vec::new() };
        key.extend(tail);
        key
    })
}

fn entries() -> impl Strategy<Value = Vec<VecEntry>> {
    let kind = prop_oneof![1 => Just(Kind::Delete), 3 => Just(Kind::Put)];
    vec((keys(), kind, 0usize..200), 0..80).prop_map(|records| {
        let numbered = records.into_iter().enumerate();
        numbered
            .map(|(i, (key, kind, len))| {
                let len = if kind == Kind::Put { len } else { 0 };
                VecEntry { key, seq: SeqNo(i as u64 + 1), kind, value: vec![i as u8; len] }
            })
            .collect()
    })
}

fn filled(entries: &[VecEntry]) -> Arc<Memtable> {
    let payload = entries.iter().map(|e| e.key.len() + e.value.len()).sum();
    let (mut writer, table) = Memtable::with_room(Memtable::room_for(entries.len(), payload));
    assert!(writer.has_room(entries.len(), payload));
    for entry in entries {
        writer.insert(&entry.key, entry.seq, entry.kind, &entry.value);
    }
    table
}

fn shown<C: Cursor>(cursor: &C) -> Option<VecEntry> {
    cursor.entry().map(|EntryRef { key, seq, kind, value }| VecEntry {
        key: key.to_vec(),
        seq,
        kind,
        value: value.to_vec(),
    })
}

proptest! {
    #[test]
    fn a_memtable_reads_as_a_sorted_vector_does(
        entries in entries(),
        key in keys(),
        seq in 0u64..90,
    ) {
        let table = filled(&entries);
        prop_assert_eq!(table.len(), entries.len());
        let mut ours = Checked::new(table.cursor());
        let mut truth = VecCursor::new(entries.clone());
        macro_rules! same {
            ($start:ident($($arg:expr),*) then $step:ident) => {
                ours.$start($($arg),*)?;
                truth.$start($($arg),*)?;
                while let Some(expected) = shown(&truth) {
                    prop_assert_eq!(shown(&ours), Some(expected));
                    ours.$step()?;
                    truth.$step()?;
                }
                prop_assert_eq!(shown(&ours), None);
            };
        }
        same!(seek_first() then next);
        same!(seek(&key, SeqNo(seq)) then next);
        same!(seek_last() then prev);
        same!(seek_before(&key) then prev);

        let newest = entries.iter().rev().find(|e| e.key == key && e.seq <= SeqNo(seq));
        prop_assert_eq!(table.get(&key, SeqNo(seq)), newest.map(VecEntry::as_ref));
    }
}

#[test]
fn memory_grows_with_the_entries_and_stays_within_the_room() {
    let (mut writer, table) = Memtable::with_room(4 << 20);
    assert!(table.bytes_allocated() <= 4096, "{}", table.bytes_allocated());
    let (key, value) = ([7; 16], [1; 112]);
    let mut seq = SeqNo::ZERO;
    while writer.has_room(1, key.len() + value.len()) {
        seq = seq.next();
        writer.insert(&key, seq, Kind::Put, &value);
    }
    assert!(table.len() > 25_000, "{}", table.len());
    assert!(table.bytes() <= 4 << 20, "{}", table.bytes());
    assert!(table.bytes_allocated() <= (4 << 20) + (4 << 18), "{}", table.bytes_allocated());
    assert_eq!(table.get(&key, seq).map(|e| e.seq), Some(seq));
    assert_eq!(table.get(&key, SeqNo(3)).map(|e| e.seq), Some(SeqNo(3)));
}

#[test]
fn entries_larger_than_the_next_chunk_get_one_that_holds_them() {
    let sizes = [0usize, 1, 5000, 2, 70_000, 300_000, 3, 140_000, 65_535];
    let payload = sizes.iter().sum::<usize>() + sizes.len() * 2;
    let (mut writer, table) = Memtable::with_room(Memtable::room_for(sizes.len(), payload));
    assert!(writer.has_room(sizes.len(), payload));
    for (i, &size) in sizes.iter().enumerate() {
        let seq = SeqNo(i as u64 + 1);
        writer.insert(&[i as u8, 0], seq, Kind::Put, &vec![i as u8; size]);
    }
    for (i, &size) in sizes.iter().enumerate() {
        let entry = table.get(&[i as u8, 0], SeqNo::MAX).expect("it was inserted");
        assert_eq!(entry.value, vec![i as u8; size]);
    }
    let long = vec![0xff; 65_535];
    let (mut writer, table) = Memtable::with_room(0);
    assert!(!writer.has_room(1, 0) && !writer.has_room(usize::MAX, usize::MAX));
    writer.insert(&long, SeqNo(1), Kind::Put, b"");
    assert_eq!(table.get(&long, SeqNo(1)).map(|e| e.key.len()), Some(65_535));
}

#[test]
fn readers_beside_the_writer_see_order_and_everything_published() {
    const ENTRIES: u64 = 3000;
    let (mut writer, table) = Memtable::with_room(1 << 20);
    let published = Arc::new(crate::env::sync::AtomicU64::new(0));
    let reader = {
        let published = published.clone();
        crate::env::thread::spawn(move || {
            use crate::env::sync::Ordering;
            loop {
                let seq = published.load(Ordering::Acquire);
                let mut cursor = Checked::new(table.cursor());
                cursor.seek_first().expect("a memtable never fails");
                let mut seen = 0;
                while let Some(entry) = cursor.entry() {
                    assert_eq!(entry.value, entry.key);
                    seen += u64::from(entry.seq.0 <= seq);
                    cursor.next().expect("a memtable never fails");
                }
                assert_eq!(seen, seq);
                if seq == ENTRIES {
                    return;
                }
            }
        })
    };
    for i in 1..=ENTRIES {
        let key = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
        writer.insert(&key, SeqNo(i), Kind::Put, &key);
        published.store(i, crate::env::sync::Ordering::Release);
    }
    reader.join().expect("the reader found nothing wrong");
}
