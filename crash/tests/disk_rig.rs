//! What a rig does with the simulated disk: points, plans, images, damage, time.
//!
//! Invariants
//! - Equal calls under equal plans give equal logs, faults, images and hashes (F1).
//! - Images are distinct, within their limit, and everything-survives is always among them.

use kiban::env::sync::{Arc, Mutex};
use kiban_crash::disk::{
    Choice, Damage, Disk, Errno, Fault, FaultPlan, Moment, Op, Pick, Point, Rule, Snapshot,
};
use std::collections::BTreeSet;
use std::path::Path;

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// A disk with a synced file `a` of eight bytes and a log with `writes` unsynced writes.
fn dirty(writes: u64) -> Disk {
    let mut disk = Disk::new();
    disk.put_file("/a", b"durable.").expect("a file");
    let log = disk.create(path("/log")).expect("a log");
    disk.preallocate(log, 4096).expect("room");
    disk.sync_all(log).expect("its size");
    disk.sync_dir(path("/")).expect("its name");
    for n in 0..writes {
        let bytes = [n as u8 + 1; 20];
        disk.write_at(log, n * 20, &bytes).expect("a write");
    }
    disk
}

#[test]
fn points_are_told_in_order_with_the_disk_as_it_is() {
    let told: Arc<Mutex<Vec<(Op, Moment, usize)>>> = Arc::new(Mutex::new(Vec::new()));
    let mut disk = Disk::new();
    let ear = told.clone();
    disk.set_observer(Some(Box::new(move |point: &Point, disk: &Disk| {
        let dirty = disk.snapshot().choices().len();
        ear.lock().push((point.op, point.moment, dirty));
    })));
    let a = disk.create(path("/a")).expect("a file");
    disk.write_at(a, 0, b"xy").expect("a write");
    disk.sync_all(a).expect("a sync");
    disk.sync_dir(path("/")).expect("a sync");
    let told = told.lock().clone();
    // Axes: the name; then length, bytes and stale block too.
    let wanted = [
        (Op::Create, Moment::Before, 0),
        (Op::Create, Moment::Return, 1),
        (Op::Write, Moment::Before, 1),
        (Op::Write, Moment::Inside, 4),
        (Op::Write, Moment::Return, 4),
        (Op::SyncAll, Moment::Before, 4),
        (Op::SyncAll, Moment::Inside, 4),
        (Op::SyncAll, Moment::Return, 1),
        (Op::SyncDir, Moment::Before, 1),
        (Op::SyncDir, Moment::Inside, 1),
        (Op::SyncDir, Moment::Return, 0),
    ];
    assert_eq!(told, wanted);
}

#[test]
fn a_snapshot_does_not_change_with_the_disk() {
    let mut disk = dirty(3);
    let snapshot = disk.snapshot();
    let (all, none) = (snapshot.all(), snapshot.none());
    let hashes = |s: &Snapshot| (s.image(&all).content_hash(), s.image(&none).content_hash());
    let then = hashes(&snapshot);
    assert_eq!(then.0, disk.content_hash(), "everything survives: what reads see");
    let log = disk.open(path("/log"), true).expect("the log");
    disk.write_at(log, 0, &[9; 100]).expect("a write");
    disk.sync_all(log).expect("a sync");
    disk.unlink(path("/a")).expect("a name less");
    disk.sync_dir(path("/")).expect("a sync");
    assert_eq!(hashes(&snapshot), then);
}

#[test]
fn small_dirty_sets_are_enumerated_and_large_ones_sampled() {
    let snapshot = dirty(2).snapshot();
    let images = snapshot.images(64, 1);
    assert!(images.is_exhaustive());
    // Two writes with four fates each, times stale blocks or none.
    assert_eq!(images.count(), 32);

    let snapshot = dirty(30).snapshot();
    for seed in 0..20 {
        let images = snapshot.images(50, seed);
        assert!(!images.is_exhaustive());
        let all: Vec<_> = images.collect();
        assert_eq!(all.len(), 50);
        let distinct: BTreeSet<u64> = all.iter().map(|image| image.hash).collect();
        assert_eq!(distinct.len(), 50);
        assert_eq!(all[0].choice, snapshot.all());
        assert_eq!(all[1].choice, snapshot.none());
        assert!(all.iter().any(|i| i.choice.picks.iter().any(|p| matches!(p, Pick::Prefix(_)))));
        for image in &all {
            assert_eq!(image.disk.content_hash(), image.hash);
            assert_eq!(image.disk.snapshot().choices().len(), 0, "an image is durable");
        }
    }
    // Enough room for every axis alone: each is lost once and kept once.
    let picks: Vec<Choice> = snapshot.images(400, 3).map(|image| image.choice).collect();
    let axes = snapshot.choices().len();
    for axis in 0..axes {
        let alone = |fate: Pick, others: Pick| {
            let mut picks = vec![others; axes];
            picks[axes - 1] = Pick::Lost;
            picks[axis] = fate;
            Choice { picks }
        };
        if axis + 1 < axes {
            assert!(picks.contains(&alone(Pick::Lost, Pick::Kept)), "axis {axis} lost alone");
            assert!(picks.contains(&alone(Pick::Kept, Pick::Lost)), "axis {axis} kept alone");
        }
    }
}

#[test]
fn a_choice_reads_back_from_its_text_and_gives_the_same_image() {
    let snapshot = dirty(30).snapshot();
    for image in snapshot.images(200, 9) {
        let text = image.choice.to_string();
        let back: Choice = text.parse().expect("its own text");
        assert_eq!(back, image.choice, "{text}");
        assert_eq!(snapshot.image(&back).content_hash(), image.hash);
        assert_eq!(snapshot.describe(&back).lines().count(), back.picks.len());
    }
    assert!("+ x".parse::<Choice>().is_err());
    let snapshot = dirty(1).snapshot();
    let text = snapshot.describe(&snapshot.all());
    assert_eq!(text, "+ bytes /log[0..20]\n- stale /log\n");
}

#[test]
fn rules_pick_their_call() {
    let mut disk = Disk::new();
    let eio = Fault::Error(Errno::EIO);
    disk.plan.rules =
        vec![Rule::new(eio).op(Op::Create).stage(3).path_end(".log").skip(1).times(2)];
    let mut made = |stage: u8, name: &str| {
        disk.set_stage(stage);
        disk.create(path(name)).is_ok()
    };
    assert!(made(2, "/1.log"), "another stage");
    assert!(made(3, "/2.tbl"), "another name");
    assert!(made(3, "/3.log"), "the first passes");
    assert!(!made(3, "/4.log"));
    assert!(!made(3, "/5.log"));
    assert!(made(3, "/6.log"), "twice only");
    let stages: Vec<(u8, u64)> = disk.injected().iter().map(|i| (i.stage, i.call)).collect();
    assert_eq!(stages, [(3, 4), (3, 5)]);
    let log: Vec<String> = disk.log().map(ToString::to_string).collect();
    assert_eq!(log[3], "     4 create /4.log = EIO [eio]");
    assert_eq!(log[5], "     6 create /6.log = 0");
}

#[test]
fn rates_repeat_with_their_seed() {
    let run = |seed: u64| {
        let mut disk = dirty(0);
        let rates = ["eio", "short", "sync_new", "half"]
            .map(|name| (Fault::named(name).expect("a fault of the table"), 100_000));
        disk.plan = FaultPlan { rules: Vec::new(), rates: rates.to_vec(), seed };
        disk.set_log_max(10_000);
        for n in 0..500 {
            let Ok(log) = disk.open(path("/log"), true) else { continue };
            let _ = disk.write_at(log, n % 4000, &[n as u8; 30]);
            let _ = disk.sync_data(log);
            disk.close(log);
        }
        let log: String = disk.log().map(|call| format!("{call}\n")).collect();
        let images: Vec<u64> = disk.snapshot().images(40, seed).map(|i| i.hash).collect();
        (log, images, disk.injected().len(), disk.clock.now_ns())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
    assert!((100..400).contains(&run(7).2), "{} faults of 1500 calls", run(7).2);
}

#[test]
fn every_fault_meets_every_call_that_it_applies_to() {
    for &(name, fault) in kiban_crash::disk::FAULTS {
        assert_eq!(fault.name(), name);
        assert!(Op::ALL.iter().any(|&op| fault.applies(op)), "{name} applies to nothing");
    }
}

#[test]
fn damage_changes_what_it_names() {
    let damaged = |damage: Damage| {
        let mut disk = Disk::new();
        disk.put_file("/d/x", b"0123456789").expect("a file");
        disk.put_file("/d/y", b"abcdefghij").expect("a file");
        disk.damage("/d/x", damage).expect("damage");
        assert_eq!(disk.get_file("/d/y").expect("the other file"), b"abcdefghij");
        disk.get_file("/d/x").map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = |damage| damaged(damage).expect("the file");
    assert_eq!(text(Damage::Flip { at: 1, bit: 0 }), "0023456789");
    assert_eq!(text(Damage::Flip { at: 99, bit: 0 }), "0123456789");
    assert_eq!(text(Damage::Zero { at: 8, len: 9 }), "01234567\0\0");
    assert_eq!(text(Damage::Truncate { len: 3 }), "012");
    assert_eq!(text(Damage::Duplicate { from: 0, to: 8, len: 5 }), "0123456701");
    assert_eq!(text(Damage::Swap { a: 0, b: 8, len: 4 }), "8923456701");
    assert!(damaged(Damage::Remove).is_err());
    let mut disk = Disk::new();
    disk.put_file("/x", b"0123456789").expect("a file");
    disk.put_file("/y", b"abc").expect("a file");
    disk.misdirect("/y", "/x", 1, 4).expect("a misdirected block");
    assert_eq!(disk.get_file("/x").expect("the file"), b"0bc\0\x0056789");
}

#[test]
fn an_image_is_not_harmed_by_damage_to_its_sister() {
    let snapshot = dirty(0).snapshot();
    let (mut one, other) = (snapshot.image(&snapshot.all()), snapshot.image(&snapshot.all()));
    one.damage("/a", Damage::Flip { at: 0, bit: 7 }).expect("damage");
    assert_ne!(one.content_hash(), other.content_hash());
    assert_eq!(other.get_file("/a").expect("the file"), b"durable.");
}

#[test]
fn a_disk_that_is_off_does_nothing() {
    let mut disk = dirty(1);
    let (hash, calls) = (disk.content_hash(), disk.calls());
    disk.set_off(true);
    assert!(disk.create(path("/b")).is_err());
    assert!(disk.unlink(path("/a")).is_err());
    disk.set_off(false);
    assert_eq!((disk.content_hash(), disk.calls()), (hash, calls));
}

#[test]
fn the_clock_goes_with_calls_and_stands_still_on_demand() {
    let mut disk = Disk::new();
    let start = disk.clock.now_ns();
    disk.exists(path("/a")).expect("an answer");
    let later = disk.clock.now_ns();
    assert!(later > start);
    disk.clock.set_pace(1, 0);
    disk.exists(path("/a")).expect("an answer");
    disk.clock.sleep(1_000);
    assert_eq!(disk.clock.now_ns(), later);
    disk.clock.jump(5);
    assert_eq!(disk.clock.now_ns(), later + 5);
}
