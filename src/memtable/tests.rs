//! The memtable against a sorted vector, its memory, and readers beside the writer.

use super::*;
use crate::base::key::{Kind, SeqNo};
use crate::cursor::Cursor;
use crate::cursor::checked::Checked;
use crate::cursor::tests::{assert_same, entries, keys};
use crate::cursor::vec::{VecCursor, VecEntry};
use crate::env::sync::{Arc, AtomicU64, Ordering};
use crate::env::thread;
use proptest::prelude::*;

fn filled(entries: &[VecEntry], stem: &[u8]) -> Arc<Memtable> {
    let payload = entries.iter().map(|e| e.key.len() + e.value.len()).sum();
    let room = Memtable::room_for(entries.len(), payload);
    let (mut writer, table) = Memtable::with_stem(room, Box::from(stem));
    assert!(writer.table().has_room(entries.len(), payload));
    for entry in entries {
        writer.insert(&entry.key, entry.seq, entry.kind, &entry.value);
    }
    table
}

proptest! {
    #[test]
    fn a_memtable_reads_as_a_sorted_vector_does(
        entries in entries(),
        key in keys(),
        seq in 0u64..90,
        // K5: whether the keys begin with it or not.
        stem in keys(),
    ) {
        let table = filled(&entries, &stem);
        prop_assert_eq!(table.len(), entries.len());
        assert_same(table.cursor(), VecCursor::new(entries.clone()), &key, SeqNo(seq));

        let newest = entries.iter().rev().find(|e| e.key == key && e.seq <= SeqNo(seq));
        prop_assert_eq!(table.get(&key, SeqNo(seq)), newest.map(VecEntry::as_ref));
        let next = table.common_stem();
        let all_have_it = entries.iter().all(|entry| entry.key.starts_with(&next));
        prop_assert!(all_have_it || next[..] == stem[..]);
        let again = filled(&entries, &next);
        assert_same(again.cursor(), VecCursor::new(entries.clone()), &key, SeqNo(seq));
    }
}

#[test]
fn a_memtable_holds_what_it_was_asked_to_hold() {
    let (mut writer, table) = Memtable::with_room(4 << 20);
    let (key, value) = ([7; 16], [1; 112]);
    let mut seq = SeqNo::ZERO;
    while writer.table().has_room(1, key.len() + value.len()) {
        seq = seq.next();
        writer.insert(&key, seq, Kind::Put, &value);
    }
    assert!(table.len() > 25_000, "{}", table.len());
    assert!((3 << 20..=4 << 20).contains(&table.bytes()), "{}", table.bytes());
    assert_eq!(table.get(&key, seq).map(|e| e.seq), Some(seq));
    assert_eq!(table.get(&key, SeqNo(3)).map(|e| e.seq), Some(SeqNo(3)));
}

#[test]
fn room_for_a_batch_is_enough_and_no_more() {
    for entries in [0usize, 1, 2, 3, 100, 5000] {
        for len in [0, 1, 300] {
            let payload = entries * (len + 2);
            let (writer, _) = Memtable::with_room(Memtable::room_for(entries, payload));
            assert!(writer.table().has_room(entries, payload));
            assert!(!writer.table().has_room(entries, payload + 1));

            let (mut writer, table) = Memtable::with_room_for(entries, payload);
            assert!(writer.table().has_room(entries, payload));
            assert!(!writer.table().has_room(entries + 1, 0));
            assert!(!writer.table().has_room(entries, payload + 1));
            assert!(!writer.table().has_room(usize::MAX, usize::MAX));
            for i in 0..entries {
                let key = (i as u16).to_le_bytes();
                assert!(writer.table().has_room(1, len + 2));
                writer.insert(&key, SeqNo(i as u64 + 1), Kind::Put, &vec![i as u8; len]);
            }
            assert!(!writer.table().has_room(1, 0));
            assert_eq!(table.len(), entries);
        }
    }
    let long = vec![0xff; 65_535];
    let (mut writer, table) = Memtable::with_room_for(1, long.len());
    writer.insert(&long, SeqNo(1), Kind::Put, b"");
    assert_eq!(table.get(&long, SeqNo(1)).map(|e| e.key.len()), Some(65_535));
}

#[test]
fn readers_beside_the_writer_see_order_and_everything_published() {
    const ENTRIES: u64 = 3000;
    let (mut writer, table) = Memtable::with_room(1 << 20);
    let published = Arc::new(AtomicU64::new(0));
    let reader = {
        let published = published.clone();
        thread::spawn("reader", move || {
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
        .expect("a thread")
    };
    for i in 1..=ENTRIES {
        let key = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
        writer.insert(&key, SeqNo(i), Kind::Put, &key);
        published.store(i, Ordering::Release);
    }
    reader.join().expect("the reader found nothing wrong");
}
