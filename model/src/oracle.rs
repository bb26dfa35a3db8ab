//! What the engine should answer: a map from key to its versions, newest last.
//!
//! Invariants
//! - Versions of a key ascend by sequence; the one that counts at `seq` is the last at or below
//!   it; a removal is a version without a value.
//! - Commits ascend by sequence. A commit's sequence is its last record's, its records have
//!   consecutive ones, so one record has one sequence.
//! - Clones share what was written before them: one is made for each crash image.
//! - Nothing here knows the engine, its limits, or what a crash is (`durable` does).

use crate::ops::{Key, Record, Span};
use crate::value::Value;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The sequence that reads everything.
pub const NEWEST: u64 = u64::MAX;

type Versions = Vec<(u64, Option<Value>)>;
type Keys = BTreeMap<Key, Versions>;

/// Sequential truth. A clone costs a count: it shares what was written before it, and what is
/// written to it is its own.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// Written to only by an oracle that has it alone; it counts up to `seen`.
    shared: Arc<Keys>,
    seen: u64,
    /// Everything after `seen`.
    own: Keys,
    commits: Vec<u64>,
}

impl Oracle {
    /// The sequence of the last commit; 0 before every one.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.commits.last().copied().unwrap_or(0)
    }

    /// The commits' sequences, in order.
    #[must_use]
    pub fn commits(&self) -> &[u64] {
        &self.commits
    }

    /// Every key that may have a version, also where that is a removal.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.shared.keys().chain(self.own.keys().filter(|&key| !self.shared.contains_key(key)))
    }

    /// Applies a batch whose last record has sequence `seq`. A later record of the same key wins.
    pub fn commit(&mut self, seq: u64, records: Vec<Record>) {
        let count = records.len() as u64;
        assert!(count > 0 && seq >= count, "a commit has records and room for their sequences");
        assert!(seq - count >= self.last_seq(), "a commit comes after those before it");
        self.fold();
        let keys = Arc::get_mut(&mut self.shared).unwrap_or(&mut self.own);
        for (Record { key, value }, seq) in records.into_iter().zip(seq - count + 1..) {
            keys.entry(key).or_default().push((seq, value));
        }
        self.commits.push(seq);
    }

    /// The value of `key` as of `seq`.
    #[must_use]
    pub fn get(&self, key: &[u8], seq: u64) -> Option<&Value> {
        newest(self.own.get(key), seq)
            .or_else(|| newest(self.shared.get(key), seq.min(self.seen)))?
            .as_ref()
    }

    /// What `span` holds as of `seq`, in key order, from either end.
    pub fn scan<'a>(
        &'a self,
        span: &Span,
        seq: u64,
    ) -> impl DoubleEndedIterator<Item = (&'a Key, &'a Value)> + use<'a> {
        let (lo, hi) = bounds(span);
        self.between(lo, hi, seq)
    }

    /// As [`Oracle::scan`], between two bounds; inverted ones hold nothing.
    pub fn between<'a>(
        &'a self,
        lo: Bound<Key>,
        hi: Bound<Key>,
        seq: u64,
    ) -> impl DoubleEndedIterator<Item = (&'a Key, &'a Value)> + use<'a> {
        let within = |keys: &'a Keys, seq| {
            let range = (!inverted(&lo, &hi)).then(|| keys.range((lo.clone(), hi.clone())));
            let versions = range.into_iter().flatten();
            versions.filter_map(move |(key, v)| newest(Some(v), seq).map(|value| (key, value)))
        };
        let mut shared = Some(within(&self.shared, seq.min(self.seen)));
        // With two places to look at, what is left of both is put together first.
        let both: Option<BTreeMap<_, _>> = (!self.own.is_empty())
            .then(|| shared.take().into_iter().flatten().chain(within(&self.own, seq)).collect());
        let all = shared.into_iter().flatten().chain(both.into_iter().flatten());
        all.filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }

    /// Whether `value` was this key's at some time up to `seq`, but is not at `seq`.
    #[must_use]
    pub fn was(&self, key: &[u8], value: &[u8], seq: u64) -> bool {
        let is = |old: &Value| old.equals(value);
        let until = |keys: &'_ Keys, last: u64| {
            let mut versions = keys.get(key).into_iter().flatten();
            versions.any(|(at, old)| *at <= last && old.as_ref().is_some_and(is))
        };
        let was = until(&self.shared, seq.min(self.seen)) || until(&self.own, seq);
        was && !self.get(key, seq).is_some_and(is)
    }

    /// Forgets everything after `seq`, which must end a commit.
    pub fn truncate(&mut self, seq: u64) {
        self.commits.truncate(self.commits.partition_point(|&commit| commit <= seq));
        assert!(seq == self.last_seq(), "a cut lies between two commits");
        self.seen = self.seen.min(seq);
        cut(&mut self.own, seq);
    }

    /// Forgets versions that no read at `seq` or later sees.
    pub fn forget_before(&mut self, seq: u64) {
        self.fold();
        let Some(keys) = Arc::get_mut(&mut self.shared) else { return };
        keys.retain(|_, versions| {
            let seen = versions.partition_point(|(at, _)| *at <= seq).saturating_sub(1);
            versions.drain(..seen);
            versions.len() > 1 || versions[0].0 > seq || versions[0].1.is_some()
        });
    }

    /// Brings everything to one place, once no other oracle shares it.
    fn fold(&mut self) {
        let Some(keys) = Arc::get_mut(&mut self.shared) else { return };
        if self.seen != NEWEST {
            cut(keys, self.seen);
            self.seen = NEWEST;
        }
        for (key, versions) in std::mem::take(&mut self.own) {
            keys.entry(key).or_default().extend(versions);
        }
    }
}

/// Forgets everything after `seq`.
fn cut(keys: &mut Keys, seq: u64) {
    keys.retain(|_, versions| {
        versions.truncate(versions.partition_point(|(at, _)| *at <= seq));
        !versions.is_empty()
    });
}

/// What the last version at or below `seq` says.
fn newest(versions: Option<&Versions>, seq: u64) -> Option<&Option<Value>> {
    let mut newest_first = versions?.iter().rev();
    newest_first.find(|(at, _)| *at <= seq).map(|(_, value)| value)
}

fn inverted(lo: &Bound<Key>, hi: &Bound<Key>) -> bool {
    match (lo, hi) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(lo), Bound::Included(hi)) => lo > hi,
        (Bound::Included(lo) | Bound::Excluded(lo), Bound::Included(hi) | Bound::Excluded(hi)) => {
            lo >= hi
        }
    }
}

/// The bounds of a span. A prefix ends before the shortest key above all that start with it: the
/// prefix up to its last byte that is not 0xFF, with that byte one higher.
#[must_use]
pub fn bounds(span: &Span) -> (Bound<Key>, Bound<Key>) {
    match span {
        Span::Range(lo, hi) => (lo.clone(), hi.clone()),
        Span::Prefix(prefix) => {
            let mut end = prefix.clone();
            while end.last() == Some(&0xff) {
                end.pop();
            }
            let hi = match end.pop() {
                Some(last) => {
                    end.push(last + 1);
                    Bound::Excluded(end)
                }
                None => Bound::Unbounded,
            };
            (Bound::Included(prefix.clone()), hi)
        }
    }
}

#[cfg(test)]
#[path = "oracle/tests.rs"]
mod tests;
