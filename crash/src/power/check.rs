//! From an image to a verdict: mounted, opened, judged, used on, closed, opened again; a share of
//! them cut again while that goes on.
//!
//! Invariants
//! - D1, D3, V1, A1: what is shown is judged by [`Truth`].
//! - D4: a power cut after an open returned leaves what it had shown, or that and what was written
//!   after; one before leaves the decision open, within the same bounds.
//! - A checkpoint that had returned before the power went is whole, and shows a cut of its moment.
//! - C2: the last sequence is not below that of the cut that is shown.
//! - An image that the file system refuses to mount says nothing about the engine where a write of
//!   it was torn, or where its device lied: it is counted. Any other refusal ends the run.
//! - An image is counted once all of it is done.

use super::crew::Crew;
use super::examiner::Job;
use super::log::{Cut, Entry, Folder, Image, Kept, Pages};
use super::place::{Place, is_refusal};
use super::session::{DATABASE, Session};
use super::truth::{Copied, Truth};
use crate::kill::Fault;
use crate::kill::wire::{Kind, Note};
use crate::report::PowerRow;
use kiban_model::generate::{Seed, Source};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// What syncs that said yes prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// What they say.
    Whole,
    /// That, until the file system gave up; what a database shows then is a cut of that moment or
    /// later, or an error that names a log.
    Until,
    /// Nothing: the device lied. What is shown is some cut, or an error.
    Nothing,
}

/// What an image may show.
#[derive(Clone, Debug)]
pub(crate) enum Expect<'a> {
    /// A cut of what the workload wrote before this position.
    Cut {
        /// The writes.
        truth: &'a Truth,
        /// The position.
        at: usize,
        /// What a sync that said yes proves.
        trust: Trust,
    },
    /// One of these states: an open had decided.
    States(Vec<u64>),
}

/// What an image showed, and what was left of it.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    shown: u64,
    after: u64,
}

/// Images of one in so many are cut again while they are recovered.
const NESTED_EVERY: usize = 12;
/// Images of such a recovery.
const NESTED_IMAGES: usize = 3;

/// Examines images at one place.
pub(crate) struct Checker<'a> {
    pub(crate) place: &'a Place,
    pub(crate) crew: Crew<'a>,
    /// Where is counted.
    pub(crate) row: PowerRow,
    pub(crate) draw: Seed,
    /// Of the session at hand: its seed, and images that were examined.
    pub(crate) seed: u64,
    pub(crate) known: BTreeSet<(u64, (usize, usize), u32)>,
    /// Checkpoints that the image at hand must have.
    pub(crate) copies: Vec<Copied>,
    /// Jobs so far.
    pub(crate) jobs: u32,
    /// The image at hand, for whoever looks into a failure.
    pub(crate) at_hand: Option<(Arc<Pages>, Pages)>,
    /// What was told of it.
    pub(crate) told: Vec<Note>,
    /// What the device heard in the session at hand, and which image of it this is.
    pub(crate) heard: Vec<Entry>,
    pub(crate) which: String,
    /// Why the kernel refused it.
    refusal: Option<std::io::Error>,
    /// What fills the file system, and is removed before an image is examined.
    pub(crate) filler: Option<PathBuf>,
}

/// Whether an error, or damage that is told, is what a device or a file system that proves nothing
/// may leave.
fn is_excused(trust: Trust, text: &str) -> bool {
    match trust {
        Trust::Whole => false,
        // Only the extents of logs are allocated long before they are written.
        Trust::Until => text.contains(".log"),
        Trust::Nothing => true,
    }
}

impl<'a> Checker<'a> {
    pub(crate) fn new(place: &'a Place, crew: Crew<'a>, draw: Seed) -> Self {
        let row = PowerRow { fs: place.system.name().to_owned(), ..PowerRow::default() };
        Self {
            place,
            crew,
            row,
            draw,
            seed: 0,
            known: BTreeSet::new(),
            copies: Vec::new(),
            jobs: 0,
            at_hand: None,
            told: Vec::new(),
            heard: Vec::new(),
            which: String::new(),
            refusal: None,
            filler: None,
        }
    }

    /// A session begins: nothing of it was examined.
    pub(crate) fn begin(&mut self, seed: u64) {
        self.seed = seed;
        self.known.clear();
        self.filler = None;
    }

    /// Examines the image of one cut of a session.
    pub(crate) fn cut(
        &mut self,
        session: &Session,
        cut: &Cut,
        folder: &mut Folder<'_>,
    ) -> Result<(), Fault> {
        let image = folder.image(cut);
        let life = session.life_at(cut.at);
        // Equal contents that must show the same are one image.
        let must = (session.truth.floor_at(cut.at), session.truth.copies_at(cut.at).len());
        if !self.known.insert((image.digest, must, life)) {
            self.row.duplicates += 1;
            return Ok(());
        }
        self.which = format!("{cut:?}");
        self.row.lossy += u64::from(image.lost > 0);
        self.row.torn += u64::from(image.torn > 0);
        self.copies = self.choose(session.truth.copies_at(cut.at));
        let expect = Expect::Cut { truth: &session.truth, at: cut.at, trust: Trust::Whole };
        let nested = self.draw.below(NESTED_EVERY) == 0;
        self.image(image, life, &expect, nested)
    }

    /// The checkpoint that came last, and any other.
    pub(crate) fn choose(&mut self, copies: &[Copied]) -> Vec<Copied> {
        let Some((last, others)) = copies.split_last() else { return Vec::new() };
        let other = others.get(self.draw.below(others.len().max(1)));
        other.into_iter().chain([last]).cloned().collect()
    }

    /// Examines an image; with `nested`, also images of its recovery.
    pub(crate) fn image(
        &mut self,
        image: Image,
        life: u32,
        expect: &Expect<'_>,
        nested: bool,
    ) -> Result<(), Fault> {
        let below = nested.then(|| {
            let mut below = (*image.base).clone();
            below.absorb(&image.top);
            below
        });
        let torn = image.torn > 0;
        let lied = matches!(expect, Expect::Cut { trust: Trust::Nothing, .. });
        let why = if torn {
            "torn"
        } else if lied {
            "lying device"
        } else {
            "whole"
        };
        let Some((answer, log)) = self.shown(image, life, expect, nested)? else {
            return self.refused(why);
        };
        self.row.images += 1;
        let Some(below) = below else { return Ok(()) };
        let mut cuts: Vec<Cut> = (0..NESTED_IMAGES)
            .map(|_| {
                let at = self.draw.below(log.len() + 1);
                let some = self.draw.below(3) > 0;
                let kept = if some { Kept::Some(self.draw.draw(u64::MAX)) } else { Kept::All };
                Cut { at, kept }
            })
            .collect();
        cuts.sort_by_key(|cut| cut.at);
        let mut folder = Folder::new(&log, below);
        for cut in cuts {
            let image = folder.image(&cut);
            let why = if torn || image.torn > 0 { "torn" } else { "whole" };
            let expect = after(&log, cut.at, expect, answer);
            match self.shown(image, life, &expect, false)? {
                Some(_) => self.row.nested += 1,
                None => self.refused(why)?,
            }
        }
        Ok(())
    }

    /// Counts an image that can't be mounted, by what explains that.
    fn refused(&mut self, why: &str) -> Result<(), Fault> {
        let said = self.refusal.take().map_or(String::new(), |error| error.to_string());
        *self.row.refusals.entry(format!("{why}: {said}")).or_default() += 1;
        self.row.refused += 1;
        if why == "whole" {
            self.row.refused_whole += 1;
            let expected = "a mount: no write of it was torn, and its device did not lie";
            return Err(Fault::new("-", "an image that was refused", expected, said));
        }
        self.let_go();
        Ok(())
    }

    /// Makes room in a full file system.
    fn remove_filler(&self) -> Result<(), Fault> {
        let Some(filler) = &self.filler else { return Ok(()) };
        let removed = match std::fs::remove_file(filler) {
            // The cut may be from before it was there.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            removed => removed,
        };
        let synced = removed.and_then(|()| {
            let root = std::fs::File::open(self.place.at())?;
            Ok(rustix::fs::syncfs(root)?)
        });
        synced.map_err(|error| Fault::environment(format!("emptying the file system: {error}")))
    }

    /// Mounts an image and has it examined and judged; `None` if it can't be mounted.
    fn shown(
        &mut self,
        image: Image,
        life: u32,
        expect: &Expect<'_>,
        log: bool,
    ) -> Result<Option<(Answer, Vec<Entry>)>, Fault> {
        self.jobs += 1;
        self.at_hand = Some((image.base.clone(), image.top.clone()));
        self.told.clear();
        let mut disk = self.place.recorder.disk();
        disk.show(image);
        if log {
            disk.record();
        }
        drop(disk);
        let mounted = match self.place.mount() {
            Ok(mounted) => mounted,
            Err(error) if is_refusal(&error) => {
                self.refusal = Some(error);
                return Ok(None);
            }
            Err(error) => return Err(Fault::environment(format!("mount: {error}"))),
        };
        self.remove_filler()?;
        let dir = self.place.at().join(DATABASE);
        let copies = self.copies.iter().map(|copy| copy.name.clone()).collect();
        let job = Job { dir, seed: self.seed, life, number: self.jobs, synced: log, copies };
        let notes = self.crew.examine(&job)?;
        self.told = notes.clone();
        let answer = self.judge(&notes, expect)?;
        mounted.unmount().map_err(|error| Fault::environment(format!("unmount: {error}")))?;
        Ok(Some((answer, self.let_go())))
    }

    /// Nothing holds on to the image any more: the next one can be made in place.
    fn let_go(&mut self) -> Vec<Entry> {
        self.at_hand = None;
        let mut disk = self.place.recorder.disk();
        disk.forget();
        disk.recorded()
    }

    fn judge(&mut self, notes: &[Note], expect: &Expect<'_>) -> Result<Answer, Fault> {
        let what = "what a power cut left";
        let opened = notes.iter().find(|note| note.kind == Kind::Opened);
        if let Some(opened) = opened {
            self.judge_shown(opened, expect)?;
        }
        let trust = match expect {
            Expect::Cut { trust, .. } => *trust,
            Expect::States(_) => Trust::Whole,
        };
        for note in notes {
            match note.kind {
                Kind::Wrong => {
                    let (promise, text) = note.text.split_once(' ').unwrap_or(("-", &note.text));
                    // Damage that is told is what C1 asks for.
                    if promise != "C1" || !is_excused(trust, text) {
                        return Err(Fault::new(promise, what, "what the promise says", text));
                    }
                    self.row.gave_up_told += u64::from(trust == Trust::Until);
                }
                Kind::Copy => self.judge_copy(note)?,
                Kind::Failed if note.a == 1 && note.text.contains("No space left") => {
                    if self.filler.is_none() {
                        return Err(Fault::environment(&*note.text));
                    }
                    self.row.no_room += 1;
                    return Ok(Answer::default());
                }
                Kind::Failed if is_excused(trust, &note.text) => {
                    self.row.lies_told += u64::from(trust == Trust::Nothing);
                    self.row.gave_up_told += u64::from(trust == Trust::Until);
                    return Ok(Answer::default());
                }
                Kind::Failed => {
                    let must = match expect {
                        Expect::Cut { truth, at, .. } => truth.floor_at(*at) > 0,
                        Expect::States(_) => true,
                    };
                    let promise = if must { "D1" } else { "D3" };
                    let expected = "a database that can be opened and used";
                    return Err(Fault::new(promise, what, expected, &*note.text));
                }
                _ => {}
            }
        }
        let answered = notes.iter().find(|note| note.kind == Kind::Answered);
        let Some(answered) = answered else {
            return Err(Fault::new("B1", what, "an answer", "the examination gave none"));
        };
        Ok(Answer { shown: answered.a, after: answered.b })
    }

    fn judge_copy(&mut self, note: &Note) -> Result<(), Fault> {
        self.row.copies += 1;
        let Some(copy) = self.copies.get(note.n as usize) else { return Ok(()) };
        if copy.states.contains(&note.b) {
            return Ok(());
        }
        let expected = "a cut between what had returned before it and what was issued after it";
        let what = "a checkpoint";
        Err(Fault::new("D3", what, expected, format!("something else in {}", copy.name)))
    }

    fn judge_shown(&mut self, opened: &Note, expect: &Expect<'_>) -> Result<(), Fault> {
        match expect {
            Expect::Cut { truth, at, trust } => {
                let (crew, honest) = (&mut self.crew, *trust != Trust::Nothing);
                let cut = truth.judge(*at, opened.b, honest, || crew.dump())?;
                let last = truth.last_sequence(cut);
                if opened.a < last {
                    let expected = format!("at least sequence {last}, which is shown");
                    let what = "the last sequence";
                    return Err(Fault::new("C2", what, expected, opened.a.to_string()));
                }
                self.row.behind += u64::from(cut < truth.acknowledged_at(*at));
                self.row.durable_behind += u64::from(honest && truth.floor_at(*at) > 0);
            }
            Expect::States(states) => {
                if !states.contains(&opened.b) {
                    let expected = "what the open before the power cut had shown";
                    let got = "something else";
                    return Err(Fault::new("D4", "a recovery cut short", expected, got));
                }
            }
        }
        Ok(())
    }
}

/// What an image of the recovery of an image may show.
fn after<'a>(log: &[Entry], at: usize, expect: &Expect<'a>, answer: Answer) -> Expect<'a> {
    let told = |kind: Kind| {
        log[..at].iter().any(|entry| matches!(entry, Entry::Note(note) if note.kind == kind))
    };
    let Answer { shown, after } = answer;
    if told(Kind::Done) {
        Expect::States(vec![after])
    } else if told(Kind::Issued) {
        Expect::States(vec![shown, after])
    } else if told(Kind::Opened) {
        Expect::States(vec![shown])
    } else {
        expect.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_gave_up_excuses_logs_and_a_liar_everything() {
        for (text, until) in [("open 000003.tbl: no end", false), ("scan 000004.log: zeros", true)]
        {
            assert!(!is_excused(Trust::Whole, text) && is_excused(Trust::Nothing, text));
            assert_eq!(is_excused(Trust::Until, text), until, "{text}");
        }
    }
}
