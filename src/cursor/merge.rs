//! Many sorted sources as one.
//!
//! Invariants
//! - The entry shown is the first (moving backward: the last) of all that the sources stand on.
//! - A (key, sequence) pair is in one source only, so that the order has no ties.
//! - R4: the first error of any source is the merge's until the next seek.
//!
//! Each source's key prefix is kept as a number, turned around for moving backward, and decides
//! most comparisons; keys are read only where prefixes are equal. A few sources are scanned; more
//! stand in a loser tree, which needs one comparison a level, on a path that is known beforehand; a
//! binary heap needs two, on a path that each comparison decides.
//!
//! Nothing is allocated for a key. Which of a key's versions are wanted is not decided here.

use super::Cursor;
use crate::base::key::{EntryRef, SeqNo, cmp_entries, key_prefix};
use crate::base::slice::Slice;
use crate::error::{Error, Result};

/// Up to so many sources are scanned.
const SCANNED_MAX: usize = 4;

/// A cursor over the union of its sources.
pub struct Merge<C> {
    sources: Vec<C>,
    heads: Vec<Head>,
    /// For node n of the tree (1 to one less than the sources) the source that lost there; sources
    /// are the leaves below. Unused where the sources are scanned.
    losers: Vec<usize>,
    /// The winner of each node while the tree is built.
    winners: Vec<usize>,
    /// The source that the merge stands on.
    winner: Option<usize>,
    forward: bool,
    failed: Option<Error>,
}

/// What is known of a source without asking it.
#[derive(Clone, Copy)]
struct Head {
    live: bool,
    /// Orders sources in the direction of the move, as far as prefixes can.
    rank: u64,
}

impl<C: Cursor> Merge<C> {
    /// A merge of `sources`, in whatever order; it stands nowhere until it seeks.
    #[must_use]
    pub fn new(sources: Vec<C>) -> Self {
        let nodes = if sources.len() > SCANNED_MAX { sources.len() } else { 0 };
        Self {
            heads: vec![Head { live: false, rank: 0 }; sources.len()],
            losers: vec![0; nodes],
            winners: vec![0; 2 * nodes],
            sources,
            winner: None,
            forward: true,
            failed: None,
        }
    }

    /// The sources, in the order in which they were given.
    #[must_use]
    pub fn into_sources(self) -> Vec<C> {
        self.sources
    }

    /// Which source holds the entry shown.
    #[must_use]
    pub fn source(&self) -> Option<usize> {
        self.winner
    }

    fn seek_all(&mut self, forward: bool, seek: impl Fn(&mut C) -> Result<()>) -> Result<()> {
        self.forward = forward;
        self.failed = None;
        self.winner = None;
        for i in 0..self.sources.len() {
            if let Err(error) = seek(&mut self.sources[i]) {
                return self.fail(error);
            }
            self.look(i);
        }
        self.winner = if self.losers.is_empty() { self.scan() } else { self.build() };
        Ok(())
    }

    fn fail(&mut self, error: Error) -> Result<()> {
        self.winner = None;
        self.failed = Some(error.clone());
        Err(error)
    }

    /// Notes where source `i` stands.
    #[inline]
    fn look(&mut self, i: usize) {
        self.heads[i] = match self.sources[i].entry() {
            None => Head { live: false, rank: u64::MAX },
            Some(entry) => {
                let prefix = key_prefix(entry.key);
                Head { live: true, rank: if self.forward { prefix } else { !prefix } }
            }
        };
    }

    /// Whether source `a` comes before source `b` in the direction of the move.
    #[inline]
    fn is_ahead(&self, a: usize, b: usize) -> bool {
        let (head_a, head_b) = (self.heads[a], self.heads[b]);
        if head_a.rank != head_b.rank {
            // A source at its end has the last rank; at worst it is equal to a live one's.
            return head_a.rank < head_b.rank;
        }
        self.is_ahead_by_keys(a, b)
    }

    fn is_ahead_by_keys(&self, a: usize, b: usize) -> bool {
        let (Some(a), Some(b)) = (self.sources[a].entry(), self.sources[b].entry()) else {
            return self.heads[a].live;
        };
        let order = cmp_entries(a.key, a.seq, b.key, b.seq);
        debug_assert!(order.is_ne(), "invariant: a sequence is used once (C2)");
        order.is_lt() == self.forward
    }

    fn scan(&self) -> Option<usize> {
        let live = (0..self.heads.len()).filter(|&i| self.heads[i].live);
        live.reduce(|best, i| if self.is_ahead(i, best) { i } else { best })
    }

    fn build(&mut self) -> Option<usize> {
        let leaves = self.sources.len();
        for i in 0..leaves {
            self.winners[leaves + i] = i;
        }
        for node in (1..leaves).rev() {
            let (a, b) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let (winner, loser) = if self.is_ahead(a, b) { (a, b) } else { (b, a) };
            self.winners[node] = winner;
            self.losers[node] = loser;
        }
        self.live(self.winners[1])
    }

    /// Plays source `i`, which has moved, against the losers on its path.
    #[inline]
    fn replay(&mut self, i: usize) -> Option<usize> {
        let mut winner = i;
        let mut node = (self.sources.len() + i) / 2;
        while node > 0 {
            let loser = self.losers[node];
            if self.is_ahead(loser, winner) {
                self.losers[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.live(winner)
    }

    #[inline]
    fn live(&self, winner: usize) -> Option<usize> {
        self.heads[winner].live.then_some(winner)
    }

    #[inline]
    fn step(&mut self, step: impl FnOnce(&mut C) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let i = self.winner.expect("invariant: a cursor moves only from an entry");
        if let Err(error) = step(&mut self.sources[i]) {
            return self.fail(error);
        }
        self.look(i);
        self.winner = if self.losers.is_empty() { self.scan() } else { self.replay(i) };
        Ok(())
    }
}

impl<C: Cursor> Cursor for Merge<C> {
    fn seek_first(&mut self) -> Result<()> {
        self.seek_all(true, C::seek_first)
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.seek_all(true, |source| source.seek(key, seq))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.seek_all(false, C::seek_last)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_all(false, |source| source.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.forward || self.failed.is_some(), "a cursor turned without a seek");
        self.step(C::next)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(!self.forward || self.failed.is_some(), "a cursor turned without a seek");
        self.step(C::prev)
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.sources[self.winner?].entry()
    }

    fn pinned_value(&self) -> Option<Slice> {
        self.sources[self.winner?].pinned_value()
    }
}
