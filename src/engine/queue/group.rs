//! Writes that go through the log together, and the result that they share.
//!
//! Invariants
//! - The records stand in commit order, each batch in one piece (A1).
//! - A result is set once and read after it is set.

use crate::base::key::SeqNo;
use crate::env::latch::Latch;
use crate::env::sync::{Arc, Mutex};
use crate::error::Result;

/// What is to be called once a write is durable or can no longer become so.
pub type Receipt = Box<dyn FnOnce(Result<()>) + Send>;

/// Writes that go through the log together.
pub struct Group {
    /// The records of all members, in commit order.
    pub records: Vec<u8>,
    /// How many records.
    pub count: u32,
    /// Whether a member asked for a sync: the strictest wins.
    pub sync: bool,
    /// Set by the leader: how long its sync took, in nanoseconds; 0 where it made none.
    pub sync_ns: u64,
    /// Receipts that members asked for, each with the place of its write's last record.
    pub receipts: Vec<(u64, Receipt)>,
    members: u32,
    id: u64,
    /// Made by the first member that waits; a writer alone needs none.
    outcome: Option<Arc<Outcome>>,
}

/// So much is to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Records.
    pub records: usize,
    /// Bytes of them.
    pub bytes: usize,
}

impl Load {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { records: self.records + other.records, bytes: self.bytes + other.bytes }
    }
}

impl Group {
    pub(super) fn load(&self) -> Load {
        Load { records: self.count as usize, bytes: self.records.len() }
    }

    pub(super) fn open(id: u64, sync: bool) -> Self {
        Self {
            records: Vec::new(),
            count: 0,
            sync,
            sync_ns: 0,
            receipts: Vec::new(),
            members: 0,
            id,
            outcome: None,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// How many writers are in it.
    #[must_use]
    pub fn members(&self) -> u32 {
        self.members
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// Adds a writer; returns the place of its last record.
    pub(super) fn add(&mut self, records: &[u8], count: u32, receipt: Option<Receipt>) -> u64 {
        self.records.extend_from_slice(records);
        self.count += count;
        self.members += 1;
        let last = u64::from(self.count) - 1;
        self.receipts.extend(receipt.map(|receipt| (last, receipt)));
        last
    }

    pub(super) fn outcome(&mut self) -> Arc<Outcome> {
        self.outcome.get_or_insert_with(Arc::default).clone()
    }

    pub(super) fn take_outcome(&mut self) -> Option<Arc<Outcome>> {
        self.outcome.take()
    }

    /// Takes another group along, behind this one. Returns its outcome, and the place of its first
    /// record.
    pub(super) fn absorb(&mut self, mut other: Group) -> (Arc<Outcome>, u64) {
        let offset = u64::from(self.count);
        self.records.extend_from_slice(&other.records);
        self.count += other.count;
        self.sync |= other.sync;
        self.members += other.members;
        let receipts = other.receipts.drain(..).map(|(last, receipt)| (offset + last, receipt));
        self.receipts.extend(receipts);
        (other.outcome(), offset)
    }
}

/// The result that the members of a group wait for.
#[derive(Default)]
pub(super) struct Outcome {
    done: Latch,
    first: Mutex<Option<Result<SeqNo>>>,
}

impl Default for Group {
    fn default() -> Self {
        Self::open(0, false)
    }
}

impl Outcome {
    pub(super) fn set(&self, first: Result<SeqNo>) {
        *self.first.lock() = Some(first);
        self.done.set();
    }

    pub(super) fn wait(&self) -> Result<SeqNo> {
        self.done.wait();
        self.first.lock().clone().expect("it is set before the latch")
    }
}
