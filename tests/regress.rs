//! Bugs that were found by reading, each as the shortest use of the public API that shows it.
#![allow(clippy::disallowed_methods)]

use kiban::{Error, Kiban, KibanOptions, Reads, WriteBatch};
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
        for i in 0..300u32 {
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

/// C1: the log of a checkpoint or backup is synced before the copy is one, but nothing in the copy
/// knew: damage passed for a torn tail, and writes were dropped.
#[test]
fn damage_in_the_log_of_a_backup_is_corruption() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| dir.path().join(name);
    let mut db = Kiban::open(at("db"), small()).expect("created");
    for i in 0..5u32 {
        db.put(i.to_be_bytes(), b"value").expect("put");
    }
    db.backup(at("backup")).expect("copied");
    let log = files(&at("backup"), "log").pop().expect("copied");
    let mut bytes = std::fs::read(&log).expect("read");
    let last = bytes.iter().rposition(|&byte| byte != 0).expect("a log is not empty");
    bytes[last] ^= 1;
    std::fs::write(&log, &bytes).expect("written");
    assert!(Kiban::open_read_only(at("backup"), small()).expect_err("damaged").is_corruption());
    let restored = kiban::restore(at("backup"), at("restored"), small());
    assert!(restored.expect_err("damaged").is_corruption());
    std::fs::remove_file(&log).expect("removed");
    assert!(Kiban::open(at("backup"), small()).expect_err("no log").is_corruption());
}

/// A backup had no lock file, so that it could not be read, or restored from, where nothing can be
/// written.
#[test]
fn a_backup_brings_its_lock_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut db = Kiban::open(dir.path().join("db"), small()).expect("created");
    db.backup(dir.path().join("backup")).expect("copied");
    assert!(dir.path().join("backup/LOCK").exists());
    Kiban::open(dir.path().join("backup"), small()).expect("it is not held");
}

/// G2: an iterator older than a compaction opened the tables again that the compaction had let go,
/// and they stayed mapped after they were unlinked: their space never came back.
#[test]
fn a_removed_table_is_not_kept_open() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let mut db = Kiban::open(&path, small().reads(Reads::Mapped)).expect("created");
    db.put(b"k", b"v").expect("put");
    db.flush().expect("flushed");
    let old = files(&path, "tbl").pop().expect("flushed");
    let iter = db.range::<&[u8]>(..).expect("open");
    db.compact_range::<&[u8]>(..).expect("compacted");
    assert_eq!(iter.count(), 1);
    db.compact_range::<&[u8]>(..).expect("compacted");
    assert!(!old.exists());
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let name = old.display().to_string();
    assert!(!maps.lines().any(|line| line.contains(&name)), "G2");
}

/// Option values that no later open, or no later read, could live with.
#[test]
fn options_that_can_not_work_are_refused_and_odd_ones_work() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (n, (options, works)) in [
        (small().manifest_bytes_max(2 << 30), false),
        (small().manifest_bytes_max(u64::MAX), false),
        (small().scan_prefix_len(Some((1 << 32) + 4)), false),
        (small().tier_runs(usize::MAX).runs_stop(usize::MAX), false),
        (small().tier_runs(usize::MAX - 1).runs_stop(usize::MAX), false),
        (small().scan_prefix_len(Some(65_535)), true),
        (small().runs_stop(usize::MAX), true),
        (small().reads(Reads::Pread).cache_bytes(0).open_files_max(1), true),
        (small().open_files_max(usize::MAX).memtables_max(usize::MAX), true),
        (small().compaction_slice_bytes(u64::MAX).log_budget_bytes(u64::MAX), true),
    ]
    .into_iter()
    .enumerate()
    {
        let path = dir.path().join(n.to_string());
        let opened = Kiban::open(&path, options);
        assert_eq!(opened.is_ok(), works, "{n}: {opened:?}");
        if let Ok(mut db) = opened {
            for i in 0..400u32 {
                db.put(i.to_be_bytes(), [1; 60]).expect("put");
            }
            db.flush().expect("flushed");
            assert_eq!(db.prefix([0; 2]).expect("open").count(), 400, "{n}");
        }
    }
}

/// C1: a name with a number that nothing can come after was a panic.
#[test]
fn a_name_with_the_largest_number_is_not_ours() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    drop(Kiban::open(&path, small()).expect("created"));
    let stray = path.join(format!("{}.tbl", u64::MAX));
    std::fs::write(&stray, b"").expect("written");
    drop(Kiban::open(&path, small()).expect("opened"));
    assert!(stray.exists());
}

/// Bounds that no key can have, in every place that takes one.
#[test]
fn bounds_beyond_every_key_and_the_wrong_way_round_are_ranges() {
    use std::ops::Bound::{Excluded, Included};
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let options = || small().point_index(true).scan_prefix_len(Some(2));
    let mut db = Kiban::open(&path, options()).expect("created");
    let longest = vec![0xff; 65_535];
    for key in [&b""[..], b"\0", b"aa", b"ab", b"\xff\xff", &longest] {
        db.put(key, b"v").expect("put");
    }
    let over = vec![0xff; 70_000];
    assert!(matches!(db.put(&over, b"v"), Err(Error::TooLarge { .. })));
    for round in 0..3 {
        let count = |lo: &[u8], hi: &[u8]| {
            let range = || db.range::<&[u8]>((Included(lo), Excluded(hi))).expect("open");
            let (forward, backward) = (range().count(), range().rev().count());
            assert_eq!(forward, backward, "S2 {round}");
            forward
        };
        assert_eq!(count(b"b", b"a"), 0);
        assert_eq!(count(b"", b""), 0);
        assert_eq!(count(b"", &over), 6);
        assert_eq!(count(&over, b""), 0);
        let beyond = (Excluded(over.as_slice()), Included(over.as_slice()));
        assert_eq!(db.range::<&[u8]>(beyond).expect("open").count(), 0);
        assert_eq!(db.prefix(&over).expect("open").count(), 0);
        assert_eq!(db.prefix(b"\xff\xff").expect("open").count(), 2);
        assert_eq!(db.prefix(b"\xff").expect("open").rev().count(), 2);
        assert_eq!(db.prefix(b"").expect("open").count(), 6);
        assert_eq!(db.get(&over).expect("read"), None);
        let mut iter = db.prefix(b"a").expect("open");
        iter.seek(&over);
        assert!(iter.next().is_none() && iter.next_back().is_none());
        iter.seek_back(b"");
        assert!(iter.next().is_none() && iter.next_back().is_none());
        iter.seek(b"");
        assert_eq!(iter.count(), 2);
        match round {
            0 => {
                db.flush().expect("flushed");
                let over = vec![b'a'; 70_000];
                db.compact_range(over.as_slice()..).expect("compacted");
                db.compact_range(&b"b"[..]..&b"a"[..]).expect("compacted");
                db.compact_range(..&b""[..]).expect("compacted");
            }
            _ => {
                db.close().expect("closed");
                db = Kiban::open(&path, options().scan_prefix_len(None)).expect("opened");
            }
        }
    }
}

/// C1: at the stop threshold damage was called a stall, which a caller tries again for ever.
#[test]
fn damage_that_keeps_runs_from_being_merged_is_the_error_of_a_write() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let options = small().tier_runs(2).runs_stop(3).inline_maintenance(false).reads(Reads::Pread);
    let mut db = Kiban::open(&path, options).expect("created");
    for i in 0..3u8 {
        db.put(b"k", [i]).expect("put");
        db.flush().expect("flushed");
        for table in files(&path, "tbl") {
            let mut bytes = std::fs::read(&table).expect("read");
            bytes[..4].fill(0xee);
            std::fs::write(&table, &bytes).expect("written");
        }
    }
    for _ in 0..6 {
        let error = db.put(b"more", b"value").expect_err("no run can be merged");
        assert!(error.is_corruption() && !error.is_retryable(), "{error}");
    }
    assert!(db.poisoned().is_none());
}

/// A value as long as the limit says was refused as a batch over its own, equal limit.
#[test]
fn the_longest_value_fits() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = small().value_bytes_max(70_000).batch_bytes_max(70_000);
    let mut db = Kiban::open(dir.path().join("db"), options).expect("created");
    db.put(vec![1; 65_535], vec![2; 70_000]).expect("at both limits");
    assert!(matches!(db.put(b"k", vec![2; 70_001]), Err(Error::TooLarge { what: "value", .. })));
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"").put(b"b", vec![2; 69_999]);
    assert!(matches!(db.write(&batch), Err(Error::TooLarge { what: "batch", .. })));
}

/// C1: a check of everything left out the manifest and the file that names it.
#[test]
fn verify_reads_the_manifest_and_current() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let mut db = Kiban::open(&path, small()).expect("created");
    for i in 0..300u32 {
        db.put(i.to_be_bytes(), [1; 60]).expect("put");
    }
    db.compact_range(&[0; 4][..]..&[0, 0, 0, 100][..]).expect("compacted");
    db.verify().expect("whole");
    let current = path.join("CURRENT");
    let manifest = files(&path, "manifest").pop().expect("there is one");
    for (file, last) in [(&manifest, true), (&manifest, false), (&current, false)] {
        let bytes = std::fs::read(file).expect("read");
        let mut damaged = bytes.clone();
        let at = damaged.iter().rposition(|&byte| byte != 0).expect("it is not empty");
        damaged[if last { at } else { 30 }] ^= 1;
        std::fs::write(file, &damaged).expect("written");
        assert!(db.verify().expect_err("damaged").is_corruption());
        std::fs::write(file, &bytes).expect("written");
        db.verify().expect("whole again");
    }
}

/// A table in several slices was counted once for each.
#[test]
fn stats_count_a_table_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let mut db = Kiban::open(&path, small().table_bytes_max(1 << 20)).expect("created");
    for key in [b"a", b"b", b"c"] {
        db.put(key, b"v").expect("put");
    }
    db.flush().expect("flushed");
    db.compact_range(&b"b"[..]..&b"c"[..]).expect("compacted");
    let bytes = |path: &PathBuf| std::fs::metadata(path).expect("there").len();
    let tables = files(&path, "tbl");
    assert_eq!(db.stats().tables as usize, tables.len());
    assert_eq!(db.stats().table_bytes, tables.iter().map(bytes).sum::<u64>());
}

/// P1: a manifest that could not be made, though the one in use had room, poisoned the handle.
#[test]
fn a_manifest_that_can_not_be_made_is_made_later() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let mut db = Kiban::open(&path, small().manifest_bytes_max(256)).expect("created");
    // Each name that the next ones could have is taken.
    let taken = |n: u32| path.join(format!("{n:06}.manifest"));
    let free: Vec<_> = (1..200).map(taken).filter(|path| !path.exists()).collect();
    for path in &free {
        std::fs::write(path, b"").expect("written");
    }
    for i in 0..10u32 {
        db.put(i.to_be_bytes(), b"value").expect("put");
        db.flush().expect("flushed");
    }
    assert_eq!((db.stats().manifests, db.poisoned().is_some()), (0, false), "P1");
    for path in &free {
        std::fs::remove_file(path).expect("removed");
    }
    for i in 0..10u32 {
        db.put(i.to_be_bytes(), b"value").expect("put");
        db.flush().expect("flushed");
    }
    assert!(db.stats().manifests > 0);
    db.close().expect("closed");
    let db = Kiban::open(&path, small()).expect("opened");
    assert_eq!(db.range::<&[u8]>(..).expect("open").count(), 10);
}
