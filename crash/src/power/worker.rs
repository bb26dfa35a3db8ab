//! One worker: a place for each file system, sessions on them by turns, images of each session.
//!
//! Invariants
//! - The file system that lags furthest behind its quota is next; what a worker is about to do is
//!   claimed before, so that two of them do not do the same rest.
//! - Every wait for another worker is a lock held for no call of the system.
//! - A broken promise ends the run, with the image and the notes kept.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::Task;
use super::campaign::keep;
use super::check::Checker;
use super::crew::Crew;
use super::faults;
use super::guard::Guard;
use super::log::{Folder, PAGE, Pages};
use super::place::{FileSystem, Place};
use super::session;
use crate::kill::Fault;
use crate::report::PowerRow;
use crate::runner::interrupt::Interrupt;
use kiban_model::generate::{Seed, Source};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Images of one session, at the most.
const SESSION_IMAGES: u64 = 200;
/// And in a short run.
const SESSION_IMAGES_MIN: u64 = 20;

/// What all workers know.
pub(super) struct Board {
    state: Mutex<State>,
    quota: BTreeMap<FileSystem, u64>,
    jobs: u64,
    until: Option<Instant>,
}

#[derive(Default)]
struct State {
    claimed: BTreeMap<FileSystem, u64>,
    rows: BTreeMap<FileSystem, PowerRow>,
    sessions: u64,
    ended: bool,
    broken: Option<Found>,
}

/// Something that must not be.
pub(super) struct Found {
    pub(super) fault: Fault,
    pub(super) fs: FileSystem,
    pub(super) seed: u64,
    pub(super) place: String,
    pub(super) events: Vec<String>,
    pub(super) kept: String,
}

impl Board {
    pub(super) fn new(task: &Task, until: Option<Instant>) -> Self {
        let quota = task.quota.iter().copied().collect();
        Self { state: Mutex::default(), quota, jobs: task.jobs as u64, until }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted so far.
    pub(super) fn rows(&self) -> Vec<PowerRow> {
        self.state().rows.values().cloned().collect()
    }

    pub(super) fn take_broken(&self) -> Option<Found> {
        self.state().broken.take()
    }

    fn is_over(&self, interrupt: &Interrupt) -> bool {
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        late || interrupt.wished() || self.state().ended
    }

    /// What to do next: a file system, how many images, and the number of the session.
    fn claim(&self) -> Option<(FileSystem, u64, u64)> {
        let mut state = self.state();
        let left = |system: &FileSystem| {
            let quota = self.quota[system];
            let claimed = state.claimed.get(system).copied().unwrap_or(0);
            (quota.saturating_sub(claimed), quota)
        };
        // The largest rest, as a share.
        let next = self.quota.keys().filter(|system| left(system).0 > 0);
        let next = *next.max_by_key(|system| left(system).0 * 1_000_000 / left(system).1)?;
        // In a short run, too, every worker has something to do.
        let share = (self.quota[&next] / (2 * self.jobs)).clamp(SESSION_IMAGES_MIN, SESSION_IMAGES);
        let images = left(&next).0.min(share);
        *state.claimed.entry(next).or_default() += images;
        state.sessions += 1;
        Some((next, images, state.sessions - 1))
    }

    /// Gives back what was claimed and not done, and adds what was counted.
    fn done(&self, fs: FileSystem, claimed: u64, row: &PowerRow) {
        let mut state = self.state();
        let done = state.claimed.entry(fs).or_default();
        *done = (*done + row.images).saturating_sub(claimed);
        let all = state.rows.entry(fs).or_default();
        all.fs.clone_from(&row.fs);
        all.absorb(row);
    }

    fn found(&self, found: Found) {
        let mut state = self.state();
        state.ended = true;
        state.broken.get_or_insert(found);
    }
}

/// A place with what an empty file system is there.
struct Ground {
    place: Place,
    base: Arc<Pages>,
    measured: bool,
}

/// Works until there is nothing left to do.
pub(super) fn work(
    board: &Board,
    task: &Task,
    (dir, guard): (&Path, &Guard),
    number: usize,
    stop: &Interrupt,
) {
    let mut grounds: BTreeMap<FileSystem, Ground> = BTreeMap::new();
    while !board.is_over(stop) {
        let Some((fs, images, session)) = board.claim() else { break };
        let seed = Seed(task.seed ^ session.wrapping_mul(0x9e37_79b9_7f4a_7c15)).draw(u64::MAX);
        let name = format!("{number}-{}", fs.name());
        if let std::collections::btree_map::Entry::Vacant(entry) = grounds.entry(fs) {
            let ground = Place::new(&dir.join(&name), fs, guard).map(|place| {
                let base = Arc::new(place.recorder.disk().contents());
                Ground { place, base, measured: false }
            });
            match ground {
                Ok(ground) => entry.insert(ground),
                Err(error) => {
                    let text = format!("{}: {error}", fs.name());
                    return board.found(found(Fault::environment(text), fs, seed));
                }
            };
        }
        let ground = grounds.get_mut(&fs).expect("it was just made");
        // The first worker's first session on each file system is run without the recorder, too.
        let measure = number == 0 && !std::mem::replace(&mut ground.measured, true);
        let crew = Crew::new(&task.program, &ground.place);
        let mut checker = Checker::new(&ground.place, crew, Seed(seed), task.parent());
        let ground = &*ground;
        let once = Once { board, task, dir, stop, seed, session, images, measure };
        let done = once.run(ground, &mut checker);
        checker.row.examiner_kib = checker.crew.peak_kib();
        board.done(fs, images, &checker.row);
        checker.crew.end();
        if let Err(fault) = done {
            // A workload that did not end has its log here still.
            let heard = ground.place.recorder.disk().recorded();
            if fault.hang && !heard.is_empty() {
                checker.heard = heard;
            }
            let kept = keep(task, &fault, &checker, ground.place.system.size());
            let events = checker.told.iter().map(ToString::to_string);
            let mut events: Vec<String> = events.collect();
            events.drain(..events.len().saturating_sub(24));
            let place = format!("{}, session {session}", fs.name());
            return board.found(Found { fault, fs, seed, place, events, kept });
        }
    }
}

fn found(fault: Fault, fs: FileSystem, seed: u64) -> Found {
    let place = fs.name().to_owned();
    Found { fault, fs, seed, place, events: Vec::new(), kept: String::new() }
}

/// One session.
struct Once<'a> {
    board: &'a Board,
    task: &'a Task,
    dir: &'a Path,
    stop: &'a Interrupt,
    seed: u64,
    session: u64,
    images: u64,
    measure: bool,
}

impl Once<'_> {
    fn run(&self, ground: &Ground, checker: &mut Checker<'_>) -> Result<(), Fault> {
        let every = self.task.faulty_every;
        let faulty = !self.task.faults.is_empty() && self.session % every == every - 1;
        let begun = Instant::now();
        if faulty {
            let which = (self.session / every) as usize % self.task.faults.len();
            let fault = self.task.faults[which];
            let done = faults::run(&self.task.program, checker, &ground.base, fault, self.seed);
            checker.row.checking_s += begun.elapsed().as_secs_f64();
            return done;
        }
        let (program, place) = (&self.task.program, &ground.place);
        checker.begin(self.seed);
        let session = session::record(program, place, &ground.base, self.seed)?;
        // Bytes are shared, not copied.
        checker.heard.clone_from(&session.entries);
        checker.row.recording_s += begun.elapsed().as_secs_f64();
        if self.measure {
            let bare = session::bare(program, place, self.dir, self.seed)?;
            let times = session.took.as_secs_f64() / bare.as_secs_f64().max(1e-6);
            checker.row.recorder_times = times;
        }
        checker.row.sessions += 1;
        checker.row.ops += session.truth.done;
        let count = |of: fn(&super::log::Entry) -> bool| {
            session.entries.iter().filter(|entry| of(entry)).count() as u64
        };
        checker.row.writes += count(super::log::Entry::is_change);
        checker.row.flushes += count(|entry| *entry == super::log::Entry::Flush);
        let cuts = session.cuts(self.images as usize, &mut Seed(self.seed));
        let begun = Instant::now();
        let mut folder = Folder::new(&session.entries, (*session.base).clone());
        let mut done = Ok(());
        for cut in cuts {
            if self.board.is_over(self.stop) {
                break;
            }
            done = checker.cut(&session, &cut, &mut folder);
            if done.is_err() {
                break;
            }
        }
        checker.row.checking_s += begun.elapsed().as_secs_f64();
        done
    }
}

/// Writes an image as a sparse file.
pub(super) fn write_image(file: &Path, base: &Pages, top: &Pages, size: u64) -> io::Result<()> {
    let to = File::create(file)?;
    to.set_len(size)?;
    for page in base.numbers().chain(top.numbers()) {
        let mut bytes = [0; PAGE as usize];
        top.read(base, page * PAGE, &mut bytes);
        to.write_all_at(&bytes, page * PAGE)?;
    }
    Ok(())
}
