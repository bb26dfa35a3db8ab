//! Device errors while the engine runs: what they are, and a session with one of them.
//!
//! Invariants
//! - The process ends: an error of the device is no reason to hang (B1).
//! - P1, D1: what was acknowledged as durable before the error is there when the device is healed,
//!   and everything else is as after a power cut. Calls that failed are in doubt.
//! - A cut anywhere from the device's first error on is owed what had been acknowledged by then.
//! - Where the journal of an ext4 gave up, what was acknowledged after the device's first error is
//!   owed no more than an error that names a log, or a cut of that moment or a later one: its syncs
//!   were seen to say yes and to prove nothing. A cut at that moment is owed all of it.
//! - A device that says yes and forgets keeps no promise of ours but C1: what a reopen shows is a
//!   cut, or an error.
//! - The database is made on a healthy device, in a life of its own before the one that fails.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::check::{Checker, Expect, Trust};
use super::crew;
use super::log::{Cut, Entry, Folder, Image, Kept, PAGE, Pages};
use super::place::FileSystem;
use super::recorder::{On, Rule, Trouble};
use super::session::{Lived, cuts, order};
use super::truth::Truth;
use crate::kill::Fault;
use kiban_model::generate::{Seed, Source};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A kind of device error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceFault {
    /// One write answers EIO.
    WriteOnce,
    /// All writes do, from one on.
    WriteForever,
    /// One flush does.
    FlushOnce,
    /// All flushes do, from one on.
    FlushForever,
    /// All writes and flushes do, from one on: the device is gone.
    Gone,
    /// All writes and flushes from one on are answered with yes and forgotten.
    Lie,
    /// The file system is full.
    Full,
}

impl DeviceFault {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::WriteOnce,
        Self::WriteForever,
        Self::FlushOnce,
        Self::FlushForever,
        Self::Gone,
        Self::Lie,
        Self::Full,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteOnce => "write-once",
            Self::WriteForever => "write-forever",
            Self::FlushOnce => "flush-once",
            Self::FlushForever => "flush-forever",
            Self::Gone => "gone",
            Self::Lie => "lie",
            Self::Full => "full",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    fn rule(self, nth: u64) -> Option<Rule> {
        let rule = |on, trouble, forever| Some(Rule { on, trouble, nth, forever });
        match self {
            Self::WriteOnce => rule(On::Write, Trouble::Refuse, false),
            Self::WriteForever => rule(On::Write, Trouble::Refuse, true),
            Self::FlushOnce => rule(On::Flush, Trouble::Refuse, false),
            Self::FlushForever => rule(On::Flush, Trouble::Refuse, true),
            Self::Gone => rule(On::Either, Trouble::Refuse, true),
            Self::Lie => rule(On::Either, Trouble::Forget, true),
            Self::Full => None,
        }
    }
}

/// Writes and flushes of a life, about.
const CALLS: usize = 160;
/// What a full file system has left, at the most.
const ROOM: usize = 400 << 10;
/// Steps of each writer before and during the error.
const STEPS: (u32, u32) = (4, 24);
/// Images of the moment of the first error that lose something.
const FIRST_MOMENTS: usize = 4;
/// Images of the moments while the device failed.
const MOMENTS: usize = 14;

/// Which write or flush is the first to fail; early as often as late.
fn draw_nth(draw: &mut Seed) -> u64 {
    let calls = if draw.below(2) == 0 { CALLS } else { CALLS / 10 };
    draw.below(calls) as u64
}

fn refused(what: &str) -> impl Fn(io::Error) -> Fault {
    move |error| Fault::environment(format!("{what}: {error}"))
}

/// A session with a device error, examined right after, and after a power cut.
pub(crate) fn run(
    program: &Path,
    checker: &mut Checker<'_>,
    base: &Arc<Pages>,
    fault: DeviceFault,
    seed: u64,
) -> Result<(), Fault> {
    checker.begin(seed);
    let place = checker.place;
    let draw = &mut Seed(seed ^ 0x5eed);
    let mut disk = place.recorder.disk();
    disk.show_pages(base.clone());
    disk.record();
    drop(disk);
    let mounted = place.mount().map_err(refused("mount"))?;
    let work = |life, steps| {
        let lived = Lived { steps, close_ms: 0 };
        let notes = place.notes().map_err(refused("the file of notes"))?;
        crew::work(program, &order(place.at(), seed, life, lived), notes)
    };
    work(0, STEPS.0)?;
    let filler = place.at().join("filler");
    if fault == DeviceFault::Full {
        fill(&filler, draw.below(ROOM) as u64).map_err(refused("filling the file system"))?;
    }
    let from = place.recorder.disk().position();
    place.recorder.disk().rule(fault.rule(draw_nth(draw)));
    work(1, STEPS.1)?;
    let mut disk = place.recorder.disk();
    let hits = disk.rule(None);
    let at = disk.position();
    drop(disk);
    if fault == DeviceFault::Full {
        std::fs::remove_file(&filler).map_err(refused("emptying the file system"))?;
    }
    // A file system that gave up has nothing more to say.
    mounted.unmount().map_err(refused("unmount"))?;
    let mut disk = place.recorder.disk();
    let healed = Arc::new(disk.contents());
    let entries = disk.recorded();
    disk.forget();
    drop(disk);
    checker.heard.clone_from(&entries);
    // The life before was on a healthy device.
    let mut truth = Truth::tell(seed, &entries, Some(1))?;
    count(checker, &truth, hits, fault);
    let first = entries[from..at].iter().position(|entry| *entry == Entry::Refused);
    let first = first.map_or(from, |first| from + first);
    let trust = trust(checker, fault, first, &healed, &mut truth);
    let image = Image { base: healed, top: Pages::default(), open: 0, lost: 0, torn: 0, digest: 0 };
    checker.which = format!("{}, healed, at {at}", fault.name());
    look(checker, &truth, (at, trust), image)?;
    let is_liar = trust == Trust::Nothing;
    if fault == DeviceFault::Full {
        checker.filler = Some(filler);
    }
    let cuts = moments(&entries, first..at, is_liar, draw);
    let mut folder = Folder::new(&entries, (**base).clone());
    for cut in cuts {
        // Until the first error every sync told the truth.
        let trust = if cut.at <= first && !is_liar { Trust::Whole } else { trust };
        checker.which = format!("{}, {cut:?}; the first error at {first}", fault.name());
        look(checker, &truth, (cut.at, trust), folder.image(&cut))?;
        checker.row.failing_images += 1;
    }
    Ok(())
}

/// Has an image of the position `at` examined.
fn look(
    checker: &mut Checker<'_>,
    truth: &Truth,
    (at, trust): (usize, Trust),
    image: Image,
) -> Result<(), Fault> {
    checker.row.lossy += u64::from(image.lost > 0);
    checker.row.torn += u64::from(image.torn > 0);
    // A liar's checkpoint is owed as little as its database.
    let copies = if trust == Trust::Nothing { &[] } else { truth.copies_at(at) };
    checker.copies = checker.choose(copies);
    checker.image(image, 1, &Expect::Cut { truth, at, trust }, false)
}

/// The cuts of a session with an error: its first moment with all and with something lost, some
/// while it lasted, and its end. Where the device lies, nobody knows when that began.
fn moments(entries: &[Entry], range: Range<usize>, is_liar: bool, draw: &mut Seed) -> Vec<Cut> {
    let (first, at) = (range.start, range.end);
    let mut some = |at, count: usize| -> Vec<Cut> {
        let kept = (0..count).map(|_| Kept::Some(draw.draw(u64::MAX)));
        kept.chain([Kept::All]).map(|kept| Cut { at, kept }).collect()
    };
    let mut moments = if is_liar { Vec::new() } else { some(first, FIRST_MOMENTS) };
    let mut end = some(at, 1);
    if !is_liar {
        moments.extend(cuts(entries, range, MOMENTS, draw));
    }
    moments.append(&mut end);
    moments.sort_by_key(|cut| cut.at);
    moments
}

/// What the syncs of a session prove.
fn trust(
    checker: &mut Checker<'_>,
    fault: DeviceFault,
    first: usize,
    healed: &Pages,
    truth: &mut Truth,
) -> Trust {
    if fault == DeviceFault::Lie {
        return Trust::Nothing;
    }
    if checker.place.system != FileSystem::Ext4 || !journal_gave_up(healed) {
        return Trust::Whole;
    }
    checker.row.gave_up += 1;
    truth.trust_until(first);
    Trust::Until
}

/// Whether the journal of an ext4 was aborted: its superblock says so until the next mount.
///
/// From then on a sync of bytes in unwritten extents says yes: the bytes reach the device, and that
/// they are there does not, for it would be told in the journal.
fn journal_gave_up(pages: &Pages) -> bool {
    // Magic, and the kind of block; the error's number stands at 32, all in big-endian.
    const SUPERBLOCK: [u8; 8] = [0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 4];
    let below = Pages::default();
    pages.numbers().any(|page| {
        let mut bytes = [0; 36];
        pages.read(&below, page * PAGE, &mut bytes);
        bytes[..8] == SUPERBLOCK && bytes[32..] != [0; 4]
    })
}

fn count(checker: &mut Checker<'_>, truth: &Truth, hits: u64, fault: DeviceFault) {
    let row = &mut checker.row;
    row.device_sessions += 1;
    let met = !truth.failed.is_empty();
    row.poisoned += u64::from(met);
    row.device_errors += if fault == DeviceFault::Full { u64::from(met) } else { hits };
    *row.faults.entry(fault.name().to_owned()).or_default() += u64::from(met);
    *row.fault_hits.entry(fault.name().to_owned()).or_default() += u64::from(met || hits > 0);
}

/// Takes all of a file system but so many bytes.
fn fill(filler: &Path, leave: u64) -> io::Result<()> {
    let file = File::create(filler)?;
    let mut piece: u64 = 8 << 20;
    let mut at = 0;
    // Ever smaller pieces, until not even a block is left.
    while piece >= 4096 {
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), at, piece) {
            Ok(()) => at += piece,
            Err(rustix::io::Errno::NOSPC) => piece /= 2,
            Err(error) => return Err(error.into()),
        }
    }
    file.set_len(at.saturating_sub(leave))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_names_and_rules() {
        for fault in DeviceFault::ALL {
            assert_eq!(DeviceFault::named(fault.name()), Some(fault));
            assert_eq!(fault.rule(3).is_none(), fault == DeviceFault::Full);
        }
        assert_eq!(DeviceFault::named("none"), None);
    }

    #[test]
    fn the_moment_of_the_first_error_and_what_follows_are_cut() {
        let write = |at| Entry::Write { at, bytes: Arc::from([1]) };
        let mut log: Vec<Entry> = (0..30).map(write).collect();
        log[10] = Entry::Refused;
        let draw = &mut Seed(1);
        let all = moments(&log, 10..30, false, draw);
        let count = |at| all.iter().filter(|cut| cut.at == at).count();
        assert!(count(10) > FIRST_MOMENTS && count(30) >= 2, "{all:?}");
        assert!(all.iter().any(|cut| cut.at > 10 && cut.at < 30), "{all:?}");
        assert!(all.iter().all(|cut| (10..=30).contains(&cut.at)));
        assert_eq!(moments(&log, 10..30, true, draw).len(), 2);
    }
}
