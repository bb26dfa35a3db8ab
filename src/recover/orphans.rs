//! Removes the files that a recovery found and that nobody names now.
//!
//! Invariants
//! - Only after the new manifest is current and durable, and never when anything was reported
//!   corrupt.
//! - Only names that are exactly ours (`base::name`).
//! - A failed unlink is left for the next open.

use crate::base::name::{CURRENT_TMP, FileKind, parse_file_name};
use crate::engine::Core;
use crate::env::probe::Stage;

/// Returns how many files were removed. `names` were there before this open made any file.
pub(super) fn remove(core: &Core, names: &[String]) -> u64 {
    let tables = core.version().tables();
    let mut removed = 0;
    let mut staged = false;
    for name in names {
        let orphan = match parse_file_name(name) {
            Some((FileKind::Table, number)) => !tables.contains_key(&number),
            // This open's own files are not among `names`.
            Some((FileKind::Log | FileKind::Manifest, _)) => true,
            None => name == CURRENT_TMP,
        };
        if orphan {
            if !std::mem::replace(&mut staged, true) {
                core.env.stage(Stage::Orphans);
            }
            removed += u64::from(core.env.fs.unlink(&core.dir.join(name)).is_ok());
            // Crash here: some are gone, some may come back; the next open removes them.
        }
    }
    removed
}
