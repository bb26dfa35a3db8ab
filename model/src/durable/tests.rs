//! Which states a crash may leave, by small stories.

use super::*;

fn put(key: &str, value: &str) -> Record {
    Record { key: key.into(), value: Some(value.into()) }
}

fn state(pairs: &[(&str, &str)]) -> State {
    pairs.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
}

/// Commits: 1 durable a=1; 2 buffered b=1,c=1; 3 buffered a=2; 4 in doubt d=1.
fn story() -> Truth {
    let mut truth = Truth::default();
    truth.issue(vec![put("a", "1")]);
    truth.acknowledge(1, true);
    truth.issue(vec![put("b", "0"), put("b", "1"), put("c", "1")]);
    truth.acknowledge(4, false);
    truth.issue(vec![put("a", "2")]);
    truth.acknowledge(5, false);
    truth.issue(vec![put("d", "1")]);
    truth
}

fn cut_of(truth: &Truth, class: CrashClass, pairs: &[(&str, &str)]) -> Option<u64> {
    truth.admit(truth.bounds(), class, state_hash(&state(pairs)))
}

#[test]
fn power_loss_leaves_a_cut_from_the_durable_floor_on() {
    let truth = story();
    let cut = |pairs: &[_]| cut_of(&truth, CrashClass::Power, pairs);
    assert_eq!(cut(&[("a", "1")]), Some(1));
    assert_eq!(cut(&[("a", "1"), ("b", "1"), ("c", "1")]), Some(2));
    assert_eq!(cut(&[("a", "2"), ("b", "1"), ("c", "1"), ("d", "1")]), Some(4));
    // D1: the durable write is lost. A1: half a batch. D3: a hole.
    assert_eq!(cut(&[]), None);
    assert_eq!(cut(&[("a", "1"), ("b", "1")]), None);
    assert_eq!(cut(&[("a", "2")]), None);
}

#[test]
fn a_killed_process_keeps_what_returned_unless_a_sync_failed() {
    let mut truth = story();
    let acknowledged = [("a", "2"), ("b", "1"), ("c", "1")];
    assert_eq!(cut_of(&truth, CrashClass::Kill, &acknowledged), Some(3));
    assert_eq!(cut_of(&truth, CrashClass::Kill, &[("a", "1")]), None);
    truth.sync_failed();
    assert_eq!(cut_of(&truth, CrashClass::Kill, &[("a", "1")]), Some(1));
}

#[test]
fn a_decision_is_final() {
    for (pairs, seq) in [
        (&[("a", "1")][..], 1),
        (&[("a", "1"), ("b", "1"), ("c", "1")], 4),
        (&[("a", "2"), ("b", "1"), ("c", "1"), ("d", "1")], 6),
    ] {
        let mut truth = story();
        let cut = cut_of(&truth, CrashClass::Power, pairs).expect("the cut is admissible");
        truth.decide(cut);
        assert_eq!(truth.oracle.last_seq(), seq);
        assert_eq!(truth.bounds(), Bounds { floor: cut, floor_kill: cut, issued: cut });
        assert_eq!(truth.state_at(cut), state(pairs));
        assert_eq!(truth.state_hash(), state_hash(&state(pairs)));
        assert_eq!(cut_of(&truth, CrashClass::Power, &[("a", "2")]), None);
    }
}

#[test]
fn a_rejection_names_the_promise_and_the_nearest_cut() {
    let truth = story();
    let explain = |class, pairs: &[_]| truth.explain(truth.bounds(), class, &state(pairs));
    assert_eq!(explain(CrashClass::Power, &[]).promise(), "D1");
    assert_eq!(explain(CrashClass::Kill, &[("a", "1")]).promise(), "D2");
    let torn = explain(CrashClass::Power, &[("a", "1"), ("b", "1")]);
    assert_eq!((torn.promise(), torn.nearest.len()), ("D3", 1));
    assert!(torn.expected().contains("c=1") && torn.got().contains("c=nothing"), "{torn:?}");
}

#[test]
fn forgetting_keeps_every_cut_from_the_floor_on() {
    let mut truth = story();
    let whole = truth.bounds();
    truth.forget(truth.oracle.last_seq());
    assert_eq!(truth.bounds(), whole);
    assert_eq!(cut_of(&truth, CrashClass::Power, &[("a", "1")]), Some(1));
    truth.synced();
    truth.forget(truth.oracle.last_seq());
    assert_eq!(cut_of(&truth, CrashClass::Power, &[("a", "1")]), None);
    assert_eq!(truth.oracle.get(b"a", NEWEST), Some(&"2".into()));
}
