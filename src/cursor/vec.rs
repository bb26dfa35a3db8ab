//! A cursor over a sorted vector: the simplest one, for tests of what stands on cursors.
//!
//! It can be told to fail at a given call, to show that errors come through (R4).

use super::Cursor;
use crate::base::key::{EntryRef, Kind, SeqNo, cmp_entries};
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use std::path::Path;

/// One version of one key, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VecEntry {
    /// The user key.
    pub key: Vec<u8>,
    /// Its place in the commit order.
    pub seq: SeqNo,
    /// Whether it sets or removes.
    pub kind: Kind,
    /// The value; empty for a removal.
    pub value: Vec<u8>,
}

impl VecEntry {
    /// The entry, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef { key: &self.key, seq: self.seq, kind: self.kind, value: &self.value }
    }
}

impl From<EntryRef<'_>> for VecEntry {
    fn from(entry: EntryRef<'_>) -> Self {
        let EntryRef { key, seq, kind, value } = entry;
        Self { key: key.to_vec(), seq, kind, value: value.to_vec() }
    }
}

/// A position in shared, sorted entries.
pub struct VecCursor {
    entries: Arc<[VecEntry]>,
    at: Option<usize>,
    failed: Option<Error>,
    /// Seeks and moves that still succeed, if they are counted.
    calls_left: Option<usize>,
}

impl VecCursor {
    /// A cursor over `entries`, which are sorted here.
    #[must_use]
    pub fn new(mut entries: Vec<VecEntry>) -> Self {
        entries.sort_by(|a, b| cmp_entries(&a.key, a.seq, &b.key, b.seq));
        Self { entries: entries.into(), at: None, failed: None, calls_left: None }
    }

    /// Lets `calls` seeks and moves succeed and the next one fail; those after it succeed again.
    pub fn fail_after(&mut self, calls: usize) {
        self.calls_left = Some(calls);
    }

    fn go(&mut self, to: Option<usize>) -> Result<()> {
        self.at = None;
        match &mut self.calls_left {
            Some(0) => {
                self.calls_left = None;
                let error = Error::corruption(Path::new("vec"), 0, "told to fail");
                self.failed = Some(error.clone());
                return Err(error);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.failed = None;
        self.at = to.filter(|&at| at < self.entries.len());
        Ok(())
    }

    fn check(&self) -> Result<usize> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(self.at.expect("invariant: a cursor moves only from an entry")),
        }
    }
}

impl Cursor for VecCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.go(Some(0))
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let at = self.entries.partition_point(|e| cmp_entries(&e.key, e.seq, key, seq).is_lt());
        self.go(Some(at))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go(self.entries.len().checked_sub(1))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go(self.entries.partition_point(|e| e.key.as_slice() < key).checked_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        let at = self.check()?;
        self.go(Some(at + 1))
    }

    fn prev(&mut self) -> Result<()> {
        let at = self.check()?;
        self.go(at.checked_sub(1))
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        self.at.map(|at| self.entries[at].as_ref())
    }
}
