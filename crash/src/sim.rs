//! One engine's world in a run: a simulated disk, a probe that tags its calls, and a camera.
//!
//! Invariants
//! - A camera changes nothing: with any of its settings the engine makes the same calls (F1).
//! - A shot is taken at a *point*: where a stage begins, and where a call that changes something
//!   returns. Between two points the disk does not change, so no other moment leaves an image that
//!   these do not: inside a write any part of it may survive, and that holds right after it too;
//!   inside a sync, what held before it.
//! - A point is named by (step, number): the step is the rig's, the number counts within it.
//!
//! It checks nothing and chooses no image: `check` and `case` do.

use crate::adapter::SimFs;
use crate::disk::{Disk, Fault, Moment, Op, Point, Rule, Snapshot};
use kiban::env::Env;
use kiban::env::probe::{Probe, Stage};
use kiban::env::random::SeededRandom;
use kiban::env::sync::{Arc, Mutex};
use kiban_model::generate::{Seed, Source};
use std::path::Path;

/// The database's directory on every simulated disk.
pub const DIR: &str = "/db";
/// How many stages there are.
pub const STAGES: usize = Stage::ALL.len();

/// When a camera takes a shot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// Never.
    #[default]
    Away,
    /// At every point.
    Always,
    /// At points drawn at random, so many in 4096; and the first times that a stage is met.
    Sometimes(u32),
    /// At one point, drawn evenly from all.
    Once,
    /// At the point of this step and number.
    At(u32, u32),
}

/// A disk at one point of a run.
#[derive(Clone, Debug)]
pub struct Shot {
    /// All that could survive.
    pub snapshot: Snapshot,
    /// The rig's step.
    pub step: u32,
    /// The point's number in it.
    pub point: u32,
    /// The stage that the engine was in.
    pub stage: u8,
    /// The call that had just returned; `None` where a stage began.
    pub call: Option<Op>,
}

impl Shot {
    /// Where it was taken, in words.
    #[must_use]
    pub fn place(&self) -> String {
        let stage = stage_name(self.stage);
        match self.call {
            Some(op) => format!("in {stage}, after {}", op.name()),
            None => format!("at the start of {stage}"),
        }
    }
}

/// The name of a stage by its number.
#[must_use]
pub fn stage_name(stage: u8) -> &'static str {
    Stage::ALL.get(usize::from(stage)).map_or("?", |stage| stage.name())
}

/// What a camera saw of the run: what was done, not what is on the disk.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Calls by stage, a bit for each [`Op`].
    pub calls: [u32; STAGES],
    /// Points passed.
    pub points: u64,
    /// A hash over stages, calls and commits in their order.
    pub schedule: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Self { calls: [0; STAGES], points: 0, schedule: 0 }
    }
}

impl Seen {
    fn note(&mut self, word: u64) {
        self.schedule = fold(self.schedule, word);
    }
}

/// Adds `word` to a running hash.
#[must_use]
pub fn fold(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

struct Camera {
    look: Look,
    source: Seed,
    step: u32,
    point: u32,
    met: [u8; STAGES],
    shots: Vec<Shot>,
    seen: Seen,
    /// Points since [`Look::Once`] was set.
    candidates: u64,
}

/// The first times that a stage is met in a run and always photographed.
const MET_ALWAYS: u8 = 2;

impl Camera {
    fn point(&mut self, disk: &Disk, stage: u8, call: Option<Op>) {
        self.seen.points += 1;
        let number = self.point;
        self.point += 1;
        if !self.wants(stage, number) {
            return;
        }
        let shot = Shot { snapshot: disk.snapshot(), step: self.step, point: number, stage, call };
        if self.look == Look::Once {
            self.shots.clear();
        }
        self.shots.push(shot);
    }

    fn wants(&mut self, stage: u8, number: u32) -> bool {
        match self.look {
            Look::Away => false,
            Look::Always => true,
            Look::At(step, point) => (self.step, number) == (step, point),
            Look::Once => {
                // A reservoir of one: each of n points stays with the same chance.
                self.candidates += 1;
                self.source.draw(self.candidates - 1) == 0
            }
            Look::Sometimes(per_4096) => {
                let met = &mut self.met[usize::from(stage)];
                let new = *met < MET_ALWAYS;
                *met += u8::from(new);
                self.source.draw(4095) < u64::from(per_4096) || new
            }
        }
    }
}

/// A simulated disk with the camera that watches it.
pub struct Sim {
    fs: SimFs,
    camera: Arc<Mutex<Camera>>,
    env: Env,
}

impl Sim {
    /// A world over `disk`; `seed` decides the engine's ids and the camera's draws.
    #[must_use]
    pub fn new(disk: Disk, seed: u64) -> Self {
        let camera = Camera {
            look: Look::Away,
            source: Seed(seed ^ 0x0063_616d_6572_6121),
            step: 0,
            point: 0,
            met: [0; STAGES],
            shots: Vec::new(),
            seen: Seen::default(),
            candidates: 0,
        };
        let (fs, camera) = (SimFs::new(disk), Arc::new(Mutex::new(camera)));
        let watching = camera.clone();
        fs.with(|disk| {
            disk.set_log_max(0);
            disk.set_observer(Some(Box::new(move |point: &Point, disk: &Disk| {
                observe(&watching, point, disk);
            })));
        });
        let ear = Ear { fs: fs.clone(), camera: camera.clone() };
        let env = Env {
            fs: Arc::new(fs.clone()),
            clock: Arc::new(fs.clone()),
            random: Arc::new(SeededRandom::new(seed)),
            probe: Some(Arc::new(ear)),
        };
        Self { fs, camera, env }
    }

    /// What the engine is given.
    #[must_use]
    pub fn env(&self) -> Env {
        self.env.clone()
    }

    /// The directory of the database.
    #[must_use]
    pub fn dir(&self) -> &'static Path {
        Path::new(DIR)
    }

    /// Runs `f` on the disk itself.
    pub fn disk<R>(&self, f: impl FnOnce(&mut Disk) -> R) -> R {
        self.fs.with(f)
    }

    /// Sets when shots are taken from now on.
    pub fn look(&self, look: Look) {
        let mut camera = self.camera.lock();
        camera.look = look;
        camera.candidates = 0;
    }

    /// A step of the rig begins: calls that no stage claims are the idle stage's.
    pub fn begin(&self, step: u32) {
        self.disk(|disk| disk.set_stage(Stage::Idle as u8));
        let mut camera = self.camera.lock();
        (camera.step, camera.point) = (step, 0);
    }

    /// The shots since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Shot> {
        std::mem::take(&mut self.camera.lock().shots)
    }

    /// Looks at what was seen so far.
    pub fn seen<R>(&self, f: impl FnOnce(&Seen) -> R) -> R {
        f(&self.camera.lock().seen)
    }

    /// Adds faults that are still to come.
    pub fn set_faults(&self, rules: &[Rule]) {
        self.disk(|disk| disk.plan.rules = rules.to_vec());
    }

    /// The last calls as text, oldest first, where the log was switched on.
    #[must_use]
    pub fn events(&self) -> Vec<String> {
        let line = |call: &crate::disk::Call| format!("{call}  ({})", stage_name(call.stage));
        self.disk(|disk| disk.log().map(line).collect())
    }
}

fn observe(camera: &Mutex<Camera>, point: &Point, disk: &Disk) {
    match point.moment {
        Moment::Before => {
            let mut camera = camera.lock();
            let stage = usize::from(point.stage);
            camera.seen.calls[stage] |= 1 << point.op as u32;
            let fault = point.fault.map_or(0, fault_number);
            camera.seen.note((point.op as u64) << 16 | u64::from(point.stage) << 8 | fault);
        }
        Moment::Return if point.op.mutates() => {
            camera.lock().point(disk, point.stage, Some(point.op));
        }
        Moment::Inside | Moment::Return => {}
    }
}

fn fault_number(fault: Fault) -> u64 {
    let named = crate::disk::FAULTS.iter().position(|(name, _)| *name == fault.name());
    named.map_or(255, |n| n as u64 + 1)
}

/// The probe: stages are tags on the disk's calls, and points of their own.
struct Ear {
    fs: SimFs,
    camera: Arc<Mutex<Camera>>,
}

impl Probe for Ear {
    fn stage(&self, stage: Stage) {
        self.fs.with(|disk| {
            disk.set_stage(stage as u8);
            let mut camera = self.camera.lock();
            camera.seen.note(0x0100_0000 | stage as u64);
            camera.point(disk, stage as u8, None);
        });
    }

    fn ordered(&self, first: kiban::SeqNo, records: &[u8]) {
        let mut camera = self.camera.lock();
        camera.seen.note(first.0);
        camera.seen.note(xxhash_rust::xxh3::xxh3_64(records));
    }
}
