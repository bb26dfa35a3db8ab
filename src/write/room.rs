//! Room for a group: a memtable that it fits into, and a log.
//!
//! Invariants
//! - An error before a group's first byte reaches the log fails that group alone (P1), unless it
//!   left the sync of a log or of the directory in doubt.
//! - Freezing and rotating are independent: a log may feed many memtables, and a memtable may stand
//!   in several logs.
//! - A batch larger than a memtable or a log gets an arena and log space of its own.

use crate::batch::WriteBatch;
use crate::engine::queue::{Group, Load};
use crate::engine::signals::Lane;
use crate::engine::{Core, Writer};
use crate::env::probe::Stage;
use crate::env::sync::Ordering;
use crate::error::Result;
use crate::listener::StallCause;
use crate::memtable::Memtable;
use crate::wal::{LogStart, frame_bytes};

impl Core {
    pub(crate) fn make_room(&self, writer: &mut Writer, group: &Group) -> Result<()> {
        if !writer.logs.has_room(group.records.len(), self.options.log_bytes) {
            self.rotate(writer, group.records.len())?;
        }
        if !writer.memtable.table().has_room(group.count as usize, group.records.len()) {
            self.freeze(writer, group);
        }
        Ok(())
    }

    /// Lets the next log take over: the one that was prepared, or one made now.
    fn rotate(&self, writer: &mut Writer, payload_bytes: usize) -> Result<()> {
        let start = LogStart {
            predecessor: writer.logs.position(),
            synced: writer.logs.synced(),
            manifest: *self.manifest_mark.lock(),
            next_seq: writer.logs.last().next(),
        };
        let log = if let Some(prepared) = writer.prepared.take() {
            self.env.stage(Stage::Rotate);
            prepared.start(&start).map_err(|error| (error, true))
        } else {
            let bytes = frame_bytes(payload_bytes).max(self.options.log_bytes);
            self.next_log(bytes)?.create(&start)
        };
        let log = log.map_err(|failed| self.judge_log(failed))?;
        // Crash here: the first frame is whole, torn or absent; nothing follows it yet.
        writer.logs.rotate(log);
        writer.asked_for_log = false;
        self.counters.rotations.add(1);
        self.counters.logs_max.raise(writer.logs.numbers().len() as u64);
        Ok(())
    }

    /// Asks for the next log once the active one is half full.
    pub(super) fn ask_for_next_log(&self, writer: &mut Writer) {
        if !writer.asked_for_log && writer.logs.is_half_full(self.options.log_bytes) {
            writer.asked_for_log = true;
            if self.signals.has_workers() {
                self.next_log_wanted.store(true, Ordering::Relaxed);
                self.signals.tell_due(Lane::Flush);
            }
        }
    }

    /// Freezes the memtable. Readers see the frozen one and the new one from one instant on.
    fn freeze(&self, writer: &mut Writer, group: &Group) {
        self.env.stage(Stage::Freeze);
        let last = self.published();
        assert_eq!(last, writer.logs.last(), "only between a publication and the next apply");
        let (entries, bytes) = (group.count as usize, group.records.len());
        let (next, active) = if Memtable::room_for(entries, bytes) > self.options.memtable_bytes {
            Memtable::with_room_for(entries, bytes)
        } else {
            let stem = writer.memtable.table().common_stem();
            Memtable::with_stem(self.options.memtable_bytes, stem)
        };
        self.view.update(|view| {
            if view.active.is_empty() {
                view.replace_active(active)
            } else {
                view.freeze(last, active)
            }
        });
        let frozen = self.view.with(|view| view.frozen.len());
        self.counters.memtables_frozen_max.raise(frozen as u64);
        writer.memtable = next;
        self.maintenance_due.store(true, Ordering::Relaxed);
        self.signals.tell_due(Lane::Flush);
    }

    /// Freezes the memtable if it holds anything, so that a flush takes it; waits where that would
    /// be one more than there may be (B1).
    ///
    /// # Errors
    /// That of the try to make room for it.
    pub(crate) fn freeze_for_flush(&self) -> Result<()> {
        loop {
            let since = self.signals.now();
            {
                let mut writer = self.writer.lock();
                self.health.check_writable()?;
                let writer = writer.as_mut().expect("a writable handle has a writer");
                let (is_empty, frozen) =
                    self.view.with(|view| (view.active.is_empty(), view.frozen.len()));
                if is_empty {
                    return Ok(());
                }
                if frozen + 1 < self.options.memtables_max {
                    self.freeze(writer, &Group::default());
                    return Ok(());
                }
            }
            self.get_on(since, self.flush_lanes(), None)?;
        }
    }

    /// What this batch would have to wait for now, behind what has `joined` and is not applied yet.
    pub(crate) fn stall_cause(&self, batch: &WriteBatch, joined: Load) -> Option<StallCause> {
        let all = joined.and(Load { records: batch.len(), bytes: batch.bytes() });
        let (no_memtable, full, all_flushed) = self.view.with(|view| {
            let has_room = |load: Load| view.active.has_room(load.records, load.bytes);
            let freezes = match has_room(all) {
                true => 0,
                false if joined == Load::default() || has_room(joined) => 1,
                false => 2,
            };
            let no_room = freezes > 0 && view.frozen.len() + freezes >= self.options.memtables_max;
            let full = view.version.runs.len() >= self.options.runs_stop;
            (no_room, full, view.frozen.is_empty() && view.active.is_empty())
        });
        if self.reservation_is_used_up() {
            Some(StallCause::FileNumbers)
        } else if no_memtable {
            Some(StallCause::Memtables)
        } else if self.logs_full.load(Ordering::Relaxed) && !all_flushed {
            Some(StallCause::Logs)
        } else {
            full.then_some(StallCause::Runs)
        }
    }
}
