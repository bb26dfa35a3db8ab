//! The fixed pieces of a table file: section kinds, properties and the footer.
//!
//! Invariants
//! - The last 16 bytes of a table (checksum, format version, magic) and what the checksum covers
//!   are frozen for every version to come, so that an old binary tells "newer" from "damaged".
//! - The footer's checksum covers the properties' checksum, these the sections', and the index
//!   every block's: whoever knows the footer's checksum (the manifest) knows the whole file.
//! - Any bytes decode to a value or to a reason; nothing here panics or allocates more than the
//!   bytes it was given.
//!
//! Entries, blocks, the index and the filters have files of their own. `docs/FORMAT.md` has every
//! byte.

use crate::base::checksum::{Context, checksum};
use crate::base::coding::{Reader, put_bytes, put_u32, put_u64, put_u128, put_varint};
use crate::base::key::{KEY_BYTES_MAX, SeqNo, TableId};
use std::ops::Range;

/// The newest table format that this binary reads, and the one that it writes.
pub const FORMAT_VERSION: u32 = 0;
/// The last eight bytes of every table.
pub const MAGIC: u64 = u64::from_le_bytes(*b"KibanTbl");
/// The footer's size.
pub const FOOTER_BYTES: usize = 64;
/// Sections begin at multiples of this: a bucket of the point index is then one cache line.
pub const SECTION_ALIGN: usize = 64;
/// The checksum kind of a data block.
pub const KIND_BLOCK: u8 = 1;
/// The checksum kind of the properties.
pub const KIND_PROPERTIES: u8 = 7;
/// The checksum kind of the footer.
pub const KIND_FOOTER: u8 = 8;

/// A section between the data blocks and the properties; the number is its checksum kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Section {
    /// Where the blocks are and what separates them.
    Index = 2,
    /// Where the restart points are.
    Restarts = 3,
    /// The point index.
    Points = 4,
    /// A Bloom filter over the keys.
    Filter = 5,
    /// A Bloom filter over the key prefixes.
    Prefixes = 6,
}

impl Section {
    /// Every section, in file order.
    pub const ALL: [Self; 5] =
        [Self::Index, Self::Restarts, Self::Points, Self::Filter, Self::Prefixes];

    /// Its place in [`Section::ALL`].
    #[must_use]
    pub const fn ordinal(self) -> usize {
        self as usize - Self::Index as usize
    }

    /// What it is called in an error.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Restarts => "restart points",
            Self::Points => "point index",
            Self::Filter => "filter",
            Self::Prefixes => "prefix filter",
        }
    }
}

/// Where a piece of a file is, and the checksum of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the file.
    pub offset: u32,
    /// Stored length.
    pub len: u32,
    /// Checksum of the stored bytes in their context.
    pub crc: u32,
}

impl Piece {
    /// The offset after its last byte; may lie beyond the file.
    #[must_use]
    pub fn end(self) -> u64 {
        u64::from(self.offset) + u64::from(self.len)
    }

    /// Its place in a slice of the whole file.
    #[inline]
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.offset as usize..self.offset as usize + self.len as usize
    }

    /// Whether `bytes` are what was written here as part of table `id`.
    #[must_use]
    pub fn holds(self, id: TableId, kind: u8, bytes: &[u8]) -> bool {
        let context = Context::Table(id, u64::from(self.offset), kind);
        bytes.len() == self.len as usize && checksum(context, &[bytes]) == self.crc
    }
}

/// What is known of a table as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Entries, all versions and removals counted.
    pub entries: u64,
    /// Removals among them.
    pub tombstones: u64,
    /// Distinct user keys.
    pub keys: u64,
    /// The smallest sequence number.
    pub seq_min: SeqNo,
    /// The largest sequence number.
    pub seq_max: SeqNo,
    /// Bytes of keys and values as they were given.
    pub raw_bytes: u64,
    /// Number of the codec that stored blocks may be compressed with; 0 for none.
    pub codec: u8,
    /// Entries from one restart point to the next, at most.
    pub restart_interval: u32,
    /// Data blocks.
    pub blocks: u32,
    /// Restart points in all blocks together.
    pub restarts: u32,
    /// Leading bytes that all separators in the index have in common.
    pub index_common: u32,
    /// Bits set per key in the filter.
    pub filter_probes: u8,
    /// Bits set per prefix in the prefix filter.
    pub prefix_probes: u8,
    /// Length of the prefixes in the prefix filter.
    pub prefix_len: Option<u32>,
    /// The first user key.
    pub first_key: Vec<u8>,
    /// The last user key.
    pub last_key: Vec<u8>,
    /// Where the last data block ends.
    pub data_end: u32,
    /// Sections by their place in [`Section::ALL`].
    pub sections: [Option<Piece>; Section::ALL.len()],
}

impl Properties {
    /// Appends the encoding.
    pub fn encode(&self, buf: &mut Vec<u8>) {
        for number in [
            self.entries,
            self.tombstones,
            self.keys,
            self.seq_min.0,
            self.seq_max.0,
            self.raw_bytes,
            u64::from(self.restart_interval),
            u64::from(self.blocks),
            u64::from(self.restarts),
            u64::from(self.index_common),
            self.prefix_len.map_or(0, |len| u64::from(len) + 1),
            u64::from(self.data_end),
        ] {
            put_varint(buf, number);
        }
        buf.extend_from_slice(&[self.codec, self.filter_probes, self.prefix_probes]);
        put_bytes(buf, &self.first_key);
        put_bytes(buf, &self.last_key);
        let present =
            || self.sections.iter().zip(Section::ALL).filter_map(|(p, s)| Some((s, (*p)?)));
        buf.push(present().count() as u8);
        for (section, piece) in present() {
            buf.push(section as u8);
            put_u32(buf, piece.offset);
            put_u32(buf, piece.len);
            put_u32(buf, piece.crc);
        }
    }

    /// Decodes and checks the properties of a table whose properties begin at `offset`.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: &[u8], offset: u32) -> Result<Self, &'static str> {
        let properties = Self::parse(bytes).ok_or("properties do not decode")?;
        properties.check(offset)?;
        Ok(properties)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let mut number = || reader.varint();
        let small = |n: u64| u32::try_from(n).ok();
        let [entries, tombstones, keys] = [number()?, number()?, number()?];
        let [seq_min, seq_max] = [SeqNo(number()?), SeqNo(number()?)];
        let raw_bytes = number()?;
        let [restart_interval, blocks] = [small(number()?)?, small(number()?)?];
        let [restarts, index_common] = [small(number()?)?, small(number()?)?];
        let prefix_len = match number()? {
            0 => None,
            n => Some(small(n - 1)?),
        };
        let data_end = small(number()?)?;
        let [codec, filter_probes, prefix_probes] = [reader.u8()?, reader.u8()?, reader.u8()?];
        let first_key = reader.bytes()?.to_vec();
        let last_key = reader.bytes()?.to_vec();
        let mut sections = [None; Section::ALL.len()];
        let mut above = 0;
        for _ in 0..reader.u8()? {
            let kind = reader.u8()?;
            let section = Section::ALL.into_iter().find(|s| *s as u8 == kind)?;
            if kind <= above {
                return None;
            }
            above = kind;
            let piece = Piece { offset: reader.u32()?, len: reader.u32()?, crc: reader.u32()? };
            sections[section.ordinal()] = Some(piece);
        }
        reader.is_empty().then_some(Self {
            entries,
            tombstones,
            keys,
            seq_min,
            seq_max,
            raw_bytes,
            codec,
            restart_interval,
            blocks,
            restarts,
            index_common,
            filter_probes,
            prefix_probes,
            prefix_len,
            first_key,
            last_key,
            data_end,
            sections,
        })
    }

    /// The relations that readers lean on. O(sections).
    fn check(&self, offset: u32) -> Result<(), &'static str> {
        let sane = self.entries > 0
            && self.tombstones <= self.entries
            && (1..=self.entries).contains(&self.keys)
            && self.seq_min <= self.seq_max
            && self.seq_max <= SeqNo::MAX
            && self.first_key <= self.last_key
            && self.last_key.len().max(self.first_key.len()) <= KEY_BYTES_MAX;
        if !sane {
            return Err("properties contradict each other");
        }
        let mut end = u64::from(self.data_end);
        for piece in self.sections.iter().flatten() {
            if u64::from(piece.offset) < end || piece.end() > u64::from(offset) {
                return Err("a section lies outside of its place");
            }
            end = piece.end();
        }
        let len = |s: Section| self.sections[s.ordinal()].map_or(0, |p| u64::from(p.len));
        let blocks = u64::from(self.blocks);
        if blocks == 0 || len(Section::Index) < blocks * super::index::BYTES_PER_BLOCK {
            return Err("the index is too short for its blocks");
        }
        if len(Section::Restarts) != u64::from(self.restarts) * super::restarts::RECORD_BYTES as u64
            || self.restarts < self.blocks
        {
            return Err("the restart points do not fit their number");
        }
        let lines = [Section::Points, Section::Filter, Section::Prefixes];
        if lines.into_iter().any(|s| len(s) % SECTION_ALIGN as u64 != 0) {
            return Err("a filter's length is no multiple of its line");
        }
        let empty = |s: Section| self.sections[s.ordinal()].is_some_and(|p| p.len == 0);
        if lines.into_iter().any(empty) {
            return Err("a filter is empty");
        }
        if self.sections[Section::Prefixes.ordinal()].is_some() != self.prefix_len.is_some() {
            return Err("a prefix filter and its prefix length do not go together");
        }
        Ok(())
    }

    /// Where `section` is, if the table has it.
    #[inline]
    #[must_use]
    pub fn section(&self, section: Section) -> Option<Piece> {
        self.sections[section.ordinal()]
    }
}

/// The last bytes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The table's identity.
    pub id: TableId,
    /// Where the properties are.
    pub properties: Piece,
    /// The format version.
    pub version: u32,
    /// The checksum of the rest.
    pub crc: u32,
}

/// Why a footer was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FooterError {
    /// The bytes are not a footer of this table.
    Bad(&'static str),
    /// They are, in a format that is newer than [`FORMAT_VERSION`].
    Newer(u32),
}

impl Footer {
    /// Encodes the footer of a table whose footer begins at `offset`.
    #[must_use]
    pub fn encode(id: TableId, properties: Piece, offset: u32) -> [u8; FOOTER_BYTES] {
        let mut buf = Vec::with_capacity(FOOTER_BYTES);
        put_u128(&mut buf, id.0);
        put_u32(&mut buf, properties.offset);
        put_u32(&mut buf, properties.len);
        put_u32(&mut buf, properties.crc);
        put_u32(&mut buf, offset);
        buf.extend_from_slice(&[0; 16]);
        put_u32(&mut buf, 0);
        put_u32(&mut buf, FORMAT_VERSION);
        put_u64(&mut buf, MAGIC);
        let mut bytes: [u8; FOOTER_BYTES] = buf.try_into().expect("invariant: the fields add up");
        let crc = Self::crc_of(&bytes, id, offset);
        bytes[48..52].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn crc_of(bytes: &[u8; FOOTER_BYTES], id: TableId, offset: u32) -> u32 {
        let context = Context::Table(id, u64::from(offset), KIND_FOOTER);
        checksum(context, &[&bytes[..48], &bytes[52..]])
    }

    /// Decodes the footer that begins at `offset`, of whichever table it is.
    ///
    /// # Errors
    /// What is wrong with the bytes, or that they are of a newer format.
    pub fn decode(bytes: &[u8; FOOTER_BYTES], offset: u32) -> Result<Self, FooterError> {
        let mut reader = Reader::new(bytes);
        let footer = Self::fields(&mut reader).ok_or(FooterError::Bad("footer is too short"))?;
        if reader.u64() != Some(MAGIC) {
            return Err(FooterError::Bad("no table magic at the end"));
        }
        if Self::crc_of(bytes, footer.id, offset) != footer.crc {
            return Err(FooterError::Bad("footer checksum does not match"));
        }
        if footer.version > FORMAT_VERSION {
            return Err(FooterError::Newer(footer.version));
        }
        if bytes[28..32] != offset.to_le_bytes() || bytes[32..48] != [0; 16] {
            return Err(FooterError::Bad("footer holds an unknown or misplaced field"));
        }
        if footer.properties.end() > u64::from(offset) {
            return Err(FooterError::Bad("the properties lie outside of the file"));
        }
        Ok(footer)
    }

    fn fields(reader: &mut Reader<'_>) -> Option<Self> {
        let id = TableId(reader.u128()?);
        let properties = Piece { offset: reader.u32()?, len: reader.u32()?, crc: reader.u32()? };
        let _offset_and_reserved = reader.take(20)?;
        let crc = reader.u32()?;
        Some(Self { id, properties, version: reader.u32()?, crc })
    }
}
