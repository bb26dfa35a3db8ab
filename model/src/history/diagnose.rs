//! Which promise is broken when no cut fits, and in which words it is said.
//!
//! Invariant: it decides nothing. A look that comes here is refused whatever it finds.

use super::check::{Limits, Look};
use super::event::{Call, Event, History, Saw};
use super::fold::{Fact, Fold, smallest_cut};
use super::order::{Commit, same};
use super::violation::{Kind, Violation};
use crate::text::{brief, bytes_text};

fn facts<'f>(fold: &'f Fold, saws: impl Iterator<Item = &'f Saw>) -> Vec<Fact<'f>> {
    let mut facts = Vec::new();
    saws.for_each(|saw| fold.facts(saw, &mut facts));
    facts
}

/// Why `look` fits no cut within `limits` and, for a snapshot, the cuts that it `told`.
pub(super) fn explain(
    look: &Look,
    limits: Limits,
    told: Option<(usize, usize)>,
    order: &[Commit],
    history: &History,
) -> Box<Violation> {
    let fold = Fold::new(order.iter().map(|commit| commit.records));
    let all = facts(&fold, look.saws.iter().map(|(_, saw)| *saw));
    let refuse = |kind, others: &[usize], what: String| {
        let shown = look.saws.iter().map(|(i, _)| *i);
        let mut events: Vec<usize> = others.iter().copied().chain(shown).collect();
        events.push(look.event);
        events.sort_unstable();
        events.dedup();
        Violation::new(kind, events, what, history)
    };
    // Record by record, so that a value which only a torn batch shows is not from nowhere.
    let singly = Fold::new(order.iter().flat_map(|c| c.records).map(std::slice::from_ref));
    let of_records = facts(&singly, look.saws.iter().map(|(_, saw)| *saw));
    if let Some(fact) = of_records.iter().find(|fact| fact.next(0, singly.commits).is_none()) {
        let value = fact.value.map_or("no value".into(), brief);
        let failed = writers(fact, history);
        let why = if failed.is_empty() { "" } else { ": a write of it failed without effect" };
        let what = format!("{} never was {value}{why}", bytes_text(fact.key));
        return refuse(Kind::FromNowhere, &failed, what);
    }
    if told.is_none() {
        return refuse(Kind::Torn, &[], "a snapshot's sequence lies inside a batch".into());
    }
    let Some(cut) = smallest_cut(&all, 0, fold.commits) else {
        let (kind, what) = if differ(look, &fold) {
            (Kind::SnapshotChanged, "reads at one snapshot saw different states")
        } else if smallest_cut(&of_records, 0, singly.commits).is_some() {
            (Kind::Torn, "a read saw a part of a batch")
        } else {
            (Kind::Mixed, "a read saw pieces of several states")
        };
        return refuse(kind, &[], what.into());
    };
    let (kind, other, what) = out_of_limits(cut, &all, limits, order, history);
    refuse(kind, other.as_slice(), what)
}

/// What is wrong with `cut`, the smallest at which all `facts` are true: the kind, the call that
/// forbids it, and the words.
fn out_of_limits(
    cut: usize,
    facts: &[Fact],
    limits: Limits,
    order: &[Commit],
    history: &History,
) -> (Kind, Option<usize>, String) {
    let place = |cut: usize| match cut.checked_sub(1) {
        Some(i) => format!("the state after write {cut} (`{}`)", history.events[order[i].event]),
        None => "the state before every write".to_string(),
    };
    // The newest fitting cut that is too old says best what was missed.
    let mut older = Some(cut).filter(|cut| *cut < limits.from());
    while let Some(cut) = older
        && let Some(next) = smallest_cut(facts, cut + 1, limits.from() - 1)
    {
        older = Some(next);
    }
    match older {
        Some(cut) if cut < limits.returned => {
            let missed = order[limits.returned - 1].event;
            let what = format!("a read saw {}, but a later write had returned", place(cut));
            (Kind::Stale, Some(missed), what)
        }
        Some(cut) => {
            let what = format!("a read saw {}, but an earlier read had seen more", place(cut));
            (Kind::Backwards, limits.seen.1, what)
        }
        None if cut > limits.begun => {
            let what = format!("a read saw {}, not yet invoked", place(cut));
            (Kind::Early, Some(order[cut - 1].event), what)
        }
        None => {
            let what = format!("a snapshot of another sequence saw {}", place(cut));
            (Kind::SnapshotChanged, None, what)
        }
    }
}

/// Whether each read at a snapshot saw some cut, so that only together they saw none.
fn differ(look: &Look, fold: &Fold) -> bool {
    let alone = |saw| smallest_cut(&facts(fold, std::iter::once(saw)), 0, fold.commits);
    look.is_snapshot && look.saws.iter().all(|(_, saw)| alone(saw).is_some())
}

/// The writes that would have made `fact` true.
fn writers(fact: &Fact, history: &History) -> Vec<usize> {
    let writes = |event: &Event| match &event.call {
        Call::Write { records, .. } => {
            let mut of_key = records.iter().filter(|record| record.key == fact.key);
            of_key.any(|record| same(record, fact.value))
        }
        _ => false,
    };
    (0..history.events.len()).filter(|&i| writes(&history.events[i])).collect()
}
