//! Bugs that were found by reading, each as the shortest use of the public API that shows it.
#![allow(clippy::disallowed_methods)]

use kiban::{Error, Kiban, KibanOptions};
use std::path::{Path, PathBuf};

fn small() -> KibanOptions {
    KibanOptions::new().memtable_bytes(4096).log_bytes(4096).table_bytes_max(1024).block_bytes(64)
}

/// The files in `dir` with this extension.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let names = std::fs::read_dir(dir).expect("a directory");
    let paths = names.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
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

/// C1: a table that the manifest names was not there, and the open went on and removed the files
/// that an older or damaged manifest does not name.
#[test]
fn a_missing_table_is_corruption_and_nothing_is_removed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let mut db = Kiban::open(&path, small()).expect("created");
    db.put(b"k", b"v").expect("put");
    db.flush().expect("flushed");
    db.close().expect("closed");
    let table = files(&path, "tbl").pop().expect("flushed");
    let stray = path.join("000099.tbl");
    std::fs::rename(&table, &stray).expect("renamed");
    let error = Kiban::open(&path, small()).expect_err("a table is missing");
    assert!(matches!(&error, Error::Corruption { file, .. } if *file == table), "{error}");
    assert!(Kiban::open_read_only(&path, small()).expect_err("the same").is_corruption());
    assert!(stray.exists());
    std::fs::rename(&stray, &table).expect("renamed");
    let db = Kiban::open(&path, small()).expect("whole again");
    assert_eq!(db.get(b"k").expect("read").expect("there"), *b"v");
}
