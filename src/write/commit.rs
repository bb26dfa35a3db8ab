//! A group's way through the log into the memtable, and `sync`.
//!
//! Invariants
//! - V1: append, then sync where asked, then apply, then publish, then acknowledge; nothing is
//!   visible or acknowledged before its sync has succeeded.
//! - P1: a failed append or sync poisons; no sync is tried again.
//! - D2: `sync` covers every write that returned before it, rotated logs included.

use crate::base::key::SeqNo;
use crate::batch::{Records, WriteBatch};
use crate::engine::queue::{Group, Receipt, Write};
use crate::engine::{Core, Writer};
use crate::env::probe::Stage;
use crate::env::sync::Ordering;
use crate::error::{Error, Result};
use crate::memtable::{ARENA_BYTES_MAX, Memtable};
use crate::wal::FrameKind;

/// How a batch is written.
#[derive(Default)]
pub(crate) struct How {
    /// Whether it is durable when the write returns.
    pub(crate) sync: bool,
    /// Until when, by the clock, it may wait for room.
    pub(crate) deadline_ns: Option<u64>,
    /// What to call once it is durable.
    pub(crate) receipt: Option<Receipt>,
}

impl Core {
    /// Writes a batch. Returns its sequence, its last record's. An empty batch has no place in the
    /// commit order: it returns what is published, after a sync if asked. `admit` waits until there
    /// is room.
    pub(crate) fn write(
        &self,
        batch: &WriteBatch,
        how: How,
        admit: impl Fn(&WriteBatch, Option<u64>) -> Result<()>,
    ) -> Result<SeqNo> {
        self.health.check_writable()?;
        batch.check(self.options.value_bytes_max, self.options.batch_bytes_max)?;
        let arena_bytes = Memtable::room_for(batch.len(), batch.bytes());
        if arena_bytes > ARENA_BYTES_MAX {
            let (bytes, bytes_max) = (arena_bytes as u64, ARENA_BYTES_MAX as u64);
            return Err(Error::TooLarge { what: "batch in memory", bytes, bytes_max });
        }
        if batch.is_empty() {
            return self.write_nothing(how);
        }
        let How { sync, deadline_ns, mut receipt } = how;
        let write = Write { records: batch.records(), count: batch.count(), sync };
        loop {
            admit(batch, deadline_ns)?;
            let may_join = |joined| self.stall_cause(batch, joined).is_none();
            let lead = |group: &mut Group| self.lead(group);
            if let Some(led) = self.queue.commit(&write, &mut receipt, may_join, lead) {
                return led;
            }
        }
    }

    fn write_nothing(&self, how: How) -> Result<SeqNo> {
        if how.sync {
            self.sync()?;
        }
        // Held, so that the receipt stands behind those of the groups before it.
        let _writer = self.writer.lock();
        self.health.check_writable()?;
        let published = self.published();
        self.receipts.add(published, how.receipt.into_iter().map(|r| (0, r)).collect());
        Ok(published)
    }

    fn lead(&self, group: &mut Group) -> Result<SeqNo> {
        let mut writer = self.writer.lock();
        // A failure of the group before this one fails this one too, and a close may have come
        // first: then the files are another handle's.
        self.health.check_writable()?;
        let writer = writer.as_mut().expect("a writable handle has a writer");
        self.poison_on_panic("the leader of a group", || self.lead_group(writer, group))
    }

    fn lead_group(&self, writer: &mut Writer, group: &mut Group) -> Result<SeqNo> {
        self.make_room(writer, group)?;
        let first = writer.logs.last().next();
        if let Some(probe) = &self.env.probe {
            probe.ordered(first, &group.records);
        }
        self.log_group(writer, group, first).map_err(|e| self.poison(e))?;
        self.env.stage(Stage::CommitApply);
        let mut seq = first;
        for record in Records::new(&group.records) {
            let record = record.expect("a batch encodes what it decodes");
            writer.memtable.insert(record.key, seq, record.kind, record.value);
            seq = seq.next();
        }
        let last = writer.logs.last();
        assert_eq!(seq, last.next(), "W1: the memtable got what the log got");
        self.env.stage(Stage::CommitPublish);
        // W2, A1: the whole group becomes visible by this one store, after the one before it.
        self.published.store(last.0, Ordering::Release);
        self.counters.note_group(group.members(), group.count, group.records.len());
        self.receipts.add(first, std::mem::take(&mut group.receipts));
        self.ask_for_next_log(writer);
        self.env.stage(Stage::CommitAck);
        Ok(first)
    }

    fn log_group(&self, writer: &mut Writer, group: &mut Group, first: SeqNo) -> Result<()> {
        self.env.stage(Stage::CommitAppend);
        writer.logs.append(first, group.count, &group.records)?;
        // Crash here: the group is whole, torn or absent; it was not acknowledged, so each is a
        // cut of the commit order (D3). A process that dies leaves it whole (D2).
        let logs_full = writer.logs.are_full(self.options.log_budget_bytes);
        self.logs_full.store(logs_full, Ordering::Relaxed);
        if group.sync {
            let begun = self.env.clock.now_ns();
            self.sync_logs(writer)?;
            group.sync_ns = self.env.clock.now_ns().saturating_sub(begun).max(1);
        }
        Ok(())
    }

    /// Syncs what was appended. Failed or not, the caller judges.
    pub(crate) fn sync_logs(&self, writer: &mut Writer) -> Result<()> {
        writer.logs.sync(&self.env, &self.counters.syncs)?;
        self.synced.store(writer.logs.last().0, Ordering::Release);
        Ok(())
    }

    /// Makes every write that returned before this call durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.health.check_writable()?;
        let mut writer = self.writer.lock();
        let writer = writer.as_mut().expect("a writable handle has a writer");
        self.health.check_writable()?;
        self.sync_logs(writer).map_err(|e| self.poison(e))
    }

    /// Ends the handle: syncs, and answers `Closed` from now on. The lock is released by
    /// [`Core::unlock`], once nobody is left who might touch a file.
    ///
    /// # Errors
    /// The handle's first failure, or the sync's.
    pub(crate) fn close(&self) -> Result<()> {
        // Nobody waits for maintenance any more, and no build is under way.
        self.signals.stop();
        // L1: held while the handle becomes closed, so that whoever waits for them finds it so.
        let maintainer = self.maintainer.lock();
        let mut writer = self.writer.lock();
        if self.health.check_readable().is_err() {
            return Ok(());
        }
        let synced = self.sync_and_mark_closed(writer.as_mut());
        self.health.close();
        drop((maintainer, writer));
        self.receipts.end(synced.as_ref().err().cloned());
        synced
    }

    /// [`Core::close`] and [`Core::unlock`] in one, where no other thread is left.
    pub(crate) fn close_and_unlock(&self) -> Result<()> {
        let closed = self.close();
        self.unlock();
        closed
    }

    /// Releases the lock of a closed handle, if it was not released yet.
    pub(crate) fn unlock(&self) {
        let lock = self.lock.lock().take();
        if lock.is_some() {
            self.env.stage(Stage::CloseUnlock);
        }
        drop(lock);
    }

    /// Makes everything durable and says so in the log, so that a later reader can tell damage
    /// from a torn tail up to the very end.
    fn sync_and_mark_closed(&self, writer: Option<&mut Writer>) -> Result<()> {
        if let Some(error) = self.health.first_error() {
            return Err(error);
        }
        let Some(writer) = writer else { return Ok(()) };
        let closed = (|| {
            self.sync_logs(writer)?;
            self.env.stage(Stage::CloseSync);
            writer.logs.mark(FrameKind::Close)?;
            // Crash here: the mark may be torn; nothing depends on it.
            self.sync_logs(writer)
        })();
        closed.map_err(|e: Error| self.poison(e))
    }
}
