//! The commit queue under loom: every interleaving of a few writers, within the stated bound.
//!
//! Compiled from the production source (`src/engine/queue.rs`), against loom's locks.

use kiban_loom::base::key::SeqNo;
use kiban_loom::env::clock::Clock;
use kiban_loom::rig::{CommitQueue, GROUP_BYTES_MAX, Group, Write};
use kiban_loom::{Error, Result};
use loom::sync::{Arc, Mutex};

/// Time stands still: a deadline is a thread of the model.
struct NoTime;

impl Clock for NoTime {
    fn now_ns(&self) -> u64 {
        0
    }

    fn sleep_ns(&self, _duration_ns: u64) {}
}

fn queue() -> Arc<CommitQueue> {
    Arc::new(CommitQueue::new(std::sync::Arc::new(NoTime), GROUP_BYTES_MAX, 100_000))
}

fn commit(
    queue: &CommitQueue,
    byte: u8,
    sync: bool,
    lead: impl FnOnce(&mut Group) -> Result<SeqNo>,
) -> Result<SeqNo> {
    let write = Write { records: &[byte], count: 1, sync };
    queue.commit(&write, &mut None, || true, lead).expect("it may join")
}

/// Gives each group its place, as the log does.
fn append(log: &Mutex<Vec<u8>>, group: &mut Group) -> SeqNo {
    let mut log = log.lock().expect("no model thread panics");
    let first = log.len() as u64 + 1;
    log.extend_from_slice(&group.records);
    SeqNo(first)
}

/// Two writers of one record each. W1: a writer's sequence is its record's place in the log.
/// Allowed logs: [a, b] and [b, a], in one group of two or in two groups of one.
/// Forbidden: a lost record, one place given twice, a writer that sleeps for ever (B1).
/// Bounded at three preemptions.
#[test]
fn loom_two_writers_each_get_their_own_place() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let queue = queue();
        let log = Arc::new(Mutex::new(Vec::new()));
        let writer = |byte: u8| {
            let (queue, log) = (queue.clone(), log.clone());
            move || commit(&queue, byte, false, |group| Ok(append(&log, group)))
        };
        let other = loom::thread::spawn(writer(b'b'));
        let a = writer(b'a')().expect("the leader cannot fail here");
        let b = other.join().expect("no panic").expect("the leader cannot fail here");
        let log = log.lock().expect("no model thread panics");
        assert_eq!(log.len(), 2, "no record is lost or written twice");
        assert_eq!(log[a.0 as usize - 1], b'a', "W1");
        assert_eq!(log[b.0 as usize - 1], b'b', "W1");
    });
}

/// Three writers, one asks for a sync: the group that holds it is synced, whoever leads it.
/// Allowed: any grouping. Forbidden: `b` acknowledged from a group that did not sync (V1).
/// Bounded at two preemptions.
#[test]
fn loom_the_strictest_sync_of_a_group_wins() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let queue = queue();
        let synced = Arc::new(Mutex::new(Vec::new()));
        let writer = |byte: u8, sync: bool| {
            let (queue, synced) = (queue.clone(), synced.clone());
            move || {
                commit(&queue, byte, sync, |group| {
                    if group.sync {
                        let mut synced = synced.lock().expect("no model thread panics");
                        synced.extend_from_slice(&group.records);
                    }
                    Ok(SeqNo(1))
                })
            }
        };
        let others =
            [loom::thread::spawn(writer(b'b', true)), loom::thread::spawn(writer(b'c', false))];
        writer(b'a', false)().expect("the leader cannot fail here");
        for other in others {
            other.join().expect("no panic").expect("the leader cannot fail here");
        }
        assert!(synced.lock().expect("no model thread panics").contains(&b'b'), "V1");
    });
}

/// Three writers, and every group that holds `b` fails: each of its members hears of it, and nobody
/// else (P1). Allowed: any grouping. Forbidden: a follower with a sequence from a failed group, or
/// an error for a writer whose group went through. Bounded at two preemptions.
#[test]
fn loom_every_member_of_a_failed_group_gets_the_error() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let queue = queue();
        let failed = Arc::new(Mutex::new(Vec::new()));
        let writer = |byte: u8| {
            let (queue, failed) = (queue.clone(), failed.clone());
            move || {
                commit(&queue, byte, false, |group| {
                    if !group.records.contains(&b'b') {
                        return Ok(SeqNo(1));
                    }
                    let mut failed = failed.lock().expect("no model thread panics");
                    failed.extend_from_slice(&group.records);
                    Err(Error::Closed)
                })
            }
        };
        let others = [b'b', b'c'].map(|byte| (byte, loom::thread::spawn(writer(byte))));
        let mut results = vec![(b'a', writer(b'a')().is_err())];
        for (byte, other) in others {
            results.push((byte, other.join().expect("no panic").is_err()));
        }
        let failed = failed.lock().expect("no model thread panics");
        for (byte, is_error) in results {
            assert_eq!(is_error, failed.contains(&byte), "P1: a member's result is its group's");
        }
    });
}

/// Three writers, one of which comes back at once. When a leader is done, one waiting writer may
/// have its result and another a group to lead: both must look again, or the second sleeps for ever
/// (B1, seeded bug S02). Allowed: any grouping. Bounded at two preemptions.
#[test]
fn loom_whoever_waits_looks_again_when_a_leader_is_done() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let queue = queue();
        let log = Arc::new(Mutex::new(Vec::new()));
        let writer = |byte: u8| {
            let (queue, log) = (queue.clone(), log.clone());
            move || commit(&queue, byte, false, |group| Ok(append(&log, group)))
        };
        let others = [b'b', b'c'].map(|byte| loom::thread::spawn(writer(byte)));
        for _ in 0..2 {
            writer(b'a')().expect("the leader cannot fail here");
        }
        for other in others {
            other.join().expect("no panic").expect("the leader cannot fail here");
        }
        assert_eq!(log.lock().expect("no model thread panics").len(), 4, "W1");
    });
}
