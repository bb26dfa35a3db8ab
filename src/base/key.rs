//! Keys, sequence numbers and ids, each a type of its own.
//!
//! Invariants
//! - Entries are ordered by user key ascending, then by sequence descending: the newest version
//!   of a key comes first.
//! - One sequence number belongs to one record, ever (C2).

use std::cmp::Ordering;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 65_535;

/// A place in the commit order. The first write has 1; 0 is "before every write".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// Before every write.
    pub const ZERO: Self = Self(0);
    /// The largest sequence number: 56 bits, so that a kind fits beside it in a word.
    pub const MAX: Self = Self((1 << 56) - 1);

    /// The next sequence number.
    #[must_use]
    pub fn next(self) -> Self {
        self.plus(1)
    }

    /// `n` places later.
    #[must_use]
    pub fn plus(self, n: u64) -> Self {
        assert!(n <= Self::MAX.0 - self.0, "sequence numbers are exhausted");
        Self(self.0 + n)
    }
}

/// What a record does. On disk the low four bits of a kind byte; the high four are per-entry
/// flags, all reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Removes the key. Reserved beside it: 2 range delete, 3 single delete, 4 merge, 5 blob
    /// pointer.
    Delete = 0,
    /// Sets the key's value.
    Put = 1,
}

impl Kind {
    /// The kind that a byte on disk stands for; `None` for reserved or unknown ones and for flags.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Delete),
            1 => Some(Self::Put),
            _ => None,
        }
    }
}

/// One version of one key, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The user key.
    pub key: &'a [u8],
    /// Its place in the commit order.
    pub seq: SeqNo,
    /// Whether it sets or removes.
    pub kind: Kind,
    /// The value; empty for a removal.
    pub value: &'a [u8],
}

/// Compares (key, sequence) pairs in entry order.
#[inline]
#[must_use]
pub fn cmp_entries(a_key: &[u8], a_seq: SeqNo, b_key: &[u8], b_seq: SeqNo) -> Ordering {
    a_key.cmp(b_key).then(b_seq.cmp(&a_seq))
}

/// The first eight bytes of a key as a number that orders as they do; a shorter key is filled up
/// with zeros. Unequal prefixes decide a comparison of keys, equal ones decide nothing.
#[inline]
#[must_use]
pub fn key_prefix(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut filled = [0; 8];
            filled[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(filled)
        }
    }
}

/// The smallest key above every key that starts with `prefix`; `None` where there is no such key
/// (the prefix is empty or all 0xFF).
#[must_use]
pub fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&b| b != 0xff)?;
    let mut successor = prefix[..=last].to_vec();
    successor[last] += 1;
    Some(successor)
}

/// The number in a file's name. Logs, tables and manifests draw from one counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

impl FileNumber {
    /// No file of ours has a number as large: reserving numbers above any that is found on disk
    /// never comes to an end.
    pub const MAX: Self = Self(1 << 56);

    /// The next number.
    #[must_use]
    pub fn next(self) -> Self {
        assert!(self.0 < u64::MAX, "file numbers are exhausted");
        Self(self.0 + 1)
    }
}

/// Identity of a database: in every log and manifest checksum. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseId(pub u128);

/// Identity of a table, its own wherever it is linked or copied: in every block checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u128);

/// A place in the chain of logs: everything before it, in older logs too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// The log's file number; 0 for "before every log".
    pub log: FileNumber,
    /// A byte offset in it.
    pub offset: u64,
}

/// A place in the chain of manifests: everything up to frame `index` of manifest `number`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManifestMark {
    /// The manifest's file number; 0 for "no manifest".
    pub number: FileNumber,
    /// The index of a frame in it.
    pub index: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_comes_first_and_a_shorter_key_before_its_extension() {
        assert_eq!(cmp_entries(b"a", SeqNo(2), b"a", SeqNo(1)), Ordering::Less);
        assert_eq!(cmp_entries(b"a", SeqNo(1), b"a\0", SeqNo(9)), Ordering::Less);
    }

    #[test]
    fn unequal_key_prefixes_order_as_the_keys_do() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0", b"aaaaaaaa", b"aaaaaaaab"];
        for pair in keys.windows(2) {
            assert!(key_prefix(pair[0]) <= key_prefix(pair[1]));
        }
        assert!(key_prefix(b"a\0") < key_prefix(b"a\0\x01"));
        assert_eq!(key_prefix(b"aaaaaaaa"), key_prefix(b"aaaaaaaab"));
    }

    #[test]
    fn prefix_successor_is_the_least_upper_bound() {
        assert_eq!(prefix_successor(b""), None);
        assert_eq!(prefix_successor(&[0xff, 0xff]), None);
        assert_eq!(prefix_successor(&[1, 0xff]), Some(vec![2]));
        assert_eq!(prefix_successor(&[1, 2]), Some(vec![1, 3]));
    }
}
