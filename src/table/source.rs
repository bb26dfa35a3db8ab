//! Where a table's bytes come from: a map of the file, or reads through the block cache.
//!
//! Invariants
//! - C1: bytes are handed out only after their checksum was compared: in a map at the first use
//!   per open table (one bit per piece remembers it), when read at every read.
//! - A mapped table keeps no file descriptor; one is opened for the time of a large maintenance
//!   read, so that rewriting a table does not draw it into the process's memory.
//! - Offsets and lengths come from disk: each is checked against the file before it is used, and
//!   bounds what is allocated.
//!
//! It knows pieces and blocks, not what is in them.

use super::codec::{Compression, RATIO_MAX};
use super::format::{KIND_BLOCK, Piece, Section};
use super::index::BlockHandle;
use crate::base::key::TableId;
use crate::cache::{Block, BlockCache};
use crate::env::fs::{File, Fs, Mapped, OpenMode, read_full_at};
use crate::env::sync::{Arc, AtomicU32, Ordering};
use crate::error::{Error, Result};
use std::ops::{Deref, Range};
use std::path::PathBuf;

/// How the tables of a database are read.
#[derive(Clone)]
pub enum Backend {
    /// Through a map. The cache, if any, holds decompressed blocks alone.
    Mapped {
        /// Opens a file again for maintenance reads.
        fs: Arc<dyn Fs>,
        /// For tables that are compressed.
        cache: Option<Arc<BlockCache>>,
        /// Whether a fault may bring in its neighbours.
        read_ahead: bool,
    },
    /// By reads of the file into the cache.
    Pread(Arc<BlockCache>),
}

/// Bytes of a piece: borrowed from the map or shared with the cache.
pub enum Bytes<'a> {
    /// A part of the map.
    Map(&'a [u8]),
    /// A block of its own.
    Shared(Arc<Block>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Map(bytes) => bytes,
            Self::Shared(block) => block.bytes(),
        }
    }
}

enum Store {
    Map { map: Mapped, fs: Arc<dyn Fs>, cache: Option<Arc<BlockCache>> },
    Pread { file: Arc<dyn File>, cache: Arc<BlockCache> },
}

/// The bytes of one table file.
pub struct Source {
    path: PathBuf,
    id: TableId,
    bytes: u64,
    store: Store,
    /// A bit per section, then one per block: set when its checksum was compared.
    checked: Box<[AtomicU32]>,
}

impl Source {
    /// Opens the file of table `id`, which has `bytes` bytes, for reading its tail.
    pub fn open(file: &Arc<dyn File>, id: TableId, bytes: u64, backend: Backend) -> Result<Self> {
        let path = file.path().to_path_buf();
        let store = match backend {
            Backend::Mapped { fs, cache, read_ahead } => {
                let map = file.map(bytes).map_err(|e| Error::io(&path, "map table", e))?;
                if !read_ahead {
                    map.leave_neighbours().map_err(|e| Error::io(&path, "advise table", e))?;
                }
                Store::Map { map, fs, cache }
            }
            Backend::Pread(cache) => Store::Pread { file: file.clone(), cache },
        };
        Ok(Self { path, id, bytes, store, checked: Box::default() })
    }

    /// Makes room to remember `blocks` blocks. Before it only [`Source::tail`] may be called.
    pub fn expect_blocks(&mut self, blocks: u32) {
        if matches!(self.store, Store::Map { .. }) {
            let words = (Section::ALL.len() + blocks as usize).div_ceil(32);
            self.checked = (0..words).map(|_| AtomicU32::new(0)).collect();
        }
    }

    /// An error that blames this file.
    #[cold]
    pub fn damaged(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corruption(&self.path, offset, what)
    }

    /// The whole map; nothing without one.
    #[inline]
    pub fn map(&self) -> &[u8] {
        match &self.store {
            Store::Map { map, .. } => map,
            Store::Pread { .. } => &[],
        }
    }

    /// The map, if block `ordinal`, which is not compressed, was checked in it.
    #[inline]
    pub fn map_with_checked(&self, ordinal: usize) -> Option<&[u8]> {
        self.is_checked(Section::ALL.len() + ordinal).then(|| self.map())
    }

    /// The last `len` bytes of the file, unchecked.
    pub fn tail(&self, len: u64) -> Result<Bytes<'_>> {
        self.range(self.bytes.saturating_sub(len)..self.bytes)
    }

    /// Reads `len` bytes that the file must have.
    fn read(&self, file: &dyn File, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.read_into(file, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes` from `offset` on.
    pub fn read_into(&self, file: &dyn File, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let filled = read_full_at(file, offset, bytes)
            .map_err(|e| Error::io(&self.path, "read table", e))?;
        if filled < bytes.len() {
            return Err(self.damaged(offset + filled as u64, "the file ends early"));
        }
        Ok(())
    }

    fn check_bounds(&self, piece: Piece, what: &str) -> Result<()> {
        if piece.end() > self.bytes {
            return Err(
                self.damaged(u64::from(piece.offset), format!("{what} outside of the file"))
            );
        }
        Ok(())
    }

    /// Compares the checksum of what stands at `piece`.
    pub fn check(&self, piece: Piece, kind: u8, bytes: &[u8], what: &str) -> Result<()> {
        if !piece.holds(self.id, kind, bytes) {
            let what = format!("{what} checksum does not match");
            return Err(self.damaged(u64::from(piece.offset), what));
        }
        Ok(())
    }

    /// A section's bytes.
    #[inline]
    pub fn section(&self, section: Section, piece: Piece) -> Result<Bytes<'_>> {
        if let Store::Map { map, .. } = &self.store
            && self.is_checked(section.ordinal())
            && let Some(bytes) = map.get(piece.range())
        {
            return Ok(Bytes::Map(bytes));
        }
        self.section_first(section, piece)
    }

    /// Whether a piece of the map was checked. Relaxed: the bit carries no data, the bytes do not
    /// change.
    #[inline]
    fn is_checked(&self, bit: usize) -> bool {
        let word = self.checked.get(bit / 32);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (bit % 32) != 0)
    }

    fn section_first(&self, section: Section, piece: Piece) -> Result<Bytes<'_>> {
        match &self.store {
            Store::Map { map, .. } => {
                self.mapped(map, piece, section.ordinal(), section as u8, section.name())
            }
            Store::Pread { file, cache } => {
                let key = (self.id, piece.offset);
                if let Some(block) = cache.get(&key) {
                    return Ok(Bytes::Shared(block));
                }
                let bytes = self.read_piece(&**file, piece, section as u8, section.name())?;
                let block = Arc::new(Block::new(bytes));
                cache.insert(key, block.clone());
                Ok(Bytes::Shared(block))
            }
        }
    }

    /// Reads and checks a piece, past the cache.
    fn read_piece(&self, file: &dyn File, piece: Piece, kind: u8, what: &str) -> Result<Vec<u8>> {
        self.check_bounds(piece, what)?;
        let bytes = self.read(file, u64::from(piece.offset), piece.len as usize)?;
        self.check(piece, kind, &bytes, what)?;
        Ok(bytes)
    }

    #[inline]
    fn mapped<'a>(
        &self,
        map: &'a Mapped,
        piece: Piece,
        bit: usize,
        kind: u8,
        what: &str,
    ) -> Result<Bytes<'a>> {
        let Some(bytes) = map.get(piece.range()) else {
            return self.check_bounds(piece, what).map(|()| Bytes::Map(&[]));
        };
        if !self.is_checked(bit) {
            self.check(piece, kind, bytes, what)?;
            self.checked[bit / 32].fetch_or(1 << (bit % 32), Ordering::Relaxed);
        }
        Ok(Bytes::Map(bytes))
    }

    /// The decompressed bytes of block `ordinal`.
    #[inline]
    pub fn block(
        &self,
        ordinal: usize,
        handle: BlockHandle,
        codec: Compression,
    ) -> Result<Bytes<'_>> {
        let piece = handle.piece;
        match &self.store {
            Store::Map { map, .. } if handle.raw_len == piece.len => {
                self.mapped(map, piece, Section::ALL.len() + ordinal, KIND_BLOCK, "block")
            }
            _ => self.cached_block(ordinal, handle, codec).map(Bytes::Shared),
        }
    }

    fn cached_block(
        &self,
        ordinal: usize,
        handle: BlockHandle,
        codec: Compression,
    ) -> Result<Arc<Block>> {
        let key = (self.id, handle.piece.offset);
        let cache = match &self.store {
            Store::Map { cache, .. } => cache.as_ref(),
            Store::Pread { cache, .. } => Some(cache),
        };
        if let Some(block) = cache.and_then(|cache| cache.get(&key)) {
            return Ok(block);
        }
        let piece = handle.piece;
        let stored = match &self.store {
            Store::Map { map, .. } => {
                self.mapped(map, piece, Section::ALL.len() + ordinal, KIND_BLOCK, "block")?
            }
            Store::Pread { file, .. } => {
                let bytes = self.read_piece(&**file, piece, KIND_BLOCK, "block")?;
                Bytes::Shared(Arc::new(Block::new(bytes)))
            }
        };
        let block = match stored {
            Bytes::Shared(block) if handle.raw_len == piece.len => block,
            stored => {
                let mut raw = Vec::new();
                self.decompress(handle, codec, &stored, &mut raw)?;
                Arc::new(Block::new(raw))
            }
        };
        if let Some(cache) = cache {
            cache.insert(key, block.clone());
        }
        Ok(block)
    }

    /// Puts the decompressed form of a block into `raw`.
    pub fn decompress(
        &self,
        handle: BlockHandle,
        codec: Compression,
        stored: &[u8],
        raw: &mut Vec<u8>,
    ) -> Result<()> {
        let offset = u64::from(handle.piece.offset);
        if u64::from(handle.raw_len) > stored.len() as u64 * RATIO_MAX {
            return Err(self.damaged(offset, "a block claims an impossible length"));
        }
        raw.resize(handle.raw_len as usize, 0);
        codec.decompress(stored, raw).map_err(|what| self.damaged(offset, what))
    }

    /// Any range of the file, read afresh and unchecked.
    pub fn range(&self, range: Range<u64>) -> Result<Bytes<'_>> {
        let len = (range.end - range.start) as usize;
        match &self.store {
            Store::Map { map, .. } => {
                let bytes = map.get(range.start as usize..range.end as usize);
                bytes
                    .map(Bytes::Map)
                    .ok_or_else(|| self.damaged(range.start, "the file ends early"))
            }
            Store::Pread { file, .. } => {
                let bytes = self.read(&**file, range.start, len)?;
                Ok(Bytes::Shared(Arc::new(Block::new(bytes))))
            }
        }
    }

    /// A file to read from for maintenance; `None` where the map serves as well.
    pub fn stream_file(&self, bytes_min: u64) -> Result<Option<Arc<dyn File>>> {
        match &self.store {
            Store::Pread { file, .. } => Ok(Some(file.clone())),
            Store::Map { fs, .. } if self.bytes >= bytes_min => {
                let file = fs.open(&self.path, OpenMode::Read);
                file.map(Some).map_err(|e| Error::io(&self.path, "open table", e))
            }
            Store::Map { .. } => Ok(None),
        }
    }

    /// A section read for maintenance: checked now, and not through the cache.
    pub fn section_afresh(&self, section: Section, piece: Piece) -> Result<Bytes<'_>> {
        match &self.store {
            Store::Map { map, .. } => {
                self.check_bounds(piece, section.name())?;
                let bytes = &map[piece.range()];
                self.check(piece, section as u8, bytes, section.name())?;
                Ok(Bytes::Map(bytes))
            }
            Store::Pread { file, .. } => {
                let bytes = self.read_piece(&**file, piece, section as u8, section.name())?;
                Ok(Bytes::Shared(Arc::new(Block::new(bytes))))
            }
        }
    }
}
