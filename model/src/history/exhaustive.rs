//! The same question as [`check`](super::check()) answered by trying every order of calls, after
//! Wing and Gong (1993), for tiny histories: the fast check is compared with it.
//!
//! Invariants
//! - It shares no decision with the fast check: no cuts, no bounds, no fold. It keeps a map, and
//!   lets one call after another take effect.
//! - A call takes effect before every call that was invoked after its return.
//! - It expects a well-formed history of at most 64 calls in which no two batches are equal if the
//!   order of commits is recorded.

use super::event::{Call, Event, History, Outcome, Saw, SnapshotId};
use crate::ops::{Key, Record};
use crate::oracle::bounds;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds as _;

type State = BTreeMap<Key, Vec<u8>>;

/// Where a search is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    /// Calls that took effect, or never will.
    settled: u64,
    /// No write of this sequence or a later one will take effect.
    barrier: u64,
    last: u64,
    state: State,
    snapshots: BTreeMap<SnapshotId, State>,
}

struct Write<'a> {
    records: &'a [Record],
    last: Option<u64>,
    in_doubt: bool,
}

struct Search<'a> {
    events: Vec<&'a Event>,
    /// For each call, what it writes.
    writes: Vec<Option<Write<'a>>>,
    begun: Vec<u64>,
    tried: BTreeSet<Point>,
}

/// Whether some order explains `history`.
#[must_use]
pub fn explains(history: &History) -> bool {
    let Some(mut search) = Search::new(history) else { return false };
    let start = Point {
        settled: 0,
        barrier: u64::MAX,
        last: 0,
        state: State::new(),
        snapshots: BTreeMap::new(),
    };
    search.run(start)
}

impl<'a> Search<'a> {
    fn new(history: &'a History) -> Option<Self> {
        let poison = history.events.iter().filter_map(|event| match event.call {
            Call::Write { outcome: Outcome::Unknown, .. } | Call::Sync { poisoned: true } => {
                event.returned
            }
            _ => None,
        });
        let poison = poison.min().unwrap_or(u64::MAX);
        let mut told: BTreeMap<u64, (u64, &Record)> = BTreeMap::new();
        for piece in history.ordered.iter().flatten() {
            for (i, record) in piece.records.iter().enumerate() {
                if told.insert(piece.first + i as u64, (piece.at, record)).is_some() {
                    return None;
                }
            }
        }
        let mut search =
            Self { events: Vec::new(), writes: Vec::new(), begun: vec![], tried: BTreeSet::new() };
        for event in &history.events {
            let Call::Write { records, outcome, .. } = &event.call else {
                search.add(event, None, event.invoked);
                continue;
            };
            if records.is_empty() {
                continue;
            }
            let after = event.invoked > poison;
            if after && matches!(outcome, Outcome::Done(_)) {
                return None;
            }
            let place = claim(&mut told, event, records, *outcome);
            if history.ordered.is_some() && place.is_none() {
                if matches!(outcome, Outcome::Done(_)) {
                    return None;
                }
                continue;
            }
            if after && place.is_some() && history.ordered.is_some() {
                return None;
            }
            let last = match outcome {
                Outcome::Done(seq) => Some(*seq),
                Outcome::Unknown if !after => {
                    place.map(|(first, _)| first + records.len() as u64 - 1)
                }
                _ => continue,
            };
            let in_doubt = *outcome == Outcome::Unknown;
            let begun = place.map_or(event.invoked, |(_, at)| at);
            search.add(event, Some(Write { records, last, in_doubt }), begun);
        }
        told.is_empty().then_some(search)
    }

    fn add(&mut self, event: &'a Event, write: Option<Write<'a>>, begun: u64) {
        self.events.push(event);
        self.writes.push(write);
        self.begun.push(begun);
    }

    fn run(&mut self, at: Point) -> bool {
        let all = (1u64 << self.events.len()) - 1;
        if at.settled == all {
            return true;
        }
        if !self.tried.insert(at.clone()) {
            return false;
        }
        let open = (0..self.events.len()).filter(|i| at.settled >> i & 1 == 0);
        let open: Vec<usize> = open.collect();
        let first_end = open.iter().map(|&i| self.events[i].end()).min().unwrap_or(0);
        for &i in &open {
            let settled = at.settled | 1 << i;
            if self.begun[i] <= first_end
                && let Some(next) = self.effect(i, &at, &open)
                && self.run(Point { settled, ..next })
            {
                return true;
            }
            if let Some(Write { in_doubt: true, last, .. }) = self.writes[i] {
                let barrier = at.barrier.min(last.unwrap_or(u64::MAX));
                if self.run(Point { settled, barrier, ..at.clone() }) {
                    return true;
                }
            }
        }
        false
    }

    /// The point after call `i` took effect, if it can now and what it gave is right.
    fn effect(&self, i: usize, at: &Point, open: &[usize]) -> Option<Point> {
        let mut next = at.clone();
        if let Some(write) = &self.writes[i] {
            if let Some(last) = write.last {
                let first = (last + 1).checked_sub(write.records.len() as u64)?;
                if first <= at.last || last >= at.barrier {
                    return None;
                }
                next.last = last;
            }
            for Record { key, value } in write.records {
                match value {
                    Some(value) => next.state.insert(key.clone(), value.to_vec()),
                    None => next.state.remove(key),
                };
            }
            return Some(next);
        }
        match &self.events[i].call {
            Call::Read { at: None, saw } => shows(&at.state, saw).then_some(next),
            Call::Read { at: Some(id), saw } => shows(at.snapshots.get(id)?, saw).then_some(next),
            Call::Snapshot { id, seq } => {
                if let Some(seq) = *seq {
                    let later = open.iter().filter_map(|&j| self.writes[j].as_ref());
                    let mut later =
                        later.filter_map(|w| w.last?.checked_sub(w.records.len() as u64));
                    if at.last > seq || later.any(|before| before < seq) {
                        return None;
                    }
                }
                next.snapshots.insert(*id, at.state.clone());
                Some(next)
            }
            Call::Sync { .. } | Call::Write { .. } => Some(next),
        }
    }
}

/// Takes the place of a write out of the told order: its first sequence, and when it was told.
fn claim(
    told: &mut BTreeMap<u64, (u64, &Record)>,
    event: &Event,
    records: &[Record],
    outcome: Outcome,
) -> Option<(u64, u64)> {
    let count = records.len() as u64;
    let fits = |first: u64| {
        let mut all = records.iter().zip(first..);
        all.all(|(record, seq)| {
            told.get(&seq).is_some_and(|(at, told)| {
                *told == record && event.invoked <= *at && *at <= event.end()
            })
        })
    };
    let first = match outcome {
        Outcome::Done(last) => Some((last + 1).checked_sub(count)?).filter(|first| fits(*first)),
        _ => told.keys().copied().find(|first| fits(*first)),
    }?;
    let ats: Vec<u64> = (first..first + count).filter_map(|s| Some(told.remove(&s)?.0)).collect();
    Some((first, ats.into_iter().max()?))
}

fn shows(state: &State, saw: &Saw) -> bool {
    match saw {
        Saw::Keys(keys) => keys.iter().all(|(key, value)| state.get(key) == value.as_ref()),
        Saw::Scan(span, entries) => {
            let bounds = bounds(span);
            let within = state.iter().filter(|(key, _)| bounds.contains(*key));
            within.eq(entries.iter().map(|(key, value)| (key, value)))
        }
    }
}
