//! Which cut each read saw, given the order of commits.
//!
//! Invariants
//! - A read's cut lies between what had to be visible and what could be: see `mod` for why these
//!   bounds, and the smallest cut within them, decide the question exactly.
//! - A snapshot is one read: all that was read at it, at an instant while it was taken.

use super::diagnose;
use super::event::{Call, History, Saw, SnapshotId};
use super::fold::{Fact, Fold, smallest_cut};
use super::order::Commit;
use super::violation::{Kind, Violation};
use crate::oracle::bounds;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::RangeBounds as _;

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Writes that took effect.
    pub commits: usize,
    /// Reads, those at snapshots among them.
    pub reads: usize,
    /// Snapshots.
    pub snapshots: usize,
    /// Reads and snapshots that were given a cut other than that of the one before them.
    pub cut_changes: usize,
}

/// All that looked at one cut.
pub(super) struct Look<'h> {
    /// The call that chose the cut.
    pub event: usize,
    /// What was seen, and by which call.
    pub saws: Vec<(usize, &'h Saw)>,
    /// The sequence that a snapshot says it has.
    pub seq: Option<u64>,
    pub is_snapshot: bool,
}

/// What real time demands of a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Commits that had returned before it was invoked.
    pub returned: usize,
    /// The cut of a look that had returned before it was invoked, and that look's call.
    pub seen: (usize, Option<usize>),
    /// Commits before the first that was invoked after it returned.
    pub begun: usize,
}

impl Limits {
    pub(super) fn from(&self) -> usize {
        self.returned.max(self.seen.0)
    }
}

/// The looks of a history, in order of invocation.
fn looks(history: &History) -> Result<Vec<Look<'_>>, Box<Violation>> {
    let mut looks: Vec<Look> = Vec::new();
    let mut snapshots: BTreeMap<SnapshotId, usize> = BTreeMap::new();
    for (i, event) in history.events.iter().enumerate() {
        match &event.call {
            Call::Snapshot { id, seq } => {
                snapshots.insert(*id, looks.len());
                looks.push(Look { event: i, saws: Vec::new(), seq: *seq, is_snapshot: true });
            }
            Call::Read { at, saw } => {
                in_scan_order(i, saw, history)?;
                // A well-formed history has taken the snapshot before.
                match at.and_then(|id| snapshots.get(&id)) {
                    Some(&look) => looks[look].saws.push((i, saw)),
                    None => {
                        let saws = vec![(i, saw)];
                        looks.push(Look { event: i, saws, seq: None, is_snapshot: false });
                    }
                }
            }
            Call::Write { .. } | Call::Sync { .. } => {}
        }
    }
    Ok(looks)
}

fn in_scan_order(i: usize, saw: &Saw, history: &History) -> Result<(), Box<Violation>> {
    let Saw::Scan(span, entries) = saw else { return Ok(()) };
    let bounds = bounds(span);
    let ascend = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if ascend && entries.iter().all(|(key, _)| bounds.contains(key)) {
        return Ok(());
    }
    let what = "a scan shows the keys of its span, each once, in order".to_string();
    Err(Violation::new(Kind::ScanOrder, [i], what, history))
}

/// Answers "the largest commit that returned before" and "the smallest that began after".
struct Clock {
    ends: Vec<(u64, usize)>,
    begins: Vec<(u64, usize)>,
}

impl Clock {
    fn new(order: &[Commit]) -> Self {
        let number = |of: fn(&Commit) -> u64| {
            let mut all: Vec<_> = order.iter().map(of).zip(1..).collect();
            all.sort_unstable();
            all
        };
        let (mut ends, mut begins) = (number(|c| c.end), number(|c| c.begun));
        ends.iter_mut().fold(0, |max, (_, i)| {
            *i = max.max(*i);
            *i
        });
        begins.iter_mut().rev().fold(usize::MAX, |min, (_, i)| {
            *i = min.min(*i);
            *i
        });
        Self { ends, begins }
    }

    /// All commits up to this one are visible at `instant`.
    fn visible_at(&self, instant: u64) -> usize {
        let before = self.ends.partition_point(|(end, _)| *end < instant);
        before.checked_sub(1).map_or(0, |i| self.ends[i].1)
    }

    /// No commit after this one can be visible at `instant`.
    fn begun_by(&self, instant: u64) -> usize {
        let after = self.begins.partition_point(|(begun, _)| *begun <= instant);
        self.begins.get(after).map_or(self.begins.len(), |(_, i)| i - 1)
    }
}

/// No commit stands before another that had returned before it began (D3).
fn keeps_real_time(order: &[Commit], history: &History) -> Result<(), Box<Violation>> {
    let Some(mut latest) = order.first() else { return Ok(()) };
    for commit in order {
        if commit.end < latest.begun {
            let what = "the first returned before the second was invoked, but stands behind it";
            let both = [commit.event, latest.event];
            return Err(Violation::new(Kind::AgainstRealTime, both, what.to_string(), history));
        }
        if commit.begun > latest.begun {
            latest = commit;
        }
    }
    Ok(())
}

/// The cuts that the sequence of a snapshot stands for; none where it splits a batch (A1).
fn cuts_of(seq: u64, order: &[Commit]) -> Option<(usize, usize)> {
    let from = order.iter().rposition(|c| c.last.is_some_and(|last| last <= seq));
    let from = from.map_or(0, |i| i + 1);
    let next = order.iter().position(|c| c.last.is_some_and(|last| last > seq));
    if let Some(Commit { last: Some(last), records, .. }) = next.map(|i| &order[i])
        && last - (records.len() as u64) < seq
    {
        return None;
    }
    Some((from, next.unwrap_or(order.len())))
}

/// Whether `order` explains all that was read.
pub(super) fn explains(order: &[Commit], history: &History) -> Result<Passed, Box<Violation>> {
    keeps_real_time(order, history)?;
    let fold = Fold::new(order.iter().map(|commit| commit.records));
    let clock = Clock::new(order);
    let mut passed = Passed { commits: order.len(), ..Passed::default() };
    let mut under_way = BinaryHeap::new();
    let mut seen = (0, None);
    let mut last_cut = 0;
    for look in looks(history)? {
        let event = &history.events[look.event];
        while let Some(&Reverse((end, cut, by))) = under_way.peek()
            && end < event.invoked
        {
            under_way.pop();
            if cut > seen.0 {
                seen = (cut, Some(by));
            }
        }
        let returned = clock.visible_at(event.invoked);
        let limits = Limits { returned, seen, begun: clock.begun_by(event.end()) };
        let mut facts: Vec<Fact> = Vec::new();
        look.saws.iter().for_each(|(_, saw)| fold.facts(saw, &mut facts));
        let told = look.seq.map_or(Some((0, order.len())), |seq| cuts_of(seq, order));
        let cut = told
            .and_then(|(lo, hi)| smallest_cut(&facts, limits.from().max(lo), limits.begun.min(hi)));
        let Some(cut) = cut else {
            return Err(diagnose::explain(&look, limits, told, order, history));
        };
        under_way.push(Reverse((event.end(), cut, look.event)));
        passed.reads += look.saws.len();
        passed.snapshots += usize::from(look.is_snapshot);
        passed.cut_changes += usize::from(cut != last_cut);
        last_cut = cut;
    }
    Ok(passed)
}
