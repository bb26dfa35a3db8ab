//! redb's adapter.
//!
//! - Durable writes commit with `Durability::Immediate`.
//! - redb has no buffered writes: a commit with `Durability::None` stays in the process's memory,
//!   and is lost with it, until a commit with `Immediate`. So it takes no part in rows that
//!   acknowledge buffered writes; preloading may use it, since a `sync` follows.
//! - One read transaction per call, as its documentation has it. One writer at a time, by its own
//!   lock.

use super::{locked_version, prefix_end};
use crate::engine::{Each, EffectiveOptions, Engine, Opener, Reader, Result, Walk};
use crate::profile::{Profile, Tuning};
use redb::{Builder, Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::ops::Bound;
use std::path::Path;

/// redb.
pub struct RedbOpener;

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");

impl Opener for RedbOpener {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn version(&self) -> String {
        format!("redb {}", locked_version("redb"))
    }

    fn declines(&self, _profile: &Profile, buffered: bool) -> Option<String> {
        let why = "redb keeps a commit that is not synced in the process's memory: it can't hand a \
            write to the kernel without a sync";
        buffered.then(|| why.to_string())
    }

    fn open(&self, dir: &Path, profile: &Profile) -> Result<Box<dyn Engine>> {
        let mut builder = Builder::new();
        if profile.tuning == Tuning::Matched {
            // Of pages read and of pages to be written, together.
            builder.set_cache_size(profile.cache_bytes as usize);
        }
        let db = builder.create(dir.join("records.redb"))?;
        let engine = RedbEngine { db, profile: profile.clone() };
        // Readers fail on a table that is not there.
        engine.write(true, |_| Ok(()))?;
        Ok(Box::new(engine))
    }
}

struct RedbEngine {
    db: Database,
    profile: Profile,
}

type Table<'txn> = redb::Table<'txn, &'static [u8], &'static [u8]>;

impl RedbEngine {
    fn write(
        &self,
        durable: bool,
        change: impl FnOnce(&mut Table<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(if durable { Durability::Immediate } else { Durability::None })?;
        change(&mut txn.open_table(TABLE)?)?;
        Ok(txn.commit()?)
    }
}

impl Engine for RedbEngine {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<()> {
        self.write(durable, |table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn put_batch(&self, records: &[(&[u8], &[u8])], durable: bool) -> Result<()> {
        self.write(durable, |table| {
            for (key, value) in records {
                table.insert(*key, *value)?;
            }
            Ok(())
        })
    }

    fn delete(&self, key: &[u8], durable: bool) -> Result<()> {
        self.write(durable, |table| {
            table.remove(key)?;
            Ok(())
        })
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(RedbReader(&self.db)))
    }

    fn for_each(&self, each: Walk<'_>) -> Result<()> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        for entry in table.iter()? {
            let (key, value) = entry?;
            each(key.value(), value.value())?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        // A commit with `Immediate` takes all before it along.
        self.write(true, |_| Ok(()))
    }

    fn effective_options(&self) -> Result<EffectiveOptions> {
        // redb tells nothing back, so there is no knob to compare: this is what it was given.
        let cache = match self.profile.tuning {
            Tuning::Matched => self.profile.cache_bytes.to_string(),
            Tuning::Defaults => "its default".to_string(),
        };
        let listing = format!("cache_size (as given) = {cache}\ntwo_phase_commit = false\n");
        Ok(EffectiveOptions {
            file_name: "redb-options.txt".into(),
            bytes: listing.into_bytes(),
            knobs: Vec::new(),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()?;
        Ok(self.db.close()?)
    }
}

struct RedbReader<'a>(&'a Database);

impl Reader for RedbReader<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        let value = table.get(key)?;
        if let Some(value) = &value {
            found(value.value());
        }
        Ok(value.is_some())
    }

    fn first_of_prefix(&mut self, prefix: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        let end = prefix_end(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.hand_on((Bound::Included(prefix), end), n, each)
    }

    fn scan_from(&mut self, start: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        self.hand_on((Bound::Included(start), Bound::Unbounded), n, each)
    }
}

impl RedbReader<'_> {
    fn hand_on(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        n: usize,
        each: Each<'_>,
    ) -> Result<usize> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        let mut count = 0;
        for entry in table.range::<&[u8]>(range)?.take(n) {
            let (key, value) = entry?;
            each(key.value(), value.value());
            count += 1;
        }
        Ok(count)
    }
}
