//! In which order the writes took effect: one order, or a few that the writes in doubt leave open.
//!
//! Invariants
//! - A write that succeeded stands at the sequence that it returned.
//! - A write in doubt whose place the engine told took effect if anything behind it did: what is
//!   visible is a cut of the order. Above the last success, each such place may be the last.
//! - A write in doubt without a known place is tried at every place that real time allows, and as
//!   one that never took effect. If no read can have seen a record of it, leaving it out is as good
//!   as any place: nothing shown depends on it.

use super::check::{self, Passed};
use super::event::{Call, Event, History, Ordered, Outcome, Saw};
use super::violation::{Kind, Violation};
use crate::ops::Record;
use crate::oracle::bounds;
use std::collections::BTreeMap;
use std::ops::RangeBounds as _;

/// How many orders are tried before the history is called undecided.
const ORDERS_MAX: usize = 20_000;

/// A write with a place in the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commit<'a> {
    /// Its index in the history.
    pub event: usize,
    pub records: &'a [Record],
    /// The sequence of its last record, where that is known.
    pub last: Option<u64>,
    /// Not visible before.
    pub begun: u64,
    /// Visible from then on, if it took effect.
    pub end: u64,
}

/// The orders that are possible.
pub(super) struct Orders<'a> {
    /// Took effect, by sequence.
    sure: Vec<Commit<'a>>,
    /// May follow them, by sequence.
    perhaps: Vec<Commit<'a>>,
    /// May have taken effect anywhere.
    free: Vec<Commit<'a>>,
}

/// The writes of a history: what succeeded, and what is in doubt or without effect.
struct Writes<'a> {
    done: Vec<Commit<'a>>,
    failed: Vec<(Commit<'a>, Outcome)>,
}

type Answer<T> = Result<T, Box<Violation>>;

/// When the first call that poisoned the handle returned.
fn poisoned_at(history: &History) -> u64 {
    let poisons = |event: &&Event| {
        let unknown = matches!(event.call, Call::Write { outcome: Outcome::Unknown, .. });
        unknown || event.call == Call::Sync { poisoned: true }
    };
    history.events.iter().filter(poisons).map(Event::end).min().unwrap_or(u64::MAX)
}

fn writes(history: &History) -> Answer<Writes<'_>> {
    let poisoned = poisoned_at(history);
    let mut found = Writes { done: Vec::new(), failed: Vec::new() };
    for (i, event) in history.events.iter().enumerate() {
        let Call::Write { records, outcome, .. } = &event.call else { continue };
        // A batch without records takes no sequence and shows nothing.
        if records.is_empty() {
            continue;
        }
        let (begun, end) = (event.invoked, event.end());
        let commit = Commit { event: i, records, last: None, begun, end };
        match *outcome {
            Outcome::Done(_) if event.invoked > poisoned => {
                let what = format!("a write succeeded though it began after instant {poisoned}");
                return Err(Violation::new(Kind::AfterPoison, [i], what, history));
            }
            Outcome::Done(seq) if seq < records.len() as u64 => {
                let what = "a write has more records than sequences up to its own".to_string();
                return Err(Violation::new(Kind::SequenceTwice, [i], what, history));
            }
            Outcome::Done(seq) => found.done.push(Commit { last: Some(seq), ..commit }),
            Outcome::Unknown if event.invoked > poisoned => {
                found.failed.push((commit, Outcome::Refused));
            }
            other => found.failed.push((commit, other)),
        }
    }
    found.done.sort_by_key(|commit| commit.last);
    for pair in found.done.windows(2) {
        if pair[1].last.map(|last| last - pair[1].records.len() as u64) < pair[0].last {
            let what = "two writes share a sequence".to_string();
            let both = [pair[0].event, pair[1].event];
            return Err(Violation::new(Kind::SequenceTwice, both, what, history));
        }
    }
    Ok(found)
}

/// The told order, record by record; what a write claimed is taken out.
struct Told<'a>(BTreeMap<u64, (u64, &'a Record)>);

impl<'a> Told<'a> {
    fn new(ordered: &'a [Ordered], history: &History) -> Answer<Self> {
        let mut told = BTreeMap::new();
        for piece in ordered {
            for (record, seq) in piece.records.iter().zip(piece.first..) {
                if told.insert(seq, (piece.at, record)).is_some() {
                    let what = format!("the order gives sequence {seq} twice");
                    return Err(Violation::new(Kind::SequenceTwice, [], what, history));
                }
            }
        }
        Ok(Self(told))
    }

    /// When `commit` got the sequences from `first` on, if it did and nobody has claimed them.
    fn at(&self, first: u64, commit: &Commit) -> Option<u64> {
        let mut latest = 0;
        for (record, seq) in commit.records.iter().zip(first..) {
            let (at, told) = self.0.get(&seq)?;
            if told != &record || !(commit.begun..=commit.end).contains(at) {
                return None;
            }
            latest = latest.max(*at);
        }
        Some(latest)
    }

    fn claim(&mut self, first: u64, commit: &mut Commit) -> bool {
        let Some(at) = self.at(first, commit) else { return false };
        let last = first + commit.records.len() as u64 - 1;
        (first..=last).for_each(|seq| {
            self.0.remove(&seq);
        });
        commit.begun = at;
        commit.last = Some(last);
        true
    }

    /// Claims the first place that fits.
    fn find(&mut self, commit: &mut Commit) -> bool {
        let found = self.0.keys().copied().find(|&first| self.at(first, commit).is_some());
        found.is_some_and(|first| self.claim(first, commit))
    }
}

/// The orders that `history` leaves open.
pub(super) fn orders(history: &History) -> Answer<Orders<'_>> {
    let Writes { mut done, mut failed } = writes(history)?;
    let Some(ordered) = &history.ordered else {
        let doubtful = failed.into_iter().filter(|(_, outcome)| *outcome == Outcome::Unknown);
        let free: Vec<_> = doubtful.map(|(commit, _)| commit).collect();
        let free = free.into_iter().filter(|commit| may_be_seen(commit.records, history)).collect();
        return Ok(Orders { sure: done, perhaps: Vec::new(), free });
    };
    let mut told = Told::new(ordered, history)?;
    for commit in &mut done {
        let last = commit.last.unwrap_or(0);
        if !told.claim(last + 1 - commit.records.len() as u64, commit) {
            let what = "the order has something else at the sequence of this write".to_string();
            return Err(Violation::new(Kind::NotAsOrdered, [commit.event], what, history));
        }
    }
    let last = done.last().and_then(|commit| commit.last);
    let mut orders = Orders { sure: done, perhaps: Vec::new(), free: Vec::new() };
    let poisoned = poisoned_at(history);
    // A refused write claims only what no write in doubt does.
    failed.sort_by_key(|(_, outcome)| *outcome != Outcome::Unknown);
    for (mut commit, outcome) in failed {
        if !told.find(&mut commit) {
            continue;
        }
        if outcome == Outcome::Unknown {
            let list = if commit.last < last { &mut orders.sure } else { &mut orders.perhaps };
            list.push(commit);
        } else if history.events[commit.event].invoked > poisoned {
            let what = "a write that began on a poisoned handle got a place".to_string();
            return Err(Violation::new(Kind::AfterPoison, [commit.event], what, history));
        }
    }
    if let Some((seq, (_, record))) = told.0.first_key_value() {
        let what = format!("the order has `{record}` at sequence {seq}, which nobody wrote");
        return Err(Violation::new(Kind::OrderedFromNowhere, [], what, history));
    }
    orders.sure.sort_by_key(|commit| commit.last);
    orders.perhaps.sort_by_key(|commit| commit.last);
    Ok(orders)
}

/// Whether some read shows what one of `records` would have left.
fn may_be_seen(records: &[Record], history: &History) -> bool {
    let shows = |record: &Record, saw: &Saw| {
        let found = match saw {
            Saw::Keys(keys) => {
                let mut of_key = keys.iter().filter(|(key, _)| *key == record.key);
                return of_key.any(|(_, value)| same(record, value.as_deref()));
            }
            Saw::Scan(span, _) if !bounds(span).contains(&record.key) => return false,
            Saw::Scan(_, entries) => entries.iter().find(|(key, _)| *key == record.key),
        };
        same(record, found.map(|(_, value)| &value[..]))
    };
    let mut reads = history.events.iter().filter_map(|event| match &event.call {
        Call::Read { saw, .. } => Some(saw),
        _ => None,
    });
    reads.any(|saw| records.iter().any(|record| shows(record, saw)))
}

/// Whether `value` is what `record` leaves.
pub(super) fn same(record: &Record, value: Option<&[u8]>) -> bool {
    match (&record.value, value) {
        (Some(written), Some(value)) => written.equals(value),
        (written, value) => written.is_none() && value.is_none(),
    }
}

impl<'a> Orders<'a> {
    /// Whether one of the orders explains what was read. Where none does, the story is told of the
    /// order that explains the most.
    pub(super) fn explain(self, history: &History) -> Answer<Passed> {
        let mut tried = Tried { history, left: ORDERS_MAX, best: None };
        let mut order = self.sure;
        let mut more = self.perhaps.into_iter();
        loop {
            if let Some(passed) = tried.place(&mut order.clone(), &self.free) {
                return Ok(passed);
            }
            match more.next() {
                Some(next) => order.push(next),
                None => break,
            }
        }
        Err(tried.best.map_or_else(
            || {
                let what = format!("more than {ORDERS_MAX} orders are possible");
                Violation::new(Kind::Undecided, [], what, history)
            },
            |(_, violation)| violation,
        ))
    }
}

struct Tried<'h> {
    history: &'h History,
    left: usize,
    /// The violation that shows latest, and when; gone once not every order can be tried.
    best: Option<(u64, Box<Violation>)>,
}

impl<'h> Tried<'h> {
    /// Tries every place of every write of `free` within `order`.
    fn place(&mut self, order: &mut Vec<Commit<'h>>, free: &[Commit<'h>]) -> Option<Passed> {
        if self.left == 0 {
            self.best = None;
            return None;
        }
        let Some((&commit, rest)) = free.split_first() else {
            return self.judge(order);
        };
        if let Some(passed) = self.place(order, rest) {
            return Some(passed);
        }
        let after = order.iter().rposition(|other| other.end < commit.begun).map_or(0, |i| i + 1);
        let before = order.iter().position(|other| other.begun > commit.end);
        for at in after..=before.unwrap_or(order.len()) {
            order.insert(at, commit);
            let passed = self.place(order, rest);
            order.remove(at);
            if passed.is_some() {
                return passed;
            }
        }
        None
    }

    fn judge(&mut self, order: &[Commit]) -> Option<Passed> {
        self.left -= 1;
        let violation = match check::explains(order, self.history) {
            Ok(passed) => return Some(passed),
            Err(violation) => violation,
        };
        let at = violation.events.iter().map(|&i| self.history.events[i].invoked).max();
        let at = at.unwrap_or(0);
        if self.best.as_ref().is_none_or(|(best, _)| *best < at) {
            self.best = Some((at, violation));
        }
        None
    }
}
