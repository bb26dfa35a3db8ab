//! LMDB's adapter, by the `heed` crate.
//!
//! - Rows with durable writes open it without `MDB_NOSYNC`: every commit is one `fdatasync` of the
//!   pages and one write of the meta page through a descriptor with `O_DSYNC`, which no counter of
//!   sync calls sees.
//! - Other rows open it with `MDB_NOSYNC`: a commit then hands its pages to the kernel, as buffered
//!   writes do everywhere, and `sync` makes them durable. A durable write in such a row pays for a
//!   sync of its own.
//! - One read transaction per call, in the slot that LMDB keeps for the thread. A thread can't hold
//!   two, so a reader must not be used inside `for_each`.
//! - One writer at a time, by LMDB's own lock.
//! - Keys have 1 to 511 bytes.
//!
//! Why not safe: heed can't know that nobody else writes to the file that it maps, so opening it is
//! the caller's word.
#![allow(unsafe_code)]

use super::{hand_on, hand_on_all, locked_version};
use crate::engine::{Each, EffectiveOptions, Engine, Knob, Opener, Reader, Result, Walk};
use crate::profile::Profile;
use anyhow::ensure;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RwTxn};
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

/// LMDB.
pub struct LmdbOpener;

/// More than any plan's threads, so that a reader never finds the table full.
const READERS_MAX: u32 = 254;

/// How long `close` waits for the last reference. There is none but in a caller's error.
const CLOSE_MAX: Duration = Duration::from_secs(10);

impl Opener for LmdbOpener {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn version(&self) -> String {
        let version = heed::lmdb_version();
        let number = format!("{}.{}.{}", version.major, version.minor, version.patch);
        format!("LMDB {number} (heed {})", locked_version("heed"))
    }

    fn open(&self, dir: &Path, profile: &Profile) -> Result<Box<dyn Engine>> {
        let mut flags = EnvFlags::empty();
        flags.set(EnvFlags::NO_SYNC, !profile.durable);
        flags.set(EnvFlags::NO_READ_AHEAD, !profile.map_readahead);
        let mut options = EnvOpenOptions::new();
        options.map_size(profile.map_bytes as usize).max_readers(READERS_MAX);
        // SAFETY: NO_SYNC gives up durability, which the row does not ask for, and neither flag
        // memory safety.
        unsafe { options.flags(flags) };
        // SAFETY: the trial's directory is its own: nobody else opens, writes or truncates the file
        // while it is mapped.
        let env = unsafe { options.open(dir)? };
        let mut txn = env.write_txn()?;
        let table = env.create_database(&mut txn, None)?;
        txn.commit()?;
        Ok(Box::new(LmdbEngine { env, table, flags, profile: profile.clone() }))
    }
}

struct LmdbEngine {
    env: Env,
    table: Database<Bytes, Bytes>,
    flags: EnvFlags,
    profile: Profile,
}

impl LmdbEngine {
    fn commit(&self, txn: RwTxn, durable: bool) -> Result<()> {
        txn.commit()?;
        if durable && self.flags.contains(EnvFlags::NO_SYNC) {
            self.env.force_sync()?;
        }
        Ok(())
    }
}

impl Engine for LmdbEngine {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        self.table.put(&mut txn, key, value)?;
        self.commit(txn, durable)
    }

    fn put_batch(&self, records: &[(&[u8], &[u8])], durable: bool) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        for (key, value) in records {
            self.table.put(&mut txn, key, value)?;
        }
        self.commit(txn, durable)
    }

    fn delete(&self, key: &[u8], durable: bool) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        self.table.delete(&mut txn, key)?;
        self.commit(txn, durable)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(LmdbReader(self)))
    }

    fn for_each(&self, each: Walk<'_>) -> Result<()> {
        let txn = self.env.read_txn()?;
        hand_on_all(self.table.iter(&txn)?, each)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn effective_options(&self) -> Result<EffectiveOptions> {
        let flags = self.env.get_flags()?;
        let info = self.env.info();
        let txn = self.env.read_txn()?;
        let page_bytes = self.table.stat(&txn)?.page_size;
        let listing = format!(
            "flags = {flags:#x}\nmap_size = {}\nmax_readers = {}\npage_size = {page_bytes}\n\
             max_key_size = {}\n",
            info.map_size,
            info.maximum_number_of_readers,
            self.env.max_key_size(),
        );
        let has = |flag| EnvFlags::from_bits_retain(flags).contains(flag).to_string();
        let knob = |name: &str, asked: String, got: String| Knob { name: name.into(), asked, got };
        let knobs = vec![
            knob("MDB_NOSYNC", (!self.profile.durable).to_string(), has(EnvFlags::NO_SYNC)),
            knob(
                "MDB_NORDAHEAD",
                (!self.profile.map_readahead).to_string(),
                has(EnvFlags::NO_READ_AHEAD),
            ),
            knob("map_size", self.profile.map_bytes.to_string(), info.map_size.to_string()),
        ];
        Ok(EffectiveOptions {
            file_name: "lmdb-options.txt".into(),
            bytes: listing.into_bytes(),
            knobs,
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.force_sync()?;
        let closed = self.env.prepare_for_closing();
        ensure!(closed.wait_timeout(CLOSE_MAX), "LMDB's environment is still in use");
        Ok(())
    }
}

struct LmdbReader<'a>(&'a LmdbEngine);

impl Reader for LmdbReader<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let txn = self.0.env.read_txn()?;
        let value = self.0.table.get(&txn, key)?;
        if let Some(value) = value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn first_of_prefix(&mut self, prefix: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        let txn = self.0.env.read_txn()?;
        hand_on(self.0.table.prefix_iter(&txn, prefix)?, n, each)
    }

    fn scan_from(&mut self, start: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        let txn = self.0.env.read_txn()?;
        let range = (Bound::Included(start), Bound::Unbounded);
        hand_on(self.0.table.range(&txn, &range)?, n, each)
    }
}
