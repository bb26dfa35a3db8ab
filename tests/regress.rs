//! Bugs that were found by reading, each as the shortest use of the public API that shows it.
#![allow(clippy::disallowed_methods)]

use kiban::{Kiban, KibanOptions};

fn small() -> KibanOptions {
    KibanOptions::new().memtable_bytes(4096).log_bytes(4096).table_bytes_max(1024).block_bytes(64)
}

/// B1: logs far smaller than a memtable used up the reserved file numbers, or all file handles,
/// before the first flush, and every write from then on was refused.
#[test]
fn logs_much_smaller_than_a_memtable_do_not_end_the_writes() {
    for inline in [true, false] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = KibanOptions::new().log_bytes(1024).inline_maintenance(inline);
        let mut db = Kiban::open(dir.path().join("db"), options).expect("created");
        for i in 0..1000u32 {
            db.put(i.to_be_bytes(), [7; 600]).expect("put");
        }
        assert!(db.stats().logs <= 66, "B1: {:?}", db.stats());
    }
}
