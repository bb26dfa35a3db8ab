//! One entry in a block's key area: kind, lengths, sequence, the rest of the key.
//!
//! Invariants
//! - At a restart point `shared` is 0 and the key is whole; elsewhere `shared` is the longest
//!   common prefix with the key before it.
//! - All sums are checked: lengths are up to 1 GiB and come from disk.
//! - A reserved kind, a flag, a value on a removal or a sequence over its limit is refused.
//!
//! Values stand apart from the keys, so that a walk along keys stays in few cache lines.

use crate::base::coding::Reader;
use crate::base::key::{EntryRef, KEY_BYTES_MAX, Kind, SeqNo};

/// An upper bound of an entry's bytes without key and value.
pub const HEADER_BYTES_MAX: usize = 1 + 3 + 3 + 5 + 8;
/// What the fast path of [`decode`] looks at: kind, two short lengths, a value's length of up to
/// two bytes, a sequence of up to eight.
const FAST_BYTES: usize = 13;
const CUT: &str = "an entry is cut off";

/// An entry as it stands in a key area, with a part of its key.
#[derive(Clone, Copy, Debug)]
pub struct RawEntry<'a> {
    /// Whether it sets or removes.
    pub kind: Kind,
    /// Its sequence in seven-bit groups: most entries are passed over without asking for it.
    seq_groups: u64,
    /// Leading bytes that its key has in common with the key before it.
    pub shared: usize,
    /// The rest of its key.
    pub suffix: &'a [u8],
    /// The length of its value.
    pub value_len: usize,
    /// Where it ends and the next entry begins.
    pub end: usize,
}

impl RawEntry<'_> {
    /// Its place in the commit order.
    #[inline]
    #[must_use]
    pub fn seq(&self) -> SeqNo {
        SeqNo(join_groups(self.seq_groups))
    }
}

/// Appends `entry` without its value and without the first `shared` bytes of its key.
#[inline]
pub fn encode(keys: &mut Vec<u8>, entry: &EntryRef<'_>, shared: usize) {
    let suffix = &entry.key[shared..];
    let mut header = [0; HEADER_BYTES_MAX];
    header[0] = entry.kind as u8;
    let mut len = 1;
    for mut number in [shared as u64, suffix.len() as u64, entry.value.len() as u64, entry.seq.0] {
        // As `coding::put_varint`, but into an array: no capacity is checked per byte.
        while number >= 0x80 {
            header[len] = number as u8 | 0x80;
            number >>= 7;
            len += 1;
        }
        header[len] = number as u8;
        len += 1;
    }
    keys.extend_from_slice(&header[..len]);
    keys.extend_from_slice(suffix);
}

/// Decodes the entry at `at` of a key area that ends at `end`. The fast path may look at bytes
/// beyond `end`, but never takes them for the entry's.
///
/// # Errors
/// What is wrong with the bytes.
#[inline(always)]
pub fn decode(bytes: &[u8], at: usize, end: usize) -> Result<RawEntry<'_>, &'static str> {
    let head = bytes.get(at..).and_then(|rest| rest.first_chunk::<FAST_BYTES>());
    let Some(head) = head else {
        return decode_slow(bytes, at, end);
    };
    let [kind, shared, unshared, v0, v1, ..] = *head;
    if (shared | unshared) >= 0x80 || (v0 >= 0x80 && v1 >= 0x80) || kind > Kind::Put as u8 {
        return decode_slow(bytes, at, end);
    }
    let (value_len, seq_at) = if v0 < 0x80 {
        (usize::from(v0), 4)
    } else {
        (usize::from(v0 & 0x7f) | usize::from(v1) << 7, 5)
    };
    let word: [u8; 8] = head[seq_at..seq_at + 8].try_into().expect("invariant: 5 + 8 = 13");
    let word = u64::from_le_bytes(word);
    let stops = !word & 0x8080_8080_8080_8080;
    if stops == 0 {
        return decode_slow(bytes, at, end);
    }
    let bits = stops.trailing_zeros() + 1;
    let seq_groups = word & (u64::MAX >> (64 - bits));
    let start = at + seq_at + bits as usize / 8;
    let stop = start + usize::from(unshared);
    let kind = if kind == Kind::Put as u8 { Kind::Put } else { Kind::Delete };
    if stop > end || (kind == Kind::Delete && value_len > 0) {
        return decode_slow(bytes, at, end);
    }
    let suffix = bytes.get(start..stop).ok_or(CUT)?;
    Ok(RawEntry { kind, seq_groups, shared: usize::from(shared), suffix, value_len, end: stop })
}

/// The number whose seven-bit groups stand in the bytes of `word`, the low ones first.
#[inline]
fn join_groups(word: u64) -> u64 {
    let word = word & 0x7f7f_7f7f_7f7f_7f7f;
    let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
    (word & 0x0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4
}

/// The reverse of [`join_groups`], for the slow path.
fn split_groups(number: u64) -> u64 {
    (0..8).fold(0, |word, i| word | (number >> (7 * i) & 0x7f) << (8 * i))
}

/// As [`decode`], for every entry and with every refusal.
#[cold]
fn decode_slow(bytes: &[u8], at: usize, end: usize) -> Result<RawEntry<'_>, &'static str> {
    let mut reader = Reader::new(bytes.get(at..end).ok_or(CUT)?);
    let kind = reader.u8().ok_or(CUT)?;
    let kind = Kind::from_byte(kind).ok_or("an entry's kind or flag is reserved or unknown")?;
    let shared = reader.varint_usize().ok_or(CUT)?;
    let unshared = reader.varint_usize().ok_or(CUT)?;
    let value_len = reader.varint_usize().ok_or(CUT)?;
    let seq = reader.varint().ok_or(CUT)?;
    if shared > KEY_BYTES_MAX || unshared > KEY_BYTES_MAX - shared {
        return Err("a key is over its limit");
    }
    if seq > SeqNo::MAX.0
        || value_len > u32::MAX as usize
        || (kind == Kind::Delete && value_len > 0)
    {
        return Err("an entry's fields contradict each other");
    }
    let suffix = reader.take(unshared).ok_or(CUT)?;
    let end = end - reader.rest().len();
    Ok(RawEntry { kind, seq_groups: split_groups(seq), shared, suffix, value_len, end })
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_comes_back_from_either_path(
            shared in prop_oneof![0..200usize, 0..30_000usize],
            suffix in prop::collection::vec(any::<u8>(), 0..300),
            value_len in prop_oneof![0..300usize, 0..70_000usize],
            seq in prop_oneof![0..300u64, 0..=SeqNo::MAX.0],
            remove: bool,
            room in 0..20usize,
        ) {
            let key = [&vec![7; shared][..], &suffix].concat();
            let kind = if remove { Kind::Delete } else { Kind::Put };
            let value = vec![0; if remove { 0 } else { value_len }];
            let entry = EntryRef { key: &key, seq: SeqNo(seq), kind, value: &value };
            let mut bytes = vec![0xee; 3];
            encode(&mut bytes, &entry, shared);
            let end = bytes.len();
            bytes.resize(end + room, 0xee);
            for raw in [decode(&bytes, 3, end), decode_slow(&bytes, 3, end)] {
                let raw = raw.expect("just encoded");
                prop_assert_eq!((raw.kind, raw.seq(), raw.shared), (kind, SeqNo(seq), shared));
                prop_assert_eq!(raw.suffix, &suffix[..]);
                prop_assert_eq!((raw.value_len, raw.end), (value.len(), end));
            }
            for cut in 3..end {
                prop_assert!(decode(&bytes, 3, cut).is_err());
            }
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes: Vec<u8>, at in 0..20usize, end in 0..30usize) {
            let _ = decode(&bytes, at, end);
        }

        #[test]
        fn a_common_prefix_is_the_longest(a in "[ab]{0,20}", b in "[ab]{0,20}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let common = common_prefix(a, b);
            prop_assert_eq!(&a[..common], &b[..common]);
            prop_assert!(a.get(common).is_none() || a.get(common) != b.get(common));
        }
    }

    #[test]
    fn reserved_kinds_and_flags_are_refused() {
        for kind in 2..=255 {
            let bytes = [kind, 0, 1, 0, 1, b'k', 0, 0, 0, 0, 0, 0, 0, 0, 0];
            assert!(decode(&bytes, 0, 6).is_err());
        }
    }
}
