//! Tests of the oracle: versions, spans, and what clones share.

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
fn clones_share_the_past_and_nothing_else() {
    let mut oracle = sample();
    let (mut cut, mut on) = (oracle.clone(), oracle.clone());
    cut.truncate(4);
    for seq in 7..10 {
        on.commit(seq, vec![put(b"c", "on")]);
    }
    cut.commit(6, vec![Record { key: b"a".to_vec(), value: None }, put(b"d", "cut")]);
    let mut cut_again = cut.clone();
    cut_again.truncate(4);
    oracle.commit(7, vec![put(b"a", "7")]);
    let all = |oracle: &Oracle, seq| keys(oracle, &Span::all(), seq);
    for _ in 0..2 {
        assert_eq!(all(&oracle, NEWEST), [b"a", b"b"]);
        assert_eq!(all(&on, NEWEST), [b"b", b"c"]);
        assert_eq!(all(&cut, NEWEST), [b"b", b"d"]);
        assert_eq!(all(&cut, 4), [b"a", b"b"]);
        assert_eq!(all(&cut_again, NEWEST), [b"a", b"b"]);
        assert_eq!(cut.get(b"a", NEWEST), None);
        assert_eq!(cut.get(b"a", 4), Some(&"2".into()));
        assert_eq!(oracle.get(b"c", NEWEST), None);
        assert!(cut.was(b"a", b"2", 6) && !cut_again.was(b"a", b"2", 6));
        // Once each is alone, all it has is in one place.
        drop(std::mem::take(&mut cut_again));
        cut_again = cut.clone();
        cut_again.truncate(4);
        on.fold();
    }
    drop((on, cut, cut_again));
    oracle.fold();
    assert_eq!((all(&oracle, NEWEST), oracle.own.len()), (vec![b"a".to_vec(), b"b".to_vec()], 0));
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
    assert!(oracle.shared.len() == 1 && oracle.get(b"b", 6) == Some(&"3".into()));
}
