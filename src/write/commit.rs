//! A group's way through the log into the memtable, and `sync`.
//!
//! Invariants
//! - V1: append, then sync where asked, then apply, then publish, then acknowledge; nothing is
//!   visible or acknowledged before its sync has succeeded.
//! - P1: a failed append or sync poisons; no sync is tried again.
//! - D2: `sync` covers every write that returned before it, rotated logs included.

use crate::base::key::SeqNo;
use crate::batch::{Records, WriteBatch};
use crate::engine::queue::Group;
use crate::engine::{Core, Writer};
use crate::env::probe::Stage;
use crate::env::sync::Ordering;
use crate::error::{Error, Result};
use crate::memtable::{ARENA_BYTES_MAX, Memtable};
use crate::wal::FrameKind;

impl Core {
    /// Writes a batch; durable if `sync`. Returns its sequence, its last record's. An empty batch
    /// has no place in the commit order: it returns what is published, after a sync if asked.
    pub(crate) fn write(&self, batch: &WriteBatch, sync: bool) -> Result<SeqNo> {
        self.health.check_writable()?;
        batch.check(self.options.value_bytes_max, self.options.batch_bytes_max)?;
        let arena_bytes = Memtable::room_for(batch.len(), batch.bytes());
        if arena_bytes > ARENA_BYTES_MAX {
            let (bytes, bytes_max) = (arena_bytes as u64, ARENA_BYTES_MAX as u64);
            return Err(Error::TooLarge { what: "batch in memory", bytes, bytes_max });
        }
        if batch.is_empty() {
            if sync {
                self.sync()?;
            }
            return Ok(self.published());
        }
        let seq =
            self.queue.commit(batch.records(), batch.count(), sync, |group| self.lead(group))?;
        self.counters.records.add(u64::from(batch.count()));
        self.counters.record_bytes.add(batch.bytes() as u64);
        Ok(seq)
    }

    fn lead(&self, group: &mut Group) -> Result<SeqNo> {
        let mut writer = self.writer.lock();
        // A failure of the group before this one fails this one too, and a close may have come
        // first: then the files are another handle's.
        self.health.check_writable()?;
        let panicking = self.health.poison_on_panic("the leader of a group");
        let writer = writer.as_mut().expect("a writable handle has a writer");
        let led = self.lead_group(writer, group);
        panicking.disarm();
        led
    }

    fn lead_group(&self, writer: &mut Writer, group: &mut Group) -> Result<SeqNo> {
        self.make_room(writer, group)?;
        let first = writer.logs.last().next();
        if let Some(probe) = &self.env.probe {
            probe.ordered(first, &group.records);
        }
        self.log_group(writer, group, first).map_err(|e| self.health.poison(e))?;
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
        self.env.stage(Stage::CommitAck);
        Ok(first)
    }

    fn log_group(&self, writer: &mut Writer, group: &Group, first: SeqNo) -> Result<()> {
        self.env.stage(Stage::CommitAppend);
        writer.logs.append(first, group.count, &group.records)?;
        // Crash here: the group is whole, torn or absent; it was not acknowledged, so each is a
        // cut of the commit order (D3). A process that dies leaves it whole (D2).
        self.counters.groups.add(1);
        if group.sync {
            self.counters.syncs.add(1);
            writer.logs.sync(&self.env)?;
        }
        Ok(())
    }

    /// Makes every write that returned before this call durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.health.check_writable()?;
        let mut writer = self.writer.lock();
        let writer = writer.as_mut().expect("a writable handle has a writer");
        self.health.check_writable()?;
        self.counters.syncs.add(1);
        writer.logs.sync(&self.env).map_err(|e| self.health.poison(e))
    }

    /// Ends the handle: syncs, answers `Closed` from now on, and releases the lock last.
    ///
    /// # Errors
    /// The handle's first failure, or the sync's.
    pub(crate) fn close(&self) -> Result<()> {
        // L1: held while the handle becomes closed, so that whoever waits for them finds it so, and
        // nothing is written after the lock is released.
        let maintainer = self.maintainer.lock();
        let mut writer = self.writer.lock();
        if self.health.check_readable().is_err() {
            return Ok(());
        }
        let synced = self.sync_and_mark_closed(writer.as_mut());
        self.health.close();
        drop((maintainer, writer));
        self.env.stage(Stage::CloseUnlock);
        let lock = self.lock.lock().take();
        drop(lock);
        synced
    }

    /// Makes everything durable and says so in the log, so that a later reader can tell damage
    /// from a torn tail up to the very end.
    fn sync_and_mark_closed(&self, writer: Option<&mut Writer>) -> Result<()> {
        if let Some(error) = self.health.first_error() {
            return Err(error);
        }
        let Some(writer) = writer else { return Ok(()) };
        let closed = (|| {
            writer.logs.sync(&self.env)?;
            self.env.stage(Stage::CloseSync);
            writer.logs.mark(FrameKind::Close)?;
            // Crash here: the mark may be torn; nothing depends on it.
            writer.logs.sync(&self.env)
        })();
        closed.map_err(|e: Error| self.health.poison(e))
    }
}
