//! The queue with one thread and with a few real ones; every interleaving is loom's.

use super::*;
use crate::env::clock::OsClock;
use crate::env::sync::{AtomicU64, Ordering};
use crate::env::thread::spawn;

fn queue() -> CommitQueue {
    CommitQueue::new(Arc::new(OsClock::new()), GROUP_BYTES_MAX, 100_000)
}

fn commit(
    queue: &CommitQueue,
    records: &[u8],
    sync: bool,
    lead: impl FnOnce(&mut Group) -> Result<SeqNo>,
) -> Result<SeqNo> {
    let write = Write { records, count: records.len() as u32, sync };
    queue.commit(&write, &mut None, |_| true, lead).expect("it may join")
}

#[test]
fn a_lone_writer_leads_its_own_group_at_once() {
    let queue = queue();
    for n in 1..4u64 {
        let last = commit(&queue, b"xy", n == 2, |group| {
            assert_eq!((&group.records[..], group.count, group.sync), (&b"xy"[..], 2, n == 2));
            group.sync_ns = 1_000_000;
            Ok(SeqNo(10 * n))
        });
        assert_eq!(last.expect("led"), SeqNo(10 * n + 1));
    }
}

#[test]
fn a_failed_group_and_a_panicking_leader_leave_the_queue_usable() {
    let queue = queue();
    commit(&queue, b"x", false, |_| Err(Error::Closed)).expect_err("led to an error");
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = commit(&queue, b"x", false, |_| panic!("leader"));
    }));
    assert!(panic.is_err());
    assert_eq!(commit(&queue, b"x", false, |_| Ok(SeqNo(1))).expect("led"), SeqNo(1));
}

#[test]
fn who_may_not_join_has_done_nothing() {
    let queue = queue();
    let mut receipt: Option<Receipt> = Some(Box::new(|_| {}));
    let write = Write { records: b"x", count: 1, sync: false };
    let refused = queue.commit(&write, &mut receipt, |_| false, |_| Ok(SeqNo(1)));
    assert!(refused.is_none() && receipt.is_some());
    let mut seen = 0;
    commit(&queue, b"y", false, |group| {
        seen = group.count;
        Ok(SeqNo(1))
    })
    .expect("led");
    assert_eq!(seen, 1);
}

/// A writer that joined behind a leader is evidence for a cohort of two; it waits for the other in
/// vain, and is led alone.
#[test]
fn a_wait_for_a_cohort_is_counted_and_so_is_one_in_vain() {
    let shared = Arc::new(queue());
    let queue = shared.clone();
    let mut behind = None;
    let led = commit(&queue, b"x", true, |group| {
        group.sync_ns = 1_000_000;
        let queue = shared.clone();
        let join = move || commit(&queue, b"y", true, |_| Ok(SeqNo(2)));
        behind = Some(spawn("behind", join).expect("a thread"));
        while shared.state.lock().open[DURABLE].members() == 0 {
            std::hint::spin_loop();
        }
        Ok(SeqNo(1))
    });
    assert_eq!(led.expect("led"), SeqNo(1));
    let behind = behind.expect("started").join().expect("no panic");
    assert_eq!(behind.expect("led"), SeqNo(2));
    assert_eq!(queue.cohort_waits(), CohortWaits { begun: 1, in_vain: 1 });
}

#[test]
fn every_writer_of_many_gets_a_place_of_its_own() {
    let shared = Arc::new((queue(), Mutex::new(Vec::new()), AtomicU64::new(0)));
    let writers: Vec<_> = (0..8u8)
        .map(|writer| {
            let shared = shared.clone();
            spawn("writer", move || {
                let (queue, log, syncs) = &*shared;
                for n in 0..200u32 {
                    let sync = writer % 2 == 0;
                    let at = commit(queue, &[writer, n as u8], sync, |group| {
                        let mut log = log.lock();
                        let first = log.len() as u64;
                        log.extend_from_slice(&group.records);
                        if group.sync {
                            syncs.fetch_add(1, Ordering::Relaxed);
                            group.sync_ns = 20_000;
                        }
                        Ok(SeqNo(first))
                    });
                    let at = at.expect("led").0 as usize;
                    assert_eq!(log.lock()[at - 1..=at], [writer, n as u8], "W1");
                }
            })
            .expect("a thread")
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    assert_eq!(shared.1.lock().len(), 8 * 200 * 2);
    assert!(shared.2.load(Ordering::Relaxed) <= 4 * 200);
}
