//! Reads every file whole and checks all that can be checked.
//!
//! Invariants
//! - It changes nothing and decides nothing.
//! - C1: damage is reported with file, offset and what; nothing is skipped.

use crate::base::key::LogPosition;
use crate::base::name::{CURRENT, FileKind};
use crate::engine::Core;
use crate::env::fs::read_file;
use crate::error::{Error, Result};
use crate::version::{check, current, read_manifest};
use crate::wal;

/// What was read and found whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Tables.
    pub tables: u64,
    /// Entries in them.
    pub entries: u64,
    /// Bytes of tables.
    pub table_bytes: u64,
    /// Logs.
    pub logs: u64,
    /// Frames in them.
    pub frames: u64,
}

impl Core {
    pub(crate) fn verify(&self) -> Result<VerifyReport> {
        self.health.check_readable()?;
        let mut report = VerifyReport::default();
        let tables = self.verify_tables(&mut report);
        self.reader_ended();
        tables?;
        self.verify_logs(&mut report)?;
        self.verify_manifest()?;
        Ok(report)
    }

    fn verify_tables(&self, report: &mut VerifyReport) -> Result<()> {
        let view = self.view.load();
        check::structure(&view.version).map_err(|what| Error::corruption(&self.dir, 0, what))?;
        for meta in view.version.tables().into_values() {
            let table = self.tables.of(&meta.identity(), &meta.kept)?;
            let summary = table.verify()?;
            meta.check(&summary, &self.path_of(FileKind::Table, meta.number))?;
            report.tables += 1;
            report.entries += summary.entries;
            report.table_bytes += summary.bytes;
        }
        Ok(())
    }

    /// `CURRENT` and its manifest must still say what this handle knows.
    fn verify_manifest(&self) -> Result<()> {
        // Held so that no edit is on its way.
        let _maintainer = self.maintainer.lock();
        // L1: after a close the files are another handle's.
        self.health.check_readable()?;
        let path = self.dir.join(CURRENT);
        let Some(current) = current::read(&self.env, &self.dir)? else {
            return Err(Error::corruption(&path, 0, "the file, which is missing"));
        };
        let found = read_manifest(&self.env, &self.dir, current.manifest, current.db)?;
        // After a failed edit nobody knows whether it is there.
        let differs = !self.health.is_poisoned() && found.version.runs != self.version().runs;
        if current.db != self.db || found.mark < *self.manifest_mark.lock() || differs {
            let path = self.path_of(FileKind::Manifest, current.manifest);
            return Err(Error::corruption(&path, found.end, "every edit that was made durable"));
        }
        Ok(())
    }

    /// Every byte that this handle appended must still be there.
    fn verify_logs(&self, report: &mut VerifyReport) -> Result<()> {
        // Held so that no log is given up; writers go on, and append beyond these ends.
        let _maintainer = self.maintainer.lock();
        self.health.check_readable()?;
        let ends = self.writer.lock().as_ref().map(|writer| writer.logs.ends());
        for LogPosition { log: number, offset: end } in ends.unwrap_or_default() {
            let path = self.path_of(FileKind::Log, number);
            let bytes = read_file(&*self.env.fs, &path, u64::MAX)
                .map_err(|e| Error::io(&path, "read log", e))?;
            let scan = wal::scan(&path, &bytes, self.db, number)?;
            if scan.end < end {
                let what = format!("valid frames up to offset {end}, as they were appended");
                return Err(Error::corruption(&path, scan.end, what));
            }
            report.logs += 1;
            report.frames += scan.frames.len() as u64;
        }
        Ok(())
    }
}
