//! What the engine should answer: a map from key to its versions, newest last.
//!
//! Invariants
//! - Versions of a key ascend by sequence; the one that counts at `seq` is the last at or below
//!   it; a removal is a version without a value.
//! - Commits ascend by sequence. A commit's sequence is its last record's, its records have
//!   consecutive ones, so one record has one sequence.
//! - Nothing here knows the engine, its limits, or what a crash is (`durable` does).

use crate::ops::{Key, Record, Span};
use crate::value::Value;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The sequence that reads everything.
pub const NEWEST: u64 = u64::MAX;

type Versions = Vec<(u64, Option<Value>)>;

/// Sequential truth.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    keys: BTreeMap<Key, Versions>,
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

    /// Every key that has a version, also where that is a removal.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.keys()
    }

    /// Applies a batch whose last record has sequence `seq`. A later record of the same key wins.
    pub fn commit(&mut self, seq: u64, records: Vec<Record>) {
        let count = records.len() as u64;
        assert!(count > 0 && seq >= count, "a commit has records and room for their sequences");
        assert!(seq - count >= self.last_seq(), "a commit comes after those before it");
        for (Record { key, value }, seq) in records.into_iter().zip(seq - count + 1..) {
            self.keys.entry(key).or_default().push((seq, value));
        }
        self.commits.push(seq);
    }

    /// The value of `key` as of `seq`.
    #[must_use]
    pub fn get(&self, key: &[u8], seq: u64) -> Option<&Value> {
        visible(self.keys.get(key)?, seq)
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
        let range = (!inverted(&lo, &hi)).then(|| self.keys.range((lo, hi)));
        let entries = range.into_iter().flatten();
        entries.filter_map(move |(key, versions)| Some((key, visible(versions, seq)?)))
    }

    /// Whether `value` was this key's at some time up to `seq`, but is not at `seq`.
    #[must_use]
    pub fn was(&self, key: &[u8], value: &[u8], seq: u64) -> bool {
        let is = |old: &Value| old.equals(value);
        let versions = self.keys.get(key).into_iter().flatten();
        let mut until = versions.take_while(|(at, _)| *at <= seq);
        until.any(|(_, old)| old.as_ref().is_some_and(is)) && !self.get(key, seq).is_some_and(is)
    }

    /// Forgets everything after `seq`, which must end a commit.
    pub fn truncate(&mut self, seq: u64) {
        self.commits.truncate(self.commits.partition_point(|&commit| commit <= seq));
        assert!(seq == self.last_seq(), "a cut lies between two commits");
        self.keys.retain(|_, versions| {
            versions.truncate(versions.partition_point(|(at, _)| *at <= seq));
            !versions.is_empty()
        });
    }

    /// Forgets versions that no read at `seq` or later sees.
    pub fn forget_before(&mut self, seq: u64) {
        self.keys.retain(|_, versions| {
            let seen = versions.partition_point(|(at, _)| *at <= seq).saturating_sub(1);
            versions.drain(..seen);
            versions.len() > 1 || versions[0].0 > seq || versions[0].1.is_some()
        });
    }
}

fn visible(versions: &[(u64, Option<Value>)], seq: u64) -> Option<&Value> {
    let mut newest_first = versions.iter().rev();
    newest_first.find(|(at, _)| *at <= seq)?.1.as_ref()
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
mod tests {
    use super::*;

    fn put(key: &[u8], value: &str) -> Record {
        Record { key: key.to_vec(), value: Some(value.into()) }
    }

    fn delete(key: &[u8]) -> Record {
        Record { key: key.to_vec(), value: None }
    }

    fn keys(oracle: &Oracle, span: &Span, seq: u64) -> Vec<Key> {
        oracle.scan(span, seq).map(|(key, _)| key.clone()).collect()
    }

    fn sample() -> Oracle {
        let mut oracle = Oracle::default();
        oracle.commit(1, vec![put(b"a", "1")]);
        oracle.commit(4, vec![put(b"a", "2"), put(b"b", "2"), put(b"b", "3")]);
        oracle.commit(6, vec![delete(b"a")]);
        oracle
    }

    #[test]
    fn a_read_sees_the_newest_version_at_or_below_its_sequence() {
        let oracle = sample();
        let at = |key: &[u8], seq| oracle.get(key, seq).map(Value::to_vec);
        assert_eq!(at(b"a", 0), None);
        assert_eq!(at(b"a", 1), Some(b"1".to_vec()));
        assert_eq!(at(b"a", 5), Some(b"2".to_vec()));
        assert_eq!(at(b"a", NEWEST), None);
        assert_eq!(at(b"b", 4), Some(b"3".to_vec()));
        assert_eq!(keys(&oracle, &Span::all(), 5), [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(keys(&oracle, &Span::all(), NEWEST), [b"b".to_vec()]);
    }

    #[test]
    fn a_prefix_holds_exactly_the_keys_that_start_so() {
        let mut oracle = Oracle::default();
        let all: [&[u8]; 9] =
            [b"", b"\0", b"a", b"a\xff", b"a\xff\xff", b"b", b"\xfe\xff", b"\xff", b"\xff\xff\0"];
        for (key, seq) in all.iter().zip(1..) {
            oracle.commit(seq, vec![put(key, "v")]);
        }
        for prefix in all {
            let want: Vec<Key> =
                all.iter().filter(|k| k.starts_with(prefix)).map(|k| k.to_vec()).collect();
            assert_eq!(keys(&oracle, &Span::Prefix(prefix.to_vec()), NEWEST), want, "{prefix:?}");
        }
    }

    #[test]
    fn inverted_bounds_hold_nothing() {
        let oracle = sample();
        let (a, b) = (b"a".to_vec(), b"b".to_vec());
        let inverted = Span::Range(Bound::Included(b.clone()), Bound::Included(a));
        assert!(keys(&oracle, &inverted, 5).is_empty());
        let empty = Span::Range(Bound::Excluded(b.clone()), Bound::Excluded(b));
        assert!(keys(&oracle, &empty, 5).is_empty());
    }

    #[test]
    fn truncating_and_forgetting_leave_what_they_promise() {
        let mut oracle = sample();
        oracle.truncate(4);
        assert_eq!(oracle.last_seq(), 4);
        assert_eq!(oracle.get(b"a", NEWEST), Some(&"2".into()));
        let mut oracle = sample();
        oracle.forget_before(5);
        assert_eq!(oracle.get(b"a", 5), Some(&"2".into()));
        oracle.forget_before(6);
        assert!(oracle.keys.len() == 1 && oracle.get(b"b", 6) == Some(&"3".into()));
    }
}
