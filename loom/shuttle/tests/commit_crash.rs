//! The production commit path under shuttle's scheduler, on the simulated disk, with the crash as
//! one more schedulable event.
//!
//! Writers with mixed durability run through the commit queue, the log and the memtable; at one
//! scheduling point, inside a write or a sync too, an image of the disk is taken without stopping
//! them. The image is recovered by the engine in its std form and held against what had been
//! ordered, acknowledged and seen by a reader at that instant: D1, D3, A1, V1.
//!
//! Shuttle treats atomics as sequentially consistent, so weak-memory bugs are loom's to find.
#![allow(clippy::disallowed_types)]

#[path = "../../../crash/src/adapter.rs"]
mod adapter;

use kiban_crash::disk;

/// The engine in this form, as the adapter wants it.
mod engine {
    pub(super) use kiban_shuttle::env;

    pub(super) fn switch() {
        shuttle::thread::yield_now();
    }
}

use adapter::SimFs;
use kiban_shuttle::base::key::SeqNo;
use kiban_shuttle::env::Env;
use kiban_shuttle::env::probe::Probe;
use kiban_shuttle::env::random::SeededRandom;
use kiban_shuttle::rig::Records;
use kiban_shuttle::{KibanOptions, SharedKiban, WriteBatch, WriteOptions};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What the rig knows at an instant. A std lock: it is held over no scheduling point.
#[derive(Clone, Default)]
struct Known {
    /// Keys in commit order, a group's keys together.
    groups: Vec<Vec<Vec<u8>>>,
    /// Keys of durable writes that were acknowledged, or that a reader has seen.
    durable: BTreeSet<Vec<u8>>,
}

#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Known>>);

impl Watch {
    fn with<R>(&self, f: impl FnOnce(&mut Known) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Probe for Watch {
    fn ordered(&self, _first: SeqNo, records: &[u8]) {
        let keys = Records::new(records).map(|r| r.expect("the leader's records").key.to_vec());
        let keys = keys.collect();
        self.with(|known| known.groups.push(keys));
    }
}

fn env(fs: &SimFs, watch: &Watch) -> Env {
    Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(fs.clone()),
        random: Arc::new(SeededRandom::new(7)),
        probe: Some(Arc::new(watch.clone())),
    }
}

/// Whether batch `n` of a writer asks for a sync.
fn is_durable(writer: u8, n: u8) -> bool {
    (writer + n).is_multiple_of(2)
}

/// Looks for durable writes, which are visible only once they are synced (V1).
fn reader(db: &SharedKiban, watch: &Watch) {
    for round in 0..6u8 {
        for writer in 0..3u8 {
            let key = vec![writer, round % 2, 1];
            if is_durable(writer, round % 2) && db.get(&key).expect("read").is_some() {
                watch.with(|known| known.durable.insert(key));
            }
        }
        shuttle::thread::yield_now();
    }
}

/// Three writers of two batches each, every other one durable, a reader, and a crash anywhere among
/// them.
fn writers_and_a_crash() {
    let fs = SimFs::new(disk::Disk::new());
    let watch = Watch::default();
    let options = KibanOptions::new().memtable_bytes(2048).log_bytes(1024).env(env(&fs, &watch));
    let db = SharedKiban::open(Path::new("/db"), options).expect("created");
    let writers: Vec<_> = (0..3u8)
        .map(|writer| {
            let (db, watch) = (db.clone(), watch.clone());
            shuttle::thread::spawn(move || {
                for n in 0..2u8 {
                    let durable = is_durable(writer, n);
                    let (a, b) = (vec![writer, n, 0], vec![writer, n, 1]);
                    let mut batch = WriteBatch::new();
                    batch.put(&a, b"left").put(&b, b"right");
                    db.write_with(&batch, WriteOptions::new().durable(durable))
                        .expect("no fault is injected");
                    assert!(db.get(&a).expect("read").is_some(), "V2: a write is seen");
                    if durable {
                        watch.with(|known| known.durable.extend([a, b]));
                    }
                }
            })
        })
        .collect();
    let reader = {
        let (db, watch) = (db.clone(), watch.clone());
        shuttle::thread::spawn(move || reader(&db, &watch))
    };
    let crash = {
        let (fs, watch) = (fs.clone(), watch.clone());
        shuttle::thread::spawn(move || {
            for _ in 0..shuttle::rand::Rng::gen_range(&mut shuttle::rand::thread_rng(), 0..40) {
                shuttle::thread::yield_now();
            }
            (fs.with(|disk| disk.snapshot()), watch.with(|known| known.clone()))
        })
    };
    for writer in writers {
        writer.join().expect("no writer panics");
    }
    reader.join().expect("no reader panics");
    let (snapshot, known) = crash.join().expect("no panic");
    for image in snapshot.images(4, 11) {
        check(image.disk, &known);
    }
}

/// Recovers an image in the std form and compares it with what was known when it was taken.
fn check(image: disk::Disk, known: &Known) {
    let fs = kiban_crash::adapter::SimFs::new(image);
    let env = kiban::env::Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(fs),
        random: Arc::new(kiban::env::random::SeededRandom::new(9)),
        probe: None,
    };
    let db = kiban::Kiban::open("/db", kiban::KibanOptions::new().env(env)).expect("recovers");
    let shown: BTreeSet<Vec<u8>> =
        db.range::<&[u8]>(..).expect("open").map(|item| item.expect("read").0.to_vec()).collect();
    assert!(
        known.durable.is_subset(&shown),
        "D1, V1: an acknowledged or seen durable write is missing"
    );
    let mut cut = BTreeSet::new();
    let mut cuts = known.groups.iter();
    while cut != shown {
        let group = cuts.next().expect("D3, A1: what is shown is no cut of the commit order");
        cut.extend(group.iter().cloned());
    }
}

#[test]
fn shuttle_nothing_outside_its_control_decides() {
    shuttle::check_uncontrolled_nondeterminism(writers_and_a_crash, 50);
}

#[test]
fn shuttle_random_schedules_with_a_crash() {
    shuttle::check_random(writers_and_a_crash, 1000);
}

#[test]
fn shuttle_pct_schedules_with_a_crash() {
    shuttle::check_pct(writers_and_a_crash, 500, 3);
}
