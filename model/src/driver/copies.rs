//! Checkpoints and backups: made, opened in their own place, compared, left there.
//!
//! - A copy shows exactly what was published when it was made, and making it made that durable.
//! - A copy stands on its own: what happens to the original afterwards does not change it, and a
//!   backup's restoration stands without the backup.

use super::verdict::admitted;
use super::{Driver, Mismatch, Outcome, options};
use kiban::env::fs::parent_dir;
use std::path::PathBuf;

type Done = Result<Outcome, Mismatch>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Copy {
    Checkpoint,
    Backup,
}

impl Driver {
    /// A new name beside the database's directory.
    fn copy_dir(&mut self, what: &str) -> PathBuf {
        self.copies += 1;
        let name = self.dir.file_name().map_or("db".into(), |name| name.to_string_lossy());
        parent_dir(&self.dir).join(format!("{name}-{what}-{}-{}", self.epoch, self.copies))
    }

    pub(super) fn copy(&mut self, copy: Copy) -> Done {
        let dir = self.copy_dir(if copy == Copy::Checkpoint { "checkpoint" } else { "backup" });
        let db = self.open_db_mut();
        let result = match copy {
            Copy::Checkpoint => db.checkpoint(&dir),
            Copy::Backup => db.backup(&dir),
        };
        match result {
            Ok(()) if self.is_poisoned() => {
                return Err(Mismatch::new("P1", "a poisoned handle's error", "Ok"));
            }
            Ok(()) => self.truth.synced(),
            Err(error) => return self.failed("B1", error),
        }
        if copy == Copy::Checkpoint {
            return self.compare_copy(&dir);
        }
        let restored = self.copy_dir("restored");
        let result = kiban::restore(&dir, &restored, options(&self.config, &self.env));
        admitted!(self.tolerance.sort("D2", result));
        self.compare_copy(&restored)
    }
}
