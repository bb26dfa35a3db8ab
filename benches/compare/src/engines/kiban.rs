//! Kiban's adapter: the shared handle, whose writers form groups and whose readers take no gate.
//!
//! - Durable writes are `put_durable` and `write_durable`; buffered ones are in the kernel when
//!   they return.
//! - A reader gets values by `get_with`, which copies nothing, as a user in a hurry would.
//! - What the options were is archived as the engine was given them: an option that can't work is
//!   refused at `open`, and none is changed silently.

use super::{hand_on, hand_on_all};
use crate::engine::{
    Account, Debt, Each, EffectiveOptions, Engine, Opener, POLL, Reader, Result, Stall, Walk,
};
use crate::profile::{Filter, Profile, Tuning};
use kiban::{KibanOptions, Reads, SharedKiban, WriteBatch};
use std::path::Path;

/// The engine that this campaign is about.
pub struct KibanOpener;

impl Opener for KibanOpener {
    fn name(&self) -> &'static str {
        "kiban"
    }

    fn version(&self) -> String {
        // The revision that stands in the campaign's record says more: the crate is built from it.
        format!("kiban {}", env!("CARGO_PKG_VERSION"))
    }

    fn open(&self, dir: &Path, profile: &Profile) -> Result<Box<dyn Engine>> {
        let options = options(profile);
        let archive = format!("{options:#?}\n");
        let db = SharedKiban::open(dir, options)?;
        Ok(Box::new(KibanEngine { db, archive }))
    }
}

/// Kiban counts the runs of all sizes against its limits, RocksDB the files of level 0 alone, with
/// one run beside them in each other level that it uses: with levels of dynamic size, its default,
/// and a first one of 4 MiB, those are three for a million records of the plans and two for a
/// hundred thousand. A read may find as many runs in either.
const LEVELS_BELOW: usize = 3;

/// The profile in the engine's words.
fn options(profile: &Profile) -> KibanOptions {
    let options = KibanOptions::new().cohort_wait_max_ns(profile.cohort_wait_ns);
    if profile.tuning == Tuning::Defaults {
        return options;
    }
    options
        .memtable_bytes(profile.memtable_bytes as usize)
        .memtables_max(profile.memtables as usize)
        .cache_bytes(profile.cache_bytes as usize)
        .table_bytes_max(profile.table_bytes)
        .open_files_max(profile.open_files as usize)
        .block_bytes(profile.block_bytes as usize)
        // The nearest to "files of level 0": the runs of one size that are merged into one. There
        // are no levels with a base and a multiplier.
        .tier_runs(profile.l0_trigger as usize)
        .runs_slow(profile.l0_slowdown as usize + LEVELS_BELOW)
        .runs_stop(profile.l0_stop as usize + LEVELS_BELOW)
        .point_index(profile.point_index)
        // Ribbon is not among its filters: bits of the block-wise Bloom filter are what it has.
        .filter_bits_per_key(if profile.filter == Filter::None { 0 } else { 10 })
        .scan_prefix_len(Some(profile.scan_prefix_len as usize).filter(|len| *len > 0))
        .reads(if profile.mmap_reads { Reads::Mapped } else { Reads::Pread })
        .map_read_ahead(profile.map_readahead)
}

struct KibanEngine {
    db: SharedKiban,
    archive: String,
}

impl Engine for KibanEngine {
    fn name(&self) -> &'static str {
        "kiban"
    }

    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<()> {
        if durable {
            self.db.put_durable(key, value)?;
        } else {
            self.db.put(key, value)?;
        }
        Ok(())
    }

    fn put_batch(&self, records: &[(&[u8], &[u8])], durable: bool) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in records {
            batch.put(key, value);
        }
        if durable {
            self.db.write_durable(&batch)?;
        } else {
            self.db.write(&batch)?;
        }
        Ok(())
    }

    fn delete(&self, key: &[u8], durable: bool) -> Result<()> {
        if durable {
            self.db.delete_durable(key)?;
        } else {
            self.db.delete(key)?;
        }
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(KibanReader(&self.db)))
    }

    fn for_each(&self, each: Walk<'_>) -> Result<()> {
        hand_on_all(self.db.range::<&[u8]>(..)?, each)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.sync()?)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }

    fn debt(&self) -> Result<Debt> {
        // It tells the workers to look, so that without patience it would never see them at rest.
        let settled = self.db.wait_settled(POLL)?;
        Ok(Debt { settled, bytes: Some(self.db.stats().debt_bytes) })
    }

    fn account(&self) -> Result<Account> {
        let stats = self.db.stats();
        let stall = |count, ns| Stall { count: Some(count), ns };
        Ok(Account {
            user_bytes: Some(stats.record_bytes),
            // The log's frames have headers of their own that no counter holds.
            log_bytes: None,
            flush_bytes: Some(stats.flush_bytes),
            compaction_bytes: Some(stats.compaction_bytes),
            // Of the log alone: those of tables, manifests and directories are not in it.
            syncs: Some(stats.syncs),
            flushes: Some(stats.flushes),
            compactions: Some(stats.compactions),
            stalls: [
                ("all", stall(stats.stalls, Some(stats.stall_ns))),
                ("memtables", stall(stats.stalls_memtables, None)),
                ("runs", stall(stats.stalls_runs, None)),
                ("logs", stall(stats.stalls_logs, None)),
                ("delays", stall(stats.delays, Some(stats.delay_ns))),
            ]
            .map(|(cause, stall)| (cause.to_string(), stall))
            .into(),
            runs: Some(stats.runs),
        })
    }

    fn effective_options(&self) -> Result<EffectiveOptions> {
        Ok(EffectiveOptions {
            file_name: "kiban-options.txt".into(),
            bytes: self.archive.clone().into_bytes(),
            knobs: Vec::new(),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

struct KibanReader<'a>(&'a SharedKiban);

impl Reader for KibanReader<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.0.get_with(key, |value| found(value))?.is_some())
    }

    fn first_of_prefix(&mut self, prefix: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        hand_on(self.0.prefix(prefix)?, n, each)
    }

    fn scan_from(&mut self, start: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        hand_on(self.0.range(start..)?, n, each)
    }
}
