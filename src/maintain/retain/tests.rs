//! Retention against a naive model: before and after, every snapshot and "now" read the same.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A version: key, sequence, whether it deletes.
type Version = (u8, u64, bool);

fn kept(versions: &[Version], snapshots: &[u64], bottom: bool) -> Vec<Version> {
    let snapshots: Vec<SeqNo> = snapshots.iter().copied().map(SeqNo).collect();
    let mut retain = Retain::new(&snapshots, bottom);
    let keep = |&&(key, seq, deletes): &&Version| {
        let kind = if deletes { Kind::Delete } else { Kind::Put };
        retain.keep(EntryRef { key: &[key], seq: SeqNo(seq), kind, value: b"" })
    };
    versions.iter().filter(keep).copied().collect()
}

/// What a reader at `snapshot` sees of `key`: the sequence of the version that it reads.
fn visible(versions: &[Version], key: u8, snapshot: u64) -> Option<u64> {
    let newest = versions.iter().filter(|v| v.0 == key && v.1 <= snapshot).max_by_key(|v| v.1);
    newest.filter(|v| !v.2).map(|v| v.1)
}

/// Versions in entry order with distinct sequences, and sorted snapshots.
fn cases() -> impl Strategy<Value = (Vec<Version>, Vec<u64>)> {
    let versions = prop::collection::vec((0..4u8, any::<bool>()), 0..40);
    let snapshots = prop::collection::btree_set(0..45u64, 0..5);
    (versions, snapshots, any::<u64>()).prop_map(|(versions, snapshots, salt)| {
        let mut versions: Vec<Version> = (1..)
            .zip(versions)
            .map(|(seq, (key, deletes))| (key, seq, deletes))
            .filter(|version| salt >> (version.1 % 64) & 7 != 0)
            .collect();
        versions.sort_by_key(|&(key, seq, _)| (key, u64::MAX - seq));
        (versions, snapshots.into_iter().collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// G1, S1, and that nothing is kept without need.
    #[test]
    fn every_reader_reads_the_same_and_nothing_else_is_kept(
        (versions, snapshots) in cases(),
        split in 0..45u64,
        bottom: bool,
    ) {
        // Of each key, what is above `split` is merged; the rest lies below, unless at the bottom.
        let (mut merged, below): (Vec<_>, Vec<_>) =
            versions.iter().copied().partition(|v| bottom || v.1 > split);
        let after = kept(&merged, &snapshots, bottom);
        let all: Vec<Version> = after.iter().chain(&below).copied().collect();
        let readers: Vec<u64> = snapshots.iter().copied().chain([u64::MAX]).collect();
        for &reader in &readers {
            for key in 0..4 {
                prop_assert_eq!(visible(&all, key, reader), visible(&versions, key, reader));
            }
        }
        let mut needed = BTreeSet::new();
        for &reader in &readers {
            for key in 0..4 {
                let readable = merged.iter().filter(|v| v.0 == key && v.1 <= reader);
                needed.extend(readable.max_by_key(|v| v.1).copied());
            }
        }
        if bottom {
            let oldest = snapshots.first().copied().unwrap_or(u64::MAX);
            needed.retain(|v| !(v.2 && v.1 <= oldest));
        }
        merged.retain(|v| needed.contains(v));
        prop_assert_eq!(after, merged);
    }

    /// Retaining twice is retaining once, and a merge cut between two keys keeps the same.
    #[test]
    fn retention_is_idempotent_and_may_be_cut_between_keys(
        (versions, snapshots) in cases(),
        cut in 0..5u8,
        bottom: bool,
    ) {
        let whole = kept(&versions, &snapshots, bottom);
        prop_assert_eq!(kept(&whole, &snapshots, bottom), whole.clone());
        let (low, high): (Vec<_>, Vec<_>) = versions.iter().partition(|v| v.0 < cut);
        let mut parts = kept(&low, &snapshots, bottom);
        parts.extend(kept(&high, &snapshots, bottom));
        prop_assert_eq!(parts, whole);
    }
}

/// B75: an old snapshot needs the newest version at or below it, not only what is above it.
#[test]
fn the_newest_version_at_or_below_a_snapshot_stays() {
    let versions = [(1, 9, false), (1, 5, false), (1, 4, false), (1, 2, true), (1, 1, false)];
    let seqs = |snapshots: &[u64], bottom| {
        kept(&versions, snapshots, bottom).iter().map(|v| v.1).collect::<Vec<_>>()
    };
    assert_eq!(seqs(&[], false), [9]);
    assert_eq!(seqs(&[7], false), [9, 5]);
    assert_eq!(seqs(&[5], false), [9, 5]);
    assert_eq!(seqs(&[4], false), [9, 4]);
    assert_eq!(seqs(&[3], false), [9, 2]);
    assert_eq!(seqs(&[3], true), [9], "at the bottom a deletion is the same as nothing");
    assert_eq!(seqs(&[1, 3], true), [9, 2, 1], "unless an older snapshot reads what it hides");
    assert_eq!(seqs(&[0], true), [9]);
}

/// The newest tombstone hides versions in runs below: it goes only at the bottom.
#[test]
fn a_tombstone_goes_only_at_the_bottom() {
    let versions = [(1, 3, true), (1, 2, false), (2, 1, true)];
    assert_eq!(kept(&versions, &[], false), [(1, 3, true), (2, 1, true)]);
    assert_eq!(kept(&versions, &[], true), []);
}
