//! fjall's adapter.
//!
//! - Buffered writes are in the kernel when they return: fjall flushes its journal's buffer in each
//!   write. Durable ones are a write and `persist(SyncData)`, its `fdatasync`; it forms no groups,
//!   but one sync covers what others wrote before it.
//! - Options of a keyspace are fixed when it is created and kept in the database; fjall tells few
//!   of them back, so there are no knobs to compare.
//! - Its journal may grow to 512 MiB before flushes are forced: no knob of the matched profile.

use super::{hand_on, hand_on_all, locked_version};
use crate::engine::{Account, Debt, Each, EffectiveOptions, Engine, Opener, Reader, Result, Walk};
use crate::profile::{Filter, Profile, Tuning};
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use fjall::{CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::Arc;

/// fjall.
pub struct FjallOpener;

impl Opener for FjallOpener {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn version(&self) -> String {
        format!("fjall {} (lsm-tree {})", locked_version("fjall"), locked_version("lsm-tree"))
    }

    fn open(&self, dir: &Path, profile: &Profile) -> Result<Box<dyn Engine>> {
        let mut builder = Database::builder(dir);
        if profile.tuning == Tuning::Matched {
            builder = builder
                .cache_size(profile.cache_bytes)
                .max_cached_files(Some(profile.open_files as usize))
                .journal_compression(CompressionType::None);
        }
        let db = builder.open()?;
        let l0_trigger = u8::try_from(profile.l0_trigger)?;
        let records = db.keyspace("records", || keyspace_options(profile, l0_trigger))?;
        Ok(Box::new(FjallEngine { records, db, profile: profile.clone() }))
    }
}

fn keyspace_options(profile: &Profile, l0_trigger: u8) -> KeyspaceCreateOptions {
    let options = KeyspaceCreateOptions::default();
    if profile.tuning == Tuning::Defaults {
        return options;
    }
    let filter = match profile.filter {
        Filter::None => FilterPolicyEntry::None,
        // Bloom filters are what it has.
        Filter::Bloom | Filter::Ribbon => {
            FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0))
        }
    };
    // The first level has `l0_trigger` tables: its size can't be set by itself. Stops are fixed, at
    // 30 files of level 0.
    let leveled = Leveled::default()
        .with_l0_threshold(l0_trigger)
        .with_table_target_size(profile.table_bytes)
        .with_level_ratio_policy(vec![profile.level_multiplier as f32]);
    options
        .max_memtable_size(profile.memtable_bytes)
        .data_block_size_policy(BlockSizePolicy::all(profile.block_bytes))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        .filter_policy(FilterPolicy::all(filter))
        .compaction_strategy(Arc::new(leveled))
}

struct FjallEngine {
    records: Keyspace,
    db: Database,
    profile: Profile,
}

impl FjallEngine {
    fn persist(&self, durable: bool) -> Result<()> {
        if durable {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Engine for FjallEngine {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<()> {
        self.records.insert(key, value)?;
        self.persist(durable)
    }

    fn put_batch(&self, records: &[(&[u8], &[u8])], durable: bool) -> Result<()> {
        // A batch does not flush the journal's buffer unless it is told to.
        let mode = if durable { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.db.batch().durability(Some(mode));
        for (key, value) in records {
            batch.insert(&self.records, *key, *value);
        }
        Ok(batch.commit()?)
    }

    fn delete(&self, key: &[u8], durable: bool) -> Result<()> {
        self.records.remove(key)?;
        self.persist(durable)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(FjallReader(&self.records)))
    }

    fn for_each(&self, each: Walk<'_>) -> Result<()> {
        hand_on_all(self.records.iter().map(Guard::into_inner), each)
    }

    fn sync(&self) -> Result<()> {
        self.persist(true)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.records.rotate_memtable_and_wait()?)
    }

    fn debt(&self) -> Result<Debt> {
        let left = self.db.outstanding_flushes()
            + self.db.active_compactions()
            + self.records.sealed_memtable_count();
        Ok(Debt { settled: left == 0, bytes: None })
    }

    fn account(&self) -> Result<Account> {
        Ok(Account {
            compactions: Some(self.db.compactions_completed() as u64),
            runs: Some(self.records.l0_table_count() as u64),
            ..Account::default()
        })
    }

    fn effective_options(&self) -> Result<EffectiveOptions> {
        let listing = format!(
            "cache capacity = {}\nas given = {:#?}\n",
            self.db.cache_capacity(),
            self.profile,
        );
        Ok(EffectiveOptions {
            file_name: "fjall-options.txt".into(),
            bytes: listing.into_bytes(),
            knobs: Vec::new(),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()?;
        // The last handle's drop joins the workers and releases the lock.
        Ok(())
    }
}

struct FjallReader<'a>(&'a Keyspace);

impl Reader for FjallReader<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.0.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn first_of_prefix(&mut self, prefix: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        hand_on(self.0.prefix(prefix).map(Guard::into_inner), n, each)
    }

    fn scan_from(&mut self, start: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        hand_on(self.0.range(start..).map(Guard::into_inner), n, each)
    }
}
