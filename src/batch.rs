//! A batch of writes, encoded as the log holds it.
//!
//! Invariants
//! - A batch is all or nothing, across a crash and to every reader (A1).
//! - Its bytes are the log's: the leader copies them and encodes nothing again.
//! - Unknown record kinds, keyspaces and flags are refused, never skipped.

use crate::base::coding::{Reader, put_bytes, put_varint};
use crate::base::key::{KEY_BYTES_MAX, Kind};
use crate::error::{Error, Result};

/// What a record has beside key and value, at the most: its kind, keyspace and lengths.
const HEADER_BYTES_MAX: usize = 2 + 2 * 5;

/// Writes that become durable and visible together.
///
/// Later records win over earlier ones for the same key.
///
/// ```
/// let mut batch = kiban::WriteBatch::new();
/// batch.put(b"a", b"1");
/// batch.delete(b"b");
/// assert_eq!(batch.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    records: Vec<u8>,
    count: u32,
    key_bytes_max: usize,
    value_bytes_max: usize,
}

impl WriteBatch {
    /// A batch without writes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a write of `value` under `key`. A key has 0 to 65,535 bytes, a value no more than
    /// [`value_bytes_max`](crate::KibanOptions::value_bytes_max); both are checked when the batch
    /// is written.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        let (key, value) = (key.as_ref(), value.as_ref());
        // At once: growing step by step would allocate three times for a batch of one.
        self.records.reserve(key.len() + value.len() + HEADER_BYTES_MAX);
        self.begin(Kind::Put, key);
        put_bytes(&mut self.records, value);
        self.value_bytes_max = self.value_bytes_max.max(value.len());
        self
    }

    /// Adds a removal of `key`, whether it exists or not.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.begin(Kind::Delete, key.as_ref());
        self
    }

    fn begin(&mut self, kind: Kind, key: &[u8]) {
        self.records.push(kind as u8);
        put_varint(&mut self.records, 0);
        put_bytes(&mut self.records, key);
        self.count += 1;
        self.key_bytes_max = self.key_bytes_max.max(key.len());
    }

    /// The number of writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The size in bytes, as the log counts it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.records.len()
    }

    /// Takes the writes out and keeps the memory.
    pub fn clear(&mut self) {
        self.records.clear();
        self.count = 0;
        self.key_bytes_max = 0;
        self.value_bytes_max = 0;
    }

    pub(crate) fn records(&self) -> &[u8] {
        &self.records
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Refuses what no log record may hold, before anything reaches the log.
    pub(crate) fn check(&self, value_bytes_max: usize, batch_bytes_max: usize) -> Result<()> {
        // A single write is bounded by its key and value: the longest value fits.
        let batch_bytes = if self.count > 1 { self.records.len() } else { 0 };
        let limits = [
            ("key", self.key_bytes_max, KEY_BYTES_MAX),
            ("value", self.value_bytes_max, value_bytes_max),
            ("batch", batch_bytes, batch_bytes_max),
        ];
        for (what, bytes, bytes_max) in limits {
            if bytes > bytes_max {
                let (bytes, bytes_max) = (bytes as u64, bytes_max as u64);
                return Err(Error::TooLarge { what, bytes, bytes_max });
            }
        }
        Ok(())
    }
}

/// One record of a batch, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Whether it sets or removes.
    pub kind: Kind,
    /// The user key.
    pub key: &'a [u8],
    /// The value; empty for a removal.
    pub value: &'a [u8],
}

/// Reads the records that `bytes` hold; after an error it yields nothing more.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    reader: Reader<'a>,
}

impl<'a> Records<'a> {
    /// A reader at the first record.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(bytes) }
    }

    fn record(&mut self) -> Result<RecordRef<'a>, &'static str> {
        let byte = self.reader.u8().ok_or("a record kind")?;
        let kind = Kind::from_byte(byte).ok_or("a record kind that this version knows")?;
        let keyspace = self.reader.varint().ok_or("a keyspace id")?;
        if keyspace != 0 {
            return Err("keyspace 0, the only one in this version");
        }
        let key = self.reader.bytes().ok_or("a key")?;
        if key.len() > KEY_BYTES_MAX {
            return Err("a key of at most 65,535 bytes");
        }
        let value = match kind {
            Kind::Put => self.reader.bytes().ok_or("a value")?,
            Kind::Delete => &[],
        };
        Ok(RecordRef { kind, key, value })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordRef<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(record)
    }
}

/// The number of records in `bytes`, or what was expected where they are not records.
///
/// # Errors
/// What was expected at the first place that is not a record.
pub fn count_records(bytes: &[u8]) -> Result<u32, &'static str> {
    let mut count = 0u32;
    for record in Records::new(bytes) {
        record?;
        count = count.checked_add(1).ok_or("fewer than 2^32 records")?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_come_back_in_order() {
        let mut batch = WriteBatch::new();
        batch.put(b"", b"").delete(b"k").put(b"k", vec![7; 300]);
        let records: Vec<_> =
            Records::new(batch.records()).collect::<Result<_, _>>().expect("we encoded them");
        assert_eq!(records[0], RecordRef { kind: Kind::Put, key: b"", value: b"" });
        assert_eq!(records[1], RecordRef { kind: Kind::Delete, key: b"k", value: b"" });
        assert_eq!(records[2].value, [7; 300]);
        assert_eq!(count_records(batch.records()), Ok(3));
    }

    #[test]
    fn reserved_kinds_flags_and_keyspaces_are_refused() {
        for bytes in [&[2u8, 0, 0][..], &[0x11, 0, 0, 0], &[1, 1, 0, 0], &[1, 0, 5, 1]] {
            assert!(count_records(bytes).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let read = Records::new(&bytes).take_while(Result::is_ok).count();
            prop_assert!(read <= bytes.len());
        }
    }
}
