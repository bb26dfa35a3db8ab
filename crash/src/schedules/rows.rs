//! The matrix of a group's way through the log: where it was, alone or shared, and how the crash
//! came.
//!
//! Invariants
//! - A cell is hit by an image that was recovered and admitted, never by an intention.
//! - Every cell of the table is reachable; a directed pass that leaves one out fails.

use super::actors::Run;
use super::order::{Group, Order};
use super::watch::{Place, Shot, What};
use crate::counters::Counter;
use crate::disk::{Fault, Injected, Moment, Op};
use crate::report::Cell;
use crate::tally::Tally;
use kiban::env::probe::Stage;
use kiban_model::durable::CrashClass;
use std::collections::BTreeMap;

/// Where a group with a durable write was, and what had befallen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// Its leader is about to append it.
    BeforeAppend,
    /// It is in the page cache; the image has a part of it.
    TornAppend,
    /// It is in the page cache, and no sync has begun.
    AfterAppend,
    /// Its sync is under way.
    InsideSync,
    /// The sync has succeeded.
    AfterSync,
    /// It is in the memtable, and is about to be published.
    Publication,
    /// It is published, and nobody was told.
    BeforeAck,
    /// Some of its members have returned, others have not.
    SomeWoke,
    /// Its leader rotates the log for it.
    Rotation,
    /// The append failed, with half of its bytes in the log.
    FailedAppend,
    /// The sync failed, and the pages hold what they held before.
    FailedSync,
    /// The sync succeeded and said that it failed.
    SyncLanded,
    /// Its leader panicked.
    LeaderPanic,
}

impl Row {
    /// All of them with their names.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::BeforeAppend, "group.before_append"),
        (Self::TornAppend, "group.torn_append"),
        (Self::AfterAppend, "group.after_append"),
        (Self::InsideSync, "group.inside_sync"),
        (Self::AfterSync, "group.after_sync"),
        (Self::Publication, "group.publication"),
        (Self::BeforeAck, "group.before_ack"),
        (Self::SomeWoke, "group.some_woke"),
        (Self::Rotation, "group.rotation"),
        (Self::FailedAppend, "group.failed_append"),
        (Self::FailedSync, "group.failed_sync"),
        (Self::SyncLanded, "group.sync_landed"),
        (Self::LeaderPanic, "group.leader_panic"),
    ];
}

/// A cell: the row, whether the group is shared, and the crash (0 killed, 1 power).
type Key = (Row, bool, u8);

/// Hits, cell by cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows(BTreeMap<Key, u64>);

impl Rows {
    /// Adds what `other` has.
    pub fn absorb(&mut self, other: &Self) {
        for (key, hits) in &other.0 {
            *self.0.entry(*key).or_default() += hits;
        }
    }

    /// Whether every cell was hit.
    #[must_use]
    pub fn whole(&self) -> bool {
        every_cell().all(|(row, _, many, crash)| self.0.contains_key(&(row, many, crash)))
    }

    /// For a report.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let cell = |(row, name, many, crash): (Row, &str, bool, u8)| Cell {
            stage: name.to_owned(),
            fault: if crash == 0 { "kill" } else { "power" }.to_owned(),
            outcome: if many { "shared" } else { "alone" }.to_owned(),
            hits: self.0.get(&(row, many, crash)).copied().unwrap_or(0),
            unreachable: None,
        };
        every_cell().map(cell).collect()
    }
}

fn every_cell() -> impl Iterator<Item = (Row, &'static str, bool, u8)> {
    Row::ALL.into_iter().flat_map(|(row, name)| {
        let cells = [(false, 0), (false, 1), (true, 0), (true, 1)];
        cells.into_iter().filter_map(move |(many, crash)| {
            // A process that dies tears nothing, and one member alone is no follower.
            let reachable =
                !(row == Row::TornAppend && crash == 0 || row == Row::SomeWoke && !many);
            reachable.then_some((row, name, many, crash))
        })
    })
}

/// Counts an image that showed this cut.
pub fn count(
    run: &Run,
    order: &Order,
    shot: &Shot,
    class: CrashClass,
    (cut, dropped): (usize, bool),
    tally: &mut Tally,
) {
    let Some((row, at)) = row_of(run, order, shot) else { return };
    let many = order.groups[at].members.len() > 1;
    let crash = u8::from(class == CrashClass::Power);
    let mut hit = |row| *tally.rows.0.entry((row, many, crash)).or_default() += 1;
    hit(row);
    if row == Row::AfterAppend && dropped && cut <= at {
        hit(Row::TornAppend);
    }
    if many {
        tally.counters.add(Counter::InsideSync, u64::from(row == Row::InsideSync));
        tally.counters.add(Counter::SomeWoke, u64::from(row == Row::SomeWoke));
    }
}

/// The row of a shot, and the group that it is about.
fn row_of(run: &Run, order: &Order, shot: &Shot) -> Option<(Row, usize)> {
    let newest = order.ceiling(shot.at).checked_sub(1);
    if let Some(at) = newest.filter(|&at| order.groups[at].durable)
        && let Some(row) = befallen(run, order, at, shot)
    {
        return Some((row, at));
    }
    let client = run.record.clients.contains_key(&shot.task);
    let is = |stages: &[Stage]| stages.iter().any(|&stage| stage as u8 == shot.stage);
    if client && is(&[Stage::LogCreate, Stage::LogSync, Stage::LogSyncDir, Stage::Rotate]) {
        let next = |group: &Group| group.at > shot.at && group.leader == shot.task;
        let at = order.groups.iter().position(next)?;
        return order.groups[at].durable.then_some((Row::Rotation, at));
    }
    let at = newest?;
    let group = &order.groups[at];
    if !group.durable {
        return None;
    }
    if shot.place == Place::Returned {
        return some_woke(run, group, shot).then_some((Row::SomeWoke, at));
    }
    let row = match shot.place {
        _ if shot.syncing => Row::InsideSync,
        _ if group.leader != shot.task => return None,
        Place::Stage if is(&[Stage::CommitAppend]) => Row::BeforeAppend,
        Place::Call(Op::Write, Moment::Before) if is(&[Stage::CommitAppend]) => Row::BeforeAppend,
        Place::Call(Op::Write, _) if is(&[Stage::CommitAppend]) => Row::AfterAppend,
        Place::Stage if is(&[Stage::CommitSync]) => Row::AfterAppend,
        Place::Stage if is(&[Stage::CommitApply]) => Row::AfterSync,
        Place::Stage if is(&[Stage::CommitPublish]) => Row::Publication,
        Place::Stage if is(&[Stage::CommitAck]) => Row::BeforeAck,
        _ => return None,
    };
    Some((row, at))
}

/// What had befallen the newest group before the shot.
fn befallen(run: &Run, order: &Order, at: usize, shot: &Shot) -> Option<Row> {
    // Nothing gets a place after a failure, so the last group is the one that met it; whoever was
    // told by the instant of the shot says that it had happened.
    let failed = run.record.done.iter().any(|done| {
        let What::Write { id, result: Err(failed) } = &done.what else { return false };
        failed.poisoned && done.returned <= shot.at && order.groups[at].members.contains(id)
    });
    if !failed || at + 1 != order.groups.len() {
        return None;
    }
    if run.record.panicked {
        return Some(Row::LeaderPanic);
    }
    run.end.injected.iter().find_map(row_of_fault)
}

fn row_of_fault(injected: &Injected) -> Option<Row> {
    match (injected.op, injected.fault) {
        (Op::Write, Fault::Half(_)) => Some(Row::FailedAppend),
        (Op::SyncData, Fault::Sync(..)) => Some(Row::FailedSync),
        (Op::SyncData, Fault::Landed(_)) => Some(Row::SyncLanded),
        _ => None,
    }
}

fn some_woke(run: &Run, group: &Group, shot: &Shot) -> bool {
    let returned = run.record.done.iter().filter(|done| {
        matches!(&done.what, What::Write { id, .. } if group.members.contains(id))
            && done.returned <= shot.at
    });
    let returned = returned.count();
    returned > 0 && returned < group.members.len()
}
