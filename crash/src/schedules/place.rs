//! Which row of the matrix of groups a shot is in, and what had befallen its group.
//!
//! Invariants
//! - What befell a group was seen at the call that failed or at the panic, with its instant; a shot
//!   is behind it or in front of it, never in doubt.
//! - A group is in a failed row from the call's return on, whoever is told and whatever follows.
//! - Only groups with a durable write are in a row.

use super::actors::Run;
use super::order::{Group, Order};
use super::rows::{Kind, Place, Row, Rows};
use super::watch::{Befell, Shot, Spot, What, Woe};
use crate::counters::{Counter, Counters};
use crate::disk::{Errno, Fault, Moment, Op};
use kiban::env::probe::Stage;
use kiban_model::durable::CrashClass;

/// Where a shot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The row, and what befell the group.
    pub place: Place,
    /// The group, if it got a place in the order.
    group: Option<usize>,
    /// Whether it has several members.
    pub many: bool,
}

impl Found {
    /// Counts an image of the shot that showed this cut; says whether it is a torn one.
    pub fn count(
        &self,
        class: CrashClass,
        (cut, dropped): (usize, bool),
        rows: &mut Rows,
        counters: &mut Counters,
    ) {
        let (row, kind) = self.place;
        rows.hit(self.place, self.many, class);
        if row == Row::AfterAppend && dropped && self.group.is_some_and(|at| cut <= at) {
            rows.hit((Row::TornAppend, kind), self.many, class);
        }
        if self.many {
            counters.add(Counter::InsideSync, u64::from(row == Row::InsideSync));
            counters.add(Counter::SomeWoke, u64::from(row == Row::SomeWoke));
        }
    }

    /// Whether a sweep of this row looks at it.
    #[must_use]
    pub fn is_of(&self, row: Row) -> bool {
        self.place.0 == if row == Row::TornAppend { Row::AfterAppend } else { row }
    }
}

/// Where the shot is.
#[must_use]
pub fn of(run: &Run, order: &Order, shot: &Shot) -> Option<Found> {
    let woes = run.record.befell.iter().filter(|befell| befell.point < shot.point);
    if let Some(found) = woes.filter_map(|befell| befallen(run, order, befell)).next() {
        return found;
    }
    let found = |row, at: usize| {
        let group = &order.groups[at];
        let kind = kind_of(run, shot, row, group);
        let begun = row == Row::BeforeAppend && kind != Kind::Plain;
        let row = if begun { Row::AfterAppend } else { row };
        Found { place: (row, kind), group: Some(at), many: group.members.len() > 1 }
    };
    let client = run.record.clients.contains_key(&shot.task);
    let is = |stages: &[Stage]| stages.iter().any(|&stage| stage as u8 == shot.stage);
    if client && is(&ROTATION_STAGES) {
        let next = |group: &Group| group.at > shot.at && group.leader == shot.task;
        let at = order.groups.iter().position(next)?;
        return order.groups[at].durable.then(|| found(Row::Rotation, at));
    }
    let at = order.ceiling(shot.at).checked_sub(1)?;
    let group = &order.groups[at];
    if !group.durable {
        return None;
    }
    if shot.place == Spot::Returned {
        return some_woke(run, group, shot).then(|| found(Row::SomeWoke, at));
    }
    let row = match shot.place {
        _ if shot.syncing == Some(group.leader) => Row::InsideSync,
        _ if group.leader != shot.task => return None,
        Spot::Stage if is(&[Stage::CommitAppend]) => Row::BeforeAppend,
        Spot::Call(Op::Write, Moment::Before) if is(&[Stage::CommitAppend]) => Row::BeforeAppend,
        Spot::Call(Op::Write, _) if is(&[Stage::CommitAppend]) => Row::AfterAppend,
        Spot::Stage if is(&[Stage::CommitSync]) => Row::AfterAppend,
        Spot::Stage if is(&[Stage::CommitApply]) => Row::AfterSync,
        Spot::Stage if is(&[Stage::CommitPublish]) => Row::Publication,
        Spot::Stage if is(&[Stage::CommitAck]) => Row::BeforeAck,
        _ => return None,
    };
    Some(found(row, at))
}

const ROTATION_STAGES: [Stage; 4] =
    [Stage::LogCreate, Stage::LogSync, Stage::LogSyncDir, Stage::Rotate];

/// What befell the group without failing it: an append in two pieces, a slow sync.
fn kind_of(run: &Run, shot: &Shot, row: Row, group: &Group) -> Kind {
    let befell = run.record.befell.iter().filter(|befell| befell.task == group.leader);
    let mut here = befell.filter(|befell| match (row, befell.woe) {
        // Its first piece is in the page cache once the call is under way.
        (Row::BeforeAppend | Row::AfterAppend, Woe::Fault(Op::Write, Fault::Short)) => {
            befell.stage == Stage::CommitAppend as u8
                && befell.at >= group.at
                && befell.begun + 1 < shot.point
        }
        (Row::InsideSync, Woe::Fault(_, Fault::Slow(_))) => {
            befell.begun < shot.point && shot.point <= befell.point + 1
        }
        _ => false,
    });
    match here.next().map(|befell| befell.woe) {
        Some(Woe::Fault(_, fault)) => Kind::Fault(fault.name()),
        _ => Kind::Plain,
    }
}

/// The row of what befell, if it fails whoever met it; `None` inside where no durable group did.
fn befallen(run: &Run, order: &Order, befell: &Befell) -> Option<Option<Found>> {
    let is = |stages: &[Stage]| stages.iter().any(|&stage| stage as u8 == befell.stage);
    let place = match befell.woe {
        Woe::Panic => (Row::LeaderPanic, Kind::Panic(befell.stage)),
        Woe::Fault(_, Fault::Slow(_) | Fault::Lie | Fault::Error(Errno::EINTR)) => return None,
        Woe::Fault(op, fault) if befell.client && is(&ROTATION_STAGES) => {
            return Some(rotation(run, order, befell, Kind::Call(op, fault.name())));
        }
        Woe::Fault(_, Fault::Short) => return None,
        Woe::Fault(Op::Write, fault) if is(&[Stage::CommitAppend]) => {
            (Row::FailedAppend, Kind::Fault(fault.name()))
        }
        Woe::Fault(Op::SyncData, fault) if is(&[Stage::CommitSync, Stage::CommitSyncRotated]) => {
            let landed = matches!(fault, Fault::Landed(_));
            let row = if landed { Row::SyncLanded } else { Row::FailedSync };
            (row, Kind::Fault(fault.name()))
        }
        // Something else failed: whether that was before or after, no row says.
        Woe::Fault(..) => return None,
    };
    let of_leader = |group: &Group| group.leader == befell.task && group.at <= befell.at;
    let at = order.groups.iter().rposition(of_leader).filter(|_| befell.leads);
    let found = at.filter(|&at| order.groups[at].durable).map(|at| {
        let many = order.groups[at].members.len() > 1;
        Found { place, group: Some(at), many }
    });
    Some(found)
}

/// A rotation that met a fault. A group that goes on all the same has a place in the order; who was
/// in one that does not, is told by the writes that failed for it.
fn rotation(run: &Run, order: &Order, befell: &Befell, kind: Kind) -> Option<Found> {
    let failed = run.record.done.iter().filter(|done| {
        matches!(&done.what, What::Write { result: Err(_), .. })
            && done.invoked <= befell.at
            && done.returned > befell.at
    });
    let failed = failed.count();
    let next = |group: &&Group| group.at > befell.at && group.leader == befell.task;
    let members = match order.groups.iter().find(next).filter(|_| failed == 0) {
        Some(group) => group.members.len(),
        None => failed,
    };
    Some(Found { place: (Row::Rotation, kind), group: None, many: members > 1 })
}

fn some_woke(run: &Run, group: &Group, shot: &Shot) -> bool {
    let returned = run.record.done.iter().filter(|done| {
        matches!(&done.what, What::Write { id, .. } if group.members.contains(id))
            && done.returned <= shot.at
    });
    let returned = returned.count();
    returned > 0 && returned < group.members.len()
}
