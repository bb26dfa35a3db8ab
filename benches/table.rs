//! What reading and building one table costs: 100,000 records of 16 + 200 bytes, warm.
//!
//! `get_with` goes over all keys in a scattered order, so that neither a key's cache lines nor its
//! branches are known from the last round.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kiban::base::key::{EntryRef, FileNumber, Kind, SeqNo, TableId};
use kiban::env::Env;
use kiban::env::fs::Fs;
use kiban::rig::{
    Backend, BlockCache, Cursor, Purpose, Table, TableBuilder, TableCache, TableIdentity,
    TableOptions, key_hash,
};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

const RECORDS: u64 = 100_000;
const ID: TableId = TableId(42);

fn key(record: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    let mut rest = record;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Visits every record once, in an order without a pattern.
fn scattered(i: u64) -> u64 {
    i * 61_681 % RECORDS
}

fn build(fs: &dyn Fs, path: &Path, options: &TableOptions) -> TableIdentity {
    let file = fs.create(path).expect("a fresh name in a fresh directory");
    let mut builder = TableBuilder::new(file, ID, options);
    for record in 0..RECORDS {
        let (key, value) = (key(record), [record as u8; 200]);
        let seq = SeqNo(1 + scattered(record));
        builder
            .add(EntryRef { key: &key, seq, kind: Kind::Put, value: &value })
            .expect("disk has room");
    }
    let summary = builder.finish().expect("disk has room");
    let (bytes, footer_crc) = (summary.bytes, summary.footer_crc);
    TableIdentity { number: FileNumber(7), id: ID, bytes, footer_crc }
}

fn gets(c: &mut Criterion, name: &str, mut get: impl FnMut(&[u8]) -> Option<usize>) {
    let keys: Vec<[u8; 16]> = (0..RECORDS).map(|i| key(scattered(i))).collect();
    let mut at = 0;
    c.bench_function(name, |b| {
        b.iter(|| {
            at = if at + 1 == keys.len() { 0 } else { at + 1 };
            assert_eq!(get(black_box(&keys[at])), Some(200));
        });
    });
}

fn table(c: &mut Criterion) {
    let fs = Env::os().fs;
    let dir = tempfile::tempdir().expect("a writable temporary directory");
    let path = dir.path().join("000007.tbl");
    for (name, restart_interval, point_index) in [
        ("points/4", 4, true),
        ("points/8", 8, true),
        ("points/16", 16, true),
        ("bloom/8", 8, false),
    ] {
        let options = TableOptions { restart_interval, point_index, ..TableOptions::default() };
        let identity = build(&*fs, &path, &options);
        println!("{name}: {} bytes", identity.bytes);
        let file = || fs.open(&path, kiban::env::fs::OpenMode::Read).expect("just written");
        let mapped = || Backend::Mapped { fs: fs.clone(), cache: None, read_ahead: true };
        let open = |backend| Table::open(&file(), &identity, backend).expect("just written");
        let get = |table: &Table, key: &[u8]| {
            let found = table.get_with(key, key_hash(key), SeqNo::MAX, |e| e.value.len());
            found.expect("undamaged")
        };
        let table = open(mapped());
        gets(c, &format!("get_with/mapped/{name}"), |key| get(&table, key));
        gets(c, &format!("miss/mapped/{name}"), |key| {
            let mut absent = [0; 17];
            absent[..16].copy_from_slice(key);
            assert_eq!(get(&table, &absent), None);
            Some(200)
        });
        c.bench_function(&format!("open/mapped/{name}"), |b| b.iter(|| open(mapped())));
        if name == "points/8" {
            let cache = Arc::new(BlockCache::new(64 << 20, 4096));
            let cached = open(Backend::Pread(cache));
            gets(c, &format!("get_with/pread/{name}"), |key| get(&cached, key));
            let tables = TableCache::new(fs.clone(), dir.path().into(), mapped(), 100);
            gets(c, "get_with/table_cache", |key| {
                get(&tables.get(&identity).expect("undamaged"), key)
            });
        }
        let mut group = c.benchmark_group("whole");
        group.throughput(Throughput::Elements(RECORDS)).sample_size(20);
        for purpose in [Purpose::Read, Purpose::Maintain] {
            group.bench_function(format!("walk/{purpose:?}/{name}"), |b| {
                b.iter(|| {
                    let mut cursor = table.cursor(purpose);
                    cursor.seek_first().expect("undamaged");
                    while let Some(entry) = cursor.entry() {
                        black_box(entry.value.len());
                        cursor.next().expect("undamaged");
                    }
                });
            });
        }
        group.bench_function(format!("build/{name}"), |b| {
            b.iter_batched(
                || fs.unlink(&path).expect("written before"),
                |()| build(&*fs, &path, &options),
                criterion::BatchSize::PerIteration,
            );
        });
        group.finish();
        fs.unlink(&path).expect("just written");
    }
}

criterion_group!(benches, table);
criterion_main!(benches);
