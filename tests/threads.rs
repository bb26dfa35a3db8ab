//! Defects that a reviewer found in the shared handle, each as the smallest run that showed it.
//!
//! A clock that is slow for one thread, by its name, makes room for the interleaving; nothing here
//! asserts a time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the real outside")]

use kiban::env::Env;
use kiban::env::clock::{Clock, OsClock};
use kiban::env::probe::{Probe, Stage};
use kiban::{Error, KibanOptions, Listener, Reads, SharedKiban, WriteBatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A clock that keeps threads of one name waiting.
struct Slow {
    clock: OsClock,
    name: &'static str,
    millis: AtomicU64,
}

impl Clock for Slow {
    fn now_ns(&self) -> u64 {
        if std::thread::current().name() == Some(self.name) {
            std::thread::sleep(Duration::from_millis(self.millis.load(Ordering::Relaxed)));
        }
        self.clock.now_ns()
    }

    fn sleep_ns(&self, duration_ns: u64) {
        self.clock.sleep_ns(duration_ns);
    }
}

fn slow(name: &'static str, millis: u64) -> (Arc<Slow>, Env) {
    let clock = Arc::new(Slow { clock: OsClock::new(), name, millis: AtomicU64::new(millis) });
    let env = Env { clock: clock.clone(), ..Env::os() };
    (clock, env)
}

fn batch(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch
}

/// Waits for a thread with a patience that no healthy run needs.
fn end<T>(thread: JoinHandle<T>, what: &str) -> T {
    for _ in 0..60_000 {
        if thread.is_finished() {
            return thread.join().expect("no panic");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("B1: {what} never ended");
}

/// A flush that was installed between a compaction's plan and its build moved the runs, and the
/// build took the wrong ones.
#[test]
fn a_flush_between_plan_and_build_moves_no_input() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_, env) = slow("kiban-compact", 10);
    let options = KibanOptions::new()
        .env(env)
        .memtable_bytes(8192)
        .table_bytes_max(1024)
        .runs_slow(20)
        .tier_runs(4);
    let db = SharedKiban::open(dir.path().join("db"), options).expect("opens");
    let mut random = 1u64;
    for _ in 0..60 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        for n in 0..60u8 {
            db.put([(random % 6) as u8, n], [7; 60]).expect("nothing poisons");
        }
    }
    assert!(db.wait_settled(Duration::from_secs(60)).expect("nothing failed"));
    db.verify().expect("whole");
}

/// Nobody was told that a compaction which was asked for had made room.
#[test]
fn a_compaction_that_was_asked_for_wakes_writers_and_worker() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (clock, env) = slow("asks", 0);
    let options = KibanOptions::new()
        .env(env)
        .memtable_bytes(4096)
        .table_bytes_max(4096)
        .tier_runs(2)
        .runs_slow(6)
        .runs_stop(6);
    let db = SharedKiban::open(dir.path().join("db"), options).expect("opens");
    for n in 0..100u32 {
        db.put(n.to_be_bytes(), [1; 60]).expect("written");
    }
    db.wait_settled(Duration::from_secs(60)).expect("nothing failed");
    clock.millis.store(500, Ordering::Relaxed);
    let asks = std::thread::Builder::new().name("asks".into());
    let asked = {
        let db = db.clone();
        asks.spawn(move || db.compact_range::<&[u8]>(..)).expect("a thread")
    };
    std::thread::sleep(Duration::from_millis(50));
    let writer = {
        let db = db.clone();
        std::thread::spawn(move || {
            for n in 0..600u32 {
                db.put(n.to_be_bytes(), [2; 60]).expect("written");
            }
        })
    };
    end(asked, "the compaction").expect("compacted");
    end(writer, "a writer that waited for it");
}

/// Each group saw the memtable as it was before the one under way, and froze another.
#[test]
fn memtables_stay_within_their_bound_under_large_batches() {
    const MEMTABLE: usize = 64 << 10;
    const BATCH: usize = 4 * MEMTABLE;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_, env) = slow("kiban-flush", 20);
    let options = KibanOptions::new().env(env).memtable_bytes(MEMTABLE).log_bytes(1 << 20);
    let db = SharedKiban::open(dir.path().join("db"), options).expect("opens");
    let writers: Vec<_> = (0..8u8)
        .map(|writer| {
            let db = db.clone();
            std::thread::spawn(move || {
                for n in 0..6u8 {
                    db.write_durable(&batch([writer, n], vec![n; BATCH])).expect("written");
                }
            })
        })
        .collect();
    let mut bytes = 0;
    while !writers.iter().all(JoinHandle::is_finished) {
        bytes = bytes.max(db.stats().memtable_bytes);
        std::thread::sleep(Duration::from_millis(1));
    }
    writers.into_iter().for_each(|writer| end(writer, "a writer"));
    // B1, with two batches: one frozen, one active.
    let bound = 3 * MEMTABLE + 2 * (BATCH + MEMTABLE / 2);
    assert!(bytes <= bound as u64, "B1: {bytes} bytes, at most {bound}");
}

/// A worker died of a panic in the listener; writers slept on.
#[test]
fn a_listener_that_panics_ends_no_worker() {
    struct Panics;
    impl Listener for Panics {
        fn maintenance_failed(&self, error: &Error) {
            panic!("{error}")
        }
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (path, away) = (dir.path().join("db"), dir.path().join("away"));
    let options = KibanOptions::new()
        .memtable_bytes(4096)
        .tier_runs(3)
        .runs_stop(5)
        .reads(Reads::Pread)
        .open_files_max(1)
        .listener(Arc::new(Panics));
    let db = SharedKiban::open(&path, options).expect("opens");
    std::fs::rename(&path, &away).expect("renamed");
    let mut failed = false;
    for n in 0..2000u32 {
        failed |= db.put(n.to_be_bytes(), [1; 200]).is_err();
        if failed {
            break;
        }
    }
    assert!(failed, "a flush without its directory fails, and so does who waits for it");
    std::fs::rename(&away, &path).expect("renamed");
    let writer = {
        let db = db.clone();
        std::thread::spawn(move || {
            for n in 0..2000u32 {
                while db.put(n.to_be_bytes(), [1; 200]).is_err() {
                    assert!(db.poisoned().is_none(), "only a table could not be made");
                }
            }
        })
    };
    end(writer, "a writer after the fault");
    assert!(db.stats().listener_panics > 0);
}

/// A notifier that was started while the engine closed was not waited for.
#[test]
fn close_waits_for_every_receipt() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_, env) = slow("kiban-flush", 200);
    let options = KibanOptions::new().env(env);
    let db = SharedKiban::open(dir.path().join("db"), options).expect("opens");
    db.put(b"k", b"v").expect("written");
    let flush = {
        let db = db.clone();
        std::thread::spawn(move || db.flush())
    };
    std::thread::sleep(Duration::from_millis(50));
    let closes = {
        let db = db.clone();
        std::thread::spawn(move || db.close())
    };
    std::thread::sleep(Duration::from_millis(50));
    let called = Arc::new(AtomicBool::new(false));
    let tells = called.clone();
    let wrote = db.write_durable_with(&batch(b"a", b"b"), move |_| {
        std::thread::sleep(Duration::from_millis(200));
        tells.store(true, Ordering::Relaxed);
    });
    end(closes, "close").expect("closed");
    assert!(wrote.is_err() || called.load(Ordering::Relaxed), "a receipt was not called");
    let _ = end(flush, "a flush beside a close");
}

/// A backup held up every flush and compaction, and writers behind them, for as long as it took.
#[test]
fn maintenance_goes_on_while_a_backup_is_made() {
    struct Waits {
        /// Where the backup has come to: 0 not yet to its copy, 1 there, 2 it may go on.
        at: AtomicU64,
    }
    impl Probe for Waits {
        fn stage(&self, stage: Stage) {
            if stage == Stage::CheckpointDir {
                self.at.store(1, Ordering::Release);
                while self.at.load(Ordering::Acquire) < 2 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (path, copy) = (dir.path().join("db"), dir.path().join("copy"));
    let waits = Arc::new(Waits { at: AtomicU64::new(0) });
    let env = Env { probe: Some(waits.clone()), ..Env::os() };
    let db = SharedKiban::open(&path, KibanOptions::new().env(env)).expect("opens");
    db.put("a", "before").expect("written");
    db.flush().expect("flushed");
    db.put("b", "in the log").expect("written");
    let backup = {
        let (db, copy) = (db.clone(), copy.clone());
        std::thread::spawn(move || db.backup(copy))
    };
    while waits.at.load(Ordering::Acquire) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let maintains = {
        let db = db.clone();
        std::thread::spawn(move || {
            db.put("a", "after").expect("written");
            db.compact_range::<&[u8]>(..).expect("compacted");
            // Its log and tables have no name any more, but for what the backup keeps.
            db.wait_settled(Duration::from_secs(60)).expect("nothing failed");
            db.stats().compactions
        })
    };
    assert!(end(maintains, "a compaction beside a backup") > 0);
    let closes = {
        let db = db.clone();
        std::thread::spawn(move || db.close())
    };
    waits.at.store(2, Ordering::Release);
    end(backup, "a backup").expect("L1: a close waits for it");
    end(closes, "close").expect("closed");
    let copy = SharedKiban::open(&copy, KibanOptions::new()).expect("a whole database");
    assert_eq!(copy.get("a").expect("open").as_deref(), Some(&b"before"[..]));
    assert_eq!(copy.get("b").expect("open").as_deref(), Some(&b"in the log"[..]));
}

/// A write during a close started a second notifier, and its receipt overtook one before it.
#[test]
fn receipts_keep_their_order_while_the_engine_closes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_, env) = slow("flushes", 300);
    let options = KibanOptions::new().env(env).background_maintenance(false);
    let db = SharedKiban::open(dir.path().join("db"), options).expect("opens");
    let (told, go_on) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (tells, waits) = (told.clone(), go_on.clone());
    let first = db.write_durable_with(&batch("a", "1"), move |_| {
        tells.store(1, Ordering::Release);
        while !waits.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    first.expect("written");
    while told.load(Ordering::Acquire) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let flush = {
        let db = db.clone();
        let thread = std::thread::Builder::new().name("flushes".into());
        thread.spawn(move || db.flush()).expect("a thread")
    };
    std::thread::sleep(Duration::from_millis(50));
    let closes = {
        let db = db.clone();
        std::thread::spawn(move || db.close())
    };
    std::thread::sleep(Duration::from_millis(50));
    let tells = told.clone();
    let wrote = db.write_durable_with(&batch("b", "2"), move |_| tells.store(2, Ordering::Release));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(told.load(Ordering::Acquire), 1, "V1: the first receipt is still being called");
    go_on.store(true, Ordering::Release);
    end(closes, "close").expect("closed");
    let _ = end(flush, "a flush beside a close");
    assert!(wrote.is_err() || told.load(Ordering::Acquire) == 2, "a receipt was not called");
}

/// Tables that a point read had pinned stayed on disk until something else came along.
#[test]
fn what_a_point_read_pins_goes_when_it_ends() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = SharedKiban::open(dir.path().join("db"), KibanOptions::new()).expect("opens");
    for value in ["1", "2"] {
        db.put("a", value).expect("written");
        db.flush().expect("flushed");
    }
    let (reads, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let reader = {
        let (db, reads, go_on) = (db.clone(), reads.clone(), go_on.clone());
        std::thread::spawn(move || {
            db.get_with("a", |_| {
                reads.store(true, Ordering::Release);
                while !go_on.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
        })
    };
    while !reads.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    db.compact_range::<&[u8]>(..).expect("compacted");
    db.wait_settled(Duration::from_secs(60)).expect("nothing failed");
    // Nothing is asked of the handle from here on: `stats` would have the pinned ones looked at.
    let tables = move || {
        let names = std::fs::read_dir(dir.path().join("db")).expect("a directory");
        let names = names.map(|entry| entry.expect("readable").path());
        names.filter(|path| path.extension().is_some_and(|end| end == "tbl")).count()
    };
    assert_eq!(tables(), 3);
    go_on.store(true, Ordering::Release);
    end(reader, "a read").expect("open");
    let goes = std::thread::spawn(move || {
        while tables() > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    end(goes, "what a read had pinned");
}

/// Each flush that failed left one memtable more in memory.
#[test]
fn flushes_that_fail_pile_up_no_memtables() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (path, away) = (dir.path().join("db"), dir.path().join("away"));
    let options = KibanOptions::new().background_maintenance(false);
    let db = SharedKiban::open(&path, options).expect("opens");
    std::fs::rename(&path, &away).expect("renamed");
    for n in 0..20u8 {
        db.put([n], "value").expect("the log is open");
        db.flush().expect_err("no table can be made");
    }
    assert!(db.stats().memtables_frozen < 3, "B1: {:?}", db.stats());
    std::fs::rename(&away, &path).expect("renamed");
    db.flush().expect("flushed");
    assert_eq!(db.range::<&[u8]>(..).expect("open").count(), 20);
}
