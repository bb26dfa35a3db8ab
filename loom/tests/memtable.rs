//! The memtable's publication under loom: one writer, a reader beside it.
//!
//! The cells of the arena are loom's, so a model fails on any read of an entry that the writer's
//! stores do not happen before, whatever values come out. Each model compares all outcomes with the
//! list of those that are allowed: one too many is a defect of ours, one too few means that the
//! model no longer reaches it.
//!
//! The models are not bounded in preemptions; they are in what they do. A few seconds together.

mod common;

use common::outcomes;
use kiban_loom::base::key::{Kind, SeqNo};
use kiban_loom::env::sync::{Arc, AtomicU64, Ordering};
use kiban_loom::rig::{Cursor, MemCursor, Memtable};
use loom::thread;
use std::collections::BTreeSet;

/// For three entries of 25 bytes.
const ARENA_BYTES: usize = 256;

/// K2, V2: what is linked is whole, what is published is found, and nothing newer.
///
/// The writer inserts a1, publishes 1, inserts b2 and a3 as one batch, and publishes 3. The reader
/// loads the published sequence p and asks for a and b at p. Allowed as (p, a, b): (0, no, no),
/// (1, a1, no), (3, a3, b2). Forbidden above all: a3 or b2 at p = 1, as they may be linked already.
#[test]
fn a_reader_finds_what_is_published_and_no_more() {
    let seen = outcomes(None, || {
        let (mut writer, table) = Memtable::with_room(ARENA_BYTES);
        let published = Arc::new(AtomicU64::new(0));
        let reader = {
            let published = published.clone();
            thread::spawn(move || {
                let p = published.load(Ordering::Acquire);
                let get = |key: &[u8]| {
                    let entry = table.get(key, SeqNo(p))?;
                    assert_eq!(entry.value, [entry.seq.0 as u8; 24]);
                    Some(entry.seq.0)
                };
                (p, get(b"a"), get(b"b"))
            })
        };
        writer.insert(b"a", SeqNo(1), Kind::Put, &[1; 24]);
        published.store(1, Ordering::Release);
        writer.insert(b"b", SeqNo(2), Kind::Put, &[2; 24]);
        writer.insert(b"a", SeqNo(3), Kind::Put, &[3; 24]);
        published.store(3, Ordering::Release);
        reader.join().expect("the reader found nothing wrong")
    });
    let allowed = [(0, None, None), (1, Some(1), None), (3, Some(3), Some(2))];
    assert_eq!(seen, BTreeSet::from(allowed));
}

/// b1 is there when the reader starts; the writer inserts c2, then a3. In key order: a3, b1, c2.
fn scans(scan: impl Fn(MemCursor) -> Vec<u64> + Copy + Send + Sync + 'static) -> Vec<Vec<u64>> {
    let seen = outcomes(None, move || {
        let (mut writer, table) = Memtable::with_room(ARENA_BYTES);
        writer.insert(b"b", SeqNo(1), Kind::Put, &[1; 24]);
        let reader = thread::spawn(move || scan(table.cursor()));
        writer.insert(b"c", SeqNo(2), Kind::Put, &[2; 24]);
        writer.insert(b"a", SeqNo(3), Kind::Put, &[3; 24]);
        reader.join().expect("the reader found nothing wrong")
    });
    seen.into_iter().collect()
}

fn note(cursor: &MemCursor, seen: &mut Vec<u64>) -> bool {
    let Some(entry) = cursor.entry() else { return false };
    assert_eq!(entry.value, [entry.seq.0 as u8; 24]);
    seen.push(entry.seq.0);
    true
}

/// K1, K3: a forward scan beside the writer sees whole entries in order.
///
/// Allowed: b1; b1 c2; a3 b1 c2. Forbidden: a3 b1, since c2 was linked before a3 was, and who met
/// a3 reads b1's link later.
#[test]
fn a_forward_scan_beside_the_writer_is_in_order() {
    let seen = scans(|mut cursor| {
        let mut seen = Vec::new();
        cursor.seek_first().expect("a memtable never fails");
        while note(&cursor, &mut seen) {
            cursor.next().expect("a memtable never fails");
        }
        seen
    });
    assert_eq!(seen, [vec![1], vec![1, 2], vec![3, 1, 2]]);
}

/// K1, K3: so does a backward scan, which searches from the head at every move.
///
/// Allowed: b1; b1 a3; c2 b1; c2 b1 a3. Here b1 a3 is right: c2 came after the end was looked for.
#[test]
fn a_backward_scan_beside_the_writer_is_in_order() {
    let seen = scans(|mut cursor| {
        let mut seen = Vec::new();
        cursor.seek_last().expect("a memtable never fails");
        while note(&cursor, &mut seen) {
            cursor.prev().expect("a memtable never fails");
        }
        seen
    });
    assert_eq!(seen, [vec![1], vec![1, 3], vec![2, 1], vec![2, 1, 3]]);
}
