//! What is seen while a world runs: the order of commits, every call with its result, receipts; and
//! shots of the disk at instants drawn from all.
//!
//! Invariants
//! - One counter gives every instant. It is read under a lock that is held over no scheduling
//!   point, so that instants stand in the order in which things happened.
//! - Watching chooses nothing: a shot is drawn from a source of its own (F1).
//! - A shot holds no knowledge: what was known at its instant is all that stands before it in the
//!   record.
//!
//! Points at which a shot may be taken: where a stage begins, before, inside and after every call
//! of the disk, and after every call of a client.
#![allow(clippy::disallowed_types)]

use super::adapter::SimFs;
use super::after;
use crate::disk::{Disk, Fault, Moment, Op, Point, Snapshot};
use crate::sim::{fold, stage_name};
use kiban_model::generate::{Seed, Source};
use kiban_model::history::Saw;
use kiban_shuttle::SeqNo;
use kiban_shuttle::env::probe::{Probe, Stage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What a call of a client came to.
#[derive(Clone, Debug)]
pub enum What {
    /// A write, by its number in the world: the sequence, or the error and whether the handle was
    /// poisoned right after it.
    Write { id: usize, result: Result<u64, Failed> },
    /// A read, at a snapshot or of now.
    Read { at: Option<u64>, saw: Saw },
    /// A snapshot was taken.
    Snapshot { id: u64, seq: u64 },
    /// `sync`, `flush`, `compact_range` or `close`: all that returned before is durable if `Ok`.
    Barrier { verb: &'static str, result: Result<(), Failed> },
    /// A checkpoint or backup, into this directory.
    Copy { dir: String, result: Result<(), Failed> },
    /// Anything else.
    Other { verb: &'static str, result: Result<(), Failed> },
}

/// An error as the record keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// In words.
    pub text: String,
    /// Whether it says that the handle is closed.
    pub closed: bool,
    /// Whether it says that there was no room in time.
    pub stalled: bool,
    /// Whether the handle was poisoned when the call returned.
    pub poisoned: bool,
    /// Whether the call panicked.
    pub panicked: bool,
}

/// A call that returned.
#[derive(Clone, Debug)]
pub struct Done {
    /// Who called.
    pub client: u32,
    /// When.
    pub invoked: u64,
    /// When it returned.
    pub returned: u64,
    /// What it came to.
    pub what: What,
}

/// A group got its place.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// When.
    pub at: u64,
    /// The first sequence.
    pub first: u64,
    /// The encoded records.
    pub records: Vec<u8>,
    /// The task of its leader.
    pub leader: usize,
}

/// A receipt was called.
#[derive(Clone, Debug)]
pub struct Told {
    /// When.
    pub at: u64,
    /// The write's number in the world.
    pub id: usize,
    /// What it was told.
    pub ok: bool,
}

/// Where a shot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// A task entered its stage.
    Stage,
    /// In a call of the disk.
    Call(Op, Moment),
    /// A call of a client returned.
    Returned,
}

/// What went wrong by order of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woe {
    /// A call of the disk.
    Fault(Op, Fault),
    /// The task panicked.
    Panic,
}

/// Something went wrong, and where everybody was then.
#[derive(Clone, Copy, Debug)]
pub struct Befell {
    /// What.
    pub woe: Woe,
    /// The instant.
    pub at: u64,
    /// The number of the last point before the call began.
    pub begun: u64,
    /// The number of the last point before it returned.
    pub point: u64,
    /// The task that met it.
    pub task: usize,
    /// The stage that it was in.
    pub stage: u8,
    /// Whether it is a client's.
    pub client: bool,
    /// Whether it carried a group through the log.
    pub leads: bool,
}

/// A disk at an instant.
#[derive(Clone, Debug)]
pub struct Shot {
    /// All that could survive.
    pub snapshot: Snapshot,
    /// The instant.
    pub at: u64,
    /// The number of the point, for a report.
    pub point: u64,
    /// Where it was taken.
    pub place: Spot,
    /// The task that was there.
    pub task: usize,
    /// The stage that this task was in.
    pub stage: u8,
    /// The leader whose group's sync was under way.
    pub syncing: Option<usize>,
}

/// All that was seen.
#[derive(Default)]
pub struct Record {
    /// Groups in commit order.
    pub ordered: Vec<Ordered>,
    /// Calls in the order of their returns.
    pub done: Vec<Done>,
    /// Receipts in the order of their calls.
    pub told: Vec<Told>,
    /// Shots.
    pub shots: Vec<Shot>,
    /// Points passed.
    pub points: u64,
    /// What went wrong, in its order.
    pub befell: Vec<Befell>,
    /// Stages of maintenance, with the instants at which they were entered.
    pub maintained: Vec<(u64, Stage)>,
    /// The task of each client.
    pub clients: BTreeMap<usize, u32>,
    /// Whether the panic that the world asks for came.
    pub panicked: bool,
    /// What is wrong already: the promise and the story.
    pub slips: Vec<(String, String)>,
    /// How often each counter's evidence was seen.
    pub evidence: super::after::Evidence,
    /// Over everything, in its order.
    pub hash: u64,
}

struct State {
    now: u64,
    looking: bool,
    source: Seed,
    shots_max: usize,
    stages: BTreeMap<usize, u8>,
    syncing: Option<usize>,
    panic: Option<(u8, u32)>,
    /// Tasks that carry a group through the log.
    leading: BTreeSet<usize>,
    /// Tasks that waited for room in the call under way.
    stalled: BTreeSet<usize>,
    /// For tasks in a call that goes wrong, the points passed before it.
    begun: BTreeMap<usize, u64>,
    record: Record,
}

/// Sees everything. Clones are the same.
#[derive(Clone)]
pub struct Watch(Arc<Mutex<State>>);

/// The panic that a world asks for.
pub const SEEDED_PANIC: &str = "a seeded panic of a leader";

impl Watch {
    /// A watch that takes `shots` shots drawn by `seed`.
    #[must_use]
    pub fn new(seed: u64, shots: usize, panic: Option<(u8, u32)>) -> Self {
        Self(Arc::new(Mutex::new(State {
            now: 2,
            looking: false,
            source: Seed(seed ^ 0x7761_7463_6821),
            shots_max: shots,
            stages: BTreeMap::new(),
            syncing: None,
            panic,
            leading: BTreeSet::new(),
            stalled: BTreeSet::new(),
            begun: BTreeMap::new(),
            record: Record::default(),
        })))
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next instant.
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.with(State::tick)
    }

    /// From now on points count.
    pub fn look(&self, looking: bool) {
        self.with(|state| state.looking = looking);
    }

    /// This task is that client.
    pub fn i_am(&self, client: u32) {
        self.with(|state| state.record.clients.insert(me(), client));
    }

    /// A call returned; then perhaps a shot.
    pub fn done(&self, fs: &SimFs, client: u32, invoked: u64, what: What) {
        self.with(|state| {
            let returned = state.tick();
            if state.stalled.remove(&me())
                && let What::Write { result: Err(failed), .. } = &what
            {
                state.record.evidence.stalled_poisoned += u64::from(failed.poisoned);
            }
            state.record.done.push(Done { client, invoked, returned, what });
        });
        fs.with(|disk| self.with(|state| state.point(disk, Spot::Returned)));
    }

    /// A receipt was called.
    pub fn told(&self, id: usize, ok: bool) {
        self.with(|state| {
            let at = state.tick();
            state.record.told.push(Told { at, id, ok });
        });
    }

    /// Something is wrong.
    pub fn slip(&self, promise: &str, story: String) {
        self.with(|state| state.record.slips.push((promise.to_owned(), story)));
    }

    /// A write waits for room, or did.
    pub fn stall(&self, ended: bool) {
        self.with(|state| {
            state.stalled.insert(me());
            state.record.evidence.stalls_ended += u64::from(ended);
        });
    }

    /// What was seen; nothing is left here.
    #[must_use]
    pub fn take(&self) -> Record {
        self.with(|state| std::mem::take(&mut state.record))
    }

    /// Hears of the disk's points.
    pub fn observe(&self, point: &Point, disk: &Disk) {
        self.with(|state| {
            let stage = state.stage();
            let word = (point.op as u64) << 16 | u64::from(stage) << 8 | point.moment as u64;
            state.record.hash = fold(state.record.hash, word);
            // Others sync in that stage too: for a receipt, for `sync`.
            let syncs = point.op == Op::SyncData
                && stage == Stage::CommitSync as u8
                && state.leading.contains(&me());
            if syncs && point.moment == Moment::Before {
                state.syncing = Some(me());
            }
            if let Some(fault) = point.fault {
                state.befalls(Woe::Fault(point.op, fault), point.moment);
            }
            if point.op.mutates() || point.moment == Moment::Before {
                state.point(disk, Spot::Call(point.op, point.moment));
            }
            if syncs && point.moment == Moment::Return {
                state.syncing = None;
            }
        });
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn stage(&self) -> u8 {
        self.stages.get(&me()).copied().unwrap_or(Stage::Idle as u8)
    }

    /// The task that runs meets something: at a call's beginning it is not known to it yet.
    fn befalls(&mut self, woe: Woe, moment: Moment) {
        let (task, points) = (me(), self.record.points);
        match moment {
            Moment::Before => {
                self.begun.insert(task, points);
            }
            Moment::Inside => {}
            Moment::Return => {
                let begun = self.begun.remove(&task).unwrap_or(points);
                let (at, stage) = (self.now, self.stage());
                let client = self.record.clients.contains_key(&task);
                let leads = self.leading.contains(&task);
                let point = points;
                let befell = Befell { woe, at, begun, point, task, stage, client, leads };
                self.record.befell.push(befell);
            }
        }
    }

    fn point(&mut self, disk: &Disk, place: Spot) {
        if !self.looking {
            return;
        }
        self.record.points += 1;
        let points = self.record.points;
        // A reservoir: each point stays with the same chance.
        let slot = if self.record.shots.len() < self.shots_max {
            self.record.shots.len()
        } else {
            self.source.draw(points - 1) as usize
        };
        if slot >= self.shots_max {
            return;
        }
        let shot = Shot {
            snapshot: disk.snapshot(),
            at: self.now,
            point: points,
            place,
            task: me(),
            stage: self.stage(),
            syncing: self.syncing,
        };
        match self.record.shots.get_mut(slot) {
            Some(old) => *old = shot,
            None => self.record.shots.push(shot),
        }
    }
}

/// The task that runs.
fn me() -> usize {
    shuttle::current::try_get_current_task().map_or(usize::MAX, Into::into)
}

/// The probe: stages belong to the task that enters them.
pub struct Ear {
    /// The disk.
    pub fs: SimFs,
    /// Who hears.
    pub watch: Watch,
}

impl Probe for Ear {
    fn stage(&self, stage: Stage) {
        // Before any scheduling point: what the engine looked at last still holds.
        self.watch.with(|state| {
            // A checkpoint has a manifest of its own; what its task does later is the database's.
            let of_copy = stage == Stage::ManifestCreate
                && stage_name(state.stage()).starts_with("checkpoint");
            let counts = after::BUILDS.contains(&stage) || after::INSTALLS.contains(&stage);
            if counts && !of_copy {
                let at = state.tick();
                state.record.maintained.push((at, stage));
            }
        });
        self.fs.with(|disk| {
            self.watch.with(|state| {
                let before = state.stages.insert(me(), stage as u8);
                let prepared = stage == Stage::Rotate && before != Some(Stage::LogSyncDir as u8);
                state.record.evidence.prepared_logs += u64::from(prepared);
                state.record.hash = fold(state.record.hash, 0x0100_0000 | stage as u64);
                state.point(disk, Spot::Stage);
            });
        });
        let panics = self.watch.with(|state| {
            if stage == Stage::CommitAppend {
                state.leading.insert(me());
            }
            let leads = state.leading.contains(&me());
            let panics = match &mut state.panic {
                Some((at, left)) if *at == stage as u8 && leads && state.looking => {
                    let due = *left == 0;
                    *left = left.wrapping_sub(1);
                    state.record.panicked |= due;
                    if due {
                        state.befalls(Woe::Panic, Moment::Return);
                    }
                    due
                }
                _ => false,
            };
            if stage == Stage::CommitAck {
                state.leading.remove(&me());
            }
            panics
        });
        assert!(!panics, "{SEEDED_PANIC}");
    }

    fn ordered(&self, first: SeqNo, records: &[u8]) {
        self.watch.with(|state| {
            let (at, first, records) = (state.tick(), first.0, records.to_vec());
            state.record.hash = fold(state.record.hash, xxhash_rust::xxh3::xxh3_64(&records));
            state.record.ordered.push(Ordered { at, first, records, leader: me() });
        });
    }
}
