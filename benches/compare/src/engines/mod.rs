//! The adapters, one for each engine, each behind its feature.

use crate::engine::Opener;

/// Every engine that an adapter exists for, built in or not.
pub const KNOWN: [&str; 6] = ["kiban", "rocksdb", "lmdb", "sqlite", "redb", "fjall"];

/// The engines that were built in.
#[must_use]
pub fn built() -> Vec<&'static dyn Opener> {
    Vec::new()
}
