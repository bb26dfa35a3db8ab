//! What is said of a history that no order explains.
//!
//! Invariant: a kind names the promise that is broken; the text names the calls.

use super::event::History;
use std::fmt;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// No recorder writes such a history.
    Malformed,
    /// A sequence was given to two records.
    SequenceTwice,
    /// A write was acknowledged under a sequence that the order gave to something else.
    NotAsOrdered,
    /// The order holds records that nobody wrote.
    OrderedFromNowhere,
    /// A write stands before one that had returned before it was invoked.
    AgainstRealTime,
    /// A write that began after the handle was poisoned took effect.
    AfterPoison,
    /// A read saw a value that nobody wrote there.
    FromNowhere,
    /// A read saw less than what had returned before it began.
    Stale,
    /// A read saw less than a read that had returned before it began.
    Backwards,
    /// A read saw a write that was invoked after it returned.
    Early,
    /// A read saw a part of a batch.
    Torn,
    /// A read saw no cut of the order, but pieces of several.
    Mixed,
    /// Reads at one snapshot saw different cuts, or another than its sequence.
    SnapshotChanged,
    /// A scan showed keys out of order, twice, or outside its span.
    ScanOrder,
    /// Too many writes are in doubt without the order of commits.
    Undecided,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Malformed,
        Self::SequenceTwice,
        Self::NotAsOrdered,
        Self::OrderedFromNowhere,
        Self::AgainstRealTime,
        Self::AfterPoison,
        Self::FromNowhere,
        Self::Stale,
        Self::Backwards,
        Self::Early,
        Self::Torn,
        Self::Mixed,
        Self::SnapshotChanged,
        Self::ScanOrder,
        Self::Undecided,
    ];

    /// The promise that it breaks; empty where the history is at fault.
    #[must_use]
    pub fn promise(self) -> &'static str {
        match self {
            Self::Malformed | Self::Undecided => "",
            Self::SequenceTwice => "C2",
            Self::NotAsOrdered => "W1",
            Self::OrderedFromNowhere | Self::AgainstRealTime => "D3",
            Self::AfterPoison => "P1",
            Self::FromNowhere | Self::Stale | Self::Backwards => "V2",
            Self::Early => "V1",
            Self::Torn => "A1",
            Self::Mixed | Self::ScanOrder => "S2",
            Self::SnapshotChanged => "S1",
        }
    }

    /// Its name in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::SequenceTwice => "sequence_twice",
            Self::NotAsOrdered => "not_as_ordered",
            Self::OrderedFromNowhere => "ordered_from_nowhere",
            Self::AgainstRealTime => "against_real_time",
            Self::AfterPoison => "after_poison",
            Self::FromNowhere => "from_nowhere",
            Self::Stale => "stale",
            Self::Backwards => "backwards",
            Self::Early => "early",
            Self::Torn => "torn",
            Self::Mixed => "mixed",
            Self::SnapshotChanged => "snapshot_changed",
            Self::ScanOrder => "scan_order",
            Self::Undecided => "undecided",
        }
    }
}

/// A history that no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong.
    pub kind: Kind,
    /// What was expected, in words.
    pub what: String,
    /// The calls that show it, as indices into the history.
    pub events: Vec<usize>,
    /// The same calls, as lines.
    pub lines: Vec<String>,
}

impl Violation {
    pub(super) fn new(
        kind: Kind,
        events: impl IntoIterator<Item = usize>,
        what: String,
        history: &History,
    ) -> Box<Self> {
        let events: Vec<usize> = events.into_iter().collect();
        let lines = events.iter().map(|&i| history.events[i].to_string()).collect();
        Box::new(Self { kind, what, events, lines })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let promise = self.kind.promise();
        let space = if promise.is_empty() { "" } else { " " };
        write!(f, "{promise}{space}{}: {}", self.kind.name(), self.what)?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Violation {}
