//! Makes the outputs of a flush or compaction part of the database.
//!
//! Invariants
//! - M4: a version never names a file that is not durable, directory entry included.
//! - M5: inputs go only after the edit that removes them is durable.
//! - P1: a failed directory sync or manifest write poisons: an edit whose fate is unknown is never
//!   contradicted, so nothing is deleted and nothing is tried again.
//!
//! Order of durable steps: (tables are synced) sync directory, append edit, sync manifest, swap.

use crate::base::key::SeqNo;
use crate::engine::output::Output;
use crate::engine::{Core, Maintainer};
use crate::env::probe::Stage;
use crate::env::sync::{Arc, Ordering};
use crate::error::{Error, Result};
use crate::version::manifest::unlink_old;
use crate::version::{
    Edit, Plan, PreparedManifest, RunId, TableSlice, Version, compaction_edit, flush_edit,
};

struct Stages {
    sync_dir: Stage,
    edit: Stage,
    sync_manifest: Stage,
    swap: Stage,
}

const FLUSH: Stages = Stages {
    sync_dir: Stage::FlushSyncDir,
    edit: Stage::FlushEdit,
    sync_manifest: Stage::FlushSyncManifest,
    swap: Stage::FlushSwap,
};

const COMPACT: Stages = Stages {
    sync_dir: Stage::CompactSyncDir,
    edit: Stage::CompactEdit,
    sync_manifest: Stage::CompactSyncManifest,
    swap: Stage::CompactSwap,
};

impl Core {
    pub(super) fn install_flush(
        &self,
        maintainer: &mut Maintainer,
        output: &Output,
        last: SeqNo,
    ) -> Result<()> {
        let version = self.version();
        assert!(last > version.flushed_seq, "flushes become durable in order");
        let mut edit = flush_edit(&version, &output.tables, last);
        let floor = {
            let writer = self.writer.lock();
            let logs = &writer.as_ref().expect("a writable handle has a writer").logs;
            // A new chain of logs knows of no sync before its first; the manifest still does.
            edit.synced = Some(logs.synced().max(version.synced));
            logs.floor(last)
        };
        edit.log_floor = Some(floor);
        self.install(maintainer, &version, edit, !output.tables.is_empty(), &FLUSH)?;
        self.counters.flushes.add(1);
        self.counters.flush_bytes.add(output.bytes());
        let mut writer = self.writer.lock();
        let writer = writer.as_mut().expect("a writable handle has a writer");
        maintainer.dead_logs.extend(writer.logs.take_obsolete(&self.dir, floor));
        let logs_full = writer.logs.are_full(self.options.log_budget_bytes);
        self.logs_full.store(logs_full, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn install_compaction(
        &self,
        maintainer: &mut Maintainer,
        plan: &Plan,
        newest: RunId,
        output: &Output,
        slices: Vec<TableSlice>,
    ) -> Result<()> {
        let version = self.version();
        // Flushes may have put runs in front of the interval since it was planned.
        let at = version.runs.iter().position(|run| run.id() == newest);
        let at = at.expect("only a compaction takes a run away, and there is one at a time");
        let runs = at..at + plan.runs.len();
        let edit = compaction_edit(&version, runs, &plan.range, slices);
        self.install(maintainer, &version, edit, !output.tables.is_empty(), &COMPACT)?;
        self.counters.compactions.add(1);
        self.counters.compaction_bytes.add(output.bytes());
        let (before, after) = (version.tables(), self.version().tables());
        for (number, table) in before {
            if !after.contains_key(&number) {
                maintainer.zombies.push(table);
            }
        }
        self.zombies.store(maintainer.zombies.len(), Ordering::Relaxed);
        Ok(())
    }

    fn install(
        &self,
        maintainer: &mut Maintainer,
        version: &Version,
        mut edit: Edit,
        new_tables: bool,
        stages: &Stages,
    ) -> Result<()> {
        edit.next_file = Some(self.files_to_reserve());
        let next =
            version.apply(&edit).expect("an edit of our own fits the version it was made for");
        let durable = (|| {
            if new_tables {
                self.env.stage(stages.sync_dir);
                let failed = |e| self.poison(Error::io(&self.dir, "sync directory of tables", e));
                self.health.in_dir_turn(|| self.env.fs.sync_dir(&self.dir).map_err(failed))?;
                // Crash here: whole tables with certain names that nobody names.
                // `recover::orphans` removes them.
            }
            // P1: somebody may have been told of a poison since the step began: a worker waits for
            // the writer that syncs, and a sync of the directory takes its time.
            self.health.check_writable()?;
            self.env.stage(stages.edit);
            maintainer.manifest.append(&edit)?;
            // Crash here: the edit is whole, torn or absent; what it names is durable (M4).
            self.env.stage(stages.sync_manifest);
            maintainer.manifest.sync()
            // Crash here: the new version is current after recovery, though no reader saw it yet.
        })();
        durable.map_err(|e| self.poison(e))?;
        self.env.stage(stages.swap);
        let next = Arc::new(next);
        self.counters.runs_max.raise(next.runs.len() as u64);
        self.view.update(|view| view.with_version(next.clone()));
        self.note_manifest(maintainer, &next);
        if maintainer.manifest.is_full() {
            self.roll_manifest(maintainer, &next)?;
        }
        Ok(())
    }

    /// What a durable manifest says of numbers and of itself, for the logs to come.
    fn note_manifest(&self, maintainer: &Maintainer, version: &Version) {
        self.note_reserved(version.next_file);
        *self.manifest_mark.lock() = maintainer.manifest.synced();
    }

    /// Replaces a manifest that has grown by one that holds only what is.
    fn roll_manifest(&self, maintainer: &mut Maintainer, version: &Version) -> Result<()> {
        let old = maintainer.manifest.number();
        let number = self.allocate_file();
        let version = Version { next_file: self.files_to_reserve(), ..version.clone() };
        let bytes_max = self.options.manifest_bytes_max;
        let (env, dir) = (&self.env, &*self.dir);
        // P1: as before the edit.
        self.health.check_writable()?;
        let prepared = PreparedManifest::create(env, dir, number, self.db, &version, bytes_max);
        // Nothing is in doubt, and the old one has room left: the next edit tries again.
        let Ok(prepared) = prepared else { return Ok(()) };
        let install = || prepared.install(env, dir).map_err(|e| self.poison(e));
        let rolled = self.health.in_dir_turn(install);
        maintainer.manifest = rolled?;
        self.note_manifest(maintainer, &version);
        self.counters.manifests.add(1);
        // A failed unlink leaves an orphan for the next open.
        let _ = unlink_old(&self.env, &self.dir, old);
        Ok(())
    }

    /// Renews the reservation of file numbers where it has run out: logs take numbers without a
    /// step of maintenance, those that a full disk refuses too, and may be many to a memtable (B1).
    ///
    /// # Errors
    /// That of the manifest, which poisons.
    pub(crate) fn renew_used_up_reservation(&self) -> Result<()> {
        if !self.reservation_is_used_up() {
            return Ok(());
        }
        let mut maintainer = self.maintainer.lock();
        self.health.check_writable()?;
        self.reserve_if_low(maintainer.as_mut().expect("a writable handle has a maintainer"))
    }

    /// Renews the reservation of file numbers before it runs out.
    pub(super) fn reserve_if_low(&self, maintainer: &mut Maintainer) -> Result<()> {
        if !self.reservation_is_low() {
            return Ok(());
        }
        self.install(maintainer, &self.version(), Edit::default(), false, &FLUSH)
    }
}
