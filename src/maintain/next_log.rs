//! The next log, prepared before it is needed, so that no writer waits for its syncs.
//!
//! Invariants
//! - W3: a log takes over only after its size and its name are synced.
//! - Log numbers rise along the chain: a log that another one overtook is never used.
//! - P1: a failed sync of it, or of its directory, poisons. A log that can't be made does not: the
//!   leader that needs one tries again, and its group is told.

use super::Failed;
use crate::base::name::FileKind;
use crate::engine::Core;
use crate::engine::slots::Built;
use crate::env::sync::Ordering;
use crate::wal::PreparedLog;

impl Core {
    /// Whether the active log is half full, and no log waits to take over.
    pub(super) fn wants_next_log(&self) -> bool {
        self.next_log_wanted.load(Ordering::Relaxed)
    }

    pub(super) fn build_next_log(&self) -> Result<Built, Failed> {
        // Once for each log: where it can't be made now, the leader will make one.
        self.next_log_wanted.store(false, Ordering::Relaxed);
        let next = self.next_log(self.options.log_bytes)?;
        let prepared = next.prepare();
        let prepared = prepared.map_err(|failed| self.judge_log(failed))?;
        Ok(Built::NextLog(prepared))
    }

    pub(super) fn install_next_log(&self, log: PreparedLog) {
        let number = log.number();
        let mut writer = self.writer.lock();
        let writer = writer.as_mut().expect("a writable handle has a writer");
        if writer.prepared.is_none() && number > writer.logs.position().log {
            writer.prepared = Some(log);
        } else {
            // Should the name stay, it is an unused log, which the next open removes.
            let _ = self.env.fs.unlink(&self.path_of(FileKind::Log, number));
        }
    }
}
