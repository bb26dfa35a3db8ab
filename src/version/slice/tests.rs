//! Bounds of slices, by trying every key.

use super::*;
use crate::version::tests::table;
use proptest::prelude::*;

/// Keys of one or two letters out of few, so that every boundary is hit.
fn keys() -> Vec<Vec<u8>> {
    let mut keys = vec![vec![]];
    for a in b"abcd" {
        keys.push(vec![*a]);
        keys.extend([0, b'x', 0xff].map(|b| vec![*a, b]));
    }
    keys
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(keys())
}

fn slice() -> impl Strategy<Value = TableSlice> {
    let bounds = (key(), key(), prop::option::of(key()), prop::option::of(key()));
    bounds.prop_filter_map("shows nothing", |(a, b, lo, hi)| {
        let mut meta = (*table(1, "", "", (1, 5))).clone();
        (meta.first_key, meta.last_key) = (a.clone().min(b.clone()), a.max(b));
        TableSlice::bounded(Arc::new(meta), lo, hi)
    })
}

fn range() -> impl Strategy<Value = KeyRange> {
    (prop::option::of(key()), prop::option::of(key())).prop_map(|(lo, hi)| KeyRange { lo, hi })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_a_range_cuts_out_is_in_neither_rest(slice in slice(), range in range()) {
        prop_assert_eq!(slice.check(), Ok(()));
        prop_assume!(!range.is_empty());
        let (below, above) = slice.without(&range);
        for rest in below.iter().chain(&above) {
            prop_assert_eq!(rest.check(), Ok(()));
        }
        for key in keys() {
            let left = below.iter().chain(&above).filter(|rest| rest.covers(&key)).count();
            let expected = usize::from(slice.covers(&key) && !range.contains(&key));
            prop_assert_eq!(left, expected, "{:?}", key);
        }
        let inside = keys().iter().any(|key| slice.covers(key) && range.contains(key));
        prop_assert!(!inside || slice.overlaps(&range));
        prop_assert!(slice.range().contains(slice.lower()));
    }

    #[test]
    fn slices_overlap_where_a_key_is_in_both(a in slice(), b in slice()) {
        let shared = keys().iter().any(|key| a.covers(key) && b.covers(key));
        prop_assert!(!shared || a.overlaps_slice(&b));
        prop_assert_eq!(a.overlaps_slice(&b), b.overlaps_slice(&a));
        prop_assert_eq!(a.overlaps_slice(&b), a.overlaps(&b.range()));
        prop_assert_eq!(a.overlaps_slice(&b), !a.is_before(&b) && !b.is_before(&a));
    }
}

#[test]
fn empty_ranges_are_known() {
    let range = |lo: Option<&str>, hi: Option<&str>| KeyRange {
        lo: lo.map(|lo| lo.into()),
        hi: hi.map(|hi| hi.into()),
    };
    assert!(!KeyRange::ALL.is_empty() && !range(Some("a"), Some("b")).is_empty());
    assert!(range(Some("a"), Some("a")).is_empty() && range(None, Some("")).is_empty());
    assert!(KeyRange::ALL.contains(b"") && !range(Some("a"), None).contains(b""));
}
