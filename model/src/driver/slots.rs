//! What is held across other operations: iterators, snapshots, and slices that values came in.
//!
//! - S1: a held view answers as of its moment, whatever was written, flushed or removed since.
//! - After its handle was closed it answers `Error::Closed`, also while another handle is open.
//! - A slice keeps its bytes as long as it lives, whatever became of its block, table or handle.

use super::reads::{Window, closed};
use super::verdict::admitted;
use super::{Driver, Mismatch, Outcome};
use crate::ops::{SLOTS, Span, View, Walk};
use crate::oracle;
use crate::value::hash_pair;
use kiban::{Iter, Slice, Snapshot};
use std::ops::Bound;

type Done = Result<Outcome, Mismatch>;

pub(super) struct HeldSnapshot {
    pub(super) snapshot: Snapshot,
    pub(super) seq: u64,
    pub(super) epoch: u64,
}

pub(super) struct HeldIter {
    iter: Iter,
    pub(super) seq: u64,
    epoch: u64,
    span: Window,
    window: Window,
    /// It yielded an error, and yields nothing until it is sought.
    failed: bool,
}

/// The last slices that reads returned, each with the hash of its bytes then.
#[derive(Default)]
pub(super) struct HeldSlices {
    ring: [Option<(Slice, u64)>; 8],
    next: usize,
}

impl HeldSlices {
    /// Takes one in, in place of the oldest, whose bytes must be what they were.
    pub(super) fn hold(&mut self, slice: Option<Slice>) -> Result<(), Mismatch> {
        let Some(slice) = slice else { return Ok(()) };
        let hash = hash_pair(b"", &slice);
        self.next = (self.next + 1) % self.ring.len();
        match self.ring[self.next].replace((slice, hash)) {
            Some((old, hash)) if hash_pair(b"", &old) != hash => {
                Err(Mismatch::new("S1", "a slice's bytes as they were", crate::text::brief(&old)))
            }
            _ => Ok(()),
        }
    }
}

impl Driver {
    pub(super) fn snap_open(&mut self, slot: u8) -> Done {
        let snapshot = admitted!(self.tolerance.sort("S1", self.open_db().snapshot()));
        let (seq, epoch) = (self.truth.oracle.last_seq(), self.epoch);
        if snapshot.sequence().0 < seq {
            let got = snapshot.sequence().0.to_string();
            return Err(Mismatch::new("V2", format!("a snapshot at {seq} or later"), got));
        }
        let held = HeldSnapshot { snapshot, seq, epoch };
        self.snapshots[usize::from(slot) % SLOTS] = Some(held);
        Ok(Outcome::Done)
    }

    pub(super) fn snap_drop(&mut self, slot: u8) -> Done {
        self.snapshots[usize::from(slot) % SLOTS] = None;
        Ok(Outcome::Done)
    }

    pub(super) fn iter_open(&mut self, slot: u8, span: &Span, view: View) -> Done {
        let at = self.at(view);
        let result = at.open(span);
        if let Some(done) = at.closed(&result) {
            return done;
        }
        let seq = at.seq;
        let iter = admitted!(self.tolerance.sort("S1", result));
        let (lo, hi) = oracle::bounds(span);
        let span = Window { lo, hi };
        let window = span.clone();
        let held = HeldIter { iter, seq, epoch: self.epoch, span, window, failed: false };
        self.iters[usize::from(slot) % SLOTS] = Some(held);
        Ok(Outcome::Done)
    }

    pub(super) fn iter_drop(&mut self, slot: u8) -> Done {
        self.iters[usize::from(slot) % SLOTS] = None;
        Ok(Outcome::Done)
    }

    pub(super) fn iter_walk(&mut self, slot: u8, walk: Walk) -> Done {
        let slot = usize::from(slot) % SLOTS;
        let Some(mut held) = self.iters[slot].take() else { return Ok(Outcome::Done) };
        let done = if held.epoch != self.epoch || self.db.is_none() {
            walk_closed(&mut held)
        } else if held.failed {
            match held.iter.next() {
                None => Ok(Outcome::Done),
                Some(item) => Err(Mismatch::new("S2", "nothing", format!("{item:?}"))),
            }
        } else {
            self.walk(&mut held.iter, &mut held.window, held.seq, walk)
        };
        held.failed |= matches!(done, Ok(Outcome::Failed(_)));
        self.iters[slot] = Some(held);
        done
    }

    pub(super) fn iter_seek(&mut self, slot: u8, key: &[u8], back: bool) {
        let Some(held) = &mut self.iters[usize::from(slot) % SLOTS] else { return };
        // A seek leaves the part of the span at and above the key, or at and below it.
        held.window = held.span.clone();
        held.failed = false;
        if back {
            held.iter.seek_back(key);
            if !is_above(&held.span.hi, key) {
                held.window.hi = Bound::Included(key.to_vec());
            }
        } else {
            held.iter.seek(key);
            if !is_below(&held.span.lo, key) {
                held.window.lo = Bound::Included(key.to_vec());
            }
        }
    }
}

/// Whether `key` lies below everything that `lo` admits.
fn is_below(lo: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match lo {
        Bound::Included(lo) => key < &**lo,
        Bound::Excluded(lo) => key <= &**lo,
        Bound::Unbounded => false,
    }
}

/// Whether `key` lies above everything that `hi` admits.
fn is_above(hi: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match hi {
        Bound::Included(hi) => key > &**hi,
        Bound::Excluded(hi) => key >= &**hi,
        Bound::Unbounded => false,
    }
}

/// An iterator of a closed handle yields that once, unless it was at its end before.
fn walk_closed(held: &mut HeldIter) -> Done {
    match held.iter.next() {
        None => Ok(Outcome::Done),
        Some(result) => closed(&result),
    }
}
