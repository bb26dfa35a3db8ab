//! A buffered put, the log included: 16-byte keys in an order without locality, 100-byte values.
//!
//! Maintenance runs on the caller as it does by default, so flushes and compactions are in the
//! figure; the second figure leaves them out with a memtable that is never full.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use kiban::{Kiban, KibanOptions};

/// Puts per database in the second figure.
const PUTS: u64 = 200_000;

fn key(n: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    key[8..].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn buffered_put(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let open = |name: &str, options| {
        Kiban::open(dir.path().join(name), options).expect("a temporary directory is writable")
    };
    let value = [7; 100];

    let mut db = open("with_maintenance", KibanOptions::new());
    let mut n = 0;
    c.bench_function("buffered_put/with_maintenance", |b| {
        b.iter(|| {
            n += 1;
            db.put(key(n), value).expect("written")
        });
    });
    db.close().expect("closed");

    let mut made = 0;
    let mut fresh = || {
        made += 1;
        let options = KibanOptions::new().memtable_bytes(256 << 20).log_bytes(256 << 20);
        open(&format!("log_and_memtable_{made}"), options.log_budget_bytes(1 << 30))
    };
    let mut group = c.benchmark_group("buffered_put");
    group.throughput(criterion::Throughput::Elements(PUTS)).sample_size(10);
    group.bench_function("log_and_memtable", |b| {
        b.iter_batched(
            &mut fresh,
            |mut db| {
                for n in 0..PUTS {
                    db.put(key(n), value).expect("written");
                }
                db
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, buffered_put);
criterion_main!(benches);
