//! Operations as data: everything a caller can do with the exclusive handle.
//!
//! Invariants
//! - Any sequence of operations is legal: a slot that holds nothing, an inverted bound or an
//!   oversized key has a defined answer, so that shrinking may delete any line.
//! - An operation has one text form (`text`), which parses back to the same operation.
//! - Operations name no result. What must come back is the oracle's business.

use crate::config::Config;
use crate::value::Value;
use std::ops::Bound;

/// A user key.
pub type Key = Vec<u8>;

/// Slots for iterators, and as many for snapshots. Slot numbers are taken modulo this.
pub const SLOTS: usize = 4;

/// One record of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Key,
    /// The value, or `None` to remove the key.
    pub value: Option<Value>,
}

/// What a read looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The newest state.
    Live,
    /// The snapshot in this slot; the newest state where the slot is empty.
    Snapshot(u8),
}

/// Which keys a scan covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// From a lower to an upper bound; nothing where they are inverted.
    Range(Bound<Key>, Bound<Key>),
    /// Every key that starts so.
    Prefix(Key),
}

impl Span {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Self::Range(Bound::Unbounded, Bound::Unbounded)
    }
}

/// In which directions an iterator is walked, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    turns: u16,
    period: u8,
    /// Steps at the most; `None` to walk until it is exhausted.
    pub limit: Option<u32>,
}

impl Walk {
    /// The longest pattern of turns.
    pub const PERIOD_MAX: u8 = 16;

    /// Walks by a repeated pattern of `period` turns: bit i of `turns` set means step i goes
    /// backward.
    #[must_use]
    pub fn new(turns: u16, period: u8, limit: Option<u32>) -> Self {
        let period = period.clamp(1, Self::PERIOD_MAX);
        let mask = if period == 16 { u16::MAX } else { (1 << period) - 1 };
        Self { turns: turns & mask, period, limit }
    }

    /// Always forward.
    #[must_use]
    pub fn forward() -> Self {
        Self::new(0, 1, None)
    }

    /// Always backward.
    #[must_use]
    pub fn backward() -> Self {
        Self::new(1, 1, None)
    }

    /// The same turns, up to `limit` steps.
    #[must_use]
    pub fn limited(self, limit: u32) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Whether step `i` goes backward.
    #[must_use]
    pub fn is_back(&self, i: u32) -> bool {
        self.turns >> (i % u32::from(self.period)) & 1 == 1
    }

    /// The turns before they repeat.
    #[must_use]
    pub fn period(&self) -> u8 {
        self.period
    }
}

/// One call, or one small protocol of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `put` or `put_durable`.
    Put { key: Key, value: Value, durable: bool },
    /// `delete` or `delete_durable`.
    Delete { key: Key, durable: bool },
    /// `write` or `write_durable`.
    Batch { records: Vec<Record>, durable: bool },
    /// `sync`.
    Sync,
    /// `get`.
    Get { key: Key, view: View },
    /// `get_with`.
    GetWith { key: Key, view: View },
    /// `multi_get`.
    MultiGet { keys: Vec<Key>, view: View },
    /// An iterator opened, walked and dropped.
    Scan { span: Span, view: View, walk: Walk },
    /// An iterator opened in a slot, in place of the one there.
    IterOpen { slot: u8, span: Span, view: View },
    /// The slot's iterator walked.
    IterWalk { slot: u8, walk: Walk },
    /// The slot's iterator sought, forward or backward, and then walked.
    IterSeek { slot: u8, key: Key, back: bool, walk: Walk },
    /// The slot's iterator dropped.
    IterDrop { slot: u8 },
    /// A snapshot taken into a slot, in place of the one there.
    SnapOpen { slot: u8 },
    /// The slot's snapshot dropped.
    SnapDrop { slot: u8 },
    /// `flush`.
    Flush,
    /// `compact_range`.
    Compact { lo: Bound<Key>, hi: Bound<Key> },
    /// `maintain_step`.
    Step,
    /// The handle closed or just dropped, and the database opened again with some options
    /// changed. Iterators and snapshots stay in their slots.
    Reopen { by_drop: bool, changes: Vec<(&'static str, u64)> },
    /// The handle closed; the next operation that needs one opens it again.
    Close,
    /// The handle closed, the database opened read-only, compared whole, and closed.
    ReadOnly,
    /// A second handle asked for while one is open, read-write and read-only: refused.
    SecondOpen,
    /// `verify`.
    Verify,
    /// `stats`.
    Stats,
    /// `checkpoint` into a new directory, opened there and compared.
    Checkpoint,
    /// `backup`, `restore` into a new directory, opened there and compared.
    Backup,
}

impl Op {
    /// Names of the kinds of operation, as the text form and the swarm use them.
    pub const KINDS: &'static [&'static str] = &[
        "put",
        "delete",
        "write",
        "sync",
        "get",
        "get_with",
        "multi_get",
        "scan",
        "iter_open",
        "iter_walk",
        "iter_seek",
        "iter_drop",
        "snapshot",
        "release",
        "flush",
        "compact",
        "step",
        "reopen",
        "close",
        "read_only",
        "second_open",
        "verify",
        "stats",
        "checkpoint",
        "backup",
    ];

    /// This operation's index in [`Op::KINDS`].
    #[must_use]
    pub fn kind(&self) -> usize {
        match self {
            Self::Put { .. } => 0,
            Self::Delete { .. } => 1,
            Self::Batch { .. } => 2,
            Self::Sync => 3,
            Self::Get { .. } => 4,
            Self::GetWith { .. } => 5,
            Self::MultiGet { .. } => 6,
            Self::Scan { .. } => 7,
            Self::IterOpen { .. } => 8,
            Self::IterWalk { .. } => 9,
            Self::IterSeek { .. } => 10,
            Self::IterDrop { .. } => 11,
            Self::SnapOpen { .. } => 12,
            Self::SnapDrop { .. } => 13,
            Self::Flush => 14,
            Self::Compact { .. } => 15,
            Self::Step => 16,
            Self::Reopen { .. } => 17,
            Self::Close => 18,
            Self::ReadOnly => 19,
            Self::SecondOpen => 20,
            Self::Verify => 21,
            Self::Stats => 22,
            Self::Checkpoint => 23,
            Self::Backup => 24,
        }
    }

    /// Whether it may add to the commit order.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Delete { .. } | Self::Batch { .. })
    }
}

/// A whole run: options, and what is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// How the database is first opened.
    pub config: Config,
    /// What is done, in order.
    pub ops: Vec<Op>,
}
