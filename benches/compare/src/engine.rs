//! What the campaign asks of an engine: one adapter trait, the same for all.
//!
//! - An adapter does what its documentation says and no more: no cache of its own, no skipped copy
//!   that the engine's API does not offer.
//! - "Buffered" means handed to the kernel before the call returns, "durable" means synced before
//!   it returns. An engine that can't do one of them says so with an error from `open`.
//! - Writes take `&self` from many threads; an engine with one writer serialises them itself.
//! - Reads go through a handle that one thread makes for itself.
//! - The effective options are read back from the engine, never copied from the profile.

use crate::profile::Profile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

pub use anyhow::Result;

/// An engine that was built in.
pub trait Opener: Sync {
    /// Its name on the command line and the board: `kiban`, `rocksdb`, `lmdb`, `sqlite`, `redb`,
    /// `fjall`.
    fn name(&self) -> &'static str;
    /// The version of the engine itself, and of the crate that brings it.
    fn version(&self) -> String;
    /// Why this engine has no part in rows that are opened with `profile`, and that acknowledge
    /// writes before a sync if `buffered`; `None` if it has.
    fn declines(&self, _profile: &Profile, _buffered: bool) -> Option<String> {
        None
    }
    /// Opens the database in `dir`, an existing directory; creates it where there is none.
    fn open(&self, dir: &Path, profile: &Profile) -> Result<Box<dyn Engine>>;
}

/// An open database.
pub trait Engine: Send + Sync {
    /// The opener's name.
    fn name(&self) -> &'static str;

    /// Sets one key.
    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<()>;

    /// Sets many keys in one atomic step.
    fn put_batch(&self, records: &[(&[u8], &[u8])], durable: bool) -> Result<()>;

    /// Sets one key by `put` and a `sync` of its own, for the rows that show what grouping brings.
    /// Only Kiban has both ways.
    fn put_then_sync(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value, false)?;
        self.sync()
    }

    /// Removes one key.
    fn delete(&self, key: &[u8], durable: bool) -> Result<()>;

    /// A handle for the reads of one thread, made and used on that thread.
    fn reader(&self) -> Result<Box<dyn Reader + '_>>;

    /// Walks all keys in ascending byte order.
    fn for_each(&self, each: Walk<'_>) -> Result<()>;

    /// Makes every acknowledged write durable.
    fn sync(&self) -> Result<()>;

    /// Moves what is in memory into the engine's main structure. By default there is no such step:
    /// a commit is in the tree when it returns.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the engine's background work has come to rest, asked every [`POLL`]. An engine that
    /// can say the moment may wait for it, no longer than that. By
    /// default nothing runs in the background.
    fn debt(&self) -> Result<Debt> {
        Ok(Debt { settled: true, bytes: None })
    }

    /// What the engine itself counts. Cheap; called about once a second. By default nothing.
    fn account(&self) -> Result<Account> {
        Ok(Account::default())
    }

    /// What the engine says its options are.
    fn effective_options(&self) -> Result<EffectiveOptions>;

    /// Syncs and closes; when it returns, no thread of the engine runs and another open succeeds.
    fn close(self: Box<Self>) -> Result<()>;
}

/// What a walk hands all keys and values to, until it fails.
pub type Walk<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// What a scan hands its keys and values to.
pub type Each<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// The reads of one thread.
pub trait Reader {
    /// Calls `found` with the value of `key`; returns whether there was one. One read transaction
    /// per call where the engine has them.
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Calls `each` with the first `n` keys that begin with `prefix`, ascending, and their values;
    /// returns how many there were.
    fn first_of_prefix(&mut self, prefix: &[u8], n: usize, each: Each<'_>) -> Result<usize>;

    /// Calls `each` with the first `n` keys at or after `start`, ascending, and their values;
    /// returns how many there were.
    fn scan_from(&mut self, start: &[u8], n: usize, each: Each<'_>) -> Result<usize>;
}

/// Whether background work is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debt {
    /// Nothing is running or pending.
    pub settled: bool,
    /// Bytes owed, by the engine's own definition; never compared between engines.
    pub bytes: Option<u64>,
}

/// The engine's own counters since `open`. `None` is "unknown", which is not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Bytes of user records handed in.
    pub user_bytes: Option<u64>,
    /// Bytes written to logs.
    pub log_bytes: Option<u64>,
    /// Bytes of tables that flushes wrote.
    pub flush_bytes: Option<u64>,
    /// Bytes of tables that compactions wrote.
    pub compaction_bytes: Option<u64>,
    /// Sync calls of its logs that the engine says it made since `open`: system calls, not
    /// requests. `None` where the engine keeps no such counter. Those of tables, manifests and
    /// directories are not in it.
    pub syncs: Option<u64>,
    /// Flushes and compactions done.
    pub flushes: Option<u64>,
    /// Compactions done.
    pub compactions: Option<u64>,
    /// Writes that waited, by cause, and for how long in nanoseconds.
    pub stalls: BTreeMap<String, Stall>,
    /// Sorted runs, or files of level 0, now.
    pub runs: Option<u64>,
}

/// Writes that waited for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// How many, where the engine counts them.
    pub count: Option<u64>,
    /// How long, where the engine measures it, summed over threads.
    pub ns: Option<u64>,
}

/// What an engine says about its own options.
#[derive(Clone, Debug, Default)]
pub struct EffectiveOptions {
    /// A file to archive: its name, and its bytes as the engine wrote them (RocksDB's OPTIONS
    /// file), or a listing that the adapter made of values read back.
    pub file_name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Knobs by name: what the profile asked for, and what the engine has. A difference fails the
    /// trial. Only what can be read back stands here.
    pub knobs: Vec<Knob>,
}

/// One named knob, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// The engine's name for it.
    pub name: String,
    /// What was asked for.
    pub asked: String,
    /// What it is.
    pub got: String,
}

/// How often an engine is asked whether it has come to rest: so short that an engine that can only
/// be asked loses nothing worth telling to one that can be waited for.
pub const POLL: Duration = Duration::from_millis(10);

/// Waits until background work has come to rest, at most `bound`. Returns whether it did, after how
/// long, and what was left.
pub fn settle(engine: &dyn Engine, bound: Duration) -> Result<(bool, Duration, Debt)> {
    let start = std::time::Instant::now();
    loop {
        let asked = start.elapsed();
        let debt = engine.debt()?;
        let took = start.elapsed();
        if debt.settled || took >= bound {
            return Ok((debt.settled, took, debt));
        }
        // What the engine itself waited is part of the step.
        std::thread::sleep((asked + POLL).min(bound).saturating_sub(took));
    }
}
