//! What a block may be compressed with.
//!
//! Invariants
//! - The codec's number in the properties never changes its meaning; 0 is none.
//! - A block is stored compressed only if that makes it shorter by an eighth, and by no more than
//!   a factor of [`RATIO_MAX`]: a reader allocates at most that times the bytes that it has read.
//! - A codec that was not compiled in is refused when a table is opened, with a typed error.

/// How much longer than its stored form a block may be.
pub const RATIO_MAX: u64 = 1024;

/// The codec of a table's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Compression {
    /// Blocks are stored as they are.
    #[default]
    None = 0,
    /// LZ4, block format. Needs the feature `lz4`.
    Lz4 = 1,
    /// Zstandard at level 3. Needs the feature `zstd`.
    Zstd = 2,
}

impl Compression {
    /// The codec that a number stands for.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Self::None, Self::Lz4, Self::Zstd].into_iter().find(|c| *c as u8 == byte)
    }

    /// Whether this build can use it.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        match self {
            Self::None => true,
            Self::Lz4 => cfg!(feature = "lz4"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// What a build without it says of a table that has it.
    pub(crate) fn missing(self) -> &'static str {
        match self {
            Self::None => "open table",
            Self::Lz4 => "open table compressed with LZ4 (build with feature `lz4`)",
            Self::Zstd => "open table compressed with Zstandard (build with feature `zstd`)",
        }
    }

    /// The compressed form of `raw`, if it is worth storing.
    pub(crate) fn compress(self, raw: &[u8]) -> Option<Vec<u8>> {
        let packed = self.pack(raw)?;
        let shorter = packed.len() <= raw.len() - raw.len() / 8;
        let bounded = raw.len() as u64 <= packed.len() as u64 * RATIO_MAX;
        (shorter && bounded).then_some(packed)
    }

    fn pack(self, raw: &[u8]) -> Option<Vec<u8>> {
        let _ = raw;
        match self {
            #[cfg(feature = "lz4")]
            Self::Lz4 => Some(lz4_flex::block::compress(raw)),
            #[cfg(feature = "zstd")]
            Self::Zstd => zstd::bulk::compress(raw, 3).ok(),
            _ => None,
        }
    }

    /// Fills `raw`, whose length the caller has bounded, from the compressed form.
    pub(crate) fn decompress(self, packed: &[u8], raw: &mut [u8]) -> Result<(), &'static str> {
        let filled = self.unpack(packed, raw).ok_or("a block does not decompress")?;
        if filled == raw.len() { Ok(()) } else { Err("a block decompresses to another length") }
    }

    fn unpack(self, packed: &[u8], raw: &mut [u8]) -> Option<usize> {
        let _ = (packed, &raw);
        match self {
            #[cfg(feature = "lz4")]
            Self::Lz4 => lz4_flex::block::decompress_into(packed, raw).ok(),
            #[cfg(feature = "zstd")]
            Self::Zstd => zstd::bulk::decompress_to_buffer(packed, raw).ok(),
            _ => None,
        }
    }
}
