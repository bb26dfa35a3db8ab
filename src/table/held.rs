//! The bytes that a cursor holds on to, and the reads of a maintenance cursor.
//!
//! Invariants
//! - A maintenance read comes from the file or the map at that moment, past every cache, and its
//!   checksum is compared every time: damage is never written out again under a fresh checksum.
//! - A stream reads each byte of a large table once, in steps of [`STREAM_BYTES`], and keeps one
//!   such step in memory; a block that is longer is read as a whole.
//!
//! Small tables are read through their map even so: a step would cost more than their pages.

use super::format::KIND_BLOCK;
use super::index::BlockHandle;
use super::reader::Table;
use super::source::Bytes;
use crate::cache::Block;
use crate::env::fs::File;
use crate::env::sync::Arc;
use crate::error::Result;
use std::ops::Range;

/// Bytes that a stream reads at once. Twice as many make a table large.
const STREAM_BYTES: u64 = 128 << 10;

/// Bytes that a cursor holds on to.
pub enum Held {
    /// A range of the table's map.
    Map(Range<usize>),
    /// A block or section of its own.
    Own(Arc<Block>),
    /// A range of the stream's buffer.
    Stream(Range<usize>),
    /// All of the stream's scratch.
    Scratch,
}

impl Held {
    /// Holds on to bytes that are at `range` of the map if they are in it.
    pub fn new(bytes: Bytes<'_>, range: Range<usize>) -> Self {
        match bytes {
            Bytes::Map(_) => Self::Map(range),
            Bytes::Shared(block) => Self::Own(block),
        }
    }

    /// The bytes.
    #[inline]
    pub fn bytes<'a>(&'a self, table: &'a Table, stream: &'a Stream) -> &'a [u8] {
        match self {
            Self::Map(range) => &table.source.map()[range.clone()],
            Self::Own(block) => block.bytes(),
            Self::Stream(range) => &stream.buffer[range.clone()],
            Self::Scratch => &stream.scratch,
        }
    }
}

/// The reads of a maintenance cursor.
#[derive(Default)]
pub struct Stream {
    /// Where to read; `None` for the map.
    file: Option<Arc<dyn File>>,
    buffer: Vec<u8>,
    /// File offset of the buffer.
    offset: u64,
    /// A decompressed block.
    scratch: Vec<u8>,
}

impl Stream {
    /// Reads of `table`.
    pub fn open(table: &Table) -> Result<Self> {
        let file = table.source.stream_file(2 * STREAM_BYTES)?;
        Ok(Self { file, ..Self::default() })
    }

    /// Reads and checks a block.
    pub fn load(&mut self, table: &Table, handle: BlockHandle) -> Result<Held> {
        let piece = handle.piece;
        let data_end = u64::from(table.properties.data_end);
        if piece.end() > data_end {
            return Err(table.bad_index());
        }
        let held = match self.file.clone() {
            None => Held::Map(piece.range()),
            Some(file) => {
                let offset = u64::from(piece.offset);
                if offset < self.offset || piece.end() > self.offset + self.buffer.len() as u64 {
                    self.refill(table, &*file, offset, u64::from(piece.len))?;
                }
                let start = (offset - self.offset) as usize;
                Held::Stream(start..start + piece.len as usize)
            }
        };
        table.source.check(piece, KIND_BLOCK, held.bytes(table, self), "block")?;
        if handle.raw_len == piece.len {
            return Ok(held);
        }
        let mut raw = std::mem::take(&mut self.scratch);
        let stored = held.bytes(table, self);
        table.source.decompress(handle, table.codec, stored, &mut raw)?;
        self.scratch = raw;
        Ok(Held::Scratch)
    }

    /// Fills the buffer with what stands at `offset`, `len_min` bytes or more.
    fn refill(&mut self, table: &Table, file: &dyn File, offset: u64, len_min: u64) -> Result<()> {
        let rest = u64::from(table.properties.data_end) - offset;
        self.buffer.resize(STREAM_BYTES.min(rest).max(len_min) as usize, 0);
        self.offset = offset;
        let read = table.source.read_into(file, offset, &mut self.buffer);
        if read.is_err() {
            // What a failed read left there is nothing.
            self.buffer.clear();
        }
        read
    }
}
