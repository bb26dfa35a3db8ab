//! The cursors against a plain sort and a plain map, and R4 with sources that fail.

use super::checked::Checked;
use super::merge::Merge;
use super::vec::{VecCursor, VecEntry};
use super::visible::Visible;
use super::*;
use crate::base::key::Kind;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Short keys of few bytes, and longer ones that share all that an inline prefix holds.
pub(crate) fn keys() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::sample::select(vec![0x00, 0x01, b'a', 0xfe, 0xff]);
    (any::<bool>(), vec(bytes, 0..4)).prop_map(|(long, tail)| {
        let mut key = if long { b"prefixed".to_vec() } else { Vec::new() };
        key.extend(tail);
        key
    })
}

/// Versions in commit order, of many keys or, so that some have long histories, of a few.
pub(crate) fn entries() -> impl Strategy<Value = Vec<VecEntry>> {
    let kind = prop_oneof![1 => Just(Kind::Delete), 2 => Just(Kind::Put)];
    let len = prop_oneof![8 => 0usize..40, 1 => Just(4096), 1 => Just(4097)];
    let one = move |keys| (prop::sample::select(keys), kind.clone(), len.clone());
    let pool = prop_oneof![vec(keys(), 1..4), vec(keys(), 40)];
    pool.prop_flat_map(move |keys| vec(one(keys), 0..80)).prop_map(|records| {
        let numbered = (1..).zip(records);
        numbered
            .map(|(seq, (key, kind, len))| {
                let len = if kind == Kind::Put { len } else { 0 };
                VecEntry { key, seq: SeqNo(seq), kind, value: vec![seq as u8; len] }
            })
            .collect()
    })
}

pub(crate) fn shown<C: Cursor>(cursor: &C) -> Option<VecEntry> {
    let pinned = cursor.pinned_value();
    assert_eq!(pinned.as_deref(), cursor.entry().map(|entry| entry.value));
    cursor.entry().map(VecEntry::from)
}

/// Walks `ours` and `truth` together, from every kind of seek.
pub(crate) fn assert_same<A: Cursor, B: Cursor>(ours: A, truth: B, key: &[u8], seq: SeqNo) {
    let (mut ours, mut truth) = (Checked::new(ours), Checked::new(truth));
    for (start, forward) in [(0, true), (1, true), (2, false), (3, false)] {
        fn seek<C: Cursor>(cursor: &mut C, start: usize, key: &[u8], seq: SeqNo) {
            let result = match start {
                0 => cursor.seek_first(),
                1 => cursor.seek(key, seq),
                2 => cursor.seek_last(),
                _ => cursor.seek_before(key),
            };
            result.expect("no source fails");
        }
        seek(&mut ours, start, key, seq);
        seek(&mut truth, start, key, seq);
        while let Some(expected) = shown(&truth) {
            assert_eq!(shown(&ours), Some(expected));
            let step = if forward { ours.next() } else { ours.prev() };
            step.expect("no source fails");
            let step = if forward { truth.next() } else { truth.prev() };
            step.expect("no source fails");
        }
        assert_eq!(shown(&ours), None);
    }
}

/// Deals entries out to `sources` sources by the bytes of `deal`.
fn dealt(entries: &[VecEntry], sources: usize, deal: &[u8]) -> Vec<Vec<VecEntry>> {
    let mut hands = vec![Vec::new(); sources];
    for (entry, &to) in entries.iter().zip(deal.iter().cycle()) {
        hands[usize::from(to) % sources].push(entry.clone());
    }
    hands
}

/// What a snapshot sees within the bounds, the slow way.
fn seen(
    entries: &[VecEntry],
    snapshot: SeqNo,
    lower: Option<&Vec<u8>>,
    upper: Option<&Vec<u8>>,
) -> Vec<VecEntry> {
    let mut newest = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.seq <= snapshot) {
        newest.insert(&entry.key, entry);
    }
    let within = |key: &Vec<u8>| lower.is_none_or(|l| key >= l) && upper.is_none_or(|u| key < u);
    let visible = newest.into_iter().filter(|(key, e)| within(key) && e.kind == Kind::Put);
    visible.map(|(_, entry)| entry.clone()).collect()
}

fn shown_key<C: Cursor>(view: &Visible<C>) -> Option<VecEntry> {
    assert_eq!(view.pinned_value().as_deref(), view.entry().map(|entry| entry.value));
    view.entry().map(VecEntry::from)
}

fn forward<C: Cursor>(view: &mut Visible<C>) -> Vec<VecEntry> {
    let mut out = Vec::new();
    while let Some(entry) = shown_key(view) {
        out.push(entry);
        view.next_visible().expect("no source fails");
    }
    out
}

fn backward<C: Cursor>(view: &mut Visible<C>) -> Vec<VecEntry> {
    let mut out = Vec::new();
    while let Some(entry) = shown_key(view) {
        out.push(entry);
        view.prev_visible().expect("no source fails");
    }
    out.reverse();
    out
}

proptest! {
    #[test]
    fn a_merge_shows_what_sorting_everything_shows(
        entries in entries(),
        sources in 0usize..12,
        deal in vec(any::<u8>(), 1..80),
        key in keys(),
        seq in 0u64..90,
    ) {
        let hands = if sources == 0 { Vec::new() } else { dealt(&entries, sources, &deal) };
        let truth = VecCursor::new(hands.concat());
        let hands = hands.into_iter().map(|hand| Checked::new(VecCursor::new(hand)));
        assert_same(Merge::new(hands.collect()), truth, &key, SeqNo(seq));
    }

    #[test]
    fn a_view_shows_each_keys_newest_version_in_both_directions(
        entries in entries(),
        snapshot in 0u64..90,
        lower in prop::option::of(keys()),
        upper in prop::option::of(keys()),
        key in keys(),
        sources in 1usize..7,
        deal in vec(any::<u8>(), 1..80),
    ) {
        let snapshot = SeqNo(snapshot);
        let expected = seen(&entries, snapshot, lower.as_ref(), upper.as_ref());
        let hands = dealt(&entries, sources, &deal).into_iter().map(VecCursor::new);
        let inner = Checked::new(Merge::new(hands.collect()));
        let mut view = Visible::within(inner, snapshot, lower, upper);
        let split = expected.partition_point(|entry| entry.key < key);

        view.seek_first()?;
        prop_assert_eq!(&forward(&mut view), &expected);
        view.seek_last()?;
        prop_assert_eq!(&backward(&mut view), &expected);
        view.seek(&key)?;
        prop_assert_eq!(&forward(&mut view), &expected[split..]);
        view.seek_before(&key)?;
        prop_assert_eq!(&backward(&mut view), &expected[..split]);
    }

    #[test]
    fn an_error_ends_a_merge_and_its_view_until_the_next_seek(
        entries in entries(),
        sources in 1usize..7,
        deal in vec(any::<u8>(), 1..80),
        failing in any::<prop::sample::Index>(),
        calls in 0usize..60,
        is_forward in any::<bool>(),
    ) {
        let hands = dealt(&entries, sources, &deal).into_iter().map(VecCursor::new);
        let mut hands: Vec<_> = hands.collect();
        hands[failing.index(sources)].fail_after(calls);
        let inner = Checked::new(Merge::new(hands.into_iter().map(Checked::new).collect()));
        let mut view = Visible::new(inner, SeqNo::MAX);
        let mut expected = seen(&entries, SeqNo::MAX, None, None);
        if !is_forward {
            expected.reverse();
        }
        let step = |view: &mut Visible<_>| {
            if is_forward { view.next_visible() } else { view.prev_visible() }
        };
        let start = |view: &mut Visible<_>| {
            if is_forward { view.seek_first() } else { view.seek_last() }
        };

        let mut result = start(&mut view);
        let mut out = Vec::new();
        while result.is_ok() && let Some(entry) = shown_key(&view) {
            out.push(entry);
            result = step(&mut view);
        }
        prop_assert_eq!(&out, &expected[..out.len()], "what came before the error was right");
        match result {
            Ok(()) => prop_assert_eq!(out.len(), expected.len()),
            Err(first) => {
                for _ in 0..2 {
                    prop_assert!(view.entry().is_none() && view.pinned_value().is_none());
                    let again = step(&mut view).expect_err("R4");
                    prop_assert_eq!(again.to_string(), first.to_string());
                }
                start(&mut view)?;
                let again = if is_forward { forward(&mut view) } else {
                    let mut all = backward(&mut view);
                    all.reverse();
                    all
                };
                prop_assert_eq!(again, expected);
            }
        }
    }
}

fn put(key: &[u8], seq: u64) -> VecEntry {
    VecEntry {
        key: key.to_vec(),
        seq: SeqNo(seq),
        kind: Kind::Put,
        value: seq.to_le_bytes().into(),
    }
}

fn panics(f: impl FnOnce() + std::panic::UnwindSafe) -> bool {
    std::panic::catch_unwind(f).is_err()
}

#[test]
fn the_checking_wrapper_refuses_what_the_contract_forbids() {
    let cursor = || Checked::new(VecCursor::new(vec![put(b"a", 1), put(b"b", 2)]));
    assert!(panics(|| drop(cursor().next())), "moved before its first seek");
    assert!(panics(|| {
        let mut cursor = cursor();
        cursor.seek_first().expect("no failure");
        drop(cursor.prev());
    }));
    assert!(panics(|| {
        let mut cursor = cursor();
        cursor.seek_before(b"b").expect("no failure");
        drop(cursor.next());
    }));
    assert!(panics(|| {
        let mut cursor = cursor();
        cursor.seek(b"c", SeqNo::MAX).expect("no failure");
        drop(cursor.next());
    }));
}

/// A cursor that breaks the contract: it lands wherever its vector says, in any order.
struct Unsorted(Vec<VecEntry>, usize);

impl Cursor for Unsorted {
    fn seek_first(&mut self) -> Result<()> {
        self.1 = 0;
        Ok(())
    }
    fn seek(&mut self, _: &[u8], _: SeqNo) -> Result<()> {
        self.seek_first()
    }
    fn seek_last(&mut self) -> Result<()> {
        self.seek_first()
    }
    fn seek_before(&mut self, _: &[u8]) -> Result<()> {
        self.seek_first()
    }
    fn next(&mut self) -> Result<()> {
        self.1 += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.next()
    }
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.0.get(self.1).map(VecEntry::as_ref)
    }
}

#[test]
fn the_checking_wrapper_catches_a_cursor_that_breaks_the_contract() {
    let unsorted = || Checked::new(Unsorted(vec![put(b"b", 2), put(b"b", 3)], 0));
    assert!(panics(|| drop(unsorted().seek(b"c", SeqNo::MAX))), "landed too early");
    assert!(panics(|| drop(unsorted().seek(b"b", SeqNo(1)))), "landed on a newer version");
    assert!(panics(|| drop(unsorted().seek_before(b"b"))), "landed too late");
    assert!(panics(|| {
        let mut cursor = unsorted();
        cursor.seek_first().expect("no failure");
        drop(cursor.next());
    }));
}

#[test]
fn a_long_history_costs_a_seek_and_not_a_walk() {
    let mut entries: Vec<_> = (1..=1000).map(|seq| put(b"hot", seq)).collect();
    entries.extend([put(b"cold", 1001), put(b"wild", 1002)]);
    for snapshot in [SeqNo(1), SeqNo(500), SeqNo(1000), SeqNo::MAX] {
        let expected = seen(&entries, snapshot, None, None);
        let mut inner = VecCursor::new(entries.clone());
        inner.fail_after(80);
        let mut view = Visible::new(inner, snapshot);
        view.seek_first().expect("no failure");
        assert_eq!(forward(&mut view), expected);
        view.seek_last().expect("no failure");
        assert_eq!(backward(&mut view), expected);
    }
}
