//! A view of the database that nothing changes.
//!
//! Invariants
//! - S1: what it reads never changes; retention keeps what it can read while it lives (G1).

use crate::base::key::SeqNo;
use crate::base::slice::Slice;
use crate::engine::Core;
use crate::env::sync::Arc;
use crate::error::Result;
use crate::kiban::key_range;
use crate::read::iter::{Iter, ScanRange};
use std::ops::RangeBounds;

struct Registered {
    core: Arc<Core>,
    at: SeqNo,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.core.snapshots.release(self.at);
        self.core.reader_ended();
    }
}

/// The database as of one moment. Clones are the same moment. After `close` it answers
/// [`crate::Error::Closed`].
#[derive(Clone)]
pub struct Snapshot(Arc<Registered>);

impl Snapshot {
    pub(crate) fn new(core: Arc<Core>) -> Result<Self> {
        core.health.check_readable()?;
        let at = core.snapshots.register(&core.published);
        Ok(Self(Arc::new(Registered { core, at })))
    }

    /// The last sequence that it sees.
    #[must_use]
    pub fn sequence(&self) -> SeqNo {
        self.0.at
    }

    /// The value of `key` then.
    ///
    /// # Errors
    /// As [`crate::Kiban::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.0.core.get(key.as_ref(), Some(self.0.at))
    }

    /// Runs `found` on the value of `key` then, without copying it.
    ///
    /// # Errors
    /// As [`crate::Kiban::get`].
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        found: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.0.core.get_with(key.as_ref(), Some(self.0.at), found)
    }

    /// The values of `keys` then, in their order.
    ///
    /// # Errors
    /// As [`crate::Kiban::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.0.core.multi_get(keys, Some(self.0.at))
    }

    /// The keys and values in `range` then.
    ///
    /// # Errors
    /// `Closed`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        Iter::new(self.0.core.clone(), Some(self.0.at), ScanRange::new(key_range(&range)))
    }

    /// The keys that began with `prefix` then, and their values.
    ///
    /// # Errors
    /// `Closed`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        Iter::new(self.0.core.clone(), Some(self.0.at), ScanRange::prefix(prefix.as_ref()))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Snapshot").field(&self.0.at).finish()
    }
}
