//! A world's run under the scheduler: the database is opened, its clients do what they do, it is
//! closed.
//!
//! Invariants
//! - Every call is recorded with the instants around it, a panicking one too.
//! - A client stops at nothing: errors are results like others. Whether they may be is judged
//!   afterwards.
//! - A deadlock, a panic of the engine's own threads or a schedule without end is the run's result.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::adapter::SimFs;
use super::base::Base;
use super::chooser::{Chooser, Chosen};
use super::watch::{Ear, Failed, Record, Watch, What};
use super::world::{How, Step, World, options_of};
use crate::disk::{Disk, Injected, Snapshot};
use crate::pool::panic_text;
use crate::sim::DIR;
use kiban_model::history::Saw;
use kiban_model::ops::{Key, Span};
use kiban_shuttle::env::Env;
use kiban_shuttle::env::clock::Clock;
use kiban_shuttle::env::random::SeededRandom;
use kiban_shuttle::{
    Error, Iter, Listener, SharedKiban, Snapshot as View, StallCause, WriteBatch, WriteOptions,
};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

/// A world that ran.
pub struct Run {
    /// What was seen.
    pub record: Record,
    /// What the scheduler did.
    pub chosen: Chosen,
    /// How it ended.
    pub end: End,
}

/// How a world ended.
#[derive(Default)]
pub struct End {
    /// A deadlock, a panic of a thread of the engine, no end: in words.
    pub broken: Option<String>,
    /// The disk after the close.
    pub left: Option<Snapshot>,
    /// Faults that were injected.
    pub injected: Vec<Injected>,
    /// What no engine may do.
    pub violations: Vec<String>,
    /// The first failure of the handle, before the close.
    pub poisoned: Option<String>,
    /// What the last close said.
    pub closed: Option<Result<(), String>>,
}

const STACK_BYTES: usize = 256 << 10;
/// Choices after which a schedule has no end.
const STEPS_MAX: usize = 400_000;

/// Runs `world`.
#[must_use]
pub fn run(world: &Arc<World>) -> Run {
    quiet();
    let (chooser, chosen) = Chooser::new(world.pace.clone(), world.seed);
    let watch = Watch::new(world.seed, world.shots, panic_of(world));
    let end = Arc::new(Mutex::new(End::default()));
    let runner = shuttle::Runner::new(chooser, config());
    let ran = {
        let (world, watch, end) = (world.clone(), watch.clone(), end.clone());
        catch_unwind(AssertUnwindSafe(|| {
            runner.run(move || {
                let ended = life(&world, &watch);
                *end.lock().unwrap_or_else(PoisonError::into_inner) = ended;
            })
        }))
    };
    let mut end = std::mem::take(&mut *end.lock().unwrap_or_else(PoisonError::into_inner));
    end.broken = ran.err().map(|panic| panic_text(&*panic));
    let chosen = std::mem::take(&mut *chosen.lock().unwrap_or_else(PoisonError::into_inner));
    Run { record: watch.take(), chosen, end }
}

/// How shuttle runs a world.
pub(super) fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = shuttle::FailurePersistence::None;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    config
}

/// Where a leader panics, as a watch takes it.
pub(super) fn panic_of(world: &World) -> Option<(u8, u32)> {
    world.panic.map(|(stage, times)| (stage as u8, times))
}

/// Panics inside of a schedule are results: no hook prints them.
pub(super) fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        // Shuttle puts a hook of its own in place at its first run.
        let runner = shuttle::Runner::new(
            shuttle::scheduler::RandomScheduler::new(1),
            shuttle::Config::new(),
        );
        runner.run(|| {});
        let _ = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if shuttle::current::try_get_current_task().is_none() {
                before(info);
            }
        }));
    });
}

/// Task 0: opens, lets the clients go, looks once more, closes.
pub(super) fn life(world: &Arc<World>, watch: &Watch) -> End {
    let disk = world.base.map_or_else(Disk::new, |number| Base::numbered(number).disk());
    let fs = SimFs::new(disk);
    let observer = watch.clone();
    fs.with(|disk| {
        disk.set_log_max(0);
        disk.set_observer(Some(Box::new(move |point, disk| observer.observe(point, disk))));
    });
    let env = Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(Passing(fs.clone())),
        random: Arc::new(SeededRandom::new(world.seed)),
        probe: Some(Arc::new(Ear { fs: fs.clone(), watch: watch.clone() })),
    };
    let listener = Arc::new(Hear(watch.clone()));
    let options = options_of!(kiban_shuttle, &world.knobs).env(env).listener(listener);
    let db = match SharedKiban::open(DIR, options) {
        Ok(db) => db,
        Err(error) => {
            watch.slip("D1", format!("the open of an undamaged database: {error}"));
            return End::default();
        }
    };
    fs.with(|disk| disk.plan.rules = world.faults.clone());
    watch.look(true);
    let mut first_id = 0;
    let tasks: Vec<_> = (0u32..)
        .zip(&world.clients)
        .map(|(number, steps)| {
            let ids = first_id;
            first_id += steps.len();
            let client = Client {
                number,
                ids,
                db: db.clone(),
                fs: fs.clone(),
                watch: watch.clone(),
                kept: None,
            };
            let world = world.clone();
            shuttle::thread::spawn(move || client.work(&world.clients[number as usize]))
        })
        .collect();
    for task in tasks {
        if task.join().is_err() {
            watch.slip("-", "a client's thread panicked outside of a call".to_owned());
        }
    }
    finish(world, watch, &fs, db)
}

/// The last look, and the close.
fn finish(world: &World, watch: &Watch, fs: &SimFs, db: SharedKiban) -> End {
    let number = world.clients.len() as u32;
    let mut last = Client {
        number,
        ids: usize::MAX,
        db: db.clone(),
        fs: fs.clone(),
        watch: watch.clone(),
        kept: None,
    };
    last.step(0, &Step::Scan { from: None, back: false });
    let poisoned = db.poisoned().map(|error| error.to_string());
    let first = watch.tick();
    let closed = db.close().map_err(|error| error.to_string());
    let result = closed.clone().map_err(|text| Failed {
        text,
        closed: false,
        stalled: false,
        poisoned: poisoned.is_some(),
        panicked: false,
    });
    watch.done(fs, number, first, What::Barrier { verb: "close", result });
    drop((last, db));
    watch.look(false);
    fs.with(|disk| End {
        broken: None,
        left: Some(disk.snapshot()),
        injected: disk.injected().to_vec(),
        violations: disk.violations().iter().map(ToString::to_string).collect(),
        poisoned,
        closed: Some(closed),
    })
}

/// A clock that goes on whenever somebody looks at it, so that every deadline comes.
struct Passing(SimFs);

impl Clock for Passing {
    fn now_ns(&self) -> u64 {
        self.0.with(|disk| {
            disk.clock.jump(200);
            disk.clock.now_ns()
        })
    }

    fn sleep_ns(&self, duration_ns: u64) {
        self.0.sleep_ns(duration_ns);
    }
}

struct Hear(Watch);

impl Listener for Hear {
    fn stall_begun(&self, _cause: StallCause) {
        self.0.stall(false);
    }

    fn stall_ended(&self, _cause: StallCause, _nanos: u64) {
        self.0.stall(true);
    }
}

struct Client {
    number: u32,
    /// The number of its first step in the world.
    ids: usize,
    db: SharedKiban,
    fs: SimFs,
    watch: Watch,
    kept: Option<(u64, View)>,
}

impl Client {
    fn work(mut self, steps: &[Step]) {
        self.watch.i_am(self.number);
        for (n, step) in steps.iter().enumerate() {
            self.step(n, step);
        }
    }

    /// Makes a call and records it. `None` is not recorded.
    fn call<R>(
        &self,
        run: impl FnOnce(&SharedKiban) -> Result<R, Error>,
        record: impl FnOnce(Result<R, Failed>) -> Option<What>,
    ) -> Option<()> {
        let invoked = self.watch.tick();
        let result = match catch_unwind(AssertUnwindSafe(|| run(&self.db))) {
            Ok(result) => result.map_err(|error| Failed {
                closed: matches!(error, Error::Closed),
                stalled: matches!(error, Error::Stalled { .. }),
                poisoned: self.db.poisoned().is_some(),
                panicked: false,
                text: error.to_string(),
            }),
            Err(panic) => Err(Failed {
                text: panic_text(&*panic),
                closed: false,
                stalled: false,
                poisoned: self.db.poisoned().is_some(),
                panicked: true,
            }),
        };
        let what = record(result)?;
        self.watch.done(&self.fs, self.number, invoked, what);
        Some(())
    }

    fn step(&mut self, n: usize, step: &Step) {
        let id = self.ids.wrapping_add(n);
        let barrier = |verb| move |result| Some(What::Barrier { verb, result });
        let _ = match step {
            Step::Write { records, how, timeout } => {
                let mut batch = WriteBatch::new();
                for record in records {
                    match &record.value {
                        Some(value) => batch.put(&record.key, value.to_vec()),
                        None => batch.delete(&record.key),
                    };
                }
                let watch = self.watch.clone();
                self.call(
                    |db| write(db, &batch, *how, *timeout, move |ok| watch.told(id, ok)),
                    |result| Some(What::Write { id, result }),
                )
            }
            Step::Sync => self.call(|db| db.sync(), barrier("sync")),
            Step::Flush => self.call(|db| db.flush(), barrier("flush")),
            Step::Compact => {
                self.call(|db| db.compact_range::<&[u8]>(..), barrier("compact_range"))
            }
            Step::Close => self.call(|db| db.close(), barrier("close")),
            Step::Get(keys) => self.get(keys),
            Step::Scan { from, back } => self.call(
                |db| {
                    let from =
                        from.as_ref().map_or(Bound::Unbounded, |k| Bound::Included(k.clone()));
                    let iter = db.range((from.clone(), Bound::<Key>::Unbounded))?;
                    Ok(Saw::Scan(Span::Range(from, Bound::Unbounded), walk(iter, *back)?))
                },
                |result| saw(None, "range", result),
            ),
            Step::Snapshot => self.snapshot(id),
            Step::ReadSnapshot { back } => {
                let Some((id, view)) = &self.kept else { return };
                let read = |_: &SharedKiban| {
                    let entries = walk(view.range::<&[u8]>(..)?, *back)?;
                    Ok(Saw::Scan(Span::all(), entries))
                };
                self.call(read, |result| saw(Some(*id), "range", result))
            }
            Step::DropSnapshot => {
                self.kept = None;
                None
            }
            Step::Maintain(steps) => {
                for _ in 0..*steps {
                    self.call(|db| db.maintain_step(), |result| other("maintain_step", result));
                }
                None
            }
            Step::Settle => self.call(
                |db| db.wait_settled(Duration::from_micros(50)),
                |result| other("wait_settled", result),
            ),
            Step::Checkpoint | Step::Backup => {
                let dir = format!("/cp{id}");
                let path = dir.clone();
                let links = *step == Step::Checkpoint;
                self.call(
                    move |db| if links { db.checkpoint(&path) } else { db.backup(&path) },
                    |result| Some(What::Copy { dir, result }),
                )
            }
        };
    }

    fn get(&self, keys: &[Key]) -> Option<()> {
        self.call(
            |db| {
                let values = match keys {
                    [key] => vec![db.get(key)?],
                    keys => db.multi_get(keys)?,
                };
                let values = values.into_iter().map(|value| value.map(|value| value.to_vec()));
                Ok(Saw::Keys(keys.iter().cloned().zip(values).collect()))
            },
            |result| saw(None, "get", result),
        )
    }

    fn snapshot(&mut self, id: usize) -> Option<()> {
        let mut taken = None;
        self.call(
            |db| {
                let view = db.snapshot()?;
                let seq = view.sequence().0;
                taken = Some(view);
                Ok(seq)
            },
            |result| match result {
                Ok(seq) => Some(What::Snapshot { id: id as u64, seq }),
                Err(failed) => Some(What::Other { verb: "snapshot", result: Err(failed) }),
            },
        );
        if let Some(view) = taken {
            self.kept = Some((id as u64, view));
        }
        None
    }
}

fn saw(at: Option<u64>, verb: &'static str, result: Result<Saw, Failed>) -> Option<What> {
    Some(match result {
        Ok(saw) => What::Read { at, saw },
        Err(failed) => What::Other { verb, result: Err(failed) },
    })
}

fn other<R>(verb: &'static str, result: Result<R, Failed>) -> Option<What> {
    Some(What::Other { verb, result: result.map(drop) })
}

fn write(
    db: &SharedKiban,
    batch: &WriteBatch,
    how: How,
    timeout: bool,
    told: impl FnOnce(bool) + Send + 'static,
) -> Result<u64, Error> {
    let seq = match how {
        How::Receipt => db.write_durable_with(batch, move |result| told(result.is_ok()))?,
        _ => {
            let mut options = WriteOptions::new().durable(how == How::Durable);
            if timeout {
                options = options.stall_timeout(Duration::from_nanos(2_000));
            }
            db.write_with(batch, options)?
        }
    };
    Ok(seq.0)
}

fn walk(iter: Iter, back: bool) -> Result<Vec<(Key, Vec<u8>)>, Error> {
    let entry = |item: Result<(kiban_shuttle::Slice, kiban_shuttle::Slice), Error>| {
        item.map(|(key, value)| (key.to_vec(), value.to_vec()))
    };
    if back {
        let mut entries = iter.rev().map(entry).collect::<Result<Vec<_>, _>>()?;
        entries.reverse();
        Ok(entries)
    } else {
        iter.map(entry).collect()
    }
}
