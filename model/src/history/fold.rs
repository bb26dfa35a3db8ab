//! What each cut of an order of commits shows, and at which cuts a read can have looked.
//!
//! Invariants
//! - Cut `c` shows the fold of the first `c` commits; of a batch, only the last record of a key.
//! - The smallest cut that fits is found by jumping: a fact that fails at `c` fails up to the next
//!   commit that makes it true, so no cut between can fit.

use super::event::Saw;
use super::order::same;
use crate::ops::Record;
use crate::oracle::bounds;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds as _};

/// The versions of every key.
pub(super) struct Fold<'a> {
    /// By key: the commits that wrote it, from 1, each with the record that counts.
    keys: BTreeMap<&'a [u8], Vec<(usize, &'a Record)>>,
    /// How many commits there are: the last cut.
    pub commits: usize,
}

/// That one key has some value, or none.
pub(super) struct Fact<'f> {
    pub key: &'f [u8],
    pub value: Option<&'f [u8]>,
    versions: &'f [(usize, &'f Record)],
}

impl<'a> Fold<'a> {
    pub(super) fn new(batches: impl Iterator<Item = &'a [Record]>) -> Self {
        let mut fold = Self { keys: BTreeMap::new(), commits: 0 };
        for batch in batches {
            fold.commits += 1;
            for record in batch {
                let versions = fold.keys.entry(record.key.as_slice()).or_default();
                if versions.last().is_some_and(|(at, _)| *at == fold.commits) {
                    versions.pop();
                }
                versions.push((fold.commits, record));
            }
        }
        fold
    }

    fn fact<'f>(&'f self, key: &'f [u8], value: Option<&'f [u8]>) -> Fact<'f> {
        Fact { key, value, versions: self.keys.get(key).map_or(&[], Vec::as_slice) }
    }

    /// All that `saw` says about keys that were ever written, or that it claims to have.
    pub(super) fn facts<'f>(&'f self, saw: &'f Saw, facts: &mut Vec<Fact<'f>>) {
        match saw {
            Saw::Keys(keys) => {
                facts.extend(keys.iter().map(|(key, value)| self.fact(key, value.as_deref())));
            }
            Saw::Scan(span, entries) => {
                let (lo, hi) = bounds(span);
                let within = (lo.as_ref().map(Vec::as_slice), hi.as_ref().map(Vec::as_slice));
                facts.extend(entries.iter().map(|(key, value)| self.fact(key, Some(value))));
                let shown = |key: &[u8]| entries.binary_search_by(|(at, _)| at.as_slice().cmp(key));
                // Bounds may be inverted, which a range of the map would refuse.
                let keys = self.keys.range::<[u8], _>((within.0, Bound::Unbounded));
                let keys = keys.take_while(|(key, _)| within.contains(**key));
                let hidden = keys.filter(|(key, _)| shown(key).is_err());
                facts.extend(hidden.map(|(key, versions)| Fact { key, value: None, versions }));
            }
        }
    }
}

impl Fact<'_> {
    /// The smallest cut in `from..=to` at which it is true.
    pub(super) fn next(&self, from: usize, to: usize) -> Option<usize> {
        let newer = self.versions.partition_point(|(at, _)| *at <= from);
        let shown = newer.checked_sub(1).map(|i| self.versions[i].1);
        if shown.map_or(self.value.is_none(), |record| same(record, self.value)) {
            return Some(from);
        }
        let mut later = self.versions[newer..].iter().take_while(|(at, _)| *at <= to);
        later.find(|(_, record)| same(record, self.value)).map(|(at, _)| *at)
    }
}

/// The smallest cut in `from..=to` at which all `facts` are true.
pub(super) fn smallest_cut(facts: &[Fact], from: usize, to: usize) -> Option<usize> {
    if from > to {
        return None;
    }
    let mut cut = from;
    loop {
        let before = cut;
        for fact in facts {
            cut = fact.next(cut, to)?;
        }
        if cut == before {
            return Some(cut);
        }
    }
}
