//! Removes files that nobody names any more.
//!
//! Invariants
//! - M5, G2: a table goes when the durable version does not name it and no view pins it; the last
//!   counted owner is then the list here.
//! - W5: a log goes when everything in it is at or below a durable flushed sequence.
//! - A failed unlink is tried again at the next collection and never poisons.

use crate::base::name::{FileKind, file_path};
use crate::engine::{Core, Maintainer};
use crate::env::probe::Stage;
use crate::env::sync::{Arc, Ordering};
use std::io;
use std::path::Path;

impl Core {
    /// Removes what can be removed; returns whether anything was.
    pub(super) fn collect(&self, maintainer: &mut Maintainer) -> bool {
        let mut removed = 0u64;
        // P1: asked again right before each kind of file; the step began before somebody was told.
        if !maintainer.dead_logs.is_empty() && self.health.check_writable().is_ok() {
            self.env.stage(Stage::CollectLog);
            // W5: every memtable that these logs fed is in a durable version.
            // Crash here: a log may come back; its sequences are flushed, so it is skipped.
            let dead = maintainer.dead_logs.len();
            maintainer.dead_logs.retain(|path| !self.unlink(path));
            removed = (dead - maintainer.dead_logs.len()) as u64;
            self.counters.logs_removed.add(removed);
        }
        let mut staged = false;
        maintainer.zombies.retain_mut(|table| {
            // M5, G2: a version that some view holds still names it.
            if Arc::strong_count(table) > 1 {
                return true;
            }
            if !staged {
                if self.health.check_writable().is_err() {
                    return true;
                }
                staged = true;
                self.env.stage(Stage::CollectTable);
            }
            // Not before: a reader of an older view may have opened it since the edit.
            self.tables.evict(table.number);
            if let Some(table) = Arc::get_mut(table) {
                table.kept.close();
            }
            let path = file_path(&self.dir, FileKind::Table, table.number);
            let gone = self.unlink(&path);
            // Crash here: a table may come back; no version names it, so it is an orphan.
            removed += u64::from(gone);
            self.counters.tables_removed.add(u64::from(gone));
            !gone
        });
        self.zombies.store(maintainer.zombies.len(), Ordering::Relaxed);
        removed > 0
    }

    /// Whether the name is gone: a failed unlink may have had its effect all the same.
    fn unlink(&self, path: &Path) -> bool {
        match self.env.fs.unlink(path) {
            Ok(()) => true,
            Err(e) => e.kind() == io::ErrorKind::NotFound,
        }
    }
}
