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
//! - With device errors, a sequence ends at the first call that failed.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::log::{Cut, Entry, Folder, Kept, Pages};
use super::place::Place;
use super::recorder::{On, Rule, Trouble};
use super::tap::{Call, Tap, replay};
use crate::disk::{Disk, Listing, Seen, Snapshot};
use crate::kill::plan;
use crate::kill::wire::{Kind, Teller};
use crate::report::ContainRow;
use kiban::env::Env;
use kiban::env::fs::{File, Fs};
use kiban::env::os::OsFs;
use kiban::{Kiban, KibanOptions};
use kiban_model::generate::{Seed, Source};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// One call of a sequence, on the files `a`, which is there and durable, and `b`, which is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "their names say what they do")]
pub enum Step {
    CreateB,
    WriteA,
    WriteB,
    SyncDataA,
    SyncAllB,
    ShortenA,
    PreallocateB,
    RenameAb,
    RenameBa,
    LinkAb,
    UnlinkA,
    Mkdir,
    SyncDir,
}

const STEPS: [Step; 13] = [
    Step::CreateB,
    Step::WriteA,
    Step::WriteB,
    Step::SyncDataA,
    Step::SyncAllB,
    Step::ShortenA,
    Step::PreallocateB,
    Step::RenameAb,
    Step::RenameBa,
    Step::LinkAb,
    Step::UnlinkA,
    Step::Mkdir,
    Step::SyncDir,
];
/// Calls of a sequence.
const LENGTH: usize = 3;
/// Sequences of one session.
const SEQUENCES: usize = 12;

/// All sequences in which no call is void: `b` is used only once it was created.
#[must_use]
pub fn sequences() -> Vec<Vec<Step>> {
    let mut all: Vec<Vec<Step>> = vec![Vec::new()];
    for _ in 0..LENGTH {
        let longer = |sequence: &Vec<Step>| -> Vec<Vec<Step>> {
            let next = STEPS.iter().filter(|step| {
                let needs_b = matches!(
                    step,
                    Step::WriteB | Step::SyncAllB | Step::PreallocateB | Step::RenameBa
                );
                let made = sequence.contains(&Step::CreateB);
                if **step == Step::CreateB { !made } else { !needs_b || made }
            });
            next.map(|step| [&sequence[..], &[*step]].concat()).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// What a session does.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A short life of a database.
    Engine(u64),
    /// These sequences, each in a directory of its own.
    Sequences(Vec<Vec<Step>>),
    /// One of them, with a device error.
    Faulty(Vec<Step>, u64),
}

/// All sessions, in an order that the seed says.
pub(crate) fn works(seed: u64, engine: usize) -> Vec<Work> {
    let draw = &mut Seed(seed);
    let mut all = sequences();
    for i in (1..all.len()).rev() {
        all.swap(i, draw.below(i + 1));
    }
    let faulty: Vec<Work> =
        all.iter().step_by(16).map(|s| Work::Faulty(s.clone(), draw.draw(u64::MAX))).collect();
    let engine = (0..engine as u64).map(|n| Work::Engine(seed.wrapping_add(n)));
    let plain = all.chunks(SEQUENCES).map(|some| Work::Sequences(some.to_vec()));
    engine.chain(plain).chain(faulty).collect()
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
    let mut looked = Looked { place, made: &made, snapshots: &snapshots, states: BTreeSet::new() };
    let mut folder = Folder::new(&made.entries, (**base).clone());
    let draw = &mut Seed(seed);
    row.sessions += 1;
    for window in &made.windows {
        looked.states.clear();
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
    let mut windows = Vec::new();
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
    }
    row.calls += tap.count() as u64;
    mounted.unmount()?;
    let mut disk = place.recorder.disk();
    let entries = disk.recorded();
    disk.forget();
    Ok(Made { entries, calls: tap.calls(), windows })
}

/// A short life of a database, through every protocol.
fn live(tap: &Arc<Tap>, at: &Path, seed: u64) -> io::Result<()> {
    let run = || -> kiban::Result<()> {
        let (dir, draw) = (at.join("db"), &mut Seed(seed));
        for life in 0..2 {
            let fs: Arc<dyn Fs> = tap.clone();
            let options: KibanOptions = plan::options(seed, life);
            let mut db = Kiban::open(&dir, options.env(Env { fs, ..Env::os() }))?;
            for n in 0..14 {
                let id = plan::value_id(life, 0, n, 0);
                let (key, value) = (plan::key(draw.below(40) as u32), plan::value(id));
                match draw.below(8) {
                    0 => drop(db.put_durable(key, value)?),
                    1 => drop(db.delete(key)?),
                    2 => db.sync()?,
                    3 => db.flush()?,
                    _ => drop(db.put(key, value)?),
                }
            }
            db.flush()?;
            db.compact_range::<&[u8]>(..)?;
            if life == 0 {
                db.checkpoint(at.join("copy"))?;
            }
            db.close()?;
        }
        Ok(())
    };
    run().map_err(|error| io::Error::other(format!("a life of the engine: {error}")))
}

fn dir_of(at: &Path, number: usize) -> std::path::PathBuf {
    at.join(format!("s{number:02}"))
}

/// A directory with a file, all durable.
fn prepare(tap: &Tap, at: &Path, number: usize) -> io::Result<()> {
    let dir = dir_of(at, number);
    tap.mkdir(&dir)?;
    let a = tap.create(&dir.join("a"))?;
    a.write_at(0, &[b'a'; 700])?;
    a.sync_all()?;
    tap.sync_dir(&dir)?;
    tap.sync_dir(at)
}

/// Makes the calls of a sequence, and has the kernel write back what they left.
fn follow(
    tap: &Tap,
    at: &Path,
    number: usize,
    sequence: &[Step],
    prepared: bool,
) -> io::Result<(usize, usize)> {
    if !prepared {
        prepare(tap, at, number)?;
    }
    let dir = dir_of(at, number);
    let a = tap.open(&dir.join("a"), kiban::env::fs::OpenMode::ReadWrite)?;
    let mut b: Option<Arc<dyn File>> = None;
    let begin = tap.count();
    for step in sequence {
        let failed = take(tap, &dir, &*a, &mut b, *step).err();
        // That a name is missing or taken is an answer; a device error is an end.
        if failed.is_some_and(|error| {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
        }) {
            break;
        }
    }
    drop(b);
    drop(a);
    let end = tap.count();
    // What is written back meanwhile is in doubt. A device error is told in the calls.
    let _ = tap.sync_fs();
    Ok((begin, end))
}

fn take(
    tap: &Tap,
    dir: &Path,
    a: &dyn File,
    b: &mut Option<Arc<dyn File>>,
    step: Step,
) -> io::Result<()> {
    let (name_a, name_b) = (dir.join("a"), dir.join("b"));
    let file =
        |b: &Option<Arc<dyn File>>| b.clone().ok_or(io::Error::from(io::ErrorKind::NotFound));
    match step {
        Step::CreateB => {
            *b = Some(tap.create(&name_b)?);
            Ok(())
        }
        Step::WriteA => a.write_at(300, &[b'A'; 900]).map(drop),
        Step::WriteB => file(b)?.write_at(0, &[b'B'; 5000]).map(drop),
        Step::SyncDataA => a.sync_data(),
        Step::SyncAllB => file(b)?.sync_all(),
        Step::ShortenA => a.set_len(200),
        Step::PreallocateB => file(b)?.preallocate(8192),
        Step::RenameAb => tap.rename(&name_a, &name_b),
        Step::RenameBa => tap.rename(&name_b, &name_a),
        Step::LinkAb => tap.link(&name_a, &name_b),
        Step::UnlinkA => tap.unlink(&name_a),
        Step::Mkdir => tap.mkdir(&dir.join("d")),
        Step::SyncDir => tap.sync_dir(dir),
    }
}

/// The number of the call that a note tells, if it is of this kind.
fn call_of(entry: &Entry, kind: Kind) -> Option<usize> {
    match entry {
        Entry::Note(note) if note.kind == kind => Some(note.n as usize),
        _ => None,
    }
}

/// The cuts of a window of calls: after each change, with everything and with something lost.
fn cuts(entries: &[Entry], (begin, end): (usize, usize), draw: &mut Seed) -> Vec<Cut> {
    let at = |kind, call| entries.iter().position(|entry| call_of(entry, kind) == Some(call));
    let from = at(Kind::Issued, begin).unwrap_or(0);
    // The writing back after the last call is number `end`.
    let to = at(Kind::Issued, end + 1).unwrap_or(entries.len());
    let mut cuts = Vec::new();
    for at in from..=to {
        let changed = at > 0 && entries[at - 1].is_change();
        let told = at > 0 && call_of(&entries[at - 1], Kind::Done).is_some();
        if changed || told || at == from {
            cuts.push(Cut { at, kept: Kept::All });
        }
        if changed {
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
}

impl Looked<'_> {
    /// Mounts one image and asks the model.
    fn look(
        &mut self,
        folder: &mut Folder<'_>,
        cut: &Cut,
        row: &mut ContainRow,
    ) -> io::Result<Option<Outside>> {
        let image = folder.image(cut);
        let torn = image.torn > 0;
        self.place.recorder.disk().show(image);
        let mounted = self.place.mount();
        let listing = match &mounted {
            Ok(_) => listing(self.place.at()),
            Err(_) => Ok(Listing::new()),
        };
        let is_there = mounted.is_ok();
        if let Ok(mounted) = mounted {
            mounted.unmount()?;
        }
        self.place.recorder.disk().forget();
        if !is_there {
            row.refused += 1;
            row.refused_whole += u64::from(!torn);
            return Ok(None);
        }
        row.images += 1;
        let listing = match listing {
            Ok(listing) => listing,
            // What a torn block of the file system's own makes unreadable is class M.
            Err(_) if torn => {
                row.unreadable += 1;
                return Ok(None);
            }
            Err(error) => return Ok(Some(self.outside(cut, error.to_string()))),
        };
        self.states.insert(hash(&listing));
        let done = self.done(cut.at);
        let Err(why) = self.snapshots[done].admits(&listing) else { return Ok(None) };
        match self.snapshots.get(done + 1).map(|next| next.admits(&listing)) {
            Some(Ok(())) => Ok(None),
            _ => Ok(Some(self.outside(cut, why))),
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
            Kept::Some(_) => "some of the writes since the last flush",
        };
        Outside { why, calls, at: format!("after {done} calls, {kept}") }
    }
}

/// Everything below a directory, but for what the file system itself puts there.
fn listing(root: &Path) -> io::Result<Listing> {
    let mut listing = Listing::new();
    let mut todo = vec![(root.to_owned(), String::new())];
    while let Some((dir, path)) = todo.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_empty() && name == "lost+found" {
                continue;
            }
            let path = format!("{path}/{name}");
            if entry.file_type()?.is_dir() {
                todo.push((entry.path(), path.clone()));
                listing.insert(path, Seen::Dir);
            } else {
                listing.insert(path, Seen::File(std::fs::read(entry.path())?));
            }
        }
    }
    Ok(listing)
}

fn hash(listing: &Listing) -> u64 {
    let mut text = Vec::new();
    for (path, seen) in listing {
        text.extend_from_slice(path.as_bytes());
        match seen {
            Seen::Dir => text.push(0),
            Seen::File(bytes) => {
                text.push(1);
                text.extend((bytes.len() as u64).to_le_bytes());
                text.extend_from_slice(bytes);
            }
        }
    }
    xxh3_64(&text)
}

/// Images of each moment of a sequence that the simulated disk draws, at the most.
const SIMULATED_MAX: usize = 200;

/// How many states the model has for the moments of a sequence, and how many of them were seen.
fn tightness(moments: &[Snapshot], seen: &BTreeSet<u64>, row: &mut ContainRow) {
    let mut states = BTreeSet::new();
    for snapshot in moments {
        for image in snapshot.images(SIMULATED_MAX, 1) {
            states.insert(hash(&simulated(&image.disk)));
        }
    }
    row.simulated += states.len() as u64;
    row.simulated_seen += states.intersection(seen).count() as u64;
}

fn simulated(disk: &Disk) -> Listing {
    let mut listing: Listing = disk.dirs().into_iter().map(|path| (path, Seen::Dir)).collect();
    for (path, _) in disk.files() {
        if let Ok(bytes) = disk.get_file(&path) {
            listing.insert(path, Seen::File(bytes));
        }
    }
    listing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_use_b_only_once_it_was_created() {
        let all = sequences();
        assert!(all.len() > 800, "{}", all.len());
        assert!(all.iter().all(|sequence| sequence.len() == LENGTH));
        assert!(!all.contains(&vec![Step::WriteB, Step::CreateB, Step::SyncDir]));
        assert!(all.contains(&vec![Step::CreateB, Step::WriteB, Step::RenameBa]));
        let works = works(1, 3);
        let count = |of: fn(&Work) -> bool| works.iter().filter(|work| of(work)).count();
        assert_eq!(count(|work| matches!(work, Work::Engine(_))), 3);
        assert_eq!(count(|w| matches!(w, Work::Sequences(_))), all.len().div_ceil(SEQUENCES));
    }
}
