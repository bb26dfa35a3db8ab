//! Registration of snapshots against retention's sampling under loom.
//!
//! Compiled from the production sources (`src/engine/snapshots.rs`, `src/maintain/retain.rs`).
//! None of the models is bounded in preemptions.

mod common;

use common::outcomes;
use kiban_loom::base::key::{EntryRef, Kind, SeqNo};
use kiban_loom::env::sync::{Arc, AtomicU64, Ordering};
use kiban_loom::rig::Snapshots;
use kiban_loom::rig::maintain::retain::Retain;
use loom::thread;

/// The versions of one key, 1 up to the last that was sampled, that a merge keeps.
fn kept(sample: &[SeqNo]) -> Vec<SeqNo> {
    let mut retain = Retain::new(sample, true);
    let last = sample.last().expect("what is published now is always sampled").0;
    let entry = |seq| EntryRef { key: b"a", seq: SeqNo(seq), kind: Kind::Put, value: b"" };
    (1..=last).rev().filter(|&seq| retain.keep(entry(seq))).map(SeqNo).collect()
}

/// 2 and 3 are published while a snapshot is taken and retention samples. An outcome is the
/// snapshot's sequence and the sample. Allowed: the snapshot is in the sample, or at or above its
/// last, which is what was published then. Forbidden: a snapshot below it that is not in the
/// sample: the merge would drop what it reads (G1).
#[test]
fn no_sampling_misses_a_snapshot() {
    let seen = outcomes(None, || {
        let world = Arc::new((Snapshots::default(), AtomicU64::new(1)));
        let publisher = {
            let world = world.clone();
            thread::spawn(move || {
                world.1.store(2, Ordering::Release);
                world.1.store(3, Ordering::Release);
            })
        };
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.0.register(&world.1))
        };
        let sample = world.0.sample(&world.1);
        let at = reader.join().expect("no panic");
        publisher.join().expect("no panic");
        let last = *sample.last().expect("never empty");
        assert!(at > last || kept(&sample).contains(&at), "G1: {at:?} in {sample:?}");
        (at.0, sample.into_iter().map(|seq| seq.0).collect::<Vec<_>>())
    });
    let sampled_first = [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (3, 3)];
    let sampled_first = sampled_first.map(|(at, last)| (at, vec![last]));
    let registered_first = [(1, 2), (1, 3), (2, 3)].map(|(at, last)| (at, vec![at, last]));
    assert_eq!(seen, sampled_first.into_iter().chain(registered_first).collect());
}

/// A snapshot goes while another one of the same sequence is taken. Allowed: the other one is in
/// every later sample. Forbidden: both gone.
#[test]
fn a_snapshot_that_goes_takes_no_other_with_it() {
    let seen = outcomes(None, || {
        let world = Arc::new((Snapshots::default(), AtomicU64::new(1)));
        let first = world.0.register(&world.1);
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let at = world.0.register(&world.1);
                world.1.store(2, Ordering::Release);
                (at.0, world.0.sample(&world.1).len())
            })
        };
        world.0.release(first);
        let taken = reader.join().expect("no panic");
        (taken, world.0.count())
    });
    assert_eq!(seen, [((1, 2), 1)].into());
}
