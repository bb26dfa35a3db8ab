//! The adapters, one for each engine, each behind its feature.
//!
//! | engine | durable write | buffered write | writers |
//! | --- | --- | --- | --- |
//! | Kiban | one sync for the group | in the kernel | groups |
//! | RocksDB | one sync for the group | in the kernel | groups |
//! | LMDB | one sync, one write with `O_DSYNC` | in the kernel (`MDB_NOSYNC`) | one |
//! | SQLite | one sync | in the kernel (`synchronous=NORMAL`) | one |
//! | redb | one sync | none: in the process | one |
//! | fjall | one sync | in the kernel | many, one sync each |
//!
//! - No adapter keeps anything of its own between calls but handles and options.
//! - Versions are those of `Cargo.lock`, which is compiled in.

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "kiban")]
mod kiban;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "rocksdb")]
mod rocksdb_options;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(test)]
mod tests;

use crate::engine::{Each, Opener, Result, Walk};
use std::ops::Deref;

/// Every engine that an adapter exists for, built in or not.
pub const KNOWN: [&str; 6] = ["kiban", "rocksdb", "lmdb", "sqlite", "redb", "fjall"];

/// The engines that were built in.
#[must_use]
pub fn built() -> Vec<&'static dyn Opener> {
    vec![
        #[cfg(feature = "kiban")]
        &kiban::KibanOpener,
        #[cfg(feature = "rocksdb")]
        &rocksdb::RocksdbOpener,
        #[cfg(feature = "lmdb")]
        &lmdb::LmdbOpener,
        #[cfg(feature = "sqlite")]
        &sqlite::SqliteOpener,
        #[cfg(feature = "redb")]
        &redb::RedbOpener,
        #[cfg(feature = "fjall")]
        &fjall::FjallOpener,
    ]
}

/// The version of a crate in the lock file that this binary was built with.
#[allow(dead_code, reason = "Kiban alone has no crate from a registry")]
fn locked_version(name: &str) -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let version = lock.split("\n[[package]]\n").find_map(|package| {
        let mut lines = package.lines();
        let named = lines.next()?.strip_prefix("name = \"")?.strip_suffix('"')? == name;
        named.then(|| lines.next()?.strip_prefix("version = \"")?.strip_suffix('"'))?
    });
    version.unwrap_or("unknown")
}

/// The first key after all that begin with `prefix`; `None` if every key from it on does or is
/// greater.
#[allow(dead_code, reason = "most engines scan by prefix themselves")]
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Hands on the first `n` entries of an iterator; returns how many there were. The one after them
/// is not asked for.
#[allow(dead_code, reason = "some engines' iterators can't be one")]
fn hand_on<K: Deref<Target = [u8]>, V: Deref<Target = [u8]>, E: Into<anyhow::Error>>(
    entries: impl Iterator<Item = Result<(K, V), E>>,
    n: usize,
    each: Each<'_>,
) -> Result<usize> {
    let mut count = 0;
    for entry in entries.take(n) {
        let (key, value) = entry.map_err(Into::into)?;
        each(&key, &value);
        count += 1;
    }
    Ok(count)
}

/// Hands on every entry of an iterator, until `each` fails.
#[allow(dead_code, reason = "some engines' iterators can't be one")]
fn hand_on_all<K: Deref<Target = [u8]>, V: Deref<Target = [u8]>, E: Into<anyhow::Error>>(
    entries: impl Iterator<Item = Result<(K, V), E>>,
    each: Walk<'_>,
) -> Result<()> {
    for entry in entries {
        let (key, value) = entry.map_err(Into::into)?;
        each(&key, &value)?;
    }
    Ok(())
}
