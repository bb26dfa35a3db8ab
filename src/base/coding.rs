//! Little-endian integers, varints and length-prefixed bytes.
//!
//! Invariants
//! - A [`Reader`] takes any bytes without panic; a length is checked before it allocates.
//! - Varints are the shortest form: a longer one for the same number is refused, so that equal
//!   values have equal bytes.

/// Appends a fixed-width integer.
macro_rules! put_fixed {
    ($name:ident, $ty:ty, $doc:literal) => {
        #[doc = $doc]
        #[inline]
        pub fn $name(buf: &mut Vec<u8>, value: $ty) {
            buf.extend_from_slice(&value.to_le_bytes());
        }
    };
}
put_fixed!(put_u16, u16, "Appends a little-endian u16.");
put_fixed!(put_u32, u32, "Appends a little-endian u32.");
put_fixed!(put_u64, u64, "Appends a little-endian u64.");
put_fixed!(put_u128, u128, "Appends a little-endian u128.");

/// Appends a varint: seven bits a byte, the low ones first, the high bit set on all but the last.
#[inline]
pub fn put_varint(buf: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        buf.push((value as u8) | 0x80);
        value >>= 7;
    }
    buf.push(value as u8);
}

/// The bytes that [`put_varint`] takes for `value`.
#[inline]
#[must_use]
pub fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends a length as a varint, then the bytes.
#[inline]
pub fn put_bytes(buf: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(buf, bytes.len() as u64);
    buf.extend_from_slice(bytes);
}

/// The length of `bytes` without the zeros at their end.
#[must_use]
pub fn used_len(bytes: &[u8]) -> usize {
    let mut len = bytes.len();
    while bytes[..len].ends_with(&[0; 4096]) {
        len -= 4096;
    }
    while bytes[..len].ends_with(&[0; 64]) {
        len -= 64;
    }
    bytes[..len].iter().rposition(|&b| b != 0).map_or(0, |last| last + 1)
}

/// Reads values off the front of a slice; `None` when the bytes do not hold one.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What has not been read yet.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether everything has been read.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    /// The next little-endian u16.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next little-endian u32.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next little-endian u64.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next little-endian u128.
    #[inline]
    pub fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// The next varint.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (i, &byte) in self.bytes.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            if i == 9 && byte > 1 {
                return None;
            }
            value |= bits << (7 * i);
            if byte < 0x80 {
                if byte == 0 && i > 0 {
                    return None;
                }
                self.bytes = &self.bytes[i + 1..];
                return Some(value);
            }
        }
        None
    }

    /// The next varint as a usize.
    #[inline]
    pub fn varint_usize(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    /// The next length-prefixed bytes.
    #[inline]
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.varint_usize()?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_come_back_in_their_stated_length(value: u64) {
            let mut buf = Vec::new();
            put_varint(&mut buf, value);
            prop_assert_eq!(buf.len(), varint_len(value));
            let mut reader = Reader::new(&buf);
            prop_assert_eq!(reader.varint(), Some(value));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while reader.bytes().is_some() {}
            let _ = (reader.u8(), reader.u16(), reader.u32(), reader.u64(), reader.u128());
            prop_assert!(reader.rest().len() <= bytes.len());
        }
    }

    #[test]
    fn the_used_length_ends_at_the_last_byte_that_is_not_zero() {
        for used in [0, 1, 63, 64, 65, 4096, 5000] {
            for zeros in [0, 1, 64, 4095, 4096, 9000] {
                let bytes = [vec![1; used], vec![0; zeros]].concat();
                assert_eq!(used_len(&bytes), used);
            }
        }
    }

    #[test]
    fn an_overlong_or_overflowing_varint_is_refused() {
        assert_eq!(Reader::new(&[0x80, 0x00]).varint(), None);
        assert_eq!(Reader::new(&[0xff; 10]).varint(), None);
        assert_eq!(Reader::new(&[0x80]).varint(), None);
    }
}
