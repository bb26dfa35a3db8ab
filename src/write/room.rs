//! Room for a group: a memtable that it fits into, and a log.
//!
//! Invariants
//! - An error before a group's first byte reaches the log fails that group alone (P1), unless it
//!   left the sync of a log or of the directory in doubt.
//! - Freezing and rotating are independent: a log may feed many memtables, and a memtable may stand
//!   in several logs.
//! - A batch larger than a memtable or a log gets an arena and log space of its own.

use crate::engine::logs::NextLog;
use crate::engine::queue::Group;
use crate::engine::{Core, Writer};
use crate::env::probe::Stage;
use crate::env::sync::Ordering;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::wal::{LogStart, frame_bytes};

impl Core {
    pub(crate) fn make_room(&self, writer: &mut Writer, group: &Group) -> Result<()> {
        if !writer.logs.has_room(group.records.len(), self.options.log_bytes) {
            self.rotate(writer, group.records.len())?;
        }
        if !writer.memtable.has_room(group.count as usize, group.records.len()) {
            self.freeze(writer, group);
        }
        Ok(())
    }

    /// Creates the next log and lets it take over.
    fn rotate(&self, writer: &mut Writer, payload_bytes: usize) -> Result<()> {
        let next = NextLog {
            env: &self.env,
            dir: &self.dir,
            db: self.db,
            number: self.allocate_log()?,
            preallocate_bytes: frame_bytes(payload_bytes).max(self.options.log_bytes),
        };
        let start = LogStart {
            predecessor: writer.logs.position(),
            synced: writer.logs.synced(),
            manifest: *self.manifest_mark.lock(),
            next_seq: writer.logs.last().next(),
        };
        let log = next.create(&start).map_err(|(error, in_doubt)| {
            if in_doubt { self.health.poison(error) } else { error }
        })?;
        writer.logs.rotate(log);
        self.counters.rotations.add(1);
        Ok(())
    }

    /// Freezes the memtable. Readers see the frozen one and the new one from one instant on.
    fn freeze(&self, writer: &mut Writer, group: &Group) {
        self.env.stage(Stage::Freeze);
        let last = self.published();
        assert_eq!(last, writer.logs.last(), "only between a publication and the next apply");
        let (entries, bytes) = (group.count as usize, group.records.len());
        self.maintenance_due.store(true, Ordering::Relaxed);
        let (next, active) = if Memtable::room_for(entries, bytes) > self.options.memtable_bytes {
            Memtable::with_room_for(entries, bytes)
        } else {
            Memtable::with_room(self.options.memtable_bytes)
        };
        self.update_view(|view| {
            if view.active.is_empty() {
                view.replace_active(active)
            } else {
                view.freeze(last, active)
            }
        });
        writer.memtable = next;
    }

    /// Freezes the memtable if it holds anything, so that a flush takes it.
    pub(crate) fn freeze_for_flush(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        self.health.check_writable()?;
        let writer = writer.as_mut().expect("a writable handle has a writer");
        if self.view.with(|view| !view.active.is_empty()) {
            self.freeze(writer, &Group::default());
        }
        Ok(())
    }

    /// Freezes the memtable if the logs have outgrown their budget or number: flushing it lets
    /// them go.
    pub(crate) fn freeze_if_logs_are_full(&self) -> Result<()> {
        if self.logs_are_full() { self.freeze_for_flush() } else { Ok(()) }
    }

    fn logs_are_full(&self) -> bool {
        let writer = self.writer.lock();
        writer.as_ref().is_some_and(|w| w.logs.are_full(self.options.log_budget_bytes))
    }

    /// Whether a write of this size would need a memtable more than there may be, or finds the logs
    /// over their budget or number.
    pub(crate) fn needs_flush_first(&self, count: u32, bytes: usize) -> bool {
        let writer = self.writer.lock();
        let Some(writer) = writer.as_ref() else { return false };
        let frozen = self.view.with(|view| view.frozen.len());
        let logs_full = writer.logs.are_full(self.options.log_budget_bytes);
        let memtables_full = frozen + 1 >= self.options.memtables_max
            && !writer.memtable.has_room(count as usize, bytes);
        logs_full || memtables_full
    }
}
