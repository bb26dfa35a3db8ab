//! RocksDB's adapter, by the `rocksdb` crate.
//!
//! - Durable writes are `WriteOptions::sync = true`; writers that come together form RocksDB's own
//!   write groups. Buffered ones are in the kernel when they return (`manual_wal_flush` is off).
//! - Reads are pinned: a cached value is handed on without a copy.
//! - The files are not mapped (`allow_mmap_reads` stays off): a mapped block never enters the block
//!   cache, whose size is one of the matched knobs.
//! - Statistics are on in diagnostic trials alone. What is counted without them is told always.

use super::rocksdb_options::{knobs, newest_file, options, scan_options};
use super::{hand_on_all, locked_version};
use crate::engine::{
    Account, Debt, Each, EffectiveOptions, Engine, Opener, Reader, Result, Stall, Walk,
};
use crate::profile::Profile;
use rocksdb::properties as property;
use rocksdb::statistics::{Histogram, Ticker};
use rocksdb::{DB, IteratorMode, Options, ReadOptions, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::path::Path;

/// RocksDB.
pub struct RocksdbOpener;

impl Opener for RocksdbOpener {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn version(&self) -> String {
        let (sys, krate) = (locked_version("librocksdb-sys"), locked_version("rocksdb"));
        let engine = sys.split_once('+').map_or(sys, |(_, engine)| engine);
        format!("RocksDB {engine} (rocksdb {krate})")
    }

    fn open(&self, dir: &Path, profile: &Profile) -> Result<Box<dyn Engine>> {
        let options = options(profile);
        let db = DB::open(&options, dir)?;
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        Ok(Box::new(RocksdbEngine {
            db,
            durable,
            buffered: WriteOptions::default(),
            options,
            profile: profile.clone(),
        }))
    }
}

struct RocksdbEngine {
    db: DB,
    durable: WriteOptions,
    buffered: WriteOptions,
    /// Holds the statistics.
    options: Options,
    profile: Profile,
}

impl RocksdbEngine {
    fn how(&self, durable: bool) -> &WriteOptions {
        if durable { &self.durable } else { &self.buffered }
    }

    fn gauge(&self, name: &property::PropName) -> Result<u64> {
        let value = self.db.property_int_value(name)?;
        value.ok_or_else(|| anyhow::anyhow!("RocksDB has no property {name}"))
    }

    /// A counter of the statistics, where they are on.
    fn ticker(&self, ticker: Ticker) -> Option<u64> {
        self.profile.statistics.then(|| self.options.get_ticker_count(ticker))
    }

    fn times(&self, histogram: Histogram) -> Option<u64> {
        let statistics = self.profile.statistics;
        statistics.then(|| self.options.get_histogram_data(histogram).count())
    }

    /// Stalls by cause. RocksDB counts them always, and measures their time, over all causes, in
    /// its statistics.
    fn stalls(&self) -> Result<BTreeMap<String, Stall>> {
        let text = self.db.property_value("rocksdb.cf-write-stall-stats")?.unwrap_or_default();
        let mut stalls = parse_stalls(&text);
        if let Some(micros) = self.ticker(Ticker::StallMicros) {
            stalls.entry("all".to_string()).or_default().ns = Some(micros * 1000);
        }
        Ok(stalls)
    }
}

impl Engine for RocksdbEngine {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<()> {
        Ok(self.db.put_opt(key, value, self.how(durable))?)
    }

    fn put_batch(&self, records: &[(&[u8], &[u8])], durable: bool) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, value) in records {
            batch.put(key, value);
        }
        Ok(self.db.write_opt(batch, self.how(durable))?)
    }

    fn delete(&self, key: &[u8], durable: bool) -> Result<()> {
        Ok(self.db.delete_opt(key, self.how(durable))?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        let get = ReadOptions::default();
        Ok(Box::new(RocksdbReader { db: &self.db, get, profile: &self.profile }))
    }

    fn for_each(&self, each: Walk<'_>) -> Result<()> {
        let mut all = ReadOptions::default();
        // Without it a prefix extractor would make an iterator over everything undefined.
        all.set_total_order_seek(true);
        // A check of all keys must not replace what the row has in the cache.
        all.fill_cache(false);
        hand_on_all(self.db.iterator_opt(IteratorMode::Start, all), each)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.flush_wal(true)?)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }

    fn debt(&self) -> Result<Debt> {
        let work = [
            property::MEM_TABLE_FLUSH_PENDING,
            property::NUM_IMMUTABLE_MEM_TABLE,
            property::NUM_RUNNING_FLUSHES,
            property::COMPACTION_PENDING,
            property::NUM_RUNNING_COMPACTIONS,
        ];
        let mut left = 0;
        for name in work {
            left += self.gauge(name)?;
        }
        let bytes = self.gauge(property::ESTIMATE_PENDING_COMPACTION_BYTES)?;
        Ok(Debt { settled: left == 0, bytes: Some(bytes) })
    }

    fn account(&self) -> Result<Account> {
        let level0 = property::num_files_at_level(0);
        let runs = self.db.property_value(&*level0)?.and_then(|files| files.parse().ok());
        Ok(Account {
            user_bytes: self.ticker(Ticker::BytesWritten),
            log_bytes: self.ticker(Ticker::WalFileBytes),
            flush_bytes: self.ticker(Ticker::FlushWriteBytes),
            compaction_bytes: self.ticker(Ticker::CompactWriteBytes),
            // Of the log alone: those of tables and manifests are not in it.
            syncs: self.ticker(Ticker::WalFileSynced),
            flushes: self.times(Histogram::FlushTime),
            compactions: self.times(Histogram::CompactionTime),
            stalls: self.stalls()?,
            runs,
        })
    }

    fn effective_options(&self) -> Result<EffectiveOptions> {
        let (file_name, bytes) = newest_file(self.db.path())?;
        let knobs = knobs(&self.profile, &bytes, &self.db)?;
        Ok(EffectiveOptions { file_name, bytes, knobs })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()?;
        // The drop closes and can't tell of an error; it waits for what runs, not for what could.
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

/// "Write Stall (count): cause: 1, other cause: 0, ..." without those that are zero. Totals are
/// left out: they are sums.
fn parse_stalls(text: &str) -> BTreeMap<String, Stall> {
    let counts = text.trim().trim_start_matches("Write Stall (count):");
    let pairs = counts.split(',').filter_map(|pair| pair.rsplit_once(':'));
    pairs
        .filter_map(|(cause, count)| Some((cause.trim(), count.trim().parse::<u64>().ok()?)))
        .filter(|(cause, count)| *count > 0 && !cause.starts_with("total-"))
        .map(|(cause, count)| (cause.to_string(), Stall { count: Some(count), ns: None }))
        .collect()
}

struct RocksdbReader<'a> {
    db: &'a DB,
    get: ReadOptions,
    profile: &'a Profile,
}

impl Reader for RocksdbReader<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get_pinned_opt(key, &self.get)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn first_of_prefix(&mut self, prefix: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        self.hand_on(scan_options(self.profile), prefix, prefix, n, each)
    }

    fn scan_from(&mut self, start: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        let mut options = ReadOptions::default();
        options.set_total_order_seek(true);
        self.hand_on(options, start, b"", n, each)
    }
}

impl RocksdbReader<'_> {
    /// The entries from `start` on, while they begin with `prefix`.
    fn hand_on(
        &self,
        options: ReadOptions,
        start: &[u8],
        prefix: &[u8],
        n: usize,
        each: Each<'_>,
    ) -> Result<usize> {
        // An iterator sees the state at its creation, so each call needs one of its own.
        let mut entries = self.db.raw_iterator_opt(options);
        entries.seek(start);
        let mut count = 0;
        while count < n {
            let Some((key, value)) = entries.item().filter(|(key, _)| key.starts_with(prefix))
            else {
                break;
            };
            each(key, value);
            count += 1;
            // The entry after the last one asked for is not read.
            if count < n {
                entries.next();
            }
        }
        entries.status()?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_told_by_cause() {
        let text = "Write Stall (count): l0-file-count-limit-delays: 3, memtable-limit-stops: 0, \
            total-delays: 3\n";
        let stall = Stall { count: Some(3), ns: None };
        let expected = BTreeMap::from([("l0-file-count-limit-delays".to_string(), stall)]);
        assert_eq!(parse_stalls(text), expected);
        assert!(parse_stalls("").is_empty());
    }
}
