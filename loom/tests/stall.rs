//! Stalls and wake-ups under loom: writers that wait, workers, poison and the end.
//!
//! Compiled from the production source (`src/engine/signals.rs`). What maintenance does is a flag
//! here: "full" is what a writer waits to see gone. Errors stand for themselves: `ReadOnly` is a
//! failed try, or the cause of a poisoning.

mod common;

use common::outcomes;
use kiban_loom::Error;
use kiban_loom::env::clock::Clock;
use kiban_loom::env::sync::{Arc, Mutex};
use kiban_loom::rig::{LANES, Lane, Signals};
use loom::thread;

/// Time stands still.
struct NoTime;

impl Clock for NoTime {
    fn now_ns(&self) -> u64 {
        0
    }

    fn sleep_ns(&self, _duration_ns: u64) {}
}

#[derive(Default)]
struct World {
    signals: Arc<Signals>,
    full: Mutex<bool>,
    /// What happened, in order.
    story: Mutex<Vec<&'static str>>,
}

impl World {
    fn new() -> Arc<Self> {
        let world = Self::default();
        world.signals.set_workers(true);
        Arc::new(world)
    }

    fn note(&self, what: &'static str) {
        self.story.lock().push(what);
    }

    /// As a writer does that finds no room: mark, look, wait.
    fn write(&self) -> &'static str {
        loop {
            let since = self.signals.now();
            if !*self.full.lock() {
                return "room";
            }
            self.signals.tell_due(Lane::Flush);
            match self.signals.await_progress(since, &[Lane::Flush], None) {
                Ok(got_on) => assert!(got_on, "no time was set"),
                Err(Error::Closed) => return "closed",
                Err(_) => return "failed",
            }
        }
    }

    /// As a worker does, whose first `failures` tries fail.
    fn work(&self, lane: Lane, mut failures: u32) {
        while self.signals.await_due(lane) {
            self.note(if lane == Lane::Flush { "flush" } else { "compact" });
            let did = if failures > 0 {
                failures -= 1;
                Err(Error::ReadOnly)
            } else if lane == Lane::Flush {
                Ok(std::mem::take(&mut *self.full.lock()))
            } else {
                Ok(false)
            };
            self.signals.end_turn(lane, &did);
        }
    }

    fn worker(self: &Arc<Self>, lane: Lane, failures: u32) -> thread::JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || world.work(lane, failures))
    }
}

/// A stalled writer, and a worker in each lane. Allowed: the writer gets on, after one turn of the
/// flushing worker or after a second one, which it asked for. Forbidden: a writer or a worker
/// asleep for ever, at the end too (B1). Bounded at three preemptions.
#[test]
fn a_stalled_writer_gets_on_and_the_end_wakes_the_workers() {
    let seen = outcomes(Some(3), || {
        let world = World::new();
        let workers = LANES.map(|lane| world.worker(lane, 0));
        *world.full.lock() = true;
        let end = world.write();
        let turns = world.story.lock().iter().filter(|what| **what == "flush").count();
        world.signals.stop();
        for worker in workers {
            worker.join().expect("no panic");
        }
        (end, turns)
    });
    assert_eq!(seen, [("room", 1), ("room", 2)].into());
}

/// The worker's first try fails, and it tries again by itself. Allowed: the failure is the writer's
/// answer, or the writer came after it and gets on. Bounded at three preemptions.
#[test]
fn a_failed_try_is_the_answer_of_who_waits_and_is_made_again() {
    let seen = outcomes(Some(3), || {
        let world = World::new();
        let worker = world.worker(Lane::Flush, 1);
        *world.full.lock() = true;
        let end = world.write();
        while *world.full.lock() {
            assert_eq!(world.write(), "room", "the next try succeeds");
        }
        world.signals.stop();
        worker.join().expect("no panic");
        end
    });
    assert_eq!(seen, ["failed", "room"].into());
}

/// A stalled writer, and a worker in each lane, of which the merging one fails first. Allowed: the
/// writer gets on. Forbidden: what befell the other lane is its answer. Bounded at three
/// preemptions.
#[test]
fn a_failure_of_the_other_lane_is_not_the_answer() {
    let seen = outcomes(Some(3), || {
        let world = World::new();
        let workers = [world.worker(Lane::Compact, 1), world.worker(Lane::Flush, 0)];
        *world.full.lock() = true;
        let end = world.write();
        world.signals.stop();
        for worker in workers {
            worker.join().expect("no panic");
        }
        end
    });
    assert_eq!(seen, ["room"].into());
}

/// A stalled writer without a worker, one who poisons, and one who closes. Allowed: the writer is
/// told one of both, or, if it comes late, sees the poison for itself. Forbidden: it sleeps on.
/// Not bounded in preemptions.
#[test]
fn poison_and_close_wake_a_stalled_writer() {
    let seen = outcomes(None, || {
        let world = World::new();
        let poisoned = Arc::new(Mutex::new(false));
        let poisoner = {
            let (world, poisoned) = (world.clone(), poisoned.clone());
            thread::spawn(move || {
                *poisoned.lock() = true;
                world.signals.tell_step(&LANES, Some(&Error::ReadOnly));
            })
        };
        let closer = {
            let world = world.clone();
            thread::spawn(move || world.signals.stop())
        };
        let since = world.signals.now();
        let end = if *poisoned.lock() {
            "saw poison"
        } else {
            match world.signals.await_progress(since, &[Lane::Flush], None) {
                Ok(_) => "got on",
                Err(Error::Closed) => "closed",
                Err(_) => "poisoned",
            }
        };
        poisoner.join().expect("no panic");
        closer.join().expect("no panic");
        assert!(!world.signals.await_due(Lane::Flush), "once stopped, nobody waits");
        end
    });
    assert_eq!(seen, ["closed", "poisoned", "saw poison"].into());
}

/// Two builders and the end. Allowed: each builds before the end, or not at all. Forbidden: a build
/// that is under way, or begins, when `stop` has returned. Not bounded in preemptions.
#[test]
fn no_build_is_under_way_after_the_end() {
    let seen = outcomes(None, || {
        let world = World::new();
        let builders = [(); 2].map(|()| {
            let world = world.clone();
            thread::spawn(move || {
                let Some(_building) = world.signals.begin_build() else { return };
                world.note("build");
            })
        });
        world.signals.stop();
        world.note("end");
        for builder in builders {
            builder.join().expect("no panic");
        }
        assert!(world.signals.begin_build().is_none());
        world.story.lock().clone()
    });
    let allowed = [vec!["build", "build", "end"], vec!["build", "end"], vec!["end"]];
    assert_eq!(seen, allowed.into());
}

/// One who waits until nothing is left to do, and the worker of each lane with one thing to do.
/// Allowed: both have done it by then, in either order. Bounded at three preemptions.
#[test]
fn who_waits_for_quiet_sees_it() {
    let seen = outcomes(Some(3), || {
        let world = World::new();
        let workers = LANES.map(|lane| world.worker(lane, 0));
        let settled = world.signals.await_settled(&NoTime, 1_000).expect("nothing fails here");
        assert!(settled, "time stands still");
        let story = world.story.lock().clone();
        world.signals.stop();
        for worker in workers {
            worker.join().expect("no panic");
        }
        story
    });
    assert_eq!(seen, [vec!["compact", "flush"], vec!["flush", "compact"]].into());
}
