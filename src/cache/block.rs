//! Checked, decompressed blocks and sections of tables, shared by all readers.
//!
//! Invariants
//! - What is put in has passed its checksum.
//! - A block is immutable; a reader that holds one keeps it alive whatever the cache does.

use crate::base::key::TableId;
use crate::base::slice::Pin;
use crate::env::cache::{Cache, Weigh};
use crate::env::sync::{Arc, AtomicU64, Ordering};

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
pub struct BlockCache {
    blocks: Cache<(TableId, u32), Block>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What a cache did since it was made, and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFigures {
    /// Blocks that were asked for and were there.
    pub hits: u64,
    /// Blocks that were asked for and were not.
    pub misses: u64,
    /// Bytes held now.
    pub bytes: u64,
}

impl BlockCache {
    /// A cache of `bytes` for blocks of about `block_bytes`.
    #[must_use]
    pub fn new(bytes: u64, block_bytes: usize) -> Self {
        let blocks = Cache::new(bytes, block_bytes as u64 + OVERHEAD_BYTES);
        Self { blocks, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// The block at an offset of a table.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &(TableId, u32)) -> Option<Arc<Block>> {
        let block = self.blocks.get(key);
        let counter = if block.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        block
    }

    /// Keeps a block for a while.
    pub fn insert(&self, key: (TableId, u32), block: Arc<Block>) {
        self.blocks.insert(key, block);
    }

    /// The figures now.
    #[must_use]
    pub fn figures(&self) -> BlockFigures {
        BlockFigures {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            bytes: self.blocks.weight(),
        }
    }
}
