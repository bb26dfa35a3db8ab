//! The matrix of a group's way through the log: where it was, what had befallen it, alone or
//! shared, and how the crash came.
//!
//! Invariants
//! - A cell is hit by an image that was recovered and admitted, never by an intention.
//! - Every cell of the campaign is reachable; a directed pass that leaves one out fails. A sweep of
//!   one row has more of them: each fault that the row admits.
//!
//! Which row a shot is in, `place` says.

use crate::disk::{FAULTS, Fault, Op};
use crate::report::Cell;
use crate::sim::stage_name;
use kiban_model::durable::CrashClass;
use std::collections::BTreeMap;
use std::fmt;

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
    /// The append failed, with none, half or all of its bytes in the log.
    FailedAppend,
    /// The sync failed, and the pages hold old bytes, new ones, or new ones for a while.
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

    /// The row of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|&(row, _)| row)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// What it says, for a list.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::BeforeAppend => "A group's leader is about to append it.",
            Self::TornAppend => "A group was appended, and the image has a part of it.",
            Self::AfterAppend => "A group was appended, and no sync has begun.",
            Self::InsideSync => "A group's sync is under way.",
            Self::AfterSync => "A group's sync has succeeded.",
            Self::Publication => "A group is in the memtable, and about to be published.",
            Self::BeforeAck => "A group is published, and nobody was told.",
            Self::SomeWoke => "Some members of a group have returned, others have not.",
            Self::Rotation => "A group's leader rotates the log, or has failed to.",
            Self::FailedAppend => "A group's append has failed.",
            Self::FailedSync => "A group's sync has failed.",
            Self::SyncLanded => "A group's sync has succeeded and said that it failed.",
            Self::LeaderPanic => "A group's leader has panicked.",
        }
    }

    /// What may befall a group in this row: every fault that it admits.
    #[must_use]
    pub fn kinds(self) -> Vec<Kind> {
        let faults = |names: &[&'static str]| names.iter().map(|&name| Kind::Fault(name)).collect();
        match self {
            Self::BeforeAppend
            | Self::AfterSync
            | Self::Publication
            | Self::BeforeAck
            | Self::SomeWoke => vec![Kind::Plain],
            Self::TornAppend | Self::AfterAppend => vec![Kind::Plain, Kind::Fault("short")],
            Self::InsideSync => vec![Kind::Plain, Kind::Fault("slow")],
            Self::FailedAppend => faults(&["eio", "enospc", "edquot", "erofs", "landed", "half"]),
            Self::FailedSync => faults(&[
                "eio",
                "enospc",
                "edquot",
                "erofs",
                "sync_new",
                "sync_old",
                "sync_evicted",
                "sync_each",
            ]),
            Self::SyncLanded => faults(&["landed"]),
            Self::LeaderPanic => super::special::LEADER_STAGES
                .iter()
                .map(|&stage| Kind::Panic(stage as u8))
                .collect(),
            Self::Rotation => {
                let calls = ROTATION_CALLS
                    .iter()
                    .flat_map(|&(op, names)| names.iter().map(move |&name| Kind::Call(op, name)));
                std::iter::once(Kind::Plain).chain(calls).collect()
            }
        }
    }

    /// Those of which a campaign must meet a crash.
    fn campaign_kinds(self) -> Vec<Kind> {
        let mut kinds = self.kinds();
        let asked: &[&str] = match self {
            Self::FailedAppend => &["eio", "landed", "half"],
            Self::FailedSync => &["sync_new", "sync_old", "sync_evicted"],
            Self::InsideSync | Self::SyncLanded | Self::LeaderPanic => return kinds,
            _ => &[],
        };
        kinds.retain(|kind| match kind {
            Kind::Plain => true,
            Kind::Fault(name) => asked.contains(name),
            Kind::Call(op, name) => (*op, *name) == (Op::SyncDir, "eio"),
            Kind::Panic(_) => false,
        });
        kinds
    }
}

/// The calls with which a leader makes the next log, and how each may fail.
const ROTATION_CALLS: [(Op, &[&str]); 5] = [
    (Op::Create, &["eio", "enospc", "landed"]),
    (Op::Preallocate, &["eio", "enospc", "unsupported", "landed"]),
    (Op::Write, &["eio", "enospc", "landed", "half", "short"]),
    (Op::SyncData, &["eio", "sync_new", "sync_old", "sync_evicted", "landed"]),
    (Op::SyncDir, &["eio", "landed", "dir_lie"]),
];

/// What befell a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing.
    Plain,
    /// The one call that the row is about failed so; a name of [`FAULTS`].
    Fault(&'static str),
    /// This call failed so.
    Call(Op, &'static str),
    /// Its leader panicked at the start of this stage.
    Panic(u8),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("plain"),
            Self::Fault(name) => f.write_str(name),
            Self::Call(op, name) => write!(f, "{}.{name}", op.name()),
            Self::Panic(stage) => f.write_str(stage_name(*stage)),
        }
    }
}

impl Kind {
    /// The fault of that name.
    #[must_use]
    pub fn fault(name: &str) -> Fault {
        let known = FAULTS.iter().find(|(known, _)| *known == name);
        known.expect("invariant: rows name faults of the table").1
    }
}

/// Where a group was and what had befallen it, by which it is counted.
pub type Place = (Row, Kind);

/// A cell: the place, whether the group is shared, and the crash (0 killed, 1 power).
type Key = (Place, bool, u8);

/// Hits, cell by cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows(BTreeMap<Key, u64>);

impl Rows {
    /// Counts an image.
    pub fn hit(&mut self, place: Place, many: bool, class: CrashClass) {
        *self.0.entry((place, many, u8::from(class == CrashClass::Power))).or_default() += 1;
    }

    /// Adds what `other` has.
    pub fn absorb(&mut self, other: &Self) {
        for (key, hits) in &other.0 {
            *self.0.entry(*key).or_default() += hits;
        }
    }

    /// Whether a campaign met every cell.
    #[must_use]
    pub fn whole(&self) -> bool {
        campaign_cells().all(|key| self.0.contains_key(&key))
    }

    /// For the report of a campaign.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        campaign_cells().map(|key| self.cell(key)).collect()
    }

    /// For the report of a sweep of this row.
    #[must_use]
    pub fn cells_of(&self, row: Row) -> Vec<Cell> {
        cells_of(row, &row.kinds()).into_iter().map(|key| self.cell(key)).collect()
    }

    fn cell(&self, key: Key) -> Cell {
        let ((row, kind), many, crash) = key;
        let stage = match kind {
            Kind::Plain => row.name().to_owned(),
            kind => format!("{}.{kind}", row.name()),
        };
        Cell {
            stage,
            fault: if crash == 0 { "kill" } else { "power" }.to_owned(),
            outcome: if many { "shared" } else { "alone" }.to_owned(),
            hits: self.0.get(&key).copied().unwrap_or(0),
            unreachable: None,
        }
    }
}

fn campaign_cells() -> impl Iterator<Item = Key> {
    Row::ALL.into_iter().flat_map(|(row, _)| cells_of(row, &row.campaign_kinds()))
}

fn cells_of(row: Row, kinds: &[Kind]) -> Vec<Key> {
    let cells = kinds.iter().flat_map(|&kind| {
        let crashes = [(false, 0), (false, 1), (true, 0), (true, 1)];
        crashes.into_iter().map(move |(many, crash)| ((row, kind), many, crash))
    });
    // A process that dies tears nothing, and one member alone is no follower.
    let reachable = |&((row, kind), many, crash): &Key| {
        let torn = row != Row::TornAppend || crash == 1 || kind != Kind::Plain;
        torn && (row != Row::SomeWoke || many)
    };
    cells.filter(reachable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_and_every_fault_of_theirs_is_in_the_table() {
        for (row, name) in Row::ALL {
            assert_eq!((Row::named(name), row.name()), (Some(row), name));
            for kind in row.kinds() {
                if let Kind::Fault(name) | Kind::Call(_, name) = kind {
                    assert!(FAULTS.iter().any(|(known, _)| *known == name), "{name}");
                }
                if let Kind::Call(op, name) = kind {
                    assert!(Kind::fault(name).applies(op), "{op:?} {name}");
                }
            }
            assert!(row.campaign_kinds().iter().all(|kind| row.kinds().contains(kind)));
        }
    }
}
