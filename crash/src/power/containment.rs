//! The containment run: sessions of `contain` on several devices at a time.
//!
//! Invariants
//! - A session is done by one worker; which one does not matter to what it does.
//! - A state outside the model fails the run; the run goes on, and equal ones are told once.
//! - The verdict says what a file system has fewer of than all sequences; without any it is hollow.
//! - A file system whose quota of images is done begins no new session.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::Task;
use super::campaign::wait_for_workers;
use super::contain::{self, Outside, Work};
use super::guard::Guard;
use super::log::Pages;
use super::place::{FileSystem, Place};
use crate::report::{ContainRow, Failure, Report, Totals};
use crate::runner::interrupt::Interrupt;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Short lives of the engine on each file system.
const ENGINE_LIVES: usize = 4;

#[derive(Default)]
struct State {
    next: BTreeMap<FileSystem, usize>,
    rows: BTreeMap<FileSystem, ContainRow>,
    outside: Vec<(FileSystem, Outside)>,
    refused: Option<String>,
}

struct Board<'a> {
    task: &'a Task,
    works: Vec<Work>,
    until: Option<Instant>,
    interrupt: &'a Interrupt,
    state: Mutex<State>,
}

impl Board<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        late || self.interrupt.wished() || self.state().refused.is_some()
    }

    /// The next session: on the file system that has the fewest behind it.
    fn claim(&self) -> Option<(FileSystem, usize)> {
        let mut state = self.state();
        let open = self.task.quota.iter().filter(|(system, images)| {
            let next = state.next.get(system).copied().unwrap_or(0);
            let done = state.rows.get(system).map_or(0, |row| row.images);
            next < self.works.len() && done < *images
        });
        let system = open.min_by_key(|(system, _)| state.next.get(system).copied().unwrap_or(0))?.0;
        let next = state.next.entry(system).or_default();
        *next += 1;
        Some((system, *next - 1))
    }

    fn work(&self, (dir, guard): (&Path, &Guard), number: usize) {
        let mut grounds: BTreeMap<FileSystem, (Place, Arc<Pages>)> = BTreeMap::new();
        while !self.is_over() {
            let Some((system, index)) = self.claim() else { break };
            if let Err(error) = self.one((dir, guard), number, system, index, &mut grounds) {
                self.state().refused = Some(format!("{}: {error}", system.name()));
            }
        }
    }

    fn one(
        &self,
        (dir, guard): (&Path, &Guard),
        number: usize,
        system: FileSystem,
        index: usize,
        grounds: &mut BTreeMap<FileSystem, (Place, Arc<Pages>)>,
    ) -> io::Result<()> {
        let (place, base) = match grounds.entry(system) {
            Entry::Occupied(entry) => &*entry.into_mut(),
            Entry::Vacant(entry) => {
                let dir = dir.join(format!("{number}-{}", system.name()));
                let place = Place::new(&dir, system, guard)?;
                let base = Arc::new(place.recorder.disk().contents());
                &*entry.insert((place, base))
            }
        };
        let mut row = ContainRow { fs: system.name().to_owned(), ..ContainRow::default() };
        let seed = self.task.seed ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let work = &self.works[index];
        let found = contain::session(place, base, work, &mut row, seed, &|| self.is_over())?;
        let mut state = self.state();
        let all = state.rows.entry(system).or_default();
        all.fs.clone_from(&row.fs);
        all.absorb(&row);
        state.outside.extend(found.into_iter().map(|outside| (system, outside)));
        Ok(())
    }

    fn fill(&self, report: &mut Report) {
        let state = self.state();
        report.contain = state.rows.values().cloned().collect();
        let sum = |of: fn(&ContainRow) -> u64| report.contain.iter().map(of).sum::<u64>();
        report.totals = Totals {
            cases: sum(|row| row.sessions),
            ops: sum(|row| row.calls),
            images: sum(|row| row.images),
            errors_injected: sum(|row| row.device_errors),
            ..Totals::default()
        };
        report.sequences = Some(sum(|row| row.sequences));
    }
}

/// Runs `task` in the directory `dir`.
pub(super) fn run(
    task: &Task,
    (dir, guard): (&Path, &Guard),
    report: &mut Report,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(u64, &Totals, u64),
) {
    let board = Board {
        task,
        works: contain::works(task.seed, ENGINE_LIVES),
        until: task.budget.map(|budget| Instant::now() + budget),
        interrupt,
        state: Mutex::default(),
    };
    let work = |number| board.work((dir, guard), number);
    wait_for_workers(task.jobs, &work, report, &mut |report| {
        board.fill(report);
        progress(report.totals.images, &report.totals, 0);
    });
    let mut state = board.state();
    // What an interrupt from the terminal ended is no fault of the machine's.
    report.environment = state.refused.take().filter(|_| !interrupt.wished());
    for (system, _) in &task.quota {
        let done = state.rows.get(system).map_or(0, |row| row.sequences);
        report.looked(system.name(), "sequences", done, contain::sequences_in_all());
    }
    for (system, outside) in std::mem::take(&mut state.outside) {
        report.add_failure(Failure {
            promise: "-".to_owned(),
            what: format!("a state of {} that the simulated disk does not have", system.name()),
            seed: report.seed,
            revision: report.revision.clone(),
            ops: outside.calls.len() as u64,
            shrunk_ops: outside.calls.len() as u64,
            at: outside.at,
            events: outside.calls,
            expected: "what docs/DURABILITY.md says".to_owned(),
            got: outside.why,
            ..Failure::default()
        });
    }
}
