//! What a block device heard, in order, and the contents that a power cut may leave of it.
//!
//! Invariants
//! - A position is an index into the log: what stands before it had happened, what stands at it or
//!   behind had not. Notes of the workload stand in the same order, so that each position knows
//!   what had been acknowledged.
//! - A flush that stands before a position covers every write before it: an image has them whole.
//!   A flush that stands behind covers nothing yet.
//! - Of the writes since, an image has any: whole, in sectors of 512 bytes, or not at all. Where
//!   two of them meet, the later one wins: a device that lost it shows the earlier, which is the
//!   image without the later one, so that orders need no images of their own.
//! - A byte that nobody wrote, or that was discarded, is zero.
//! - An image is an overlay over what the last flush made sure; nothing is copied to make it.
//!
//! It knows neither file systems nor the engine.

use crate::kill::wire::Note;
use kiban_model::generate::{Seed, Source};
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a page, the unit of an overlay.
pub const PAGE: u64 = 4096;
/// Bytes that a device writes whole or not at all.
pub const SECTOR: usize = 512;

type Page = [u8; PAGE as usize];

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Bytes were written.
    Write {
        /// Where.
        at: u64,
        /// Which.
        bytes: Arc<[u8]>,
    },
    /// A range was given back.
    Discard {
        /// Where it begins.
        at: u64,
        /// Its length.
        len: u64,
    },
    /// What was written became durable.
    Flush,
    /// A write or a flush was answered with an error, and had no effect.
    Refused,
    /// The workload told something.
    Note(Note),
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Write { at, bytes } => write!(f, "write {at}+{}", bytes.len()),
            Self::Discard { at, len } => write!(f, "discard {at}+{len}"),
            Self::Flush => f.write_str("flush"),
            Self::Refused => f.write_str("refused"),
            Self::Note(note) => note.fmt(f),
        }
    }
}

impl Entry {
    /// Whether it changes bytes.
    #[must_use]
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Discard { .. })
    }
}

/// Contents by page; a page that is missing shows what is below, or zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(BTreeMap<u64, Arc<Page>>);

/// The parts of a range that lie in one page each: page, offset in it, offset in the range, length.
fn parts(at: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let here = at + done;
        let inside = here % PAGE;
        let take = (PAGE - inside).min(len - done);
        let part = (here / PAGE, inside as usize, done as usize, take as usize);
        done += take;
        (take > 0).then_some(part)
    })
}

impl Pages {
    /// Pages that are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers of the pages that are here.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// Reads through this overlay and `below` into `to`, which is zero.
    pub fn read(&self, below: &Self, at: u64, to: &mut [u8]) {
        for (page, inside, from, len) in parts(at, to.len() as u64) {
            if let Some(bytes) = self.0.get(&page).or_else(|| below.0.get(&page)) {
                to[from..from + len].copy_from_slice(&bytes[inside..inside + len]);
            }
        }
    }

    /// Writes into this overlay over `below`.
    pub fn write(&mut self, below: &Self, at: u64, bytes: &[u8]) {
        for (page, inside, from, len) in parts(at, bytes.len() as u64) {
            let fresh = || below.0.get(&page).cloned().unwrap_or_else(|| Arc::new([0; 4096]));
            let to = Arc::make_mut(self.0.entry(page).or_insert_with(fresh));
            to[inside..inside + len].copy_from_slice(&bytes[from..from + len]);
        }
    }

    /// Makes a range zero in this overlay over `below`.
    pub fn discard(&mut self, below: &Self, at: u64, len: u64) {
        if len == 0 {
            return;
        }
        // Only what is anything else than zero is touched: a device is discarded whole by mkfs.
        let pages = at / PAGE..=(at + len - 1) / PAGE;
        let here = self.0.range(pages.clone()).map(|(page, _)| *page);
        let mut touched: Vec<u64> = here.chain(below.0.range(pages).map(|(p, _)| *p)).collect();
        touched.sort_unstable();
        touched.dedup();
        for page in touched {
            let begin = at.max(page * PAGE);
            let end = (at + len).min((page + 1) * PAGE);
            if end - begin < PAGE {
                self.write(below, begin, &vec![0; (end - begin) as usize]);
            } else if below.0.contains_key(&page) {
                self.0.insert(page, Arc::new([0; 4096]));
            } else {
                self.0.remove(&page);
            }
        }
    }

    /// Puts another overlay over this one.
    pub fn absorb(&mut self, over: &Self) {
        self.0.extend(over.0.iter().map(|(page, bytes)| (*page, bytes.clone())));
    }

    /// A hash of all that is here.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash = Xxh3::new();
        for (page, bytes) in &self.0 {
            hash.update(&page.to_le_bytes());
            hash.update(&bytes[..]);
        }
        hash.digest()
    }

    fn apply(&mut self, below: &Self, entry: &Entry) {
        match entry {
            Entry::Write { at, bytes } => self.write(below, *at, bytes),
            Entry::Discard { at, len } => self.discard(below, *at, *len),
            Entry::Flush | Entry::Refused | Entry::Note(_) => {}
        }
    }
}

/// Which of the writes since the last flush an image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All of them.
    All,
    /// Some, drawn from this seed; some of these torn.
    Some(u64),
    /// Those whose bits are set, whole.
    Set(u64),
}

/// A power cut: where in the log, and what was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The position.
    pub at: usize,
    /// What was kept.
    pub kept: Kept,
}

/// What a power cut left.
#[derive(Clone, Debug)]
pub struct Image {
    /// What the last flush before it made sure.
    pub base: Arc<Pages>,
    /// What else was kept.
    pub top: Pages,
    /// Writes since that flush.
    pub open: usize,
    /// Those of them that were lost.
    pub lost: usize,
    /// Those of them of which a part was lost.
    pub torn: usize,
    /// Equal numbers, equal images of this log.
    pub digest: u64,
}

/// Goes along a log and makes images of it, from its beginning to its end.
#[derive(Debug)]
pub struct Folder<'a> {
    entries: &'a [Entry],
    /// What the flush before `epoch` made sure.
    flushed: Arc<Pages>,
    /// Behind the last flush.
    epoch: usize,
}

impl<'a> Folder<'a> {
    /// At the beginning of `entries`, over `base`.
    #[must_use]
    pub fn new(entries: &'a [Entry], base: Pages) -> Self {
        Self { entries, flushed: Arc::new(base), epoch: 0 }
    }

    /// Makes an image. Cuts come in the order of their positions.
    pub fn image(&mut self, cut: &Cut) -> Image {
        self.go(cut.at);
        let epoch = &self.entries[self.epoch..cut.at];
        let open = epoch.iter().filter(|entry| entry.is_change()).count();
        let mut image = Image {
            base: self.flushed.clone(),
            top: Pages::default(),
            open,
            lost: 0,
            torn: 0,
            digest: 0,
        };
        match cut.kept {
            Kept::All => epoch.iter().for_each(|entry| image.top.apply(&image.base, entry)),
            Kept::Some(seed) => keep_some(&mut image, epoch, &mut Seed(seed)),
            Kept::Set(bits) => keep_set(&mut image, epoch, bits),
        }
        image.digest = image.top.digest() ^ (self.epoch as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        image
    }

    fn go(&mut self, at: usize) {
        let ahead = self.entries[self.epoch..at].iter().rposition(|entry| *entry == Entry::Flush);
        let Some(flush) = ahead else { return };
        let behind = self.epoch + flush + 1;
        let below = Pages::default();
        let flushed = Arc::make_mut(&mut self.flushed);
        for entry in &self.entries[self.epoch..behind] {
            flushed.apply(&below, entry);
        }
        self.epoch = behind;
    }
}

fn keep_set(image: &mut Image, epoch: &[Entry], bits: u64) {
    for (i, change) in epoch.iter().filter(|entry| entry.is_change()).enumerate() {
        if i < 64 && bits >> i & 1 == 1 {
            image.top.apply(&image.base, change);
        } else {
            image.lost += 1;
        }
    }
}

/// Ways to lose writes.
const WAYS: usize = 7;

fn keep_some(image: &mut Image, epoch: &[Entry], draw: &mut Seed) {
    let changes: Vec<&Entry> = epoch.iter().filter(|entry| entry.is_change()).collect();
    if changes.is_empty() {
        return;
    }
    let (way, one) = (draw.below(WAYS), draw.below(changes.len()));
    for (i, change) in changes.into_iter().enumerate() {
        // Of 16: kept whole, and torn.
        let (whole, torn) = match way {
            // One is lost, or alone there, or torn.
            0 if i == one => (0, 0),
            1 if i == one => (16, 0),
            1 => (0, 0),
            2 if i == one => (0, 16),
            0 | 2 => (16, 0),
            // None is there, or those before one.
            3 => (0, 0),
            4 => (if i < one { 16 } else { 0 }, 0),
            // Each on its own.
            5 => (8, 0),
            _ => (9, 4),
        };
        match draw.below(16) {
            drawn if drawn < whole => image.top.apply(&image.base, change),
            drawn if drawn < whole + torn => tear(image, change, draw),
            _ => image.lost += 1,
        }
    }
}

/// Keeps each sector of a write or not.
fn tear(image: &mut Image, change: &Entry, draw: &mut Seed) {
    let Entry::Write { at, bytes } = change else {
        image.lost += 1;
        return;
    };
    let sectors = bytes.len().div_ceil(SECTOR);
    // A beginning, an end, or any of them.
    let (way, edge) = (draw.below(3), draw.below(sectors + 1));
    let mut kept = 0;
    for (i, sector) in bytes.chunks(SECTOR).enumerate() {
        let keep = match way {
            0 => i < edge,
            1 => i >= edge,
            _ => draw.below(2) == 1,
        };
        if keep {
            image.top.write(&image.base, at + (i * SECTOR) as u64, sector);
            kept += 1;
        }
    }
    match kept {
        0 => image.lost += 1,
        n if n < sectors => image.torn += 1,
        _ => {}
    }
}

#[cfg(test)]
mod tests;
