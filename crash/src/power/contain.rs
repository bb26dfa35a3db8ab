//! Whether every state that a real file system leaves is one that the simulated disk explores.
//!
//! A session: calls through the engine's own file system traits are made on a recorded device, and
//! told to a simulated disk. Of each moment images are made and mounted, names, lengths and bytes
//! are read back, and the simulated disk is asked whether a power cut at that moment may leave
//! them. The calls are the engine's own, in short lives of a database, and all sequences of three
//! calls on two files.
//!
//! Invariants
//! - A state is judged by the moment of its cut: the calls that had returned are done, the one
//!   under way is not begun, or done and not synced.
//! - A state outside the model is a hole in the model, and fails the run; the run goes on.
//! - How tight the model is, is counted on the sequences: states that it has, and those of them
//!   that were seen.
//! - With device errors, a sequence ends at the first call that failed; what a failed sync leaves
//!   is asked by sessions of their own (`failed`).
//! - Equal images are mounted once, and judged for each moment.
//!
//! `steps` are the calls, `view` is what is read back.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::log::{Cut, Entry, Folder, Image, Kept, Pages};
use super::place::{Place, is_refusal};
use super::recorder::{On, Rule, Trouble};
use super::tap::{Call, Did, Tap, replay};
use crate::disk::{Listing, Seen, Snapshot};
use crate::kill::wire::{Kind, Teller};
use crate::report::ContainRow;
use failed::Failed;
use kiban::env::os::OsFs;
use kiban_model::generate::{Seed, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use steps::{Step, follow, live, prepare, sequences};
use view::{hash, listing, tightness};

mod failed;
mod steps;
mod view;

/// Sequences of one session.
const SEQUENCES: usize = 12;
/// Sessions with a failed sync.
const FAILED: usize = 60;

/// What a session does.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A short life of a database.
    Engine(u64),
    /// These sequences, each in a directory of its own.
    Sequences(Vec<Vec<Step>>),
    /// One of them, with a device error.
    Faulty(Vec<Step>, u64),
    /// A sync that fails, and what follows.
    Failed(u64),
}

/// All sessions, in an order that the seed says: the kinds by turns, each to its end.
pub(crate) fn works(seed: u64, engine: usize) -> Vec<Work> {
    let draw = &mut Seed(seed);
    let mut all = sequences();
    for i in (1..all.len()).rev() {
        all.swap(i, draw.below(i + 1));
    }
    let faulty: Vec<Work> =
        all.iter().step_by(16).map(|s| Work::Faulty(s.clone(), draw.draw(u64::MAX))).collect();
    let engine = (0..engine as u64).map(|n| Work::Engine(seed.wrapping_add(n))).collect();
    let plain = all.chunks(SEQUENCES).map(|some| Work::Sequences(some.to_vec())).collect();
    let failed: Vec<Work> = (0..FAILED).map(|_| Work::Failed(draw.draw(u64::MAX))).collect();
    let mut works: Vec<(usize, Work)> = Vec::new();
    for kind in [engine, plain, faulty, failed] {
        let whole = kind.len().max(1);
        works.extend(kind.into_iter().enumerate().map(|(i, work)| (i * 10_000 / whole, work)));
    }
    works.sort_by_key(|(place, _)| *place);
    works.into_iter().map(|(_, work)| work).collect()
}

/// How many sequences there are.
pub(crate) fn sequences_in_all() -> u64 {
    sequences().len() as u64
}

/// A state outside the model.
#[derive(Clone, Debug)]
pub(crate) struct Outside {
    pub(crate) why: String,
    pub(crate) calls: Vec<String>,
    pub(crate) at: String,
}

/// What was made on the real file system.
struct Made {
    entries: Vec<Entry>,
    calls: Vec<Call>,
    /// Where each sequence's calls begin, and where they are written back; or the whole life's.
    windows: Vec<(usize, usize)>,
    failed: Failed,
}

/// Does one session, and counts.
///
/// # Errors
/// The machine refused.
pub(crate) fn session(
    place: &Place,
    base: &Arc<Pages>,
    work: &Work,
    row: &mut ContainRow,
    seed: u64,
    over: &dyn Fn() -> bool,
) -> io::Result<Vec<Outside>> {
    let made = make(place, base, work, row)?;
    let mut outside = Vec::new();
    let snapshots = match replay(&made.calls) {
        Ok(snapshots) => snapshots,
        Err(why) => {
            let calls = made.calls.iter().map(|(did, _)| did.to_string()).collect();
            return Ok(vec![Outside { why, calls, at: "a call".to_owned() }]);
        }
    };
    outside.extend(made.failed.outside.iter().map(|why| {
        let calls = made.calls.iter().map(|(did, _)| did.to_string()).collect();
        Outside { why: why.clone(), calls, at: "while it ran".to_owned() }
    }));
    let mut looked = Looked::new(place, &made, &snapshots);
    let mut folder = Folder::new(&made.entries, (**base).clone());
    let draw = &mut Seed(seed);
    row.sessions += 1;
    for window in &made.windows {
        looked.states.clear();
        looked.last = None;
        for cut in cuts(&made.entries, *window, draw) {
            if over() {
                break;
            }
            match looked.look(&mut folder, &cut, row)? {
                Some(found) if outside.len() < 4 => outside.push(found),
                _ => {}
            }
        }
        if let (Work::Sequences(_), false) = (work, over()) {
            row.sequences += 1;
            tightness(&snapshots[window.0..=window.1], &looked.states, row);
        }
        row.states += looked.states.len() as u64;
        looked.settle(row);
    }
    row.outside += outside.len() as u64;
    Ok(outside)
}

fn make(place: &Place, base: &Arc<Pages>, work: &Work, row: &mut ContainRow) -> io::Result<Made> {
    let mut disk = place.recorder.disk();
    disk.show_pages(base.clone());
    disk.record();
    drop(disk);
    let mounted = place.mount()?;
    let tap = Arc::new(Tap::new(Arc::new(OsFs), place.at(), Teller::to(place.notes()?)));
    let (mut windows, mut failed) = (Vec::new(), Failed::default());
    match work {
        Work::Engine(seed) => {
            live(&tap, place.at(), *seed)?;
            windows.push((0, tap.count()));
        }
        Work::Sequences(all) => {
            for (number, sequence) in all.iter().enumerate() {
                windows.push(follow(&tap, place.at(), number, sequence, false)?);
            }
        }
        Work::Faulty(sequence, draw) => {
            let (on, forever) = ([On::Write, On::Flush][*draw as usize % 2], draw / 2 % 2 == 0);
            let rule = Rule { on, trouble: Trouble::Refuse, nth: draw / 4 % 6, forever };
            let (window, hits) = {
                prepare(&tap, place.at(), 0)?;
                place.recorder.disk().rule(Some(rule));
                let window = follow(&tap, place.at(), 0, sequence, true);
                (window, place.recorder.disk().rule(None))
            };
            windows.push(window?);
            row.device_errors += hits;
        }
        Work::Failed(draw) => {
            failed = failed::fail(&tap, place.at(), &|| place.recorder.disk(), *draw, row)?;
            windows.push(failed.window);
            row.device_errors += failed.hits;
        }
    }
    row.calls += tap.count() as u64;
    mounted.unmount()?;
    let mut disk = place.recorder.disk();
    let entries = disk.recorded();
    disk.forget();
    let mut calls = tap.calls();
    if matches!(work, Work::Faulty(..) | Work::Failed(_)) {
        // Where the device failed, a syncfs that says yes was seen to prove nothing. It is no call
        // of the engine's.
        let all = calls.iter_mut().filter(|(did, _)| *did == Did::SyncFs);
        all.for_each(|(_, ok)| *ok = false);
    }
    Ok(Made { entries, calls, windows, failed })
}

/// The number of the call that a note tells, if it is of this kind.
fn call_of(entry: &Entry, kind: Kind) -> Option<usize> {
    match entry {
        Entry::Note(note) if note.kind == kind => Some(note.n as usize),
        _ => None,
    }
}

/// All subsets of so many writes are made, of more of them a sample.
const OPEN_MAX: u32 = 4;

/// The cuts of a window of calls: after each change with everything and with something lost, and
/// after each call that returned with everything, and every or some subset of what is not flushed.
fn cuts(entries: &[Entry], (begin, end): (usize, usize), draw: &mut Seed) -> Vec<Cut> {
    let at = |kind, call| entries.iter().position(|entry| call_of(entry, kind) == Some(call));
    let from = at(Kind::Issued, begin).unwrap_or(0);
    // The writing back after the last call is number `end`.
    let to = at(Kind::Issued, end + 1).unwrap_or(entries.len());
    let (mut cuts, mut open) = (Vec::new(), 0);
    for at in 0..=to {
        let before = at.checked_sub(1).map(|before| &entries[before]);
        let changed = before.is_some_and(Entry::is_change);
        let told = before.is_some_and(|entry| call_of(entry, Kind::Done).is_some());
        open = if before == Some(&Entry::Flush) { 0 } else { open + u32::from(changed) };
        if at < from {
            continue;
        }
        if changed || told || at == from {
            cuts.push(Cut { at, kept: Kept::All });
        }
        if told && (1..=OPEN_MAX).contains(&open) {
            let subsets = 0..(1 << open) - 1;
            cuts.extend(subsets.map(|bits| Cut { at, kept: Kept::Set(bits) }));
        } else if changed || (told && open > 0) {
            cuts.push(Cut { at, kept: Kept::Some(draw.draw(u64::MAX)) });
        }
    }
    cuts
}

struct Looked<'a> {
    place: &'a Place,
    made: &'a Made,
    snapshots: &'a [Snapshot],
    /// Of the window at hand.
    states: BTreeSet<u64>,
    /// What the last cut that kept everything showed.
    last: Option<Listing>,
    /// What images showed, by their digests; nothing where that can't be asked.
    known: BTreeMap<u64, Option<Listing>>,
}

impl<'a> Looked<'a> {
    fn new(place: &'a Place, made: &'a Made, snapshots: &'a [Snapshot]) -> Self {
        let (states, known) = (BTreeSet::new(), BTreeMap::new());
        Self { place, made, snapshots, states, last: None, known }
    }

    /// Counts what is left in the end of what a failed sync should have covered.
    fn settle(&self, row: &mut ContainRow) {
        let (Some(last), failed) = (&self.last, &self.made.failed) else { return };
        if let (Some((old, new)), Some(Seen::File(bytes))) = (&failed.contents, last.get("/s00/a"))
            && let Ok(kind) = failed::kind(bytes, old, new)
        {
            failed::count(row, &format!("in the end: {kind}"));
        }
        if failed.is_name {
            let is_there = last.contains_key("/s00/b");
            failed::count(
                row,
                if is_there { "in the end: the name" } else { "in the end: no name" },
            );
        }
    }

    /// Mounts one image and asks the model.
    fn look(
        &mut self,
        folder: &mut Folder<'_>,
        cut: &Cut,
        row: &mut ContainRow,
    ) -> io::Result<Option<Outside>> {
        let image = folder.image(cut);
        row.moments += 1;
        let digest = image.digest;
        if !self.known.contains_key(&digest) {
            match self.read(image, row)? {
                Ok(listing) => drop(self.known.insert(digest, listing)),
                Err(why) => return Ok(Some(self.outside(cut, why))),
            }
        }
        let Some(Some(listing)) = self.known.get(&digest) else { return Ok(None) };
        if cut.kept == Kept::All {
            self.last = Some(listing.clone());
        }
        self.states.insert(hash(listing));
        let done = self.done(cut.at);
        let Err(why) = self.snapshots[done].admits(listing) else { return Ok(None) };
        match self.snapshots.get(done + 1).map(|next| next.admits(listing)) {
            Some(Ok(())) => Ok(None),
            _ => Ok(Some(self.outside(cut, why))),
        }
    }

    /// What an image shows; nothing where a torn block of the file system's own is in the way,
    /// which is class M; in words, what should not be.
    fn read(
        &self,
        image: Image,
        row: &mut ContainRow,
    ) -> io::Result<Result<Option<Listing>, String>> {
        let torn = image.torn > 0;
        self.place.recorder.disk().show(image);
        let mounted = self.place.mount();
        let seen = match &mounted {
            Ok(_) => listing(self.place.at()).map(Some),
            Err(error) if is_refusal(error) => {
                count_refused(error, torn, row);
                // Nothing explains it: no write is torn, and this device never lies.
                if torn { Ok(None) } else { Err(io::Error::other(format!("refused: {error}"))) }
            }
            Err(error) => return Err(io::Error::new(error.kind(), error.to_string())),
        };
        if let Ok(mounted) = mounted {
            mounted.unmount()?;
        }
        self.place.recorder.disk().forget();
        match seen {
            Ok(None) => Ok(Ok(None)),
            Err(_) if torn => {
                row.unreadable += 1;
                Ok(Ok(None))
            }
            Err(error) => Ok(Err(error.to_string())),
            Ok(seen) => {
                row.images += 1;
                Ok(Ok(seen))
            }
        }
    }

    /// Calls that had returned at a position.
    fn done(&self, at: usize) -> usize {
        let returned = self.made.entries[..at].iter();
        returned.rev().find_map(|entry| call_of(entry, Kind::Done)).map_or(0, |call| call + 1)
    }

    fn outside(&self, cut: &Cut, why: String) -> Outside {
        let done = self.done(cut.at);
        let calls = &self.made.calls[..done];
        let text = |(did, ok): &Call| format!("{did}{}", if *ok { "" } else { " (failed)" });
        let calls: Vec<String> = calls[done.saturating_sub(24)..].iter().map(text).collect();
        let kept = match cut.kept {
            Kept::All => "every write so far",
            Kept::Some(_) | Kept::Set(_) => "some of the writes since the last flush",
        };
        Outside { why, calls, at: format!("after {done} calls, {kept}") }
    }
}

/// Counts an image that can't be mounted.
fn count_refused(error: &io::Error, torn: bool, row: &mut ContainRow) {
    row.refused += 1;
    row.refused_whole += u64::from(!torn);
    let what = if torn { "torn" } else { "whole" };
    *row.refusals.entry(format!("{what}: {error}")).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sequence_and_every_kind_of_session_has_its_turn() {
        let works = works(1, 3);
        let count = |of: fn(&Work) -> bool| works.iter().filter(|work| of(work)).count();
        assert_eq!(count(|work| matches!(work, Work::Engine(_))), 3);
        let all = steps::sequences().len();
        assert_eq!(count(|w| matches!(w, Work::Sequences(_))), all.div_ceil(SEQUENCES));
    }

    #[test]
    fn what_a_call_leaves_unflushed_is_lost_in_every_way() {
        let note = |kind, n| Entry::Note(crate::kill::wire::Note::step(kind, 0, n));
        let write = |at| Entry::Write { at, bytes: Arc::from([1]) };
        let mut log = vec![note(Kind::Issued, 0), write(0), write(1), note(Kind::Done, 0)];
        let all = cuts(&log, (0, 1), &mut Seed(1));
        let told = all.iter().filter(|cut| cut.at == 4).map(|cut| cut.kept);
        let kept = [Kept::All, Kept::Set(0), Kept::Set(1), Kept::Set(2)];
        assert_eq!(told.collect::<Vec<_>>(), kept);
        log.insert(3, Entry::Flush);
        let all = cuts(&log, (0, 1), &mut Seed(1));
        assert_eq!(all.iter().filter(|cut| cut.at == 5).count(), 1);
    }
}
