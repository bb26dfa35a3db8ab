//! The invariants inside the engine, each looked at from outside, step by step.
//!
//! - M4: at every file-system call of a flush and a compaction, whatever a power cut leaves opens,
//!   is whole, and shows every write that was durable.
//! - M1, M2: the structure of the version is checked in each of these images, by `verify`.
//! - W3, W5, O1: no log goes, and no write with it, before its writes are in durable tables.
//! - R1, R2, W2: a view taken before a flush and one taken after it show the same.
//! - C2, O4: after a recovery no file number and no sequence comes back of which a trace was left.

use kiban::base::name::parse_file_name;
use kiban::env::sync::{Arc, Mutex};
use kiban::env::{Env, random::SeededRandom};
use kiban::{Kiban, KibanOptions, MaintainStep};
use kiban_crash::adapter::SimFs;
use kiban_crash::disk::{Disk, Snapshot};
use std::collections::BTreeMap;

/// Opens the database on `fs`; ids come from `seed`, which no two opens of one history share.
fn open(fs: &SimFs, seed: u64) -> Kiban {
    let env = Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(fs.clone()),
        random: Arc::new(SeededRandom::new(seed)),
        probe: None,
    };
    let options = KibanOptions::new()
        .memtable_bytes(1024)
        .log_bytes(1024)
        .block_bytes(64)
        .table_bytes_max(1024)
        .tier_runs(2)
        .inline_maintenance(false);
    Kiban::open("/db", options.env(env)).expect("the database opens")
}

fn all(db: &Kiban) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let items = db.range::<&[u8]>(..).expect("a scan begins");
    items
        .map(|item| {
            item.map(|(key, value)| (key.to_vec(), value.to_vec())).expect("the scan reads")
        })
        .collect()
}

fn fill(db: &mut Kiban, from: u32) {
    for i in from..from + 40 {
        let key = format!("key{:02}", i * 7 % 30);
        if i % 5 == 4 {
            db.delete(key).expect("deleted");
        } else {
            db.put(key, format!("value {i}")).expect("put");
        }
    }
    db.sync().expect("synced");
}

#[test]
fn a_power_cut_anywhere_in_maintenance_loses_nothing() {
    let fs = SimFs::new(Disk::new());
    let mut db = open(&fs, 1);
    let mut shown = BTreeMap::new();
    let mut images = 0;
    for round in 0..4 {
        fill(&mut db, round * 40);
        shown = all(&db);
        loop {
            let moments = moments_of(&fs, || db.maintain_step().expect("a step"));
            for moment in &moments.1 {
                for image in moment.images(6, 3) {
                    let db = open(&SimFs::new(image.disk), image.hash);
                    assert_eq!(all(&db), shown, "M4, O1: what was durable");
                    db.verify().expect("M1, M2: the structure holds");
                    images += 1;
                }
            }
            assert_eq!(all(&db), shown, "R1, R2, W2: maintenance changes no answer");
            if moments.0 == MaintainStep::Idle {
                break;
            }
        }
    }
    let stats = db.stats();
    assert!(stats.flushes > 3 && stats.compactions > 0 && stats.logs_removed > 3, "{stats:?}");
    assert!(images > 200, "W3, W5: {images} images, all with what was durable");
    assert!(!shown.is_empty());
}

/// Runs `step` with a snapshot of the disk before it and one before each of its calls' returns.
fn moments_of<R>(fs: &SimFs, step: impl FnOnce() -> R) -> (R, Vec<Snapshot>) {
    let moments = Arc::new(Mutex::new(vec![fs.with(|disk| disk.snapshot())]));
    let seen = moments.clone();
    fs.with(|disk| {
        disk.set_observer(Some(Box::new(move |moment, disk: &Disk| {
            let _ = moment;
            seen.lock().push(disk.snapshot());
        })));
    });
    let result = step();
    fs.with(|disk| disk.set_observer(None));
    let moments = moments.lock().clone();
    (result, moments)
}

#[test]
fn no_number_comes_back_after_a_recovery() {
    let fs = SimFs::new(Disk::new());
    let mut db = open(&fs, 1);
    fill(&mut db, 0);
    db.put("late", "never synced").expect("put");
    let highest = db.stats().last_sequence;
    let before = fs.with(|disk| disk.snapshot());
    for image in before.images(200, 5) {
        let fs = SimFs::new(image.disk);
        let before = numbers(&fs);
        let newest = *before.iter().max().expect("files");
        let mut db = open(&fs, image.hash);
        let first = db.put("next", "x").expect("put").0;
        let shows_late = db.get("late").expect("read").is_some();
        assert!(first > highest || !shows_late, "C2: a sequence that is shown is not issued again");
        db.flush().expect("flushed");
        for number in numbers(&fs).iter().filter(|number| !before.contains(number)) {
            assert!(*number > newest, "O4: {number} is not above {newest}");
        }
    }
}

fn numbers(fs: &SimFs) -> Vec<u64> {
    let files = fs.with(|disk| disk.files());
    let names = files.iter().filter_map(|(path, _)| path.rsplit('/').next());
    names.filter_map(parse_file_name).map(|(_, number)| number.0).collect()
}
