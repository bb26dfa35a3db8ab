//! One `get_with` from a warm table of 100,000 records in a single run.
//!
//! Keys are 16 bytes, values 100; the keys asked for go round in an order without locality. The
//! first figure is the default read path, the second one with the point index. Then the same with
//! several readers of one handle at once, each figure the time per read of all of them together:
//! on as many idle cores it should halve as readers double.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use criterion::{Criterion, criterion_group, criterion_main};
use kiban::{Kiban, KibanOptions, WriteBatch};
use std::hint::black_box;
use std::time::Instant;

const RECORDS: u64 = 100_000;

fn key(n: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    key[8..].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// One run of tables, everything in it read once.
fn warm(path: &std::path::Path, options: KibanOptions) -> Kiban {
    let mut db = Kiban::open(path, options.memtable_bytes(64 << 20).table_bytes_max(64 << 20))
        .expect("a temporary directory is writable");
    let mut batch = WriteBatch::new();
    for n in 0..RECORDS {
        batch.put(key(n), [n as u8; 100]);
        if batch.len() == 1000 {
            db.write(&batch).expect("written");
            batch.clear();
        }
    }
    db.compact_range::<&[u8]>(..).expect("compacted");
    let stats = db.stats();
    assert_eq!((stats.runs, stats.tables), (1, 1), "a single run of a single table");
    for n in 0..RECORDS {
        assert!(db.get_with(key(n), |_| ()).expect("read").is_some());
    }
    db
}

fn point_read(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let forms = [("default", false), ("point_index", true)];
    for (name, point_index) in forms {
        let options = KibanOptions::new().point_index(point_index);
        let db = warm(&dir.path().join(name), options);
        let mut n = 0;
        c.bench_function(&format!("get_with/{name}"), |b| {
            b.iter(|| {
                n = (n + 7919) % RECORDS;
                db.get_with(key(n), |value| black_box(value[0])).expect("read")
            });
        });
        for readers in [2, 4] {
            c.bench_function(&format!("get_with/{name}/{readers}_readers"), |b| {
                b.iter_custom(|reads| {
                    let begun = Instant::now();
                    std::thread::scope(|scope| {
                        for reader in 0..readers {
                            let db = &db;
                            scope.spawn(move || read(db, reader * 1009, reads / readers + 1));
                        }
                    });
                    begun.elapsed()
                });
            });
        }
    }
}

fn read(db: &Kiban, mut n: u64, reads: u64) {
    for _ in 0..reads {
        n = (n + 7919) % RECORDS;
        db.get_with(key(n), |value| black_box(value[0])).expect("read");
    }
}

criterion_group!(benches, point_read);
criterion_main!(benches);
