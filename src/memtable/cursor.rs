//! A cursor over a memtable, which it keeps alive.
//!
//! Forward moves follow a link; backward moves search from the head, as a list for few levels of
//! write has no links back.

use super::skiplist::{Memtable, Place};
use crate::base::key::{EntryRef, SeqNo};
use crate::cursor::Cursor;
use crate::env::sync::Arc;
use crate::error::Result;

/// A position in a memtable. It never fails.
pub struct MemCursor(Place);

impl Memtable {
    /// A cursor over everything here, entries inserted later included.
    #[must_use]
    pub fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor(Place::new(self.clone()))
    }
}

impl Cursor for MemCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.0.go_first();
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.0.go_at_or_after(key, seq);
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.0.go_last();
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.0.go_before(key);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.0.go_next();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.0.go_prev();
        Ok(())
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.0.entry()
    }
}
