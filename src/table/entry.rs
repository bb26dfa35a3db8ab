//! One entry inside a block: kind, lengths, sequence, the rest of the key, the value.
//!
//! Invariants
//! - At a restart point `shared` is 0 and the key is whole; elsewhere `shared` is the longest
//!   common prefix with the key before it.
//! - All sums are checked: lengths are up to 1 GiB and come from disk.
//! - A reserved kind, a flag, a value on a removal or a sequence over its limit is refused.

use crate::base::coding::{Reader, put_varint};
use crate::base::key::{EntryRef, KEY_BYTES_MAX, Kind, SeqNo};

/// An upper bound of the bytes before the key.
pub const HEADER_BYTES_MAX: usize = 1 + 3 + 3 + 5 + 8;

/// An entry as it stands in a block, with a part of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEntry<'a> {
    /// Whether it sets or removes.
    pub kind: Kind,
    /// Its place in the commit order.
    pub seq: SeqNo,
    /// Leading bytes that its key has in common with the key before it.
    pub shared: usize,
    /// The rest of its key.
    pub suffix: &'a [u8],
    /// Where its value begins in the block.
    pub value_start: usize,
    /// Where its value ends and the next entry begins.
    pub end: usize,
}

/// Appends `entry`, of whose key the first `shared` bytes are left out.
#[inline]
pub fn encode(buf: &mut Vec<u8>, entry: &EntryRef<'_>, shared: usize) {
    let suffix = &entry.key[shared..];
    buf.push(entry.kind as u8);
    put_varint(buf, shared as u64);
    put_varint(buf, suffix.len() as u64);
    put_varint(buf, entry.value.len() as u64);
    put_varint(buf, entry.seq.0);
    buf.extend_from_slice(suffix);
    buf.extend_from_slice(entry.value);
}

/// Decodes the entry at `at`, which lies inside of `block`.
///
/// # Errors
/// What is wrong with the bytes.
#[inline]
pub fn decode(block: &[u8], at: usize) -> Result<RawEntry<'_>, &'static str> {
    const CUT: &str = "an entry is cut off";
    let bytes = block.get(at..).ok_or(CUT)?;
    let mut reader = Reader::new(bytes);
    let kind = reader.u8().ok_or(CUT)?;
    let shared = reader.varint_usize().ok_or(CUT)?;
    let unshared = reader.varint_usize().ok_or(CUT)?;
    let value_len = reader.varint_usize().ok_or(CUT)?;
    let seq = reader.varint().ok_or(CUT)?;
    let suffix = reader.take(unshared).ok_or(CUT)?;
    let value_start = block.len() - reader.rest().len();
    if value_len > reader.rest().len() {
        return Err(CUT);
    }
    let kind = Kind::from_byte(kind).ok_or("an entry's kind or flag is reserved or unknown")?;
    if shared > KEY_BYTES_MAX || unshared > KEY_BYTES_MAX - shared {
        return Err("a key is over its limit");
    }
    if seq > SeqNo::MAX.0 || (kind == Kind::Delete && value_len > 0) {
        return Err("an entry's fields contradict each other");
    }
    let end = value_start + value_len;
    Ok(RawEntry { kind, seq: SeqNo(seq), shared, suffix, value_start, end })
}

/// The number of leading bytes that two keys have in common.
#[inline]
#[must_use]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut at = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let [x, y] = [x, y].map(|c| u64::from_le_bytes(c.try_into().expect("invariant: 8 bytes")));
        if x != y {
            return at + (x ^ y).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y);
    at + rest.count()
}
