//! Checked, decompressed blocks and sections of tables, shared by all readers.
//!
//! Invariants
//! - What is put in has passed its checksum.
//! - A block is immutable; a reader that holds one keeps it alive whatever the cache does.

use crate::base::key::TableId;
use crate::base::slice::Pin;
use crate::env::cache::{Cache, Weigh};
use crate::env::sync::Arc;

/// What a block costs beside its bytes, about.
const OVERHEAD_BYTES: u64 = 96;

/// The bytes of a block or section.
pub struct Block {
    bytes: Box<[u8]>,
}

impl Block {
    /// A block of these bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into_boxed_slice() }
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Pin for Block {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Weigh for Block {
    fn weight(&self) -> u64 {
        self.bytes.len() as u64 + OVERHEAD_BYTES
    }
}

/// A bounded cache of blocks.
pub struct BlockCache(Cache<(TableId, u32), Block>);

impl BlockCache {
    /// A cache of `bytes` for blocks of about `block_bytes`.
    #[must_use]
    pub fn new(bytes: u64, block_bytes: usize) -> Self {
        Self(Cache::new(bytes, block_bytes as u64 + OVERHEAD_BYTES))
    }

    /// The block at an offset of a table.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &(TableId, u32)) -> Option<Arc<Block>> {
        self.0.get(key)
    }

    /// Keeps a block for a while.
    pub fn insert(&self, key: (TableId, u32), block: Arc<Block>) {
        self.0.insert(key, block);
    }

    /// Bytes held now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.weight()
    }
}
