//! Device errors while the engine runs: what they are, and a session with one of them.
//!
//! Invariants
//! - The process ends: an error of the device is no reason to hang (B1).
//! - P1, D1: what was acknowledged as durable before the error is there when the device is healed,
//!   and everything else is as after a power cut. Calls that failed are in doubt.
//! - Where the journal of an ext4 gave up, what was acknowledged after the device's first error is
//!   owed no more than an error or some cut: its syncs were seen to say yes and to prove nothing.
//! - A device that says yes and forgets keeps no promise of ours but C1: what a reopen shows is a
//!   cut, or an error.
//! - The database is made on a healthy device, in a life of its own before the one that fails.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::check::{Checker, Expect, Trust};
use super::crew;
use super::log::{Cut, Entry, Folder, Image, Kept, PAGE, Pages};
use super::place::FileSystem;
use super::recorder::{On, Rule, Trouble};
use super::session::{Lived, order};
use super::truth::Truth;
use crate::kill::Fault;
use kiban_model::generate::{Seed, Source};
use std::fs::File;
use std::io;
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
    let calls = if draw.below(2) == 0 { CALLS } else { CALLS / 10 };
    let nth = draw.below(calls) as u64;
    place.recorder.disk().rule(fault.rule(nth));
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
    let mut truth = Truth::tell(seed, &entries, true)?;
    count(checker, &truth, hits, fault);
    let trust = trust(checker, fault, (&entries, &healed), &mut truth);
    let honest = trust != Trust::Nothing;
    // A liar's checkpoint is owed as little as its database.
    checker.copies = if honest { checker.choose(truth.copies_at(at)) } else { Vec::new() };
    let expect = Expect::Cut { truth: &truth, at, trust };
    let image = Image { base: healed, top: Pages::default(), open: 0, lost: 0, torn: 0, digest: 0 };
    checker.which = format!("{}, healed, at {at}", fault.name());
    checker.image(image, 1, &expect, false)?;
    if fault == DeviceFault::Full {
        // Where it was full, nothing can be used on.
        return Ok(());
    }
    let mut folder = Folder::new(&entries, (**base).clone());
    for kept in [Kept::Some(seed), Kept::All] {
        checker.which = format!("{}, {kept:?} at {at}", fault.name());
        let image = folder.image(&Cut { at, kept });
        checker.image(image, 1, &expect, false)?;
    }
    Ok(())
}

/// What the syncs of a session prove.
fn trust(
    checker: &mut Checker<'_>,
    fault: DeviceFault,
    (entries, healed): (&[Entry], &Pages),
    truth: &mut Truth,
) -> Trust {
    if fault == DeviceFault::Lie {
        return Trust::Nothing;
    }
    if checker.place.system != FileSystem::Ext4 || !journal_gave_up(healed) {
        return Trust::Whole;
    }
    checker.row.gave_up += 1;
    let refused = entries.iter().position(|entry| *entry == Entry::Refused);
    truth.trust_until(refused.unwrap_or(0));
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
}
