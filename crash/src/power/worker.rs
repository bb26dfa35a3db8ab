//! One worker: a place for each file system, sessions on them by turns, images of each session.
//!
//! Invariants
//! - The file system that lags furthest behind its quota is next; what a worker is about to do is
//!   claimed before, so that two of them do not do the same rest.
//! - Device errors are counted by file system: each has every kind of error by turns, the one next
//!   that it had least. A run that is long enough for every counter begins none of them in vain: it
//!   goes on until each kind was met, but for one that a few sessions did not meet.
//! - A file system that gives no image many times over is given up: the run ends.
//! - A broken promise outranks what another worker could not do.
//! - Every wait for another worker is a lock held for no call of the system.
//! - A broken promise ends the run, with the image and the notes kept.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::Task;
use super::campaign::{WHOLE_IMAGES, keep};
use super::check::Checker;
use super::crew::Crew;
use super::faults::{self, DeviceFault};
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

/// A kind of device error that so many sessions did not meet is not tried for its own sake again.
const FAULT_TRIES: u64 = 6;
/// After so many sessions in a row without an image there will be none.
const VOID_MAX: u32 = 12;

/// What all workers know.
pub(super) struct Board {
    state: Mutex<State>,
    quota: BTreeMap<FileSystem, u64>,
    jobs: u64,
    until: Option<Instant>,
    faults: Vec<DeviceFault>,
    faulty_every: u64,
}

#[derive(Default)]
struct State {
    claimed: BTreeMap<FileSystem, u64>,
    rows: BTreeMap<FileSystem, PowerRow>,
    sessions: BTreeMap<FileSystem, u64>,
    /// Sessions with a device error that were begun.
    begun: BTreeMap<(FileSystem, DeviceFault), u64>,
    /// Sessions in a row that gave no image.
    void: BTreeMap<FileSystem, u32>,
    ended: bool,
    broken: Option<Found>,
}

impl State {
    fn hits(&self, fs: FileSystem, fault: DeviceFault) -> u64 {
        let hits = self.rows.get(&fs).and_then(|row| row.fault_hits.get(fault.name()));
        hits.copied().unwrap_or(0)
    }
}

/// A session to be done.
#[derive(Clone, Copy, Debug)]
struct Claim {
    fs: FileSystem,
    images: u64,
    /// Of the sessions of this file system.
    number: u64,
    fault: Option<DeviceFault>,
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
        let (faults, faulty_every) = (task.faults.clone(), task.faulty_every);
        let jobs = task.jobs as u64;
        Self { state: Mutex::default(), quota, jobs, until, faults, faulty_every }
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

    /// What to do next.
    fn claim(&self) -> Option<Claim> {
        let mut state = self.state();
        let left = |system: &FileSystem| {
            let quota = self.quota[system];
            let claimed = state.claimed.get(system).copied().unwrap_or(0);
            (quota.saturating_sub(claimed), quota)
        };
        let is_open = |system: &FileSystem| {
            let void = state.void.get(system).copied().unwrap_or(0);
            void < VOID_MAX && (left(system).0 > 0 || self.is_owed(&state, *system))
        };
        // The largest rest, as a share.
        let next = self.quota.keys().filter(|system| is_open(system));
        let next = *next.max_by_key(|system| left(system).0 * 1_000_000 / left(system).1)?;
        // In a short run, too, every worker has something to do.
        let share = (self.quota[&next] / (2 * self.jobs)).clamp(SESSION_IMAGES_MIN, SESSION_IMAGES);
        let (rest, _) = left(&next);
        let number = state.sessions.entry(next).or_default();
        *number += 1;
        let number = *number - 1;
        let is_faulty = number % self.faulty_every == self.faulty_every - 1 || rest == 0;
        let fault = is_faulty.then(|| self.next_fault(&mut state, next)).flatten();
        let images = rest.min(if fault.is_some() { SESSION_IMAGES_MIN } else { share });
        *state.claimed.entry(next).or_default() += images;
        Some(Claim { fs: next, images, number, fault })
    }

    /// Whether a kind of device error was not met yet on a file system, and should be.
    fn is_owed(&self, state: &State, fs: FileSystem) -> bool {
        let is_whole = self.quota[&fs] >= WHOLE_IMAGES;
        is_whole
            && self.faults.iter().any(|fault| {
                let begun = state.begun.get(&(fs, *fault)).copied().unwrap_or(0);
                state.hits(fs, *fault) == 0 && begun < FAULT_TRIES
            })
    }

    fn next_fault(&self, state: &mut State, fs: FileSystem) -> Option<DeviceFault> {
        let had = |fault: &DeviceFault| {
            let begun = state.begun.get(&(fs, *fault)).copied().unwrap_or(0);
            (state.hits(fs, *fault) * FAULT_TRIES + begun, *fault)
        };
        let fault = self.faults.iter().copied().min_by_key(had)?;
        *state.begun.entry((fs, fault)).or_default() += 1;
        Some(fault)
    }

    /// Gives back what was claimed and not done, and adds what was counted.
    fn done(&self, fs: FileSystem, claimed: u64, row: &PowerRow) {
        let mut state = self.state();
        let done = state.claimed.entry(fs).or_default();
        *done = (*done + row.images).saturating_sub(claimed);
        let void = state.void.entry(fs).or_default();
        *void = if row.images == 0 { *void + 1 } else { 0 };
        let all = state.rows.entry(fs).or_default();
        all.fs.clone_from(&row.fs);
        all.absorb(row);
    }

    fn found(&self, found: Found) {
        let mut state = self.state();
        state.ended = true;
        let is_worse = |known: &Found| !known.fault.promise.is_empty();
        if !state.broken.as_ref().is_some_and(is_worse) {
            state.broken = Some(found);
        }
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
        let Some(claim) = board.claim() else { break };
        let Claim { fs, images, number: session, .. } = claim;
        let place = ((fs as u64) << 32) + session;
        let seed = Seed(task.seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).draw(u64::MAX);
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
        let measure = number == 0 && claim.fault.is_none() && !ground.measured;
        ground.measured |= measure;
        let crew = Crew::new(&task.program, &ground.place);
        let mut checker = Checker::new(&ground.place, crew, Seed(seed));
        let ground = &*ground;
        let once = Once { board, task, dir, stop, seed, claim, measure };
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
    claim: Claim,
    measure: bool,
}

impl Once<'_> {
    fn run(&self, ground: &Ground, checker: &mut Checker<'_>) -> Result<(), Fault> {
        let begun = Instant::now();
        if let Some(fault) = self.claim.fault {
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
        let cuts = session.cuts(self.claim.images as usize, &mut Seed(self.seed));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn board(images: u64, every: u64) -> Board {
        let task = Task {
            program: std::path::PathBuf::new(),
            dir: None,
            quota: FileSystem::ALL.map(|system| (system, images)).to_vec(),
            budget: None,
            faults: DeviceFault::ALL.to_vec(),
            faulty_every: every,
            seed: 1,
            jobs: 2,
            contain: false,
        };
        Board::new(&task, None)
    }

    /// Claims until there is nothing left; what each session gives.
    fn drain(board: &Board, of: impl Fn(&Claim) -> PowerRow) -> Vec<Claim> {
        let mut all = Vec::new();
        while let Some(claim) = board.claim() {
            assert!(all.len() < 10_000, "it does not end");
            board.done(claim.fs, claim.images, &of(&claim));
            all.push(claim);
        }
        all
    }

    fn all_done(claim: &Claim) -> PowerRow {
        let hits = claim.fault.iter().map(|fault| (fault.name().to_owned(), 1)).collect();
        PowerRow { images: claim.images, fault_hits: hits, ..PowerRow::default() }
    }

    #[test]
    fn a_whole_run_meets_every_error_on_every_file_system() {
        let claims = drain(&board(WHOLE_IMAGES, 4), all_done);
        for system in FileSystem::ALL {
            for fault in DeviceFault::ALL {
                let is_it = |claim: &&Claim| claim.fs == system && claim.fault == Some(fault);
                assert!(claims.iter().any(|claim| is_it(&claim)), "{system:?} {fault:?}");
            }
        }
        let never = |claim: &Claim| PowerRow { images: claim.images, ..PowerRow::default() };
        drain(&board(WHOLE_IMAGES, 4), never);
    }

    #[test]
    fn a_file_system_that_gives_no_image_ends_the_run() {
        let claims = drain(&board(100, 1_000), |_| PowerRow::default());
        assert_eq!(claims.len(), 3 * VOID_MAX as usize);
    }

    #[test]
    fn a_broken_promise_outranks_what_could_not_be_done() {
        let board = board(1, 1);
        let fault = |promise| Fault::new(promise, "", "", "");
        for promise in ["", "D1", "", "D3"] {
            board.found(found(fault(promise), FileSystem::Xfs, 1));
        }
        assert_eq!(board.take_broken().expect("found").fault.promise, "D1");
    }
}
