//! What is promised of the specified machine, as properties of its states.
//!
//! Each `always` is a promise of `docs/INVARIANTS.md` by its id; each `sometimes` names a case that
//! the bounds must reach, so that no promise holds for want of trouble.

use super::commit::{Commit, Phase, State};
use super::judge::{Judgement, judge};
use stateright::Property;

fn judged(state: &State) -> Option<&Judgement> {
    match &state.phase {
        Phase::Judged(judgement) => Some(judgement),
        _ => None,
    }
}

/// Holds in every state but those in which recovery just judged, where `holds` decides.
fn after_judging(state: &State, holds: impl FnOnce(&Judgement) -> bool) -> bool {
    judged(state).is_none_or(holds)
}

fn within(part: u16, whole: u16) -> bool {
    part & !whole == 0
}

/// Whether `shown` is a cut of `issued`: no write is missing before one that is there.
fn is_cut(shown: u16, issued: u16) -> bool {
    let missing = issued & !shown;
    missing == 0 || shown & issued < 1 << missing.trailing_zeros()
}

/// Every property that the checker looks at.
pub(super) fn properties() -> Vec<Property<Commit>> {
    vec![
        Property::always("D1: an acknowledged durable write survives", |_, s: &State| {
            after_judging(s, |j| within(s.durable, j.cut))
        }),
        Property::always("D2: an acknowledged write survives the process", |_, s: &State| {
            after_judging(s, |j| within(s.must, j.cut))
        }),
        Property::always("D3: recovery shows a cut of the commit order", |_, s: &State| {
            after_judging(s, |j| {
                within(j.cut, s.decided | s.issued) && is_cut(j.cut, s.decided | s.issued)
            })
        }),
        Property::always("D4: what open decided is final", |_, s: &State| {
            after_judging(s, |j| within(s.decided, j.cut) && j.cut & s.dropped == 0)
        }),
        Property::always("V1: nothing is acknowledged before its sync", |m: &Commit, s: &State| {
            !matches!(s.phase, Phase::Open(_))
                || within(s.decided | s.durable, judge(&s.disk.surely(), m.defect).cut)
        }),
        Property::always("P1: nothing is acknowledged after a failure", |_, s: &State| {
            s.at_failure.is_none_or(|acked| s.acked == acked)
        }),
        Property::always("O3: recovering twice equals recovering once", |_, s: &State| {
            !s.differed && after_judging(s, |j| s.issued != 0 || j.cut == s.decided)
        }),
        Property::always("C1: without damage nothing is reported", |_, s: &State| {
            after_judging(s, |j| !j.corrupt)
        }),
        Property::always("C2: no sequence is issued twice", |_, s: &State| !s.reused),
        Property::sometimes("frames behind a hole are dropped", |_, s: &State| {
            judged(s).is_some_and(|j| j.dropped)
        }),
        Property::sometimes("a sequence is skipped for a trace on disk", |_, s: &State| {
            judged(s).is_some_and(|j| j.cut >> j.flushed == 0 && j.flushed > 0)
        }),
        Property::sometimes("a buffered write is lost", |_, s: &State| {
            judged(s).is_some_and(|j| !within(s.acked, j.cut))
        }),
        Property::sometimes("a write of a failed group is shown", |_, s: &State| {
            s.at_failure.is_some() && judged(s).is_some_and(|j| !within(j.cut, s.decided | s.acked))
        }),
        Property::sometimes("a write of a failed group is not shown", |_, s: &State| {
            s.at_failure.is_some() && judged(s).is_some_and(|j| !within(s.issued, j.cut))
        }),
        Property::sometimes("a durable write stands behind a rotation", |m: &Commit, s: &State| {
            s.left.rotations < m.budget.rotations && s.durable.count_ones() > 1
        }),
        Property::sometimes("recovery crashes and is begun again", |_, s: &State| {
            s.recoveries > 1 && judged(s).is_some()
        }),
    ]
}
