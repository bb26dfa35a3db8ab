//! One log frame, byte by byte. `docs/FORMAT.md` has the same table.
//!
//! ```text
//!  0  u32  crc         of the context (database, log number, offset), bytes 4..40, bytes 44..48
//!                      and the payload
//!  4  u32  payload_len
//!  8  u64  first       sequence of the group's first record; for a mark, of the next record
//! 16  u32  count       sequences in the group; 0 for every other kind
//! 20  u8   kind        1 header, 2 group, 3 watermark, 4 close
//! 21  u8   flags       0
//! 22  u16  magic       0x4C6B
//! 24  u64  synced.log     everything before this position is known to be synced,
//! 32  u64  synced.offset  in older logs too
//! 40  u32  header_crc  of the same context and bytes 4..40
//! 44  u32  reserved    0
//! 48       payload, then zeros up to a multiple of 8
//! ```
//!
//! Invariants
//! - A frame starts at a multiple of 8, so that a reader finds the next one beyond a hole.
//! - `header_crc` lets a header be believed where the payload is torn: its sequences were issued
//!   (C2), though the group is not there.
//! - `crc` leaves `header_crc` out. The CRC of a message that ends in its own CRC is a constant:
//!   with it, `crc` would depend on neither context nor header, and a stale payload of another
//!   place would pass.
//! - A kind, flag or version that this code does not know is an error, never skipped.
//!
//! Rejected: a length-linked list of records without `header_crc`. After a torn payload nothing
//! could be said about which sequences the torn group had.

use crate::base::checksum::{Context, checksum, checksum_onward};
use crate::base::coding::{Reader, put_u16, put_u32, put_u64, put_u128};
use crate::base::key::{DatabaseId, FileNumber, LogPosition, ManifestMark, SeqNo};
use crate::error::{Error, Result};
use std::path::Path;

/// The bytes of a frame before its payload.
pub const HEADER_BYTES: usize = 48;
/// Every frame starts at a multiple of this.
pub const ALIGN: u64 = 8;
/// Marks bytes that may be a frame, before any checksum is taken.
pub const MAGIC: u16 = 0x4c6b;
/// The newest log format that this code reads and the one that it writes; 0 is unstable.
pub const FORMAT_VERSION: u32 = 0;

const HEADER_PAYLOAD_BYTES: usize = 60;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The first frame of a log.
    Header = 1,
    /// A group of records.
    Group = 2,
    /// Carries the synced position when nothing else would.
    Watermark = 3,
    /// As a watermark; the handle was closed after it.
    Close = 4,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Header),
            2 => Some(Self::Group),
            3 => Some(Self::Watermark),
            4 => Some(Self::Close),
            _ => None,
        }
    }
}

/// Where a frame stands: what its checksums cover beside its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The database.
    pub db: DatabaseId,
    /// The log.
    pub log: FileNumber,
    /// The frame's first byte in it.
    pub offset: u64,
}

impl Place {
    fn context(self) -> Context {
        Context::Log(self.db, self.log, self.offset)
    }
}

/// What a frame's header says, beside the checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// What it is.
    pub kind: FrameKind,
    /// The group's first sequence; for a mark the sequence that comes next.
    pub first: SeqNo,
    /// How many sequences the group has.
    pub count: u32,
    /// The synced-up-to position when the frame was appended.
    pub synced: LogPosition,
}

/// What the first frame of a log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// The log before it and that one's final length; log 0 for the first log of a chain.
    pub predecessor: LogPosition,
    /// A manifest frame known to be synced when the log began; number 0 for none.
    pub manifest: ManifestMark,
}

impl LogHeader {
    /// The payload of the log's first frame.
    #[must_use]
    pub fn encode(&self, db: DatabaseId, log: FileNumber) -> Vec<u8> {
        let mut payload = Vec::with_capacity(HEADER_PAYLOAD_BYTES);
        put_u32(&mut payload, FORMAT_VERSION);
        put_u128(&mut payload, db.0);
        put_u64(&mut payload, log.0);
        put_u64(&mut payload, self.predecessor.log.0);
        put_u64(&mut payload, self.predecessor.offset);
        put_u64(&mut payload, self.manifest.number.0);
        put_u64(&mut payload, self.manifest.index);
        payload
    }

    /// Reads the payload of the first frame of `log`, whose checksum was right.
    ///
    /// # Errors
    /// `UnsupportedFormat` for a newer version; `Corruption` for anything that this version does
    /// not write.
    pub fn decode(file: &Path, payload: &[u8], db: DatabaseId, log: FileNumber) -> Result<Self> {
        let bad = |what: &str| Error::corruption(file, HEADER_BYTES as u64, what);
        let mut reader = Reader::new(payload);
        let found = reader.u32().ok_or_else(|| bad("log header without a format version"))?;
        if found > FORMAT_VERSION {
            return Err(Error::UnsupportedFormat {
                file: file.to_path_buf(),
                found,
                supported: FORMAT_VERSION,
            });
        }
        let mut fields = || {
            let ids = (reader.u128()?, reader.u64()?);
            let predecessor = LogPosition { log: FileNumber(reader.u64()?), offset: reader.u64()? };
            let manifest = ManifestMark { number: FileNumber(reader.u64()?), index: reader.u64()? };
            reader.is_empty().then_some((ids, Self { predecessor, manifest }))
        };
        let (ids, header) = fields().ok_or_else(|| bad("log header of a wrong length"))?;
        if ids != (db.0, log.0) {
            return Err(bad("log header of another database or log"));
        }
        if header.predecessor.log >= log {
            return Err(bad("log header names a predecessor that is not older"));
        }
        Ok(header)
    }
}

/// The bytes that a frame with `payload_len` bytes of payload takes in the file.
#[must_use]
pub fn frame_bytes(payload_len: usize) -> u64 {
    ((HEADER_BYTES + payload_len) as u64).next_multiple_of(ALIGN)
}

/// Appends a whole frame to `buf`, its padding included. `parts` are the payload, one after the
/// other.
pub fn encode(buf: &mut Vec<u8>, place: Place, head: &FrameHead, parts: &[&[u8]]) {
    assert!(place.offset.is_multiple_of(ALIGN), "a frame starts at a multiple of 8");
    let payload_len: usize = parts.iter().map(|part| part.len()).sum();
    let payload_len_word = u32::try_from(payload_len).expect("invariant: a group is below 4 GiB");
    let start = buf.len();
    buf.reserve(HEADER_BYTES + payload_len + ALIGN as usize);
    put_u32(buf, 0);
    put_u32(buf, payload_len_word);
    put_u64(buf, head.first.0);
    put_u32(buf, head.count);
    buf.push(head.kind as u8);
    buf.push(0);
    put_u16(buf, MAGIC);
    put_u64(buf, head.synced.log.0);
    put_u64(buf, head.synced.offset);
    let header_crc = checksum(place.context(), &[&buf[start + 4..start + 40]]);
    put_u32(buf, header_crc);
    put_u32(buf, 0);
    for part in parts {
        buf.extend_from_slice(part);
    }
    let crc = checksum_onward(header_crc, &[&buf[start + 44..]]);
    buf[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    buf.resize(start + frame_bytes(payload_len) as usize, 0);
}

/// A header whose checksum is right: these bytes were written by this database to this log at this
/// offset. Its fields are checked by [`Parsed::head`].
#[derive(Clone, Copy, Debug)]
pub struct Parsed {
    crc: u32,
    header_crc: u32,
    /// The payload's length, which may reach beyond the file's end.
    pub payload_len: u32,
    first: u64,
    count: u32,
    kind: u8,
    flags: u8,
    synced: LogPosition,
    reserved: u32,
}

/// The header at the start of `bytes`, if its checksum is right.
#[must_use]
pub fn parse(bytes: &[u8], place: Place) -> Option<Parsed> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    if header[22..24] != MAGIC.to_le_bytes() {
        return None;
    }
    let mut reader = Reader::new(header);
    let (crc, payload_len) = (reader.u32()?, reader.u32()?);
    let (first, count) = (reader.u64()?, reader.u32()?);
    let (kind, flags, _magic) = (reader.u8()?, reader.u8()?, reader.u16()?);
    let synced = LogPosition { log: FileNumber(reader.u64()?), offset: reader.u64()? };
    let (header_crc, reserved) = (reader.u32()?, reader.u32()?);
    (checksum(place.context(), &[&header[4..40]]) == header_crc).then_some(Parsed {
        crc,
        header_crc,
        payload_len,
        first,
        count,
        kind,
        flags,
        synced,
        reserved,
    })
}

impl Parsed {
    /// The payload's place in `bytes`, which start with this frame, if all of it is there and its
    /// checksum is right.
    #[must_use]
    pub fn payload<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let len = HEADER_BYTES.checked_add(usize::try_from(self.payload_len).ok()?)?;
        let frame = bytes.get(..len)?;
        // The header's checksum was found right, so going on from it binds the payload to header
        // and place.
        let crc = checksum_onward(self.header_crc, &[&frame[44..]]);
        (crc == self.crc).then(|| &frame[HEADER_BYTES..])
    }

    /// The fields, if this code knows what they mean. `intact` says that the payload's checksum,
    /// which alone covers the reserved word, was right too.
    ///
    /// # Errors
    /// What is wrong: the checksum was right, so this is another version's frame, or damage that
    /// no checksum sees, and must not be skipped.
    pub fn head(&self, offset: u64, intact: bool) -> Result<FrameHead, String> {
        let kind = FrameKind::from_byte(self.kind)
            .ok_or_else(|| format!("log frame of kind {}, which this version lacks", self.kind))?;
        if self.flags != 0 {
            return Err(format!(
                "log frame with flags {:#x}, which this version lacks",
                self.flags
            ));
        }
        if intact && self.reserved != 0 {
            return Err("log frame with its reserved word set".to_string());
        }
        if (kind == FrameKind::Header) != (offset == 0) {
            return Err("a log header is the first frame, and only that".to_string());
        }
        if (kind == FrameKind::Group) != (self.count > 0) {
            return Err(format!("log frame of kind {} with {} records", self.kind, self.count));
        }
        // Leaves a sequence for the next write, whatever the bytes say.
        if self.first == 0 || self.first >= SeqNo::MAX.0 - u64::from(self.count) {
            return Err(format!("log frame with sequence {}, which is out of range", self.first));
        }
        Ok(FrameHead { kind, first: SeqNo(self.first), count: self.count, synced: self.synced })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64) -> Place {
        Place { db: DatabaseId(7), log: FileNumber(3), offset }
    }

    fn head() -> FrameHead {
        let synced = LogPosition { log: FileNumber(2), offset: 96 };
        FrameHead { kind: FrameKind::Group, first: SeqNo(5), count: 2, synced }
    }

    #[test]
    fn a_frame_comes_back_and_only_in_its_place() {
        let mut buf = Vec::new();
        encode(&mut buf, place(64), &head(), &[b"pay", b"load"]);
        assert_eq!(buf.len() as u64, frame_bytes(7));
        let parsed = parse(&buf, place(64)).expect("a header");
        assert_eq!(parsed.head(64, true).expect("known fields"), head());
        assert_eq!(parsed.payload(&buf), Some(&b"payload"[..]));
        assert!(parse(&buf, place(72)).is_none());
        assert!(parse(&buf, Place { db: DatabaseId(8), ..place(64) }).is_none());
        assert!(parse(&buf, Place { log: FileNumber(4), ..place(64) }).is_none());
    }

    #[test]
    fn every_flipped_bit_is_seen_and_the_padding_is_free() {
        let mut buf = Vec::new();
        encode(&mut buf, place(64), &head(), &[b"payload"]);
        for bit in 0..(HEADER_BYTES + 7) * 8 {
            let mut bad = buf.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let whole = parse(&bad, place(64)).and_then(|p| p.payload(&bad).map(|_| ()));
            assert_eq!(whole, None, "bit {bit}");
        }
        buf.truncate(HEADER_BYTES + 7);
        let parsed = parse(&buf, place(64)).expect("a header");
        assert!(parsed.payload(&buf).is_some());
    }

    /// The same payload under another header, or the same header before another payload.
    #[test]
    fn a_payload_is_bound_to_its_header() {
        let frame = |first, payload: &[u8]| {
            let mut buf = Vec::new();
            encode(&mut buf, place(64), &FrameHead { first: SeqNo(first), ..head() }, &[payload]);
            buf
        };
        let (a, b) = (frame(5, b"payload"), frame(6, b"payload"));
        assert_ne!(a[..4], b[..4]);
        for (mut mixed, other) in [(a.clone(), b), (a, frame(5, b"PAYLOAD"))] {
            mixed[44..].copy_from_slice(&other[44..]);
            mixed[..4].copy_from_slice(&other[..4]);
            let parsed = parse(&mixed, place(64)).expect("a header");
            let passes = parsed.payload(&mixed).is_some();
            assert_eq!(passes, mixed == other);
        }
    }

    #[test]
    fn unknown_fields_are_refused_though_the_checksum_is_right() {
        let known = Parsed {
            crc: 0,
            header_crc: 0,
            payload_len: 0,
            first: 1,
            count: 1,
            kind: 2,
            flags: 0,
            synced: LogPosition::default(),
            reserved: 0,
        };
        assert!(known.head(64, true).is_ok());
        for unknown in [
            Parsed { kind: 5, ..known },
            Parsed { kind: 0, ..known },
            Parsed { flags: 1, ..known },
            Parsed { count: 0, ..known },
            Parsed { kind: 3, ..known },
            Parsed { kind: 1, count: 0, ..known },
            Parsed { reserved: 1, ..known },
            Parsed { first: 0, ..known },
            Parsed { first: SeqNo::MAX.0, ..known },
        ] {
            assert!(unknown.head(64, true).is_err(), "{unknown:?}");
        }
        assert!(known.head(0, true).is_err());
    }
}
