//! A workload on a recorded device, from an empty file system to its unmounting.
//!
//! Invariants
//! - The log begins before the mount and ends behind the unmounting: every image that a power cut
//!   may leave in between is in it.
//! - One session has several lives of the database, each closed and opened again by the next.
//! - What the workload does follows from the seed; its threads are the machine's.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::crew;
use super::log::{Cut, Entry, Kept, Pages};
use super::place::{Loop, Mounted, Place};
use super::truth::Truth;
use crate::kill::Fault;
use crate::kill::victim::{Mode, Order};
use kiban_model::generate::{Seed, Source};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The database's directory in a mounted file system.
pub const DATABASE: &str = "db";

/// One life of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lived {
    /// Steps of each writer.
    pub steps: u32,
    /// Closed under its writers after so many milliseconds; 0 for never.
    pub close_ms: u64,
}

/// The lives of a session.
#[must_use]
pub fn lives(seed: u64) -> Vec<Lived> {
    let draw = &mut Seed(seed);
    let count = 1 + draw.below(3);
    let life = |_| {
        let steps = 6 + draw.below(16) as u32;
        let close_ms = if draw.below(4) == 0 { 5 + draw.below(60) as u64 } else { 0 };
        Lived { steps, close_ms }
    };
    (0..count).map(life).collect()
}

/// The order for a life of the workload.
#[must_use]
pub fn order(mounted: &Path, seed: u64, life: u32, lived: Lived) -> Order {
    let Lived { steps, close_ms } = lived;
    let dir = mounted.join(DATABASE);
    Order { mode: Mode::Work, dir, seed, life, freeze: 0, close_ms, steps, watch: true }
}

/// What a session was.
#[derive(Debug)]
pub struct Session {
    /// Its seed.
    pub seed: u64,
    /// What the device heard.
    pub entries: Vec<Entry>,
    /// The device before it.
    pub base: Arc<Pages>,
    /// What the workload told.
    pub truth: Truth,
    /// How long its lives took.
    pub took: Duration,
}

fn refused(what: &str) -> impl Fn(io::Error) -> Fault {
    move |error| Fault::environment(format!("{what}: {error}"))
}

/// Records a session on a healthy device.
pub(crate) fn record(
    program: &Path,
    place: &Place,
    base: &Arc<Pages>,
    seed: u64,
) -> Result<Session, Fault> {
    let mut disk = place.recorder.disk();
    disk.show_pages(base.clone());
    disk.record();
    drop(disk);
    let mounted = place.mount().map_err(refused("mount"))?;
    let mut took = Duration::ZERO;
    for (life, lived) in (0..).zip(lives(seed)) {
        let notes = place.notes().map_err(refused("the file of notes"))?;
        took += crew::work(program, &order(place.at(), seed, life, lived), notes)?;
    }
    mounted.unmount().map_err(refused("unmount"))?;
    let mut disk = place.recorder.disk();
    let entries = disk.recorded();
    disk.forget();
    drop(disk);
    let truth = Truth::tell(seed, &entries, None)?;
    Ok(Session { seed, entries, base: base.clone(), truth, took })
}

/// The same lives on a device that nobody records, made of a file in `dir`; how long they took.
pub(crate) fn bare(
    program: &Path,
    place: &Place,
    dir: &Path,
    seed: u64,
) -> Result<Duration, Fault> {
    let refuse = refused("a bare device");
    let file = dir.join("bare");
    let mut took = Duration::ZERO;
    let made = File::create(&file).and_then(|made| made.set_len(place.system.size()));
    made.map_err(&refuse)?;
    let device = Loop::attach(&file).map_err(&refuse)?;
    place.make(device.path()).map_err(&refuse)?;
    let mounted = Mounted::new(device.path(), place.at(), place.system).map_err(&refuse)?;
    for (life, lived) in (0..).zip(lives(seed)) {
        let null = File::options().write(true).open("/dev/null").map_err(&refuse)?;
        took += crew::work(program, &order(place.at(), seed, life, lived), null)?;
    }
    mounted.unmount().map_err(&refuse)?;
    drop(device);
    std::fs::remove_file(&file).map_err(&refuse)?;
    Ok(took)
}

/// Positions right before each change, and the end; whether a flush stands before it and behind
/// the change before.
fn steps(entries: &[Entry], range: &Range<usize>) -> Vec<(usize, bool)> {
    let mut flushed = false;
    let mut steps = Vec::new();
    for at in range.clone() {
        if entries[at].is_change() {
            steps.push((at, std::mem::take(&mut flushed)));
        }
        flushed |= entries[at] == Entry::Flush;
    }
    steps.push((range.end, flushed));
    steps
}

/// Positions at which something since the last flush can be lost, the last ones before a flush
/// among them.
fn losses(entries: &[Entry], range: &Range<usize>) -> Vec<usize> {
    let mut open = false;
    let mut losses = Vec::new();
    for (at, entry) in entries[..range.end].iter().enumerate() {
        if open && range.contains(&at) && (entry.is_change() || *entry == Entry::Flush) {
            losses.push(at);
        }
        open = entry.is_change() || (open && *entry != Entry::Flush);
    }
    losses
}

fn shuffle<T>(all: &mut [T], draw: &mut Seed) {
    for i in (1..all.len()).rev() {
        all.swap(i, draw.below(i + 1));
    }
}

/// At most so many cuts at positions of a range of a log, in order: every flush boundary with all
/// that was written, for a third of the cuts at the most; the rest is a sample of every write with
/// all, and of twice as many with something lost.
#[must_use]
pub fn cuts(entries: &[Entry], range: Range<usize>, max: usize, draw: &mut Seed) -> Vec<Cut> {
    let (steps, losses) = (steps(entries, &range), losses(entries, &range));
    let whole = |&(at, _): &(usize, bool)| Cut { at, kept: Kept::All };
    let mut cuts: Vec<Cut> = steps.iter().filter(|step| step.1).map(whole).collect();
    shuffle(&mut cuts, draw);
    let more = cuts.split_off(cuts.len().min(max / 3));
    let mut rest: Vec<Cut> = steps.iter().filter(|step| !step.1).map(whole).chain(more).collect();
    for _ in 0..if losses.is_empty() { 0 } else { 2 * steps.len() } {
        let at = losses[draw.below(losses.len())];
        rest.push(Cut { at, kept: Kept::Some(draw.draw(u64::MAX)) });
    }
    shuffle(&mut rest, draw);
    rest.truncate(max - cuts.len());
    cuts.append(&mut rest);
    cuts.sort_by_key(|cut| cut.at);
    cuts
}

impl Session {
    /// At most so many cuts of the session, in order: see [`cuts`].
    #[must_use]
    pub fn cuts(&self, max: usize, draw: &mut Seed) -> Vec<Cut> {
        cuts(&self.entries, 0..self.entries.len(), max, draw)
    }

    /// The life that was under way at a position, or the one before it.
    #[must_use]
    pub fn life_at(&self, at: usize) -> u32 {
        let opened = self.entries[..at].iter().filter(|entry| {
            matches!(entry, Entry::Note(note) if note.kind == crate::kill::wire::Kind::Opening)
        });
        u32::try_from(opened.count()).unwrap_or(u32::MAX).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_boundaries_come_first_and_no_cut_leaves_its_range() {
        let write = |at| Entry::Write { at, bytes: Arc::from([1]) };
        let mut log = Vec::new();
        for at in 0..40 {
            log.push(write(at));
            if at % 10 == 9 {
                log.push(Entry::Flush);
            }
        }
        let draw = &mut Seed(3);
        let some = cuts(&log, 5..log.len(), 12, draw);
        let boundaries = [11, 22, 33, 44].map(|at| Cut { at, kept: Kept::All });
        assert!(boundaries.iter().all(|cut| some.contains(cut)), "{some:?}");
        assert_eq!(some.len(), 12);
        let all = cuts(&log, 5..log.len(), 1000, draw);
        assert!(all.iter().all(|cut| cut.at >= 5));
        assert!((1..40).all(|n| {
            let at = n + n / 10;
            at < 5 || all.contains(&Cut { at, kept: Kept::All })
        }));
        assert!(all.iter().any(|cut| cut.at == 10 && matches!(cut.kept, Kept::Some(_))));
    }
}
