//! The commit queue under loom: who leads whom, and that everybody gets on.
//!
//! Compiled from the production source (`src/engine/queue`), against loom's locks. An outcome is
//! the log as groups, in order: `a|bc+` is a group of `a`, then one of `b` and `c` with a sync.
//! Writers of digits ask for a sync.

mod common;

use common::outcomes;
use kiban_loom::base::key::SeqNo;
use kiban_loom::env::clock::Clock;
use kiban_loom::env::sync::{Arc, Condvar, Mutex};
use kiban_loom::rig::{CommitQueue, GROUP_BYTES_MAX, Group, Write};
use kiban_loom::{Error, Result};
use loom::thread;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The deadline of every timed wait: a thread of the model, or a part of one. The queue asks for
/// the time right before each, with its lock held.
#[derive(Default)]
struct Timer {
    /// Waits that began, and how many of them found their deadline passed; whether that was all.
    waits: Mutex<(u32, u32, bool)>,
    changed: Condvar,
}

impl Clock for Timer {
    fn now_ns(&self) -> u64 {
        self.waits.lock().0 += 1;
        self.changed.notify_all();
        0
    }

    fn sleep_ns(&self, _duration_ns: u64) {}
}

impl Timer {
    /// Lets deadlines pass until the end.
    fn run(&self, queue: &CommitQueue) {
        let mut waits = self.waits.lock();
        loop {
            while waits.0 == waits.1 && !waits.2 {
                waits = self.changed.wait(waits);
            }
            if waits.2 {
                return;
            }
            waits.1 = waits.0;
            drop(waits);
            queue.look_again();
            waits = self.waits.lock();
        }
    }

    fn end(&self) {
        self.waits.lock().2 = true;
        self.changed.notify_all();
    }
}

/// A queue, and a log that it writes to.
struct World {
    queue: CommitQueue,
    timer: Arc<Timer>,
    groups: Mutex<Vec<String>>,
    /// Writers that have joined a group.
    joined: Mutex<u32>,
    join: Condvar,
}

impl World {
    fn new() -> Arc<Self> {
        let timer = Arc::<Timer>::default();
        Arc::new(Self {
            queue: CommitQueue::new(timer.clone(), GROUP_BYTES_MAX, 100_000),
            timer,
            groups: Mutex::new(Vec::new()),
            joined: Mutex::new(0),
            join: Condvar::new(),
        })
    }

    fn write_led_by(
        &self,
        name: char,
        lead: impl FnOnce(&mut Group) -> Result<SeqNo>,
    ) -> Result<SeqNo> {
        let write = Write { records: &[name as u8], count: 1, sync: name.is_ascii_digit() };
        // Asked once or twice, in one piece.
        let asked = std::cell::Cell::new(false);
        let may_join = |_| {
            if !asked.replace(true) {
                // The queue's lock is held, so whoever leads now sees this one behind it.
                *self.joined.lock() += 1;
                self.join.notify_all();
            }
            true
        };
        self.queue.commit(&write, &mut None, may_join, lead).expect("it may join")
    }

    fn write(&self, name: char) -> Result<SeqNo> {
        self.write_led_by(name, |group| Ok(self.append(group)))
    }

    /// Gives a group its place, as the log does.
    fn append(&self, group: &mut Group) -> SeqNo {
        group.sync_ns = u64::from(group.sync) * 1_000;
        let mut groups = self.groups.lock();
        let first = groups.concat().replace('+', "").len() as u64 + 1;
        let names = String::from_utf8(group.records.clone()).expect("names are ASCII");
        groups.push(names + if group.sync { "+" } else { "" });
        SeqNo(first)
    }

    fn await_joined(&self, writers: u32) {
        let mut joined = self.joined.lock();
        while *joined < writers {
            joined = self.join.wait(joined);
        }
    }

    /// The log. W1: nothing is lost or there twice, and `acks` are the places of their records.
    fn log(&self, acks: &[(char, Result<SeqNo>)]) -> String {
        let log = self.groups.lock().join("|");
        let records: Vec<char> = log.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        assert_eq!(records.iter().collect::<BTreeSet<_>>().len(), records.len(), "{log}");
        assert_eq!(records.len(), acks.len(), "{log}");
        for (name, ack) in acks {
            if let Ok(seq) = ack {
                assert_eq!(records[seq.0 as usize - 1], *name, "W1: {log}");
            }
        }
        log
    }
}

fn set(allowed: &[&str]) -> BTreeSet<String> {
    allowed.iter().map(|&outcome| outcome.to_owned()).collect()
}

/// The log of writers that start together, the last one on the model's own thread.
fn together(world: &Arc<World>, names: &str) -> String {
    let spawn = |name| {
        let world = world.clone();
        (name, thread::spawn(move || world.write(name)))
    };
    let (last, others) = names.split_at(1);
    let last = last.chars().next().expect("there is one");
    let others: Vec<_> = others.chars().map(spawn).collect();
    let mut acks = vec![(last, world.write(last))];
    acks.extend(others.into_iter().map(|(name, it)| (name, it.join().expect("no panic"))));
    assert!(acks.iter().all(|(_, ack)| ack.is_ok()), "nothing fails here");
    world.log(&acks)
}

/// Two writers. Allowed: one after the other. Forbidden: a lost record, one place given twice, a
/// writer that sleeps for ever. Not bounded in preemptions.
#[test]
fn two_writers_each_get_their_own_place() {
    let seen = outcomes(None, || together(&World::new(), "ab"));
    assert_eq!(seen, set(&["a|b", "b|a"]));
}

/// Three writers, one of which asks for a sync. Whoever comes first leads alone; of the two that
/// come meanwhile the one that asks takes the other along, or the other way round: V1, the
/// strictest wins. Allowed: every order, alone or so. Forbidden: `1` in a group without a sync.
/// Bounded at three preemptions.
#[test]
fn the_strictest_sync_of_a_group_wins() {
    let seen = outcomes(Some(3), || together(&World::new(), "ab1"));
    let alone = ["a|b|1+", "a|1+|b", "b|a|1+", "b|1+|a", "1+|a|b", "1+|b|a"];
    let grouped = ["a|b1+", "a|1b+", "b|a1+", "b|1a+", "1+|ab", "1+|ba"];
    assert_eq!(seen, set(&[alone, grouped].concat()));
}

/// While `a` leads, `b` and `1` join; the group of both fails. Allowed: both get its error, in
/// either order, and `a` none (P1); `d` gets on after them. Bounded at three preemptions.
#[test]
fn every_member_of_a_failed_group_gets_the_error() {
    let seen = outcomes(Some(3), || {
        let world = World::new();
        let mut others = Vec::new();
        let a = world.write_led_by('a', |group| {
            for name in ['b', '1'] {
                let world = world.clone();
                others.push(thread::spawn(move || {
                    world.write_led_by(name, |group| {
                        world.append(group);
                        Err(Error::ReadOnly)
                    })
                }));
            }
            world.await_joined(3);
            Ok(world.append(group))
        });
        assert!(a.is_ok(), "its group went through");
        let mut acks = vec![('a', a)];
        for (name, other) in ['b', '1'].into_iter().zip(others) {
            let ack = other.join().expect("no panic");
            assert!(matches!(ack, Err(Error::ReadOnly)), "P1: {name} got {ack:?}");
            acks.push((name, ack));
        }
        acks.push(('d', world.write('d')));
        world.log(&acks)
    });
    assert_eq!(seen, set(&["a|b1+|d", "a|1b+|d"]));
}

/// While `a` leads, `b` and `c` join; the one that leads both panics. Allowed: it panics, the other
/// one is told `Poisoned`, and `d` gets on after them. Forbidden: one that sleeps for ever, or gets
/// a sequence (P1). Bounded at three preemptions.
#[test]
fn a_panicking_leader_wakes_all() {
    std::panic::set_hook(Box::new(|_| {}));
    let seen = outcomes(Some(3), || {
        let world = World::new();
        let mut others = Vec::new();
        let a = world.write_led_by('a', |group| {
            for name in ['b', 'c'] {
                let world = world.clone();
                others.push(thread::spawn(move || {
                    let led = || world.write_led_by(name, |_| panic!("leader"));
                    match catch_unwind(AssertUnwindSafe(led)) {
                        Err(_) => "panicked",
                        Ok(Err(Error::Poisoned { .. })) => "poisoned",
                        Ok(_) => "took it for done",
                    }
                }));
            }
            world.await_joined(3);
            Ok(world.append(group))
        });
        let others = others.into_iter().map(|other| other.join().expect("caught"));
        let ends: Vec<_> = others.collect();
        let d = world.write('d');
        assert_eq!(world.log(&[('a', a), ('d', d)]), "a|d");
        ends
    });
    let _ = std::panic::take_hook();
    assert_eq!(seen, [vec!["panicked", "poisoned"], vec!["poisoned", "panicked"]].into());
}

/// `1` leads, and `2` joins behind it: evidence for a cohort of two, for which `2` parks. Then `a`
/// comes and must pass it, as it asked for no sync; no deadline passes before it is done.
/// Allowed: this one log. Forbidden: `a` that waits. Bounded at three preemptions.
#[test]
fn a_buffered_write_passes_a_parked_durable_one() {
    let seen = outcomes(Some(3), || {
        let world = World::new();
        let (one, two) = lead_and_park(&world, true);
        let a = world.write('a');
        // From now on deadlines pass: of the wait of `2`, until it is done.
        world.timer.run(&world.queue);
        world.log(&[('1', one), ('a', a), ('2', two.join().expect("no panic"))])
    });
    assert_eq!(seen, set(&["1+|a|2+"]));
}

/// `1` leads with `2` behind it, and comes back as `3` while the deadline of `2` passes. Allowed:
/// the cohort is complete, and `3` leads both; or the deadline comes first, `2` leads alone, and so
/// does `3`. Forbidden: either of them asleep for ever or led twice (B1). Bounded at three
/// preemptions.
#[test]
fn a_cohort_completes_while_its_deadline_passes() {
    let seen = outcomes(Some(3), || {
        let world = World::new();
        let (one, two) = lead_and_park(&world, false);
        let deadline = {
            let world = world.clone();
            thread::spawn(move || world.timer.run(&world.queue))
        };
        let three = world.write('3');
        let two = two.join().expect("no panic");
        world.timer.end();
        deadline.join().expect("no panic");
        world.log(&[('1', one), ('2', two), ('3', three)])
    });
    assert_eq!(seen, set(&["1+|23+", "1+|2+|3+"]));
}

/// Three writers in both lanes, one of which comes back at once, as `d`. When a leader is done, one
/// that waits may have its result (its group was taken along) and another a group to lead: both
/// must look again, or the second sleeps for ever (B1). Allowed: any grouping with `a` before `d`.
/// Bounded at three preemptions.
#[test]
fn whoever_waits_looks_again_when_a_leader_is_done() {
    let seen = outcomes(Some(3), || {
        let world = World::new();
        let others = ['b', '1'].map(|name| {
            let world = world.clone();
            (name, thread::spawn(move || world.write(name)))
        });
        let mut acks = vec![('a', world.write('a')), ('d', world.write('d'))];
        acks.extend(others.map(|(name, other)| (name, other.join().expect("no panic"))));
        world.log(&acks)
    });
    assert!(seen.iter().all(|log| log.find('a') < log.find('d')), "{seen:?}");
    let alone = seen.iter().filter(|log| log.matches('|').count() == 3).count();
    assert_eq!(alone, 12, "every order in groups of one: {seen:?}");
    assert!(seen.len() > alone, "and some of more");
}

type Ack = Result<SeqNo>;

/// `1` leads and is done; `2`, which joined meanwhile, waits for its cohort. At its end no deadline
/// passes any more, if it is the last.
fn lead_and_park(world: &Arc<World>, is_last: bool) -> (Ack, thread::JoinHandle<Ack>) {
    let mut two = None;
    let one = world.write_led_by('1', |group| {
        let its = world.clone();
        two = Some(thread::spawn(move || {
            let ack = its.write('2');
            if is_last {
                its.timer.end();
            }
            ack
        }));
        world.await_joined(2);
        Ok(world.append(group))
    });
    (one, two.expect("the leader started it"))
}
