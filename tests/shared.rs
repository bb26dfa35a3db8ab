//! The shared handle on real files with real threads: what a caller sees.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the real outside")]

use kiban::{Error, KibanOptions, Reads, SharedKiban, WriteBatch, WriteOptions};
use std::time::Duration;

fn small() -> KibanOptions {
    KibanOptions::new()
        .memtable_bytes(4096)
        .log_bytes(4096)
        .table_bytes_max(4096)
        .tier_runs(3)
        .runs_slow(6)
        .runs_stop(8)
}

fn batch(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch
}

#[test]
fn many_writers_lose_nothing_through_flushes_compactions_and_a_reopen() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let db = SharedKiban::open(&path, small()).expect("opens");
    let writers: Vec<_> = (0..4u8)
        .map(|writer| {
            let db = db.clone();
            std::thread::spawn(move || {
                for n in 0..500u16 {
                    let key = [&[writer], &n.to_be_bytes()[..]].concat();
                    let durable = WriteOptions::new().durable(n % 50 == 0);
                    db.write_with(&batch(&key, vec![writer; 40]), durable).expect("written");
                    assert!(db.get(&key).expect("read").is_some(), "V2");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    assert!(db.wait_settled(Duration::from_secs(60)).expect("no failure"));
    let stats = db.stats();
    assert_eq!(stats.writes, 2000);
    assert!(stats.flushes > 5 && stats.compactions > 0 && stats.rotations > 5, "{stats:?}");
    assert_eq!(db.range::<&[u8]>(..).expect("open").count(), 2000);
    db.verify().expect("whole");
    db.close().expect("closes");
    let db = SharedKiban::open(&path, small()).expect("opens again: the lock is free");
    assert_eq!(db.range::<&[u8]>(..).expect("open").count(), 2000);
}

#[test]
fn close_ends_every_clone_and_says_the_same_to_all() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = SharedKiban::open(dir.path().join("db"), small()).expect("opens");
    let other = db.clone();
    db.put(b"k", b"v").expect("written");
    let snapshot = db.snapshot().expect("open");
    db.close().expect("closes");
    other.close().expect("closed already");
    assert!(matches!(other.put(b"k", b"w"), Err(Error::Closed)));
    assert!(matches!(other.get(b"k"), Err(Error::Closed)));
    assert!(matches!(snapshot.get(b"k"), Err(Error::Closed)));
    assert!(matches!(other.write_durable_with(&batch(b"k", b"v"), |_| {}), Err(Error::Closed)));
}

#[test]
fn the_last_clone_that_goes_closes_and_frees_the_lock() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let db = SharedKiban::open(&path, small()).expect("opens");
    let other = db.clone();
    db.put(b"k", b"v").expect("written");
    drop(db);
    assert!(matches!(SharedKiban::open(&path, small()), Err(Error::Locked { .. })));
    let snapshot = other.snapshot().expect("open");
    drop(other);
    let db = SharedKiban::open(&path, small()).expect("the lock is free");
    assert_eq!(db.get(b"k").expect("read").as_deref(), Some(&b"v"[..]));
    assert!(matches!(snapshot.get(b"k"), Err(Error::Closed)));
}

#[test]
fn receipts_come_once_each_in_order_and_may_call_the_engine() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = SharedKiban::open(dir.path().join("db"), small()).expect("opens");
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut sequences = Vec::new();
    for n in 0..200u32 {
        let (sender, engine) = (sender.clone(), db.clone());
        let key = n.to_be_bytes();
        let seq = db.write_durable_with(&batch(key, b"v"), move |result| {
            result.expect("no fault");
            match engine.get(key) {
                Ok(value) => assert!(value.is_some()),
                Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
            }
            sender.send(n).expect("the test waits");
            assert!(n != 7, "a receipt that panics");
        });
        sequences.push(seq.expect("written"));
        assert!(db.get(key).expect("read").is_some(), "visible when it returns");
    }
    assert!(sequences.is_sorted());
    db.close().expect("closes");
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
    assert_eq!(db.stats().receipt_panics, 1);
    let stats = db.stats();
    assert!(stats.syncs < 200, "{} syncs for 200 receipts", stats.syncs);
}

#[test]
fn a_receipt_may_drop_the_last_clone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let db = SharedKiban::open(&path, small()).expect("opens");
    let (sender, receiver) = std::sync::mpsc::channel();
    let last = db.clone();
    let wait = sender.clone();
    db.write_durable_with(&batch(b"k", b"v"), move |result| {
        result.expect("no fault");
        std::thread::sleep(Duration::from_millis(20));
        drop(last);
        wait.send(()).expect("the test waits");
    })
    .expect("written");
    drop(db);
    receiver.recv_timeout(Duration::from_secs(60)).expect("it came to its end");
    SharedKiban::open(&path, small()).expect("the lock is free");
}

#[test]
fn a_write_that_may_not_wait_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = SharedKiban::open(dir.path().join("db"), small()).expect("opens");
    let hasty = WriteOptions::new().stall_timeout(Duration::ZERO);
    let mut refused = 0u32;
    for n in 0..20_000u32 {
        match db.write_with(&batch(n.to_be_bytes(), [7; 200]), hasty) {
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error, Error::Stalled { .. }) && error.is_retryable(), "{error}");
                assert_eq!(db.get(n.to_be_bytes()).expect("read"), None);
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "maintenance always kept up");
    let stats = db.stats();
    assert_eq!(stats.writes + u64::from(refused), 20_000);
    assert!(stats.stalls > 0);
    db.close().expect("closes");
}

#[test]
fn without_workers_writers_do_what_they_can_not_go_without() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = small().background_maintenance(false).inline_maintenance(false);
    let db = SharedKiban::open(dir.path().join("db"), options).expect("opens");
    let writers: Vec<_> = (0..3u8)
        .map(|writer| {
            let db = db.clone();
            std::thread::spawn(move || {
                for n in 0..300u16 {
                    let key = [&[writer], &n.to_be_bytes()[..]].concat();
                    db.put(key, [7; 60]).expect("it works for room");
                    if n % 7 == 0 {
                        db.maintain_step().expect("a step");
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    assert_eq!(db.range::<&[u8]>(..).expect("open").count(), 900);
    assert!(db.stats().stalls > 0);
    db.close().expect("closes");
}

#[test]
fn sixteen_durable_writers_share_their_syncs() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = SharedKiban::open(dir.path().join("db"), KibanOptions::new()).expect("opens");
    let writers: Vec<_> = (0..16u8)
        .map(|writer| {
            let db = db.clone();
            std::thread::spawn(move || {
                for n in 0..20u8 {
                    db.put_durable([writer, n], b"value").expect("written");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    let stats = db.stats();
    assert_eq!(stats.writes, 320);
    assert!(stats.syncs < 320 && stats.group_writes_max > 1, "{stats:?}");
    assert!(stats.group_bytes_max > stats.record_bytes / stats.writes, "{stats:?}");
    assert!(stats.cohort_waits_in_vain <= stats.cohort_waits, "{stats:?}");
}

/// What is read from tables is asked of the cache, and the marks say how far things went.
#[test]
fn stats_tell_of_the_cache_and_of_the_highest_marks() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = KibanOptions::new().reads(Reads::Pread).background_maintenance(false);
    let db = SharedKiban::open(dir.path().join("db"), options).expect("opens");
    db.put("a", "1").expect("written");
    db.flush().expect("flushed");
    let flushed = db.stats();
    assert_eq!((flushed.memtables_frozen_max, flushed.runs_max, flushed.tables), (1, 1, 1));
    assert!(flushed.logs_max >= flushed.logs, "{flushed:?}");
    for _ in 0..2 {
        assert_eq!(db.get("a").expect("open").as_deref(), Some(&b"1"[..]));
    }
    let read = db.stats();
    assert!(read.cache_misses > 0 && read.cache_hits > 0 && read.cache_bytes > 0, "{read:?}");
    assert_eq!(read.tables_open, 1);
    // Everything came from memory the second time.
    db.get("a").expect("open");
    assert_eq!(db.stats().cache_misses, read.cache_misses);
}
