//! One row of the matrix of groups, exhaustively for small groups: every way to share a few writes
//! among up to three writers, every schedule of at most one deviation, every fault that the row
//! admits at every one of its calls, every point of the row, every image.
//!
//! Invariants
//! - An item's result depends on its number and the row alone (F1); a larger sweep begins with the
//!   items of a smaller one.
//! - Within the bound nothing is left out: a deviation is any other task than the one that would
//!   have gone on, at any choice of the schedule without one; equal schedules are judged once.
//! - The bound: [`WRITERS_MAX`] writers, the writes that were asked for, one deviation, one fault,
//!   [`crate::sweep::IMAGES_MAX`] images of a point.

use super::actors;
use super::case::{self, Broken};
use super::chooser::Pace;
use super::image::Known;
use super::rows::{Kind, Row};
use super::world::{How, Knobs, Step, World};
use crate::disk::{Op, Rule};
use crate::tally::Tally;
use kiban::env::probe::Stage;
use kiban_model::ops::Record;
use kiban_model::value::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Writers, at the most.
pub const WRITERS_MAX: usize = 3;

/// One schedule of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The row that is looked at.
    pub row: Row,
    /// What befalls a group.
    pub kind: Kind,
    /// How writes are shared, by number.
    pub sharing: u64,
    /// How many calls, or stages of a leader, go unharmed first.
    pub skip: u32,
    /// The choice that deviates, and how far.
    pub deviation: Option<(u32, u8)>,
}

/// Calls that fail, and the panic of a leader.
type Harm = (Vec<Rule>, Option<(Stage, u32)>);

/// Every way to share up to `ops_max` writes: for each writer, which of its writes are durable.
#[must_use]
pub fn sharings(ops_max: u32) -> Vec<Vec<Vec<bool>>> {
    let mut all = Vec::new();
    for total in 1..=ops_max as usize {
        for parts in partitions(total, total, WRITERS_MAX) {
            // Without a durable write no group is in a row.
            for durable in 1..1u32 << total {
                let mut bits = (0..total).map(|bit| durable >> bit & 1 == 1);
                all.push(parts.iter().map(|&part| bits.by_ref().take(part).collect()).collect());
            }
        }
    }
    all
}

/// The ways to write `total` as a sum of at most `count` numbers of at most `max`, falling.
fn partitions(total: usize, max: usize, count: usize) -> Vec<Vec<usize>> {
    if total == 0 {
        return vec![Vec::new()];
    }
    if count == 0 {
        return Vec::new();
    }
    let firsts = 1..=max.min(total);
    let rest = |first| partitions(total - first, first, count - 1).into_iter();
    let whole = |first, mut rest: Vec<usize>| {
        rest.insert(0, first);
        rest
    };
    firsts.rev().flat_map(|first| rest(first).map(move |rest| whole(first, rest))).collect()
}

/// How many items a sweep of this row has.
#[must_use]
pub fn items(row: Row, ops_max: u32) -> u64 {
    (sharings(ops_max).len() * row.kinds().len()) as u64
}

impl Spec {
    /// The world of it; `None` where there is none.
    #[must_use]
    pub fn world(&self) -> Option<World> {
        let sharing = self.sharing as usize;
        let mut writers = None;
        // The number of writes is not told: larger sweeps only append.
        for ops_max in 1..=12 {
            let mut all = sharings(ops_max);
            if sharing < all.len() {
                writers = Some(all.swap_remove(sharing));
                break;
            }
        }
        let mut number = 0;
        let mut write = |durable: bool| {
            let record = |key: &[u8], number| {
                // Three of these fill a log.
                let value = Some(Value::Made { seed: number, len: 140 });
                Record { key: key.to_vec(), value }
            };
            number += 2;
            let records = vec![record(b"a", number), record(b"b", number + 1)];
            let how = if durable { How::Durable } else { How::Buffered };
            Step::Write { records, how, timeout: false }
        };
        let clients = writers?;
        let clients =
            clients.iter().map(|writer| writer.iter().map(|&durable| write(durable)).collect());
        let (faults, panic) = self.harm()?;
        Some(World {
            seed: 1,
            base: None,
            knobs: Knobs {
                // Room for every write: who finds none is in no group.
                memtable_bytes: 16384,
                background: false,
                cohort_wait_max_ns: 0,
                ..Knobs::default()
            },
            clients: clients.collect(),
            pace: Pace::Preempt(self.deviation.into_iter().collect()),
            faults,
            panic,
            shots: usize::MAX,
            cuts: 0,
            row: Some(self.row),
            origin: self.to_string(),
        })
    }

    /// What goes wrong.
    fn harm(&self) -> Option<Harm> {
        let rule = |op, name| {
            let rule = Rule::new(Kind::fault(name)).op(op).skip(self.skip);
            if op == Op::SyncDir { rule } else { rule.path_end(".log") }
        };
        Some(match self.kind {
            Kind::Plain => (Vec::new(), None),
            Kind::Call(op, name) => (vec![rule(op, name)], None),
            Kind::Fault(name) => {
                let appends = matches!(self.row, Row::FailedAppend) || name == "short";
                let op = if appends { Op::Write } else { Op::SyncData };
                (vec![rule(op, name)], None)
            }
            Kind::Panic(stage) => {
                let stage = *Stage::ALL.get(usize::from(stage))?;
                (Vec::new(), Some((stage, self.skip)))
            }
        })
    }
}

/// Runs the item of that number.
///
/// # Errors
/// The first broken promise.
pub fn run(row: Row, number: u64, tally: &mut Tally) -> Result<(), Box<Broken>> {
    let kinds = row.kinds();
    let (sharing, kind) = (number / kinds.len() as u64, kinds[number as usize % kinds.len()]);
    // Images of one item have one database: what one showed, holds for its like.
    let mut known = Known::new();
    for skip in 0.. {
        let spec = Spec { row, kind, sharing, skip, deviation: None };
        let met = schedules(&spec, &mut known, tally)?;
        if kind == Kind::Plain || !met {
            break;
        }
    }
    tally.totals.cases += 1;
    Ok(())
}

/// Every schedule of at most one deviation; whether any met what goes wrong.
fn schedules(spec: &Spec, known: &mut Known, tally: &mut Tally) -> Result<bool, Box<Broken>> {
    let (mut seen, mut met) = (BTreeSet::new(), false);
    let mut one = |deviation| -> Result<Vec<(u8, u8)>, Box<Broken>> {
        let spec = Spec { deviation, ..*spec };
        let world = spec.world().expect("invariant: an item's number is in its sweep");
        let world = Arc::new(world);
        let run = actors::run(&world);
        met |= !run.end.injected.is_empty() || run.record.panicked;
        if seen.insert(run.chosen.hash) {
            tally.totals.ops += run.record.done.len() as u64;
            case::judge(&world, &run, known, tally)?;
        }
        Ok(run.chosen.forks)
    };
    let forks = one(None)?;
    for (step, (first, last)) in (0u32..).zip(forks) {
        for places in first..=last {
            one(Some((step, places)))?;
        }
    }
    Ok(met)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sharing_is_another_and_larger_sweeps_only_append() {
        let three = sharings(3);
        // 1; 2 and 1+1 with three choices each; 3, 2+1 and 1+1+1 with seven.
        assert_eq!(three.len(), 1 + 2 * 3 + 3 * 7);
        assert_eq!(three.iter().collect::<BTreeSet<_>>().len(), three.len());
        assert!(sharings(4).starts_with(&three));
        assert!(three.iter().any(|writers| writers.len() == WRITERS_MAX));
        assert!(sharings(4).iter().all(|writers| writers.len() <= WRITERS_MAX));
    }
}
