//! Values as data: literal bytes, or bytes made from a seed so that a long one stays a short word.
//!
//! Invariants
//! - A made value is a function of (seed, length) alone; no two words of it repeat, so bytes
//!   served from a wrong offset of the right value are seen.
//! - A made value does not compress; a literal run does. Both kinds are needed.
//! - [`Value::hash_pair`] and [`hash_pair`] agree on equal bytes.

/// What a put stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// These bytes.
    Bytes(Vec<u8>),
    /// `len` bytes made from `seed`.
    Made {
        /// Which bytes.
        seed: u32,
        /// How many.
        len: u32,
    },
}

impl Value {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Made { len, .. } => *len as usize,
        }
    }

    /// Whether it is the empty value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the bytes to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::Made { seed, len } => {
                let end = out.len() + *len as usize;
                out.reserve(*len as usize + 8);
                let mut index = 0;
                while out.len() < end {
                    out.extend_from_slice(&made_word(*seed, index).to_le_bytes());
                    index += 1;
                }
                out.truncate(end);
            }
        }
    }

    /// The bytes, on their own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_to(&mut out);
        out
    }

    /// Whether `got` is exactly this value.
    #[must_use]
    pub fn equals(&self, got: &[u8]) -> bool {
        match self {
            Self::Bytes(bytes) => bytes == got,
            Self::Made { seed, len } => {
                got.len() == *len as usize
                    && got
                        .chunks(8)
                        .zip(0u64..)
                        .all(|(c, i)| *c == made_word(*seed, i).to_le_bytes()[..c.len()])
            }
        }
    }

    /// The hash of this value under `key`, for sums over a whole state.
    #[must_use]
    pub fn hash_pair(&self, key: &[u8]) -> u64 {
        match self {
            Self::Bytes(bytes) => hash_pair(key, bytes),
            Self::Made { .. } => hash_pair(key, &self.to_vec()),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

fn made_word(seed: u32, index: u64) -> u64 {
    fold(u64::from(seed) ^ 0x51af_3d1b_9d6c_e4a7, index ^ 0xc3a5_c85c_97cb_3127)
}

/// The two halves of a 128-bit product, xored.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

fn absorb(mut state: u64, bytes: &[u8]) -> u64 {
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = fold(state ^ u64::from_le_bytes(word), 0x9fb2_1c65_1e98_df25);
        state = state.rotate_left(29).wrapping_add(0x2545_f491_4f6c_dd1d);
    }
    // The length closes the piece: without it a trailing zero byte would not count.
    fold(state ^ bytes.len() as u64, 0xd6e8_feb8_6659_fd93)
}

/// The hash of one (key, value) pair; the hash of a state is the wrapping sum of its pairs'.
#[must_use]
pub fn hash_pair(key: &[u8], value: &[u8]) -> u64 {
    absorb(absorb(0x8ebc_6af0_9c88_c6e3, key), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_value_equals_its_own_bytes_and_no_others() {
        for len in [0u32, 1, 7, 8, 9, 4096, 5001] {
            let value = Value::Made { seed: 3, len };
            let mut bytes = value.to_vec();
            assert_eq!(bytes.len(), len as usize);
            assert!(value.equals(&bytes));
            assert_eq!(value.hash_pair(b"k"), hash_pair(b"k", &bytes));
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
                assert!(!value.equals(&bytes));
                assert_ne!(value.hash_pair(b"k"), hash_pair(b"k", &bytes));
            }
        }
    }

    #[test]
    fn a_pair_hash_sees_where_the_key_ends_and_trailing_zeros() {
        assert_ne!(hash_pair(b"ab", b"c"), hash_pair(b"a", b"bc"));
        assert_ne!(hash_pair(b"a", b""), hash_pair(b"a", b"\0"));
        assert_ne!(hash_pair(b"", b"\0"), hash_pair(b"\0", b""));
    }
}
