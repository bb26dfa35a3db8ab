//! Many real threads on `SharedKiban`, their histories checked (V2, A1, S1, S2, C2), and what
//! everybody hears when the database is closed or poisoned under them (B1, P1).
//!
//! - Threads are the machine's: what is found here does not repeat, but its history is whole.
//! - Nothing is timed. A watchdog of minutes turns a hang into a failure.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "real threads, on purpose")]

use kiban::env::Env;
use kiban::{Error, ErrorKind, Iter, KibanOptions, Reads, SharedKiban, WriteBatch, WriteOptions};
use kiban_crash::adapter::SimFs;
use kiban_crash::disk::{Disk, Errno, Fault, FaultPlan, Op, Rule};
use kiban_model::generate::{Seed, Source};
use kiban_model::history::{self, Call, History, Outcome, Recorder, Saw};
use kiban_model::ops::{Key, Record, Span};
use kiban_model::value::Value;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

const WRITERS: u32 = 4;
const WRITES: u32 = 250;
const READS: u32 = 120;
const KEYS: usize = 40;

/// Runs a test that must not hang.
fn within_minutes(test: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let _ended = sender;
        test();
    });
    match receiver.recv_timeout(Duration::from_secs(180)) {
        Err(RecvTimeoutError::Timeout) => panic!("B1: somebody waits and is not woken"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Limits so tiny that logs, memtables and runs come and go all the time.
fn tiny() -> KibanOptions {
    KibanOptions::new()
        .memtable_bytes(3072)
        .log_bytes(2048)
        .log_budget_bytes(32 << 10)
        .table_bytes_max(2048)
        .block_bytes(128)
        .restart_interval(4)
        .open_files_max(8)
        .tier_runs(2)
        .runs_slow(4)
        .runs_stop(6)
}

fn key(source: &mut Seed) -> Key {
    format!("key{:02}", source.below(KEYS)).into_bytes()
}

/// What all clients share.
struct Run {
    db: SharedKiban,
    instants: AtomicU64,
    /// Set once the database is closed or poisoned under its clients.
    ends: AtomicBool,
}

impl Run {
    fn new(db: SharedKiban) -> Arc<Self> {
        Arc::new(Self { db, instants: AtomicU64::new(1), ends: AtomicBool::new(false) })
    }

    fn now(&self) -> u64 {
        self.instants.fetch_add(1, Ordering::SeqCst)
    }

    fn over(&self, error: &Error) -> bool {
        assert!(self.ends.load(Ordering::SeqCst), "nobody closed it: {error}");
        assert!(matches!(error, Error::Closed), "a typed error: {error}");
        true
    }
}

/// Values that differ from one another, a few of them long.
fn records(source: &mut Seed, client: u32, n: u32) -> Vec<Record> {
    let count = if source.chance(1, 3) { 1 + source.below(4) } else { 1 };
    (0..count)
        .map(|i| {
            let seed = client << 24 | n << 4 | i as u32;
            let len = if source.chance(1, 40) { 1500 } else { 16 + source.below(60) as u32 };
            let value = (!source.chance(1, 6)).then_some(Value::Made { seed, len });
            Record { key: key(source), value }
        })
        .collect()
}

fn batch(records: &[Record]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for Record { key, value } in records {
        match value {
            Some(value) => batch.put(key, value.to_vec()),
            None => batch.delete(key),
        };
    }
    batch
}

fn write(run: &Run, client: u32) -> Recorder {
    let (mut recorder, source) = (Recorder::new(client), &mut Seed(u64::from(client)));
    for n in 0..WRITES {
        let records = records(source, client, n);
        let (batch, durable) = (batch(&records), source.chance(1, 8));
        let receipt = !durable && source.chance(1, 16);
        let invoked = run.now();
        let result = match receipt {
            true => run.db.write_durable_with(&batch, |_| {}),
            false => run.db.write_with(&batch, WriteOptions::new().durable(durable)),
        };
        let returned = run.now();
        let outcome = match &result {
            Ok(seq) => Outcome::Done(seq.0),
            Err(_) => Outcome::Refused,
        };
        recorder.returned(invoked, returned, Call::Write { records, durable, outcome });
        if result.is_err_and(|error| run.over(&error)) {
            break;
        }
    }
    recorder
}

fn scanned(entries: Iter) -> Result<Vec<(Key, Vec<u8>)>, Error> {
    entries.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
}

fn see(run: &Run, source: &mut Seed, n: u32) -> Result<Saw, Error> {
    let owned = |value: Option<kiban::Slice>| value.map(|value| value.to_vec());
    Ok(match n % 4 {
        0 => {
            let key = key(source);
            let value = owned(run.db.get(&key)?);
            Saw::Keys(vec![(key, value)])
        }
        1 => {
            let keys: Vec<Key> = (0..4).map(|_| key(source)).collect();
            let values = run.db.multi_get(&keys)?.into_iter().map(owned);
            Saw::Keys(keys.iter().cloned().zip(values).collect())
        }
        2 => {
            let (low, high) = (Bound::Included(key(source)), Bound::Unbounded);
            let entries = scanned(run.db.range((low.clone(), high.clone()))?)?;
            Saw::Scan(Span::Range(low, high), entries)
        }
        _ => {
            let backward: Result<Vec<_>, Error> = run.db.range::<&[u8]>(..)?.rev().collect();
            let owned = |(key, value): (kiban::Slice, kiban::Slice)| (key.to_vec(), value.to_vec());
            Saw::Scan(Span::all(), backward?.into_iter().map(owned).rev().collect())
        }
    })
}

fn read(run: &Run, client: u32) -> Recorder {
    let (mut recorder, source) = (Recorder::new(client), &mut Seed(u64::from(client)));
    for n in 0..READS {
        let invoked = run.now();
        match see(run, source, n) {
            Ok(saw) => recorder.returned(invoked, run.now(), Call::Read { at: None, saw }),
            Err(error) if run.over(&error) => break,
            Err(_) => unreachable!("over panics"),
        }
    }
    recorder
}

/// Takes snapshots and looks at each several times while the world goes on.
fn keep_snapshots(run: &Run, client: u32) -> Recorder {
    let (mut recorder, source) = (Recorder::new(client), &mut Seed(u64::from(client)));
    for n in 0..READS / 8 {
        let invoked = run.now();
        let Ok(snapshot) = run.db.snapshot() else { break };
        let id = u64::from(client) << 32 | u64::from(n);
        recorder.returned(invoked, run.now(), Call::Snapshot { id, seq: None });
        for _ in 0..3 {
            let invoked = run.now();
            let (key, all) = (key(source), Saw::Scan(Span::all(), Vec::new()));
            let seen = snapshot.range::<&[u8]>(..).and_then(scanned);
            let Ok(entries) = seen else { return recorder };
            let saw = match all {
                Saw::Scan(span, _) => Saw::Scan(span, entries),
                Saw::Keys(keys) => Saw::Keys(keys),
            };
            recorder.returned(invoked, run.now(), Call::Read { at: Some(id), saw });
            let invoked = run.now();
            let Ok(value) = snapshot.get(&key) else { return recorder };
            let saw = Saw::Keys(vec![(key, value.map(|value| value.to_vec()))]);
            recorder.returned(invoked, run.now(), Call::Read { at: Some(id), saw });
        }
    }
    recorder
}

fn maintain(run: &Run, client: u32) -> Recorder {
    let mut recorder = Recorder::new(client);
    for n in 0..12 {
        let invoked = run.now();
        let result = match n % 3 {
            0 => run.db.sync(),
            1 => run.db.flush(),
            _ => run.db.compact_range(&b"key05"[..]..&b"key30"[..]),
        };
        match result {
            Ok(()) if n % 3 == 0 => {
                recorder.returned(invoked, run.now(), Call::Sync { poisoned: false });
            }
            Ok(()) => {}
            Err(error) if run.over(&error) => break,
            Err(_) => unreachable!("over panics"),
        }
    }
    recorder
}

/// Starts every client; `meanwhile` runs beside them.
fn clients(run: &Arc<Run>, meanwhile: impl FnOnce()) -> Vec<Recorder> {
    type Client = fn(&Run, u32) -> Recorder;
    let others: [Client; 5] = [read, read, keep_snapshots, keep_snapshots, maintain];
    let all = std::iter::repeat_n(write as Client, WRITERS as usize).chain(others);
    let threads: Vec<_> = (1..)
        .zip(all)
        .map(|(client, act)| {
            let run = Arc::clone(run);
            std::thread::spawn(move || act(&run, client))
        })
        .collect();
    meanwhile();
    threads.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
}

/// Opens again, adds what is shown to the history, and checks all of it.
fn check(dir: &Path, options: KibanOptions, mut recorders: Vec<Recorder>, now: u64) -> History {
    let db = SharedKiban::open(dir, options).expect("opens again");
    db.verify().expect("whole");
    let entries = db.range::<&[u8]>(..).and_then(scanned).expect("a scan");
    let mut last = Recorder::new(1000);
    let saw = Saw::Scan(Span::all(), entries);
    last.returned(now + 1, now + 2, Call::Read { at: None, saw });
    recorders.push(last);
    let history = History::merge(recorders, None);
    if let Err(violation) = history::check(&history) {
        panic!("{violation}\n\nthe whole history:\n{history}");
    }
    history
}

#[test]
fn histories_of_many_threads_are_linearizable_and_survive_a_close() {
    within_minutes(|| {
        for round in 0..3u32 {
            let place = tempfile::tempdir().expect("a temporary directory");
            let dir = place.path().join("db");
            let reads = if round == 1 { Reads::Pread } else { Reads::Mapped };
            let options = tiny().reads(reads).cohort_wait_max_ns(u64::from(round) * 50_000);
            let run = Run::new(SharedKiban::open(&dir, options.clone()).expect("opens"));
            let recorders = clients(&run, || {});
            let stats = run.db.stats();
            run.db.close().expect("closes");
            let history = check(&dir, options, recorders, run.now());
            assert!(history.events.len() > 1000, "{} events", history.events.len());
            assert!(
                stats.flushes > 10 && stats.compactions > 3 && stats.rotations > 10,
                "{stats:?}"
            );
            assert!(stats.group_writes_max > 1, "no group had two members");
        }
    });
}

#[test]
fn a_close_under_everybody_refuses_what_it_does_not_take() {
    within_minutes(|| {
        for round in 0..4u64 {
            let place = tempfile::tempdir().expect("a temporary directory");
            let dir = place.path().join("db");
            let run = Run::new(SharedKiban::open(&dir, tiny()).expect("opens"));
            let recorders = clients(&run, || {
                std::thread::sleep(Duration::from_millis(5 + 20 * round));
                run.ends.store(true, Ordering::SeqCst);
                let again = run.db.clone();
                let beside = std::thread::spawn(move || again.close());
                run.db.close().expect("closes");
                beside.join().expect("no panic").expect("the same to all");
            });
            check(&dir, tiny(), recorders, run.now());
        }
    });
}

#[test]
fn the_last_clone_closes_whichever_thread_drops_it() {
    within_minutes(|| {
        let place = tempfile::tempdir().expect("a temporary directory");
        let dir = place.path().join("db");
        for round in 0..5u32 {
            let db = SharedKiban::open(&dir, tiny()).expect("the lock is free");
            let threads: Vec<_> = (0..4u32)
                .map(|client| {
                    let db = db.clone();
                    std::thread::spawn(move || {
                        for n in 0..60u32 {
                            let key = [round, client, n].map(u32::to_be_bytes).concat();
                            db.put(key, [7; 40]).expect("written");
                        }
                    })
                })
                .collect();
            drop(db);
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        }
        let db = SharedKiban::open(&dir, tiny()).expect("the lock is free");
        assert_eq!(db.range::<&[u8]>(..).expect("open").count(), 5 * 4 * 60, "D2");
    });
}

#[test]
fn compactions_asked_for_at_once_all_end() {
    within_minutes(|| {
        let place = tempfile::tempdir().expect("a temporary directory");
        let db = SharedKiban::open(place.path().join("db"), tiny()).expect("opens");
        let threads: Vec<_> = (0..4u32)
            .map(|client| {
                let db = db.clone();
                std::thread::spawn(move || {
                    for n in 0..40u32 {
                        db.put([client, n].map(u32::to_be_bytes).concat(), [7; 90]).expect("room");
                        db.compact_range::<&[u8]>(..).expect("B1: whoever waits is woken");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(db.range::<&[u8]>(..).expect("open").count(), 160);
    });
}

/// A simulated disk under real threads and the real clock.
fn simulated(fs: &SimFs) -> KibanOptions {
    tiny().env(Env { fs: kiban::env::sync::Arc::new(fs.clone()), ..Env::os() })
}

#[test]
fn poison_ends_the_wait_of_everybody() {
    within_minutes(|| {
        let fs = SimFs::new(Disk::new());
        let db = SharedKiban::open("/db", simulated(&fs)).expect("opens");
        // No table can be made, so that writers come to wait for room.
        let no_tables =
            Rule::new(Fault::Error(Errno::EIO)).op(Op::Create).path_end(".tbl").times(u32::MAX);
        fs.with(|disk| disk.plan = FaultPlan::one(no_tables));
        let receipts = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..6u32)
            .map(|client| {
                let (db, receipts) = (db.clone(), receipts.clone());
                std::thread::spawn(move || {
                    let mut told = 0;
                    for n in 0u32.. {
                        let mut batch = WriteBatch::new();
                        batch.put([client, n].map(u32::to_be_bytes).concat(), [7; 50]);
                        let receipts = receipts.clone();
                        let written = match n % 5 {
                            0 => db.write_durable_with(&batch, move |_| {
                                receipts.fetch_add(1, Ordering::SeqCst);
                            }),
                            1 if client == 0 => db.write_durable(&batch),
                            _ => db.write(&batch),
                        };
                        match written {
                            Ok(_) => told += u64::from(n % 5 == 0),
                            Err(error) if error.is_poisoned() => return told,
                            // The try that failed, whether a table's or the sync's.
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
                        }
                    }
                    unreachable!("it ends with an error");
                })
            })
            .collect();
        while db.stats().memtables_frozen == 0 || db.stats().maintenance_retries == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Whoever writes on now waits for the flush that can't be made.
        std::thread::sleep(Duration::from_millis(50));
        // The next try makes a table, and the directory's sync fails.
        let no_sync = Rule::new(Fault::Error(Errno::EIO)).op(Op::SyncDir);
        fs.with(|disk| disk.plan = FaultPlan::one(no_sync));
        let mut told = 0;
        for writer in writers {
            told += writer.join().expect("a typed error");
        }
        assert!(db.poisoned().is_some(), "P1");
        assert!(db.put("k", "v").expect_err("P1").is_poisoned());
        assert!(db.range::<&[u8]>(..).expect("reads go on").all(|entry| entry.is_ok()));
        db.close().expect_err("the first error");
        assert_eq!(receipts.load(Ordering::SeqCst), told, "one call for each receipt");
        fs.with(|disk| disk.plan = FaultPlan::default());
        SharedKiban::open("/db", simulated(&fs)).expect("opens again").verify().expect("whole");
    });
}
